"""The transactions that a timeline stands on: which are there without a gap, and their times."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.journal import Log
from ext4kit.past import NOW
from ext4kit.past.beginnings import TICK
from ext4kit.past.breaks import Breaks
from ext4kit.units import NANOSECONDS

FIRST_EVER = 2  # the kernel's first transaction in a log that mke2fs made has this id or 1
FAR = np.iinfo(np.int64).max


class Clock:
    """The committed transactions of a log.

    Args:
        log: the log; None without one.
        made: when the file system was made, seconds.
        breaks: where its ids do not follow each other; none by default.
    """

    def __init__(self, log: Log | None, made: int, breaks: Breaks | None = None) -> None:
        nothing = np.zeros(0, np.int64)
        self.orders = self.times = nothing
        if log is not None:
            committed = log.transactions.committed
            self.orders = log.transactions.order[committed]
            self.times = log.transactions.commit_time_ns[committed]
        self.made = min(made * NANOSECONDS, FAR)
        self._unmounted = nothing if breaks is None else breaks.before[breaks.clean]

    @property
    def is_whole(self) -> bool:
        """The log still holds everything since the file system was made."""
        return len(self.orders) > 0 and bool(self.orders[0] <= FIRST_EVER)

    @cached_property
    def _baselines(self) -> Any:
        """Per transaction: the one whose end is known, with all that came after it."""
        starts = np.ones(len(self.orders), bool)
        starts[1:] = (np.diff(self.orders) != 1) & ~np.isin(self.orders[:-1], self._unmounted)
        first = np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))
        baselines = self.orders[first]
        if self.is_whole:
            baselines[first == 0] = self.orders[0] - 1
        return baselines

    def baseline(self, orders: Any) -> Any:
        """The transaction after which all changes up to each order are in the log."""
        if not len(self.orders):
            return np.asarray(orders)
        place = np.searchsorted(self.orders, orders, side="right") - 1
        return np.where(place >= 0, self._baselines[np.maximum(place, 0)], orders)

    @property
    def last_baseline(self) -> int:
        """The transaction after which everything up to the present is in the log."""
        return int(self._baselines[-1]) if len(self.orders) else int(NOW)

    def times_of(self, orders: Any) -> Any:
        """When each was committed, ns; -1 where that is not known."""
        return values_at(self.times, SortedIndex(self.orders).rows(orders))

    def known_since(self, orders: Any) -> Any:
        """The time after which all changes up to each order are in the log, ns."""
        baseline = self.baseline(orders)
        times = self.times_of(baseline)
        times = np.where(times < 0, FAR, times + TICK)
        if not self.is_whole:
            return times
        return np.where(baseline < self.orders[0], self.made, times)
