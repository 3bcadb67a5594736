"""Filters as people type them: `deleted grade:partial kind:pictures since:2h hide-known`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial

from ext4kit.browse.tree import RowCondition
from ext4kit.errors import RequestError
from ext4kit.fields import FileType
from ext4kit.grades import Grade
from ext4kit.known.files import KnownFiles
from ext4kit.selection import Limits, Selection
from ext4kit.times import parse_moment
from ext4kit.workspace import Workspace
from ext4kit.zones import current_zone

HELP = "deleted  grade:LIST  type:LIST  kind:LIST  name:REGEX  since:TIME  until:TIME" \
    "  deleted-since:TIME  deleted-until:TIME  hide-known  only-known"  # fmt: skip
TIMES_OF_FILTER = "since: when deleted; live files: modified, changed or created"
_KnownCondition = Callable[[Hashable, Callable[[], object]], bool]
_TYPES: dict[str, tuple[FileType, ...]] = {
    "file": ("file",),
    "dir": ("directory",),
    "link": ("symlink",),
    "special": ("chardev", "blockdev", "fifo", "socket"),
}
_OPTIONS = {
    "grade": "--grade", "type": "--type", "kind": "--kind", "name": "--name",
    "since": "--modified-since", "until": "--modified-until",
    "deleted-since": "--deleted-since", "deleted-until": "--deleted-until",
}  # fmt: skip
_FLAGS = {"deleted": "", "hide-known": "--hide-known", "only-known": "--only-known"}
_LISTS: dict[str, frozenset[str]] = {
    "grade": frozenset(Grade),
    "type": frozenset(_TYPES),
}


@dataclass(frozen=True)
class FileFilter:
    """Which files are shown, as typed.

    Attributes:
        text: the words.
        values: by the names of the conditions.
        flags: the words without a value.
    """

    text: str = ""
    values: tuple[tuple[str, str], ...] = ()
    flags: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> FileFilter:
        """The filter that a text describes; everything if it is empty.

        Raises:
            RequestError: a word is none of `HELP`, or has a wrong value.
        """
        values, flags = list[tuple[str, str]](), set[str]()
        for word in text.split():
            name, colon, value = word.partition(":")
            if not colon and name in _FLAGS:
                flags.add(name)
            elif colon and name in _OPTIONS and value:
                _check(name, value)
                values.append((name, value))
            else:
                raise RequestError(f"{word!r} is none of: {HELP}")
        return cls(" ".join(text.split()), tuple(values), frozenset(flags))

    @property
    def is_of_deleted(self) -> bool:
        """Whether live files are hidden."""
        names = {name for name, _ in self.values}
        return "deleted" in self.flags or bool(names & {"grade", "deleted-since", "deleted-until"})

    @property
    def options(self) -> list[str]:
        """The same as options of `deleted`, `recover` and `extract`."""
        return self._options(self.is_of_deleted)

    @property
    def options_of_deleted(self) -> list[str]:
        """The same as options of `deleted`."""
        return self._options(is_of_deleted=True)

    def _options(self, is_of_deleted: bool) -> list[str]:
        found = [_FLAGS[flag] for flag in sorted(self.flags) if _FLAGS[flag]]
        for name, value in self.values:
            if is_of_deleted and name in ("since", "until"):
                name = f"deleted-{name}"
            single = value.split(",") if name in ("type", "kind") else [value]
            found += [word for each in single for word in (_OPTIONS[name], each)]
        return found

    def condition(self, workspace: Workspace, known: KnownFiles | None) -> RowCondition:
        """The condition for the files of a file system.

        Raises:
            RequestError: a time is none, or there is no list of known files.
        """
        if not self.text:
            return RowCondition()
        values = dict(self.values)
        chosen = _listed(values.get("kind"))
        words = _listed(values.get("type"))

        def time(name: str) -> int | None:
            return self._time(name, workspace)

        selection = Selection(
            names=tuple(re.compile(os.fsencode(each)) for name, each in self.values
                        if name == "name"),
            types=frozenset(kind for word in words for kind in _TYPES[word]),
            deleted=Limits(time("deleted-since"), time("deleted-until")),
            grades=frozenset(_listed(values.get("grade"))),
            content=_by_content(chosen),
            known=self._known(known),
        )  # fmt: skip
        return RowCondition(selection, self.is_of_deleted, self.times(workspace))

    def times(self, workspace: Workspace) -> Limits:
        """First and last time of `since:` and `until:`.

        Raises:
            RequestError: one is no time.
        """
        return Limits(self._time("since", workspace), self._time("until", workspace))

    def _time(self, name: str, workspace: Workspace) -> int | None:
        typed = dict(self.values).get(name)
        return None if typed is None else _moment(typed, workspace)

    def _known(self, known: KnownFiles | None) -> _KnownCondition | None:
        if not self.flags & {"hide-known", "only-known"}:
            return None
        if known is None:
            raise RequestError("give lists of known files with --known when you start")
        return known.condition("only-known" in self.flags)


def _by_content(kinds: list[str]) -> Callable[[bytes, bytes], bool] | None:
    """The condition that a content is of one of these kinds; None for no condition."""
    if not kinds:
        return None
    from ext4kit.filetypes.categories import Category, has_type

    return partial(has_type, categories=frozenset(map(Category, kinds)), mimes=())


def _names_of(name: str) -> frozenset[str] | None:
    """The values that a condition can have; None for any."""
    if name != "kind":
        return _LISTS.get(name)
    from ext4kit.filetypes.categories import Category

    return frozenset(Category)


def _listed(value: str | None) -> list[str]:
    return value.split(",") if value else []


def _check(name: str, value: str) -> None:
    known = _names_of(name)
    if known is not None and (unknown := set(value.split(",")) - known):
        raise RequestError(f"{name}: {min(unknown)!r} is none of {', '.join(sorted(known))}")
    if name == "name":
        try:
            re.compile(os.fsencode(value))
        except re.error as error:
            raise RequestError(f"{value!r} is not a valid regular expression: {error}") from error


def moment_of(text: str, workspace: Workspace) -> int:
    """A typed time in ns since 1970; `2h` counts from the last moment of the image.

    Raises:
        RequestError: it is no time.
    """
    return _moment(text, workspace)


def _moment(text: str, workspace: Workspace) -> int:
    try:
        return parse_moment(text, workspace.last_moment, current_zone())
    except (ValueError, OverflowError) as error:
        raise RequestError(f"{text!r} is not a time such as 2026-03-01T18:00 or 2h") from error
