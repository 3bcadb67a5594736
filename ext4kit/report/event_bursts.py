"""Bursts of events as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.bursts import BurstCause
from ext4kit.fields import json_name
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import shown
from ext4kit.report.tables import table_lines
from ext4kit.report.times import time_text
from ext4kit.timeline.event_bursts import EventBurst, Happening
from ext4kit.units import NANOSECONDS

_HEADINGS = ("time", "for", "what", "files", "owner", "folder")


class EventBurstRecord(TypedDict):
    """Events of many files of one folder at once (`timeline --bursts`)."""

    record: Literal["burst"]
    kind: Happening
    folder: Annotated[str | None, "The folder of these files; null if its path is unknown."]
    folder_bytes: NotRequired[fields.Exact]
    first_ns: Annotated[int | None, "First commit, nanoseconds since 1970 UTC."]
    last_ns: Annotated[int | None, "Last commit, nanoseconds since 1970 UTC."]
    files: fields.Count
    directories: fields.Count
    events: fields.Count
    owner: Annotated[int | None, "User id of most of the files."]
    cause: Annotated[BurstCause | None, "Usual cause of such a burst, judged by names alone."]


def burst_record(found: EventBurst) -> EventBurstRecord:
    """A burst of events as a record."""
    burst = found.burst
    return {
        "record": "burst",
        "kind": found.happening,
        **json_name(burst.folder, "folder"),
        "first_ns": burst.first or None,
        "last_ns": burst.last or None,
        "files": found.files,
        "directories": found.directories,
        "events": len(burst),
        "owner": burst.owner,
        "cause": burst.cause,
    }


def burst_lines(found: Sequence[EventBurst]) -> Iterator[str]:
    """A table of the bursts, the oldest first, and their number."""
    rows = []
    for one in found:
        burst = one.burst
        seconds = (burst.last - burst.first) // NANOSECONDS
        parts = [count_text(count, name) for count, name in
                 ((one.files, "file"), (one.directories, "folder")) if count]  # fmt: skip
        where = "(path unknown)" if burst.folder is None else shown(burst.folder)
        cause = f"  [{burst.cause}]" if burst.cause else ""
        when = time_text(burst.first or None)
        span = f"{seconds:,} s" if seconds else ""
        owner = "-" if burst.owner is None else str(burst.owner)
        rows.append((when, span, str(one.happening), ", ".join(parts), owner, where + cause))
    if rows:
        yield from table_lines(_HEADINGS, rows, right={1})
    yield f"{count_text(len(found), 'burst')}"
