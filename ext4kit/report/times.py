"""Times as text for display, in the zone of the command; other modules keep times as integers.

Records have times in UTC, from `ext4kit.times.iso`.
"""

from __future__ import annotations

import time

from ext4kit.times import iso
from ext4kit.units import NANOSECONDS
from ext4kit.zones import UTC, current_zone, offset_text

_DAY = 86_400


def exact_time(moment: int) -> str:
    """Nanoseconds since 1970 as ISO 8601 with the offset of the zone, `Z` for UTC."""
    zone = current_zone()
    if zone is UTC:
        return iso(moment)
    offset = zone.offset_at(moment // NANOSECONDS)
    text = iso(moment + offset * NANOSECONDS)
    return text[:-1] + offset_text(offset) if text.endswith("Z") else iso(moment)


def spaced_time(moment: int | None) -> str:
    """A time as by `exact_time`, with a blank between date and time; "-" for none."""
    return "-" if moment is None else exact_time(moment).replace("T", " ")


def time_text(moment: int | None) -> str:
    """A time to the second, "-" for none."""
    return "-" if moment is None else spaced_time(moment // NANOSECONDS * NANOSECONDS)


def ctime_text(seconds: int) -> str:
    """Seconds since 1970 in the format of C's ctime, followed by the zone offset if not UTC."""
    zone = current_zone()
    offset = zone.offset_at(seconds)
    try:
        text = time.asctime(time.gmtime(seconds + offset))
    except (OverflowError, ValueError, OSError):
        return f"@{seconds}"
    return text if zone is UTC else f"{text} {offset_text(offset)}"


def offset_width() -> int:
    """Usual width of the offset text of a time in the zone of the command."""
    return 1 if current_zone() is UTC else len(offset_text(0))


def zone_line() -> str:
    """A line that names the zone of the times in a listing; "" for UTC."""
    zone = current_zone()
    return "" if zone is UTC else f"times in {zone}"


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
