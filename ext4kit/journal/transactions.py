"""The transactions of a log as columns: surviving blocks, states, and damage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, overload

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, Rows, RowSlice
from ext4kit.journal.recovery_pass import RecoveryPass, commit_v1_fits
from ext4kit.journal.ring import LogReader, Ring
from ext4kit.journal.tables import Headers, Revokes, Tags
from ext4kit.parsers.journal import BlockType, JournalFeatures
from ext4kit.units import NANOSECONDS, TransactionId

UNKNOWN = -1  # in columns whose value can be missing


class ReadLog(Protocol):
    """The parts of a log (`journal.log.Log`) that this module reads."""

    reader: LogReader
    ring: Ring

    @property
    def features(self) -> JournalFeatures:
        """The journal's own features."""

    @property
    def headers(self) -> Headers:
        """Every metadata block."""

    @property
    def tags(self) -> Tags:
        """Every copy."""

    @property
    def revokes(self) -> Revokes:
        """Every revoke record."""

    @property
    def walk(self) -> RecoveryPass:
        """What a recovery would replay."""

    @property
    def transactions(self) -> Transactions:
        """All transactions, oldest first."""


class TransactionState(StrEnum):
    """The state of a transaction."""

    TO_REPLAY = "to replay"  # committed, and a recovery would replay it
    CHECKPOINTED = "checkpointed"  # committed in the present lap, written to its home blocks
    STALE = "stale"  # committed in an earlier lap; overwritten next
    TORN = "torn"  # its commit block is missing or bad, or a block before it is bad
    UNCOMMITTED = "uncommitted"  # the newest one, interrupted before its commit block


_STATES = tuple(TransactionState)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of which the log still holds a descriptor, revoke or commit block.

    Attributes:
        id: stored tid, 32 bits.
        order: tid; equal to `id` unless ids wrapped.
        start: log block of its first surviving metadata block.
        commit_index: log block of its commit block, None when there is none.
        commit_time_ns: nanoseconds since 1970, from the commit block.
        blocks: number of copies that its surviving descriptors name.
        committed: whether it has a commit block that is not known to be bad.
        checksum_ok: whether its metadata blocks' checksums match; None when the format has none
            or the transaction is no longer complete (checksum v1).
        to_replay: whether a recovery would replay it.
        descriptors: number of surviving descriptor blocks.
        revoke_blocks: number of surviving revoke blocks.
        revokes: number of revoke records in these blocks.
        state: its state.
    """

    id: TransactionId
    order: int
    start: int
    commit_index: int | None
    commit_time_ns: int | None
    blocks: int
    committed: bool
    checksum_ok: bool | None
    to_replay: bool
    descriptors: int
    revoke_blocks: int
    revokes: int
    state: TransactionState


@dataclass(frozen=True, slots=True)
class Transactions(Table, Sequence[Transaction]):
    """All transactions of a log, oldest first; each `Transaction` is built on access.

    Attributes:
        order: tids, ascending; the other columns are the attributes of `Transaction`, -1 for None.
        commit: `commit_index` of each transaction.
        checksum: `checksum_ok` of each transaction: 1: all match, 0: one fails, -1: none to check.
        state: index into `TransactionState`.
    """

    order: Int64s
    start: Int64s
    commit: Int64s
    commit_time_ns: Int64s
    blocks: Int64s
    descriptors: Int64s
    revoke_blocks: Int64s
    revokes: Int64s
    committed: Bools
    checksum: Int64s
    to_replay: Bools
    state: Int64s

    def __iter__(self) -> Iterator[Transaction]:
        return (self[row] for row in range(len(self)))

    @overload
    def __getitem__(self, row: int) -> Transaction: ...
    @overload
    def __getitem__(self, row: RowSlice) -> Sequence[Transaction]: ...
    def __getitem__(self, row: int | RowSlice) -> Transaction | Sequence[Transaction]:
        if isinstance(row, slice):
            return tuple(self[each] for each in range(*row.indices(len(self))))
        order, time = int(self.order[row]), int(self.commit_time_ns[row])
        commit, fits = int(self.commit[row]), int(self.checksum[row])
        return Transaction(
            id=TransactionId(order % (1 << 32)),
            order=order,
            start=int(self.start[row]),
            commit_index=None if commit == UNKNOWN else commit,
            commit_time_ns=None if time == UNKNOWN else time,
            blocks=int(self.blocks[row]),
            committed=bool(self.committed[row]),
            checksum_ok=None if fits == UNKNOWN else bool(fits),
            to_replay=bool(self.to_replay[row]),
            descriptors=int(self.descriptors[row]),
            revoke_blocks=int(self.revoke_blocks[row]),
            revokes=int(self.revokes[row]),
            state=_STATES[int(self.state[row])],
        )

    def row_of(self, orders: Int64s) -> Rows:
        """Row of each tid (int64), -1 where the log has no such transaction."""
        return SortedIndex(self.order).rows(orders)

    @property
    def session_starts(self) -> Int64s:
        """First tid of each run of consecutive ids; an unmount or a recovery ends a run."""
        return self.order[np.diff(self.order, prepend=self.order[:1] - 2) > 1]

    def session_of(self, orders: Int64s) -> Int64s:
        """Number of the run of each tid (int64), from 0; -1 before the first one."""
        return np.searchsorted(self.session_starts, orders, side="right") - 1


def collect_transactions(log: ReadLog) -> Transactions:
    """The transactions of a log."""
    headers, size = log.headers, log.ring.end - log.ring.first
    rows, edges = _grouped(headers.order, headers.position, size)
    if not len(edges):
        return Transactions.empty()
    kind = headers.kind[rows]
    group = np.repeat(np.arange(len(edges)), np.diff(edges, append=len(rows)))
    commit = np.full(len(edges), UNKNOWN)
    is_commit = kind == BlockType.COMMIT
    commit[group[is_commit]] = rows[is_commit]  # the last one in log order counts
    checksum = _checksums(log, rows, edges, commit)
    order = headers.order[rows[edges]]
    committed = (commit != UNKNOWN) & headers.checksum_ok[commit]
    if log.features.checksum_version == 1:
        committed &= checksum != 0
    walk = log.walk
    to_replay = (order >= walk.first_order) & (order < walk.end_order) & (not walk.refusal)
    start = headers.position[rows[edges]]
    revokes = np.bincount(np.searchsorted(order, log.revokes.order), minlength=len(order))
    state = _transaction_states(log, order, start, committed & (checksum != 0), to_replay)
    state[(state == _STATES.index(TransactionState.UNCOMMITTED)) & (commit != UNKNOWN)] = (
        _STATES.index(TransactionState.TORN)
    )
    return Transactions(
        order=order,
        start=start,
        commit=np.where(commit == UNKNOWN, UNKNOWN, headers.position[commit]),
        commit_time_ns=_commit_times(headers, commit),
        blocks=np.add.reduceat(headers.tags[rows], edges),
        descriptors=np.add.reduceat((kind == BlockType.DESCRIPTOR).astype(np.int64), edges),
        revoke_blocks=np.add.reduceat((kind == BlockType.REVOKE).astype(np.int64), edges),
        revokes=revokes,
        committed=committed,
        checksum=checksum,
        to_replay=to_replay,
        state=state,
    )


def _grouped(order: Int64s, position: Int64s, size: int) -> tuple[Rows, Rows]:
    """(header rows by transaction, then log order; index of each transaction's first row).

    A transaction starts after the widest gap between its blocks in the ring.
    """
    rows = np.lexsort((position, order))
    edges = np.unique(order[rows], return_index=True)[1]
    if not len(edges):
        return rows, edges
    place = position[rows]
    counts = np.diff(edges, append=len(rows))
    last = edges + counts - 1
    gaps = np.diff(place, prepend=0)
    gaps[edges] = place[edges] - place[last] + size
    group = np.repeat(np.arange(len(edges)), counts)
    widest = np.lexsort((np.arange(len(rows)), -gaps, group))[edges]
    distance = (place - place[widest][group]) % size
    return rows[np.lexsort((distance, group))], edges


def _commit_times(headers: Headers, commit: Int64s) -> Int64s:
    """Commit times in ns since 1970; -1 for a time that does not fit into 63 bits."""
    seconds, fraction = headers.commit_seconds[commit], headers.commit_nanoseconds[commit]
    known = (commit != UNKNOWN) & (seconds < (1 << 63) // NANOSECONDS - 4)
    return np.where(known, seconds.astype(np.int64) * NANOSECONDS + fraction, UNKNOWN)


def _checksums(log: ReadLog, rows: Rows, edges: Rows, commit: Int64s) -> Int64s:
    """Per transaction: 1 if all its checksums match, 0 if one does not, -1 without checksums."""
    headers, version = log.headers, log.features.checksum_version
    of_blocks = np.logical_or.reduceat(headers.has_checksum[rows], edges)
    are_good = np.logical_and.reduceat(headers.checksum_ok[rows], edges)
    result = np.where(of_blocks, are_good, UNKNOWN)
    if version != 1:
        return result
    stored = (commit != UNKNOWN) & headers.commit_checksum[commit].any(axis=1) & ~of_blocks
    for group in np.flatnonzero(stored).tolist():
        end = int(edges[group + 1]) if group + 1 < len(edges) else len(rows)
        of_group = rows[edges[group] : end].tolist()
        parts = [row for row in of_group if row != commit[group]]
        if commit_v1_fits(headers, int(commit[group]), parts, log.reader, log.ring):
            result[group] = 1
        elif _is_complete(log, of_group[0]):
            result[group] = 0
    return result


def _is_complete(log: ReadLog, first: int) -> bool:
    """Whether the commit block before a transaction's first block is still in the log."""
    headers = log.headers
    before = log.ring.wrap(headers.position[first] - 1)
    place = np.searchsorted(headers.position, before)
    return bool(
        place < len(headers)
        and headers.position[place] == before
        and headers.kind[place] == BlockType.COMMIT
        and headers.order[place] == headers.order[first] - 1
    )


def _transaction_states(
    log: ReadLog, order: Int64s, start: Int64s, sound: Bools, to_replay: Bools
) -> Int64s:
    """Index into `TransactionState` of each transaction.

    A transaction that starts after the newest one in the log is from an earlier lap, or from
    before the kernel last restarted the log at its first block.
    """
    newest = order[sound].max(initial=np.iinfo(np.int64).min)
    head = start[sound][-1] if sound.any() else log.ring.end
    state = np.where(
        start <= head,
        _STATES.index(TransactionState.CHECKPOINTED),
        _STATES.index(TransactionState.STALE),
    )
    state[to_replay] = _STATES.index(TransactionState.TO_REPLAY)
    state[~sound] = _STATES.index(TransactionState.TORN)
    state[~sound & (order > newest)] = _STATES.index(TransactionState.UNCOMMITTED)
    return state


def find_damaged(log: ReadLog) -> Int64s:
    """Tids (int64, ascending) of transactions with unreadable or damaged blocks.

    A transaction that was in an unreadable part of the log may be included. A transaction that an
    unclean shutdown left without a commit block is not included if all of its blocks are readable.
    One that a restarted log has overwritten in part is included, unless it is the oldest one.
    """
    tags, headers, known = log.tags, log.headers, log.transactions
    newest = np.full(log.ring.end, np.iinfo(np.int64).min)  # newest tid in each log block
    np.maximum.at(newest, tags.position, tags.order)
    np.maximum.at(newest, headers.position, headers.order)
    held = np.zeros(log.ring.end, bool)
    held[tags.position[tags.valid]] = held[headers.position] = True
    row = known.row_of(tags.order)
    unread = log.reader.unreadable[tags.position]
    changed = ~tags.matches & ~held[tags.position] & known.committed[row]
    changed &= known.checksum[row] == 1
    bad = (newest[tags.position] == tags.order) & (unread | changed)
    ended = known.order <= known.order[known.committed].max(initial=-1)
    overwritten = ended & ~known.committed & (np.cumsum(known.committed) > 0)
    behind = log.ring.wrap(known.start + known.blocks + known.descriptors + known.revoke_blocks)
    cut = newest[behind] > known.order  # its commit block or a further descriptor was there
    cut[row[newest[tags.position] > tags.order]] = True
    parts = [tags.order[bad], known.order[(ended & (known.checksum == 0)) | (overwritten & cut)]]
    parts += _around_unreadable(log)
    return np.unique(np.concatenate(parts))


def _around_unreadable(log: ReadLog) -> list[Int64s]:
    """Tids of the transactions that unreadable log blocks without a tag may belong to."""
    headers, ring = log.headers, log.ring
    unread = np.flatnonzero(log.reader.unreadable[: ring.end])
    unread = unread[unread >= ring.first]
    if not len(unread) or not len(headers):
        return []
    size = ring.end - ring.first
    row = np.searchsorted(headers.position, unread)
    before, after = (row - 1) % len(headers), row % len(headers)
    distance = (unread - headers.position[before]) % size
    is_copy = (distance > 0) & (distance <= headers.tags[before])
    before, after = before[~is_copy], after[~is_copy]
    distance, unread = distance[~is_copy], unread[~is_copy]
    # The next block may continue the transaction unless it is readable and has another tid.
    following = ring.wrap(headers.position[before] + headers.tags[before] + 1)
    next_to = log.reader.unreadable[following]
    order = headers.order[before[next_to]]
    ended = headers.kind[before[next_to]] == BlockType.COMMIT
    return [headers.order[after], order, order[ended] + 1]
