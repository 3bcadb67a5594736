"""Read-only byte sources, partition tables and signatures: from a path to its volumes."""

from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.source import Source
from ext4kit.evidence.tree import open_evidence
from ext4kit.evidence.volume import Volume

__all__ = ["Evidence", "Source", "Volume", "open_evidence"]
