"""What the blocks in the log are: by where they lie, by whose they were, by what they hold."""

from ext4kit.journal.contents.kinds import NAMES, OF_GROUP, OF_INODE, Content
from ext4kit.journal.contents.touched import Touched, touched

__all__ = ["NAMES", "OF_GROUP", "OF_INODE", "Content", "Touched", "touched"]
