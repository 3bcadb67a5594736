"""When the transactions of a log can have begun, as commit times and changes of inodes tell."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Int64s

if TYPE_CHECKING:
    from ext4kit.history.history import InodeStates

CLOCK_RESOLUTION = (
    10_000_000  # ns; a commit is dated by a clock that moves on this rarely, at worst
)
NEXT = 1  # step between the ids of transactions that follow each other


class Beginnings:
    """Bounds on when transactions began.

    Attributes:
        known: int64, orders of the transactions with a commit time, ascending.
        times: int64, when each was committed, ns.
    """

    def __init__(self, commit_times: dict[int, int], states: InodeStates) -> None:
        self.known = np.array(sorted(commit_times), np.int64)
        self.times = np.array([commit_times[order] for order in self.known.tolist()], np.int64)
        self._states = states

    def of(self, orders: Int64s, last: int) -> Int64s:
        """Times (int64, ns) before which nothing happened in each transaction, 0 for not known.

        One begins while the one before it is being committed: after all changes of that one,
        and after the commit of the one before that. Where the one before is not that of the id
        before, it was committed as well. Source: kernel fs/jbd2/commit.c,
        `jbd2_journal_commit_transaction`.

        Args:
            orders: of the transactions.
            last: what is not below it is no transaction: it follows the last one.
        """
        before = np.searchsorted(self.known, orders)  # how many
        follows = orders - np.append(0, self.known)[before] == NEXT
        follows |= orders >= last
        committed = np.concatenate([[0, 0], self.times])[before + ~follows]
        begun: Int64s = np.maximum(committed, np.append(0, self._known_changes)[before])
        return begun

    @cached_property
    def _known_changes(self) -> Int64s:
        """Per commit of `known`: its latest change (ns), not after its commit time."""
        return np.minimum(self.latest_changes(self.known), self.times)  # damaged states tell any

    def latest_changes(self, orders: Int64s) -> Int64s:
        """Latest ctime (ns) that the copies of each transaction show, 0 for none."""
        states = self._states
        known, place = np.unique(orders, return_inverse=True)
        latest = np.zeros(len(known), np.int64)
        shown = np.flatnonzero(np.isin(states.tid, known))
        np.maximum.at(latest, np.searchsorted(known, states.tid[shown]), states.table.ctime[shown])
        return latest[place]
