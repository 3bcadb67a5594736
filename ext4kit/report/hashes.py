"""The hashes of an image and its volumes as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from ext4kit import fields
from ext4kit.evidence import Evidence, Volume
from ext4kit.evidence.hashing import Hashes, WindowHash
from ext4kit.evidence.identity import Identity, identity, mismatches
from ext4kit.evidence.recorded import HASH_NAMES, Comparison, ComparisonFacts
from ext4kit.report.safe import printable_text
from ext4kit.report.volumes import has_offset, place_text

_MOST_RANGES = 20
_MOST_COMPARISONS = 50


class EvidenceRecord(Identity):
    """The image (`hash`, `report`)."""

    record: Literal["evidence"]


class HashRecord(fields.Digests):
    """Hashes of the image or of a volume (`hash`)."""

    record: Literal["hash"]
    of: Literal["image", "volume"]
    volume: int | None
    parent: int | None
    offset: Annotated[int, "Bytes."]
    size: fields.Size
    unreadable: list[fields.Unread]
    stored: dict[str, str]
    recorded: Annotated[
        list[ComparisonFacts], "Hashes in files beside the image, and the values of --expect."
    ]
    matches: Annotated[
        bool | None, "True if all stored and recorded hashes match; null if there are none."
    ]


class WindowRecord(TypedDict):
    """The hash of a window of the disk (`hash --window`)."""

    record: Literal["hash window"]
    offset: Annotated[int, "Bytes."]
    length: int
    algorithm: fields.HashName
    digest: Annotated[str, ("pattern", "^[0-9a-f]+$"), "In hex."]
    unreadable: list[fields.Unread]


def window_record(window: WindowHash, algorithm: fields.HashName) -> WindowRecord:
    """The hash of a window, as a record."""
    return {
        "record": "hash window",
        "offset": window.start,
        "length": window.end - window.start,
        "algorithm": algorithm,
        "digest": window.digest,
        "unreadable": [
            {"offset": each.offset, "length": each.length, "reason": each.reason}
            for each in window.unreadable
        ],
    }


def window_line(window: WindowHash) -> str:
    """The hash of a window, as dcfldd writes it into its log."""
    return f"{window.start} - {window.end}: {window.digest}"


def evidence_record(evidence: Evidence) -> EvidenceRecord:
    """Format, files and stored case data of the evidence, as a record."""
    return {"record": "evidence", **identity(evidence)}


def hash_records(
    evidence: Evidence,
    image: Hashes,
    volumes: dict[int, Hashes],
    recorded: Sequence[Comparison] = (),
) -> Iterator[HashRecord]:
    """A record for the image and one for each volume."""
    yield _record(None, image, evidence.hashes, recorded)
    for volume in evidence.volumes:
        if volume.index in volumes:
            yield _record(volume, volumes[volume.index], {}, ())


def _record(
    volume: Volume | None, hashes: Hashes, stored: dict[str, str], recorded: Sequence[Comparison]
) -> HashRecord:
    matches = not mismatches(stored, hashes.digests) and all(each.matches for each in recorded)
    return {
        "record": "hash",
        "of": "volume" if volume else "image",
        "volume": volume.index if volume else None,
        "parent": volume.parent or None if volume else None,
        "offset": volume.offset if volume else 0,
        "size": hashes.size,
        **hashes.digests,
        "unreadable": [
            {"offset": each.offset, "length": each.length, "reason": each.reason}
            for each in hashes.unreadable
        ],
        "stored": dict(stored),
        "recorded": [each.as_facts() for each in recorded],
        "matches": matches if stored or recorded else None,
    }


def hash_lines(
    evidence: Evidence,
    image: Hashes,
    volumes: dict[int, Hashes],
    recorded: Sequence[Comparison] = (),
) -> Iterator[str]:
    """Format, files and stored case data, then lines for the image and each volume."""
    facts = identity(evidence)
    yield f"Evidence:  {printable_text(facts['path'])} ({facts['format']})"
    for file in facts["files"]:
        size = "device" if file["size"] is None else f"{file['size']:,} bytes"
        yield f"File:      {printable_text(file['path'])}, {size}"
    for name, value in facts["case_data"].items():
        yield f"Stored:    {printable_text(name)}: {printable_text(value)}"
    yield ""
    yield f"Image: {image.size:,} bytes"
    yield from _digest_lines(image, evidence.hashes)
    yield from (f"  {text}" for text in comparison_texts(recorded))
    for volume in evidence.volumes:
        if volume.index in volumes:
            hashes, missing = volumes[volume.index], volume.source.missing
            between = " " if has_offset(volume) else ", "
            place = f"{hashes.size:,} bytes{between}{printable_text(place_text(volume))}"
            place += f", {missing:,} more are missing" if missing else ""
            yield ""
            yield f"Volume {volume.index} ({printable_text(volume.format)}): {place}"
            yield from _digest_lines(hashes, {})


def comparison_texts(
    recorded: Sequence[Comparison], unproved: Sequence[Path] = ()
) -> Iterator[str]:
    """A line for each recorded hash, mismatches first, then one for each file without a hash."""
    for each in sorted(recorded, key=lambda each: each.matches)[:_MOST_COMPARISONS]:
        yield printable_text(each.text)
    if len(recorded) > _MOST_COMPARISONS:
        wrong = sum(not each.matches for each in recorded)
        yield f"{len(recorded):,} recorded hashes in all, {wrong:,} differ (--json has all)"
    if unproved:
        names = ", ".join(printable_text(path.name) for path in unproved[:_MOST_COMPARISONS])
        more = len(unproved) - _MOST_COMPARISONS
        yield f"NOT verified, no hash is recorded: {names}{f' and {more:,} more' * (more > 0)}"


def _digest_lines(hashes: Hashes, stored: dict[str, str]) -> Iterator[str]:
    wrong = mismatches(stored, hashes.digests)
    for name, shown in HASH_NAMES.items():
        digest = hashes.digests[name]
        verdict = ""
        if name in stored:
            differs = f"  NOT as stored: {printable_text(stored[name])}"
            verdict = differs if name in wrong else "  as stored"
        yield f"  {shown:<12}{digest}{verdict}"
    for lost in hashes.unreadable[:_MOST_RANGES]:
        last = lost.offset + lost.length - 1
        yield f"  unreadable  bytes {lost.offset:,} to {last:,}, hashed as zeros"
    if len(hashes.unreadable) > _MOST_RANGES:
        yield f"  ... and {len(hashes.unreadable) - _MOST_RANGES:,} more ranges (--json has all)"
