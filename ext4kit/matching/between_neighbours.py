"""Matches carved files with freed inodes where their order allows only one answer.

Files created one after the other in one group are usually consecutive on disk. Inode numbers are
allocated in ascending order, and the block allocator continues after the last allocated block
(kernel Documentation/filesystems/ext4/allocators.rst). Between two neighbours with known blocks,
equal numbers of carved files and freed inodes are matched in order if the files fill the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import group_sizes, rank_within, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, Rows

NO_ROW = -1


@dataclass(frozen=True, slots=True)
class Placement(Table):
    """Files whose inode and blocks are both known, as int64 columns.

    Attributes:
        group: group of the inode; time: creation time, ns; number: inode number.
        first: first block; end: one past the last block.
        in_one_run: bool, True where its blocks are consecutive.
    """

    group: Int64s
    time: Int64s
    number: Int64s
    first: Int64s
    end: Int64s
    in_one_run: Bools


def match_by_neighbours(
    known: Placement,
    wanted: tuple[Int64s, Int64s, Int64s],
    carved: tuple[Int64s, Int64s],
    taken: tuple[Int64s, Int64s],
) -> Rows:
    """The carved file that each freed inode had as its content.

    Args:
        known: files with known blocks, as possible neighbours.
        wanted: (group, creation time in ns, number) of regular files that were freed, had blocks,
            and have no known block.
        carved: (first block, one past the last) of the carved files, ascending.
        taken: (first block, one past the last) of all runs of other files, ascending.

    Returns:
        int64, per freed inode: row of the carved file, NO_ROW where no answer or more than one is
        possible.
    """
    before, after = _neighbours(known, wanted)
    rows = np.flatnonzero((before != NO_ROW) & (after != NO_ROW))
    start, stop = _gaps(known, before[rows], after[rows], taken)
    low = np.searchsorted(carved[0], start)
    high = np.searchsorted(carved[1], stop, side="right")
    place, size = _rank_in_gap(wanted, rows, before[rows])
    sure = (high - low == size) & (stop > start)
    lengths = np.append(0, np.cumsum(carved[1] - carved[0]))
    sure[sure] &= (lengths[high] - lengths[low] == stop - start)[sure]
    found = np.full(len(wanted[2]), NO_ROW)
    found[rows[sure]] = (low + place)[sure]
    return found


def _neighbours(known: Placement, wanted: tuple[Int64s, Int64s, Int64s]) -> tuple[Rows, Rows]:
    """(rows in `known` of the neighbours before, of those after) the wanted files.

    NO_ROW where the group of the file has no such neighbour.
    """
    group, time, number = (
        np.concatenate(pair)
        for pair in zip((known.group, known.time, known.number), wanted, strict=True)
    )
    order = np.lexsort((number, time, group))
    row = np.where(order < len(known.number), order, NO_ROW)
    place = np.where(row != NO_ROW, np.arange(len(order)), NO_ROW)
    last = np.maximum.accumulate(place) if len(order) else place
    next_place = np.where(row != NO_ROW, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(next_place[::-1])[::-1] if len(order) else next_place
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    mine = position[len(known.number) :]
    before = np.where(last[mine] >= 0, row[last[mine]], NO_ROW)
    after = np.append(row, NO_ROW)[following[mine]]
    for found in (before, after):
        found[np.append(known.group, NO_ROW)[found] != wanted[0]] = NO_ROW
    return before, after


def _gaps(
    known: Placement, before: Rows, after: Rows, taken: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """(start, stop) of the blocks between two neighbours; empty if another file is between them."""
    start = known.end[before]
    following = np.searchsorted(taken[0], start)
    border = np.append(taken[0], np.iinfo(np.int64).max)[following]
    inside = np.searchsorted(taken[0], start, side="right") - 1
    covered = (inside >= 0) & (taken[1][np.maximum(inside, 0)] > start)
    sure = known.in_one_run[before] & ~covered
    sure &= known.in_one_run[after] & (known.first[after] == border)
    return start, np.where(sure, border, start)


def _rank_in_gap(
    wanted: tuple[Int64s, Int64s, Int64s], rows: Rows, before: Rows
) -> tuple[Int64s, Int64s]:
    """(index in its gap, number of files there) of each wanted file; a gap is in creation order."""
    order = np.lexsort((wanted[2][rows], wanted[1][rows], before))
    first = starts_group(before[order])
    place, count = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    place[order] = rank_within(first)
    count[order] = group_sizes(first)[np.cumsum(first) - 1]
    return place, count
