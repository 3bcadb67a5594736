"""What an earlier run left in an output folder, for a run that goes on with it.

The same work in the same order gives the same names. What stands at the name of a file is kept if
the earlier manifest has a record of this file for it and its bytes have the hash of that record.
It is replaced if it has a record, or holds nothing but a part of this content, as a run that was
killed leaves it. Anything else is not of the recovery and stays; the file then gets another name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np

from ext4kit.errors import OutputError, path_text
from ext4kit.fields import Record
from ext4kit.filesystem.content import Chunk
from ext4kit.output.folders import Folders, OutputPlace
from ext4kit.output.interrupts import interrupts_heeded
from ext4kit.output.manifest import MANIFEST, OWN, settle_manifests
from ext4kit.output.own import is_own
from ext4kit.problems import Problems, Severity

LONG = 1 << 16  # bytes that may take long to copy
_LONGEST = 1 << 26  # bytes of a record: those of the longest lists of extents are far below
_PIECE = 1 << 20
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_READ |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_TO_DATA = getattr(os, "SEEK_DATA", None)


@dataclass(frozen=True, slots=True)
class Expected:
    """What belongs at a path.

    Attributes:
        is_part: whether what stands at a place holds nothing but a part of it.
        size: bytes.
        is_record: whether an earlier record is that of this file; None for what is made anew.
    """

    is_part: Callable[[OutputPlace], bool]
    size: int = 0
    is_record: Callable[[Record], bool] | None = None


class EarlierRun:
    """What an earlier run left: entries by path below the folder, and records by output.

    An entry is in here until this run has taken it.

    Args:
        out: the folder.
        folders: those in which this run writes.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, out: Path, folders: Folders) -> None:
        settle_manifests(out)
        self._folders = folders
        self._is_folder = dict(_entries(out))
        self._at = 0  # where the next record begins
        self._places: dict[str, int] = {}  # of records that are not in the order of this run
        handle = open_regular(folders.place(MANIFEST))
        self._stream = None if handle is None else open(handle, "rb", _PIECE)  # noqa: PTH123, SIM115

    def takes_folder(self, path: str) -> bool:
        """Whether there is a folder at a path, and no link to one; this run has it now."""
        return self._is_folder.get(path, False) and self._is_folder.pop(path)

    def take(self, path: str, expected: Expected) -> tuple[int, str] | None:
        """A right file as (its descriptor, its SHA-256); None where the path is free now.

        Raises:
            FileExistsError: what is there is of this run, or no run made it.
        """
        if path not in self._is_folder:
            raise FileExistsError(errno.EEXIST, "of this run", path)
        record, at = self._record_of(path), self._folders.place(path)
        if record is not None and expected.is_record is not None and expected.is_record(record):
            kept = _right_file(self._folders, at, expected.size, record)
            if kept is not None:
                del self._is_folder[path]
                return kept
        if record is None and not expected.is_part(at):
            raise FileExistsError(errno.EEXIST, "of no run", path)
        self._remove(path, at)
        return None

    def drop(self, paths: Iterable[str], expected: Expected) -> None:
        """Remove the unfinished files that are named so, up to the first name that is free.

        A folder that nothing else is in goes with them.
        """
        for path in paths:
            if path not in self._is_folder:
                return
            at = self._folders.place(path)
            if expected.is_part(at):
                self._remove(path, at)
                above = path.rpartition("/")[0]
                if above in self._is_folder:  # this run has no other use for it so far
                    with suppress(FileExistsError):
                        self._remove(above, self._folders.place(above))

    def report(self, problems: Problems) -> None:
        """Tell what no run has made, and close the manifest."""
        if self._stream is not None:
            self._stream.close()
        left = [path for path, is_folder in self._is_folder.items() if not is_folder]
        if left:
            shown = path_text(os.fsencode(min(left)))
            others = f" and {len(left) - 1:,} more" if len(left) > 1 else ""
            text = f"not of this recovery, left as it is: {shown}{others}"
            problems.add("output folder", text, Severity.WARNING)

    def _remove(self, path: str, at: OutputPlace) -> None:
        """Remove an entry.

        Raises:
            FileExistsError: it is a folder that is not empty.
        """
        try:
            (os.rmdir if self._is_folder[path] else os.unlink)(at.name, dir_fd=at.folder)
        except OSError as error:
            if not self._is_folder[path]:
                raise
            raise FileExistsError(errno.EEXIST, error.strerror, path) from error
        if self._is_folder.pop(path):
            self._folders.forget(path)

    def _record_of(self, path: str) -> Record | None:
        """The earlier record that names a path; records are asked for mostly in their order."""
        if path in self._places:
            return self._read(self._places.pop(path))[0]
        while True:
            at = self._at
            record, length = self._read(at)
            if not length:
                return None
            self._at += length
            names = _names(record)
            self._places.update(dict.fromkeys(names, at))
            if path in names:
                del self._places[path]
                return record

    def _read(self, at: int) -> tuple[Record, int]:
        """(the record at a place, empty where it is damaged, length of its line)."""
        if self._stream is None:
            return {}, 0
        self._stream.seek(at)
        line = self._stream.readline(_LONGEST)
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
        return (record if isinstance(record, dict) else {}), len(line)


def open_regular(place: OutputPlace) -> int | None:
    """A descriptor to read a regular file; None where there is none, or anything else.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return place.open(_READ) if stat.S_ISREG(place.facts().st_mode) else None
    except FileNotFoundError:
        return None


def holds_only(chunks: Callable[[], Iterable[Chunk]], size: int, place: OutputPlace) -> bool:
    """Whether a file holds nothing but a part of a content: its bytes, or zeros in their place."""
    handle = None
    with suppress(OSError):
        handle = open_regular(place)
    if handle is None:
        return False
    with open(handle, "rb", 0) as stream:  # noqa: PTH123
        end = os.fstat(handle).st_size
        if end > size:
            return False
        for chunk in chunks() if end else ():
            length = min(chunk.length, end - chunk.offset)
            if length <= 0:
                return True
            if chunk.data is None:
                is_part = _is_zero(stream, chunk.offset, chunk.offset + length)
            else:
                stream.seek(chunk.offset)
                is_part = _agrees(stream.read(length), bytes(chunk.data[:length]))
            if not is_part:
                return False
        return True


def _agrees(there: bytes, data: bytes) -> bool:
    """Whether each byte is that of the content or zero."""
    first, second = np.frombuffer(there, np.uint8), np.frombuffer(data, np.uint8)
    return len(first) == len(second) and bool(((first == second) | (first == 0)).all())


def _is_zero(stream: FileIO, start: int, end: int) -> bool:
    """Whether a range of a file is zeros; holes are not read."""
    while start < end:
        if _TO_DATA is not None:
            try:
                start = stream.seek(start, _TO_DATA)
            except OSError:  # no data behind it
                return True
        stream.seek(start)
        piece = stream.read(min(max(end - start, 0), _PIECE))
        if piece.strip(b"\0"):
            return False
        start += len(piece) or end
    return True


def _right_file(
    folders: Folders, at: OutputPlace, size: int, record: Record
) -> tuple[int, str] | None:
    """(descriptor, SHA-256) of a file that is as its record says, and has no other names."""
    handle = None
    with suppress(OSError):
        handle = open_regular(at)
    if handle is None:
        return None
    is_right = False
    try:
        facts = os.fstat(handle)
        if facts.st_size == size and facts.st_nlink == 1 + _links_to(folders, facts, record):
            digest = _digest(handle, size)
            is_right = digest == record.get("sha256")
    finally:
        if not is_right:
            os.close(handle)
    return (handle, digest) if is_right else None


def _links_to(folders: Folders, facts: os.stat_result, record: Record) -> int:
    """How many of the further names of a record are names of this file."""
    count = 0
    for name in _names(record)[1:]:
        with suppress(OSError, ValueError, OutputError):
            count += os.path.samestat(folders.place(name).facts(), facts)
    return count


def _digest(handle: int, size: int) -> str:
    """SHA-256 of a file; interrupts that wait are accepted while a long one is read."""
    with interrupts_heeded() if size >= LONG else nullcontext():
        digest = hashlib.sha256()
        while piece := os.read(handle, _PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _names(record: Record) -> list[str]:
    """The output of a record, then its further names."""
    output, links = record.get("output"), record.get("hard_links")
    further = links if isinstance(links, list) else []
    return [name for name in (output, *further) if isinstance(name, str)]


def _entries(out: Path) -> Iterator[tuple[str, bool]]:
    """(path below a folder, whether it is a folder) of all that is not of the run itself."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with suppress(PermissionError), os.scandir(f"{out}{os.sep}{above}") as entries:
            for entry in entries:
                if above or not (entry.name in OWN or is_own(Path(entry.path))):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    yield above + entry.name, is_folder
                    waiting += [f"{above}{entry.name}/"] * is_folder
