"""Text for the times in records: the field `NAME_iso` accompanies each time in nanoseconds.

JSON readers that store numbers as floats (such as jq) lose the last digits of a time in
nanoseconds. This module alone decides which fields are times; records and schemas follow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache

from ext4kit.errors import RequestError
from ext4kit.units import NANOSECONDS
from ext4kit.zones import UTC as UTC_ZONE
from ext4kit.zones import Zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_KEPT = 1 << 16
_FRACTION = re.compile(r"(?<=:\d\d)[.,](\d+)")
_DAY = 86_400
_DAYS = ("today", "yesterday")
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": _DAY, "w": 7 * _DAY}
_TIMES = frozenset(("atime", "mtime", "ctime", "crtime", "dtime", "deleted_at", "time"))
_DURATIONS = frozenset(["width_ns"])
_LISTS, _PLAIN = (list, tuple), (int, str)
_SCALARS = frozenset((int, str, bool, type(None)))


def iso(moment_ns: int) -> str:
    """Nanoseconds since 1970 as ISO 8601 in UTC, with a fraction only if it is not zero.

    A time in a year that does not have four digits is given as seconds since 1970 (`@...`).
    """
    seconds, fraction = divmod(moment_ns, NANOSECONDS)
    try:
        whole = _second(seconds)
    except OverflowError:
        return f"@{seconds}.{fraction:09d}"
    return f"{whole}.{fraction:09d}Z" if fraction else f"{whole}Z"


@lru_cache(_SECONDS_KEPT)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def parse_moment(text: str, now: int, zone: Zone = UTC_ZONE) -> int:
    """Parse a time, given as ISO 8601, @SECONDS, a word or a duration ago, to ns since 1970.

    A date, `today` and `yesterday` mean the first moment of that day.

    Args:
        text: the time as typed.
        now: time from which durations count, ns since 1970.
        zone: zone of times without an offset, and of days.

    Raises:
        ValueError: the text is not a time.
        RequestError: clocks in the zone never showed this time, or showed it twice.
    """
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:]) * NANOSECONDS
    if text == "now":
        return now
    if text in _DAYS:
        seconds = now // NANOSECONDS
        day = (seconds + zone.offset_at(seconds)) // _DAY - _DAYS.index(text)
        return zone.first_moment(day * _DAY) * NANOSECONDS
    if text[:-1].isdigit() and text[-1:] in _SPANS:
        return now - int(text[:-1]) * _SPANS[text[-1]] * NANOSECONDS
    fraction = _FRACTION.search(text)  # `datetime` has only microseconds
    moment = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    whole = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    seconds = whole // timedelta(seconds=1)
    if moment.tzinfo is None:
        is_day = len(text) <= len("2026-03-01")
        seconds = zone.first_moment(seconds) if is_day else _moment_of(text, seconds, zone)
    return seconds * NANOSECONDS + (int(fraction[1].ljust(9, "0")[:9]) if fraction else 0)


def _moment_of(text: str, local: int, zone: Zone) -> int:
    """The time that a local time of a zone stands for, in seconds since 1970.

    Raises:
        RequestError: the local time stands for no time or for several, which the message lists.
    """
    found = zone.moments_of(local)
    if len(found) == 1:
        return found[0]
    how = "twice: the clock was put back" if found else "never: the clock was put forward"
    readings = " or ".join(iso(each * NANOSECONDS) for each in found or zone.readings_of(local))
    raise RequestError(f"{text!r} was in {zone} {how}; type {readings}")


@cache
def iso_field(name: str) -> str | None:
    """Name of the text field for a time in nanoseconds; None for other fields."""
    if name in _TIMES:
        return f"{name}_iso"
    is_time = name.endswith("_ns") and name not in _DURATIONS
    return f"{name.removesuffix('_ns')}_iso" if is_time else None


def with_iso(record: Mapping[str, object]) -> dict[str, object]:
    """A record with a text field added for each time, including times in inner objects.

    A text field that the record already has after its time is kept.
    """
    found: dict[str, object] = {}
    for name, value in record.items():
        if type(value) is str:
            found[name] = value
        elif type(value) is int or value is None:
            found[name] = value
            if beside := iso_field(name):
                found[beside] = None if value is None else iso(value)
        else:
            found[name] = _inner(value) if value else value
    return found


def _inner(value: object) -> object:
    """A value with text fields added for the times in it."""
    if isinstance(value, dict):
        return with_iso(value)
    if isinstance(value, _LISTS) and value and type(value[0]) not in _PLAIN:
        return [each if type(each) in _SCALARS else _inner(each) for each in value]
    return value
