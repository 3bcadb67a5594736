"""Commits of the journal: their times, and the tids since which no transaction is missing."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import Int64s
from ext4kit.history import TID_ON_DISK
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.history.transaction_starts import CLOCK_RESOLUTION
from ext4kit.journal import Log
from ext4kit.journal.shared_log import FIRST_TID
from ext4kit.units import NANOSECONDS

INT64_MAX = np.iinfo(np.int64).max


class CommitClock:
    """The committed transactions of a journal.

    Args:
        log: the journal; None without one.
        made: creation time of the file system, in seconds.
        breaks: journal gaps (tids that are not consecutive); none by default.
    """

    def __init__(self, log: Log | None, made: int, breaks: JournalGaps | None = None) -> None:
        no_tids = np.zeros(0, np.int64)
        self.tids = self.times = no_tids
        if log is not None:
            committed = log.transactions.committed
            self.tids = log.transactions.order[committed]
            self.times = log.transactions.commit_time_ns[committed]
        self.made = min(made * NANOSECONDS, INT64_MAX)
        self._unmounted = no_tids if breaks is None else breaks.tid_before[breaks.unmounted]

    @property
    def is_complete(self) -> bool:
        """Whether the journal still holds all transactions since the file system was created."""
        return len(self.tids) > 0 and bool(self.tids[0] <= FIRST_TID)

    @cached_property
    def _complete_since(self) -> Int64s:
        """Per transaction: the tid after which no transaction up to this one is missing."""
        starts = np.ones(len(self.tids), bool)
        starts[1:] = (np.diff(self.tids) != 1) & ~np.isin(self.tids[:-1], self._unmounted)
        first = np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))
        baselines = self.tids[first]
        if self.is_complete:
            baselines[first == 0] = self.tids[0] - 1
        return baselines

    def complete_since(self, orders: Int64s) -> Int64s:
        """The tid after which all changes up to each tid are in the journal."""
        if not len(self.tids):
            return np.asarray(orders)
        place = np.searchsorted(self.tids, orders, side="right") - 1
        return np.where(place >= 0, self._complete_since[np.maximum(place, 0)], orders)

    @property
    def complete_since_now(self) -> int:
        """The tid after which all changes up to the present are in the journal."""
        return int(self._complete_since[-1]) if len(self.tids) else int(TID_ON_DISK)

    def times_of(self, orders: Int64s) -> Int64s:
        """Commit time of each tid, ns; -1 where it is unknown."""
        return values_at(self.times, SortedIndex(self.tids).rows(orders))

    def changes_known_after(self, orders: Int64s) -> Int64s:
        """Per tid: time (ns) after which all changes up to that tid are in the journal."""
        baseline = self.complete_since(orders)
        times = self.times_of(baseline)
        times = np.where(times < 0, INT64_MAX, times + CLOCK_RESOLUTION)
        if not self.is_complete:
            return times
        return np.where(baseline < self.tids[0], self.made, times)
