"""The result of opening a container."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ext4kit.evidence.source import Source
from ext4kit.problems import Problems


@dataclass(slots=True)
class Opened:
    """The bytes of the disk in a container, and the metadata of the container.

    Attributes:
        source: the disk.
        files: all files of the container: segments, extents, backing files.
        format: "raw", "split raw", "ewf", "qcow2" ...
        facts: case data and similar values, by name.
        hashes: stored hashes of the disk, as hexadecimal digits: "md5", "sha1".
        problems: defects of the container; grows while it is read.
    """

    source: Source
    files: tuple[Path, ...]
    format: str
    facts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
