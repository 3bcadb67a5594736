"""Finds the paths nearest to a path that does not exist, which may have been mistyped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from enum import IntEnum
from heapq import nsmallest
from typing import NamedTuple

from ext4kit.selection import is_glob, path_pattern

_CLOSE = 0.75  # minimum similarity of a name and its mistyped form
_LEAST = 3  # minimum characters of a part of a name


class Likeness(IntEnum):
    """How a path resembles the wanted one; the most similar kind is first."""

    CASE = 0  # differs only in upper and lower case
    OTHER_ROOT = 1  # is the end of the wanted path, which also has the mount point
    BELOW = 2  # ends with the wanted path, which lacks the directories above
    NAME = 3  # has the same last name
    NUMBER = 4  # has the same last name but for zeros before a number, or - _ and blanks
    PART = 5  # its last name contains the wanted name or matches the wanted pattern, ignoring case
    SIMILAR = 6  # has nearly the same last name


class Near(NamedTuple):
    """A path that resembles the wanted one."""

    likeness: Likeness
    path: bytes


def nearest_paths(wanted: bytes, paths: Iterable[bytes], most: int = 3) -> list[Near]:
    """The paths that resemble the wanted path most, the most similar first.

    Args:
        wanted: a path, a name, or a pattern, as typed.
        paths: full paths.
        most: maximum number of paths to return.
    """
    search = _Search(wanted)
    found = (near for path in paths if (near := search.near(path)) is not None)
    return nsmallest(most, set(found), key=lambda near: (near.likeness, -len(near.path), near.path))


class _Search:
    """Compares paths with the wanted path, ignoring case."""

    def __init__(self, wanted: bytes) -> None:
        text = wanted.removeprefix(b"~").strip(b"/")
        self._parts = [part for part in text.lower().split(b"/") if part not in (b"", b".", b"**")]
        self._path = b"/" + b"/".join(self._parts)
        self._name = self._parts[-1] if self._parts else b""
        self._ends = [b"/" + b"/".join(self._parts[at:]) for at in range(1, len(self._parts))]
        self._folded = _folded(self._name)
        self._has_end = b"." in self._name
        self._has_number = re.search(rb"\d", self._name) is not None
        self._pattern = None
        if is_glob(self._name):
            self._pattern = re.compile(path_pattern(self._name), re.DOTALL)
        self._matcher = SequenceMatcher(None, "", self._name.decode("latin-1"), autojunk=False)

    def near(self, path: bytes) -> Near | None:
        """How a path, or a directory above it, resembles the wanted path; None if it does not."""
        if not self._name:
            return None
        lower = path.lower()
        if self._pattern is not None:
            name = lower.rpartition(b"/")[2]
            return Near(Likeness.PART, path) if self._pattern.fullmatch(b"/" + name) else None
        inside = (lower + b"/").find(self._path + b"/")
        if inside >= 0:
            end = inside + len(self._path)
            return Near(Likeness.BELOW if inside else Likeness.CASE, path[:end])
        for below in self._ends:
            if lower == below or lower.startswith(below + b"/"):
                return Near(Likeness.OTHER_ROOT, path[: len(below)])
        return self._by_name(path, lower.rpartition(b"/")[2])

    def _by_name(self, path: bytes, name: bytes) -> Near | None:
        if name == self._name:
            return Near(Likeness.NAME, path)
        if self._has_number and self._folded == _folded(name if self._has_end else _stem(name)):
            return Near(Likeness.NUMBER, path)
        if len(self._name) >= _LEAST and self._name in name:
            return Near(Likeness.PART, path)
        self._matcher.set_seq1(name.decode("latin-1"))
        matcher = self._matcher
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < _CLOSE:
            return None
        return Near(Likeness.SIMILAR, path) if matcher.ratio() >= _CLOSE else None


def _stem(name: bytes) -> bytes:
    return name.rpartition(b".")[0] or name


def _folded(name: bytes) -> bytes:
    """A name without zeros before its numbers, and with one kind of separator."""
    return re.sub(rb"[-_\s]+", b"-", re.sub(rb"(?<!\d)0+(?=\d)", b"", name))
