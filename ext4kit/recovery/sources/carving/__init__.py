"""Content without an inode: free blocks cut into files, typed and trimmed."""

from ext4kit.recovery.sources.carving.carve import carve
from ext4kit.recovery.sources.carving.carved import Carved, End
from ext4kit.recovery.sources.carving.marks import Marks, look

__all__ = ["Carved", "End", "Marks", "carve", "look"]
