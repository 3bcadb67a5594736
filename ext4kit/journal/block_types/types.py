"""What a logged block can be, in words."""

from __future__ import annotations

from enum import IntEnum


class Content(IntEnum):
    """What a block of the file system holds."""

    UNKNOWN = 0
    SUPERBLOCK = 1
    DESCRIPTORS = 2  # group descriptors, reserved ones and copies included
    BLOCK_BITMAP = 3
    INODE_BITMAP = 4
    INODES = 5
    JOURNAL = 6
    DIRECTORY = 7
    MAP_NODE = 8  # extent tree or indirect block
    XATTR = 9
    ORPHAN_FILE = 10
    FILE_DATA = 11
    SYMLINK = 12
    MMP = 13
    QUOTA = 14
    OUTSIDE = 15


BLOCK_CONTENT_NAMES = {
    Content.UNKNOWN: "unknown",
    Content.SUPERBLOCK: "superblock",
    Content.DESCRIPTORS: "group descriptors",
    Content.BLOCK_BITMAP: "block bitmap",
    Content.INODE_BITMAP: "inode bitmap",
    Content.INODES: "inodes",
    Content.JOURNAL: "journal",
    Content.DIRECTORY: "directory",
    Content.MAP_NODE: "extent or indirect block",
    Content.XATTR: "xattr block",
    Content.ORPHAN_FILE: "orphan file",
    Content.FILE_DATA: "file data",
    Content.SYMLINK: "symlink",
    Content.MMP: "mount protection",
    Content.QUOTA: "quota file",
    Content.OUTSIDE: "outside the file system",
}
WITH_GROUP = frozenset({Content.BLOCK_BITMAP, Content.INODE_BITMAP})
WITH_INODE = frozenset(
    {
        Content.DIRECTORY,
        Content.MAP_NODE,
        Content.XATTR,
        Content.FILE_DATA,
        Content.SYMLINK,
        Content.QUOTA,
    }
)
