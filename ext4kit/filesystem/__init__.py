"""Reading of the file system: geometry, inodes, block maps, directories, bitmaps, content."""

from ext4kit.filesystem.filesystem import FileSystem, WalkEntry

__all__ = ["FileSystem", "WalkEntry"]
