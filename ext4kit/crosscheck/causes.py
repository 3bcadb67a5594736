"""Causes of differences between the two readers, and which reader is probably right.

The statements about The Sleuth Kit come from experiments in which it and the kernel read images
that the running kernel wrote; `tests/crosscheck` repeats these for each cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LikelyRight(StrEnum):
    """Reader that is probably right."""

    EXT4KIT = "ext4kit"
    TSK = "tsk"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a difference.

    Attributes:
        code: name of the cause in records.
        text: the cause in one or two sentences.
        right: the reader that is probably right.
    """

    code: str
    text: str
    right: LikelyRight = LikelyRight.EXT4KIT

    @property
    def number(self) -> int:
        """Index of the cause in `CAUSES`."""
        return _NUMBERS[self]


JOURNAL = Cause(
    "journal",
    "The change is only in the journal. The Sleuth Kit does not replay it and shows the disk as it"
    " is. ext4kit with --no-replay shows the same.",
)
EPOCH = Cause(
    "epoch",
    "The Sleuth Kit reads seconds as unsigned 32-bit numbers and ignores the two epoch bits:"
    " times before 1970 and after 2038 are wrong by multiples of 2^32 s.",
)
PLAIN_TIMES = Cause(
    "ext3-times",
    "The Sleuth Kit reads nanoseconds and creation times only on file systems that it detects as"
    " ext4. The kernel also writes them on ext2 and ext3 if the inodes are large enough.",
)
EXTRA = Cause(
    "extra-size",
    "The Sleuth Kit reads times after byte 128 of an inode and ignores i_extra_isize. Beyond that"
    " size these fields do not exist, and attributes may start there.",
)
HIGH_SIZE = Cause(
    "high-size",
    "The Sleuth Kit reads the upper 32 bits of a size only for regular files, and only if the"
    " superblock has large_file.",
)
INDEX = Cause(
    "index-block",
    "The Sleuth Kit read hashes of the directory's index as a name: in an index block, which holds"
    " no entries, or in slack, where the kernel leaves those by which it sorted a block.",
)
NUL = Cause(
    "name-with-nul",
    "The name contains a zero byte, as encrypted names can, and The Sleuth Kit ends it there.",
)
INLINE = Cause(
    "inline-directory",
    "The directory's entries are in the inode and its attributes (inline_data). The Sleuth Kit does"
    " not read them.",
)
LINK = Cause(
    "link-target",
    "The Sleuth Kit replaces control characters in link targets by ^ and ends a target at a zero"
    " byte, which encrypted targets can contain.",
)
NO_INODE = Cause(
    "no-such-inode",
    "The entry is damaged: it names an inode number beyond the last inode. The Sleuth Kit omits"
    " such entries and shows a virtual directory at the first of these numbers.",
    LikelyRight.OPEN,
)
BROKEN = Cause(
    "broken-block",
    "The entry follows a damaged one in its block. ext4kit stops there, as the kernel does. The"
    " Sleuth Kit continues to search for possible entries.",
    LikelyRight.OPEN,
)
SHOWN_DELETED = Cause(
    "shown-deleted",
    "The Sleuth Kit shows the name, or that of a parent directory, as deleted: the bitmap marks"
    " its inode as free, or the entry is in slack that it searches for deleted entries.",
    LikelyRight.OPEN,
)
NOT_ITS_NAME = Cause(
    "not-its-name",
    "The directory holds the removed entry, but the evidence does not show that it is the name of"
    " the inode whose number it stores, or shows that it is not. `deleted --names` lists it.",
)
OTHER_PATH = Cause(
    "other-path",
    "The deleted inode had another path at its deletion: it or its directory was moved.",
)
FROM_JOURNAL = Cause(
    "name-from-journal",
    "The name is in the journal's copies of the directory. The Sleuth Kit does not read them.",
)
FREED_DIRECTORY = Cause(
    "freed-directory",
    "The name is in a block of a deleted directory. The Sleuth Kit does not find it because the"
    " deletion cleared the block map of the directory.",
)
CHECKSUM = Cause(
    "bad-checksum",
    "The checksum of the inode does not match: both readings are uncertain.",
    LikelyRight.OPEN,
)
REFUSED = Cause(
    "not-read",
    "The Sleuth Kit reported an error here; ext4kit read the data.",
    LikelyRight.OPEN,
)
UNEXPLAINED = Cause(
    "unexplained",
    "No known cause explains the difference. Check it with a third reader: debugfs, or a read-only"
    " mount of a copy.",
    LikelyRight.OPEN,
)

CAUSES = (
    UNEXPLAINED, JOURNAL, EPOCH, PLAIN_TIMES, EXTRA, HIGH_SIZE, INDEX, NUL, INLINE, LINK, NO_INODE,
    BROKEN, SHOWN_DELETED, CHECKSUM, REFUSED, NOT_ITS_NAME, OTHER_PATH, FROM_JOURNAL,
    FREED_DIRECTORY,
)  # fmt: skip
_NUMBERS = {cause: number for number, cause in enumerate(CAUSES)}

BIGALLOC = (
    "The Sleuth Kit does not support bigalloc: it reads clusters as fragments and opens nothing"
)
