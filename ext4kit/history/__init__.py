"""History of a file system: inode states and instances, directory blocks and names over time."""

from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.paths import PathHistory
from ext4kit.history.reading import read_history

__all__ = ["TID_NONE", "TID_ON_DISK", "History", "PathHistory", "read_history"]
