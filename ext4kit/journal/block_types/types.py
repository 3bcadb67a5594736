"""The types of logged blocks, and their names."""

from __future__ import annotations

from enum import IntEnum


class BlockRole(IntEnum):
    """The type of a block of the file system."""

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
    BlockRole.UNKNOWN: "unknown",
    BlockRole.SUPERBLOCK: "superblock",
    BlockRole.DESCRIPTORS: "group descriptors",
    BlockRole.BLOCK_BITMAP: "block bitmap",
    BlockRole.INODE_BITMAP: "inode bitmap",
    BlockRole.INODES: "inodes",
    BlockRole.JOURNAL: "journal",
    BlockRole.DIRECTORY: "directory",
    BlockRole.MAP_NODE: "extent or indirect block",
    BlockRole.XATTR: "xattr block",
    BlockRole.ORPHAN_FILE: "orphan file",
    BlockRole.FILE_DATA: "file data",
    BlockRole.SYMLINK: "symlink",
    BlockRole.MMP: "mount protection",
    BlockRole.QUOTA: "quota file",
    BlockRole.OUTSIDE: "outside the file system",
}
WITH_GROUP = frozenset({BlockRole.BLOCK_BITMAP, BlockRole.INODE_BITMAP})
WITH_INODE = frozenset(
    {
        BlockRole.DIRECTORY,
        BlockRole.MAP_NODE,
        BlockRole.XATTR,
        BlockRole.FILE_DATA,
        BlockRole.SYMLINK,
        BlockRole.QUOTA,
    }
)
