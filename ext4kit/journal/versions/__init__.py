"""Every version of a block or an inode in the log, and the changes between them."""

from ext4kit.journal.versions.diff import (
    FieldChange,
    StructureReader,
    VersionDiff,
    diff_versions,
    inode_reader,
    reader_for_block,
)
from ext4kit.journal.versions.versions import BlockVersion, block_versions

__all__ = [
    "FieldChange",
    "VersionDiff",
    "StructureReader",
    "BlockVersion",
    "block_versions",
    "diff_versions",
    "inode_reader",
    "reader_for_block",
]
