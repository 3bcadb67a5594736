"""Time zones: the local time of a moment, and the moments of a local time.

Times of records are UTC, always. The zone in which a command shows and reads times is that of
`times_in`; without it, UTC.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC as _UTC
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache

import numpy as np

from ext4kit.arrays.grouping import distinct
from ext4kit.arrays.types import Int64s
from ext4kit.errors import RequestError

_DAY, _SECOND = 86_400, timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=_UTC)
_FIRST, _LAST = -719_160 * _DAY, 2_932_894 * _DAY  # 0001-01-03, 9999-12-30: a day is left for UTC
_FIXED = re.compile(r"([+-])(\d\d):?(\d\d)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_NO_ZONES = {"localtime", "posixrules", "factory"}  # of this computer, or of none
_NO_FOLDERS = ("posix/", "right/")  # the same zones again, and those that count leap seconds
DAMAGED = (ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, TypeError,
           ValueError, struct.error)  # fmt: skip  # what rules from a hostile file raise


@dataclass(frozen=True, eq=False)
class Zone:
    """A time zone.

    Attributes:
        name: for people.
        rules: its local times; years 1 and 9999 stand for those before and after.
    """

    name: str
    rules: tzinfo

    def __str__(self) -> str:
        return self.name

    def offsets_at(self, seconds: Int64s) -> Int64s:
        """Seconds to add to each of many times (seconds since 1970) for the local time.

        By day, and by time on days that end with another offset than they began with.
        """
        days, row = distinct(seconds // _DAY)
        start, end = (self._at_each(days * _DAY + second) for second in (0, _DAY - 1))
        offsets = start[row]
        mixed = np.flatnonzero((start != end)[row])
        times, row = distinct(seconds[mixed])
        offsets[mixed] = self._at_each(times)[row]
        return offsets

    def _at_each(self, seconds: Int64s) -> Int64s:
        return np.array([self.offset_at(each) for each in seconds.tolist()], np.int64)

    def offset_at(self, seconds: int) -> int:
        """Seconds to add to a time (seconds since 1970) for the local time.

        Raises:
            RequestError: the file of the zone gives none that a clock could have.
        """
        return self._offset(_moment(seconds))

    def readings_of(self, local: int) -> list[int]:
        """The times that a local time stands for with the offsets before and after a change."""
        clock = _moment(local).replace(tzinfo=None)
        return sorted({local - self._offset(clock.replace(fold=fold)) for fold in (0, 1)})

    def moments_of(self, local: int) -> list[int]:
        """The times (seconds since 1970) that a local time stands for: one, none or two.

        None where the clock was put forward, two where it was put back.
        """
        return [each for each in self.readings_of(local) if each + self.offset_at(each) == local]

    def first_moment(self, local: int) -> int:
        """The first time at which the clock shows a local time, or a later one of a gap."""
        if found := self.moments_of(local):
            return found[0]
        moments = range(local - 2 * _DAY, local + 2 * _DAY)  # no offset has two days
        return moments[bisect_left(moments, local, key=lambda each: each + self.offset_at(each))]

    def _offset(self, moment: datetime) -> int:
        """The offset at a time in UTC, or at a local time, which has no zone."""
        rules = self.rules
        try:
            local = moment.astimezone(rules) if moment.tzinfo else moment.replace(tzinfo=rules)
            offset = local.utcoffset() or timedelta()
        except DAMAGED as error:
            text = (
                f"{self} has no offset at {moment.date()}; name the zone, as in --tz Europe/Berlin"
            )
            raise RequestError(f"time zone file: {text}") from error
        return offset.days * _DAY + offset.seconds


def _moment(seconds: int) -> datetime:
    return _EPOCH + timedelta(0, min(max(seconds, _FIRST), _LAST))


UTC = Zone("UTC", _UTC)
_CURRENT: ContextVar[Zone] = ContextVar("zone", default=UTC)
current_zone = _CURRENT.get


@contextmanager
def times_in(zone: Zone) -> Iterator[None]:
    """Show times to people, and read times without an offset, in this zone."""
    token = _CURRENT.set(zone)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@lru_cache(64)
def offset_text(offset: int) -> str:
    """`+01:00` for seconds to add to UTC; `+00:53:28` where they are no whole minutes."""
    minutes, seconds = divmod(abs(offset), 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def zone_names() -> set[str]:
    """All names of the tz database."""
    from zoneinfo import available_timezones

    return {name for name in available_timezones() if is_zone_name(name)}


def is_zone_name(text: str) -> bool:
    """Whether a text has the form of a name of the tz database, and names a zone by itself."""
    lower = text.lower()  # some file systems do not tell letter case
    is_zone = lower not in _NO_ZONES and not lower.startswith(_NO_FOLDERS)
    return is_zone and _NAME.fullmatch(text) is not None


def zone_of(text: str) -> Zone:
    """The zone that a name or an offset means: `Europe/Berlin`, `+02:00`, `UTC`.

    Raises:
        RequestError: there is none.
    """
    if text == "UTC":
        return UTC
    if fixed := _FIXED.fullmatch(text):
        hours, minutes = int(fixed[2]), int(fixed[3] or 0)
        if hours < 24 and minutes < 60:
            offset = (hours * 60 + minutes) * (-60 if fixed[1] == "-" else 60)
            return Zone(offset_text(offset), timezone(offset * _SECOND))
    return named_zone(text)


def named_zone(name: str) -> Zone:
    """The zone of a name of the tz database.

    Raises:
        RequestError: there is none.
    """
    from zoneinfo import ZoneInfo

    if is_zone_name(name):
        with suppress(LookupError, OSError, ValueError):
            return Zone(name, ZoneInfo(name))
    raise RequestError(f"{name!r} is no time zone{_near_text(name)}")


def _near_text(text: str) -> str:
    """The names nearest to a wrong one, as the end of a message."""
    from difflib import get_close_matches

    names = zone_names()
    lower = {name.lower(): name for name in names}
    lower |= {name.rpartition("/")[2].lower(): name for name in sorted(names)}
    near = dict.fromkeys(lower[each] for each in get_close_matches(text.lower(), lower, 3))
    if near:
        return f"; near: {', '.join(near)}"
    return "; names are such as Europe/Berlin, offsets such as +02:00"
