"""The kernels that wrote a file system, as lines and as a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ext4kit.past.writer import Sign, Version, Writer
from ext4kit.report.superblock_facts import Fact
from ext4kit.report.times import iso


def writer_facts(writer: Writer) -> Iterator[Fact]:
    """The last writer, what tells it, and what follows for recovery."""
    yield "Written by", writer.family
    for sign in writer.signs:
        yield "Trace of a kernel", f"{sign.ground}: {_span(sign)}"
    for effect in writer.effects:
        yield "For recovery", effect


def _span(sign: Sign) -> str:
    told = _version(sign.since), _version(sign.before)
    return f"Linux {told[0]} or later" if told[0] else f"Linux before {told[1]}"


def _version(version: Version | None) -> str | None:
    return None if version is None else f"{version[0]}.{version[1]}"


def writer_record(writer: Writer) -> dict[str, Any]:
    """The same as a record."""
    return {
        "record": "writer",
        "family": writer.family,
        "since": _version(writer.since),
        "before": _version(writer.before),
        "several": writer.several,
        "signs": [
            {
                "ground": sign.ground,
                "since": _version(sign.since),
                "before": _version(sign.before),
                "time_ns": sign.time,
                "time_iso": None if sign.time is None else iso(sign.time),
            }
            for sign in writer.signs
        ],
        "effects": list(writer.effects),
    }
