"""Recovery: candidates from many sources, their paths, owners and grades, and salvage."""

from ext4kit.recovery.deleted import Deleted, DeletedFile, Grade, LostRange, Moment
from ext4kit.recovery.engine import find_deleted
from ext4kit.recovery.records import record
from ext4kit.recovery.salvage import Salvage, recover

__all__ = [
    "Deleted",
    "DeletedFile",
    "Grade",
    "LostRange",
    "Moment",
    "Salvage",
    "find_deleted",
    "record",
    "recover",
]
