"""Times at the start of log lines: what each form states, and what must be inferred."""

from __future__ import annotations

import re
import time
from calendar import isleap, timegm
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

from ext4kit.units import NANOSECONDS
from ext4kit.zones import Zone

_DAY = 86_400
_MONTHS = {
    name: number
    for number, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)
}
_ISO = re.compile(
    rb"(\d{4})[-/](\d\d)[-/](\d\d)[T ] ?([ \d]\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    rb"(Z| ?[+-]\d\d:?\d\d| UTC| GMT)?"
)
_BSD = re.compile(rb"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)")
_EPOCH = re.compile(rb"audit\((\d+)\.(\d{3})")
_ACCESS = re.compile(rb"\[(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\]")
_CTIME = re.compile(rb"\w{3} (\w{3}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))? (\d{4})")
_SHORT = re.compile(rb"(\d\d)(\d\d)(\d\d) ([ \d]\d):(\d\d):(\d\d)")


class TimeGround(IntEnum):
    """What the time of a line rests on."""

    NONE = 0  # it has none
    STATED = 1
    ZONE = 2  # local time: the zone is that of the image, else UTC
    YEAR = 3  # the year too is inferred
    BEFORE = 4  # of the line before


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time as a line states it.

    Attributes:
        local: seconds since 1970 of the stated clock; in the year 1972 where none is stated.
        fraction: ns.
        offset: seconds that the clock was before UTC, None if not stated.
        has_year: whether the year is stated.
    """

    local: int
    fraction: int = 0
    offset: int | None = None
    has_year: bool = True


def none(_start: bytes) -> Stamp | None:
    """The line has no time."""
    return None


@lru_cache(1 << 14)
def iso(start: bytes) -> Stamp | None:
    """ISO 8601 and its relatives; the last one in the text counts, as in records of docker."""
    found = next(reversed(list(_ISO.finditer(start))), None)
    if found is None:
        return None
    offset = None if found[8] is None else _offset(found[8].strip())
    return _stamp(_numbers(found, 1, 2, 3, 4, 5, 6), _fraction(found[7]), offset)


@lru_cache(1 << 14)
def bsd(start: bytes) -> Stamp | None:
    """RFC 3164: no year, no zone."""
    found = _BSD.search(start)
    if found is None:
        return None
    return _stamp((1972, _MONTHS.get(found[1], 0), *_numbers(found, 2, 3, 4, 5)), has_year=False)


def epoch(start: bytes) -> Stamp | None:
    """Seconds since 1970."""
    found = _EPOCH.search(start)
    return found and Stamp(int(found[1]), _fraction(found[2]), 0)


@lru_cache(1 << 12)
def access(start: bytes) -> Stamp | None:
    """The common log format."""
    found = _ACCESS.search(start)
    if found is None:
        return None
    date = int(found[3]), _MONTHS.get(found[2], 0), int(found[1])
    return _stamp((*date, *_numbers(found, 4, 5, 6)), 0, _offset(found[7]))


@lru_cache(1 << 12)
def ctime(start: bytes) -> Stamp | None:
    """C's ctime, with a fraction."""
    found = _CTIME.search(start)
    if found is None:
        return None
    date = int(found[7]), _MONTHS.get(found[1], 0)
    return _stamp((*date, *_numbers(found, 2, 3, 4, 5)), _fraction(found[6]))


@lru_cache(1 << 12)
def short(start: bytes) -> Stamp | None:
    """Two digits of the year, as old versions of MySQL write."""
    found = _SHORT.match(start)
    return found and _stamp((2000 + int(found[1]), *_numbers(found, 2, 3, 4, 5, 6)))


def slow(start: bytes) -> Stamp | None:
    """The time of an entry of MySQL's slow log."""
    return iso(start) or short(start.removeprefix(b"# Time: "))


def _numbers(found: re.Match[bytes], *groups: int) -> tuple[int, ...]:
    return tuple(map(int, found.group(*groups)))


def _stamp(
    parts: tuple[int, ...], fraction: int = 0, offset: int | None = None, has_year: bool = True
) -> Stamp | None:
    """None for a time that no clock shows; `parts` are year to second."""
    year, month, day, hour, minute, second = parts
    start = _day_start(year, month, day)
    if start is None or hour > 23 or minute > 59 or second > 60:
        return None
    return Stamp(start + hour * 3600 + minute * 60 + second, fraction, offset, has_year)


@lru_cache(1 << 12)
def _day_start(year: int, month: int, day: int) -> int | None:
    """Seconds since 1970 of the start of a day; None for no such day."""
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return timegm((year, month, day, 0, 0, 0))


def _fraction(digits: bytes | None) -> int:
    return int(digits.ljust(9, b"0")) if digits else 0


def _offset(zone: bytes) -> int:
    if zone in (b"Z", b"UTC", b"GMT"):
        return 0
    digits = zone[1:].replace(b":", b"")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60
    return -seconds if zone[:1] == b"-" else seconds


@dataclass(frozen=True, eq=False)
class Clock:
    """Times of lines in ns since 1970.

    Attributes:
        zone: of times that state none.
        latest: ns since 1970: lines without a year are of the last year in which they are not
            more than a day later.
    """

    zone: Zone
    latest: int
    _offsets: dict[int, int] = field(default_factory=dict, repr=False)

    def moment(self, stamp: Stamp) -> tuple[int, TimeGround]:
        """The time, and what it rests on."""
        local = stamp.local if stamp.has_year else self._in_last_year(stamp.local)
        if stamp.offset is not None:
            return (local - stamp.offset) * NANOSECONDS + stamp.fraction, TimeGround.STATED
        seconds = local - self._offset_at(local // 900)
        ground = TimeGround.ZONE if stamp.has_year else TimeGround.YEAR
        return seconds * NANOSECONDS + stamp.fraction, ground

    def _in_last_year(self, local: int) -> int:
        """A time of 1972 in the last year in which it is not later than a day after `latest`."""
        latest, clock = self.latest // NANOSECONDS + _DAY, local % _DAY
        starts = _days_before(local // _DAY, latest // _DAY)
        return next((start for start in starts if start + clock <= latest), starts[0]) + clock

    def _offset_at(self, quarter: int) -> int:
        """Seconds that the clock was before UTC in a quarter of an hour that it showed."""
        found = self._offsets.get(quarter)
        if found is None:
            moment = self.zone.first_moment(quarter * 900)
            found = self._offsets[quarter] = self.zone.offset_at(moment)
        return found


@lru_cache(1 << 12)
def _days_before(day: int, last: int) -> tuple[int, ...]:
    """The starts of a day of 1972 in the years up to that of a last day, the latest year first.

    Args:
        day: days since 1970.
        last: likewise.
    """
    _, month, number, *_ = time.gmtime(day * _DAY)
    year = time.gmtime(last * _DAY).tm_year
    leap = (month, number) == (2, 29)
    years = [each for each in range(year, year - 9, -1) if not leap or isleap(each)]
    return tuple(timegm((each, month, number, 0, 0, 0)) for each in years or [year])
