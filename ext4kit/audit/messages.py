"""Texts of the audit's findings: names of blocks and the meaning of each finding."""

from __future__ import annotations

from ext4kit.audit.survey import Fault
from ext4kit.parsers.journal import MAGIC, BlockType

KIND_NAMES = {
    int(BlockType.DESCRIPTOR): "descriptor",
    int(BlockType.COMMIT): "commit",
    int(BlockType.REVOKE): "revoke",
}
FAULT_CODES = {
    int(Fault.BODY): "checksum",
    int(Fault.MAGIC): "magic",
    int(Fault.TYPE): "type",
    int(Fault.SEQUENCE): "sequence",
    int(Fault.REST): "rest",
}
MEANINGS = {
    "descriptor": "its transaction would not be replayed; where its copies belong is not certain",
    "revoke": "its transaction would not be replayed; what it forbids to write back is not certain",
    "commit": "a recovery would end before this transaction",
    "metadata": "a recovery would end at this block",
}
REST = "a recovery goes by the first sector; the bytes behind it are not what was written"
HEADER = "a recovery would end at this block, which is no journal block to it"
COPY = "a recovery would leave this copy out and keep what is in place"
NOT_WRITTEN = "the commit block is good and this block never reached the disk, or was put back"
WRITE_CACHE = (
    "the transaction was confirmed as written while some of it was not: a write cache lied, or "
    "the log was changed afterwards"
)
BREAK = "a block of the transaction is gone; copies behind it cannot be named any more"
NO_COMMIT = "later transactions follow, so it had been committed; its commit block is gone"
OUTSIDE = "a recovery would leave it out"
OUTSIDE_STALE = "no recovery writes it any more; the file system may have been larger then"
OWN_LOG = "a recovery would write into the log it reads"
REVOKE_OVERFLOW = "nothing would be replayed: the count runs past the end of the block"
ESCAPE = "the tag says that the first four bytes were taken out, and they are there"
BACKWARDS = "the clock was set back, or the transactions are not in the order they were written"
TRANSACTION = "the checksum over the transaction's blocks fails: a recovery would end before it"
SUPERBLOCK = "no kernel would replay or use this log"


def kind_name(kind: int) -> str:
    """Name of a metadata block's type."""
    return KIND_NAMES.get(kind, "metadata")


def header_words(fault: int, kind: int, transaction: int) -> str:
    """Text of the value that a damaged header field must have."""
    if fault == Fault.MAGIC:
        return f"magic 0x{MAGIC:08X}"
    if fault == Fault.TYPE:
        return f"block type {kind}" if kind in KIND_NAMES else "block type 1, 2 or 5"
    return f"transaction {transaction:,}"
