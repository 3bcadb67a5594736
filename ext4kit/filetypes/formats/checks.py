"""Checks of whole files by the checksums in them, for files joined from several pieces."""

from __future__ import annotations

import bz2
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable

from ext4kit.filetypes.formats.declaration import Check
from ext4kit.filetypes.formats.reader import CHEAPER, ContentReader

_PIECE, _READ = 1 << 20, 1 << 16  # bytes decompressed at a time; bytes read at a time
_MOST_MEMORY = 256 << 20  # maximum bytes of an xz dictionary
_END_RECORD, _MOST_DIRECTORY = 22 + 65_535, 16 << 20  # bytes
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)  # LZMA has no memory limit


class _Stream(io.RawIOBase):
    """The bytes of a window as a readable file."""

    def __init__(self, window: ContentReader, size: int) -> None:
        self._window, self._size, self._at = window, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        found = self._window.read(self._at, min(len(buffer), self._size - self._at))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _directory_size(window: ContentReader, size: int) -> int:
    """Bytes of the central directory, which `zipfile` reads as a whole; 0 if unknown."""
    tail = window.read(max(size - _END_RECORD, 0), _END_RECORD)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or tail[max(at - 20, 0) : at].startswith(b"PK\6\7"):
        return 0  # the zip64 record would state the size
    return int.from_bytes(tail[at + 12 : at + 16], "little")


def unzips(window: ContentReader, size: int) -> bool | None:
    """Whether the CRC of every member of a zip archive matches; None if this is unknown."""
    try:
        if not 0 < _directory_size(window, size) <= _MOST_DIRECTORY:
            return None
        with zipfile.ZipFile(io.BufferedReader(_Stream(window, size))) as archive:
            if any(member.compress_type not in _METHODS for member in archive.infolist()):
                return None
            for member in archive.infolist():
                with archive.open(member) as content:  # raises at the end if the CRC is wrong
                    while piece := content.read(_PIECE):
                        if not window.budget.spend(len(piece) >> CHEAPER):
                            return None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, ValueError, EOFError):
        return False
    except (RuntimeError, NotImplementedError):  # encrypted, or a method that Python lacks
        return None
    return True


def _decompressed(make: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]) -> Check:
    """Make a check that decompresses all streams of a file, piece by piece."""

    def check(window: ContentReader, size: int) -> bool | None:
        source = _Stream(window, size)
        stream, parts = make(), iter(lambda: source.read(_READ), b"")
        try:
            while True:
                given = b""
                if stream.eof:
                    given = (stream.unused_data or next(parts, b"")).lstrip(b"\0")  # padding
                    stream = make() if given else stream
                elif stream.needs_input:
                    given = next(parts, b"")
                if not given and (stream.eof or stream.needs_input):
                    return stream.eof if window.budget.left >= 0 else None
                if not window.budget.spend(len(stream.decompress(given, _PIECE)) >> CHEAPER):
                    return None
        except (lzma.LZMAError, OSError, EOFError) as error:
            return None if "limit" in str(error) else False  # memory limit

    return check


def proven_by_length(window: ContentReader, size: int) -> bool:
    """True: the length was found with the checksums in the file, so these match."""
    return True


decompresses_xz: Check = _decompressed(lambda: lzma.LZMADecompressor(memlimit=_MOST_MEMORY))
decompresses_bzip2: Check = _decompressed(bz2.BZ2Decompressor)
