"""Evidence: what was handed over, opened read-only, and the volumes in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ext4kit.errors import Ext4kitError
from ext4kit.evidence.partitions import Partition, find_partitions, looks_partitioned
from ext4kit.evidence.raw import SplitFile, open_raw
from ext4kit.evidence.signatures import (
    EXT_KINDS,
    OWNERS_OF_FIRST_SECTOR,
    UNKNOWN,
    Signature,
    identify,
)
from ext4kit.evidence.source import Source, Window
from ext4kit.findings import Problems, Severity


@dataclass(frozen=True, slots=True)
class Volume:
    """A partition, or the whole image where it has no partition table.

    Attributes:
        index: its number in the evidence, from 1 on.
        offset: byte offset in the image.
        size: bytes that the partition table says; `source.size` is what the image has of them.
        kind: "ext2", "ext3", "ext4", "jbd", "xfs", "swap" ... or "unknown".
        label: the volume's own name, "" when it has none.
        uuid: the volume's own UUID or serial number, "" when it has none.
        scheme: "gpt", "mbr", "bsd" ...; "mbr/bsd" within a partition; "" when unpartitioned.
        description: the partition table's name or type for it.
        source: the volume's bytes.
        backup: ext whose first superblock is destroyed and of which a backup was found.
    """

    index: int
    offset: int
    size: int
    kind: str
    label: str
    uuid: str
    scheme: str
    description: str
    source: Window
    backup: bool = False

    @property
    def is_ext(self) -> bool:
        """True for ext2, ext3 and ext4; an external journal is not a file system."""
        return self.kind in EXT_KINDS


@dataclass(slots=True)
class Evidence:
    """Opened evidence; a context manager that closes it.

    Attributes:
        path: as the caller gave it.
        source: all bytes, pieces of a split image joined.
        volumes: in the order of the disk.
        problems: what is wrong with the image or its partition tables.
        files: every file that the image consists of.
    """

    path: Path
    source: Source
    files: tuple[Path, ...]
    volumes: tuple[Volume, ...] = ()
    problems: Problems = field(default_factory=Problems)

    def close(self) -> None:
        """Close every file; reading a volume fails from now on."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def open_evidence(path: str | os.PathLike[str]) -> Evidence:
    """Open a raw image, the first piece of a split raw image, or a block device, to read only.

    Raises:
        AccessError: it does not exist, is not allowed, is empty, or is something else (a
            directory, a pipe, a character device), or a piece of a split image is missing.
    """
    source = open_raw(Path(path))
    evidence = Evidence(Path(path), source, source.paths)
    try:
        if isinstance(source, SplitFile):
            _check_pieces(source, evidence.problems)
        evidence.volumes = _volumes(source, evidence.problems)
    except Ext4kitError:
        source.close()
        raise
    return evidence


def _check_pieces(source: SplitFile, problems: Problems) -> None:
    """All pieces but the last have one size, else one of them was cut."""
    for path, size in zip(source.paths[1:-1], source.sizes[1:-1], strict=True):
        if size != source.sizes[0]:
            text = f"has {size:,} bytes, the first has {source.sizes[0]:,}: check the copies"
            problems.add(f"piece {path.name}", text, Severity.WARNING)


def _volumes(source: Source, problems: Problems) -> tuple[Volume, ...]:
    signature = identify(source)
    whole = Partition(0, source.size, "", "")
    if signature.kind in OWNERS_OF_FIRST_SECTOR or not looks_partitioned(source):
        return (_volume(1, source, whole, signature),)
    found = find_partitions(source, problems)
    if not found:
        return (_volume(1, source, whole, signature),)
    start: tuple[Volume, ...] = ()
    if signature.kind != UNKNOWN:
        start = _overlaid(source, whole, signature, problems)
    rest = enumerate(found, len(start) + 1)
    partitions = (_partition_volume(index, source, each, problems) for index, each in rest)
    return (*start, *partitions)


def _overlaid(
    source: Source, whole: Partition, signature: Signature, problems: Problems
) -> tuple[Volume, ...]:
    """A file system on the whole disk below a partition table.

    Which of the two is in use cannot be told when both are whole, so both are listed. One whose
    superblock is gone was overwritten by the table and is only noted.
    """
    where = "whole image"
    if signature.backup:
        text = f"holds a backup superblock of an {signature.kind} older than the partition table"
        problems.add(where, f"{text}, at byte {signature.offset:,}", Severity.NOTE)
        return ()
    text = f"has a partition table and is also {signature.kind}; both are listed"
    problems.add(where, text, Severity.WARNING)
    return (_volume(1, source, whole, signature),)


def _volume(index: int, source: Source, part: Partition, signature: Signature) -> Volume:
    return Volume(
        index=index,
        offset=part.offset,
        size=part.size,
        kind=signature.kind,
        label=signature.label,
        uuid=signature.uuid,
        scheme=part.scheme,
        description=part.description,
        source=Window(source, part.offset, part.size),
        backup=signature.backup,
    )


def _partition_volume(index: int, source: Source, part: Partition, problems: Problems) -> Volume:
    window = Window(source, part.offset, part.size)
    if window.missing:
        _tell_missing(index, source, window, problems)
    return _volume(index, source, part, identify(window))


def _tell_missing(index: int, source: Source, window: Window, problems: Problems) -> None:
    where = f"volume {index}"
    end = f"the image ends at byte {source.size:,}"
    if window.size == 0:
        problems.add(where, f"starts at byte {window.offset:,}, {end}: nothing of it is there")
        return
    claimed = window.size + window.missing
    text = f"the last {window.missing:,} of its {claimed:,} bytes are missing: {end}"
    problems.add(where, text)
