"""The reading matrix: one small image for each combination of features, and its oracle.

`build` makes an image with mke2fs, fills it through the kernel and lets the kernel read it
back. What this kernel cannot mount is filled by `mke2fs -d` and read back by debugfs.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.environment import missing, skip_if_revision_0
from tests.environment.kernel import missing_for_kernel
from tests.environment.sharing import built_once
from tests.filesystem import matrix_filling as filling
from tests.filesystem.matrix_oracle import Tree, debugfs, debugfs_tree, kernel_tree

TEBIBYTE = 1 << 40
Step = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Combination:
    """One file system to make.

    Attributes:
        options: for mke2fs.
        block_size: bytes.
        extents: whether new files are mapped by extents.
        far_offset: where the file with a huge offset has its last data, bytes; 0 for none.
        attributes: whether extended attributes and ACLs are set.
        entries: entries of the big directory.
        pattern: of the names in the big directory.
        prepare: commands that take the empty image behind them.
        extra: further filling.
        middle: commands between a first and a second filling; empty for one filling.
        finish: commands that take the image behind them, after the filling.
        unreplayed: the filling ends with a cut, and the oracle replays a copy.
        mountable: False when the tree has to come from `mke2fs -d` and debugfs.
        edits: debugfs requests at the end, for what mke2fs cannot make.
    """

    name: str
    options: str
    megabytes: int = 96
    block_size: int = 4096
    extents: bool = True
    far_offset: int = TEBIBYTE
    attributes: bool = True
    entries: int = 5000
    pattern: str = "{:06d}"
    prepare: tuple[str, ...] = ()
    extra: tuple[Step, ...] = ()
    middle: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()
    unreplayed: bool = False
    mountable: bool = True
    edits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """An image and what an oracle says is in it."""

    combination: Combination
    image: Path
    tree: Tree


_ext3_to_ext4 = ("tune2fs -O extents,dir_index", "e2fsck -fyD", "tune2fs -O huge_file,dir_nlink")

COMBINATIONS = (
    Combination("default", "-t ext4"),
    Combination("1k_blocks", "-t ext4", block_size=1024),
    Combination("2k_blocks", "-t ext4", block_size=2048),
    Combination("not_64bit", "-t ext4 -O ^64bit,^metadata_csum"),
    Combination("not_64bit_csum", "-t ext4 -O ^64bit"),
    Combination("wide_descriptors", "-t ext4 -E desc_size=128", block_size=1024),
    Combination("meta_bg", "-t ext4 -O meta_bg,^resize_inode", block_size=1024),
    Combination("no_flex_bg", "-t ext4 -O ^flex_bg"),
    Combination("sparse_super2", "-t ext4 -O sparse_super2", block_size=1024),
    Combination("uninit_bg", "-t ext4 -O ^metadata_csum,uninit_bg"),
    Combination("no_checksums", "-t ext4 -O ^metadata_csum,^uninit_bg"),
    Combination("bigalloc", "-t ext4 -O bigalloc -C 65536", 192),
    Combination("bigalloc_1k", "-t ext4 -O bigalloc -C 16384", block_size=1024),
    Combination(
        "csum_seed", "-t ext4 -O metadata_csum_seed", finish=("tune2fs -U random",), entries=500
    ),
    Combination("packed", "-t ext4 -E packed_meta_blocks=1", entries=500),
    Combination("small_groups", "-t ext4 -g 4096 -G 4 -N 2000", entries=500),
    Combination(
        "no_sparse_super", "-t ext4 -g 2048 -O ^sparse_super,^flex_bg,^resize_inode", entries=500
    ),
    Combination(
        "shrunk", "-t ext4", block_size=1024, finish=("e2fsck -fy", "resize2fs -M"), entries=500
    ),
    Combination(
        "made_64bit", "-t ext4 -O ^64bit", finish=("e2fsck -fy", "resize2fs -b"), entries=500
    ),
    Combination("not_huge_file", "-t ext4 -O ^huge_file"),
    Combination(
        "large_dir",
        "-t ext4 -O large_dir",
        192,
        block_size=1024,
        entries=45_000,
        pattern="z" * 160 + "{:06d}",
    ),
    Combination("ea_inode", "-t ext4 -O ea_inode", extra=(filling.large_values,)),
    Combination("inline_data", "-t ext4 -O inline_data"),
    Combination("inline_data_1k", "-t ext4 -O inline_data -I 1024", block_size=1024),
    Combination("encrypt", "-t ext4 -O encrypt", extra=(filling.encrypted,), entries=500),
    Combination("inode_128", "-t ext4 -I 128"),
    Combination("inode_512", "-t ext4 -I 512", entries=500),
    Combination("inode_1024", "-t ext4 -I 1024", entries=500),
    Combination("ext3", "-t ext3", extents=False),
    Combination("ext3_1k", "-t ext3", block_size=1024, extents=False, far_offset=15 << 30),
    Combination("ext2", "-t ext2", extents=False),
    Combination("ext2_1k", "-t ext2", block_size=1024, extents=False, far_offset=15 << 30),
    Combination(  # a kernel that sets an attribute or a size of 2 GiB makes it revision 1
        "revision_0",
        "-t ext2 -r 0 -O none",
        block_size=1024,
        extents=False,
        far_offset=0,
        attributes=False,
    ),
    Combination("no_extents", "-t ext4 -O ^extents,^64bit", extents=False),
    Combination("ext3_then_ext4", "-t ext3", extents=False, middle=_ext3_to_ext4, entries=2000),
    Combination(
        "project_quota",
        "-t ext4",
        finish=("tune2fs -O project", "tune2fs -O quota", "tune2fs -Q prjquota"),
        edits=("sif sizes/700 projid 4000000", "sif directories projid 77"),
    ),
    Combination("mmp", "-t ext4", finish=("tune2fs -O mmp",), entries=500),
    Combination("orphan_file", "-t ext4 -O orphan_file", entries=500),
    Combination("no_journal", "-t ext4 -O ^has_journal", entries=500),
    Combination("no_resize_inode", "-t ext4 -O ^resize_inode", entries=500),
    Combination("no_dir_index", "-t ext4 -O ^dir_index", entries=500),
    Combination("no_filetype", "-t ext4 -O ^filetype"),
    Combination("tea_hash", "-t ext4", prepare=("tune2fs -E hash_alg=tea",), entries=2000),
    Combination("verity", "-t ext4", finish=("tune2fs -O verity",), entries=500),
    Combination("unreplayed", "-t ext4", extra=(filling.cut_power,), unreplayed=True),
    Combination(
        "unreplayed_1k",
        "-t ext4 -O ^64bit",
        block_size=1024,
        extra=(filling.cut_power,),
        unreplayed=True,
    ),
    Combination(
        "fast_commit",
        "-t ext4 -O fast_commit",
        extra=(filling.cut_fast_commits,),
        unreplayed=True,
    ),
    Combination("8k_blocks", "-t ext4", block_size=8192, mountable=False),
    Combination("16k_blocks", "-t ext4", block_size=16384, mountable=False),
    Combination("64k_blocks", "-t ext4", 256, block_size=65536, mountable=False),
    Combination(
        "casefold",
        "-t ext4 -O casefold",
        mountable=False,
        edits=("mkdir folded", "sif folded flags 0x40080000"),
    ),
)


TOOLS = ("chattr", "debugfs", "e2fsck", "fallocate", "mke2fs", "resize2fs", "setfacl", "tune2fs")


def kernel_missing() -> str:
    """Why no combination can be built here, or an empty string."""
    return missing_for_kernel() or missing(*TOOLS)


def run(command: str, *paths: Path, accepted: tuple[int, ...] = (0,)) -> str:
    """The output of a program; `paths` follow the words of `command`.

    Raises:
        RuntimeError: its exit code is not among `accepted`.
    """
    words = [*command.split(), *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if done.returncode not in accepted:
        raise RuntimeError(f"{words} -> {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


@contextmanager
def mounted(image: Path, options: str = "rw") -> Iterator[Path]:
    """The image's file system at a mount point of its own, for the time of the context."""
    folder = Path(tempfile.mkdtemp(prefix="ext4kit-mount-"))
    try:
        run(f"mount -t ext4 -o loop,{options}", image, folder)
        try:
            yield folder
        finally:
            run("umount", folder)
    finally:
        folder.rmdir()


def make(combination: Combination, image: Path, source: Path | None = None) -> None:
    """An empty file system, or one with a copy of `source`."""
    skip_if_revision_0(combination.options)
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(combination.megabytes << 20)
    copied = f"-d {source}" if source else ""
    run(f"mke2fs -q -F -b {combination.block_size} {combination.options} {copied}", image)


def fill(root: Path, combination: Combination) -> None:
    """Files of every kind that this combination can hold."""
    block_size = combination.block_size
    filling.sizes(root)
    filling.sparse(root)
    filling.links(root, min(4000, block_size - 2))
    filling.special(root)
    filling.owners(root)
    filling.names(root)
    filling.times(root)
    filling.directories(root, combination.entries, combination.pattern)
    if combination.attributes:
        filling.xattrs(root, min(block_size, 4096))
        filling.acls(root)
    filling.fragmented(root, block_size, 1400 if block_size <= 4096 else 20)


def fill_mounted(root: Path, combination: Combination) -> None:
    """What `fill` makes, and what only ext4 itself can hold."""
    fill(root, combination)
    filling.flags(root)
    if combination.far_offset:
        filling.far(root, combination.far_offset)
    if combination.extents:
        filling.preallocated(root)
    else:
        filling.mapped_levels(root, combination.block_size)
    for step in combination.extra:
        step(root)


def _build_mounted(combination: Combination, image: Path) -> Tree:
    """Fill through the kernel, in one go or in two, and read back through the kernel."""
    make(combination, image)
    for command in combination.prepare:
        run(command, image)
    if combination.middle:
        with mounted(image) as root:
            (root / "before").mkdir()
            fill_mounted(root / "before", combination)
        for command in combination.middle:
            run(command, image, accepted=(0, 1))
    cut = image.with_suffix(".cut")
    with mounted(image) as root:
        fill_mounted(root, combination)
        if combination.unreplayed:  # an unmount would still write what only the log has
            run("cp --sparse=always", image, cut)
    if combination.unreplayed:
        cut.replace(image)
    for command in combination.finish:
        run(command, image)
    if combination.edits:  # debugfs waits ten seconds before it writes where mmp is on
        debugfs(image, *combination.edits, write=True)
    return replayed_tree(image) if combination.unreplayed else clean_tree(image)


def clean_tree(image: Path) -> Tree:
    """What the kernel reads without touching the log."""
    with mounted(image, "ro,noload") as root:
        return kernel_tree(root)


def replayed_tree(image: Path) -> Tree:
    """What the kernel reads from a copy whose log it has replayed."""
    copy = image.with_suffix(".replayed")
    run("cp --sparse=always", image, copy)
    try:
        with mounted(copy):
            pass
        return clean_tree(copy)
    finally:
        copy.unlink()


def _build_offline(combination: Combination, image: Path) -> Tree:
    """Copy a folder in with mke2fs and read back through debugfs."""
    source = image.with_suffix(".source")
    source.mkdir()
    try:
        fill(source, combination)
        make(combination, image, source)
        if combination.edits:
            debugfs(image, *combination.edits, write=True)
        return debugfs_tree(image, source)
    finally:
        shutil.rmtree(source)


def build(combination: Combination, image: Path) -> Built:
    """The image of a combination, made anew at `image`, with its oracle's tree."""
    builder = _build_mounted if combination.mountable else _build_offline
    return Built(combination, image, builder(combination, image))


@cache
def built(name: str) -> Built:
    """The combination of that name, built once in a run."""
    combination = next(one for one in COMBINATIONS if one.name == name)
    return built_once(f"matrix-{name}", lambda folder: build(combination, folder / f"{name}.img"))
