"""Lookups in sorted columns: the row with a key, or the newest row of a key as of a time."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows


class SortedIndex:
    """Exact join: the row with a key.

    Args:
        keys: int64 (n,), ascending; several rows may have the same key.
    """

    def __init__(self, keys: Int64s) -> None:
        self._keys = keys

    def rows(self, keys: Int64s) -> Rows:
        """The first row with each key, NO_ROW for none."""
        if not len(self._keys):
            return np.full(len(keys), NO_ROW)
        row = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[row] == keys, row, NO_ROW)

    def bounds(self, keys: Int64s) -> tuple[Rows, Rows]:
        """(first row, row after the last) of each key; both are equal if no row has the key."""
        return np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")


class AsOfIndex:
    """As-of join: the newest row of a key at or before a time.

    Args:
        keys: int64 (n,), key of each row.
        times: int64 (n,), time of each row; rows ascend by (key, time).
    """

    def __init__(self, keys: Int64s, times: Int64s) -> None:
        self._keys, self._times = np.unique(keys), np.unique(times)
        ranks = np.searchsorted(self._times, times)
        self._ranks = np.searchsorted(self._keys, keys) * len(self._times) + ranks

    def rows(self, keys: Int64s, at: Int64s | int) -> Rows:
        """The last row of each key whose time is not after `at`, NO_ROW where there is none.

        Args:
            keys: int64 (n,).
            at: time to look up for each key, int64 (n,), or one time for all.
        """
        if not len(self._keys):
            return np.full(len(keys), NO_ROW)
        slot = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        first = slot * len(self._times)  # the lowest rank of a row of this key
        newest = first + np.searchsorted(self._times, at, side="right") - 1
        row = np.searchsorted(self._ranks, newest, side="right") - 1
        known = (self._keys[slot] == keys) & (row >= 0)
        known &= self._ranks[row] >= first
        return np.where(known, row, NO_ROW)


def values_at(values: Int64s, rows: Rows) -> Int64s:
    """The value at each row that a lookup returned, NO_ROW where it returned NO_ROW."""
    return np.where(rows == NO_ROW, NO_ROW, values[rows]) if len(values) else rows


def is_member(values: Int64s, of: Int64s) -> Bools:
    """Per value (bool): True where the ascending array `of` contains it."""
    found: Bools = SortedIndex(of).rows(values) != NO_ROW
    return found
