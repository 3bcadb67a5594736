"""Breaks: what the ids of transactions tell of unmounts, power cuts and lost transactions.

An unmount takes one id and the next mount another, and the log goes on where it was: two ids
are missing. A recovery by the kernel leaves out one. Where more are missing, or the log starts
again at its first block, transactions were overwritten or e2fsck has recovered it.
Source: kernel fs/jbd2/journal.c, `jbd2_journal_destroy`; fs/jbd2/recovery.c,
`jbd2_journal_recover`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.journal import BlockHistory, Log
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET

UNMOUNT_STEP = 3  # step between the ids before and after an unmount
NO_RESTART = 1 << 62


@dataclass(frozen=True, slots=True)
class JournalGaps:
    """Places where the ids of a log's transactions do not follow each other, as columns.

    Attributes:
        tid_before, tid_after: orders of the transactions on both sides, ascending.
        commit_time: commit time of the one before (ns), -1 when not known.
        unmounted: the file system was unmounted: everything had come to the disk.
        transactions_lost: transactions in between were overwritten.
        restarted_at: the first order of transactions that are older than those of lower orders,
            NO_RESTART
            for none: the log was made to count from a lower number since.
        damaged: int64, ascending: orders of transactions of which a part cannot be read.
    """

    tid_before: Int64s
    tid_after: Int64s
    commit_time: Int64s
    unmounted: Bools
    transactions_lost: Bools
    restarted_at: int = NO_RESTART
    damaged: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def with_mounts(self, mounts: MountCounts) -> JournalGaps:
        """The same; clean is only where no other mount can have come in between.

        A recovery of which nothing was committed afterwards leaves the ids of an unmount.
        """
        if not len(self.tid_before) or not len(mounts):
            return self
        ends, begins = self.tid_before, self.tid_after
        last = np.searchsorted(mounts.tid, ends, side="right") - 1
        first = np.searchsorted(mounts.tid, begins)
        known = (last >= 0) & (first < len(mounts))
        last, first = np.maximum(last, 0), np.minimum(first, len(mounts) - 1)
        known &= mounts.tid[last] >= np.append(0, begins[:-1])  # of the session that ended
        known &= mounts.tid[first] <= np.append(ends[1:], NO_RESTART)  # of the one that began
        once = (mounts.counts(first) - mounts.counts(last)) == 1
        return replace(self, unmounted=self.unmounted & (once | ~known))

    def first_gap_after(self, orders: Int64s) -> Rows:
        """Row of the first break behind each transaction, the number of breaks for none."""
        return np.searchsorted(self.tid_before, orders)

    def with_lost(self, order: Int64s, rows: Int64s) -> JournalGaps:
        """The same, and something unknown happened behind some transactions.

        Args:
            order: orders of all transactions, ascending.
            rows: rows of these, each with one behind it.
        """
        new = rows[~np.isin(order[rows], self.tid_before)]
        before = np.concatenate([self.tid_before, order[new]])
        sort = np.argsort(before, kind="stable")
        blank = np.zeros(len(new), bool)
        return JournalGaps(
            before[sort],
            np.concatenate([self.tid_after, order[new + 1]])[sort],
            np.concatenate([self.commit_time, np.full(len(new), -1)])[sort],
            np.concatenate([self.unmounted, blank])[sort],
            np.concatenate([self.transactions_lost, blank])[sort]
            | np.isin(before[sort], order[rows]),
            self.restarted_at,
            self.damaged,
        )

    @overload
    def any_lost_between(self, orders: int, until: int) -> np.bool_: ...
    @overload
    def any_lost_between(self, orders: Int64s, until: Int64s | int) -> Bools: ...
    @overload
    def any_lost_between(self, orders: int, until: Int64s) -> Bools: ...
    def any_lost_between(self, orders: Int64s | int, until: Int64s | int) -> Bools | np.bool_:
        """Between the orders (bool): transactions were lost, or a part of them cannot be read.

        A block's copy of the transaction `orders` was read; those of `until` need not have been.
        """
        before = self.tid_before[self.transactions_lost]
        gap = np.searchsorted(before, orders) < np.searchsorted(before, until)
        return gap | self.any_damaged(orders, until)

    def any_damaged(self, orders: Int64s | int, until: Int64s | int) -> Bools | np.bool_:
        """Behind the first order and up to the second (bool): a part cannot be read."""
        first, end = (np.searchsorted(self.damaged, at, "right") for at in (orders, until))
        return first < end


class MountCounts:
    """How often the file system had been mounted, from copies of its superblock in the log.

    Each mount counts in `s_mnt_count`; deletions, and the first file that is opened, log the block.
    Source: kernel fs/ext4/super.c, `ext4_setup_super`; fs/ext4/file.c, `ext4_sample_last_mounted`.

    Attributes:
        tid: int64, of each copy, ascending.
    """

    def __init__(self, history: BlockHistory, block_size: int) -> None:
        block, self._at = divmod(SUPERBLOCK_OFFSET, block_size)
        self._log, self._tags = history.log, history.copies_of_block(block)
        self.tid = self._log.tags.order[self._tags]

    def __len__(self) -> int:
        return len(self.tid)

    def counts(self, rows: Int64s) -> Int64s:
        """Int64: `s_mnt_count` of some copies."""
        at = self._at + SUPERBLOCK.offset_of("s_mnt_count")
        copies = self._log.read_copies(self._tags[rows])[:, at : at + 2]
        return np.ascontiguousarray(copies).view("<u2").ravel().astype(np.int64)


def find_journal_gaps(log: Log | None) -> JournalGaps:
    """The breaks of a log; none without one."""
    none = np.zeros(0, np.int64)
    if log is None:
        return JournalGaps(none, none, none, none.astype(bool), none.astype(bool))
    damaged = log.damaged_orders
    if len(log.transactions) < 2:
        return JournalGaps(none, none, none, none.astype(bool), none.astype(bool), damaged=damaged)
    known = log.transactions
    rows = np.flatnonzero(np.diff(known.order) > 1)
    step = known.order[rows + 1] - known.order[rows]
    went_on = (known.commit[rows] >= 0) & (
        known.start[rows + 1] == log.ring.wrap(known.commit[rows] + 1)
    )
    return JournalGaps(
        known.order[rows],
        known.order[rows + 1],
        known.commit_time_ns[rows],
        went_on & (step == UNMOUNT_STEP),
        step > UNMOUNT_STEP,
        _restart_tid(known.order, known.commit_time_ns),
        damaged,
    )


def _restart_tid(order: Int64s, time: Int64s) -> int:
    """The lowest order that was committed well before one below it."""
    order, time = order[time >= 0], time[time >= 0]
    if not len(order):
        return NO_RESTART
    earlier = time < np.maximum.accumulate(time)
    return int(order[earlier].min(initial=NO_RESTART))
