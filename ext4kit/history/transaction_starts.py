"""Lower bounds on the start of transactions, from commit times and inode changes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Int64s

if TYPE_CHECKING:
    from ext4kit.history.inode_states import InodeStates

CLOCK_RESOLUTION = 10_000_000  # ns; longest clock tick of a kernel, the resolution of commit times
NEXT = 1  # step between the tids of consecutive transactions


class TransactionStarts:
    """Lower bounds on the start of transactions.

    Attributes:
        tids: int64, transactions with a commit time, ascending.
        times: int64, commit time of each, ns.
    """

    def __init__(self, commit_times: dict[int, int], states: InodeStates) -> None:
        self.tids = np.array(sorted(commit_times), np.int64)
        self.times = np.array([commit_times[tid] for tid in self.tids.tolist()], np.int64)
        self._states = states

    def started_after(self, tids: Int64s, last: int) -> Int64s:
        """Per transaction: time (int64, ns) before which it has no changes; 0 if unknown.

        A transaction starts while the previous one commits: after all changes of the previous one,
        and after the commit of the one before the previous. If the tids are not consecutive, the
        last known transaction was already committed. Source: kernel fs/jbd2/commit.c,
        `jbd2_journal_commit_transaction`.

        Args:
            tids: tids of the transactions.
            last: tids from this one on are not transactions; they stand for states after the last
                transaction.
        """
        before = np.searchsorted(self.tids, tids)  # number of earlier transactions
        follows = tids - np.append(0, self.tids)[before] == NEXT
        follows |= tids >= last
        committed = np.concatenate([[0, 0], self.times])[before + ~follows]
        start: Int64s = np.maximum(committed, np.append(0, self._known_changes)[before])
        return start

    @cached_property
    def _known_changes(self) -> Int64s:
        """Per committed transaction: time (ns) of its latest change, at most the commit time."""
        latest = self.latest_changes(self.tids)
        return np.minimum(latest, self.times)  # a damaged state can have any ctime

    def latest_changes(self, tids: Int64s) -> Int64s:
        """Latest ctime (ns) in the inode copies of each transaction; 0 if there is none."""
        states = self._states
        known, place = np.unique(tids, return_inverse=True)
        latest = np.zeros(len(known), np.int64)
        shown = np.flatnonzero(np.isin(states.tid, known))
        np.maximum.at(latest, np.searchsorted(known, states.tid[shown]), states.table.ctime[shown])
        return latest[place]
