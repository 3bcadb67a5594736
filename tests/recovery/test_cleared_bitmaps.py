"""Bitmaps cleared by hand: what directories name is not called deleted, nor carved."""

from __future__ import annotations

from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery import DeletedFiles, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from sample_images.recipes.machine import run
from tests.recovery.test_traps import BYSTANDER, STOOD_BY, Disk, content, remove
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel
GONE = b"/" + BYSTANDER.encode()
FLAGS_AT = 0x12  # bg_flags in a group descriptor
LIVING = [f"{number}" for number in range(20)]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Twenty living files, their inodes in the log, and one that is deleted."""
    made = Disk(tmp_path, "-t", "ext4")
    made.with_bystander()
    with made.mounted() as root:
        for name in LIVING:
            (root / name).write_bytes(name.encode() * 3000)
    with made.mounted() as root:
        remove(root / BYSTANDER)
        for name in LIVING:
            (root / name).touch()
    return made


def _clear(disk: Disk, bitmap: str) -> None:
    """Zero a bitmap of the first group."""
    with ext4kit.open(disk.image) as image:
        fs = image.volume().filesystem()
        block, size = int(getattr(fs.groups, bitmap)[0]), fs.superblock.block_size
    with disk.image.open("r+b") as file:
        file.seek(block * size)
        file.write(bytes(size))


def _deleted(disk: Disk) -> DeletedFiles:
    return find_deleted(disk.file_system(), sources=ALL_SOURCES)


def test_only_what_is_deleted_is_found(disk: Disk) -> None:
    found = _deleted(disk)
    assert [(file.path, file.grade) for file in found] == [(GONE, HERE.best)]
    assert list(found.problems) == []


def test_linked_inodes_are_alive_whatever_their_bitmap_says(disk: Disk) -> None:
    _clear(disk, "inode_bitmap")
    found = _deleted(disk)
    (file,) = found
    assert (file.path, file.grade, content(file)) == (GONE, HERE.best, STOOD_BY)
    assert [problem.where for problem in found.problems] == ["inode bitmaps"]
    assert found.problems.errors == 1


def test_a_block_bitmap_without_its_own_metadata_is_not_believed(disk: Disk) -> None:
    _clear(disk, "block_bitmap")
    found = _deleted(disk)
    (file,) = found
    assert (file.path, file.grade, content(file)) == (GONE, "partial", STOOD_BY)
    assert "group 0 block bitmap" in [problem.where for problem in found.problems]
    assert found.problems.errors >= 1


def test_blocks_that_files_have_are_not_carved_where_single_bits_are_cleared(disk: Disk) -> None:
    """Of a group's own metadata nothing is marked free: the bitmap looks sound."""
    with ext4kit.open(disk.image) as image:
        fs = image.volume().filesystem()
        runs = fs.block_map(fs.inode(fs.lookup("/" + LIVING[7])))
        block = int(runs.physical[0])
        place = int(fs.groups.block_bitmap[0]) * fs.superblock.block_size
    bit = block - fs.superblock.first_data_block
    with disk.image.open("r+b") as file:
        file.seek(place + bit // 8)
        (old,) = file.read(1)
        file.seek(place + bit // 8)
        file.write(bytes([old & ~(1 << bit % 8)]))
    found = _deleted(disk)
    (file_found,) = found
    assert (file_found.path, content(file_found)) == (GONE, STOOD_BY)
    assert "block bitmaps" in [problem.where for problem in found.problems]


def test_files_of_a_group_that_is_flagged_as_never_written_are_not_deleted(disk: Disk) -> None:
    with ext4kit.open(disk.image) as image:
        fs = image.volume().filesystem()
        table, size = fs.groups, fs.superblock.descriptor_size
        assert len(table)
    with disk.image.open("r+b") as file:
        at = fs.superblock.block_size * (fs.superblock.first_data_block + 1) + FLAGS_AT
        assert size >= FLAGS_AT
        file.seek(at)
        file.write((3).to_bytes(2, "little"))  # INODE_UNINIT, BLOCK_UNINIT
    run("debugfs", "-w", "-R", "set_super_value lastcheck now", disk.image)  # tune2fs asks for it
    run("tune2fs", "-O", "^metadata_csum", disk.image)  # no checksum tells of the flags
    found = _deleted(disk)
    names = {file.path for file in found}
    assert not names & {b"/" + name.encode() for name in LIVING}
    assert not [file for file in found if file.path is None]
    assert found.problems.errors >= 1
