"""Times as text; all other modules use integers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from ext4kit.fields import CommitTime
from ext4kit.units import NANOSECONDS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400


def iso(moment_ns: int) -> str:
    """Nanoseconds since 1970 as ISO 8601 in UTC, with a fraction only if it is not zero.

    A time outside the four-digit years is given as seconds since 1970 (`@...`).
    """
    seconds, fraction = divmod(moment_ns, NANOSECONDS)
    try:
        whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return f"@{seconds}.{fraction:09d}"
    return f"{whole}.{fraction:09d}Z" if fraction else f"{whole}Z"


def commit_time(moment_ns: int | None) -> CommitTime:
    """Commit time of a transaction, as in records."""
    text = None if moment_ns is None else iso(moment_ns)
    return {"commit_time_ns": moment_ns, "commit_time_iso": text}


def iso_short(moment_ns: int) -> str:
    """Nanoseconds since 1970 to the second, with a space between date and time, for tables."""
    return iso(moment_ns // NANOSECONDS * NANOSECONDS).replace("T", " ")


def iso_seconds(seconds: int) -> str:
    """Seconds since 1970 as ISO 8601 in UTC."""
    return iso(seconds * NANOSECONDS)


def local_time_text(seconds: int) -> str:
    """Seconds since 1970 in the local time zone, in the format of C's ctime."""
    try:
        return time.asctime(time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"@{seconds}"


def span(seconds: int) -> str:
    """A duration in the format of dumpe2fs: `6 months, 1 day, 0:00:01`."""
    if not seconds:
        return "<none>"
    parts = []
    for length, word in ((30 * _DAY, "month"), (7 * _DAY, "week"), (_DAY, "day")):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {word}{'s' * (count != 1)}")
    if seconds:
        minutes, rest = divmod(seconds, 60)
        parts.append(f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}")
    return ", ".join(parts)
