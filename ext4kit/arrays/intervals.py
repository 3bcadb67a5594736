"""Intervals: runs of numbers (blocks, bytes, positions) as (start, length), and joins of them.

All runs are half-open: they end before `start + length`, which must be within int64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows, UInt8s

_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Intervals(Table):
    """Ascending runs that do not overlap but may touch.

    Attributes:
        start: first number.
        length: count of numbers; above 0.
    """

    start: Int64s
    length: Int64s

    @property
    def end(self) -> Int64s:
        """The number after the last one of each interval."""
        return self.start + self.length

    @classmethod
    def union(cls, start: Int64s, length: Int64s) -> Self:
        """The numbers of runs in any order, as intervals that do not touch.

        Args:
            start: int64 (n,).
            length: int64 (n,); runs of 0 or less are left out.
        """
        order = np.argsort(start, kind="stable")
        order = order[length[order] > 0]
        start, end = start[order], (start + length)[order]
        if not len(start):
            return cls(start, end)
        reach = np.maximum.accumulate(end)
        first = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
        last = np.append(first[1:], len(start)) - 1
        return cls(start[first], reach[last] - start[first])

    @classmethod
    def of_numbers(cls, numbers: Int64s) -> Self:
        """Ascending distinct numbers as intervals that do not touch."""
        first = np.flatnonzero(np.append(True, np.diff(numbers) != 1)[: len(numbers)])
        return cls(numbers[first], np.diff(first, append=len(numbers)))

    @classmethod
    def of_mask(cls, mask: Bools | UInt8s) -> Self:
        """Positions at which a mask (bool, or 0 and 1) is set, as intervals that do not touch."""
        edges = np.diff(mask.astype(np.int8), prepend=0, append=0)
        start, end = np.flatnonzero(edges).reshape(-1, 2).T
        return cls(start, end - start)

    def rows_at(self, numbers: Int64s) -> Rows:
        """The interval that contains each number, NO_ROW for none."""
        if not len(self):
            return np.full(len(numbers), NO_ROW)
        row = np.searchsorted(self.start, numbers, side="right") - 1
        return np.where((row >= 0) & (numbers < self.end[row]), row, NO_ROW)

    def contains(self, start: Int64s, length: Int64s) -> Bools:
        """Per run of length 1 or more (bool): True where it lies within one interval."""
        row = self.rows_at(start)
        inside: Bools = (row != NO_ROW) & (start + length <= np.append(self.end, 0)[row])
        return inside

    def intersect(self, other: Intervals) -> Self:
        """The parts that lie in both; parts stay separate where one operand separates them."""
        _, start, length = common_parts(self.start, self.length, other.start, other.length)
        return type(self)(start, length)

    def subtract(self, other: Intervals) -> Self:
        """The parts of these intervals that lie in none of the others."""
        row, start, length = common_parts(self.start, self.length, other.start, other.length)
        _, start, length = cut_out(self.start, self.length, row, start, length)
        return type(self)(start, length)


def split(length: Int64s, most: int) -> tuple[Rows, Int64s, Int64s]:
    """Cut runs longer than `most` into pieces of at most that length.

    Returns:
        (row of the run, position in it, length) of each piece, in order.
    """
    row, piece = expand(-(-length // most))
    return row, piece * most, np.minimum(length[row] - piece * most, most)


def overlap_pairs(
    start: Int64s, length: Int64s, other_start: Int64s, other_length: Int64s
) -> tuple[Rows, Rows]:
    """All pairs (row, other row) of runs of two tables that have a number in common.

    Lengths are above 0; neither table needs to be sorted. Pairs are sorted by row, and by other
    start for each row.
    """
    order = np.argsort(other_start, kind="stable")
    starts = other_start[order]
    ends = starts + other_length[order]
    reach = np.maximum.accumulate(ends) if len(ends) else ends
    low = np.searchsorted(reach, start, side="right")
    high = np.searchsorted(starts, start + length, side="left")
    row, position = expand(np.maximum(high - low, 0))
    other = low[row] + position
    touching = ends[other] > start[row]
    return row[touching], order[other[touching]]


def common_parts(
    start: Int64s, length: Int64s, other_start: Int64s, other_length: Int64s
) -> tuple[Rows, Int64s, Int64s]:
    """(row, start, length) of the common parts, in the order of `overlap_pairs`."""
    mine, theirs = overlap_pairs(start, length, other_start, other_length)
    first = np.maximum(start[mine], other_start[theirs])
    end = np.minimum((start + length)[mine], (other_start + other_length)[theirs])
    return mine, first, end - first


def cut_out(
    start: Int64s, length: Int64s, row: Rows, part_start: Int64s, part_length: Int64s
) -> tuple[Rows, Int64s, Int64s]:
    """The remainders of runs after parts of them are cut out.

    Args:
        start: int64 (n,), of the runs.
        length: int64 (n,).
        row: the run of each part. The part lies within that run; parts of one run do not overlap.
        part_start: int64 (m,).
        part_length: int64 (m,).

    Returns:
        (row of the run, start, length) of the remainders, by row and start.
    """
    every = np.arange(len(start))
    begins = np.concatenate([start, part_start + part_length])
    ends = np.concatenate([part_start, start + length])
    # The remainders have as many starts as ends, and both are in the same order.
    order = np.lexsort((begins, np.concatenate([every, row])))
    owner, first = np.concatenate([every, row])[order], begins[order]
    last = ends[np.lexsort((ends, np.concatenate([row, every])))]
    kept = last > first
    return owner[kept], first[kept], (last - first)[kept]


def select_disjoint(start: Int64s, end: Int64s, rank: Int64s) -> tuple[Bools, Int64s]:
    """Choose runs that do not overlap, the best ones first.

    Each round keeps the best run of every group of touching runs and drops the runs that overlap
    it. Runs that remain after many rounds are dropped as well. The time is linear in the number of
    runs.

    Args:
        start: int64 (n,).
        end: int64 (n,), one past the last.
        rank: int64 (n,), all different; of two runs the one with the lower rank is kept.

    Returns:
        (bool (n,): True for kept runs, int64 (n,): for a dropped run a kept run that it overlaps,
        else NO_ROW).
    """
    kept, over = np.zeros(len(start), np.bool_), np.full(len(start), NO_ROW)
    left = np.argsort(start, kind="stable")
    for _ in range(_ROUNDS):
        if not len(left):
            break
        reach = np.maximum.accumulate(end[left])
        new = np.append(True, start[left[1:]] >= reach[:-1])
        first = np.flatnonzero(new)
        lowest = np.minimum.reduceat(rank[left], first)
        best = left[rank[left] == lowest[np.cumsum(new) - 1]]
        kept[best] = True
        place = np.searchsorted(end[best], start[left], side="right")
        rival = best[np.minimum(place, len(best) - 1)]
        hit = (place < len(best)) & (start[rival] < end[left])
        over[left[hit]] = rival[hit]
        left = left[~hit]
    over[kept] = NO_ROW
    return kept, over
