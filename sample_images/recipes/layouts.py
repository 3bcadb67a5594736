"""Recipes for what file systems can look like: block sizes, maps, features, fragmentation."""

from __future__ import annotations

import random

from sample_images.recipes.contents import noise, text
from sample_images.recipes.recipe import MIB, Recipe, make_ballast, plant, shuffled, wrap_log
from sample_images.recipes.stage import Stage

EXT4 = ("-t", "ext4", "-J", "size=8")


def two_mounts(stage: Stage) -> None:
    """Files of two mounts, removed in the second and in a third."""
    first = plant(stage, "first", 150)
    stage.remount()
    second = plant(stage, "second", 100)
    plant(stage, "keep", 40)
    stage.remove(shuffled(first, "one")[::2] + second[::2])
    stage.remount()
    stage.remove(shuffled(first, "one")[1::2])


def plant_fragmented(stage: Stage) -> list[bytes]:
    """Files with many extents: sieves with holes, and dense ones written in two passes."""
    sieves = [f"vm/sieve-{at:02d}.img".encode() for at in range(stage.count(20, 12))]
    dense = [f"vm/dense-{at:02d}.img".encode() for at in range(stage.count(20, 12))]
    lengths = {path: _pieces(stage, path) for path in sieves + dense}
    for path in sieves + dense:
        stage.write(path, b"")
        stage.add(path, ((at * 8192, _piece(path, at, stage)) for at in range(lengths[path])))
    stage.sync()
    for path in dense:
        rest = ((at * 8192 + 4096, text(f"{path!r} odd {at}", 4096)) for at in range(lengths[path]))
        stage.add(path, rest)
    return sieves + dense


def _pieces(stage: Stage, path: bytes) -> int:
    choices = (6, 12, 40) if stage.small else (6, 12, 40, 150, 339, 341, 700)
    return random.Random(f"pieces {path!r}").choice(choices)


def _piece(path: bytes, at: int, stage: Stage) -> bytes:
    seed = f"{path!r} even {at}"
    return text(seed, 4096) if stage.small or at % 3 else noise(seed, 4096)


def large_extent_leaves(stage: Stage) -> None:
    """Fragmented files, removed in a later mount."""
    fragmented = plant_fragmented(stage)
    others = plant(stage, "others", 60, 12)
    stage.remount()
    stage.remove(shuffled(fragmented, "leaves") + others[::2])


def stale_index(stage: Stage) -> None:
    """Fragmented files removed, and then the log goes round: only the leaves remain."""
    ballast = make_ballast(stage, 1600)
    fragmented = plant_fragmented(stage)
    stage.remount()
    stage.remove(fragmented)
    wrap_log(stage, ballast, 14)


def stale_reuse(stage: Stage) -> None:
    """As `stale_index`, but others had part of the space in between, went, and are forgotten."""
    ballast = make_ballast(stage, 1600)
    fragmented = plant_fragmented(stage)
    stage.remount()
    stage.remove(fragmented)
    stage.sync()
    fillers = [f"fill/{at:03d}.bin".encode() for at in range(20)]
    for path in fillers:
        stage.write(path, noise(path.decode(), 200_000))
    stage.remove(fillers)
    wrap_log(stage, ballast, 14)


def _two_mounts(
    name: str, about: str, *options: str, mount_options: str = "", small_size: int = 0
) -> Recipe:
    return Recipe(
        name, about, two_mounts, options, mount_options=mount_options, small_size=small_size
    )


RECIPES = (
    Recipe(
        "large_extent_leaves", "fragmented files with extent leaves", large_extent_leaves,
        EXT4, size=256 * MIB, small_size=48 * MIB,
    ),
    Recipe(
        "stale_index", "fragmented files, the log went round afterwards", stale_index,
        ("-t", "ext4", "-J", "size=4"), size=256 * MIB,
    ),
    Recipe(
        "stale_reuse", "stale index, data blocks reused by files nobody remembers", stale_reuse,
        ("-t", "ext4", "-J", "size=4"), size=128 * MIB,
    ),
    _two_mounts("ext3", "indirect blocks", "-t", "ext3", "-J", "size=8", small_size=32 * MIB),
    _two_mounts("ext2", "no journal: little is left", "-t", "ext2"),
    _two_mounts("block_1k", "blocks of 1 KiB", *EXT4, "-b", "1024"),
    _two_mounts("inode_128", "inodes of 128 bytes", *EXT4, "-I", "128"),
    _two_mounts("no_metadata_csum", "no checksums", *EXT4, "-O", "^metadata_csum"),
    _two_mounts("bigalloc", "clusters of 16 KiB", *EXT4, "-O", "bigalloc", "-C", "16384"),
    _two_mounts("inline_data", "small files inside the inode", *EXT4, "-O", "inline_data"),
    _two_mounts("meta_bg", "descriptors spread", *EXT4, "-O", "meta_bg,^resize_inode"),
    _two_mounts("data_journal", "data in the log", "-t", "ext4", "-J", "size=32",
                mount_options="data=journal"),
)  # fmt: skip
