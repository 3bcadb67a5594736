"""The time zone of a system: of this computer, or of the one in an image.

An image can have a hostile time zone file, and the class `ZoneInfo` in C is not made for that: it
follows indexes beyond its arrays. The same class in Python, its twin by PEP 399, does not.
"""

from __future__ import annotations

import io
import os
import posixpath
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from itertools import chain
from pathlib import Path

from ext4kit.errors import CorruptError, Ext4kitError, RequestError, UnsupportedError
from ext4kit.zones import DAMAGED, UTC, Zone, is_zone_name, named_zone

MOST_BYTES = 1 << 16  # of a time zone file; the largest of the tz database have 4 KiB
_MAGIC, _LEAP_SECONDS = b"TZif", slice(28, 32)  # of its header (RFC 9636)
_EXT4_TIMES = range(-(1 << 31), (1 << 34) - (1 << 31), 180 * 86_400)
_LAST_DAYS = range(_EXT4_TIMES[-1] - 732 * 86_400, _EXT4_TIMES[-1], 86_400)
_LOCALTIME, _TIMEZONE = "etc/localtime", "etc/timezone"
_FOLDER = "/zoneinfo/"
_MOST_LINKS = 8
_MOST_NAME = 64  # characters; the longest of the tz database has 32

_MOST_SHOWN = 80  # characters of the target of a link
Read = Callable[[str], str | bytes | None]


class _Whole(io.BytesIO):
    """A file that is never short: `zoneinfo` reads on and on where a line has no end."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if len(data) < (size or 0):
            raise EOFError
        return data


def _of_file(name: str, data: bytes) -> Zone:
    """The zone that a time zone file describes, which may be hostile.

    Raises:
        CorruptError: it is no such file, or damaged.
        UnsupportedError: it counts leap seconds, which times of Linux do not have.
    """
    from zoneinfo._zoneinfo import ZoneInfo  # type: ignore[import-not-found]

    if len(data) > MOST_BYTES:
        raise CorruptError("time zone file", None, "too large")
    if any(data[data.rfind(_MAGIC) :][_LEAP_SECONDS]):
        raise UnsupportedError("it counts leap seconds")
    try:
        zone = Zone(name, ZoneInfo.from_file(_Whole(data)))
    except DAMAGED as error:
        raise CorruptError("time zone file", None, "damaged, or something else") from error
    try:
        for each in _probes(zone.rules):
            zone.offset_at(each)
    except RequestError as error:
        raise CorruptError("time zone file", None, "an offset is no time of day") from error
    return zone


def _probes(rules: tzinfo) -> Iterator[int]:
    """Times that together meet each offset of a file: its changes, and what follows the last."""
    return chain(_EXT4_TIMES, getattr(rules, "_trans_utc", ()), _LAST_DAYS)


def _of_rule(rule: str) -> Zone:
    """The zone of a rule of POSIX, such as `CET-1CEST,M3.5.0,M10.5.0/3`.

    Raises:
        ValueError: it is none.
    """
    from zoneinfo import ZoneInfo

    if not rule.isprintable():
        raise ValueError
    block = _MAGIC + b"2" + bytes(15) + struct.pack(">6I", 0, 0, 0, 0, 1, 1) + bytes(7)
    return Zone(rule, ZoneInfo.from_file(io.BytesIO(block * 2 + f"\n{rule}\n".encode())))


def local_zone() -> Zone:
    """The zone of this computer: of `TZ`, else of /etc/localtime or /etc/timezone, else UTC.

    Raises:
        RequestError: it cannot be told.
    """
    given = os.environ.get("TZ")
    if given is not None:
        return _posix_zone(given)
    found = zone_of_root(_read_here)
    if found is None and os.name != "posix":
        raise RequestError("the time zone of this computer is not known; name it: Europe/Berlin")
    return found or UTC


def _posix_zone(text: str) -> Zone:
    """The zone of a value of `TZ`: a name, the path of a file, or a rule.

    Raises:
        RequestError: it is none of these.
    """
    name = text.removeprefix(":").removeprefix("posix/")
    try:
        if not name:
            return UTC
        if name == posixpath.basename(_LOCALTIME):
            return zone_of_root(_read_here) or UTC
        if name.startswith("/"):
            with Path(name).open("rb") as file:
                return _of_file(name, file.read(MOST_BYTES + 1))
        with suppress(ValueError):
            return _of_rule(name)
        return named_zone(name)
    except (OSError, Ext4kitError) as error:
        raise RequestError(f"TZ={text}: {error}") from error


def _read_here(path: str) -> str | bytes | None:
    """What is at a path of this computer, as for `zone_of_root`."""
    place = Path("/", path)
    with suppress(OSError):
        if place.is_symlink():
            return str(place.readlink())
        with place.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    return None


def zone_of_root(read: Read, whose: str = "") -> Zone | None:
    """The zone that the system below a root directory uses; None if it does not say.

    The file that /etc/localtime is or names comes first, then its name, then /etc/timezone.

    Args:
        read: gives what is at a path below the root: the target of a symlink as text, at most
            `MOST_BYTES` and one more of a file, None for nothing; it raises `Ext4kitError` for
            anything else.
        whose: system that is, for people.

    Raises:
        RequestError: what it says cannot be used.
    """
    why = ""
    for ground, zone_of in ((_LOCALTIME, _of_localtime), (_TIMEZONE, _of_timezone)):
        try:
            if zone := zone_of(read):
                return replace(zone, name=f"{zone} (/{ground}{whose})")
        except Ext4kitError as error:
            why += f"; /{ground}{whose} is of no use: {error}"
    if why:
        raise RequestError(why.removeprefix("; "))
    return None


def _of_localtime(read: Read) -> Zone | None:
    """The zone of /etc/localtime; None without it.

    Raises:
        Ext4kitError: it is of no use.
    """
    names, why = list[str](), None
    data: bytes | None = None
    try:
        data = _followed(read, _LOCALTIME, names)
    except Ext4kitError as error:  # the name may do
        why = error
    inside = [name.rpartition(_FOLDER)[2] for name in names if _FOLDER in name]
    usable = (name.removeprefix("posix/") for name in inside if len(name) <= _MOST_NAME)
    name = next(filter(is_zone_name, usable), "")
    if why is not None and not name:
        raise why
    return _grounded(name, data)


def _of_timezone(read: Read) -> Zone | None:
    """The zone that /etc/timezone names; None without it.

    Raises:
        Ext4kitError: it is of no use.
    """
    data = _followed(read, _TIMEZONE, [])
    if data is None:
        return None
    name = data[:_MOST_NAME].split(b"\n")[0].strip().decode("ascii", "replace")
    return _grounded(name, None)


def _followed(read: Read, path: str, names: list[str]) -> bytes | None:
    """The content of a file that a path or its links lead to; None where nothing has the path.

    Args:
        read: as for `zone_of_root`.
        path: below the root.
        names: gets the absolute path that each link leads to.

    Raises:
        Ext4kitError: there is something else, or the links lead to nothing.
    """
    for _ in range(_MOST_LINKS):
        found = read(path)
        if isinstance(found, bytes):
            return found
        if found is None:
            if names:
                raise RequestError(f"it leads to {names[-1][:_MOST_SHOWN]}, which is not there")
            return None
        names.append(posixpath.normpath(posixpath.join("/", posixpath.dirname(path), found)))
        path = names[-1].lstrip("/")
    raise RequestError("its links lead to no file")


def _grounded(name: str, data: bytes | None) -> Zone | None:
    """The zone of a file, and without one of a name; None without either.

    Raises:
        CorruptError, UnsupportedError: the file is of no use, and there is no name.
        RequestError: the name is not known.
    """
    if data is None:
        return named_zone(name) if name else None
    try:
        zone = _of_file(name, data)
    except Ext4kitError:
        if not name:
            raise
        return named_zone(name)
    return zone if name else replace(zone, name="a zone without a name")
