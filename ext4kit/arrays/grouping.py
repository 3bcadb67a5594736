"""Groups of neighbouring rows with equal keys, expansion of rows, and distinct values."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Keys, Rows

_SPARSE = 8  # a table is faster than a sort up to this ratio of range to values


def starts_group(*keys: Keys) -> Bools:
    """Per row (bool): True for the first row of each run of equal keys.

    Args:
        keys: columns of one length; rows with equal keys are adjacent.
    """
    starts = np.ones(len(keys[0]), np.bool_)
    starts[1:] = False
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def ends_group(*keys: Keys) -> Bools:
    """Per row (bool): True for the last row of each run of equal keys (see `starts_group`)."""
    ends = np.ones(len(keys[0]), np.bool_)
    ends[:-1] = starts_group(*keys)[1:]
    return ends


def rank_within(starts: Bools) -> Int64s:
    """The position of each row in its group, from 0.

    Args:
        starts: bool (n,), True at the first row of each group; row 0 is always True.
    """
    row = np.arange(len(starts))
    return row - np.maximum.accumulate(np.where(starts, row, 0))


def group_sizes(starts: Bools) -> Int64s:
    """The number of rows of each group; `starts` as in `rank_within`."""
    return np.diff(np.flatnonzero(starts), append=len(starts))


def expand(counts: Int64s) -> tuple[Rows, Int64s]:
    """Repeat each row `counts[row]` times: (row, position among its copies), in row order."""
    row = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return row, np.arange(len(row)) - starts[row]


def row_bounds(owners: Int64s, count: int) -> Rows:
    """Bounds (count + 1,): owner `i` has the rows from element `i` to before element `i + 1`.

    Args:
        owners: int64 (n,), ascending, from 0.
        count: number of owners.
    """
    return np.searchsorted(owners, np.arange(count + 1))


def first_occurrence(values: Int64s) -> Bools:
    """Per value (bool): True where the value has not occurred before."""
    first = np.zeros(len(values), np.bool_)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def distinct(values: Int64s) -> tuple[Int64s, Rows]:
    """The distinct values, ascending, and the index of each value among them.

    Like `np.unique`, but without the sort where values ascend or are close to each other.
    """
    if (values[1:] >= values[:-1]).all():
        new = starts_group(values)
        return values[new], np.cumsum(new) - 1
    first, last = int(values.min()), int(values.max())
    if last - first > _SPARSE * len(values):
        return np.unique(values, return_inverse=True)
    occurs = np.zeros(last - first + 1, np.bool_)
    occurs[values - first] = True
    return np.flatnonzero(occurs) + first, (np.cumsum(occurs) - 1)[values - first]
