"""The hash index of a directory while names are added, byte by byte.

Bytes by the kernel's documentation of hash tree directories: 24 bytes of `.` and `..`, 8 of info,
then limit and count over the hash of the first entry, then (hash, block) each; a node begins with
8 bytes of an empty entry. The checksum covers the entries in use and the 8 bytes of the tail.
"""

from __future__ import annotations

import struct
from typing import Any

import crc32c
import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.journal.fast_commits.htree import HtreeEditor

SIZE = 1024
SEED = 0xCAFE_F00D
ROOT_LIMIT = {None: (SIZE - 32) // 8, SEED: (SIZE - 32) // 8 - 1}  # 124, 123
NODE_LIMIT = {None: (SIZE - 8) // 8, SEED: (SIZE - 8) // 8 - 1}  # 127, 126
Pairs = list[tuple[int, int]]  # hash, block; the first one's hash is 0


def register(seed: int, data: bytes) -> int:
    return int(crc32c.crc32c(data, seed ^ 0xFFFFFFFF)) ^ 0xFFFFFFFF


def index_block(front: bytes, pairs: Pairs, limit: int, seed: int | None) -> bytes:
    """An index block as it has to be; nothing behind its entries but the tail."""
    table = b"".join(struct.pack("<II", *pair) for pair in pairs)
    used = front + struct.pack("<HH", limit, len(pairs)) + table[4:]
    end = b"" if seed is None else struct.pack("<II", 0, register(register(seed, used), bytes(8)))
    return used.ljust(SIZE - len(end), b"\0") + end


def root(pairs: Pairs, levels: int = 0, seed: int | None = SEED, version: int = 1) -> bytes:
    front = struct.pack("<IHBB4sIHBB4s", 12, 12, 1, 2, b".", 2, SIZE - 12, 2, 2, b"..")
    return index_block(
        front + struct.pack("<IBBBB", 0, version, 8, levels, 0), pairs, ROOT_LIMIT[seed], seed
    )


def node(pairs: Pairs, seed: int | None = SEED) -> bytes:
    return index_block(struct.pack("<IHBB", 0, SIZE, 0, 0), pairs, NODE_LIMIT[seed], seed)


class Directory:
    """The blocks of a directory in memory."""

    def __init__(self, *blocks: bytes, seed: int | None = SEED, most_levels: int = 1) -> None:
        self.blocks = [np.frombuffer(block, np.uint8).copy() for block in blocks]
        self.index = HtreeEditor(self.blocks.__getitem__, self.append, seed, most_levels)

    def append(self) -> tuple[int, Any]:
        self.blocks.append(np.zeros(SIZE, np.uint8))
        return len(self.blocks) - 1, self.blocks[-1]


def same(block: Any, expected: bytes, front: int, seed: int | None) -> None:
    """Equal in entries and tail; what lies behind the last entry does not matter."""
    data, (count,) = block.tobytes(), struct.unpack_from("<H", expected, front + 2)
    used = front + 8 * count
    assert data[:used] == expected[:used]
    if seed is not None:
        assert data[-8:] == expected[-8:]


@pytest.mark.parametrize("seed", [None, SEED])
@pytest.mark.parametrize(
    ("wanted", "leaf"),
    [(0, 5), (99, 5), (100, 7), (101, 7), (199, 7), (200, 3), (1 << 31, 3), (0xFFFFFFFE, 3)],
)
def test_a_name_belongs_into_the_last_leaf_that_begins_not_behind_it(
    wanted: int, leaf: int, seed: int | None
) -> None:
    steps = Directory(root([(0, 5), (100, 7), (200, 3)], 0, seed), seed=seed).index.path_to(wanted)
    assert [step.child for step in steps] == [leaf]
    assert [step.block for step in steps] == [0]
    assert not steps[0].is_full


def test_the_version_of_the_hash_is_the_roots() -> None:
    assert Directory(root([(0, 5)], version=4)).index.hash_version == 4


TWO_LEVELS = (
    root([(0, 1), (1000, 2)], 1),
    node([(0, 3), (500, 4)]),
    node([(0, 5), (1500, 6)]),
)


@pytest.mark.parametrize(
    ("wanted", "way"),
    [(0, [1, 3]), (499, [1, 3]), (500, [1, 4]), (999, [1, 4]), (1000, [2, 5]), (1499, [2, 5]),
     (1500, [2, 6])],
)  # fmt: skip
def test_the_way_goes_through_the_nodes(wanted: int, way: list[int]) -> None:
    steps = Directory(*TWO_LEVELS).index.path_to(wanted)
    assert [step.child for step in steps] == way
    assert [step.block for step in steps] == [0, way[0]]


def test_a_damaged_node_is_corrupt() -> None:
    with pytest.raises(CorruptError):
        Directory(TWO_LEVELS[0], bytes(SIZE), TWO_LEVELS[2]).index.path_to(0)
    with pytest.raises(CorruptError):
        Directory(bytes(SIZE)).index.path_to(0)


@pytest.mark.parametrize(
    ("pairs", "wanted", "leaves"),
    [
        ([(0, 1), (100, 2), (200, 3)], 100, [2]),
        ([(0, 1), (101, 2), (200, 3)], 100, [1, 2]),
        ([(0, 1), (101, 2), (101, 3), (200, 4)], 100, [1, 2, 3]),
        ([(0, 1), (100, 2), (101, 3), (101, 4)], 100, [2, 3, 4]),
        ([(0, 1), (103, 2)], 100, [1]),
        ([(0, 1), (100, 2)], 300, [2]),
        ([(0, 1)], 300, [1]),
    ],
)
def test_equal_hashes_go_on_in_the_next_leaf_where_its_lowest_bit_says_so(
    pairs: Pairs, wanted: int, leaves: list[int]
) -> None:
    assert Directory(root(pairs)).index.leaves_for(wanted) == leaves


@pytest.mark.parametrize(
    ("above", "wanted", "leaves"),
    [
        (1001, 1000, [4, 5]),  # the entry of the node tells the hash of its first leaf
        (1000, 998, [4]),
        (1000, 1000, [5]),
        (1003, 1000, [4]),
    ],
)
def test_equal_hashes_go_on_in_the_next_node(above: int, wanted: int, leaves: list[int]) -> None:
    blocks = root([(0, 1), (above, 2)], 1), TWO_LEVELS[1], TWO_LEVELS[2]
    assert Directory(*blocks).index.leaves_for(wanted) == leaves


def test_equal_hashes_go_on_through_a_whole_node() -> None:
    blocks = root([(0, 1), (601, 2), (601, 7)], 1), TWO_LEVELS[1], node([(0, 5), (601, 6)])
    rest = [bytes(SIZE)] * 4
    directory = Directory(*blocks, *rest, node([(0, 8), (700, 9)]))
    assert directory.index.leaves_for(600) == [4, 5, 6, 8]


def test_equal_hashes_go_on_below_two_levels_of_nodes() -> None:
    tops = root([(0, 1), (901, 2)], 2), node([(0, 3)]), node([(0, 4), (950, 5)])
    low = node([(0, 6), (800, 7)]), node([(0, 8), (901, 9), (920, 10)]), node([(0, 11)])
    assert Directory(*tops, *low, most_levels=2).index.leaves_for(900) == [7, 8, 9]


@pytest.mark.parametrize("seed", [None, SEED])
def test_a_new_leaf_stands_behind_the_one_that_was_split(seed: int | None) -> None:
    pairs: Pairs = [(0, 1), (100, 2), (200, 3)]
    directory = Directory(root(pairs, 0, seed), seed=seed)
    directory.index.add(directory.index.path_to(150), 160, 9)
    made = [(0, 1), (100, 2), (160, 9), (200, 3)]
    same(directory.blocks[0], root(made, 0, seed), 32, seed)
    directory.index.add(directory.index.path_to(0xFFFFFFF0), 0xFFFFFF00, 10)
    same(directory.blocks[0], root([*made, (0xFFFFFF00, 10)], 0, seed), 32, seed)


def many(count: int, first: int = 1, step: int = 10) -> Pairs:
    return [(step * n if n else 0, first + n) for n in range(count)]


@pytest.mark.parametrize("seed", [None, SEED])
def test_a_full_root_gets_a_node_below_it(seed: int | None) -> None:
    pairs = many(ROOT_LIMIT[seed], 100)
    directory = Directory(root(pairs, 0, seed), seed=seed)
    steps = directory.index.path_to(55)
    assert steps[-1].is_full
    directory.index.split_full_node(steps)
    same(directory.blocks[0], root([(0, 1)], 1, seed), 32, seed)
    same(directory.blocks[1], node(pairs, seed), 8, seed)
    assert len(directory.blocks) == 2
    assert [step.child for step in directory.index.path_to(55)] == [1, 105]


def test_a_root_that_is_one_short_of_full_is_not_full() -> None:
    directory = Directory(root(many(ROOT_LIMIT[SEED] - 1, 100)))
    assert not directory.index.path_to(0)[-1].is_full
    directory.index.add(directory.index.path_to(0), 5, 7)
    assert directory.index.path_to(0)[-1].is_full


@pytest.mark.parametrize("seed", [None, SEED])
def test_a_full_node_gives_its_upper_half_to_a_new_one(seed: int | None) -> None:
    pairs = many(NODE_LIMIT[seed], 100)
    upper = (1 << 20, 2)
    directory = Directory(
        root([(0, 1), upper], 1, seed), node(pairs, seed), node([(0, 3)], seed), seed=seed
    )
    steps = directory.index.path_to(1255)
    directory.index.split_full_node(steps)
    half = len(pairs) // 2
    same(directory.blocks[0], root([(0, 1), (10 * half, 3), upper], 1, seed), 32, seed)
    same(directory.blocks[1], node(pairs[:half], seed), 8, seed)
    moved = [(0, pairs[half][1]), *pairs[half + 1 :]]
    data = directory.blocks[3].tobytes()
    assert data[:8] == struct.pack("<IHBB", 0, SIZE, 0, 0)
    assert struct.unpack_from("<HH", data, 8) == (NODE_LIMIT[seed], len(moved))
    assert data[12 : 8 + 8 * len(moved)] == b"".join(struct.pack("<II", *p) for p in moved)[4:]
    if seed is not None:
        used = data[: 8 + 8 * len(moved)]
        assert data[-4:] == struct.pack("<I", register(register(seed, used), bytes(8)))
    for place, (name_hash, leaf) in enumerate(pairs):
        assert directory.index.path_to(name_hash)[-1].child == leaf, place


def test_where_the_parent_is_full_too_it_is_split_first() -> None:
    """Three levels: the lowest node and the one above are full, the root has room."""
    low = many(NODE_LIMIT[SEED], 500)
    middle: Pairs = [(0, 2), *((1 << 20 | n, 300 + n) for n in range(1, NODE_LIMIT[SEED]))]
    directory = Directory(root([(0, 1)], 2), node(middle), node(low), most_levels=2)
    directory.index.split_full_node(directory.index.path_to(5))
    half = len(middle) // 2
    same(directory.blocks[0], root([(0, 1), (middle[half][0], 3)], 2), 32, SEED)
    same(directory.blocks[1], node(middle[:half]), 8, SEED)
    same(directory.blocks[2], node(low), 8, SEED)
    assert len(directory.blocks) == 4
    directory.index.split_full_node(directory.index.path_to(5))  # now its parent has room
    half = len(low) // 2
    same(directory.blocks[2], node(low[:half]), 8, SEED)
    assert [step.child for step in directory.index.path_to(low[half][0])] == [1, 4, low[half][1]]


def test_where_all_are_full_a_level_is_added_below_the_root() -> None:
    low = many(NODE_LIMIT[SEED], 500)
    top: Pairs = [(0, 1), *((1 << 20 | n, 300 + n) for n in range(1, ROOT_LIMIT[SEED]))]
    blocks = root(top, 1), node(low)
    directory = Directory(*blocks, most_levels=2)
    directory.index.split_full_node(directory.index.path_to(5))
    same(directory.blocks[0], root([(0, 2)], 2), 32, SEED)
    same(directory.blocks[2], node(top), 8, SEED)
    assert [step.child for step in directory.index.path_to(5)] == [2, 1, 500]
    with pytest.raises(CorruptError, match="full"):
        small = Directory(*blocks, most_levels=1)
        small.index.split_full_node(small.index.path_to(5))


@pytest.mark.parametrize(("size", "stored"), [(32768, 32768), (65536, 65535)])
def test_a_node_of_64_kib_stores_its_length_as_all_ones(size: int, stored: int) -> None:
    row = np.zeros(size, np.uint8)
    index = HtreeEditor(lambda _: row, lambda: (4, row), None, 1)
    assert index._new_node(np.array([0, 77]), np.array([9, 8])) == 4
    wanted = struct.pack("<IHBBHHIII", 0, stored, 0, 0, (size - 8) // 8, 2, 9, 77, 8)
    assert row[:24].tobytes() == wanted
    assert not row[24:].any()
