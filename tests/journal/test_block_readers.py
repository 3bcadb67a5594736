"""How the bytes of a block are understood when its versions are compared."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from ext4kit.filesystem import FileSystem
from ext4kit.journal.versions import (
    FieldChange,
    StructureReader,
    _reader_by_content,
    reader_for_block,
)
from tests.journal.kernel_log import opened
from tests.journal.test_directory_index import node, root
from tests.journal.test_directory_records import block, record
from tests.journal.written_fast_commits import make

SIZE = 1024
Facts = dict[tuple[str, Any], Any]


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> FileSystem:
    folder = tmp_path_factory.mktemp("readers")
    return opened(make(folder, "-b 1024 -g 1024 -N 4096 -O ^flex_bg,^resize_inode").image)


def facts(changes: list[FieldChange]) -> Facts:
    return {(one.what, one.which): (one.before, one.after) for one in changes}


def extent_block(*rows: tuple[int, int, int], depth: int = 0) -> bytes:
    body = struct.pack("<4HI", 0xF30A, len(rows), 84, depth, 0)
    for first, length, start in rows:
        if depth:
            body += struct.pack("<IIHH", first, start & 0xFFFFFFFF, start >> 32, 0)
        else:
            body += struct.pack("<IHHI", first, length, start >> 32, start & 0xFFFFFFFF)
    return body.ljust(SIZE, b"\0")


def test_extents_and_index_entries(fs: FileSystem) -> None:
    one = extent_block((0, 4, 1000), (10, 32768 + 2, 2000), (20, 1, 1 << 33))
    reader = _reader_by_content(fs, one)
    assert reader.kind == "extent tree block"
    assert facts(reader.first(one)) == {
        ("extent", 0): (None, (4, 1000, False)),
        ("extent", 10): (None, (2, 2000, True)),
        ("extent", 20): (None, (1, 1 << 33, False)),
    }
    two = extent_block((0, 4, 1000), (10, 2, 2000))
    assert facts(reader.changes(one, two)) == {
        ("extent", 10): ((2, 2000, True), (2, 2000, False)),
        ("extent", 20): ((1, 1 << 33, False), None),
    }
    index = extent_block((0, 0, 77), (500, 0, 1 << 32 | 5), depth=1)
    assert facts(reader.first(index)) == {
        ("index", 0): (None, 77),
        ("index", 500): (None, (1 << 32) + 5),
    }
    assert facts(reader.first(extent_block(*[(n, 1, 9) for n in range(90)])[:SIZE])) == {}


def test_where_no_fact_differs_bytes_do(fs: FileSystem) -> None:
    one = extent_block((0, 4, 1000))
    two = one[:600] + b"xyz" + one[603:]
    reader = _reader_by_content(fs, one)
    assert reader.changes(one, one) == []
    assert reader.changes(one, two) == [FieldChange("bytes", (600, 602), bytes(3), b"xyz")]


def test_hashes_of_an_index(fs: FileSystem) -> None:
    one, two = root([(0, 1), (100, 2)]), root([(0, 1), (100, 3), (200, 4)])
    reader = _reader_by_content(fs, one)
    assert reader.kind == "directory index root"
    assert facts(reader.changes(one, two)) == {("hash", 100): (2, 3), ("hash", 200): (None, 4)}
    below = node([(0, 5), (7, 6)])
    assert _reader_by_content(fs, below).kind == "directory index node"
    assert facts(_reader_by_content(fs, below).first(below)) == {
        ("hash", 0): (None, 5), ("hash", 7): (None, 6)
    }  # fmt: skip


def test_entries_of_a_directory(fs: FileSystem) -> None:
    one = bytes(block(record(12, 12, b"a"), record(13, SIZE - 12, b"dir", 2)))
    two = bytes(block(record(12, 12, b"a", 7), record(0, SIZE - 12, b"", 0)))
    reader = _reader_by_content(fs, one)
    assert reader.kind == "directory block"
    assert facts(reader.changes(one, two)) == {
        ("entry", b"a"): ((12, "file"), (12, "symlink")),
        ("entry", b"dir"): ((13, "directory"), None),
    }


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (bytes(block(record(0, SIZE, b"", 0))), "directory block"),
        (bytes(block(record(0, SIZE - 12, b"", 0), struct.pack("<IHBBI", 0, 12, 0, 0xDE, 9))),
         "directory block"),
        (bytes(SIZE), "other content"),
        (b"text " * 204 + b"text", "other content"),
        (struct.pack("<IIII", 0xEA020000, 2, 1, 0).ljust(SIZE, b"\0"), "attribute block"),
    ],
)  # fmt: skip
def test_what_a_block_holds_is_seen_by_its_bytes(fs: FileSystem, data: bytes, kind: str) -> None:
    assert _reader_by_content(fs, data).kind == kind


def test_users_of_an_attribute_block(fs: FileSystem) -> None:
    one, two = (
        struct.pack("<IIII", 0xEA020000, users, 1, 0).ljust(SIZE, b"\0") for users in (2, 1)
    )
    reader = _reader_by_content(fs, one)
    assert facts(reader.changes(one, two)) == {("users", None): (2, 1)}


def test_blocks_with_a_place_are_read_by_it(fs: FileSystem) -> None:
    """16 groups of 1,024 blocks and 256 inodes; block 1 begins the first."""
    groups = fs.groups
    table = int(groups.inode_table[3])
    kinds = {
        1: "superblock",
        2: "group descriptors from group 0 on",
        int(groups.block_bitmap[5]): "block bitmap of group 5",
        int(groups.inode_bitmap[7]): "inode bitmap of group 7",
        table: "inodes 769 to 772",
        table + 63: "inodes 1021 to 1024",
    }
    for place, kind in kinds.items():
        assert reader_for_block(fs, place)(bytes(SIZE)).kind == kind
    assert reader_for_block(fs, table + 64)(bytes(SIZE)).kind == "other content"
    assert reader_for_block(fs, table - 1)(bytes(SIZE)).kind == "inode bitmap of group 3"


def test_bits_of_a_bitmap_are_blocks_or_inodes(fs: FileSystem) -> None:
    """Group 5 begins with block 1 + 5 * 1024, its inodes with 1 + 5 * 256."""
    before = bytearray(SIZE)
    before[0] = 0b1000_0001
    after = bytearray(SIZE)
    after[0], after[1], after[127] = 0b0000_0111, 0b1, 0x80
    blocks = reader_for_block(fs, int(fs.groups.block_bitmap[5]))(bytes(SIZE))
    base = 1 + 5 * 1024
    assert blocks.changes(bytes(before), bytes(after)) == [
        FieldChange("block", (base + 1, base + 2), 0, 1),
        FieldChange("block", (base + 8, base + 8), 0, 1),
        FieldChange("block", (base + 1023, base + 1023), 0, 1),
        FieldChange("block", (base + 7, base + 7), 1, 0),
    ]
    inodes = reader_for_block(fs, int(fs.groups.inode_bitmap[5]))(bytes(SIZE))
    base = 1 + 5 * 256
    assert [one.which for one in inodes.changes(bytes(before), bytes(after))] == [
        (base + 1, base + 2), (base + 8, base + 8), (base + 7, base + 7)
    ]  # fmt: skip
    behind = bytearray(SIZE)
    behind[128] = 1  # no bit of a block
    assert blocks.changes(bytes(SIZE), bytes(behind)) == [
        FieldChange("bytes", (128, 128), b"\0", b"\1")
    ]


def test_a_cluster_of_a_bitmap_is_its_blocks(tmp_path: Path) -> None:
    fs = opened(make(tmp_path, "-b 1024 -O bigalloc -C 4096").image)
    reader = reader_for_block(fs, int(fs.groups.block_bitmap[0]))(bytes(SIZE))
    after = bytes([0b110]).ljust(SIZE, b"\0")
    assert reader.changes(bytes(SIZE), after) == [FieldChange("block", (4, 11), 0, 1)]


def inode_row(mode: int, i_block: bytes, flags: int = 0, size: int = 0) -> bytes:
    head = struct.pack("<HHIIIIIHHIII", mode, 0, size, 1, 1, 1, 0, 0, 1, 2, flags, 0)
    return (head + i_block.ljust(60, b"\0")).ljust(128, b"\0") + struct.pack("<H", 32).ljust(
        128, b"\0"
    )


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (inode_row(0o100644, struct.pack("<5H", 0xF30A, 1, 4, 0, 0).ljust(12, b"\0")
                   + struct.pack("<IHHI", 3, 2, 0, 99), 0x80000), {("extent", 3): (2, 99, False)}),
        (inode_row(0o100644, struct.pack("<15I", 7, 0, 9, *[0] * 9, 5, 0, 0), 0),
         {("pointer", 0): 7, ("pointer", 2): 9, ("pointer", 12): 5}),
        (inode_row(0o120777, b"a target", 0, 8), {("target", None): b"a target"}),
        (inode_row(0o100644, b"inline".ljust(60, b"!"), 0x10000000, 6),
         {("inline content", None): b"inline".ljust(60, b"!")}),
        (inode_row(0o020600, struct.pack("<I", 5 << 8 | 1)), {("device", None): None}),
    ],
)  # fmt: skip
def test_what_i_block_says_depends_on_the_kind_of_inode(
    fs: FileSystem, row: bytes, found: Facts
) -> None:
    reader: StructureReader = reader_for_block(fs, int(fs.groups.inode_table[0]))(bytes(SIZE))
    changes = reader.changes(bytes(SIZE), bytes(256) + row + bytes(512))
    assert {one.inode for one in changes} == {2}
    told = {(one.what, one.which): one.after for one in changes}
    kinds = ("extent", "pointer", "target", "inline content", "device")
    content = {key: value for key, value in told.items() if key[0] in kinds}
    if ("device", None) in found:
        assert content.keys() == found.keys()
    else:
        assert content == found
    assert told[("mode", None)] == struct.unpack_from("<H", row)[0]
    assert ("checksum", None) not in told
