"""Writes files, deleted files, events and findings in the formats of other tools."""

from ext4kit.export.exporting import DATABASE, PARTS, TEXT_FORMATS, Export, Target, exporting
from ext4kit.export.format import Subject
from ext4kit.known.digests import HASHES

__all__ = [
    "DATABASE",
    "HASHES",
    "PARTS",
    "TEXT_FORMATS",
    "Export",
    "Subject",
    "Target",
    "exporting",
]
