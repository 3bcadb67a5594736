"""Evidence: an image or a device, opened read-only, and the volumes in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ext4kit.errors import Ext4kitError
from ext4kit.evidence.containers import open_source
from ext4kit.evidence.raw import SplitFile
from ext4kit.evidence.source import Source
from ext4kit.evidence.tree import find_volumes
from ext4kit.evidence.volume import Volume
from ext4kit.problems import Problems, Severity


@dataclass(slots=True)
class Evidence:
    """Opened evidence; a context manager that closes it.

    Attributes:
        path: path as given by the caller.
        source: all bytes of the disk, with split images joined and containers opened.
        volumes: the volumes by offset, each followed by the volumes in it.
        problems: defects of the image or its partition tables.
        files: all files of the image: segments, extents, backing files.
        format: "raw", "split raw", "device", "ewf", "qcow2", "vmdk" ...
        facts: case data in the container, by name.
        hashes: hashes of the disk that the container stores, "md5" and "sha1".
    """

    path: Path
    source: Source
    files: tuple[Path, ...]
    volumes: tuple[Volume, ...] = ()
    problems: Problems = field(default_factory=Problems)
    format: str = "raw"
    facts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """Close every file; later reads of a volume fail."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def open_evidence(path: str | os.PathLike[str], phrases: Sequence[bytes] = ()) -> Evidence:
    """Open an image in any supported container, or a block device, read-only.

    Args:
        path: a raw image, the first segment of a split image or a container, or a device.
        phrases: passphrases and contents of key files, for encrypted volumes.

    Raises:
        AccessError: the path does not exist, is not accessible, is empty, or is something else
            (a directory, a pipe, a character device); a segment is missing; or no passphrase
            opens a volume.
        UnsupportedError: the image uses an unsupported feature or needs an extra.
    """
    opened = open_source(Path(path))
    evidence = Evidence(
        Path(path),
        opened.source,
        opened.files,
        problems=opened.problems,
        format=opened.format,
        facts=opened.facts,
        hashes=opened.hashes,
    )
    try:
        if isinstance(opened.source, SplitFile):
            _check_pieces(opened.source, evidence.problems)
        evidence.volumes = find_volumes(opened.source, phrases, evidence.problems)
    except Ext4kitError:
        opened.source.close()
        raise
    return evidence


def _check_pieces(source: SplitFile, problems: Problems) -> None:
    """Report segments of unequal size: all but the last must be equal, else one is truncated."""
    for path, size in zip(source.paths[1:-1], source.sizes[1:-1], strict=True):
        if size != source.sizes[0]:
            text = f"has {size:,} bytes, the first has {source.sizes[0]:,}: check the copies"
            problems.add(f"piece {path.name}", text, Severity.WARNING)
