"""What opening a container gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ext4kit.evidence.source import Source
from ext4kit.problems import Problems


@dataclass(slots=True)
class Opened:
    """The bytes of the disk in a container, and what the container says about itself.

    Attributes:
        source: the disk.
        files: every file that it consists of: segments, extents, backing files.
        format: "raw", "split raw", "ewf", "qcow2" ...
        facts: case data and the like, by name.
        hashes: stored hashes of the disk, as hexadecimal digits: "md5", "sha1".
        problems: what is wrong with the container; grows while it is read.
    """

    source: Source
    files: tuple[Path, ...]
    format: str
    facts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
