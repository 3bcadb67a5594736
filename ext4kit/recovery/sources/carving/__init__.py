"""Content without an inode: free blocks cut into files, typed and trimmed."""

from ext4kit.recovery.sources.carving.carve import carve
from ext4kit.recovery.sources.carving.carved import Carved, End
from ext4kit.recovery.sources.carving.lists import Lists
from ext4kit.recovery.sources.carving.marks import Marks, look
from ext4kit.recovery.sources.carving.stated import stated_sizes

__all__ = ["Carved", "End", "Lists", "Marks", "carve", "look", "stated_sizes"]
