"""Read-only byte sources, partition tables and signatures: from a path to its volumes."""

from ext4kit.evidence.evidence import Evidence, Volume, open_evidence
from ext4kit.evidence.source import Source

__all__ = ["Evidence", "Source", "Volume", "open_evidence"]
