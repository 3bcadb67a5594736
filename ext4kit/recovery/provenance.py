"""Texts that state provenance, as the values of `sources` in records."""

from __future__ import annotations

from collections.abc import Mapping

from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.inode_states import TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.recovery.candidates import STALE_INDEX
from ext4kit.recovery.model import TransactionTime

TAGGED_COPIES, UNTAGGED_COPIES = "copies in the journal", "untagged copies in the journal"
UNTAGGED_COPY = "untagged copy"
INFERRED = "inferred from its digest"
ORPHAN_LIST = "orphan list"
FREED_BLOCK = "unallocated directory block"
OLD_COPY = "old copy of a directory block in the journal"
UNREPLAYED_BLOCK = "directory block on disk, before the replay"
MAP_SOURCES = {STALE_INDEX: "stale extent entries of the freed inode"}
_NAME_SOURCES = {
    TID_BEFORE_LOG: FREED_BLOCK,
    SLACK_ENTRY: "deleted entry in directory slack",
    TID_PRE_FAST_COMMIT: "directory block that a fast commit changes",
    int(TID_ON_DISK): "directory on the disk",
}


def state_source(transactions: Mapping[int, TransactionTime], tid: int) -> str:
    """Provenance of a state.

    Args:
        transactions: transactions of the journal, by tid.
        tid: first tid of the state.
    """
    return _written_by(transactions, tid) or "inode table"


def name_source(transactions: Mapping[int, TransactionTime], tid: int) -> str:
    """Provenance of a name that was last seen at a tid."""
    return _NAME_SOURCES.get(tid) or _written_by(transactions, tid) or "journal"


def _written_by(transactions: Mapping[int, TransactionTime], tid: int) -> str:
    """Text for the fast commit or transaction of a tid, "" if the journal has neither."""
    if TID_PRE_FAST_COMMIT < tid < TID_ON_DISK:
        return "fast commit"
    known = transactions.get(tid)
    return f"journal transaction {known.transaction}" if known else ""
