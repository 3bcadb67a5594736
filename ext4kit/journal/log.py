"""The jbd2 log of a file system: its transactions, copies and revoke records.

Every lap that is still in the log is read, not only the transactions that a recovery replays.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s, Rows
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.location import locate_journal
from ext4kit.journal.recovery_pass import RecoveryPass, RecoveryReader, empty_pass
from ext4kit.journal.ring import LogReader, Ring, ring_of
from ext4kit.journal.scan import Tables, scan
from ext4kit.journal.tables import Headers, Revokes, Tags
from ext4kit.journal.transactions import Transactions, collect_transactions, find_damaged
from ext4kit.parsers.features import Compat
from ext4kit.parsers.journal import (
    CHECKSUM_CRC32C,
    MAGIC_BYTES,
    JournalCompat,
    JournalFeatures,
    JournalIncompat,
    JournalSuperblock,
    judge,
)
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


class Log:
    """A journal, read from an array of its blocks.

    Args:
        blocks: the file system's block reader.
        log_blocks: int64 array, `log_blocks[i]` is the file system block of log block i
            (0 or negative: not mapped).
        needs_recovery: whether the file system's superblock requires a recovery.
        problems: collects defects; by default a new collector.
        home: reader of the home blocks, if the log is on another device.
        superblock_at: log block of the journal superblock.
        fast_commits: whether the file system has the fast_commit feature.

    Attributes:
        superblock_block: block of the journal superblock in `reader.blocks`.
        is_shared_device: whether the log is a device that several file systems may share.

    Raises:
        CorruptError: the journal superblock cannot be used.
        AccessError: the journal superblock cannot be read.
    """

    def __init__(
        self,
        blocks: BlockReader,
        log_blocks: Int64s,
        *,
        needs_recovery: bool = False,
        problems: Problems | None = None,
        home: BlockReader | None = None,
        superblock_at: int = 0,
        fast_commits: bool = False,
    ) -> None:
        if len(log_blocks) < superblock_at + 2:
            raise CorruptError(
                "journal", None, f"{len(log_blocks)} blocks are too few for a journal"
            )
        self.home = blocks if home is None else home
        self.problems = problems if problems is not None else Problems()
        self.needs_recovery = needs_recovery
        self.superblock_block = int(log_blocks[superblock_at])
        self.is_shared_device = superblock_at > 0
        self.superblock = JournalSuperblock.parse(blocks.read(self.superblock_block))
        reason = judge(self.superblock, blocks.block_size)
        if reason:
            offset = self.superblock_block * blocks.block_size
            raise CorruptError("journal superblock", offset, reason)
        self.reader = LogReader(blocks, log_blocks, self.problems)
        self.ring: Ring = ring_of(self.superblock, len(log_blocks), fast_commits, self.problems)
        self.length = min(self.superblock.length, len(log_blocks))
        self.has_fast_commits = fast_commits or JournalIncompat.FAST_COMMIT in self.features

    @classmethod
    def open(cls, fs: FileSystem) -> Log | None:
        """The log of a file system, or None if there is no readable log.

        Defects found here or when the log is read later become problems of `fs`. An external
        journal is read from `fs.journal_device`.
        """
        place = locate_journal(fs, fs.journal_device)
        if place is None:
            return None
        try:
            log = cls(
                place.blocks,
                place.log_blocks,
                needs_recovery=fs.superblock.needs_recovery,
                problems=fs.problems,
                home=fs.blocks,
                superblock_at=place.superblock_at,
                fast_commits=Compat.FAST_COMMIT in fs.superblock.features,
            )
            if fs.superblock.group_number:  # a backup never requires a recovery
                log.needs_recovery = log.superblock.start != 0
            return log
        except (AccessError, CorruptError) as error:
            fs.problems.add("journal", f"cannot be used: {error}")
            return None

    @property
    def features(self) -> JournalFeatures:
        """The journal's own features."""
        return self.superblock.features

    @cached_property
    def _tables(self) -> Tables:
        return scan(self.reader, self.superblock, self.ring, self.home.blocks_count)

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

    @property
    def unmarked(self) -> Int64s:
        """Log blocks (int64) without the magic but with the type field of a metadata block."""
        return self._tables.without_magic

    @cached_property
    def unclaimed(self) -> Int64s:
        """Log blocks (int64) that are not metadata and that no valid tag names.

        A lap overwrites descriptors before their copies. Therefore these blocks can hold copies
        of older laps.
        """
        used = np.zeros(self.ring.end, bool)
        used[: self.ring.first] = True
        used[self.headers.position] = True
        used[self._tables.of_twins] = True
        used[self.tags.position[self.tags.valid]] = True
        return np.flatnonzero(~used)

    @cached_property
    def damaged_orders(self) -> Int64s:
        """Tids (int64, ascending) of transactions with an unreadable or damaged block."""
        return find_damaged(self)

    @cached_property
    def walk(self) -> RecoveryPass:
        """The transactions that a recovery would replay."""
        first = self.superblock.sequence
        if self.superblock.start == 0:
            return empty_pass(first, "the journal is empty: the file system was unmounted cleanly")
        if not self.needs_recovery:
            what = "the journal is not empty, but the file system is not marked for recovery"
            self.problems.add("journal superblock", what, Severity.WARNING)
            return empty_pass(first, "the file system is not marked for recovery")
        if self.refusal:
            self.problems.add("journal superblock", f"nothing is replayed: {self.refusal}")
            return empty_pass(first, self.refusal, self.refusal)
        walk = RecoveryReader(self.headers, self.reader, self.superblock, self.ring).run()
        if walk.refusal:
            self.problems.add("journal", f"nothing is replayed: {walk.refusal}")
        elif walk.bad_commit is not None:
            where = f"transaction {walk.bad_commit % (1 << 32)}"
            severity = Severity.ERROR if walk.is_corrupt else Severity.WARNING
            what = f"{walk.end_reason}: this transaction and later ones are not replayed"
            self.problems.add(where, what, severity)
        return walk

    @cached_property
    def refusal(self) -> str:
        """Why a recovery would not load this log, or "".

        Source: kernel fs/jbd2/journal.c, `journal_check_superblock`; fs/ext4/super.c,
        `ext4_open_dev_journal` for the number of users.
        """
        superblock, features = self.superblock, self.features
        unknown = features.unknown_incompat
        both = JournalIncompat.CSUM_V2 | JournalIncompat.CSUM_V3
        v1_too = features.has_block_checksums and JournalCompat.CHECKSUM in features
        kind = superblock.checksum_type
        users = ", ".join(str(UUID(bytes=user)) for user in superblock.users)
        checks = [
            (unknown == 0, f"unknown incompatible features 0x{unknown:X}"),
            (features.ro_compat == 0, f"unknown features 0x{features.ro_compat:X} (read-only)"),
            (features.incompat & both != both, "checksum v2 and v3 together"),
            (not v1_too, "checksum v1 together with v2 or v3"),
            (not features.has_block_checksums or kind == CHECKSUM_CRC32C,
             f"checksum type {kind}"),
            (superblock.checksum_ok is not False, "bad checksum of the journal superblock"),
            (superblock.first == self.ring.first, f"first log block {superblock.first:,}"),
            (superblock.first < superblock.length <= len(self.reader.log_blocks),
             f"length {superblock.length:,} blocks, but there are {len(self.reader.log_blocks):,}"),
            (superblock.start == 0 or superblock.start in self.ring,
             f"start at log block {superblock.start:,}"),
            (not self.is_shared_device or superblock.users_count <= 1,
             f"the device serves {superblock.users_count:,} file systems ({users})"),
        ]  # fmt: skip
        return next((reason for fine, reason in checks if not fine), "")

    def ring_distance(self, positions: Int64s) -> Int64s:
        """Distance in log blocks from `s_start` (or the ring's first block) to each position."""
        origin = self.superblock.start if self.superblock.start in self.ring else self.ring.first
        return (positions - origin) % (self.ring.end - self.ring.first)

    def oldest_first(self, rows: Rows) -> Rows:
        """Rows of `tags` by home block, the copies of each block from the oldest to the newest."""
        tags = self.tags.take(rows)
        distance = self.ring_distance(tags.descriptor)
        return rows[np.lexsort((tags.ordinal, distance, tags.order, tags.block))]

    def read_copies(self, tag_indices: Rows) -> Bytes2D:
        """The copies of some tags, uint8 (n, block size); the magic of escaped ones is restored."""
        rows = self.reader.read(self.tags.position[tag_indices])
        escaped = self.tags.escaped[tag_indices]
        rows[escaped, :4] = np.frombuffer(MAGIC_BYTES, np.uint8)
        return rows

    @cached_property
    def transactions(self) -> Transactions:
        """All transactions of the log, oldest first."""
        return collect_transactions(self)
