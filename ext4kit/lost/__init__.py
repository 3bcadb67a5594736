"""A lost file system: one that another was made over, or whose superblocks are gone."""

from ext4kit.lost.file_system import LostFileSystem
from ext4kit.lost.files import find_lost_files
from ext4kit.lost.find import find_lost

__all__ = ["LostFileSystem", "find_lost", "find_lost_files"]
