"""Recovery of deleted files: candidates, names, later owners, grades, records and output."""

from ext4kit.recovery.as_of_proof import vouch_by_recovery
from ext4kit.recovery.deleted_files import DeletedFiles
from ext4kit.recovery.manifest import manifest_record
from ext4kit.recovery.model import DeletedFile, Grade, ReusedRange, TransactionTime
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.restore import RecoveryResult, is_written, recover
from ext4kit.recovery.search_sources import ALL_SOURCES, JOURNAL_ONLY, SearchSource

__all__ = [
    "ALL_SOURCES",
    "JOURNAL_ONLY",
    "SearchSource",
    "DeletedFiles",
    "DeletedFile",
    "Grade",
    "ReusedRange",
    "TransactionTime",
    "RecoveryResult",
    "find_deleted",
    "is_written",
    "manifest_record",
    "recover",
    "vouch_by_recovery",
]
