"""Causes of differences between the two readers, and which reader is probably right.

The statements about The Sleuth Kit come from experiments: it and the kernel read images that the
running kernel wrote (`tests/crosscheck` repeats them for each cause).
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
        code: its name in records.
        right: the reader that is probably right.
        text: the cause in one or two sentences.
    """

    code: str
    right: LikelyRight
    text: str


JOURNAL = Cause(
    "journal",
    LikelyRight.EXT4KIT,
    "The change stands in the journal alone. The Sleuth Kit does not replay it and shows the disk"
    " as it is; so does ext4kit with --no-replay, and then both agree here.",
)
EPOCH = Cause(
    "epoch",
    LikelyRight.EXT4KIT,
    "The Sleuth Kit takes seconds as 32 bits without sign and leaves out the two epoch bits:"
    " times before 1970 and after 2038 are wrong by multiples of 2^32 s.",
)
PLAIN_TIMES = Cause(
    "ext3-times",
    LikelyRight.EXT4KIT,
    "The Sleuth Kit reads nanoseconds and creation times of file systems that it takes for ext4"
    " only; kernels write them on ext2 and ext3 too where inodes have room.",
)
EXTRA = Cause(
    "extra-size",
    LikelyRight.EXT4KIT,
    "The Sleuth Kit reads times behind byte 128 of an inode whatever i_extra_isize says. Where that"
    " does not reach there are no such fields: attributes may begin there.",
)
HIGH_SIZE = Cause(
    "high-size",
    LikelyRight.EXT4KIT,
    "The Sleuth Kit reads the upper 32 bits of a size for regular files alone, and for those only"
    " where the superblock has large_file.",
)
INDEX = Cause(
    "index-block",
    LikelyRight.EXT4KIT,
    "The Sleuth Kit read hashes in an index block of the directory as a name: the bytes of this"
    " entry stand in a block that holds no entries.",
)
NUL = Cause(
    "name-with-nul",
    LikelyRight.EXT4KIT,
    "The name has a zero byte in it, as encrypted names do, and The Sleuth Kit ends it there.",
)
INLINE = Cause(
    "inline-directory",
    LikelyRight.EXT4KIT,
    "The directory's entries lie in the inode and its attributes (inline_data), and The Sleuth"
    " Kit does not read them.",
)
LINK = Cause(
    "link-target",
    LikelyRight.EXT4KIT,
    "The Sleuth Kit puts ^ in place of control characters in targets of symlinks, and ends a"
    " target at a zero byte, as encrypted ones have.",
)
NO_INODE = Cause(
    "no-such-inode",
    LikelyRight.OPEN,
    "The entry leads to an inode number beyond the last one, so it is damaged. The Sleuth Kit"
    " leaves such entries out, and has a folder of its own at the first of these numbers.",
)
BROKEN = Cause(
    "broken-block",
    LikelyRight.OPEN,
    "The entry lies behind a broken one in its block. ext4kit stops at that, as the kernel does;"
    " The Sleuth Kit looks on for what could be an entry.",
)
SHOWN_DELETED = Cause(
    "shown-deleted",
    LikelyRight.OPEN,
    "The Sleuth Kit has the name, or that of a folder above it, as deleted: the bitmap says that"
    " its inode is free, or the entry lies where it looks for remains.",
)
NOT_ITS_NAME = Cause(
    "not-its-name",
    LikelyRight.EXT4KIT,
    "The removed entry stands in its directory, and nothing says that it is the name of the inode"
    " whose number it has, or something says that it is not. `deleted --names` lists it.",
)
OTHER_PATH = Cause(
    "other-path",
    LikelyRight.EXT4KIT,
    "The deleted inode had another path when it went: it was renamed, or its directory was moved.",
)
FROM_JOURNAL = Cause(
    "name-from-journal",
    LikelyRight.EXT4KIT,
    "The name stands in the journal's copies of the directory. The Sleuth Kit does not read them.",
)
FREED_DIRECTORY = Cause(
    "freed-directory",
    LikelyRight.EXT4KIT,
    "The name stands in a block that a deleted directory had. The Sleuth Kit does not find it,"
    " as the deletion cleared the map of the directory.",
)
CHECKSUM = Cause(
    "bad-checksum",
    LikelyRight.OPEN,
    "The inode's checksum does not fit its bytes: what either reads there is in doubt.",
)
REFUSED = Cause(
    "not-read",
    LikelyRight.OPEN,
    "The Sleuth Kit gave an error here, and ext4kit read it.",
)
UNEXPLAINED = Cause(
    "unexplained",
    LikelyRight.OPEN,
    "Nothing that is known explains it. Look at it with a third reader: debugfs, or a read-only"
    " mount of a copy.",
)

CAUSES = (
    UNEXPLAINED, JOURNAL, EPOCH, PLAIN_TIMES, EXTRA, HIGH_SIZE, INDEX, NUL, INLINE, LINK, NO_INODE,
    BROKEN, SHOWN_DELETED, CHECKSUM, REFUSED, NOT_ITS_NAME, OTHER_PATH, FROM_JOURNAL,
    FREED_DIRECTORY,
)  # fmt: skip
NUMBER = {cause.code: number for number, cause in enumerate(CAUSES)}

BIGALLOC = (
    "The Sleuth Kit does not know bigalloc: it takes clusters for fragments and opens nothing"
)
