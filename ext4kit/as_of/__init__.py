"""The file system as of a transaction, from the copies in the journal."""

from ext4kit.as_of.blocks import UnknownStateError
from ext4kit.as_of.file_system import AsOfFileSystem, file_system_as_of, recorded_range
from ext4kit.as_of.range import AsOfRange, as_of_range

__all__ = [
    "AsOfFileSystem",
    "AsOfRange",
    "UnknownStateError",
    "as_of_range",
    "file_system_as_of",
    "recorded_range",
]
