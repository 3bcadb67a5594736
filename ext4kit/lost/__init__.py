"""A lost file system: one that was reformatted over or has lost its superblocks."""

from ext4kit.lost.file_system import LostFileSystem
from ext4kit.lost.files import find_lost_files
from ext4kit.lost.find import find_lost

__all__ = ["LostFileSystem", "find_lost", "find_lost_files"]
