"""The hashes of files as lines of `sha256sum`, as CSV and as records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from ext4kit import fields
from ext4kit.fields import HashName, json_name
from ext4kit.known.listing import FileHashes
from ext4kit.report.safe import printable

ALL: tuple[HashName, ...] = ("sha256", "sha1", "md5")
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}


class FileHashRecord(fields.PathText, fields.Digests):
    """The hashes of a live file (`hash --files`)."""

    record: Literal["file hash"]
    volume: Annotated[int | None, "Number of its volume; null in a directory of this computer."]
    size: fields.Size


def file_hash_record(file: FileHashes, volume: int | None) -> FileHashRecord:
    """The hashes of a file as a record; all three algorithms."""
    return {
        "record": "file hash",
        "volume": volume,
        **json_name(file.path),
        "size": file.size,
        "md5": file.digests["md5"],
        "sha1": file.digests["sha1"],
        "sha256": file.digests["sha256"],
    }


def sum_line(file: FileHashes, algorithm: HashName, top: bytes, is_shown: bool) -> bytes:
    r"""A line that `sha256sum -c` checks, with the path from the root or the directory on.

    Args:
        file: the hashes.
        algorithm: the one to give.
        top: directory before the path, b"" for none.
        is_shown: for a terminal, which gets no bytes that control it.
    """
    name = b"." + top + file.path
    digest = file.digests[algorithm].encode()
    if is_shown:
        return digest + b"  " + printable(name).encode() + b"\n"
    return digest_line(digest, name)


def digest_line(digest: bytes, name: bytes) -> bytes:
    """A line as GNU sha256sum writes it: a name with a line end or a backslash is escaped."""
    mark = b""
    for plain, escaped in _ESCAPES.items():
        if plain in name:
            mark, name = b"\\", name.replace(plain, escaped)
    return mark + digest + b"  " + name + b"\n"


def csv_lines(files: Iterable[FileHashes]) -> Iterator[str]:
    """A heading, then a line for each file; paths as in records."""
    yield _csv_line((*ALL, "size", "path"))
    for file in files:
        digests = (file.digests[name] for name in ALL)
        yield _csv_line((*digests, file.size, json_name(file.path)["path"]))


def _csv_line(values: Iterable[object]) -> str:
    held = io.StringIO()
    csv.writer(held, lineterminator="\n").writerow(values)
    return held.getvalue()
