"""Every block of an image is what debugfs and The Sleuth Kit say it is."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import ext4kit as library
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.inodes import RESIZE
from ext4kit.journal.block_types import BlockRole
from ext4kit.owners import BlockOwners, PresentUses
from ext4kit.owners.answers import who
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.workspace import Workspace
from tests.conftest import Images

SAMPLES = ("rm_rf_tree", "ext3", "power_cut", "large_extent_leaves", "removed_on_5_10")
SHAPES = {
    "ext2, 1 KiB": ("-t", "ext2", "-b", "1024"),
    "ext3, 2 KiB": ("-t", "ext3", "-b", "2048"),
    "ext4, 1 KiB": ("-t", "ext4", "-b", "1024"),
    "bigalloc": ("-t", "ext4", "-O", "bigalloc", "-C", "16384"),
    "meta_bg": ("-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"),
    "many groups": ("-t", "ext4", "-b", "1024", "-g", "1024", "-O", "sparse_super2,^resize_inode"),
    "inodes with data": ("-t", "ext4", "-O", "mmp,quota,inline_data,orphan_file"),
}
FIRST_FILE = 12
AT_ONCE = 4000  # blocks of one call of icheck


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all kinds that use blocks."""
    root = tmp_path_factory.mktemp("owners")
    (root / "sub").mkdir()
    for at in range(30):
        (root / "sub" / f"file {at}").write_bytes(bytes([at + 1]) * (at * 3001))
    (root / "big").write_bytes(os.urandom(3 << 20))
    (root / "long").symlink_to("x" * 200)
    with (root / "splintered").open("wb") as stream:
        for at in range(600):
            stream.seek(at * 9000)
            stream.write(b"z" * 10)
    return root


@pytest.fixture(params=SHAPES)
def shaped(request: pytest.FixtureRequest, files: Path, tmp_path: Path) -> Path:
    image = tmp_path / "shaped.img"
    words = ["mke2fs", "-q", "-F", *SHAPES[request.param], "-d", str(files), str(image), "40M"]
    subprocess.run(words, check=True, capture_output=True)
    return image


def present(image: Path) -> tuple[FileSystem, PresentUses]:
    """What all blocks are, without a replay, as the other tools read."""
    with library.open(image) as opened:
        fs = FileSystem.from_source(opened.volumes[0].facts.source)
        every = np.arange(fs.superblock.blocks_count)
        fs.bitmaps.blocks_in_use(every)
        return fs, BlockOwners.read(Workspace(fs)).of(every)


def icheck(image: Path, count: int) -> dict[int, int]:
    """Block -> inode number, 0 for none, as debugfs says."""
    found = {}
    for start in range(0, count, AT_ONCE):
        blocks = " ".join(map(str, range(start, min(start + AT_ONCE, count))))
        words = ["debugfs", "-R", f"icheck {blocks}", str(image)]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for line in said.splitlines()[1:]:
            block, _, inode = line.partition("\t")
            found[int(block)] = int(inode) if inode.isdigit() else 0
    return found


def check_owners(image: Path) -> None:
    fs, uses = present(image)
    owners = defaultdict[int, set[tuple[int, int]]](set)
    columns = uses.block.tolist(), uses.role.tolist(), uses.inode.tolist()
    for block, role, inode in zip(*columns, strict=True):
        owners[block].add((role, inode))
    other = {
        block: (owners[block], inode)
        for block, inode in icheck(image, fs.superblock.blocks_count).items()
        if inode not in {number for _, number in owners[block]}
    }
    reserved = {(int(BlockRole.DESCRIPTORS), 0)}  # debugfs names the inode that holds them
    linked = fs.inode_table(np.array(fs.orphans, np.int64))  # which debugfs passes over
    orphans = set(linked.number[linked.links_count == 0].tolist())
    assert [
        (block, said)
        for block, said in other.items()
        if said != (reserved, RESIZE) and not {number for _, number in said[0]} <= orphans
    ] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_owners_of_a_sample_are_those_of_debugfs(unpacked: Images, name: str) -> None:
    check_owners(unpacked(name).image)


def test_owners_in_any_shape_are_those_of_debugfs(shaped: Path) -> None:
    check_owners(shaped)


def test_paths_of_owners_are_those_of_ifind_and_ffind(unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    _, uses = present(image)
    files = uses.take((uses.role == BlockRole.FILE_DATA) & (uses.inode >= FIRST_FILE))
    blocks = files.block[:: max(len(files) // 12, 1)]
    with library.open(image) as opened:
        answers = who(Workspace(opened.filesystem()), blocks, frozenset({SearchSource.JOURNAL}))

    def said(*words: object) -> bytes:
        return subprocess.run([*map(str, words)], capture_output=True).stdout.rstrip(b"\n")

    assert len(answers) >= 12
    for answer in answers:
        (use,) = answer.present
        assert said("ifind", "-d", answer.block, image) == b"%d" % use.inode
        plain = [path for path in use.paths if path.isascii() and path.decode().isprintable()]
        assert said("ffind", image, use.inode) in plain or not plain


def test_an_open_and_unlinked_file_owns_its_blocks(unpacked: Images) -> None:
    image = unpacked("orphan_file").image
    check_owners(image)
    fs, uses = present(image)
    assert len(fs.orphans)
    assert set(fs.orphans) <= set(uses.inode.tolist()) | set(_without_blocks(fs))


def _without_blocks(fs: FileSystem) -> list[int]:
    table = fs.inode_table(np.array(fs.orphans, np.int64))
    numbers: list[int] = table.number[(table.size == 0) | ~table.i_block.any(axis=1)].tolist()
    return numbers


@pytest.mark.parametrize("name", SAMPLES)
def test_allocation_is_that_of_blkstat(unpacked: Images, name: str) -> None:
    image = unpacked(name).image
    with library.open(image) as opened:
        fs = FileSystem.from_source(opened.volumes[0].facts.source)
        every = np.arange(fs.superblock.blocks_count)
        used = fs.bitmaps.blocks_in_use(every)
    listed = subprocess.run(["blkls", "-e", "-l", image], capture_output=True, text=True).stdout
    rows = (line.split("|")[:2] for line in listed.splitlines()[3:])
    theirs = {int(block): state == "a" for block, state in rows}
    assert theirs == dict(enumerate(used.tolist()))
    for block in every[:: len(every) // 8].tolist():
        said = subprocess.run(["blkstat", image, str(block)], capture_output=True, text=True)
        assert ("Not Allocated" not in said.stdout) == theirs[block]


def test_blocks_may_come_in_any_order_and_twice(unpacked: Images) -> None:
    with library.open(unpacked("rm_rf_tree").image) as opened:
        owners = BlockOwners.read(Workspace(opened.filesystem()))
    chance = np.random.default_rng(7)
    asked = chance.integers(0, owners.fs.superblock.blocks_count, 5000)
    found, whole = owners.of(asked), owners.of(np.arange(owners.fs.superblock.blocks_count))
    assert (np.diff(found.place) >= 0).all()
    assert (found.block == asked[found.place]).all()
    rows = {
        (block, role, inode, number, at)
        for block, role, inode, number, at in zip(
            whole.block.tolist(), whole.role.tolist(), whole.inode.tolist(),
            whole.number.tolist(), whole.file_block.tolist(), strict=True,
        )
    }  # fmt: skip
    columns = (found.block, found.role, found.inode, found.number, found.file_block)
    assert set(zip(*(column.tolist() for column in columns), strict=True)) <= rows


def test_no_block_is_asked_for_nothing(unpacked: Images) -> None:
    with library.open(unpacked("rm_rf_tree").image) as opened:
        assert len(BlockOwners.read(Workspace(opened.filesystem())).of(np.zeros(0, np.int64))) == 0


def test_a_block_that_two_files_map_has_both(tmp_path: Path, files: Path) -> None:
    image = tmp_path / "twice.img"
    words = ["mke2fs", "-q", "-F", "-t", "ext2", "-d", str(files), str(image), "40M"]
    subprocess.run(words, check=True, capture_output=True)

    def debugfs(command: str) -> str:
        words = ["debugfs", "-w", "-R", command, str(image)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    block = int(debugfs("bmap big 0"))
    debugfs(f"set_inode_field <{_number(image, b'/sub/file 9')}> block[0] {block}")
    _, uses = present(image)
    mine = set(uses.inode[uses.block == block].tolist())
    assert mine == {_number(image, b"/big"), _number(image, b"/sub/file 9")}


def _number(image: Path, path: bytes) -> int:
    with library.open(image) as opened:
        return opened.filesystem().lookup(path)
