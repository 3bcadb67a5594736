"""Recovery: candidates from many sources, their paths, owners and grades, and salvage."""

from ext4kit.recovery.deleted import DeletedFile, DeletedFiles, Grade, ReusedRange, TransactionTime
from ext4kit.recovery.engine import find_deleted
from ext4kit.recovery.records import record
from ext4kit.recovery.salvage import RecoveryResult, recover

__all__ = [
    "DeletedFiles",
    "DeletedFile",
    "Grade",
    "ReusedRange",
    "TransactionTime",
    "RecoveryResult",
    "find_deleted",
    "record",
    "recover",
]
