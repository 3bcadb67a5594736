"""Content without an inode: unallocated blocks cut into files, with type and size."""

from ext4kit.carving.block_features import BlockFeatures, feature_scanner, zero_tails
from ext4kit.carving.carve import carve
from ext4kit.carving.format_sizes import format_sizes
from ext4kit.carving.indirect_bodies import HeadlessBodies
from ext4kit.carving.result import CarvedFiles, EndEvidence

__all__ = [
    "CarvedFiles",
    "EndEvidence",
    "HeadlessBodies",
    "BlockFeatures",
    "carve",
    "feature_scanner",
    "format_sizes",
    "zero_tails",
]
