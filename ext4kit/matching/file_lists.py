"""Lists that identify the contents of files by digests, and archives that contain files.

Checksum lists of coreutils and dpkg (md5sum(1), deb-md5sums(5)), `RECORD` of a Python package (PEP
376, PEP 427), the index of a git repository (gitformat-index(5)), zip and tar archives. A list may
be hostile: entries that do not parse are left out, and no path is used without being made safe.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import itertools
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, BinaryIO

from ext4kit.errors import AccessError
from ext4kit.units import NANOSECONDS

MAX_LIST_BYTES = 32 << 20  # maximum size of a list, or of the directory of an archive
MAX_ENTRIES = 500_000  # maximum entries of one list
MIN_CRC_BYTES = 64  # minimum size of files that are identified by CRC-32 and size
_READ = 1 << 20


class DigestKind(StrEnum):
    """The kinds of digest by which lists identify content."""

    MD5 = "MD5"
    SHA1 = "SHA-1"
    SHA256 = "SHA-256"
    BLOB = "git object id"
    CRC32 = "CRC-32"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that is named in a list.

    Attributes:
        path: the path in the list, made safe by removing empty parts, `.` and `..`.
        digest: the kind of digest; value: the digest of the content.
        size: bytes; None where the list has no sizes.
        time: a time (ns) at which the file already had this content; None if that is the time of
            the list.
        inode: its inode number then, modulo 2**32; None where the list has none.
    """

    path: bytes
    digest: DigestKind
    value: bytes
    size: int | None
    time: int | None = None
    inode: int | None = None


def list_reader(path: bytes) -> Callable[[BinaryIO, frozenset[int]], Iterator[ListedFile]] | None:
    """A function that reads the list with this path; None if the path is not that of a list.

    The function takes the opened list and the sizes of the contents to identify; it may leave out
    files of other sizes. It stops where the list is damaged.
    """
    folder, _, name = path.rpartition(b"/")
    name = name.lower()
    if name == b"index":
        is_git = folder.endswith(b".git") or b".git/" in folder
        return _guarded(_read_git_index) if is_git else None
    if name == b"record":
        return _guarded(_read_record) if folder.endswith(b".dist-info") else None
    if _SUMS_NAME.fullmatch(name):
        return _guarded(_read_sums)
    suffix = name.rpartition(b".")[2]
    if suffix in (b"zip", b"whl", b"jar"):
        return _guarded(_read_zip)
    return _guarded(_read_tar) if suffix == b"tar" else None


_Reader = Callable[[BinaryIO, frozenset[int]], Iterator[ListedFile]]
_SUMS_NAME = re.compile(rb"(?:.*\.)?(?:md5|sha1|sha256)(?:sums?)?(?:\.txt)?")
_DAMAGE = (
    AccessError, ValueError, LookupError, ArithmeticError, EOFError, OSError, struct.error,
    zlib.error, csv.Error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError,
)  # fmt: skip


def _guarded(reader: _Reader) -> _Reader:
    def read(stream: BinaryIO, sizes: frozenset[int]) -> Iterator[ListedFile]:
        try:
            yield from itertools.islice(reader(stream, sizes), MAX_ENTRIES)
        except _DAMAGE:
            return

    return read


def _safe_path(path: bytes) -> bytes:
    """A path without empty parts, `.` and `..`; empty if the path leads upwards."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    return b"" if b".." in parts or b"\0" in path else b"/".join(parts)


_SUM = re.compile(rb"([0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}) [ *](\S.*)")
_BY_LETTERS = {32: DigestKind.MD5, 40: DigestKind.SHA1, 64: DigestKind.SHA256}


def _read_sums(stream: BinaryIO, _: frozenset[int]) -> Iterator[ListedFile]:
    for line in stream.read(MAX_LIST_BYTES).splitlines():
        found = _SUM.fullmatch(line)
        path = _safe_path(found[2]) if found else b""
        if found and path:
            value = bytes.fromhex(found[1].decode("ascii"))
            yield ListedFile(path, _BY_LETTERS[len(found[1])], value, None)


def _read_record(stream: BinaryIO, sizes: frozenset[int]) -> Iterator[ListedFile]:
    text = stream.read(MAX_LIST_BYTES).decode("utf-8", "surrogateescape")
    for row in csv.reader(io.StringIO(text)):
        if len(row) != 3 or not row[1].startswith("sha256=") or not row[2].isdecimal():
            continue
        path = _safe_path(row[0].encode("utf-8", "surrogateescape"))
        if path and int(row[2]) in sizes:
            value = base64.urlsafe_b64decode(row[1].removeprefix("sha256=") + "=")
            yield ListedFile(path, DigestKind.SHA256, value, int(row[2]))


_INDEX_ENTRY = struct.Struct(">10I20sH")  # ctime, mtime, dev, ino, mode, uid, gid, size, id, flags
_REGULAR, _EXTENDED, _LENGTH = 0o100000, 0x4000, 0xFFF


def _read_git_index(stream: BinaryIO, sizes: frozenset[int]) -> Iterator[ListedFile]:
    data = stream.read(MAX_LIST_BYTES)
    mark, version, count = struct.unpack_from(">4sII", data)
    if mark != b"DIRC" or version not in (2, 3):  # paths of version 4 are compressed
        return
    at = 12
    for _ in range(min(count, len(data) // _INDEX_ENTRY.size)):
        second, part, _, _, _, inode, mode, _, _, size, value, flags = _INDEX_ENTRY.unpack_from(
            data, at
        )
        start = at + _INDEX_ENTRY.size + 2 * bool(version == 3 and flags & _EXTENDED)
        end = data.index(b"\0", start)
        path = _safe_path(data[start:end])
        at += (end - at) // 8 * 8 + 8
        if path and size in sizes and mode & 0o170000 == _REGULAR:
            changed = second * NANOSECONDS + part
            yield ListedFile(path, DigestKind.BLOB, value, size, changed, inode or None)


class _Bounded(io.BufferedIOBase):
    """An archive; one read returns at most `MAX_LIST_BYTES`, whatever length a header states."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        """The bytes from the current position on."""
        wanted = MAX_LIST_BYTES if size is None or size < 0 else min(size, MAX_LIST_BYTES)
        return self._stream.read(wanted)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the current position and return it."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """The current position."""
        return self._stream.tell()

    def seekable(self) -> bool:
        """True."""
        return True

    def readable(self) -> bool:
        """True."""
        return True


def _read_zip(stream: BinaryIO, sizes: frozenset[int]) -> Iterator[ListedFile]:
    with zipfile.ZipFile(_Bounded(stream)) as archive:
        for one in archive.infolist():
            path = _safe_path(one.filename.encode("utf-8", "surrogateescape"))
            if path and one.file_size in sizes and one.file_size >= MIN_CRC_BYTES:
                yield ListedFile(path, DigestKind.CRC32, one.CRC.to_bytes(4, "big"), one.file_size)


def _read_tar(stream: BinaryIO, sizes: frozenset[int]) -> Iterator[ListedFile]:
    bounded = _Bounded(stream)
    with tarfile.open(fileobj=bounded, mode="r:", errors="surrogateescape") as archive:
        for one in itertools.islice(archive, MAX_ENTRIES):
            archive.members = []  # type: ignore[attr-defined]  # else `tarfile` keeps all members
            path = _safe_path(one.name.encode("utf-8", "surrogateescape"))
            if not (path and one.isreg() and not one.issparse() and one.size in sizes):
                continue
            member = archive.extractfile(one)
            if member is not None:
                value = digest_of(member, one.size, DigestKind.SHA256)
                yield ListedFile(path, DigestKind.SHA256, value, one.size)


def digest_of(stream: IO[bytes], size: int, wanted: DigestKind) -> bytes:
    """The digest of some content.

    Args:
        stream: the bytes of the content.
        size: number of these bytes, which is hashed too for a git object id.
        wanted: the kind of digest.
    """
    if wanted is DigestKind.CRC32:
        found = 0
        while piece := stream.read(_READ):
            found = binascii.crc32(piece, found)
        return found.to_bytes(4, "big")
    state = hashlib.new(_HASHES[wanted], usedforsecurity=False)
    state.update(b"blob %d\0" % size if wanted is DigestKind.BLOB else b"")
    while piece := stream.read(_READ):
        state.update(piece)
    return state.digest()


_HASHES = {
    DigestKind.MD5: "md5",
    DigestKind.SHA1: "sha1",
    DigestKind.SHA256: "sha256",
    DigestKind.BLOB: "sha1",
}
