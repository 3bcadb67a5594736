"""Joining two tables of block runs: which of these overlap which of those."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.filesystem.maps import Runs, spread


def overlaps(start: Any, length: Any, other_start: Any, other_length: Any) -> tuple[Any, Any]:
    """All pairs (row, other row) of half-open runs that share a block.

    Args:
        start: first blocks of the one table, int64.
        length: its lengths.
        other_start: first blocks of the other table; neither needs an order.
        other_length: its lengths.
    """
    order = np.argsort(other_start, kind="stable")
    starts = other_start[order]
    ends = starts + other_length[order]
    reach = np.maximum.accumulate(ends) if len(ends) else ends
    low = np.searchsorted(reach, start, side="right")
    high = np.searchsorted(starts, start + length, side="left")
    row, position = spread(np.maximum(high - low, 0))
    other = low[row] + position
    touching = ends[other] > start[row]
    return row[touching], order[other[touching]]


def common(start: Any, length: Any, other_start: Any, other_length: Any) -> tuple[Any, Any, Any]:
    """(row, first block, blocks) of the parts of runs that lie in others; as `overlaps`."""
    mine, theirs = overlaps(start, length, other_start, other_length)
    first = np.maximum(start[mine], other_start[theirs])
    end = np.minimum((start + length)[mine], (other_start + other_length)[theirs])
    return mine, first, end - first


def shared(one: Runs, other: Runs, owners: int) -> Any:
    """Per owner (bool): a block is in its runs of both tables."""
    edges = np.unique(
        np.concatenate(
            [part for runs in (one, other) for part in (runs.physical, runs.physical + runs.length)]
        )
    )
    keyed = []
    for runs in (one, other):
        start = np.searchsorted(edges, runs.physical)
        length = np.searchsorted(edges, runs.physical + runs.length) - start
        keyed += [runs.owner * (len(edges) + 1) + start, length]
    mine, _ = overlaps(*keyed)
    found = np.zeros(owners, bool)
    found[one.owner[mine]] = True
    return found


def without(runs: Runs, row: Any, start: Any, length: Any) -> Runs:
    """What is left of runs when parts of them are cut out.

    Args:
        runs: the runs.
        row: which of them each part is of; the parts of one do not overlap.
        start: first block of each part.
        length: blocks of each part.
    """
    every = np.arange(len(runs))
    begins = np.concatenate([runs.physical, start + length])
    ends = np.concatenate([start, runs.physical + runs.length])
    order = np.lexsort((begins, np.concatenate([every, row])))
    owner, first = np.concatenate([every, row])[order], begins[order]
    last = ends[np.lexsort((ends, np.concatenate([row, every])))]
    kept = last > first
    owner, first, last = owner[kept], first[kept], last[kept]
    return Runs(
        runs.owner[owner],
        runs.logical[owner] + first - runs.physical[owner],
        last - first,
        first,
        runs.unwritten[owner],
    )


def union(start: Any, length: Any) -> tuple[Any, Any]:
    """(start, length) of the same blocks as ascending runs that neither overlap nor touch."""
    order = np.argsort(start, kind="stable")
    order = order[length[order] > 0]
    start, end = start[order], (start + length)[order]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
    last = np.append(first[1:], len(start)) - 1
    return start[first], reach[last] - start[first]


def cut(length: Any, most: int) -> tuple[Any, Any, Any]:
    """Cut runs that are longer than `most` blocks into pieces.

    Returns:
        (row of the run, first block within it, blocks) of each piece, in order.
    """
    pieces = -(-length // most)
    row, piece = spread(pieces)
    return row, piece * most, np.minimum(length[row] - piece * most, most)
