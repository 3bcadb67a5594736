"""Recipes where the log has forgotten: it is small, and went round after what matters."""

from __future__ import annotations

import random
import time

from sample_images.recipes.contents import text
from sample_images.recipes.layouts import plant_fragmented
from sample_images.recipes.logwalk import copies_in_log
from sample_images.recipes.ondisk import Disk
from sample_images.recipes.recipe import MIB, Recipe, make_ballast, plant, shuffled, wrap_log
from sample_images.recipes.stage import Stage

SMALL_LOG = ("-t", "ext4", "-J", "size=4")
LONG_AGO = 3.0  # seconds; what changed within two of a removal may have lost blocks in it


def _tree(stage: Stage) -> None:
    """Nested folders with files that have four lines to some ten KiB, none of them empty."""
    plant(stage, "tree", 120)
    for folder in range(12):
        for at in range(40):
            name = f"tree/{folder:02d}/deeper/note-{at:03d}-of-folder-{folder:02d}.txt"
            size = random.Random(name).randint(100, 12_000)
            stage.write(name, text(name, size))


def leaves_wrapped(stage: Stage) -> None:
    """Fragmented files and a tree removed, the log gone round before and after."""
    ballast = make_ballast(stage, 1600)
    fragmented = plant_fragmented(stage)
    _tree(stage)
    stage.remount()
    wrap_log(stage, ballast, 12)
    stage.remove(shuffled(fragmented, "leaves"))
    stage.remove_tree("tree")
    wrap_log(stage, ballast, 14)


def roots_taken(stage: Stage) -> None:
    """As `leaves_wrapped`, and then empty files take the inodes: no root is left on disk."""
    leaves_wrapped(stage)
    for at in range(1200):
        stage.path(f"ballast/late-{at:05d}").touch()
    stage.sync()


def descriptor_gone(stage: Stage) -> None:
    """Removed, and the log goes on until descriptors are overwritten, what they named is not."""
    ballast = make_ballast(stage, 1280)
    fragmented = plant_fragmented(stage)
    _tree(stage)
    stage.remount()
    wrap_log(stage, ballast, 14)
    doomed = fragmented + stage.files("tree")
    for path in doomed:
        stage.path(path).chmod(0o640)
    stage.sync()
    stage.remove(shuffled(fragmented, "leaves"))
    stage.remove_tree("tree")
    stage.sync()
    wanted = {state.slot.map_bytes for state in stage.book}
    for number in range(200):
        for path in ballast[:96:16]:
            stage.path(path).chmod(0o600 + number % 8)
        stage.sync()
        with Disk(stage.device) as disk:
            copies = copies_in_log(disk)
        loose = {
            block[at + 40 : at + 100] for block in copies.undescribed for at in range(0, 4096, 256)
        }
        if 2 * len(wanted & loose) > len(wanted):
            return


def one_by_one(stage: Stage) -> None:
    """Files far from each other in the inode table, each removed in a transaction of its own."""
    ballast = make_ballast(stage, 1600)
    paths = [f"old/file-{at:04d}".encode() for at in range(stage.count(640, 320))]
    for path in paths:
        name = path.decode()
        stage.write(path, text(name, random.Random(name).randint(100, 30_000)))
    stage.remount()
    wrap_log(stage, ballast, 14)
    time.sleep(LONG_AGO)
    for at, path in enumerate(paths[8::16]):
        stage.write(f"new/{at:04d}", text(f"new {at}", 5000))
        stage.sync()
        stage.remove([path])
        stage.sync()


def large_files(stage: Stage) -> None:
    """Files of some blocks up to more than one indirect block maps, the log gone round."""
    ballast = make_ballast(stage, 800)
    sizes = [60_000 + 17_000 * at for at in range(24)] + [4_200_000, 5_000_000, 9_000_001]
    paths = [f"large/{at:02d}.txt".encode() for at in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        stage.write(path, text(path.decode(), size))
        stage.write(path.replace(b"large", b"between"), b"in between")
    stage.remount()
    stage.remove(shuffled(paths, "large"))
    wrap_log(stage, ballast, 26)


def large_and_scattered(stage: Stage) -> None:
    """As `leaves_wrapped`, with large files beside them that lie in one piece each."""
    paths = [f"large/{at:02d}.txt".encode() for at in range(8)]
    for at, path in enumerate(paths):
        stage.write(path, text(path.decode(), 60_000 + 30_000 * at))
    stage.sync()
    leaves_wrapped(stage)
    stage.remove(paths)


RECIPES = (
    Recipe("ext3_large", "files with indirect blocks, log wrapped", large_files,
           ("-t", "ext3", "-J", "size=4"), size=64 * MIB, small_size=64 * MIB),
    Recipe("ext2_large", "the same without a journal", large_files,
           ("-t", "ext2"), size=64 * MIB, small_size=64 * MIB),
    Recipe("one_by_one", "one file a transaction", one_by_one, SMALL_LOG,
           size=64 * MIB, small_size=64 * MIB),
    Recipe("leaves_wrapped", "leaves and a tree, log wrapped", leaves_wrapped, SMALL_LOG,
           size=192 * MIB, small_size=64 * MIB),
    Recipe("roots_taken", "the inodes are taken by others as well", roots_taken, SMALL_LOG,
           size=192 * MIB, small_size=64 * MIB),
    Recipe("descriptor_gone", "copies without a descriptor", descriptor_gone, SMALL_LOG,
           size=192 * MIB, small_size=64 * MIB),
    Recipe("no_sums_wrapped", "the same without checksums", leaves_wrapped,
           (*SMALL_LOG, "-O", "^metadata_csum"), size=192 * MIB, small_size=64 * MIB),
    Recipe("no_journal", "no journal at all", leaves_wrapped,
           ("-t", "ext4", "-O", "^has_journal"), size=192 * MIB, small_size=64 * MIB),
    Recipe("ext3_wrapped", "indirect blocks, log wrapped", large_and_scattered,
           ("-t", "ext3", "-J", "size=4"), size=192 * MIB, small_size=64 * MIB),
    Recipe("small_blocks", "blocks of 1 KiB", leaves_wrapped,
           (*SMALL_LOG, "-b", "1024"), size=192 * MIB, small_size=64 * MIB),
)  # fmt: skip
