"""The past of a file system: inode states in lives, directory blocks and names over time."""

from ext4kit.past.names import NameHistory
from ext4kit.past.states import TID_NONE, TID_ON_DISK, History

__all__ = ["TID_NONE", "TID_ON_DISK", "NameHistory", "History"]
