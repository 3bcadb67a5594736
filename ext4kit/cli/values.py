"""Lists, points in time and sizes as people write them on a command line."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta, timezone

import click

from ext4kit.selection import Limits
from ext4kit.times import parse_moment
from ext4kit.zones import Zone, current_zone

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)([kmgt]?)(?:i?b)?", re.IGNORECASE)
TIME_HELP = (
    "2026-03-01, '2026-03-01 18:00', @1772388000, today, yesterday or 2h (before the last moment of"
    " the image)"
)


def named(
    context: click.Context, option: click.Parameter, value: str, known: Iterable[str]
) -> set[str]:
    """The known names in a list with commas.

    Raises:
        click.BadParameter: another name.
    """
    names = {one.strip() for one in value.split(",")}
    if unknown := names - set(known):
        text = f"{min(unknown)!r} is none of {', '.join(known)}"
        raise click.BadParameter(text, context, option)
    return names


@dataclass(frozen=True, slots=True)
class OpenTime:
    """A time whose meaning depends on the image.

    Attributes:
        text: as typed.
        is_ago: whether it counts from the last moment of the image, as `2h` and `today` do; else
            it only has no offset.
    """

    text: str
    is_ago: bool

    def at(self, now: int) -> int:
        """The time in ns since 1970, counted from `now`, in the zone of the command."""
        return parse_moment(self.text, now, current_zone())


TypedTime = int | OpenTime  # ns since 1970, or what becomes so
_EARLIER = Zone("", timezone(timedelta(hours=1)))  # a zone that is not UTC


def moment(context: click.Context, option: click.Parameter, value: str | None) -> TypedTime | None:
    """Callback of an option for a time."""
    if value is None:
        return None
    try:
        found, later = (parse_moment(value, now) for now in (time.time_ns(), 0))
        is_open = found != later or later != parse_moment(value, 0, _EARLIER)
        return OpenTime(value, found != later) if is_open else found
    except (ValueError, OverflowError) as error:
        text = f"{value!r} is not a time such as {TIME_HELP}"
        raise click.BadParameter(text, context, option) from error


def size_limits(context: click.Context, option: click.Parameter, value: str | None) -> Limits:
    """Callback of an option for a range of sizes: `10k..5M`, `10k..`, `..5M`, or one size."""
    if value is None:
        return Limits()
    least, dots, most = value.partition("..")
    try:
        limits = Limits(_size(least), _size(most) if dots else _size(least))
    except ValueError as error:
        text = f"{value!r} is not a range such as 10k..5M, 1M.. or ..100k"
        raise click.BadParameter(text, context, option) from error
    return limits


def byte_count(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Callback of an option for a size: `20G`."""
    try:
        return _size(value or "")
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a size such as 20G", context, option) from error


def part_of_parts(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int, int]:
    """Callback of an option for part K of N: `3/8`; without it, 1 of 1."""
    part, slash, parts = (value or "1/1").partition("/")
    is_number = all(each.isascii() and each.isdecimal() for each in (part, parts))
    if slash and is_number and 1 <= int(part) <= int(parts) < 1 << 31:
        return int(part), int(parts)
    raise click.BadParameter(f"{value!r} is not a part such as 3/8", context, option)


def positive_byte_count(
    context: click.Context, option: click.Parameter, value: str | None
) -> int | None:
    """Callback of an option for a size that is more than 0."""
    found = byte_count(context, option, value)
    if found == 0:
        raise click.BadParameter("must be more than 0", context, option)
    return found


def _size(text: str) -> int | None:
    if not text:
        return None
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _UNITS[found[2].lower()]
