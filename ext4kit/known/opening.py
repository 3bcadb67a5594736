"""Opens lists of known files: text, CSV, and SQLite databases."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import RequestError
from ext4kit.known.database import open_database
from ext4kit.known.lists import DigestList, KnownList
from ext4kit.known.table import DIGITS, DigestTable
from ext4kit.known.text import Lines, Parsed, parser_of, pieces

_SQLITE = b"SQLite format 3\0"
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-16
_HEAD = 1 << 16


def open_list(path: Path) -> KnownList:
    """Open a list of known files, read-only.

    Raises:
        RequestError: it cannot be read, or there is no hash in it.
    """
    try:
        if not path.is_file():
            raise RequestError(f"{path}: is not a file")
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
            stream.seek(0)
            if head.startswith(_SQLITE):
                return open_database(path)
            return _read_text(path, _narrowed(stream, head), head)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error


def _narrowed(stream: BinaryIO, head: bytes) -> BinaryIO:
    """The text in UTF-8, where Windows wrote it in UTF-16."""
    if head[:2] not in _WIDE:
        return stream
    return io.BytesIO(stream.read().decode("utf-16", "replace").encode())


def _read_text(path: Path, stream: BinaryIO, head: bytes) -> DigestList:
    if head[:2] in _WIDE:
        head = stream.read(_HEAD)
        stream.seek(0)
    parse, skipped = parser_of(head)
    parts, bad, first_bad, done = list[Parsed](), 0, 0, 0
    for lines in _lines(stream, skipped):
        part = parse(lines)
        if part.is_bad.any():
            bad += int(part.is_bad.sum())
            first_bad = first_bad or skipped + done + int(part.is_bad.argmax()) + 1
        done += len(lines.start)
        parts.append(part)
    tables = {
        name: DigestTable.of(np.concatenate(rows))
        for digits, name in DIGITS.items()
        if (rows := list(chain.from_iterable(part.rows.get(digits, ()) for part in parts)))
    }
    if not tables:
        raise RequestError(f"{path}: has no MD5, SHA-1 or SHA-256{' in it' if done else ': empty'}")
    return DigestList(path.name, tables, _sizes(parts), bad, first_bad)


def _lines(stream: BinaryIO, skipped: int) -> Iterator[Lines]:
    """The lines of a list after its first ones, many at a time."""
    for number, piece in enumerate(pieces(stream)):
        data = piece
        if not number:
            data = data.removeprefix(b"\xef\xbb\xbf")
            for _ in range(skipped):
                data = data.partition(b"\n")[2]
        if data:
            yield Lines.of(data)


def _sizes(parts: list[Parsed]) -> Int64s | None:
    """All sizes, sorted; None where a digest has none."""
    found = [part.sizes for part in parts if part.rows]
    known = [sizes for sizes in found if sizes is not None]
    return np.unique(np.concatenate(known)) if known and len(known) == len(found) else None
