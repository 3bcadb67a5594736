"""The members of tar and zip archives, also of damaged ones.

Sources: POSIX pax (ustar and extended headers), the GNU tar manual for long names; APPNOTE.TXT for
zip. `tarfile` and `zipfile` trust the sizes that headers state; `zipfile` reads the central
directory here, with a limit.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

from ext4kit.errors import AccessError
from ext4kit.filetypes.formats.archives import tar_number, tar_sum_fits
from ext4kit.search.packed_streams import (
    PIECE,
    NotUnpackedError,
    PackedPart,
    Pieces,
    Reader,
    decompressed_member,
    read_fully,
)

_TAR_BLOCK = 512
_MOST_NAME = 64 << 10  # bytes of an extended header that are read
_MOST_DIRECTORY = 32 << 20  # bytes of the central directory of a zip archive
_METHODS = {8: "deflate", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}
_STORED, _ENCRYPTED, _UTF8, _LOCAL = 0, 1, 0x800, b"PK\3\4"
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_UNKNOWN = 0xFFFFFFFF
_PAX = re.compile(rb"\d+ (path|size)=([^\n]*)\n")


# ----------------------------------------------------------------------------------------- tar


class TarMember(NamedTuple):
    """A member of a tar archive.

    Attributes:
        name: as stated.
        kind: the byte that states its type.
        size: bytes of its content.
        mtime: seconds since 1970; None if it is not stated.
        body: the content; what is not read of it is passed over.
        at: byte of the content in the archive.
    """

    name: str
    kind: bytes
    size: int
    mtime: int | None
    body: Reader
    at: int


def tar_parts(stream: Reader) -> Iterator[PackedPart]:
    """The files of a tar archive, read from start to end.

    Raises:
        NotUnpackedError: a header is damaged.
    """
    for one in tar_members(stream):
        if one.kind in (b"\0", b"0", b"7", b"S"):
            yield PackedPart(one.name, one.body, one.at)


def tar_members(stream: Reader) -> Iterator[TarMember]:
    """All members of a tar archive, from start to end; contents are read only by the caller.

    Raises:
        NotUnpackedError: a header is damaged.
    """
    at, name, size = 0, "", None
    while True:
        head = read_fully(stream, _TAR_BLOCK)
        at += len(head)
        if not head.strip(b"\0"):
            return
        stated = tar_number(head[124:136]) if len(head) == _TAR_BLOCK else None
        if stated is None or not tar_sum_fits(head) or head[124] == 0xFF:
            raise NotUnpackedError(f"its header at byte {at - len(head):,} is damaged")
        kind, length = head[156:157], stated if size is None else size
        if kind in (b"L", b"x"):
            data = read_fully(stream, min(stated, _MOST_NAME))
            name, size = _extended(kind, data, name, size)
            _skip(stream, stated - len(data))
        else:
            at += _skip_maps(stream, head)
            body = _Limited(stream, length)
            mtime = tar_number(head[136:148])
            yield TarMember(name or _tar_name(head), kind, length, mtime, body, at)
            body.skip()
            name, size, stated = "", None, length
        at += stated
        _skip(stream, -stated % _TAR_BLOCK)
        at += -stated % _TAR_BLOCK


def _extended(kind: bytes, data: bytes, name: str, size: int | None) -> tuple[str, int | None]:
    """Name and size of the next member, after a header that states them."""
    if kind == b"L":
        return _text(data.rstrip(b"\0")), size
    for key, value in _PAX.findall(data):
        if key == b"path":
            name = _text(value)
        elif value.isdigit():
            size = int(value[:19])
    return name, size


def _skip_maps(stream: Reader, head: bytes) -> int:
    """Pass over the blocks that go on with the map of a sparse file; their bytes."""
    more, done = head[156:157] == b"S" and head[482] == 1, 0
    while more:
        further = read_fully(stream, _TAR_BLOCK)
        done += len(further)
        more = len(further) == _TAR_BLOCK and further[504] == 1
    return done


def _tar_name(head: bytes) -> str:
    name, prefix = head[:100].split(b"\0")[0], head[345:500].split(b"\0")[0]
    is_posix = head[257:263] == b"ustar\0"
    return _text(prefix + b"/" + name if prefix and is_posix else name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


class _Limited:
    """A part of a stream.

    Raises:
        NotUnpackedError: from `read`, the stream ends before the part.
    """

    def __init__(self, stream: Reader, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int, /) -> bytes:
        if not self._left:
            return b""
        data = self._stream.read(min(size, self._left))
        if not data:
            raise NotUnpackedError(f"the archive ends {self._left:,} bytes before its end")
        self._left -= len(data)
        return data

    def skip(self) -> None:
        """Pass over the rest."""
        if isinstance(self._stream, Skipping):
            self._stream.skip(self._left)
            return
        while self.read(PIECE):
            pass


@runtime_checkable
class Skipping(Protocol):
    """A stream that passes over bytes without reading them."""

    def skip(self, size: int) -> None:
        """Pass over bytes."""


def _skip(stream: Reader, size: int) -> None:
    if isinstance(stream, Skipping):
        stream.skip(max(size, 0))
        return
    while size > 0 and (data := stream.read(min(size, PIECE))):
        size -= len(data)


# ----------------------------------------------------------------------------------------- zip


class ZipMember(NamedTuple):
    """A member of a zip archive.

    Attributes:
        name: as stated; the name of a directory ends with a slash.
        method: of compression.
        is_encrypted: whether it needs a password.
        header: byte of its local header.
        packed: bytes; None if they are not stated.
        size: bytes without compression; None if they are not stated.
        date: year, month, day, hour, minute and second of its last change, in an unknown zone.
    """

    name: str
    method: int
    is_encrypted: bool
    header: int
    packed: int | None
    size: int | None
    date: tuple[int, int, int, int, int, int]

    @property
    def method_name(self) -> str:
        """The method in a word."""
        return "stored" if self.method == _STORED else _METHODS.get(self.method, "unknown")


def zip_parts(file: BinaryIO) -> Iterator[PackedPart]:
    """The files of a zip archive.

    Raises:
        NotUnpackedError: the central directory was not used.
    """
    members, problem = zip_members(file)
    for one in members:
        if not one.name.endswith("/"):
            yield _part_of(file, one)
    if problem:
        raise NotUnpackedError(f"{problem}; read without it")


def zip_members(
    file: BinaryIO, most_directory: int = _MOST_DIRECTORY
) -> tuple[Iterator[ZipMember], str]:
    """The members of a zip archive, and why its central directory was not used.

    The central directory has the members. Where it is missing or damaged, as in a file that is not
    whole, the headers before each member are read from start to end.

    Args:
        file: the archive.
        most_directory: bytes of the central directory that are read.
    """
    try:
        with zipfile.ZipFile(_Bounded(file, most_directory)) as archive:
            members = [
                ZipMember(_zip_name(one), one.compress_type, bool(one.flag_bits & _ENCRYPTED),
                        one.header_offset, one.compress_size, one.file_size, one.date_time)
                for one in archive.infolist()
            ]  # fmt: skip
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, AccessError, struct.error,
            OverflowError) as error:  # fmt: skip
        return _local_members(file), f"its central directory cannot be read: {error}"
    return iter(members), ""


def _zip_name(one: zipfile.ZipInfo) -> str:
    """The name of a member, in UTF-8 where that is possible, as it is written on Unix."""
    if one.flag_bits & _UTF8:
        return one.filename
    return _member_name(one.filename.encode("cp437", "replace"))


def _member_name(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("cp437")


def _part_of(file: BinaryIO, one: ZipMember) -> PackedPart:
    if one.is_encrypted:
        return PackedPart(one.name, None, refusal="it is encrypted")
    if one.method != _STORED and one.method not in _METHODS:
        return PackedPart(one.name, None, refusal=f"compression method {one.method} is not known")
    try:
        head = _local_header(file, one.header)
    except AccessError as error:
        return PackedPart(one.name, None, refusal=str(error))
    if head is None:
        return PackedPart(one.name, None, refusal="its header is damaged")
    start = one.header + _LOCAL_HEADER.size + head[9] + head[10]
    section = _Section(file, start, one.packed)
    if one.method == _STORED:
        return PackedPart(one.name, section, start)
    return PackedPart(one.name, Pieces(decompressed_member(section, _METHODS[one.method])))


def _local_header(file: BinaryIO, at: int) -> tuple[int, ...] | None:
    if at < 0:
        return None
    file.seek(at)
    data = file.read(_LOCAL_HEADER.size)
    if len(data) < _LOCAL_HEADER.size or data[:4] != _LOCAL:
        return None
    return _LOCAL_HEADER.unpack(data)


def _local_members(file: BinaryIO) -> Iterator[ZipMember]:
    """The members by the headers before each of them."""
    at: int | None = 0
    while at is not None and (head := _local_header(file, at)) is not None:
        _, _, flags, method, time, date, _, packed, size, name_length, more = head
        name = _member_name(file.read(name_length))
        start = at + _LOCAL_HEADER.size + name_length + more
        is_known = not flags & 8 and _UNKNOWN not in (packed, size)
        yield ZipMember(name, method, bool(flags & _ENCRYPTED), at, packed if is_known else None,
                        size if is_known else None, _date_of(date, time))  # fmt: skip
        at = start + packed if is_known else _next_header(file, start)


def _date_of(date: int, time: int) -> tuple[int, int, int, int, int, int]:
    """A date of MS-DOS: year, month, day, hour, minute, second."""
    day = (date >> 9) + 1980, date >> 5 & 0xF, date & 0x1F
    return (*day, time >> 11, time >> 5 & 0x3F, (time & 0x1F) * 2)


def _next_header(file: BinaryIO, at: int) -> int | None:
    """The next local header; None where none follows within 256 MiB."""
    kept, end = b"", at + (256 << 20)
    while at < end:
        file.seek(at)
        try:
            data = file.read(PIECE)
        except AccessError:
            return None
        if not data:
            return None
        found = (kept + data).find(_LOCAL)
        if found >= 0:
            return at - len(kept) + found
        kept = data[-3:]
        at += len(data)
    return None


class _Section:
    """A range of a file; to its end where the size is not known."""

    def __init__(self, file: BinaryIO, start: int, size: int | None) -> None:
        self._file, self._at, self._left = file, start, size

    def read(self, size: int, /) -> bytes:
        if self._left is not None:
            size = min(size, self._left)
        if size <= 0:
            return b""
        try:
            self._file.seek(self._at)
            data = self._file.read(size)
        except AccessError as error:
            raise NotUnpackedError(str(error)) from error
        if not data and self._left:
            raise NotUnpackedError(f"the archive ends {self._left:,} bytes before its end")
        self._at += len(data)
        if self._left is not None:
            self._left -= len(data)
        return data


class _Bounded(io.BufferedIOBase):
    """A file of which one read has a limit, whatever size a header states."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most = file, most

    def read(self, size: int | None = -1, /) -> bytes:
        """The bytes from the position on."""
        wanted = self._most if size is None or size < 0 else min(size, self._most)
        return self._file.read(wanted)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set and return the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._file.tell()

    def seekable(self) -> bool:
        """True."""
        return True

    def readable(self) -> bool:
        """True."""
        return True
