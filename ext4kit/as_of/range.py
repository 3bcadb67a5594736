"""The transactions whose state the journal can give: those after which no transaction is missing.

The log is a ring, but the kernel does not always continue where it stopped. Before Linux 6.4 a
mount starts again at the first block of the ring. The rest of older mounts then has gaps, and the
newest copy of a block there is not always its last one. Therefore only the transactions from the
newest one back to the first gap are used, and none if the newest one in the log is not the last one
that was written.
Source: kernel fs/jbd2/journal.c, `journal_reset`, `jbd2_mark_journal_empty`, `jbd2_journal_destroy`
(an unmount skips one id).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import RequestError
from ext4kit.journal.log import Log
from ext4kit.parsers.journal import BlockType

TID_MODULUS = 1 << 32
UNMOUNT_TID_SKIP = 1  # ids that an unmount skips


@dataclass(frozen=True, slots=True)
class AsOfRange:
    """The transactions that are complete in the log and that no lost transaction follows.

    Attributes:
        orders: tids, ascending; empty if the journal can give no earlier state.
        complete_since: tid from which on a copy is valid until the next copy of its block.
        commit_times: ns since 1970, one per tid; -1 when not known.
        time_before: commit time of the transaction before the first one; -1 when not known.
        reason: why `orders` is empty, else "".
    """

    orders: Int64s
    complete_since: int
    commit_times: Int64s
    time_before: int
    reason: str = ""

    def tid_of(self, transaction: int) -> int:
        """Tid of a transaction from its stored tid.

        Raises:
            RequestError: the journal does not record the state after that transaction.
        """
        place = np.flatnonzero(self.orders % TID_MODULUS == transaction)
        if len(place):
            return int(self.orders[place[0]])
        text = self.reason
        if len(self.orders):
            first, last = (int(self.orders[end]) for end in (0, -1))
            span = f"{first % TID_MODULUS} to {last % TID_MODULUS}"
            text = f"the journal records the state after transactions {span}"
            if len(self.orders) <= last - first:
                text += " (some ids in between have no transaction)"
        raise RequestError(f"transaction {transaction}: {text}")

    def tid_at(self, time: int) -> int:
        """Tid of the transaction just before the first one that was committed after a time.

        Args:
            time: ns since 1970.

        Raises:
            RequestError: the journal does not record the state at that time.
        """
        later = np.flatnonzero(self.commit_times > time)
        place = int(later[0]) - 1 if len(later) else len(self.orders) - 1
        if place >= 0:
            return int(self.orders[place])
        text = self.reason
        if len(later):
            first = int(self.orders[0]) % TID_MODULUS
            text = f"the journal records states from transaction {first} on, which is later"
        raise RequestError(f"the time of --as-of: {text}")

    def since(self, order: int) -> AsOfRange:
        """The range without the transactions before a tid."""
        first = int(np.searchsorted(self.orders, order))
        if not first:
            return self
        if first == len(self.orders):
            return _empty_range("inode size, UUID or features were changed since")
        times = self.commit_times
        floor, before = int(self.orders[first]), int(times[first - 1])
        return AsOfRange(self.orders[first:], floor, times[first:], before, self.reason)

    def commit_time(self, order: int) -> int:
        """Commit time of a transaction of this range, ns since 1970; -1 when not known."""
        return int(self.commit_times[np.searchsorted(self.orders, order)])

    def commit_time_before(self, order: int) -> int:
        """Commit time of the transaction before a given one, ns since 1970; -1 when not known."""
        place = int(np.searchsorted(self.orders, order))
        return int(self.commit_times[place - 1]) if place else self.time_before


@dataclass(frozen=True, slots=True)
class _TransactionSpans(Table):
    """Location of each transaction in the ring: first log block, block count, completeness."""

    start: Int64s
    length: Int64s
    whole: Bools


def as_of_range(log: Log) -> AsOfRange:
    """The newest transactions of a log that follow each other without a gap."""
    known, superblock = log.transactions, log.superblock
    # the tid after the newest valid one; blocks with later tids have no effect
    end_tid = superblock.sequence if superblock.start == 0 else log.walk.end_order
    end = int(np.count_nonzero(known.order < end_tid))
    while end and not known.committed[end - 1]:
        end -= 1
    if reason := _missing_newest_reason(log, end, end_tid):
        return _empty_range(reason)
    first = _oldest_complete_row(log, _spans(log), end)
    if first == end:
        return _empty_range("the newest transaction in the journal is incomplete")
    if superblock.start and known.to_replay[:first].any():
        return _empty_range("a transaction that is not yet checkpointed is incomplete")
    before = first - 1
    joins = before >= 0 and known.order[before] == known.order[first] - 1
    joins = bool(joins and known.committed[before])
    return AsOfRange(
        orders=known.order[first:end],
        complete_since=int(known.order[before if joins else first]),
        commit_times=known.commit_time_ns[first:end],
        time_before=int(known.commit_time_ns[before]) if joins else -1,
    )


def _empty_range(reason: str) -> AsOfRange:
    none = np.zeros(0, np.int64)
    return AsOfRange(none, 0, none, -1, f"nothing can be shown as of a transaction: {reason}")


def _missing_newest_reason(log: Log, end: int, end_tid: int) -> str:
    """Why the newest transaction in the log is not the last one that was committed, or "".

    The superblock of a clean log records the next block to write, or at least the next id. Any
    other log ends where a recovery ends, and all committed transactions must be before that point.
    """
    known, superblock = log.transactions, log.superblock
    if not end:
        return "the log holds no committed transaction"
    if superblock.start and known.committed[end:].any():
        return "the log is damaged: a recovery would not reach its newest transactions"
    goes_on = int(log.ring.wrap(known.commit[end - 1] + 1))
    if superblock.start == 0 and superblock.head == goes_on:
        return ""
    missing = end_tid - known.order[end - 1]
    return "the newest transactions are not in the log" if missing > 1 + UNMOUNT_TID_SKIP else ""


def _spans(log: Log) -> _TransactionSpans:
    """The transactions in the ring; a complete one has all blocks up to its commit block."""
    headers, known = log.headers, log.transactions
    size = log.ring.end - log.ring.first
    group = np.searchsorted(known.order, headers.order)
    distance = (headers.position - known.start[group]) % size
    rows = np.lexsort((distance, group))
    group, distance, headers = group[rows], distance[rows], headers.take(rows)
    is_last = ends_group(group)
    joined = is_last | (np.append(distance[1:], 0) == distance + 1 + headers.tags)
    ended = (headers.kind == BlockType.COMMIT) == is_last
    fine = joined & ended & headers.checksum_ok & ~headers.overflow
    whole = np.logical_and.reduceat(fine, np.flatnonzero(starts_group(group)))
    lost = np.searchsorted(known.order, log.tags.order[~log.tags.valid])
    whole[lost] = False
    whole &= known.committed & (known.checksum != 0)
    return _TransactionSpans(known.start, distance[is_last] + 1, whole)


def _oldest_complete_row(log: Log, spans: _TransactionSpans, end: int) -> int:
    """Row of the oldest transaction from which on all are complete; `end` if there is none."""
    taken = np.zeros(log.ring.end, bool)
    for row in range(end - 1, -1, -1):
        is_complete = spans.whole[row] and _starts_complete(log, spans, row, taken)
        if not is_complete or (row + 1 < end and not _is_contiguous(log, spans, row, taken)):
            return row + 1
        taken[log.ring.wrap(spans.start[row] + np.arange(spans.length[row]))] = True
    return 0


def _starts_complete(log: Log, spans: _TransactionSpans, row: int, taken: Bools) -> bool:
    """Whether the first block of a transaction is still in the log.

    It is if the block before it is the commit block of an older transaction. For a transaction at
    the start of the ring, no newer transaction may have overwritten the last block of the ring.
    """
    start = int(spans.start[row])
    before = log.ring.wrap(start - 1)
    if start == log.ring.first:
        return not taken[before]
    headers = log.headers
    place = min(int(np.searchsorted(headers.position, before)), len(headers) - 1)
    return bool(
        headers.position[place] == before
        and headers.kind[place] == BlockType.COMMIT
        and headers.order[place] < log.transactions.order[row]
    )


def _is_contiguous(log: Log, spans: _TransactionSpans, row: int, taken: Bools) -> bool:
    """Whether no transaction is missing between this one and the next one in the log.

    The next one begins after the commit block of this one, or at the start of the ring. In the
    second case, a lost transaction would have started at the block after this one. Therefore no
    newer transaction may have overwritten that block.
    """
    order = log.transactions.order
    behind = int(log.ring.wrap(spans.start[row] + spans.length[row]))
    if spans.start[row + 1] == behind:
        return bool(behind != log.ring.first or order[row + 1] == order[row] + 1)
    return bool(spans.start[row + 1] == log.ring.first and not taken[behind])
