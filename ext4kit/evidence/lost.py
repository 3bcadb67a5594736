"""The ranges of a source that are known to be unreadable before they are read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Int64s

_FAR = (1 << 63) - 1
_MOST = 1 << 18  # ranges kept per source


@runtime_checkable
class HasUnreadable(Protocol):
    """A source that may record its unreadable ranges."""

    def unreadable(self) -> Int64s:
        """First byte and end of each range, int64 (n, 2), ascending and disjoint."""
        ...


def unreadable_ranges(source: object) -> Int64s:
    """The ranges of a source that are known to be lost: missing, damaged, or never acquired.

    Damage inside a container is known only after an attempt to read the damaged part.

    Returns:
        First byte and end of each range, int64 (n, 2), ascending and disjoint.
    """
    return source.unreadable() if isinstance(source, HasUnreadable) else merge_ranges()


def merge_ranges(*tables: Int64s | Sequence[Sequence[int]], most: int = _FAR) -> Int64s:
    """Ranges in any order as int64 (n, 2), ascending; ranges that touch are merged.

    Args:
        tables: (first byte, end) of each range.
        most: end of the source, to which ranges are clipped.
    """
    ranges = [np.asarray(table, np.int64).reshape(-1, 2) for table in tables]
    start, end = np.concatenate([np.empty((0, 2), np.int64), *ranges]).clip(max=most).T
    whole = Intervals.union(start, end - start)
    return np.stack([whole.start, whole.end], axis=1)


def shift_ranges(ranges: Int64s, by: int, size: int) -> Int64s:
    """Ranges shifted by `by` bytes and clipped to a source of `size` bytes."""
    return merge_ranges(np.clip(ranges + by, 0, size))


class UnreadableRanges:
    """A bounded collection of unreadable ranges, found one after the other."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add a range; it is merged with those that it overlaps or touches."""
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        elif len(self._starts) >= _MOST:
            return
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def first_in(self, start: int, end: int) -> tuple[int, int] | None:
        """The first recorded range that overlaps the given one, or None."""
        at = bisect_right(self._ends, start)
        if at < len(self._starts) and self._starts[at] < end:
            return self._starts[at], self._ends[at]
        return None

    def table(self) -> Int64s:
        """First byte and end of each range, int64 (n, 2)."""
        return merge_ranges(list(zip(self._starts, self._ends, strict=True)))
