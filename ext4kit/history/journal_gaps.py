"""Journal gaps: unmounts, unclean shutdowns and lost transactions, from transaction ids.

An unmount uses up one id and the next mount another, so that two ids are missing where the log
continues. A recovery by the kernel skips one id. If more ids are missing, or if the log restarts at
its first block, transactions were overwritten or e2fsck recovered the journal. Source: kernel
fs/jbd2/journal.c, `jbd2_journal_destroy`; fs/jbd2/recovery.c, `jbd2_journal_recover`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.journal import BlockHistory, Log
from ext4kit.journal.recovery_pass import UNMOUNT_STEP
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET

NO_RESTART = 1 << 62


@dataclass(frozen=True, slots=True)
class JournalGaps:
    """Neighbouring transactions of a log whose tids are not consecutive, as columns.

    Attributes:
        tid_before, tid_after: the transactions before and after each gap, ascending.
        commit_time: commit time of `tid_before`, ns; -1 if unknown.
        unmounted: True where the file system was unmounted and everything was on disk.
        transactions_lost: True where transactions in between are missing.
        restarted_at: lowest tid whose transaction is older than a transaction with a lower tid,
            because the journal restarted its ids at a lower number. NO_RESTART if it did not
            restart them.
        damaged: int64, tids of partly unreadable transactions, ascending.
    """

    tid_before: Int64s
    tid_after: Int64s
    commit_time: Int64s
    unmounted: Bools
    transactions_lost: Bools
    restarted_at: int = NO_RESTART
    damaged: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def with_mounts(self, mounts: MountCounts, now: int) -> JournalGaps:
        """The gaps with `unmounted` True only where the mount counts show a plain unmount.

        A recovery without a later commit skips the same ids as an unmount, but the gap then covers
        two mounts. Each gap covers at least one mount. If the mount counts before and after some
        gaps differ by the number of these gaps, each of them covers exactly one. Where the log has
        no such counts, the number of mounts is unknown; with an orphan file, the kernel rarely logs
        the superblock.

        Args:
            mounts: the counts in the journal.
            now: `s_mnt_count` on disk: the count during the last session, or after a later mount.
        """
        if not len(self.tid_before):
            return self
        gaps = len(self.tid_before)
        session = np.append(np.searchsorted(self.tid_before, mounts.tid), gaps)
        every = np.arange(gaps)
        last = np.searchsorted(session, every, side="right") - 1  # newest count before the gap
        first = np.searchsorted(session, every, side="right")
        known = last >= 0
        last = np.maximum(last, 0)
        counts = np.full(len(session), now)
        rows = np.unique(np.concatenate([first, last]))
        rows = rows[rows < len(mounts)]  # the last count is that of the disk
        counts[rows] = mounts.counts(rows)
        once = known & (counts[first] - counts[last] == session[first] - session[last])
        return replace(self, unmounted=self.unmounted & once)

    def first_gap_after(self, tids: Int64s) -> Rows:
        """Row of the first gap after each transaction; the number of gaps if there is none."""
        return np.searchsorted(self.tid_before, tids)

    def with_lost(self, tid: Int64s, rows: Int64s) -> JournalGaps:
        """These gaps, with gaps added for unknown changes after some transactions.

        Args:
            tid: all transactions, ascending.
            rows: rows of `tid` after which a gap is added; not the last row of `tid`.
        """
        new = rows[~np.isin(tid[rows], self.tid_before)]
        before = np.concatenate([self.tid_before, tid[new]])
        sort = np.argsort(before, kind="stable")
        blank = np.zeros(len(new), bool)
        return JournalGaps(
            before[sort],
            np.concatenate([self.tid_after, tid[new + 1]])[sort],
            np.concatenate([self.commit_time, np.full(len(new), -1)])[sort],
            np.concatenate([self.unmounted, blank])[sort],
            np.concatenate([self.transactions_lost, blank])[sort]
            | np.isin(before[sort], tid[rows]),
            self.restarted_at,
            self.damaged,
        )

    @overload
    def any_lost_between(self, tids: int, until: int) -> np.bool_: ...
    @overload
    def any_lost_between(self, tids: Int64s, until: Int64s | int) -> Bools: ...
    @overload
    def any_lost_between(self, tids: int, until: Int64s) -> Bools: ...
    def any_lost_between(self, tids: Int64s | int, until: Int64s | int) -> Bools | np.bool_:
        """True where transactions from `tids` to `until` are missing or partly unreadable.

        Damage to the transaction `tids` itself does not count; damage to `until` does.
        """
        before = self.tid_before[self.transactions_lost]
        gap = np.searchsorted(before, tids) < np.searchsorted(before, until)
        return gap | self.any_damaged(tids, until)

    def any_damaged(self, tids: Int64s | int, until: Int64s | int) -> Bools | np.bool_:
        """True where a transaction later than `tids`, and not later than `until`, is damaged."""
        first, end = (np.searchsorted(self.damaged, at, "right") for at in (tids, until))
        return first < end


class MountCounts:
    """Mount counts of the file system, from copies of its superblock in the journal.

    Each mount increments `s_mnt_count`. Deletions and the first open of a file log the superblock.
    Source: kernel fs/ext4/super.c, `ext4_setup_super`; fs/ext4/file.c, `ext4_sample_last_mounted`.

    Attributes:
        tid: int64, transaction of each copy, ascending.
    """

    def __init__(self, history: BlockHistory, block_size: int) -> None:
        block, self._at = divmod(SUPERBLOCK_OFFSET, block_size)
        self._log, self._tags = history.log, history.copies_of_block(block)
        self.tid = self._log.tags.order[self._tags]

    def __len__(self) -> int:
        return len(self.tid)

    def counts(self, rows: Int64s) -> Int64s:
        """`s_mnt_count` (int64) of the copies in `rows`."""
        at = self._at + SUPERBLOCK.offset_of("s_mnt_count")
        copies = self._log.read_copies(self._tags[rows])[:, at : at + 2]
        return np.ascontiguousarray(copies).view("<u2").ravel().astype(np.int64)


def find_journal_gaps(log: Log | None) -> JournalGaps:
    """The gaps of a log; an empty table without a log."""
    none = np.zeros(0, np.int64)
    if log is None:
        return JournalGaps(none, none, none, none.astype(bool), none.astype(bool))
    damaged = log.damaged_orders
    if len(log.transactions) < 2:
        return JournalGaps(none, none, none, none.astype(bool), none.astype(bool), damaged=damaged)
    known = log.transactions
    rows = np.flatnonzero(np.diff(known.order) > 1)
    step = known.order[rows + 1] - known.order[rows]
    continued = (known.commit[rows] >= 0) & (
        known.start[rows + 1] == log.ring.wrap(known.commit[rows] + 1)
    )
    return JournalGaps(
        known.order[rows],
        known.order[rows + 1],
        known.commit_time_ns[rows],
        continued & (step == UNMOUNT_STEP),
        step > UNMOUNT_STEP,
        _restart_tid(known.order, known.commit_time_ns),
        damaged,
    )


def _restart_tid(tid: Int64s, time: Int64s) -> int:
    """The lowest tid that was committed before a lower tid; NO_RESTART if there is none."""
    tid, time = tid[time >= 0], time[time >= 0]
    if not len(tid):
        return NO_RESTART
    earlier = time < np.maximum.accumulate(time)
    return int(tid[earlier].min(initial=NO_RESTART))
