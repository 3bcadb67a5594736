"""The identity of evidence: its files, their sizes, and the metadata of its container."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypedDict

from ext4kit import fields
from ext4kit.evidence.evidence import Evidence
from ext4kit.fields import Record


class EvidenceFile(TypedDict):
    """A file of the evidence."""

    path: str
    size: Annotated[int | None, "Bytes; null for a device."]


class Identity(TypedDict):
    """The identity of evidence."""

    path: Annotated[str, "The image as it was given."]
    format: str
    size: Annotated[fields.Size, "Bytes of the disk."]
    files: list[EvidenceFile]
    case_data: Annotated[dict[str, str], "What the examiner entered."]
    stored_hashes: Annotated[dict[str, str], "Stored hashes of the disk, by algorithm."]


def identity(evidence: Evidence, files: Sequence[Path] = ()) -> Identity:
    """The evidence as plain JSON values.

    Args:
        evidence: the opened evidence.
        files: files of the evidence, if it has more than `evidence.files`.

    Returns:
        A dictionary with `path`, `format`, `size` (bytes of the disk), `files` (path and size in
        bytes, None for a device), `case_data` (entered by the examiner) and `stored_hashes` (of the
        disk, by algorithm).
    """
    return {
        "path": str(evidence.path),
        "format": evidence.format,
        "size": evidence.source.size,
        "files": [{"path": str(path), "size": _size(path)} for path in files or evidence.files],
        "case_data": dict(evidence.facts),
        "stored_hashes": dict(evidence.hashes),
    }


def _size(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else None
    return None


def mismatches(stored: dict[str, str], computed: Record) -> list[str]:
    """The algorithms for which the stored and the computed hash differ."""
    return [
        name for name, value in stored.items()
        if name in computed and value.lower() != computed[name]
    ]  # fmt: skip
