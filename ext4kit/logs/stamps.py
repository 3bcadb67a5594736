"""Times at the start of log lines: what each form states, and what must be inferred."""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass
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
    rb"(\d{4})[-/](\d\d)[-/](\d\d)[T ] ?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
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
    stamp = _stamp((1972, _MONTHS.get(found[1], 0), *_numbers(found, 2, 3, 4, 5)))
    return stamp and Stamp(stamp.local, has_year=False)


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


def _numbers(found: re.Match[bytes], *groups: int) -> tuple[int, ...]:
    return tuple(int(found[group]) for group in groups)


def _stamp(parts: tuple[int, ...], fraction: int = 0, offset: int | None = None) -> Stamp | None:
    """None for a time that no clock shows; `parts` are year to second."""
    limits = ((1, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 60))
    if not all(low <= part <= high for part, (low, high) in zip(parts, limits, strict=True)):
        return None
    return Stamp(timegm(parts), fraction, offset)


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

    def moment(self, stamp: Stamp) -> tuple[int, TimeGround]:
        """The time, and what it rests on."""
        local = stamp.local if stamp.has_year else self._in_last_year(stamp.local)
        if stamp.offset is not None:
            return (local - stamp.offset) * NANOSECONDS + stamp.fraction, TimeGround.STATED
        seconds = local - _offset_at(self.zone, local // 900)
        ground = TimeGround.ZONE if stamp.has_year else TimeGround.YEAR
        return seconds * NANOSECONDS + stamp.fraction, ground

    def _in_last_year(self, local: int) -> int:
        return _in_last_year(local, self.latest // NANOSECONDS + _DAY)


@lru_cache(1 << 14)
def _in_last_year(local: int, latest: int) -> int:
    """A time of 1972 in the last year in which it is not later; its 29 February in a leap year."""
    import time

    _, month, day, *clock = time.gmtime(local)[:6]
    year = time.gmtime(latest).tm_year
    for each in range(year, year - 9, -1):
        leaps = each % 4 == 0 and (each % 100 != 0 or each % 400 == 0)
        found = timegm((each, month, day, *clock))
        if found <= latest and (leaps or (month, day) != (2, 29)):
            return found
    return timegm((year, month, day, *clock))


@lru_cache(1 << 14)
def _offset_at(zone: Zone, quarter: int) -> int:
    """Seconds that the clock of a zone was before UTC in a quarter of an hour that it showed."""
    local = quarter * 900
    moment = zone.first_moment(local)
    return zone.offset_at(moment)
