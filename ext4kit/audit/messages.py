"""Texts of the audit's findings: names of blocks and the meaning of each finding."""

from __future__ import annotations

from ext4kit.audit.survey import Fault
from ext4kit.journal.tables import HEADER_KINDS
from ext4kit.parsers.journal import MAGIC, BlockType

FAULT_CODES: dict[int, str] = {
    Fault.BODY: "checksum",
    Fault.MAGIC: "magic",
    Fault.TYPE: "type",
    Fault.SEQUENCE: "sequence",
    Fault.REST: "rest",
}
MEANINGS = {
    "descriptor": "its transaction would not be replayed; the home blocks of copies are uncertain",
    "revoke": "its transaction would not be replayed; the blocks that it revokes are uncertain",
    "commit": "a recovery would stop before this transaction",
    "metadata": "a recovery would stop at this block",
}
REST = "a recovery accepts the first sector alone; the bytes after it changed"
HEADER = "a recovery would not recognise this journal block and would stop at it"
COPY = "a recovery would skip this copy and leave the home block unchanged"
NOT_WRITTEN = "the commit block is valid, but this block never reached the disk or was reverted"
WRITE_CACHE = (
    "the transaction was committed before all of its blocks were on disk: the drive did not flush "
    "its write cache, or the journal was changed later"
)
BREAK = "a block of the transaction is missing; the home blocks of later copies are unknown"
NO_COMMIT = "later transactions follow, so it was committed; its commit block is missing"
OUTSIDE = "a recovery would skip it"
OUTSIDE_STALE = "no recovery writes it; the file system may have been larger at that time"
OWN_LOG = "a recovery would write into the journal that it reads"
REVOKE_OVERFLOW = "nothing would be replayed: the record count exceeds the block"
ESCAPE = "the tag marks the copy as escaped, but its first four bytes are not zero"
BACKWARDS = "the clock was set back, or the transactions are not in the order of writing"
TRANSACTION = "the checksum over the transaction's blocks fails: a recovery would stop before it"
SUPERBLOCK = "the kernel would neither replay nor use this journal"


def kind_name(kind: int) -> str:
    """Name of a metadata block's type."""
    return BlockType(kind).name.lower() if kind in HEADER_KINDS else "metadata"


def header_words(fault: int, kind: int, transaction: int) -> str:
    """Text of the value that a damaged header field must have."""
    if fault == Fault.MAGIC:
        return f"magic 0x{MAGIC:08X}"
    if fault == Fault.TYPE:
        return f"block type {kind}" if kind in HEADER_KINDS else "block type 1, 2 or 5"
    return f"transaction {transaction:,}"
