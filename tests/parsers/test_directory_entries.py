"""Entries of directory blocks, in use and removed: against what debugfs lists."""

from __future__ import annotations

import os
import re
import struct
from typing import Any

import numpy as np
import pytest

from ext4kit.parsers.directory import Names, parse_entries, parse_slack_entries
from ext4kit.parsers.made import packed_entries
from tests.parsers.reference import Image, make_image

Listed = set[tuple[int, str]]
REMOVED = ("nn", "nnn", "nnnnnn", "a-pipe", "a-link", "the-last-of-all-names-in-the-directory")
_ENTRY = re.compile(r"(<?)(\d+)>?\s+\(\d+\) (\S+)")
INODE, OFFSET, SIZE = 77, 40, 128  # of the block that `with_remnant` makes


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("removed")
    tree = folder / "tree"
    tree.mkdir()
    for length in range(1, 15):
        (tree / ("n" * length)).write_bytes(b"x")
    os.mkfifo(tree / "a-pipe")
    (tree / "a-link").symlink_to("nowhere")
    (tree / REMOVED[-1]).touch()
    image = make_image(folder, 4, "-b", "1024")
    image.debugfs(*(f"rm /{name}" for name in REMOVED), write=True)
    return image


def listed(image: Image) -> tuple[Listed, Listed]:
    """(inode number, name) of the root's entries in use, and of its removed ones."""
    found = _ENTRY.findall(image.debugfs("ls -d /"))
    entries = [(bool(mark), (int(number), name)) for mark, number, name in found]
    return {one for gone, one in entries if not gone}, {one for gone, one in entries if gone}


def root_blocks(image: Image) -> np.ndarray:
    raw = b"".join(map(image.block, image.data_blocks("/")))
    return np.frombuffer(raw, np.uint8).reshape(-1, image.block_size)


def test_entries_in_use_and_removed_ones_are_those_that_debugfs_lists(image: Image) -> None:
    in_use, removed = listed(image)
    assert {name for _, name in removed} == set(REMOVED)
    blocks = root_blocks(image)
    entries, broken = parse_entries(blocks, has_file_type=True)
    remnants = parse_slack_entries(blocks, int(image.header["Inode count"]), entries)
    for table, expected in ((entries, in_use), (remnants, removed)):
        names = [name.decode() for name in table.names(blocks)]
        assert sorted(zip(table.inode.tolist(), names, strict=True)) == sorted(expected)
        assert table.packed_names(blocks).tolist() == table.names(blocks)
    assert (broken == -1).all()
    assert len(parse_entries(blocks, True, dots=False)[0]) == len(in_use) - 2


def test_what_names_a_number_beyond_the_last_is_no_removed_entry(image: Image) -> None:
    _, removed = listed(image)
    blocks, last = root_blocks(image), max(removed)[0] - 1
    found = parse_slack_entries(blocks, last, parse_entries(blocks, True)[0])
    assert set(found.inode.tolist()) == {number for number, _ in removed if number <= last}


def with_remnant(
    step: int = 16, length: int = 5, kind: int = 1, name: bytes = b"hello", offset: int = OFFSET
) -> np.ndarray:
    """A block of one entry that spans it all, and in its record what one removed may have left."""
    raw = bytearray(struct.pack("<IHBB", 12, SIZE, 1, 1) + b"a").ljust(SIZE, b"\0")
    left = struct.pack("<IHBB", INODE, step, length, kind) + name
    raw[offset : offset + len(left)] = left
    return np.frombuffer(bytes(raw), np.uint8).reshape(1, SIZE)


def found_in(block: np.ndarray, has_file_type: bool = True) -> list[bytes]:
    entries, _ = parse_entries(block, has_file_type)
    return parse_slack_entries(block, INODE, entries, has_file_type).names(block)


@pytest.mark.parametrize(
    "remnant",
    [
        {}, {"step": SIZE - OFFSET}, {"kind": 7}, {"step": 12, "length": 4, "name": b"four"},
        {"step": 12, "length": 1, "name": b"n"}, {"offset": SIZE - 16}, {"name": b"\xff \n\x01."},
    ],
)  # fmt: skip
def test_what_an_entry_can_be_is_a_removed_one(remnant: dict[str, Any]) -> None:
    name = bytes(remnant.get("name", b"hello"))
    assert found_in(with_remnant(**remnant)) == [name]


@pytest.mark.parametrize(
    "remnant",
    [
        {"step": 8, "length": 0}, {"step": 18}, {"step": 12}, {"step": SIZE - OFFSET + 4},
        {"length": 0}, {"kind": 0}, {"kind": 8}, {"name": b"he/lo"}, {"name": b"hel\0o"},
        {"name": b"/ello"}, {"name": b"hell/"}, {"offset": OFFSET + 1},
    ],
)  # fmt: skip
def test_what_no_entry_can_be_is_not_taken_for_a_removed_one(remnant: dict[str, Any]) -> None:
    assert found_in(with_remnant(**remnant)) == []


@pytest.mark.parametrize("removed_since", [False, True])
def test_an_entry_that_a_later_one_overwrote_in_part_is_none(removed_since: bool) -> None:
    """The last letter of `invoice19` would be its number. The later one remains when removed."""
    block = bytearray(with_remnant(offset=16, name=b"plans").tobytes())
    over = struct.pack("<IHBB", 13, 20, 9, 1) + b"invoice19"
    if removed_since:
        block = bytearray(with_remnant(offset=40, name=b"plans").tobytes())
        block[24 : 24 + len(over)] = over
    else:
        block[: len(over)] = over
        struct.pack_into("<H", block, 4, SIZE)
    remaining = [b"invoice19"] * removed_since
    assert found_in(np.frombuffer(bytes(block), np.uint8).reshape(1, SIZE)) == remaining


def test_without_file_types_the_byte_of_the_type_is_zero() -> None:
    assert found_in(with_remnant(kind=0), has_file_type=False) == [b"hello"]
    assert found_in(with_remnant(kind=1), has_file_type=False) == []


def test_packed_entries_are_read_again() -> None:
    """Names of all lengths, in an order in which some of them just fill their block."""
    for size in (64, 1024, 65536):
        longest = min(255, size - 8)
        listed = [
            (b"n" * (1 + number * 7 % longest), 12 + number, number % 8) for number in range(600)
        ]
        blocks = packed_entries(listed, size)
        table, broken = parse_entries(blocks, has_file_type=True)
        columns = table.names(blocks), table.inode.tolist(), table.file_type.tolist()
        assert list(zip(*columns, strict=True)) == listed
        assert (broken == -1).all()
        needed = [8 + -(-len(name) // 4) * 4 for name, _, _ in listed]
        left = [size]
        for length in needed:
            left = [*left[:-1], left[-1] - length] if length <= left[-1] else [*left, size - length]
        assert len(blocks) == len(left)
    assert parse_entries(packed_entries([], 1024), True)[0].inode.tolist() == []


def test_names_are_packed_joined_and_taken_apart_again() -> None:
    first, second = [b"", b"a", b"bc"], [b"def"]
    joined = Names.concat([Names.of(first), Names.of([]), Names.of(second)])
    assert joined.tolist() == first + second
    assert len(joined) == 4
    assert joined.take(np.array([3, 1])).tolist() == [b"def", b"a"]


def test_few_blocks_have_the_entries_that_they_have_among_many(image: Image) -> None:
    random, block = np.random.default_rng(5), root_blocks(image)[0]
    blocks = np.repeat(block[None, :], 400, axis=0)
    for row in range(1, len(blocks)):  # broken chains of every kind
        places = random.integers(0, len(block), 1 + row % 5)
        blocks[row, places] = random.integers(0, 256, len(places))
    for start, end in ((0, len(block)), (12, len(block) - 12), (0, 4)):
        together, broken = parse_entries(blocks, True, start, end)
        assert (broken >= 0).any() == (end > 4)
        for row in range(len(blocks)):
            alone, breaks = parse_entries(blocks[row : row + 1], True, start, end, dots=True)
            mine = together.take(together.block == row)
            assert breaks.tolist() == broken[row : row + 1].tolist()
            assert alone.names(blocks[row : row + 1]) == mine.names(blocks)
            assert alone.inode.tolist() == mine.inode.tolist()
