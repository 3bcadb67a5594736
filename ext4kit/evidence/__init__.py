"""Read-only byte sources, partition tables and signatures, to get the volumes of a path."""

from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.source import Source
from ext4kit.evidence.tree import open_evidence
from ext4kit.evidence.volume import Volume

__all__ = ["Evidence", "Source", "Volume", "open_evidence"]
