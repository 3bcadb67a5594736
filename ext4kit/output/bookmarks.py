"""The case file of the browser: bookmarks with notes, one JSON record a line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, TypedDict, cast

from ext4kit import fields
from ext4kit.errors import OutputError, RequestError
from ext4kit.fields import json_name
from ext4kit.filesystem.view import Node
from ext4kit.output.manifest import encoded

_APPENDED = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_MOST_READ = 1 << 26  # bytes


class BookmarkRecord(fields.PathText):
    """A bookmark of `browse`, in the file of `--case`."""

    record: Literal["bookmark"]
    time: Annotated[int, "When it was set, by the clock of this computer."]
    id: Annotated[str, "Identity of the node, the same in every run on the same evidence."]
    tree: Annotated[str, "The tree that has it: files, unattached, unallocated or carved."]
    inode: fields.Inode | None
    size: fields.Size | None
    grade: Annotated[str | None, "Grade of the content; null for a live file."]
    transaction: Annotated[int | None, "State that shows it; null for the present."]
    note: str
    locator: Annotated[str, "The address of the file system, in one line."]


class _Kept(TypedDict):
    record: str


def bookmark(
    node: Node, path: bytes, tree: str, transaction: int | None, note: str, locator: str
) -> BookmarkRecord:
    """A bookmark of a file, set now."""
    return {
        "record": "bookmark",
        "time": time.time_ns(),
        **json_name(path),
        "id": str(node.id),
        "tree": tree,
        "inode": node.number,
        "size": node.size,
        "grade": node.grade,
        "transaction": transaction,
        "note": note,
        "locator": locator,
    }


def append_bookmark(path: Path, record: BookmarkRecord, evidence: tuple[Path, ...]) -> None:
    """Add a record to a case file: the whole line, or nothing of it.

    Raises:
        RequestError: the file is evidence.
        OutputError: it cannot be written.
    """
    if path.resolve() in {each.resolve() for each in evidence}:
        raise RequestError(f"{path}: is the evidence; choose another name")
    try:
        handle = os.open(path, _APPENDED, 0o666)
        try:
            _append(handle, encoded(dict(record)))
        finally:
            os.close(handle)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; the bookmark is not saved") from error


def _append(handle: int, line: bytes) -> None:
    """Add a line in one call; what a full disk took of it is taken back.

    Raises:
        OSError: it cannot be written.
    """
    _lock(handle)
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":
        line = b"\n" + line  # after a line that a power cut left
    try:
        if os.write(handle, line) != len(line):
            raise OSError(28, os.strerror(28))
        os.fsync(handle)
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, size)
        raise


def _lock(handle: int) -> None:
    """Let other writers wait until the file is closed."""
    with suppress(ImportError):
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)


def read_bookmarks(path: Path) -> Iterator[BookmarkRecord]:
    """The bookmarks of a case file; lines of another kind are left out.

    Raises:
        OutputError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            lines = stream.read(_MOST_READ).splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"{path}: could not be read: {error.strerror}") from error
    for line in lines:
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and cast(_Kept, found).get("record") == "bookmark":
                yield cast(BookmarkRecord, found)
