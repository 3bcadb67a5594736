"""Which bytes of a source are known to be lost, before anyone reads them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ext4kit.arrays.intervals import Intervals

_MOST = 1 << 18  # ranges that are kept of one source


@runtime_checkable
class HasUnreadable(Protocol):
    """A source that may know of bytes of its own that are lost."""

    def unreadable(self) -> Any:
        """First byte and end of each range, int64 (n, 2), in order and apart."""
        ...


def unreadable_ranges(source: object) -> Any:
    """The bytes of a source that are known to be lost: missing, damaged, or never imaged.

    What is damaged inside a container is known once it was tried to be read.

    Returns:
        First byte and end of each range, int64 (n, 2), in order and apart.
    """
    return source.unreadable() if isinstance(source, HasUnreadable) else merge_ranges([])


def merge_ranges(ranges: Any) -> Any:
    """Ranges in any order as int64 (n, 2) in order; those that touch become one."""
    start, end = np.asarray(ranges, np.int64).reshape(-1, 2).T
    whole = Intervals.union(start, end - start)
    return np.stack([whole.start, whole.end], axis=1)


def shift_ranges(ranges: Any, by: int, size: int) -> Any:
    """Ranges moved by so many bytes, cut to a source of `size` bytes."""
    return merge_ranges(np.clip(ranges + by, 0, size))


class UnreadableRanges:
    """Ranges that became known one after the other, bounded in number."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Take note of a range; it is joined with those that it overlaps or touches."""
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        elif len(self._starts) >= _MOST:
            return
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def first_in(self, start: int, end: int) -> tuple[int, int] | None:
        """The first known range with bytes of the one that is asked about."""
        at = bisect_right(self._ends, start)
        if at < len(self._starts) and self._starts[at] < end:
            return self._starts[at], self._ends[at]
        return None

    def table(self) -> Any:
        """First byte and end of each range, int64 (n, 2)."""
        return merge_ranges(list(zip(self._starts, self._ends, strict=True)))
