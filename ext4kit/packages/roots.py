"""Reads the files of package databases below a root directory, of an image or of this computer."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from ext4kit.errors import Ext4kitError, path_text
from ext4kit.filesystem.links import PathLinks
from ext4kit.filesystem.live_view import LiveNode
from ext4kit.filesystem.view import Node
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems, Severity
from ext4kit.roots.overlay_view import OverlayNode

_AT_ONCE = 1 << 20
MOST_FILE = 512 << 20  # bytes of one file of a database
MOST_BYTES = 2 << 30  # bytes of all of them
MOST_FILES = 1_000_000  # files of a directory


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a directory of a database.

    Attributes:
        name: its name in the directory.
        inode: its inode; None on this computer.
        is_directory: whether it is a directory.
        is_unpacked: whether it is in a layer of an image, where its times are those of the
            unpacking.
    """

    name: bytes
    inode: Inode | None
    is_directory: bool
    is_unpacked: bool = False


class SystemRoot(Protocol):
    """A root directory; paths are relative to it, and its symlinks are followed inside it.

    Attributes:
        problems: where unreadable files are added.
    """

    problems: Problems

    def read(self, path: bytes) -> bytes | None:
        """The content of a file; None without one, or where it cannot be read."""

    def listing(self, path: bytes) -> Sequence[FoundFile]:
        """The files of a directory, by name; none where there is no directory."""

    def contents(
        self, path: bytes, names: Sequence[bytes], most: int = MOST_FILE
    ) -> Iterator[tuple[bytes, bytes]]:
        """(name, content) of files of a directory, in the order in which they are stored.

        Args:
            path: the directory.
            names: of the files.
            most: bytes of each file that are read; a longer one is cut, unless `MOST_FILE` are.
        """


class NodeRoot:
    """A root directory in an image; see `SystemRoot`.

    Args:
        node: the directory.
        problems: where unreadable files are added.
        has_upper: whether the top one of its layers, if it has any, is that of a container.
    """

    def __init__(self, node: Node, problems: Problems, has_upper: bool = True) -> None:
        self.problems = problems
        self._has_upper = has_upper
        self._links = PathLinks(node)
        self._left = MOST_BYTES

    def node(self, path: bytes) -> Node | None:
        """What a path leads to; None for nothing."""
        return self._links.node(_names(path))

    def has(self, path: bytes) -> bool:
        """Whether a path leads to a file, or to a directory with files."""
        node = self.node(path)
        return node is not None and (node.kind == "file" or bool(self._in(path)))

    def read_or_target(self, path: str) -> str | bytes | None:
        """The target of a symlink as text, else the content of a file (see `zone_of_root`)."""
        names = _names(os.fsencode(path))
        node = self._links.entry(names)
        target = None if node is None else node.link_target()
        return self.read(os.fsencode(path)) if target is None else os.fsdecode(target)

    def read(self, path: bytes) -> bytes | None:
        """The content of a file; None without one, or where it cannot be read."""
        node = self.node(path)
        return None if node is None or node.kind != "file" else self._read(node)

    def listing(self, path: bytes) -> Sequence[FoundFile]:
        """The files of a directory, by name; none where there is no directory."""
        return [
            FoundFile(one.name, one.inode, one.kind == "directory", self._is_unpacked(one))
            for one in self._in(path)
        ]

    def contents(
        self, path: bytes, names: Sequence[bytes], most: int = MOST_FILE
    ) -> Iterator[tuple[bytes, bytes]]:
        """(name, content) of files of a directory, in the order of their inodes."""
        wanted = set(names)
        some = [one for one in self._in(path) if one.name in wanted and one.kind == "file"]
        for node in sorted(some, key=lambda one: one.id.inode):
            if (data := self._read(node, most)) is not None:
                yield node.name, data

    def _is_unpacked(self, node: Node) -> bool:
        if not isinstance(node, OverlayNode) or not node.below.is_merged:
            return False
        return not self._has_upper or node.stack[0].layer > 0

    def _in(self, path: bytes) -> list[Node]:
        node = self.node(path)
        if node is None or node.kind != "directory":
            return []
        try:
            batch = node.listed() if isinstance(node, LiveNode) else None
            return list(islice(node.children() if batch is None else batch.nodes, MOST_FILES))
        except Ext4kitError as error:
            self.problems.add(path_text(node.path), f"cannot be listed: {error}")
            return []

    def _read(self, node: Node, most: int = MOST_FILE) -> bytes | None:
        try:
            content = node.content()
            if content is None:
                return None
            size = content.size if most == MOST_FILE else min(content.size, most)
            if size > min(MOST_FILE, self._left):
                what = "too large for a database of packages; not read"
                self.problems.add(path_text(node.path), what, Severity.WARNING)
                return None
            self._left -= size
            return content.read(0, size)
        except Ext4kitError as error:
            self.problems.add(path_text(node.path), f"cannot be read: {error}")
            return None


class FolderRoot:
    """A root directory of this computer, such as a mounted reference; see `SystemRoot`.

    Args:
        folder: the directory.
        problems: where unreadable files are added.
    """

    def __init__(self, folder: Path, problems: Problems) -> None:
        self.problems = problems
        self._top = folder.resolve()

    def read(self, path: bytes) -> bytes | None:
        """The content of a file; None without one, or where it cannot be read."""
        return self._read(self._place(path))

    def listing(self, path: bytes) -> Sequence[FoundFile]:
        """The files of a directory, by name; none where there is no directory."""
        place = self._place(path)
        if place is None or not place.is_dir():
            return []
        with os.scandir(place) as entries:
            found = [(os.fsencode(one.name), one.is_dir()) for one in islice(entries, MOST_FILES)]
        return [FoundFile(name, None, is_directory) for name, is_directory in sorted(found)]

    def contents(
        self, path: bytes, names: Sequence[bytes], most: int = MOST_FILE
    ) -> Iterator[tuple[bytes, bytes]]:
        """(name, content) of files of a directory."""
        for name in names:
            if (data := self.read(path + b"/" + name)) is not None:
                yield name, data[:most]

    def _place(self, path: bytes) -> Path | None:
        """Where a path is on this computer; links that lead out of the root lead to nothing."""
        place = self._top
        for name in _names(path):
            place = place / os.fsdecode(name)
            if place.is_symlink() and (target := os.fsencode(place.readlink()))[:1] == b"/":
                place = self._top / os.fsdecode(target.lstrip(b"/"))
            place = place.resolve()
            if not place.is_relative_to(self._top):
                return None
        return place

    def _read(self, place: Path | None) -> bytes | None:
        try:
            if place is None or not stat.S_ISREG(place.stat().st_mode):
                return None
            with place.open("rb") as file:
                data = read_start(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problems.add(str(place), f"cannot be read: {error.strerror}")
            return None
        return data if len(data) <= MOST_FILE else None


def _names(path: bytes) -> tuple[bytes, ...]:
    return tuple(part for part in path.split(b"/") if part)


def read_start(file: BinaryIO) -> bytes:
    """The bytes of a file, a few more than `MOST_FILE` at most; memory for what is there alone."""
    parts, size = list[bytes](), 0
    while size <= MOST_FILE and (part := file.read(_AT_ONCE)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
