"""Times as text for tables; all other modules use integers."""

from __future__ import annotations

import time

from ext4kit.times import iso as iso
from ext4kit.units import NANOSECONDS

_DAY = 86_400


def iso_short(moment_ns: int) -> str:
    """Nanoseconds since 1970 to the second, with a space between date and time, for tables."""
    return iso(moment_ns // NANOSECONDS * NANOSECONDS).replace("T", " ")


def time_text(moment: int | None) -> str:
    """A time in UTC to the second, "-" for none."""
    return "-" if moment is None else iso_short(moment)


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
