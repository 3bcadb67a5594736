"""The file system: geometry, inodes, block maps, directories, bitmaps, xattrs, content."""

from ext4kit.filesystem.filesystem import FileSystem, WalkEntry

__all__ = ["FileSystem", "WalkEntry"]
