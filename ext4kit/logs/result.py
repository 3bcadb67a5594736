"""Log lines as results: where each stands, when it was written, whether it was removed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Codes, Int64s, Rows
from ext4kit.logs.kinds import LogKind
from ext4kit.logs.stamps import TimeGround
from ext4kit.recovery.model import TransactionTime

NO_TIME = -(1 << 63)


class Origin(StrEnum):
    """Where a line stands, the best evidence first."""

    LIVE = "live"  # in a log as it is
    EARLIER = "earlier"  # in an earlier version of a file
    DELETED = "deleted"  # in a deleted file
    SLACK = "slack"  # in a file's blocks, but not in its content
    JOURNAL = "journal"  # in a journal copy of a block
    UNALLOCATED = "unallocated"  # in unallocated blocks


class How(StrEnum):
    """How lines were removed from a log."""

    CUT_OUT = "cut out"  # lines before and after them stayed
    CUT_OFF = "cut off"  # lines before them stayed; an older copy that was put back looks so too
    EMPTIED = "emptied"  # the log was truncated, and no copy of its name was made on the volume


@dataclass(frozen=True, slots=True)
class Removal:
    """The proof that a line was removed from a log.

    Attributes:
        path: of the log.
        how: what was done.
        after: the last transaction that shows the log with the line; None if it is not known.
        before: the first transaction that shows the log without it; None for the disk.
    """

    path: bytes
    how: How
    after: TransactionTime | None
    before: TransactionTime | None


@dataclass(frozen=True, slots=True)
class FoundLines(Table):
    """Lines of sources, by source and offset.

    Attributes:
        key: hash of the line; that of a copy in another log is the same.
        head: hash of its first `HEAD` bytes, 0 for a shorter one.
        source: row of the source.
        offset, length: bytes in the source's content.
        kind: index into `KINDS`.
        time: ns since 1970, NO_TIME for none.
        ground: `TimeGround`.
        torn: 1 where the end of the line is missing.
    """

    key: Int64s
    head: Int64s
    source: Rows
    offset: Int64s
    length: Int64s
    kind: Codes
    time: Int64s
    ground: Codes
    torn: Codes


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a text log, or a record of a binary one as text.

    Attributes:
        text: its bytes; of a record, words made of its fields.
        kind: of what it is.
        time: ns since 1970, None if it has none.
        ground: what the time rests on.
        origin: where it stands.
        path: of the file that has or had it, None if unknown.
        inode: number of that file.
        offset: byte of the content of that file, or of consecutive blocks without a file.
        block: file system block of its first byte, None for a compressed or inline content.
        position: byte of the file system of its first byte, None likewise.
        torn: whether its end is missing.
        removal: the proof of its removal from a log, None without one.
    """

    text: bytes
    kind: LogKind
    time: int | None
    ground: TimeGround
    origin: Origin
    path: bytes | None
    inode: int | None
    offset: int
    block: int | None
    position: int | None
    torn: bool
    removal: Removal | None
