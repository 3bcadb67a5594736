"""Content without an inode: free blocks cut into files, typed and trimmed."""

from ext4kit.recovery.sources.carving.carve import carve
from ext4kit.recovery.sources.carving.carved import CarvedFiles, EndEvidence
from ext4kit.recovery.sources.carving.lists import HeadlessBodies
from ext4kit.recovery.sources.carving.marks import BlockFeatures, feature_scanner
from ext4kit.recovery.sources.carving.stated import format_sizes

__all__ = [
    "CarvedFiles",
    "EndEvidence",
    "HeadlessBodies",
    "BlockFeatures",
    "carve",
    "feature_scanner",
    "format_sizes",
]
