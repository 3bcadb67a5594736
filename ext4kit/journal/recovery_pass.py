"""The committed transactions from `s_start` on that a recovery would replay.

Source: kernel fs/jbd2/recovery.c, `do_one_pass` in its first pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ext4kit.arrays.types import NO_ROW, Rows
from ext4kit.journal.ring import LogReader, Ring
from ext4kit.journal.tables import Headers
from ext4kit.parsers.checksums import ONES, crc32_big_endian
from ext4kit.parsers.journal import (
    CHECKSUM_CRC32,
    BlockType,
    JournalIncompat,
    JournalSuperblock,
)

UNMOUNT_STEP = 3  # step between the tids before and after an unmount
CHECKSUM_KINDS = {2: "md5", 3: "sha1", 4: "crc32c"}  # h_chksum_type values other than crc32


@dataclass(frozen=True, slots=True)
class RecoveryPass:
    """The transactions that a recovery would replay.

    Attributes:
        first_order: tid of the first transaction.
        end_order: one past the tid of the last transaction; equal to `first_order` if none.
        headers: int64, rows of `Headers` that belong to these transactions.
        end_reason: why the recovery pass ended there.
        refusal: damage that prevents any replay, or "".
        bad_commit: tid of a transaction with a bad commit block; the pass ended before it.
        is_corrupt: the bad commit block cannot come from an interrupted commit.
    """

    first_order: int
    end_order: int
    headers: Rows
    end_reason: str
    refusal: str = ""
    bad_commit: int | None = None
    is_corrupt: bool = False

    def __contains__(self, order: int) -> bool:
        return not self.refusal and self.first_order <= order < self.end_order


def empty_pass(order: int, reason: str, refused: str = "") -> RecoveryPass:
    """A recovery pass without transactions."""
    return RecoveryPass(order, order, np.zeros(0, np.int64), reason, refused)


@dataclass(slots=True)
class RecoveryReader:
    """Reads the log as a recovery does, one metadata block after the other.

    Whatever the blocks contain, every step advances by at least one log block, and the pass ends
    after one round of the ring.
    """

    headers: Headers
    reader: LogReader
    superblock: JournalSuperblock
    ring: Ring
    order: int = 0  # tid of the expected transaction
    committed: list[int] = field(default_factory=list)  # rows of complete transactions
    current: list[int] = field(default_factory=list)  # rows of the transaction being read
    suspect: str = ""  # damage that counts if the transaction is committed
    last_commit: int = 0  # seconds
    ended: str = ""
    refused: str = ""
    bad_commit: int | None = None
    bad_reason: str = ""
    is_corrupt: bool = False

    def run(self) -> RecoveryPass:
        """Read from `s_start` to the point where a recovery would stop."""
        row_at = np.full(self.ring.end, NO_ROW)
        row_at[self.headers.position] = np.arange(len(self.headers))
        self.order = self.superblock.sequence
        position = self.superblock.start
        left = self.ring.end - self.ring.first
        while not self.ended and left > 0:
            row = int(row_at[position])
            self._take(row, position)
            step = 1 + (int(self.headers.tags[row]) if row >= 0 else 0)
            left -= step
            position = int(self.ring.wrap(position + step))
        rows = np.array(self.committed, np.int64)
        ended = self.bad_reason or self.ended or "the whole log was read"
        end_order = self.order if self.bad_commit is None else self.bad_commit
        return RecoveryPass(
            self.superblock.sequence, end_order, rows, self.refused or ended, self.refused,
            self.bad_commit, self.is_corrupt,
        )  # fmt: skip

    def _take(self, row: int, position: int) -> None:
        """Process the header at a position; row -1 means no header."""
        if row < 0:
            self.ended = f"log block {position:,} is not a journal block"
        elif int(self.headers.order[row]) != self.order:
            self.ended = f"log block {position:,} belongs to another lap"
        elif self.headers.kind[row] == BlockType.COMMIT:
            self._take_commit(row)
        elif self.headers.kind[row] in (BlockType.DESCRIPTOR, BlockType.REVOKE):
            if not self.headers.checksum_ok[row]:
                is_descriptor = self.headers.kind[row] == BlockType.DESCRIPTOR
                kind = "descriptor" if is_descriptor else "revoke block"
                self.suspect = f"bad checksum of the {kind} at log block {position:,}"
            self.current.append(row)
        else:
            self.ended = f"log block {position:,} is of an unknown type"

    def _take_commit(self, row: int) -> None:
        """Process a commit block, which is from an earlier lap if it is older than the previous."""
        seconds = int(self.headers.commit_seconds[row])
        stale = seconds < self.last_commit
        if self.suspect and not stale:
            self.refused = self.ended = self.suspect
        elif self.suspect:
            self.ended = "a block of an earlier lap"
        elif self.bad_commit is not None:
            self.is_corrupt = True  # the kernel commits nothing after an incomplete transaction
            self._continues(seconds)
        elif reason := self._mismatch(row):
            self._take_bad_commit("a block of an earlier lap" if stale else reason, stale, seconds)
        else:
            self.committed += [*self.current, row]
            self._continues(seconds)

    def _take_bad_commit(self, reason: str, stale: bool, seconds: int) -> None:
        """End the log before this transaction; with async commit it may only be incomplete.

        With async commit, a commit block may reach the disk before the rest of its transaction. The
        next commit block shows which case it is.
        """
        if stale:
            self.ended = reason
            return
        self.bad_commit = self.order
        self.bad_reason = reason
        if JournalIncompat.ASYNC_COMMIT in self.superblock.features:
            self._continues(seconds)
        else:
            self.is_corrupt = True
            self.ended = reason

    def _continues(self, seconds: int) -> None:
        self.current = []
        self.last_commit = seconds
        self.order += 1

    def _mismatch(self, row: int) -> str:
        """Why a commit block is not valid, or ""."""
        if self.superblock.features.checksum_version != 1:
            fits = bool(self.headers.checksum_ok[row])
        else:
            fits = commit_v1_fits(self.headers, row, self.current, self.reader, self.ring)
        if fits:
            return ""
        kind = int(self.headers.commit_checksum[row][0])
        if self.superblock.features.checksum_version != 1 or kind in (0, CHECKSUM_CRC32):
            return "bad checksum in a commit block"
        name = CHECKSUM_KINDS.get(kind, "unknown")
        return f"a commit block's checksum is of type {kind} ({name}), which cannot be verified"


def commit_v1_fits(
    headers: Headers, commit: int, parts: list[int], reader: LogReader, ring: Ring
) -> bool:
    """Whether a commit block's checksum v1 matches its transaction.

    If type, size and value are all zero, the commit block has no checksum. Source: kernel
    fs/jbd2/recovery.c, `calc_chksums` and the commit block's case.

    Args:
        headers: the headers of the log.
        commit: row of the commit block.
        parts: rows of the transaction's other blocks, in log order.
        reader: reads the log.
        ring: the log's ring.
    """
    kind, size, value = headers.commit_checksum[commit].tolist()
    if kind == size == value == 0:
        return True
    if (kind, size) != (CHECKSUM_CRC32, 4):
        return False
    register = ONES
    for row in parts:
        if headers.kind[row] == BlockType.DESCRIPTOR:
            start = int(headers.position[row])
            span = np.arange(start, start + 1 + int(headers.tags[row]))
            for _, rows in reader.stream(ring.wrap(span)):
                register = crc32_big_endian(register, rows.tobytes())
    return register == int(value)
