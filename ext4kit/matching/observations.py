"""The order of carved contents on disk, and the known files before and after each of them."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s, Rows
from ext4kit.matching.hmm import NeighbourFiles
from ext4kit.matching.transitions import NEAR_BLOCKS, NOTHING, STREAM_REQUEST_BLOCKS, Adjacency


def creation_rank(time: Int64s, number: Int64s, other_time: Int64s, other_number: Int64s) -> Int64s:
    """Per file of a second list: number of files of the first list that were created before it.

    Both lists give creation time and inode number; the first one is sorted by these.
    """
    order = np.lexsort((np.concatenate([number, other_number]), np.concatenate([time, other_time])))
    mine = order < len(time)
    count = np.empty(len(order), np.int64)
    count[order] = np.cumsum(mine) - mine
    return count[len(time) :]


def allocation_order(first: Int64s, end: Int64s) -> Rows:
    """Order of contents: the small ones in disk order, then the large ones in disk order.

    The allocator keeps separate places for small and for large files, and fills each place in the
    order in which the files are written (kernel Documentation/filesystems/ext4/allocators.rst).
    """
    return np.lexsort((first, end - first > STREAM_REQUEST_BLOCKS))


def neighbours_of(
    observed: tuple[Int64s, Int64s], known: tuple[Int64s, Int64s, Int64s, Int64s]
) -> tuple[Int64s, NeighbourFiles, NeighbourFiles]:
    """Adjacency of contents in allocation order, and the nearest known file before and after each.

    Args:
        observed: (first block, one past the last) of the contents, in the order of
            `allocation_order`.
        known: (first block, one past the last, creation rank, directory) of the runs of known
            files, in any order.

    Returns:
        (an `Adjacency` per content, known files before, known files after).
    """
    first, end = (np.concatenate(pair) for pair in zip(observed, known, strict=False))
    order = np.argsort(first, kind="stable")
    first, end = first[order], end[order]
    content = order < len(observed[0])
    large = end - first > STREAM_REQUEST_BLOCKS
    gap = np.append(np.iinfo(np.int64).max, first[1:] - end[:-1])
    same = np.append(False, large[1:] == large[:-1])
    row = np.cumsum((gap != 0) | ~same)
    here = np.argsort(order)[: len(observed[0])]
    link = np.where(large[here], Adjacency.CONTIGUOUS_LARGE, Adjacency.CONTIGUOUS_SMALL)
    breaks = (
        (row, Adjacency.CONTIGUOUS_MIXED),
        (gap != 0, Adjacency.NEAR),
        ((gap < 0) | (gap > NEAR_BLOCKS), Adjacency.FAR),
    )
    for broken, kind in breaks:
        sums = np.cumsum(broken) if broken.dtype == bool else broken
        link[1:][sums[here[1:]] != sums[here[:-1]]] = kind
    link[:1] = Adjacency.FAR
    link[1:][np.diff(here) < 0] = Adjacency.FAR
    every = np.arange(len(order))
    in_front = np.maximum.accumulate(np.where(content, NOTHING, every))[here]
    after = np.minimum.accumulate(np.where(content, len(order), every)[::-1])[::-1][here]
    after[after == len(order)] = NOTHING
    counted: Int64s = np.cumsum(content)
    sides = []
    for side, between in (
        (in_front, counted[here] - counted[in_front] - 1),
        (after, counted[after] - counted[here]),
    ):
        there = side != NOTHING
        known_row = np.where(there, order[side] - len(observed[0]), NOTHING)
        made, directory = (np.append(column, 0)[known_row] for column in known[2:])
        sides.append(
            NeighbourFiles(
                np.where(there, made, NOTHING),
                between,
                there & (row[side] == row[here]),
                np.where(there, directory, NOTHING),
            )
        )
    return link, sides[0], sides[1]
