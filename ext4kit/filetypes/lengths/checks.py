"""Checks of whole files by the checksums within them, for files put together from pieces."""

from __future__ import annotations

import bz2
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable

from ext4kit.filetypes.lengths.reader import ContentReader


class _Stream(io.RawIOBase):
    """The bytes of a window as a file."""

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


def _zip(window: ContentReader, size: int) -> bool:
    try:
        with zipfile.ZipFile(io.BufferedReader(_Stream(window, size))) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, ValueError, RuntimeError,
            NotImplementedError, EOFError):  # fmt: skip
        return False


def _decompressed(decompressor: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]) -> Check:
    """A check that decompresses all streams of the file."""

    def check(window: ContentReader, size: int) -> bool:
        one, at = decompressor(), 0
        try:
            while at < size and (piece := window.read(at, min(1 << 16, size - at))):
                at += len(piece)
                while piece:
                    one.decompress(piece)
                    piece = one.unused_data if one.eof else b""
                    one = decompressor() if one.eof and (piece or at < size) else one
        except (lzma.LZMAError, OSError, EOFError):
            return False
        return one.eof

    return check


Check = Callable[[ContentReader, int], bool]

CHECKS: dict[str, Check] = {
    "gzip": lambda window, size: True,  # its length was found by decompressing it
    "png": lambda window, size: True,  # and this one by its checksums
    "zip": _zip,
    "xz": _decompressed(lzma.LZMADecompressor),
    "bzip2": _decompressed(bz2.BZ2Decompressor),
}
