"""Paths of definitions -> the places in an image that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice

from ext4kit.artifacts.globs import (
    LITERAL,
    USER_ID,
    USER_NAME,
    Glob,
    Parts,
    Reach,
    folders_of,
    literal,
    regex_of,
    rest_after,
)
from ext4kit.artifacts.root_files import RootFiles
from ext4kit.artifacts.users import Users, users_of
from ext4kit.filesystem.links import Names, PathLinks
from ext4kit.problems import Severity
from ext4kit.selection import Places, Selection

# Each symlink that is followed gives places, which a hostile image could multiply.
MOST_FOLLOWED = 1000  # paths through symlinks, without wildcards before them
MOST_WILD_LINKS = 50  # symlinks to directories, in place of names with wildcards
_MOST_TRIED = 10_000
_ROOT_HOME: Names = (b"root",)
_HOMES: Names = (b"home",)  # each directory in it is a home, also of users that no file names
_ANY_NAME = b"/[^/]+"
_HOME = b"~"  # the first part of a path that is below any home directory
_NEVER = re.compile(b"(?!)")


class Atlas:
    """The places of definitions in one system.

    Paths lead through the symlinks of the system; the path as a definition has it stays a place
    too, as deleted files may have had it. The users are read when a path first needs them.

    Args:
        files: of the system.
        globs: the paths.
    """

    def __init__(self, files: RootFiles, globs: Sequence[Glob]) -> None:
        self._files, self._globs = files, globs
        self._view = files.live
        self._links = PathLinks(self._view.root)
        self._followed = set[Names]()

    @cached_property
    def users(self) -> Users:
        """The users of the system."""
        return users_of(self._files)

    @cached_property
    def homes(self) -> Sequence[Names]:
        """The home directories: of the users, of root, as they are named and where links lead."""
        given = dict.fromkeys([_ROOT_HOME, *self.users.homes, *self._linked_homes])
        return tuple(dict.fromkeys([*given, *map(self._links.real, given)]))

    @cached_property
    def _linked_homes(self) -> list[Names]:
        """The symlinks in the directories of homes; a limited number."""
        links = Selection(types=frozenset({"symlink"}))
        found = list[Names]()
        for parent in self.home_parents:
            above = b"/" + b"/".join(parent)
            wanted = replace(links, paths=(above + b"/*",))
            paths = chain.from_iterable(batch.paths for batch in self._view.walk(wanted))
            found += (tuple(path.split(b"/")[1:]) for path in islice(paths, MOST_WILD_LINKS + 1))
        if len(found) > MOST_WILD_LINKS:
            self._tell(f"only {MOST_WILD_LINKS} symlinks in place of homes are followed")
        return found[:MOST_WILD_LINKS]

    @cached_property
    def home_parents(self) -> Sequence[Names]:
        """The directories in which every directory is a home."""
        return tuple(dict.fromkeys([_HOMES, self._links.real(_HOMES)]))

    @cached_property
    def places(self) -> Places:
        """The places that any of the paths names."""
        return self._compiled(*self.paths(self._globs))

    def paths(self, globs: Iterable[Glob]) -> tuple[set[Parts], set[Parts]]:
        """The places of some of the paths, of files and of directories, as parts."""
        files, directories = set[Parts](), set[Parts]()
        for glob in globs:
            found = self._without_wild_links(glob)
            found |= {beyond for path in found for beyond in self._beyond_wild_links(path)}
            files |= found
            if glob.reach is not Reach.FILE:
                directories |= found
        return files, directories

    def below_homes(self, names: Names) -> Iterator[Names]:
        """The names that a path has below each home directory in which it is."""
        for count in range(len(names) + 1):
            above = names[:count]
            if above in self.homes or (count and above[:-1] in self.home_parents):
                yield names[count:]

    def _without_wild_links(self, glob: Glob) -> set[Parts]:
        rest = tuple(map(self._with_users, glob.rest))
        first = (_HOME,) if glob.in_home else ()
        found = {(*first, *map(literal, glob.fixed), *rest)}
        return found | {(*map(literal, real), *rest) for real in self._real(glob)}

    def _real(self, glob: Glob) -> Iterator[Names]:
        """Where the fixed names of a path lead, if they lead elsewhere."""
        homes = set(map(self._links.real, self.homes)) if glob.in_home else {()}
        for home in homes:
            given = (*home, *glob.fixed)
            if len(self._followed) >= MOST_FOLLOWED and given not in self._followed:
                self._tell(f"only the first {MOST_FOLLOWED:,} paths through symlinks are followed")
            elif (real := self._links.real(given)) != given:
                self._followed.add(given)
                yield real

    def _tell(self, what: str) -> None:
        self._files.workspace.fs.problems.add("artifact definitions", what, Severity.WARNING)

    @cached_property
    def _wild_links(self) -> dict[Names, Names]:
        """Symlinks to directories in place of names with wildcards, and where they lead."""
        every = set[Parts]().union(*map(self._without_wild_links, self._globs))
        folders = {folder for path in every for folder in folders_of(path)}
        if not folders:
            return {}
        links = Selection(places=self._compiled(folders, frozenset()), types=frozenset({"symlink"}))
        paths = chain.from_iterable(batch.paths for batch in self._view.walk(links))
        found: dict[Names, Names] = {}
        for path in islice(paths, _MOST_TRIED):
            names = tuple(path.split(b"/")[1:])
            real = self._links.real(names)
            if not self._links.is_directory(real):
                continue
            if len(found) >= MOST_WILD_LINKS:
                self._tell(f"only {MOST_WILD_LINKS} symlinks in place of wildcards are followed")
                break
            found[names] = real
        return found

    @cached_property
    def _wild_links_by_start(self) -> dict[bytes, list[tuple[Names, Names]]]:
        """The same by the first part of a path, b"" for all; for a home, the names below it."""
        found: dict[bytes, list[tuple[Names, Names]]] = {}
        for names, real in self._wild_links.items():
            for start in (literal(names[0]), b""):
                found.setdefault(start, []).append((names, real))
            below = [(each, real) for each in self.below_homes(names)] if self._has_homes else []
            found.setdefault(_HOME, []).extend(below)
        return found

    @property
    def _has_homes(self) -> bool:
        return any(glob.in_home for glob in self._globs)

    def _beyond_wild_links(self, path: Parts) -> Iterator[Parts]:
        start = path[0] if path[0] == _HOME or LITERAL.fullmatch(path[0]) else b""
        parts = path[1:] if start == _HOME else path
        for names, real in self._wild_links_by_start.get(start, ()):
            for rest in rest_after(parts, names):
                yield (*map(literal, real), *rest)

    def _compiled(self, files: Set[Parts], directories: Set[Parts]) -> Places:
        has_home = any(path[0] == _HOME for path in chain(files, directories))
        homes = regex_of(self._home_parts) if has_home else b""
        patterns = (
            regex_of((homes, *path[1:]) if path[0] == _HOME else path for path in some)
            for some in (files, directories)
        )
        return Places(*(re.compile(pattern, re.DOTALL) for pattern in patterns))

    @property
    def _home_parts(self) -> list[Parts]:
        parents = ((*map(literal, each), _ANY_NAME) for each in self.home_parents)
        return [*(tuple(map(literal, home)) for home in self.homes), *parents]

    def _with_users(self, regex: bytes) -> bytes:
        for variable in (USER_NAME, USER_ID):
            sign = re.escape(variable)
            if sign in regex:
                values = self.users.names if variable == USER_NAME else self.users.ids
                regex = regex.replace(sign, regex_of((re.escape(each),) for each in values))
        return regex


class PlaceIndex:
    """Tells which of many definitions name a path.

    Args:
        atlas: of the image.
        paths: the paths of each definition.
    """

    def __init__(self, atlas: Atlas, paths: Sequence[Iterable[Glob]]) -> None:
        self._atlas = atlas
        self._by_start: dict[bytes, list[tuple[int, Places]]] = {}
        for row, globs in enumerate(paths):
            starts: dict[bytes, tuple[set[Parts], set[Parts]]] = {}
            for place, some in enumerate(atlas.paths(globs)):
                for path in some:
                    starts.setdefault(_start(path[0]), (set(), set()))[place].add(path)
            for start, each in starts.items():
                compiled = (re.compile(regex_of(one), re.DOTALL) if one else _NEVER for one in each)
                self._by_start.setdefault(start, []).append((row, Places(*compiled)))

    def rows(self, path: bytes, is_directory: bool) -> set[int]:
        """The rows of the definitions that name a path."""
        found = set[int]()
        names = tuple(path.split(b"/")[1:])
        below = (b"/".join((_HOME, *rest)) for rest in self._atlas.below_homes(names))
        for text in (path, *below) if self._has_homes else (path,):
            first = text[: text.find(b"/", 1)] if b"/" in text[1:] else text
            for start in {first, b""}:
                for row, places in self._by_start.get(start, ()):
                    if row not in found and places.have(text, is_directory):
                        found.add(row)
        return found

    @property
    def _has_homes(self) -> bool:
        return _HOME in self._by_start


def _start(part: bytes) -> bytes:
    """The first name of a path as it is, with its slash; b"" for one with wildcards."""
    return re.sub(rb"\\(.)", rb"\1", part, flags=re.DOTALL) if LITERAL.fullmatch(part) else b""
