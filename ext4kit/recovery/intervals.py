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
