"""Evidence: what was handed over, opened read-only, and the volumes in it."""

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
        path: as the caller gave it.
        source: all bytes of the disk: pieces of a split image joined, containers opened.
        volumes: in the order of the disk, each followed by what is in it.
        problems: what is wrong with the image or its partition tables.
        files: every file that the image consists of: segments, extents, backing files.
        format: "raw", "split raw", "device", "ewf", "qcow2", "vmdk" ...
        facts: what the container says of the case, by name.
        hashes: hashes of the disk that the container keeps, "md5" and "sha1".
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
        """Close every file; reading a volume fails from now on."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def open_evidence(path: str | os.PathLike[str], phrases: Sequence[bytes] = ()) -> Evidence:
    """Open an image, whatever its container, or a block device, to read only.

    Args:
        path: a raw image, the first piece of a split one, a container's first file, a device.
        phrases: pass phrases and contents of key files, for encrypted volumes.

    Raises:
        AccessError: it does not exist, is not allowed, is empty, or is something else (a
            directory, a pipe, a character device), a piece of it is missing, or no pass phrase
            fits.
        UnsupportedError: it has a feature that is not known here or needs an extra.
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
    """All pieces but the last have one size, else one of them was cut."""
    for path, size in zip(source.paths[1:-1], source.sizes[1:-1], strict=True):
        if size != source.sizes[0]:
            text = f"has {size:,} bytes, the first has {source.sizes[0]:,}: check the copies"
            problems.add(f"piece {path.name}", text, Severity.WARNING)
