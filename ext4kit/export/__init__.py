"""A file system's files, deleted files, events and findings in formats that other tools read."""

from ext4kit.export.digests import HASHES
from ext4kit.export.exporting import DATABASE, TEXT_FORMATS, Export, Target, exporting
from ext4kit.export.format import Subject

__all__ = ["DATABASE", "HASHES", "TEXT_FORMATS", "Export", "Subject", "Target", "exporting"]
