"""The jbd2 log of a file system: its transactions, the copies it holds, what it revokes.

Every lap that is still in the log is read, not only what a recovery would replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.findings import Problems, Severity
from ext4kit.journal.location import journal_place
from ext4kit.journal.ring import LogReader, Ring, ring_of
from ext4kit.journal.scan import Headers, Revokes, Tables, Tags, scan
from ext4kit.journal.walk import Walk, Walker, commit_v1_fits, empty_walk
from ext4kit.parsers.features import Compat
from ext4kit.parsers.journal import (
    CHECKSUM_CRC32C,
    MAGIC_BYTES,
    BlockType,
    JournalFeatures,
    JournalIncompat,
    JournalSuperblock,
    judge,
)
from ext4kit.units import NANOSECONDS, TransactionId

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of which the log still holds a descriptor, revoke or commit block.

    Attributes:
        id: its sequence number as stored, 32 bits.
        order: its place in time; equal to `id` unless ids wrapped round.
        start: log block of its first surviving metadata block.
        commit_index: log block of its commit block, None when there is none.
        commit_time_ns: nanoseconds since 1970, from the commit block.
        blocks: copies that its surviving descriptors name.
        committed: it has a commit block that is not known to be bad.
        checksum_ok: whether its metadata blocks' checksums fit; None when the format has none
            or the transaction is no longer whole (checksum v1).
        to_replay: a recovery would apply it.
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


class Log:
    """A journal, read from an array of its blocks.

    Args:
        blocks: the file system's block reader.
        log_blocks: int64 array, `log_blocks[i]` is the file system block of log block i
            (0 or negative: not there).
        needs_recovery: what the file system's superblock says.
        problems: collects what is found wrong; a new collector by default.
        home: the blocks that the copies belong to, when the log lies on another device.
        superblock_at: log block of the journal superblock.
        fast_commits: the file system has the fast_commit feature.

    Raises:
        CorruptError: the journal superblock cannot be used.
        AccessError: it cannot be read.
    """

    def __init__(
        self,
        blocks: BlockReader,
        log_blocks: Any,
        *,
        needs_recovery: bool = False,
        problems: Problems | None = None,
        home: BlockReader | None = None,
        superblock_at: int = 0,
        fast_commits: bool = False,
    ) -> None:
        if len(log_blocks) < superblock_at + 2:
            raise CorruptError("journal", None, f"{len(log_blocks)} blocks are no journal")
        self.home = blocks if home is None else home
        self.problems = problems if problems is not None else Problems()
        self.needs_recovery = needs_recovery
        place = int(log_blocks[superblock_at])
        self.superblock = JournalSuperblock.parse(blocks.read(place))
        reason = judge(self.superblock, blocks.block_size)
        if reason:
            raise CorruptError("journal superblock", place * blocks.block_size, reason)
        self.reader = LogReader(blocks, log_blocks, self.problems)
        self.ring: Ring = ring_of(self.superblock, len(log_blocks), fast_commits, self.problems)
        self.length = min(self.superblock.length, len(log_blocks))

    @classmethod
    def open(cls, fs: FileSystem) -> Log | None:
        """The log of a file system, or None when there is none that can be read.

        What stands in the way, and what the log finds wrong later on, become problems of `fs`.
        An external journal is read from `fs.journal_device`.
        """
        place = journal_place(fs, fs.journal_device)
        if place is None:
            return None
        try:
            return cls(
                place.blocks,
                place.log_blocks,
                needs_recovery=fs.superblock.needs_recovery,
                problems=fs.problems,
                home=fs.blocks,
                superblock_at=place.superblock_at,
                fast_commits=Compat.FAST_COMMIT in fs.superblock.features,
            )
        except (AccessError, CorruptError) as error:
            fs.problems.add("journal", f"cannot be used: {error}")
            return None

    @property
    def features(self) -> JournalFeatures:
        """The journal's own features."""
        return self.superblock.features

    @property
    def first(self) -> int:
        """The ring's first log block."""
        return self.ring.first

    @cached_property
    def _tables(self) -> Tables:
        return scan(self.reader, self.superblock, self.ring)

    @property
    def headers(self) -> Headers:
        """Every metadata block of the log."""
        return self._tables.headers

    @property
    def tags(self) -> Tags:
        """Every copy that a descriptor names."""
        return self._tables.tags

    @property
    def revokes(self) -> Revokes:
        """Every revoke record."""
        return self._tables.revokes

    @cached_property
    def unclaimed(self) -> Any:
        """Log blocks (int64) that are no metadata and that no valid tag names.

        Descriptors are overwritten before the copies they described, so these can hold
        copies of older laps.
        """
        used = np.zeros(self.ring.end, bool)
        used[: self.ring.first] = True
        used[self.headers.position] = True
        used[self.tags.position[self.tags.valid]] = True
        return np.flatnonzero(~used)

    @cached_property
    def walk(self) -> Walk:
        """The transactions that a recovery would replay."""
        reason = self._no_recovery_reason()
        if reason:
            return empty_walk(self.superblock.sequence, reason)
        refusal = self._refusal()
        if refusal:
            self.problems.add("journal superblock", f"nothing is replayed: {refusal}")
            return empty_walk(self.superblock.sequence, refusal, refusal)
        walk = Walker(self.headers, self.reader, self.superblock, self.ring).run()
        if walk.refused:
            self.problems.add("journal", f"nothing is replayed: {walk.refused}")
        return walk

    def _no_recovery_reason(self) -> str:
        if self.superblock.start == 0:
            return "the log is empty: the file system was unmounted cleanly"
        if not self.needs_recovery:
            self.problems.add(
                "journal superblock",
                "the log is not empty, but the file system does not ask for recovery",
                Severity.WARNING,
            )
            return "the file system does not ask for recovery"
        return ""

    def _refusal(self) -> str:
        """Why no kernel would load this log, or ""."""
        superblock = self.superblock
        unknown = superblock.features.unknown_incompat
        both = JournalIncompat.CSUM_V2 | JournalIncompat.CSUM_V3
        kind = superblock.checksum_type
        checks = [
            (unknown == 0, f"unknown incompatible features 0x{unknown:X}"),
            (superblock.features.incompat & both != both, "checksum v2 and v3 at once"),
            (not self.features.has_block_checksums or kind == CHECKSUM_CRC32C,
             f"checksum type {kind}"),
            (superblock.checksum_ok is not False, "bad checksum of the journal superblock"),
            (superblock.first == self.ring.first, f"first log block {superblock.first}"),
            (superblock.start in self.ring, f"start at log block {superblock.start:,}"),
        ]  # fmt: skip
        return next((reason for fine, reason in checks if not fine), "")

    def ring_distance(self, positions: Any) -> Any:
        """Log blocks from s_start (or the ring's first block) on to each position."""
        origin = self.superblock.start if self.superblock.start in self.ring else self.first
        return (positions - origin) % (self.ring.end - self.ring.first)

    def read_copies(self, tag_indices: Any) -> Any:
        """The copies of some tags, uint8 (n, block size), escapes undone."""
        rows = self.reader.read(self.tags.position[tag_indices])
        escaped = self.tags.escaped[tag_indices]
        rows[escaped, :4] = np.frombuffer(MAGIC_BYTES, np.uint8)
        return rows

    @cached_property
    def transactions(self) -> tuple[Transaction, ...]:
        """All transactions of the log, oldest first."""
        headers = self.headers
        by_order = np.lexsort((headers.position, headers.order))
        edges = np.unique(headers.order[by_order], return_index=True)[1]
        groups = np.split(by_order, edges[1:]) if len(by_order) else []
        return tuple(self._transaction(self._in_log_order(rows)) for rows in groups)

    def _in_log_order(self, rows: Any) -> Any:
        """A transaction's header rows, by position, started behind the widest gap of the ring."""
        position = self.headers.position[rows]
        size = self.ring.end - self.ring.first
        gaps = np.diff(position, prepend=position[-1] - size)
        return np.roll(rows, -int(np.argmax(gaps)))

    def _transaction(self, rows: Any) -> Transaction:
        headers = self.headers
        order = int(headers.order[rows[0]])
        commits = rows[headers.kind[rows] == BlockType.COMMIT]
        commit = int(commits[-1]) if len(commits) else None
        checksum_ok = self._checksum_ok(rows, commit)
        return Transaction(
            id=TransactionId(order % (1 << 32)),
            order=order,
            start=int(headers.position[rows[0]]),
            commit_index=None if commit is None else int(headers.position[commit]),
            commit_time_ns=None if commit is None else self._commit_time(commit),
            blocks=int(headers.tags[rows].sum()),
            committed=commit is not None
            and bool(headers.checksum_ok[commit])
            and not (self.features.checksum_version == 1 and checksum_ok is False),
            checksum_ok=checksum_ok,
            to_replay=order in self.walk,
        )

    def _commit_time(self, commit: int) -> int | None:
        """Nanoseconds since 1970; None for a time that 63 bits of them cannot hold."""
        seconds = int(self.headers.commit_seconds[commit])
        time = seconds * NANOSECONDS + int(self.headers.commit_nanoseconds[commit])
        return time if 0 <= time < 1 << 63 else None

    def _checksum_ok(self, rows: Any, commit: int | None) -> bool | None:
        if self.features.has_block_checksums:
            return bool(self.headers.checksum_ok[rows].all())
        if self.features.checksum_version == 0 or commit is None:
            return None
        if not self.headers.commit_checksum[commit].any():
            return None
        parts = [row for row in rows.tolist() if row != commit]
        if commit_v1_fits(self.headers, commit, parts, self.reader, self.ring):
            return True
        return False if self._is_whole(rows) else None

    def _is_whole(self, rows: Any) -> bool:
        """Whether the commit block before the transaction's first block is still there."""
        headers = self.headers
        before = self.ring.wrap(headers.position[rows[0]] - 1)
        place = np.searchsorted(headers.position, before)
        return bool(
            place < len(headers)
            and headers.position[place] == before
            and headers.kind[place] == BlockType.COMMIT
            and headers.order[place] == headers.order[rows[0]] - 1
        )
