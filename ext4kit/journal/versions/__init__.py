"""Every version of a block or an inode that the log holds, and what changed between them."""

from ext4kit.journal.versions.differences import (
    Change,
    Compared,
    Reader,
    compared,
    inode_reader,
    reader_of,
)
from ext4kit.journal.versions.versions import Version, block_versions

__all__ = [
    "Change",
    "Compared",
    "Reader",
    "Version",
    "block_versions",
    "compared",
    "inode_reader",
    "reader_of",
]
