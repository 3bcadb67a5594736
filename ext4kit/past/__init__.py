"""The past of a file system: inode states in lives, directory blocks and names over time."""

from ext4kit.past.names import NameHistory
from ext4kit.past.states import NEVER, NOW, Past

__all__ = ["NEVER", "NOW", "NameHistory", "Past"]
