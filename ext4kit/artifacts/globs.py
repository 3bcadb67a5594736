"""Paths of artifact definitions, with wildcards and variables of users.

A path has names that are separated by slashes or by the separator of its source. Within a name `*`
is any characters, `?` is one and `[0-9]` is one of a set. A name `**5` is up to five levels of
names: as the last name of a path, the names on levels 1 to 5; before other names, 0 to 5
directories. Without a number there are ten levels. Upper and lower case differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from ext4kit.selection import is_glob, name_pattern

LEVELS = 10  # of a `**` without a number
MOST_LEVELS = 100
HOME = b"%%users.homedir%%"
USER_NAME, USER_ID = b"%%users.username%%", b"%%users.uid%%"
NAME_VARIABLES = (USER_NAME, USER_ID)
Parts = tuple[bytes, ...]  # of a path: a regular expression for each name
LITERAL = re.compile(rb"(?:[^\\()\[\]*+?{}|.^$]|\\.)+", re.DOTALL)
_LEVELS = re.compile(rb"\(\?:/\[\^/\]\+\)\{(\d+),(\d+)\}")
_DEEP = re.compile(rb"\*\*(\d{0,9})(.*)", re.DOTALL)


class Reach(StrEnum):
    """What the path of a source selects, by the type of the source."""

    FILE = "FILE"  # what has the path, unless it is a directory
    PATH = "PATH"  # what has the path, and all below it
    DIRECTORY = "DIRECTORY"  # what has the path, and what is directly in it


_BELOW = {Reach.FILE: b"", Reach.PATH: b"(?:/.*)?", Reach.DIRECTORY: b"(?:/[^/]+)?"}


@dataclass(frozen=True, slots=True)
class Glob:
    """A path of a definition.

    Attributes:
        reach: what it selects.
        in_home: whether it is a path below the home directories of all users.
        fixed: its first names, which have no wildcards and can be symlinks to directories.
        rest: a regular expression for each further name, which begins with the slash; a variable of
            users stands in it as `re.escape` leaves it.
    """

    reach: Reach
    in_home: bool
    fixed: tuple[bytes, ...]
    rest: tuple[bytes, ...]

    @classmethod
    def parse(cls, text: str, reach: Reach, separator: str = "/") -> Glob | None:
        """The glob of a path; None if it has a variable that no file of an image gives.

        Raises:
            ValueError: it has a set of characters that is none.
        """
        names = [name for name in text.encode().split(separator.encode()) if name]
        in_home = names[:1] == [HOME]
        names = names[in_home:]
        wild = list(map(_is_wild, names))
        count = wild.index(True) if True in wild else len(names)
        if reach is Reach.FILE:
            count = min(count, max(len(names) - 1, 0))
        last = len(names) - 1
        rest = [_name_regex(names[at], at == last) for at in range(count, len(names))]
        if below := _BELOW[reach]:
            rest.append(below)
        if not all(map(_is_usable, rest)):
            return None
        return cls(reach, in_home, tuple(names[:count]), tuple(rest))


def _is_wild(name: bytes) -> bool:
    return is_glob(name) or b"%%" in name


def _name_regex(name: bytes, is_last: bool) -> bytes:
    """The regular expression of one name with the slash before it, or of several levels."""
    if (deep := _DEEP.fullmatch(name)) is None:
        return b"/" + name_pattern(name)
    levels, rest = min(int(deep[1] or LEVELS), MOST_LEVELS), deep[2]
    if rest:
        return _deep(0, levels) + b"/" + name_pattern(b"*" + rest)
    least = int(is_last)
    return _deep(least, max(levels, least))


def _deep(least: int, most: int) -> bytes:
    return b"(?:/[^/]+){%d,%d}" % (least, most)


def folders_of(path: Parts) -> Iterator[Parts]:
    """The directories on the way of a path, without those that its first, literal parts name."""
    count = next((at for at, part in enumerate(path) if not LITERAL.fullmatch(part)), len(path))
    for end in range(count + 1, len(path)):
        yield path[:end]
    if (levels := _LEVELS.fullmatch(path[-1])) is not None and int(levels[2]) > 1:
        yield (*path[:-1], _deep(1, int(levels[2]) - 1))


def rest_after(path: Parts, names: Parts) -> Iterator[Parts]:
    """What is left of a path after names that its first parts match; nothing if they do not."""
    if not names:
        yield path
    elif path and path[0] not in _BELOW.values():
        levels = _LEVELS.fullmatch(path[0])
        if levels is None:
            if re.fullmatch(path[0], b"/" + names[0], re.DOTALL):
                yield from rest_after(path[1:], names[1:])
            return
        least, most = int(levels[1]), int(levels[2])
        if most:
            yield from rest_after((_deep(max(least - 1, 0), most - 1), *path[1:]), names[1:])
        if not least:
            yield from rest_after(path[1:], names)


def literal(name: bytes) -> bytes:
    """The regular expression of a name as it is, with the slash before it."""
    return b"/" + re.escape(name)


def _is_usable(regex: bytes) -> bool:
    """Whether a regular expression has no unknown variables.

    Raises:
        ValueError: it is none.
    """
    try:
        re.compile(regex)
    except re.error as error:
        raise ValueError(f"a wrong path: {error}") from error
    for variable in NAME_VARIABLES:
        regex = regex.replace(re.escape(variable), b"")
    return b"%%" not in regex


def regex_of(paths: Iterable[tuple[bytes, ...]]) -> bytes:
    """One regular expression of all paths; those that begin alike share what they begin with.

    Args:
        paths: the regular expressions of the parts of each path.
    """
    return _branches(sorted(set(paths)))


def _branches(paths: list[tuple[bytes, ...]]) -> bytes:
    parts = [
        first + _branches([path[1:] for path in some])
        for first, some in groupby(filter(None, paths), key=itemgetter(0))
    ]
    if () in paths:
        parts.append(b"")
    if not parts:
        return b"(?!)"
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"
