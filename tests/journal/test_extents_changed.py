"""A file's extents while fast commits change them, and the tree that comes out, byte by byte.

Bytes by the kernel's documentation: an extent header is magic, entries, max, depth, generation;
an extent block, length (more than 32,768: not written), start; an index block, leaf.
"""

from __future__ import annotations

import struct
from typing import Any

import crc32c
import numpy as np
import pytest

from ext4kit.filesystem.block_maps import Runs
from ext4kit.journal.fast_commits.extents import ExtentList, build_extent_tree

Row = tuple[int, int, int, bool]
SIZE = 1024
MOST = (SIZE - 12) // 12  # entries of a tree block


def extents(*rows: Row) -> ExtentList:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    kinds = (np.int64, np.int64, np.int64, bool)
    return ExtentList(*(np.array(one, kind) for one, kind in zip(columns, kinds, strict=True)))


def rows_of(some: ExtentList) -> list[Row]:
    columns = (some.logical, some.length, some.physical, some.unwritten)
    return list(zip(*(one.tolist() for one in columns), strict=True))


THREE = extents((0, 4, 100, False), (10, 5, 200, True), (20, 1, 300, False))


def test_the_map_of_an_empty_file_has_nothing() -> None:
    none = ExtentList.empty()
    assert len(none) == 0
    assert none.blocks().tolist() == []
    assert rows_of(none.merged()) == []
    assert rows_of(none.without(0, 10)) == []
    assert none.block_in_cluster(3, 4) == 0
    assert none.logical.dtype.kind == "i"
    assert none.unwritten.dtype == bool


def test_runs_of_a_map_are_extents() -> None:
    runs = Runs(*(np.array(one) for one in ([0, 0], [3, 9], [1, 2], [30, 90], [0, 1])))
    assert rows_of(ExtentList.from_rows(runs)) == [(3, 1, 30, False), (9, 2, 90, True)]


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 30, []),
        (4, 10, rows_of(THREE)),
        (0, 1, [(1, 3, 101, False), (10, 5, 200, True), (20, 1, 300, False)]),
        (3, 11, [(0, 3, 100, False), (11, 4, 201, True), (20, 1, 300, False)]),
        (11, 13, [(0, 4, 100, False), (10, 1, 200, True), (13, 2, 203, True), (20, 1, 300, False)]),
        (15, 21, [(0, 4, 100, False), (10, 5, 200, True)]),
    ],
)
def test_a_hole_takes_just_its_blocks(start: int, end: int, left: list[Row]) -> None:
    assert rows_of(THREE.without(start, end)) == left


@pytest.mark.parametrize(
    ("new", "made"),
    [
        ((5, 2, 900, True), [(0, 4, 100, False), (5, 2, 900, True), (10, 5, 200, True),
                             (20, 1, 300, False)]),
        ((1, 2, 900, False), [(0, 1, 100, False), (1, 2, 900, False), (3, 1, 103, False),
                              (10, 5, 200, True), (20, 1, 300, False)]),
        ((0, 21, 900, False), [(0, 21, 900, False)]),
        ((21, 1, 900, False), [*rows_of(THREE), (21, 1, 900, False)]),
        ((11, 2, 201, False), [(0, 4, 100, False), (10, 1, 200, True), (11, 2, 201, False),
                               (13, 2, 203, True), (20, 1, 300, False)]),
    ],
)  # fmt: skip
def test_a_new_range_replaces_what_was_there(new: Row, made: list[Row]) -> None:
    assert rows_of(THREE.with_range(*new)) == made


def test_what_lies_before_an_end_is_cut_there() -> None:
    assert rows_of(THREE.up_to(0)) == []
    assert rows_of(THREE.up_to(2)) == [(0, 2, 100, False)]
    assert rows_of(THREE.up_to(11)) == [(0, 4, 100, False), (10, 1, 200, True)]
    assert rows_of(THREE.up_to(1 << 32)) == rows_of(THREE)


def test_blocks_come_in_order_of_the_file() -> None:
    two = extents((0, 3, 70, False), (8, 2, 10, True))
    assert two.blocks().tolist() == [70, 71, 72, 10, 11]


@pytest.mark.parametrize(
    ("logical", "ratio", "block"),
    [
        (4, 4, 0), (7, 4, 0), (8, 4, 198), (9, 4, 199), (10, 4, 200), (11, 4, 201), (12, 4, 202),
        (15, 4, 205), (16, 4, 0), (19, 4, 0), (20, 4, 300), (21, 4, 301), (23, 4, 303), (24, 4, 0),
        (16, 8, 296), (23, 8, 303), (9, 1, 0), (10, 1, 200), (14, 1, 204), (15, 1, 0),
    ],
)  # fmt: skip
def test_a_block_of_a_cluster_that_is_there_has_its_place(
    logical: int, ratio: int, block: int
) -> None:
    some = extents((10, 5, 200, True), (20, 1, 300, False))
    assert some.block_in_cluster(logical, ratio) == block


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([(0, 2, 50, False), (2, 3, 52, False)], [(0, 5, 50, False)]),
        ([(0, 2, 50, True), (2, 3, 52, True)], [(0, 5, 50, True)]),
        ([(0, 2, 50, False), (2, 3, 52, True)], None),
        ([(0, 2, 50, True), (2, 3, 52, False)], None),
        ([(0, 2, 50, False), (3, 3, 52, False)], None),
        ([(0, 2, 50, False), (2, 3, 53, False)], None),
        ([(0, 2, 50, False), (2, 3, 51, False)], None),
        ([(0, 1, 50, False), (1, 1, 51, False), (2, 1, 52, False), (3, 1, 60, False)],
         [(0, 3, 50, False), (3, 1, 60, False)]),
        ([(0, 1, 40, False), (1, 4, 50, False), (5, 1, 54, False), (6, 2, 55, False)],
         [(0, 1, 40, False), (1, 7, 50, False)]),
        ([(3, 32768, 50, False)], None),
        ([(3, 32769, 50, False)], [(3, 32768, 50, False), (32771, 1, 32818, False)]),
        ([(3, 32767, 50, True)], None),
        ([(3, 32768, 50, True)], [(3, 32767, 50, True), (32770, 1, 32817, True)]),
        ([(0, 32768, 50, False), (32768, 32768, 32818, False)],
         [(0, 32768, 50, False), (32768, 32768, 32818, False)]),
        ([(0, 32767, 50, True), (32767, 40000, 32817, True), (90000, 5, 7, False)],
         [(0, 32767, 50, True), (32767, 32767, 32817, True), (65534, 7233, 65584, True),
          (90000, 5, 7, False)]),
    ],
)  # fmt: skip
def test_neighbours_are_joined_and_none_is_too_long(
    before: list[Row], after: list[Row] | None
) -> None:
    assert rows_of(extents(*before).merged()) == (before if after is None else after)


def scattered(count: int) -> ExtentList:
    return extents(*((2 * number, 1, 1000 + 3 * number, False) for number in range(count)))


def taking(first: int = 500) -> tuple[list[int], Any]:
    taken: list[int] = []

    def take() -> int:
        taken.append(first + len(taken))
        return taken[-1]

    return taken, take


def header(entries: int, most: int, depth: int) -> bytes:
    return struct.pack("<4HI", 0xF30A, entries, most, depth, 0)


def leaf(count: int, start: int = 0) -> bytes:
    rows = ((2 * n, 1, 0, 1000 + 3 * n) for n in range(start, start + count))
    return b"".join(struct.pack("<IHHI", *row) for row in rows)


def register(seed: int, data: bytes) -> int:
    return int(crc32c.crc32c(data, seed ^ 0xFFFFFFFF)) ^ 0xFFFFFFFF


@pytest.mark.parametrize("count", [0, 1, 4])
def test_four_extents_fit_into_the_inode(count: int) -> None:
    taken, take = taking()
    tree = build_extent_tree(scattered(count), SIZE, take, 99)
    assert tree.root == (header(count, 4, 0) + leaf(count)).ljust(60, b"\0")
    assert (tree.nodes, taken) == ({}, [])


def test_an_unwritten_extent_beyond_32_bits_is_stored_in_parts() -> None:
    block = 0x1234_89AB_CDEF
    tree = build_extent_tree(extents((7, 3, block, True)), SIZE, taking()[1], None)
    stored = struct.pack("<IHHI", 7, 0x8000 + 3, 0x1234, 0x89ABCDEF)
    assert tree.root == (header(1, 4, 0) + stored).ljust(60, b"\0")


@pytest.mark.parametrize("seed", [None, 0x1234_5678])
@pytest.mark.parametrize("count", [5, MOST, MOST + 1, 4 * MOST])
def test_more_go_into_leaves_that_the_inode_names(count: int, seed: int | None) -> None:
    taken, take = taking()
    tree = build_extent_tree(scattered(count), SIZE, take, seed)
    starts = range(0, count, MOST)
    assert taken == [500 + number for number in range(len(starts))] == list(tree.nodes)
    named = b"".join(
        struct.pack("<IIHH", 2 * start, block, 0, 0)
        for start, block in zip(starts, taken, strict=True)
    )
    assert tree.root == (header(len(starts), 4, 1) + named).ljust(60, b"\0")
    for start, node in zip(starts, tree.nodes.values(), strict=True):
        held = min(MOST, count - start)
        body = (header(held, MOST, 0) + leaf(held, start)).ljust(SIZE - 4, b"\0")
        end = b"\0" * 4 if seed is None else struct.pack("<I", register(seed, body))
        assert node == body + end


def test_a_tree_of_two_levels_has_its_index_blocks_behind_the_leaves() -> None:
    count = 4 * MOST + 1
    taken, take = taking(1 << 33)
    tree = build_extent_tree(scattered(count), SIZE, take, None)
    assert len(taken) == 6
    *leaves, top = taken
    assert tree.root == (header(1, 4, 2) + struct.pack("<IIHH", 0, top & 0xFFFFFFFF, 2, 0)).ljust(
        60, b"\0"
    )
    named = b"".join(
        struct.pack("<IIHH", 2 * MOST * number, block & 0xFFFFFFFF, 2, 0)
        for number, block in enumerate(leaves)
    )
    assert tree.nodes[top] == (header(5, MOST, 1) + named).ljust(SIZE, b"\0")
    assert tree.nodes[leaves[-1]] == (header(1, MOST, 0) + leaf(1, 4 * MOST)).ljust(SIZE, b"\0")


def test_a_block_without_room_for_a_checksum_gets_none() -> None:
    """12 + 340 entries of 12 bytes end 4 bytes before 4,096; blocks of other sizes at 4 or 8."""
    for size in (1024, 2048, 4096):
        tree = build_extent_tree(scattered(5), size, taking()[1], 7)
        (node,) = tree.nodes.values()
        covered = 12 + (size - 12) // 12 * 12
        expected = struct.pack("<I", register(7, node[:covered]))
        assert len(node) == size
        assert node[covered : covered + 4] == expected
        assert not any(node[covered + 4 :])
