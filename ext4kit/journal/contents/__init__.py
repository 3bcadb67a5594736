"""What the blocks in the log are: by where they lie, by whose they were, by what they hold."""

from ext4kit.journal.contents.kinds import BLOCK_CONTENT_NAMES, WITH_GROUP, WITH_INODE, Content
from ext4kit.journal.contents.touched import Touched, classify_copies

__all__ = [
    "BLOCK_CONTENT_NAMES",
    "WITH_GROUP",
    "WITH_INODE",
    "Content",
    "Touched",
    "classify_copies",
]
