"""Free blocks and inodes of many groups, as ranges.

Most groups of a large file system were never written: their bitmaps are not on disk. Such a group
is entirely free, except for the file system's own blocks in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.intervals import Intervals
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.group import GroupFlags

Range = tuple[int, int]  # first and last, both included
Lists = Iterator[list[Range]]  # one list per group


def free_ranges(bits: Any) -> list[Range]:
    """Runs of zeros in a bitmap with one byte per bit, as (first, last) positions."""
    free = Intervals.of_mask(bits == 0)
    return list(zip(free.start.tolist(), (free.end - 1).tolist(), strict=True))


def packed_free_ranges(rows: Any, count: int) -> list[list[Range]]:
    """Runs of zeros in many bitmaps as they are stored.

    Args:
        rows: uint8 (n, bytes), a multiple of 8 bytes; the bits after `count` are overwritten.
        count: number of bits of each.
    """
    whole, rest = divmod(count, 8)
    rows[:, whole : whole + 1] |= 0xFF << rest & 0xFF
    rows[:, whole + 1 :] = 0xFF
    free = ~rows.view("<u8")
    one, top = np.uint64(1), np.uint64(63)
    before, behind = free << one, free >> one  # the previous and the next bit of each bit
    before[:, 1:] |= free[:, :-1] >> top
    behind[:, :-1] |= free[:, 1:] << top
    row, first = _set_bits(free & ~before)
    _, last = _set_bits(free & ~behind)
    ranges = list(zip(first.tolist(), last.tolist(), strict=True))
    edges = row_bounds(row, len(rows)).tolist()
    return [ranges[start:end] for start, end in pairwise(edges)]


def _set_bits(words: Any) -> tuple[Any, Any]:
    """(row, bit position in it) of each set bit in rows of 64-bit words, mostly zeros."""
    row, word = np.nonzero(words)
    octets = words[row, word].astype("<u8").view(np.uint8).reshape(-1, 8)
    which, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return row[which], word[which] * 64 + bit


class FreeRanges:
    """The free clusters and inodes of groups, counted from the start of each group.

    Args:
        fs: the file system; an unreadable bitmap is reported in its problems.
    """

    def __init__(self, fs: FileSystem) -> None:
        features = fs.superblock.features
        self._fs = fs
        self._lazy = RoCompat.METADATA_CSUM in features or RoCompat.UNINIT_BG in features
        self._has_homes = _with_metadata(fs)

    def clusters(self, numbers: range, counts: list[int], overheads: list[int]) -> Lists:
        """Free clusters of some groups.

        Args:
            numbers: group numbers.
            counts: number of clusters of each.
            overheads: number of blocks of superblock and descriptors at the start of each.
        """
        groups, bitmaps = self._fs.groups, self._fs.bitmaps
        part, count = slice(numbers.start, numbers.stop), self._fs.superblock.bits_per_group
        unwritten = self._uninitialised(part, GroupFlags.BLOCK_UNINIT)
        bare = ~self._has_homes[part] & (np.array(overheads) == 0)
        whole = np.array(counts) == count
        found = self._read_bitmaps(groups.block_bitmap[part], count, whole & ~unwritten)
        for at, ranges in enumerate(found):
            if ranges is not None:
                yield ranges
            elif unwritten[at] and bare[at]:
                yield [(0, counts[at] - 1)]
            else:
                yield free_ranges(bitmaps.block_bitmap(numbers[at])[: counts[at]])

    def inodes(self, numbers: range) -> Lists:
        """Free inodes of some groups."""
        groups, bitmaps = self._fs.groups, self._fs.bitmaps
        part, count = slice(numbers.start, numbers.stop), self._fs.superblock.inodes_per_group
        unwritten = self._uninitialised(part, GroupFlags.INODE_UNINIT)
        found = self._read_bitmaps(groups.inode_bitmap[part], count, ~unwritten)
        for at, ranges in enumerate(found):
            if ranges is not None:
                yield ranges
            elif unwritten[at]:
                yield [(0, count - 1)]
            else:
                yield free_ranges(bitmaps.inode_bitmap(numbers[at]))

    def _uninitialised(self, part: slice, flag: GroupFlags) -> Any:
        """Per group: True where its bitmap was never written."""
        return self._lazy & ((self._fs.groups.flags[part] & int(flag)) != 0)

    def _read_bitmaps(self, places: Any, count: int, wanted: Any) -> list[list[Range] | None]:
        """The runs of zeros of stored bitmaps; None where not wanted or not readable."""
        found: list[list[Range] | None] = [None] * len(places)
        some = np.flatnonzero(wanted)
        rows, readable = self._fs.fetch(places[some])
        many = packed_free_ranges(rows[readable], count)
        for at, ranges in zip(some[readable].tolist(), many, strict=True):
            found[at] = ranges
        return found


def _with_metadata(fs: FileSystem) -> Any:
    """Per group: True where a bitmap or inode table, of this or another group, lies in it."""
    superblock, groups = fs.superblock, fs.groups
    count, size = len(groups), max(superblock.blocks_per_group, 1)
    table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
    step = np.zeros(count + 1, np.int64)
    kinds = ((groups.block_bitmap, 1), (groups.inode_bitmap, 1), (groups.inode_table, table))
    for places, length in kinds:
        first = places - superblock.first_data_block
        np.add.at(step, np.clip(first // size, 0, count), 1)
        np.add.at(step, np.clip((first + length - 1) // size + 1, 0, count), -1)
    return np.cumsum(step)[:-1] > 0
