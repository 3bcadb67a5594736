"""Selection of files by path, inode, type, size, owner, time, grade and content."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ext4kit.fields import FileType

_GLOB = re.compile(rb"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]", re.DOTALL)
_GLOB_PARTS = {b"**/": b"(?:[^/]+/)*", b"**": b".*", b"*": b"[^/]*", b"?": b"[^/]"}


class Selectable(Protocol):
    """A live or deleted file; unknown attributes are None."""

    @property
    def path(self) -> bytes | None:
        """Full path."""

    @property
    def name(self) -> bytes | None:
        """Name in its directory."""

    @property
    def further_paths(self) -> Sequence[bytes]:
        """Further full paths of the file, present or former."""

    @property
    def number(self) -> int | None:
        """Inode number."""

    @property
    def kind(self) -> FileType:
        """File type."""

    @property
    def size(self) -> int | None:
        """Bytes."""

    @property
    def uid(self) -> int | None:
        """Owner."""

    @property
    def mtime(self) -> int | None:
        """Last modification, ns."""

    @property
    def deletion_time(self) -> int | None:
        """Deletion time, ns."""

    @property
    def grade(self) -> str | None:
        """Grade of a deleted file."""

    @property
    def identity(self) -> Hashable:
        """Tells it apart from all other files of the file system."""

    def content(self) -> object:
        """Its bytes (`filesystem.content.Content`), None where there are none."""

    def head(self) -> bytes:
        """Start of the content; b"" if there is none or it cannot be read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A range of integers, both ends included; None for no limit."""

    least: int | None = None
    most: int | None = None

    def include(self, value: int | None) -> bool:
        """Whether a value is in the range; an unknown value is only if there are no limits."""
        if self.least is None and self.most is None:
            return True
        if value is None or (self.least is not None and value < self.least):
            return False
        return self.most is None or value <= self.most


@dataclass(frozen=True)
class Places:
    """Places in a tree, as regular expressions of full paths.

    Attributes:
        files: of everything but directories.
        directories: of directories.
    """

    files: re.Pattern[bytes]
    directories: re.Pattern[bytes]

    def have(self, path: bytes | None, is_directory: bool) -> bool:
        """Whether a path is one of them; an unknown path is not."""
        pattern = self.directories if is_directory else self.files
        return path is not None and pattern.fullmatch(path) is not None


@dataclass(frozen=True)
class Selection:
    """Conditions that a file must meet; conditions that are not given are always met.

    Attributes:
        paths: paths and globs, of which one must match (see `path_pattern`).
        places: places of which one must have the file, beside `paths` (`artifacts.places`).
        numbers: inode numbers.
        names: regular expressions, of which one must match a part of the name.
        types: file types.
        size, deleted, modified: limits of bytes and of times in ns.
        owners: user ids.
        grades: grades of deleted files.
        in_root: gives the path in a Linux root of a path of the file system, None for one outside
            of it; a file without a path is outside. `paths` and `places` are those of the root.
        content: called with the start of the content and the name; returns whether it is selected.
        known: called with the identity of a file and what gives its content, for a file that meets
            all other conditions (`known.files.KnownFiles.condition`).
    """

    paths: tuple[bytes, ...] = ()
    places: Places | None = None
    numbers: tuple[int, ...] = ()
    names: tuple[re.Pattern[bytes], ...] = ()
    types: frozenset[FileType] = frozenset()
    size: Limits = field(default_factory=Limits)
    deleted: Limits = field(default_factory=Limits)
    modified: Limits = field(default_factory=Limits)
    owners: tuple[int, ...] = ()
    grades: frozenset[str] = frozenset()
    in_root: Callable[[bytes], bytes | None] | None = None
    content: Callable[[bytes, bytes], bool] | None = None
    known: Callable[[Hashable, Callable[[], object]], bool] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether no condition is given."""
        return self == Selection()

    @property
    def needs_inode(self) -> bool:
        """Whether a condition excludes content without an inode (which has no path or times)."""
        by_identity = self.by_path or self.names or self.numbers or self.owners
        times = self.deleted != Limits() or self.modified != Limits()
        kinds = self.types and "file" not in self.types
        grades = self.grades and "carved" not in self.grades
        return bool(by_identity or times or kinds or grades)

    def selects(self, file: Selectable) -> bool:
        """Whether a file meets all conditions; the content is tested last."""
        if not (self._selects_facts(file) and self.matches_paths(file)):
            return False
        if self.content is not None and not self.content(file.head(), file.name or b""):
            return False
        return self.known is None or self.known(*known_key(file))

    def _selects_facts(self, file: Selectable) -> bool:
        """Whether a file meets the conditions of what its inode and its name say."""
        if self.numbers and file.number not in self.numbers:
            return False
        if self.owners and file.uid not in self.owners:
            return False
        if self.grades and file.grade not in self.grades:
            return False
        if self.types and file.kind not in self.types:
            return False
        if not (self.size.include(file.size) and self.modified.include(file.mtime)):
            return False
        return self.deleted.include(file.deletion_time) and self.matches_name(file.name)

    def matches_name(self, name: bytes | None) -> bool:
        """Whether a name matches one of `names`."""
        return not self.names or any(each.search(name or b"") for each in self.names)

    @property
    def by_path(self) -> bool:
        """Whether a condition is one of paths."""
        return bool(self.paths) or self.places is not None or self.in_root is not None

    def matches_paths(self, file: Selectable) -> bool:
        """Whether one of a file's paths matches one of `paths`, and `places`."""
        every, is_directory = (file.path, *file.further_paths), file.kind == "directory"
        return any(self.matches_path(path, file.name, is_directory) for path in every)

    def matches_path(
        self, path: bytes | None, name: bytes | None, is_directory: bool = False
    ) -> bool:
        """Whether a path matches one of `paths`, and `places`.

        Args:
            path: the path; None for an unknown one, of which the name alone may match `paths`.
            name: the last part of the path.
            is_directory: whether it is the path of a directory.
        """
        if self.in_root is not None and (path := self.in_root(path) if path else None) is None:
            return False
        if self.places is not None and not self.places.have(path, is_directory):
            return False
        if not self.paths:
            return True
        text = path if path is not None else name
        return text is not None and self._path_pattern.fullmatch(text) is not None

    @cached_property
    def _path_pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(path_pattern(path) for path in self.paths), re.DOTALL)


def known_key(file: Selectable) -> tuple[Hashable, Callable[[], object]]:
    """What tells whether a file is known: its identity, and what gives its content if it has any.

    A file of which nothing is left that `recover` writes has none.
    """
    has_content = file.kind == "file" and file.grade != "overwritten"
    return file.identity, file.content if has_content else lambda: None


def is_glob(path: bytes) -> bool:
    """Whether a path has wildcards."""
    return _GLOB.search(path) is not None


def path_pattern(path: bytes) -> bytes:
    """Regular expression that matches a path or glob and all paths below it.

    `*` and `?` match within a name, `**` also across slashes. A path without a slash matches this
    name in every directory, even if the directory is unknown. Other paths start at the root.
    """
    inner = path.strip(b"/").removesuffix(b"/**")
    start = b"/" if b"/" in path else b"(?:.*/)?"
    below = b"(?:/.*)?" if inner else b".*"
    return start + _glob_pattern(inner) + below


def name_pattern(glob: bytes) -> bytes:
    """Regular expression of the names that a glob without slashes matches."""
    return _glob_pattern(re.sub(rb"\*+", b"*", glob))


def _glob_pattern(glob: bytes) -> bytes:
    parts, place = [], 0
    for found in _GLOB.finditer(glob):
        parts += [re.escape(glob[place : found.start()]), _glob_part(found[0])]
        place = found.end()
    parts.append(re.escape(glob[place:]))
    return b"".join(parts)


def _glob_part(part: bytes) -> bytes:
    if not part.startswith(b"["):
        return _GLOB_PARTS[part]
    is_negated = part.startswith(b"[!")
    inside = part[1 + is_negated : -1].replace(b"\\", b"\\\\").replace(b"[", b"\\[")
    return b"(?!/)" * is_negated + b"[" + b"^" * is_negated + inside.replace(b"^", b"\\^") + b"]"
