"""Time zone files (TZif) as in /usr/share/zoneinfo and /etc/localtime.

Source: RFC 9636; the rule in the footer is a `TZ` string of POSIX, with the hours of RFC 9636, 3.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import CorruptError, UnsupportedError
from ext4kit.parsers.layout import Layout, Row, Structures
from ext4kit.parsers.words import Bytes, Int8ub, Int32sb, Int32ub, Struct

HEADER = Layout(
    "time zone file header",
    Struct(
        "magic" / Bytes(4),  # MAGIC
        "version" / Bytes(1),  # NUL, or a digit: a second block with times of 64 bits follows
        "reserved" / Bytes(15),
        "isutcnt" / Int32ub,  # UT/local indicators
        "isstdcnt" / Int32ub,  # standard/wall indicators
        "leapcnt" / Int32ub,  # leap second records
        "timecnt" / Int32ub,  # transition times
        "typecnt" / Int32ub,  # local time type records
        "charcnt" / Int32ub,  # bytes of time zone designations
    ),
)
LOCAL_TIME_TYPE = Layout(
    "local time type record",
    Struct(
        "utoff" / Int32sb,  # seconds to add to UT
        "isdst" / Int8ub,
        "idx" / Int8ub,  # of the designation
    ),
)

MAGIC = b"TZif"
MOST_BYTES = 1 << 20  # the largest files of the tz database have 4 KiB
_DAY, _HOUR = 86_400, 3600
_MOST_OFFSET = 26 * _HOUR  # from UT, in either direction (RFC 9636, 3.2)
_OFFSET = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_RULE = re.compile(
    rf"{_NAME}(?P<standard>{_OFFSET})"
    rf"(?:{_NAME}(?P<daylight>{_OFFSET})?,(?P<start>[^,]+),(?P<end>[^,]+))?",
    re.ASCII,
)
_CHANGE = re.compile(
    rf"(?:M(?P<month>\d\d?)\.(?P<week>\d)\.(?P<weekday>\d)|(?P<kind>J?)(?P<day>\d{{1,3}}))"
    rf"(?:/(?P<time>{_OFFSET}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class YearlyChange:
    """A local time at which the clock is changed each year.

    Attributes:
        month: 1 to 12; 0 if `day` is given.
        week: week of the month, 1 to 5; 5 is the last one.
        weekday: 0 is Sunday.
        day: day of the year, from 0.
        counts_leap_day: whether `day` counts February 29; else day 59 is March 1 in every year.
        seconds: seconds after midnight; may be negative.
    """

    month: int
    week: int
    weekday: int
    day: int
    counts_leap_day: bool
    seconds: int

    def in_years(self, years: Int64s) -> Int64s:
        """The local time in each year, in seconds since 1970."""
        first = _day_of_month(years, self.month or 1)
        if not self.month:
            is_leap = _day_of_month(years, 3) - first == 60
            day = first + self.day + (is_leap & (self.day >= 59) & (not self.counts_leap_day))
        else:
            day = first + (self.weekday - (first + 4)) % 7 + 7 * (self.week - 1)
            day -= 7 * (day >= _day_of_month(years, self.month + 1))
        local: Int64s = day * _DAY + self.seconds
        return local


@dataclass(frozen=True, slots=True)
class YearlyRule:
    """The rule of a `TZ` string.

    Attributes:
        offset: offset of standard time, seconds to add to UT.
        summer_offset: offset of daylight saving time.
        changes: the changes to daylight saving time and back; None without it.
    """

    offset: int
    summer_offset: int
    changes: tuple[YearlyChange, YearlyChange] | None


@dataclass(frozen=True, slots=True)
class TimeZoneFile:
    """The local times of a zone.

    Attributes:
        starts: start of each local time, seconds since 1970, ascending.
        offsets: seconds to add to UT before the first start, and from each start on.
        rule: rule from the last start on, as a `TZ` string; "" if there are no more changes.
    """

    starts: Int64s
    offsets: Int64s
    rule: str


def parse_tzif(data: bytes) -> TimeZoneFile:
    """The local times in a file.

    Raises:
        CorruptError: the data is not a time zone file, is truncated, or contradicts itself.
        UnsupportedError: the file counts leap seconds, which Linux times do not.
    """
    if len(data) > MOST_BYTES:
        raise CorruptError(HEADER.name, 0, f"{len(data):,} bytes are too many")
    header, size = _header(data, 0), 4
    start = HEADER.size
    if header.version > b"\0":
        start += _block_size(header, size)
        header, size = _header(data, start), 8
        start += HEADER.size
    end = start + _block_size(header, size)
    if len(data) < end:
        raise CorruptError(HEADER.name, start, f"{end:,} bytes wanted, {len(data):,} are there")
    if header.leapcnt:
        raise UnsupportedError("it counts leap seconds")
    starts = np.frombuffer(data, f">i{size}", header.timecnt, start).astype(np.int64)
    types = np.frombuffer(data, np.uint8, header.timecnt, start + size * header.timecnt)
    records = LOCAL_TIME_TYPE.table(data, header.typecnt, start + (size + 1) * header.timecnt)
    _check(starts, types, records, start)
    offsets = records["utoff"].astype(np.int64)[np.append(0, types)]
    footer = data[end:].split(b"\n", 2)[1:2] if size == 8 else []
    return TimeZoneFile(starts, offsets, b"".join(footer).decode("ascii", "replace"))


def _header(data: bytes, offset: int) -> Row:
    found = HEADER.first(data, offset)
    if found.magic != MAGIC:
        raise CorruptError(HEADER.name, offset, "not a time zone file")
    return found


def _block_size(header: Row, size: int) -> int:
    """Bytes of the data block after a header, with times of `size` bytes each."""
    indicators: int = header.isutcnt + header.isstdcnt
    records: int = header.typecnt * LOCAL_TIME_TYPE.size + header.leapcnt * (size + 4)
    return int(header.timecnt * (size + 1) + records + header.charcnt + indicators)


def _check(
    starts: Int64s, types: np.typing.NDArray[np.uint8], records: Structures, at: int
) -> None:
    if not len(records):
        raise CorruptError(HEADER.name, at, "it has no local time")
    if types.max(initial=0) >= len(records):
        raise CorruptError(HEADER.name, at, "a transition to a local time that is not there")
    if (starts[1:] <= starts[:-1]).any():
        raise CorruptError(HEADER.name, at, "transitions out of order")
    if (abs(records["utoff"].astype(np.int64)) > _MOST_OFFSET).any():
        raise CorruptError(HEADER.name, at, "a local time more than 26 hours from UT")


def parse_rule(text: str) -> YearlyRule:
    """The rule of a `TZ` string, such as `CET-1CEST,M3.5.0,M10.5.0/3`.

    Raises:
        ValueError: the text is not a rule.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no rule of a time zone")
    offset = -_seconds(found["standard"])
    summer = -_seconds(found["daylight"]) if found["daylight"] else offset + _HOUR
    if max(abs(offset), abs(summer)) > _MOST_OFFSET:
        raise ValueError(f"{text!r} is no rule: more than 26 hours from UT")
    if found["start"] is None:
        return YearlyRule(offset, offset, None)
    return YearlyRule(offset, summer, (_yearly(found["start"]), _yearly(found["end"])))


def _yearly(text: str) -> YearlyChange:
    """The yearly change that a part of a rule describes."""
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no day of a year")
    numbers = (int(found[name] or 0) for name in ("month", "week", "weekday", "day"))
    month, week, weekday, day = numbers
    is_weekday = found["day"] is None
    if is_weekday and not (1 <= month <= 12 and 1 <= week <= 5 and weekday <= 6):
        raise ValueError(f"{text!r} is no day of a year")
    from_one = bool(found["kind"])
    if not is_weekday and not from_one <= day <= 365:
        raise ValueError(f"{text!r} is no day of a year")
    seconds = _seconds(found["time"]) if found["time"] else 2 * _HOUR
    return YearlyChange(month, week, weekday, day - from_one, not from_one, seconds)


def _seconds(text: str) -> int:
    """`-3`, `+5:30` or `1:02:03` in seconds; at most 167 hours, the limit for changes."""
    hours, minutes, seconds = ([*map(int, re.findall(r"\d+", text)), 0, 0])[:3]
    if hours > 167 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is no time of a rule")
    total = hours * _HOUR + minutes * 60 + seconds
    return -total if text.startswith("-") else total


def _day_of_month(years: Int64s, month: int) -> Int64s:
    """The first day of a month in each year, in days since 1970; month 13 is next January."""
    months = (years - 1970) * 12 + month - 1
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
