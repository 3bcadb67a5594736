"""Times as text, with a cache, because many files have the same times."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from ext4kit.units import NANOSECONDS

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- UTC by definition
_SECONDS_KEPT = 1 << 16


@lru_cache(_SECONDS_KEPT)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()


def iso(moment: int) -> str:
    """Nanoseconds since 1970 as ISO 8601 in UTC, with nine decimal places."""
    seconds, fraction = divmod(moment, NANOSECONDS)
    return f"{_second(seconds)}.{fraction:09d}Z"


def iso_micro(moment: int) -> str:
    """Nanoseconds since 1970 as ISO 8601 to the microsecond, with the zone as an offset."""
    seconds, fraction = divmod(moment, NANOSECONDS)
    return f"{_second(seconds)}.{fraction // 1000:06d}+00:00"


def iso_or_empty(moment: int | None) -> str:
    """`iso`, or "" for no time."""
    return "" if moment is None else iso(moment)


def seconds(moment: int | None) -> str:
    """Whole seconds since 1970; 0 for no time."""
    return str(moment // NANOSECONDS) if moment is not None else "0"


def decimal_seconds(moment: int | None) -> str:
    """Seconds since 1970 with nine decimal places; 0 for no time."""
    if moment is None:
        return "0"
    sign = "-" if moment < 0 else ""
    whole, fraction = divmod(abs(moment), NANOSECONDS)
    return f"{sign}{whole}.{fraction:09d}"
