"""The hashes of an image and its volumes as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ext4kit.evidence import Evidence, Volume
from ext4kit.evidence.hashing import Hashes
from ext4kit.evidence.identity import identity, mismatches
from ext4kit.report.safe import shown_text

_SHOWN = {"md5": "MD5", "sha1": "SHA-1", "sha256": "SHA-256"}
_MOST_RANGES = 20
_WIDTH = 12


def evidence_record(evidence: Evidence) -> dict[str, Any]:
    """What the evidence is made of."""
    return {"record": "evidence", **identity(evidence)}


def hash_records(
    evidence: Evidence, image: Hashes, volumes: dict[int, Hashes]
) -> Iterator[dict[str, Any]]:
    """A record for the image and one for each volume."""
    stored = evidence.hashes
    matches = not mismatches(stored, image.digests) if stored else None
    place: dict[str, Any] = {"of": "image", "volume": None, "parent": None, "offset": 0}
    yield _record(place, image, dict(stored), matches)
    for volume in evidence.volumes:
        if volume.index in volumes:
            place = {
                "of": "volume",
                "volume": volume.index,
                "parent": volume.parent or None,
                "offset": volume.offset,
            }
            yield _record(place, volumes[volume.index], {}, None)


def _record(
    place: dict[str, Any], hashes: Hashes, stored: dict[str, str], matches: bool | None
) -> dict[str, Any]:
    return {
        "record": "hash",
        **place,
        "size": hashes.size,
        **hashes.digests,
        "unreadable": [asdict(each) for each in hashes.unreadable],
        "stored": stored,
        "matches": matches,
    }


def hash_lines(evidence: Evidence, image: Hashes, volumes: dict[int, Hashes]) -> Iterator[str]:
    """What the evidence is made of, and a block of lines for the image and each volume."""
    facts = identity(evidence)
    yield f"Evidence:  {shown_text(facts['path'])} ({facts['format']})"
    for file in facts["files"]:
        size = "device" if file["size"] is None else f"{file['size']:,} bytes"
        yield f"File:      {shown_text(file['path'])}, {size}"
    for name, value in facts["case_data"].items():
        yield f"Stored:    {shown_text(name)}: {shown_text(value)}"
    yield ""
    yield f"Image: {image.size:,} bytes"
    yield from _digest_lines(image, evidence.hashes)
    for volume in evidence.volumes:
        if volume.index in volumes:
            yield ""
            yield _title(volume, volumes[volume.index])
            yield from _digest_lines(volumes[volume.index], {})


def _title(volume: Volume, hashes: Hashes) -> str:
    within = f" in volume {volume.parent}" if volume.parent else ""
    place = f"{hashes.size:,} bytes at {volume.offset:,}{within}"
    missing = f", {volume.source.missing:,} more are missing" if volume.source.missing else ""
    return f"Volume {volume.index} ({shown_text(volume.kind)}): {place}{missing}"


def _digest_lines(hashes: Hashes, stored: dict[str, str]) -> Iterator[str]:
    wrong = mismatches(stored, hashes.digests)
    for name, digest in hashes.digests.items():
        verdict = ""
        if name in stored:
            verdict = (
                f"  NOT as stored: {shown_text(stored[name])}" if name in wrong else "  as stored"
            )
        yield f"  {_SHOWN[name]:<{_WIDTH}}{digest}{verdict}"
    for lost in hashes.unreadable[:_MOST_RANGES]:
        last = lost.offset + lost.length - 1
        yield f"  unreadable  bytes {lost.offset:,} to {last:,}, hashed as zeros"
    if len(hashes.unreadable) > _MOST_RANGES:
        yield f"  ... and {len(hashes.unreadable) - _MOST_RANGES:,} more ranges (--json has all)"
