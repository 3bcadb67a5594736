"""The kernels that wrote a file system, as lines and as a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict

from ext4kit.history.writer import Version, Writer
from ext4kit.report.superblock_facts import Fact
from ext4kit.report.times import iso


def writer_facts(writer: Writer) -> Iterator[Fact]:
    """The last writer, its evidence, and its consequences for recovery."""
    yield "Written by", writer.family
    for sign in writer.signs:
        since, before = _version(sign.since), _version(sign.before)
        bound = f"Linux {since} or later" if since else f"Linux before {before}"
        yield "Trace of a kernel", f"{sign.ground}: {bound}"
    for effect in writer.effects:
        yield "For recovery", effect


def _version(version: Version | None) -> str | None:
    return None if version is None else f"{version[0]}.{version[1]}"


class SignRecord(TypedDict):
    """Evidence of one structure about the kernel that wrote it."""

    ground: Annotated[str, "Fact on the disk."]
    since: Annotated[str | None, "First Linux version with this behaviour."]
    before: Annotated[str | None, "First Linux version without this behaviour."]
    time_ns: Annotated[int | None, "Latest time of the evidence, nanoseconds since 1970 UTC."]
    time_iso: str | None


class WriterRecord(TypedDict):
    """The kernels that wrote the file system (`info`, `report`)."""

    record: Literal["writer"]
    family: Annotated[str, "Text about the last writer."]
    since: Annotated[str | None, "The last writer is this Linux version or later; null: no bound."]
    before: Annotated[str | None, "The last writer is an earlier version; null: no bound."]
    several: Annotated[bool, "Kernels before and after one change wrote."]
    signs: list[SignRecord]
    effects: Annotated[list[str], "Consequences for recovery."]


def writer_record(writer: Writer) -> WriterRecord:
    """The kernels as a record."""
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
