"""The types of the blocks in the log: by location, by owner, by content."""

from ext4kit.journal.block_types.classify import Touched, classify_copies
from ext4kit.journal.block_types.types import BLOCK_CONTENT_NAMES, WITH_GROUP, WITH_INODE, BlockRole

__all__ = [
    "BLOCK_CONTENT_NAMES",
    "WITH_GROUP",
    "WITH_INODE",
    "BlockRole",
    "Touched",
    "classify_copies",
]
