"""The process in which The Sleuth Kit runs: one answer per question, until the pipe closes."""

from __future__ import annotations

import hashlib
import json
import stat
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytsk3

from ext4kit.crosscheck.answers import (
    COLUMNS,
    MOST_BYTES,
    NO_INODE,
    PACKED,
    REFUSED,
    ContentDigest,
    Hello,
    Listing,
    Ranges,
)
from ext4kit.evidence.confinement import confine, python_folders
from ext4kit.evidence.forked import Pipe
from ext4kit.evidence.source import Source, peek

_READ_BYTES = 1 << 20
_MOST_TEXT = 300  # maximum characters of an error message
_TYPES = {
    "REG": stat.S_IFREG,
    "DIR": stat.S_IFDIR,
    "CHR": stat.S_IFCHR,
    "BLK": stat.S_IFBLK,
    "FIFO": stat.S_IFIFO,
    "SOCK": stat.S_IFSOCK,
    "LNK": stat.S_IFLNK,
}  # in the order of the numbers in directory entries, from 1
_KINDS = {int(getattr(pytsk3, f"TSK_FS_META_TYPE_{kind}")): mode for kind, mode in _TYPES.items()}
_NAME_TYPES = {
    int(getattr(pytsk3, f"TSK_FS_NAME_TYPE_{kind}")): number
    for number, kind in enumerate(_TYPES, 1)
}
_LINK = int(pytsk3.TSK_FS_META_TYPE_LNK)
_OTHERS = ("number", "name_type", "allocated", "kind")  # columns that are not copied from a field
_META_FIELDS = {  # column -> field of TSK's metadata
    name: {"links_count": "nlink"}.get(name, name.replace("_ns", "_nano"))
    for name in COLUMNS
    if name not in _OTHERS
}
_ALLOCATED = int(pytsk3.TSK_FS_NAME_FLAG_ALLOC)


class _Volume(pytsk3.Img_Info):  # type: ignore[misc]
    """The bytes of a volume for TSK; short reads where the evidence is unreadable."""

    def __init__(self, source: Source) -> None:
        self._source = source
        super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

    def close(self) -> None:
        """Does nothing: the owner of the evidence closes it."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at `offset`, fewer at the end or where they are unreadable."""
        return peek(self._source, offset, size)

    def get_size(self) -> int:
        """Size of the volume in bytes."""
        return self._source.size


class _Reader:
    """TSK over one volume."""

    def __init__(self, source: Source) -> None:
        self._volume = _Volume(source)  # TSK does not keep a reference
        self._fs = pytsk3.FS_Info(self._volume, 0, pytsk3.TSK_FS_TYPE_EXT_DETECT)

    def hello(self) -> Hello:
        """TSK's view of the file system."""
        info = self._fs.info
        is_ext4 = int(info.ftype) == int(pytsk3.TSK_FS_TYPE_EXT4)
        return Hello(str(pytsk3.get_version()), is_ext4, int(info.last_inum))

    def listing(self, number: int) -> Listing:
        """The entries of a directory."""
        names: list[bytes] = []
        values = array("q")
        for entry in self._fs.open_dir(inode=number):
            info = entry.info
            names.append(bytes(info.name.name or b""))
            values.extend(_row(info.name, info.meta))
        return Listing(names, np.array(values, np.int64).reshape(-1, len(COLUMNS)))

    def digests(self, wanted: list[tuple[int, Ranges]]) -> list[ContentDigest]:
        """Hashes of contents (inode number, ranges), each with its own error."""
        found = []
        for number, ranges in wanted:
            digest, length, error = hashlib.sha256(), 0, ""
            try:
                for piece in _content(self._fs.open_meta(number), ranges):
                    digest.update(piece)
                    length += len(piece)
            except (OSError, RuntimeError) as failure:
                error = _said(failure)
            found.append(ContentDigest(digest.hexdigest(), length, error))
        return found


def _row(name: Any, meta: Any) -> list[int]:
    """An entry as the columns of `COLUMNS`; without metadata they are 0."""
    found = {
        "number": int(name.meta_addr),
        "name_type": _NAME_TYPES.get(int(name.type), 0),
        "allocated": int(bool(int(name.flags) & _ALLOCATED)),
        "kind": NO_INODE if meta is None else _KINDS.get(int(meta.type), 0),
    }
    if meta is not None:
        found |= {column: int(getattr(meta, field)) for column, field in _META_FIELDS.items()}
    return [found.get(column, 0) for column in COLUMNS]


def _content(file: Any, ranges: Ranges) -> Iterator[bytes]:
    """The bytes of the ranges; for a link target in the inode, TSK's separate target field."""
    target = file.info.meta.link if int(file.info.meta.type) == _LINK else None
    if target is not None:
        yield bytes(target)
        return
    for offset, size in ranges:
        end = offset + size
        while offset < end and (piece := file.read_random(offset, min(_READ_BYTES, end - offset))):
            yield piece
            offset += len(piece)


def _said(error: Exception) -> str:
    """An error message of TSK on one line."""
    return " ".join(str(error).split())[:_MOST_TEXT]


def work(pipe: Pipe, source: Source, folders: Sequence[Path]) -> None:
    """Answer questions until the pipe closes, in the form that `answers` packs."""
    confine([*folders, *python_folders()])
    reader: _Reader | None = None
    while True:
        name, *arguments = json.loads(pipe.receive(MOST_BYTES))
        try:
            reader = _Reader(source) if reader is None else reader
            answer = PACKED[name](getattr(reader, name)(*arguments))
        except (OSError, RuntimeError) as error:
            answer = REFUSED + _said(error).encode("utf-8", "backslashreplace")
        pipe.send(answer)
