"""File systems are found by their superblocks, wherever they begin; what is none is left out."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ext4kit.evidence import open_evidence
from ext4kit.evidence.source import Window
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.found import Basis, FoundFileSystem, Relation, find_file_systems
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.superblock import SUPERBLOCK
from ext4kit.parsers.superblock_columns import superblocks_in
from ext4kit.problems import Problems
from sample_images.recipes import machine
from tests.environment import skip_if_revision_0
from tests.filesystem.matrix_oracle import debugfs

MIB = 1 << 20
PLACES = (1 * MIB, 33 * MIB, 65 * MIB)
KINDS = ("ext2", "ext3", "ext4")


def blank(path: Path, size: int) -> Path:
    with path.open("xb") as file:
        file.truncate(size)
    return path


def put(image: Path, offset: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def make(image: Path, offset: int, blocks: int, *options: str) -> str:
    """A file system at a byte offset of an image; its UUID."""
    skip_if_revision_0(" ".join(options))
    name = str(uuid.uuid4())
    extended = f"nodiscard,offset={offset}"
    machine.run("mke2fs", "-q", "-F", "-U", name, "-E", extended, *options, image, str(blocks))
    return name


def found_in(image: Path, most: int | None = None) -> list[FoundFileSystem]:
    with open_evidence(image) as evidence:
        problems = Problems()
        found = find_file_systems(evidence.source, problems, most=most)
        assert len(problems) == 0
        return found


def told(found: list[FoundFileSystem]) -> list[tuple[Any, ...]]:
    """Offset, size, kind, UUID, block of a backup."""
    return [
        (one.offset, one.size, one.superblock.kind, one.superblock.uuid_text, one.block)
        for one in found
    ]


@pytest.mark.parametrize("size", [1024, 2048, 4096])
@pytest.mark.parametrize("shift", [0, 512, 63 * 512])
def test_three_file_systems_without_a_table(tmp_path: Path, size: int, shift: int) -> None:
    image = blank(tmp_path / "disk", 100 * MIB)
    expected = []
    for place, kind in zip(PLACES, KINDS, strict=True):
        blocks = 20 * MIB // size
        name = make(image, place + shift, blocks, "-t", kind, "-b", str(size))
        expected.append((place + shift, 20 * MIB, kind, name, None))
    found = found_in(image)
    assert told(found) == expected
    assert {one.basis for one in found} == {Basis.ROOT}
    assert all(one.is_whole and one.relation is None for one in found)


LAYOUTS = {  # MiB, options
    "1k": (48, "-t ext4 -b 1024"),
    "2k": (96, "-t ext4 -b 2048"),
    "4k": (400, "-t ext4 -b 4096"),
    "64k": (5 << 10, "-t ext4 -b 65536"),
    "plain": (48, "-t ext2 -b 1024 -O ^sparse_super,^resize_inode"),
    "sparse_super2": (48, "-t ext4 -b 1024 -O sparse_super2,^resize_inode"),
    "revision 0": (48, "-r 0 -b 1024"),
    "revision 0, 4k": (400, "-r 0 -b 4096"),
    "small groups": (64, "-t ext4 -b 4096 -g 2048"),
    "meta_bg": (48, "-t ext4 -b 1024 -O meta_bg,^resize_inode"),
    "bigalloc": (400, "-t ext4 -b 1024 -O bigalloc"),
    "no checksums": (48, "-t ext4 -b 1024 -O ^metadata_csum,^uninit_bg"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keeps_primary", [True, False])
def test_a_backup_stands_in_for_a_primary_that_is_gone(
    tmp_path: Path, layout: str, keeps_primary: bool
) -> None:
    """The beginning of the file system is found, and the option that reads it from the backup."""
    mebibytes, words = LAYOUTS[layout]
    options = words.split()
    size, length = int(options[options.index("-b") + 1]), mebibytes * MIB
    image, offset = blank(tmp_path / "disk", length + 8 * MIB), 3 * MIB + 512
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_bytes(b"content\n" * 1000)
    name = make(image, offset, length // size, *options, "-d", str(tmp_path / "tree"))
    if not keeps_primary:
        put(image, offset, bytes(max(size, 2048)))
    (one,) = found_in(image)
    assert (one.offset, one.size, one.superblock.uuid_text) == (offset, length, name)
    assert (one.block is None) == keeps_primary
    assert one.basis is Basis.ROOT
    with open_evidence(image) as evidence:
        window = Window(evidence.source, offset, length)
        fs = FileSystem.from_source(window, one.block)
        file = fs.content(fs.inode(fs.lookup("/file")))
        assert bytes(file.read(0, file.size)) == b"content\n" * 1000


def test_what_is_beyond_the_end_of_the_image_is_told(tmp_path: Path) -> None:
    image = blank(tmp_path / "disk", 64 * MIB)
    make(image, MIB, 30 * 1024, "-t", "ext4", "-b", "1024")
    make(image, 33 * MIB, 30 * 1024, "-t", "ext4", "-b", "1024")
    os.truncate(image, 40 * MIB)
    first, second = found_in(image)
    assert first.is_whole
    assert (second.is_whole, second.size, second.readable) == (False, 30 * MIB, 7 * MIB)


def test_an_image_that_begins_within_a_file_system(tmp_path: Path) -> None:
    image = blank(tmp_path / "disk", 64 * MIB)
    make(image, 0, 64 * 1024, "-t", "ext4", "-b", "1024")
    cut = tmp_path / "cut"
    cut.write_bytes(image.read_bytes()[10 * MIB :])
    (one,) = found_in(cut)
    assert (one.offset, one.size, one.readable) == (-10 * MIB, 64 * MIB, 54 * MIB)
    assert one.basis is Basis.COPIES


def _with_inner(tmp_path: Path) -> tuple[Path, str, str]:
    """An ext4 image that has another one in a file, at a place of the allocator's choice."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "before").write_bytes(bytes(range(256)) * 5000)
    inner = blank(folder / "inner.img", 12 * MIB)
    inside = make(inner, 0, 12 * 1024, "-t", "ext4", "-b", "1024")
    put(inner, 11 * MIB, b"end")
    image = blank(tmp_path / "disk", 64 * MIB)
    size = ("-t", "ext4", "-b", "1024", "-d", str(folder))
    return image, make(image, MIB, 60 * 1024, *size), inside


def test_an_image_in_a_file_is_told_as_such(tmp_path: Path) -> None:
    image, outer, inside = _with_inner(tmp_path)
    found = {one.superblock.uuid_text: one for one in found_in(image)}
    assert set(found) == {outer, inside}
    assert (found[outer].relation, found[inside].relation) == (None, Relation.IN_FILE)
    assert found[inside].other == found[outer].offset == MIB


def test_an_image_in_a_deleted_file_is_told_as_such(tmp_path: Path) -> None:
    image, outer, inside = _with_inner(tmp_path)
    alone = tmp_path / "alone"
    alone.write_bytes(image.read_bytes()[MIB:])
    debugfs(alone, "kill_file /inner.img", "unlink /inner.img", write=True)
    found = {one.superblock.uuid_text: one for one in found_in(alone)}
    assert (found[outer].relation, found[inside].relation) == (None, Relation.IN_FREE_SPACE)


def test_one_that_another_was_made_over_is_told_as_such(tmp_path: Path) -> None:
    image = blank(tmp_path / "disk", 64 * MIB)
    old = make(image, MIB, 60 * 1024, "-t", "ext4", "-b", "1024")
    new = make(image, MIB, 15 * 1024, "-t", "ext4", "-b", "4096")
    found = {one.superblock.uuid_text: one for one in found_in(image)}
    assert set(found) == {old, new}
    assert (found[new].relation, found[new].block) == (None, None)
    assert (found[old].relation, found[old].other) == (Relation.EARLIER, MIB)


def test_one_that_a_later_one_begins_within(tmp_path: Path) -> None:
    image = blank(tmp_path / "disk", 100 * MIB)
    old = make(image, MIB, 90 * 1024, "-t", "ext4", "-b", "1024")
    put(image, MIB + 1024 + SUPERBLOCK.offset_of("s_wtime"), struct.pack("<I", 1_000_000_000))
    _mend(image, MIB + 1024)
    make(image, 33 * MIB, 20 * 1024, "-t", "ext4", "-b", "1024")
    found = found_in(image)
    first, second = found
    assert (first.superblock.uuid_text, first.relation, first.other) == (
        old,
        Relation.EARLIER,
        33 * MIB,
    )
    assert second.relation is None


def _mend(image: Path, place: int) -> None:
    """Let a superblock's checksum fit."""
    with image.open("rb") as file:
        file.seek(place)
        body = file.read(SUPERBLOCK.size - 4)
    put(image, place + len(body), struct.pack("<I", crc32c(ONES, body)))


def test_a_file_system_that_was_copied_is_found_twice(tmp_path: Path) -> None:
    image = blank(tmp_path / "disk", 100 * MIB)
    name = make(image, MIB, 20 * 1024, "-t", "ext4", "-b", "1024")
    data = image.read_bytes()
    put(image, 50 * MIB, data[MIB : 21 * MIB])
    found = found_in(image)
    assert [(one.offset, one.superblock.uuid_text) for one in found] == [
        (MIB, name),
        (50 * MIB, name),
    ]


@pytest.mark.kernel
def test_copies_in_the_log_are_no_file_systems(needs_kernel: None, tmp_path: Path) -> None:
    """The kernel writes superblocks to the log; none of them begins a file system."""
    image = tmp_path / "log"
    options = ("-t", "ext4", "-b", "1024", "-O", machine.USUAL_FEATURES)  # no orphan file
    machine.make_file_system(image, 64 * MIB, options)
    with machine.mounted(image, "rw") as root:
        for number in range(30):
            file = root / f"{number}"
            with file.open("wb") as held:
                held.write(b"x" * 5000)
                machine.sync(root)
                file.unlink()  # the orphan list begins in the superblock
                machine.sync(root)
    data = np.frombuffer(image.read_bytes(), np.uint8)
    copies = superblocks_in(data, 0, len(data))
    assert len(np.unique(copies.start)) > 2
    (one,) = found_in(image)
    assert (one.offset, one.size, one.block) == (0, 64 * MIB, None)
    put(image, 0, bytes(2048))
    (one,) = found_in(image)
    assert (one.offset, one.block) == (0, 8193)


@pytest.mark.heavy
def test_noise_with_the_magic_in_each_sector_is_nothing(tmp_path: Path) -> None:
    data = bytearray(random.Random(5).randbytes(32 * MIB))
    for at in range(56, len(data), 512):
        data[at : at + 2] = b"\x53\xef"
    image = tmp_path / "noise"
    image.write_bytes(data)
    assert found_in(image) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("s_log_block_size", b"\x1f\0\0\0"),
        ("s_log_block_size", b"\xff\xff\xff\xff"),
        ("s_blocks_per_group", bytes(4)),
        ("s_inodes_per_group", bytes(4)),
        ("s_blocks_count_hi", b"\xff\xff\xff\xff"),
        ("s_inodes_count", b"\xff\xff\xff\xff"),
        ("s_inode_size", b"\x7f\0"),
    ],
)
def test_superblocks_that_cannot_be_are_left_out(tmp_path: Path, field: str, value: bytes) -> None:
    image = blank(tmp_path / "disk", 16 * MIB)
    make(image, MIB, 8 * 1024, "-t", "ext4", "-b", "1024")
    put(image, MIB + 1024 + SUPERBLOCK.offset_of(field), value)
    _mend(image, MIB + 1024)
    assert found_in(image) == []


def test_one_that_says_a_huge_size_is_not_whole(tmp_path: Path) -> None:
    """Eight TiB whose numbers fit each other take no memory and no time."""
    image = blank(tmp_path / "disk", 16 * MIB)
    make(image, MIB, 8 * 1024, "-t", "ext4", "-b", "1024")
    at = MIB + 1024
    groups = 1 << 20
    for field, value in (
        ("s_blocks_count_lo", groups * 8192 & 0xFFFFFFFF),
        ("s_blocks_count_hi", groups * 8192 >> 32),
        ("s_inodes_count", groups * 16),
        ("s_inodes_per_group", 16),
    ):
        put(image, at + SUPERBLOCK.offset_of(field), struct.pack("<I", value))
    _mend(image, at)
    (one,) = found_in(image)
    assert one.size == groups * 8192 * 1024
    assert not one.is_whole


@pytest.mark.heavy
def test_copies_without_number_leave_the_real_one_in(tmp_path: Path) -> None:
    """An attacker fills the disk with superblocks of one UUID that lead nowhere."""
    image = blank(tmp_path / "disk", 64 * MIB)
    make(image, 40 * MIB, 20 * 1024, "-t", "ext4", "-b", "1024")
    data = image.read_bytes()
    copy = data[40 * MIB + 1024 : 40 * MIB + 2048]
    put(image, 0, copy * (20 * 1024))
    (one,) = found_in(image)
    assert one.offset == 40 * MIB


def test_a_checksum_that_does_not_fit_needs_a_root_directory(tmp_path: Path) -> None:
    image = blank(tmp_path / "disk", 16 * MIB)
    make(image, MIB, 4 * 1024, "-t", "ext4", "-b", "1024")
    put(image, MIB + 1024 + SUPERBLOCK.offset_of("s_mnt_count"), b"\x07\0")
    (one,) = found_in(image)
    assert (one.superblock.checksum_ok, one.basis) == (False, Basis.ROOT)
    put(image, MIB + 2048, bytes(2 * MIB))
    assert found_in(image) == []
    _mend(image, MIB + 1024)
    (one,) = found_in(image)
    assert one.basis is Basis.ONE


def test_holes_of_a_sparse_image_are_not_read(tmp_path: Path) -> None:
    try:
        image = blank(tmp_path / "disk", 8 << 40)
    except OSError as error:
        pytest.skip(f"no file of 8 TiB here: {error}")
    place = (7 << 40) + 512
    make(image, place, 64 * 1024, "-t", "ext4", "-b", "1024")
    (one,) = found_in(image)
    assert one.offset == place


def test_the_search_ends_after_so_many_bytes(tmp_path: Path) -> None:
    image = tmp_path / "disk"
    image.write_bytes(b"x" * (64 * MIB))
    make(image, 40 * MIB, 4 * 1024, "-t", "ext4", "-b", "1024")
    assert found_in(image, most=16 * MIB) == []
    assert len(found_in(image)) == 1


def test_it_is_found_in_containers(tmp_path: Path) -> None:
    if shutil.which("qemu-img") is None:
        pytest.skip("needs qemu-img")
    image = blank(tmp_path / "disk", 64 * MIB)
    make(image, 33 * MIB + 512, 20 * 1024, "-t", "ext4", "-b", "1024")
    target = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", image, target], check=True)
    (one,) = found_in(target)
    assert one.offset == 33 * MIB + 512
