"""Time zones: conversion of times to local times, and of local times to times.

Times in records are always UTC. Commands show and read times in the zone of `times_in`, or in UTC
without it.
"""

from __future__ import annotations

import os
import posixpath
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.parsers.tzif import MAGIC, MOST_BYTES, TimeZoneFile, parse_rule, parse_tzif

_DAY = 86_400
_YEARS = 400  # after which the calendar repeats, including days of the week
_CYCLE = 146_097 * _DAY
_FIRST_YEAR = 1600  # of a rule without earlier data; standard time applies before
_FIXED = re.compile(r"([+-])(\d\d):?(\d\d)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_LOCALTIME, _TIMEZONE = "etc/localtime", "etc/timezone"
_FOLDER = "/zoneinfo/"
_MOST_LINKS = 8
_MOST_NAME = 64  # characters; the longest of the tz database has 32
NO_TIMES = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Zone:
    """A time zone.

    Attributes:
        name: name of the zone for display.
        starts: start of each local time, seconds since 1970, ascending.
        offsets: seconds to add to UTC before the first start, and from each start on.
        repeats: whether the last 400 years of `starts` are repeated afterwards.
    """

    name: str
    starts: Int64s = field(default_factory=lambda: NO_TIMES)
    offsets: Int64s = field(default_factory=lambda: np.zeros(1, np.int64))
    repeats: bool = False

    def __str__(self) -> str:
        return self.name

    def offsets_at(self, seconds: Int64s) -> Int64s:
        """Seconds to add to each of many times (seconds since 1970) to get the local time."""
        if self.repeats:
            end = int(self.starts[-1])
            late = np.flatnonzero(seconds > end)
            if len(late):
                seconds = seconds.copy()
                seconds[late] = end - _CYCLE + (seconds[late] - end) % _CYCLE
        return self.offsets[np.searchsorted(self.starts, seconds, "right")]

    def offset_at(self, seconds: int) -> int:
        """Seconds to add to a time (seconds since 1970) to get the local time."""
        starts, offsets = self._lists
        if self.repeats and seconds > starts[-1]:
            seconds = starts[-1] - _CYCLE + (seconds - starts[-1]) % _CYCLE
        return offsets[bisect_right(starts, seconds)]

    def moments_of(self, local: int) -> list[int]:
        """The times (seconds since 1970) that a local time stands for: one, none or several.

        There is none in the hour that is skipped when clocks go forward, and there are two in the
        hour that is repeated when they go back.
        """
        found = (local - offset for offset in set(self._lists[1]))
        return sorted(moment for moment in found if moment + self.offset_at(moment) == local)

    def readings_of(self, local: int) -> list[int]:
        """The times for a local time with the offset before it and with the offset after it."""
        return sorted(local - self.offset_at(local + day) for day in (-_DAY, _DAY))

    def first_moment(self, local: int) -> int:
        """The first time at which clocks show a local time, or a later one if it is in a gap."""
        if found := self.moments_of(local):
            return found[0]
        moments = range(local - 2 * _DAY, local + 2 * _DAY)  # all offsets are below two days
        return moments[bisect_left(moments, local, key=lambda each: each + self.offset_at(each))]

    @cached_property
    def _lists(self) -> tuple[list[int], list[int]]:
        return self.starts.tolist(), self.offsets.tolist()


UTC = Zone("UTC")
_CURRENT: ContextVar[Zone] = ContextVar("zone", default=UTC)
current_zone = _CURRENT.get


@contextmanager
def times_in(zone: Zone) -> Iterator[None]:
    """Context manager in which times are shown, and times without an offset are read, in a zone."""
    token = _CURRENT.set(zone)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@lru_cache(64)
def offset_text(offset: int) -> str:
    """An offset as text: `+01:00`, or `+00:53:28` if it is not a whole number of minutes."""
    minutes, seconds = divmod(abs(offset), 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def zone_names() -> set[str]:
    """All names of the tz database."""
    from zoneinfo import available_timezones

    return available_timezones()


def zone_of(text: str) -> Zone:
    """The zone for a name or an offset: `Europe/Berlin`, `+02:00`, `UTC`, `local`.

    Raises:
        RequestError: there is none.
    """
    if text == "UTC":
        return UTC
    if text == "local":
        return _local_zone()
    if fixed := _FIXED.fullmatch(text):
        hours, minutes = int(fixed[2]), int(fixed[3] or 0)
        if hours < 24 and minutes < 60:
            offset = (hours * 60 + minutes) * (-60 if fixed[1] == "-" else 60)
            return Zone(offset_text(offset), offsets=np.array([offset]))
    return _named(text)


def _named(name: str) -> Zone:
    """The zone with a name of the tz database.

    Raises:
        RequestError: there is none.
    """
    data = _stored(name)
    if data is None:
        raise RequestError(f"{name!r} is no time zone{_near_text(name)}")
    return _from_file(name, data)


def _near_text(text: str) -> str:
    """The names most similar to an unknown one, as the end of a message."""
    from difflib import get_close_matches

    names = zone_names()
    lower = {name.lower(): name for name in names}
    lower |= {name.rpartition("/")[2].lower(): name for name in sorted(names)}
    near = dict.fromkeys(lower[each] for each in get_close_matches(text.lower(), lower, 3))
    if near:
        return f"; near: {', '.join(near)}"
    return "; names are such as Europe/Berlin, offsets such as +02:00"


def _stored(name: str) -> bytes | None:
    """The file of a zone in the tz database that `zoneinfo` uses; None if there is no such zone."""
    import zoneinfo
    from importlib import resources

    if not _NAME.fullmatch(name):
        return None
    for folder in zoneinfo.TZPATH:
        with suppress(OSError):
            data = Path(folder, name).read_bytes()
            return data if data.startswith(MAGIC) else None
    with suppress(OSError, ModuleNotFoundError):
        return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return None


def _from_file(name: str, data: bytes) -> Zone:
    """The zone that a time zone file describes."""
    return ruled_zone(name, parse_tzif(data))


def ruled_zone(name: str, found: TimeZoneFile) -> Zone:
    """The zone of a file, extended by the changes that its rule gives after the last start.

    Raises:
        ValueError: the rule is not valid.
    """
    if not found.rule:
        return Zone(name, found.starts, found.offsets)
    rule = parse_rule(found.rule)
    if rule.changes is None:
        return Zone(name, found.starts, np.append(found.offsets[:-1], rule.offset))
    last = int(found.starts[-1]) if len(found.starts) else None
    year = _FIRST_YEAR if last is None else 1970 + last // (_CYCLE // _YEARS)
    years = np.arange(year - 1, year + _YEARS + 3)
    to_summer, to_standard = (change.in_years(years) for change in rule.changes)
    starts = np.concatenate([to_standard - rule.summer_offset, to_summer - rule.offset])
    offsets = np.repeat([rule.offset, rule.summer_offset], len(years))
    order = np.argsort(starts, kind="stable")  # of two at the same time, the later one is in force
    order = order[np.append(np.diff(starts[order]) > 0, True)]
    if last is not None:
        order = order[starts[order] > last]
    return Zone(
        name,
        np.append(found.starts, starts[order]),
        np.append(found.offsets, offsets[order]),
        repeats=True,
    )


def _local_zone() -> Zone:
    """The zone of this computer: from `TZ`, /etc/localtime or /etc/timezone, else UTC.

    Raises:
        RequestError: the zone cannot be determined.
    """
    given = os.environ.get("TZ")
    if given is not None:
        return _posix_zone(given)
    found = zone_of_root(_read_here)
    if found is None and os.name != "posix":
        raise RequestError("the time zone of this computer is not known; name it: Europe/Berlin")
    return found or UTC


def _posix_zone(text: str) -> Zone:
    """The zone for a value of `TZ`, which is a name, the path of a file, or a rule.

    Raises:
        RequestError: the value is none of these.
    """
    name = text.removeprefix(":")
    try:
        if not name:
            return UTC
        if name.startswith("/"):
            return _from_file(name, Path(name).read_bytes())
        if _stored(name) is not None:
            return _named(name)
        rule = TimeZoneFile(NO_TIMES, np.array([parse_rule(name).offset]), name)
        return ruled_zone(name, rule)
    except (OSError, ValueError, Ext4kitError) as error:
        raise RequestError(f"TZ={text} is no time zone: {error}") from error


def _read_here(path: str) -> str | bytes | None:
    """Read a path of this computer, as `zone_of_root` requires."""
    place = Path("/", path)
    with suppress(OSError):
        if place.is_symlink():
            return str(place.readlink())
        with place.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    return None


def zone_of_root(read: Callable[[str], str | bytes | None], whose: str = "") -> Zone | None:
    """The zone that the system in a root directory uses; None if it records none.

    The file at /etc/localtime (or at the target of that link) comes first, then the name in the
    link, then the name in /etc/timezone.

    Args:
        read: reads a path below the root: returns the target of a symlink as text, up to
            `MOST_BYTES` + 1 bytes of a file, and None for anything else.
        whose: name of the system, for messages.

    Raises:
        RequestError: the recorded zone cannot be used.
    """
    path, name, why = _LOCALTIME, "", ""
    found: str | bytes | None = None
    for _ in range(_MOST_LINKS):
        found = read(path)
        if not isinstance(found, str):
            break
        name = name or found.rpartition(_FOLDER)[2].removeprefix("posix/")
        path = posixpath.normpath(posixpath.join("/", posixpath.dirname(path), found)).lstrip("/")
    name = name if _NAME.fullmatch(name) and len(name) <= _MOST_NAME else ""
    grounds = [(_LOCALTIME, name, found if isinstance(found, bytes) else None)]
    listed = read(_TIMEZONE)
    if isinstance(listed, bytes):
        name = listed[:_MOST_NAME].split(b"\n")[0].strip().decode("ascii", "replace")
        grounds.append((_TIMEZONE, name, None))
    for ground, name, data in grounds:
        try:
            if zone := _grounded(name, data):
                return replace(zone, name=f"{zone} (/{ground}{whose})")
        except (ValueError, Ext4kitError) as error:
            why += f"; /{ground}{whose} is of no use: {error}"
    if why:
        raise RequestError(why.removeprefix("; "))
    return None


def _grounded(name: str, data: bytes | None) -> Zone | None:
    """The zone of a file or, without a file, of a name; None without either.

    Raises:
        CorruptError, UnsupportedError, ValueError: the file cannot be used, and there is no name.
        RequestError: the name is not known.
    """
    if data is None:
        return _named(name) if name else None
    try:
        zone = _from_file(name, data)
    except (ValueError, Ext4kitError):
        if not name:
            raise
        return _named(name)
    return zone if name else replace(zone, name="a zone without a name")
