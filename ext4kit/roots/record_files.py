"""Reads the records of container engines, of which nothing can be trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.links import PathLinks
from ext4kit.filesystem.view import Node, View
from ext4kit.parsers.bolt import BoltDatabase
from ext4kit.problems import Problems, Severity

MOST_JSON = 32 << 20  # bytes
MOST_DATABASE = 256 << 20
MOST_LINE = 1 << 16
MOST_NAMES = 100_000  # in one directory
Json = object  # what a JSON text stands for


class RecordFiles:
    """Files of a tree, read as far as they are sane.

    Args:
        view: the tree; its symlinks are followed within it.
        problems: collects what cannot be read.
    """

    def __init__(self, view: View, problems: Problems) -> None:
        self._view, self._problems = view, problems

    @cached_property
    def _links(self) -> PathLinks:
        return PathLinks(self._view.root)

    def node(self, path: bytes) -> Node | None:
        """What is at a path, symlinks followed; None for nothing."""
        names = tuple(part for part in path.split(b"/") if part)
        return self._links.node(names)

    def is_directory(self, path: bytes) -> bool:
        """Whether a directory is at a path."""
        node = self.node(path)
        return node is not None and node.kind == "directory"

    def names(self, path: bytes) -> list[bytes]:
        """The names in a directory; none where there is no directory."""
        node = self.node(path)
        try:
            found = [] if node is None else [one.name for one in node.children()]
        except (AccessError, CorruptError) as error:
            self.tell(path, str(error))
            return []
        if len(found) > MOST_NAMES:
            self.tell(path, f"only the first {MOST_NAMES:,} names are read")
        return found[:MOST_NAMES]

    def data(self, path: bytes, most: int) -> bytes | None:
        """The bytes of a file; None if there is none, or if it is too large or unreadable."""
        node = self.node(path)
        if node is None or node.kind != "file":
            return None
        try:
            content = node.content()
            if content is None or content.size > most:
                self.tell(path, f"is not read: more than {most:,} bytes, or no content")
                return None
            return content.read(0, content.size)
        except (AccessError, CorruptError) as error:
            self.tell(path, str(error))
            return None

    def line(self, path: bytes) -> str:
        """The text of a small file, without blanks at its ends; "" if there is none."""
        return (self.data(path, MOST_LINE) or b"").decode("utf-8", "replace").strip("\0 \t\r\n")

    def json(self, path: bytes) -> Json:
        """What a JSON file says; None if there is none, or if it is damaged."""
        data = self.data(path, MOST_JSON)
        if data is None:
            return None
        try:
            found: Json = json.loads(data)
        except (ValueError, RecursionError) as error:
            self.tell(path, f"is not JSON: {str(error)[:100]}")
            return None
        return found

    def bolt(self, path: bytes) -> BoltDatabase | None:
        """A database of bbolt; None if there is none, or if it is damaged."""
        data = self.data(path, MOST_DATABASE)
        try:
            return None if data is None else BoltDatabase(data)
        except CorruptError as error:
            self.tell(path, str(error))
            return None

    def tell(self, path: bytes, what: str) -> None:
        """Report a record that is not used."""
        where = path.decode("utf-8", "backslashreplace")
        self._problems.add(where, what, Severity.WARNING)


def text_at(value: Json, *keys: str) -> str:
    """The text at a path of keys; "" if there is none."""
    found = value_at(value, *keys)
    return found if isinstance(found, str) else ""


def created(record: Json) -> dict[str, str]:
    """The time of creation that a record tells, as a detail of a root."""
    text = text_at(record, "created")
    return {"created": text} if text else {}


def text_of(name: bytes) -> str:
    """A name as text; bytes that are no UTF-8 stay apart."""
    return name.decode("utf-8", "surrogateescape")


def value_at(value: Json, *keys: str) -> Json:
    """The value at a path of keys; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def items_at(value: Json, *keys: str) -> Iterator[tuple[str, Json]]:
    """The entries of the object at a path of keys."""
    found = value_at(value, *keys)
    yield from found.items() if isinstance(found, dict) else ()


def list_at(value: Json, *keys: str) -> list[Json]:
    """The list at a path of keys; empty if there is none."""
    found = value_at(value, *keys)
    return found if isinstance(found, list) else []


def texts_at(value: Json, *keys: str) -> list[str]:
    """The texts in the list at a path of keys."""
    return [each for each in list_at(value, *keys) if isinstance(each, str)]


def safe_name(text: str) -> bytes:
    """A text of a record as the name of a file; b"" if it is none."""
    name = text.encode("utf-8", "surrogateescape")
    return b"" if b"/" in name or b"\0" in name or name in (b".", b"..") else name
