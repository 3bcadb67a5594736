"""Compressed raw images, which are decompressed once into a sparse file without a name.

Neither a gzip nor a plain xz file can be read from the middle without decompressing everything
before. Both must be read to the end to verify them and to get their size. Therefore opening
decompresses the whole file. Runs of zeros become holes, and the result is then read as a raw image.
The temporary file ceases to exist when the process ends. Because a few kilobytes can decompress to
more than any disk holds, the space is limited.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ext4kit.errors import AccessError
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.limits import OpenLimits
from ext4kit.evidence.raw import RawFile, bytes_on_disk
from ext4kit.evidence.temporary import keep_off, temporary_file
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from ext4kit.evidence.openers import OpenRequest

_AT_ONCE = 1 << 20
_HOLE = 64 << 10
_XZ_MEMORY = 256 << 20  # bytes for a dictionary; `xz -9` needs 65 MiB
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, ValueError)


class _XzFile(io.BufferedIOBase):
    """The decompressed bytes of an xz file, with a memory limit, which Python's own reader lacks.

    Args:
        path: the file, one or more streams with zero padding between them.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._decoder = self._fresh()

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)

    def read1(self, size: int = -1) -> bytes:
        """Up to `size` bytes; none at the end."""
        while True:
            more = b""
            if self._decoder.eof:
                more = (self._decoder.unused_data or self._file.read(_AT_ONCE)).lstrip(b"\0")
                if not more and not self._file.peek(1):
                    return b""
                self._decoder = self._fresh()
            elif self._decoder.needs_input and not (more := self._file.read(_AT_ONCE)):
                raise EOFError("it ends within a stream")
            if piece := self._decoder.decompress(more, size):
                return piece

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


Opener = Callable[[Path], io.BufferedIOBase]
_OPENERS: dict[str, Opener] = {"gzip": gzip.GzipFile, "xz": _XzFile, "bzip2": bz2.BZ2File}


class _Room:
    """The space that a decompressed image may take.

    Args:
        path: the compressed file.
        limits: the limits of the space.
    """

    def __init__(self, path: Path, limits: OpenLimits) -> None:
        self._path, self._limits = path, limits
        self._folder = tempfile.gettempdir()
        free = shutil.disk_usage(self._folder).free
        self._most = free // 2 if limits.unpacked is None else limits.unpacked
        self._taken = 0

    def take(self, count: int, size: int) -> None:
        """Count bytes that are about to be written; `size` bytes are decompressed by then.

        Raises:
            AccessError: the limit is exceeded.
        """
        self._taken += count
        if self._taken <= self._most:
            return
        ratio = size / max(self._path.stat().st_size, 1)
        facts = f"its image takes more than {self._most:,} bytes in {self._folder}"
        facts += f" ({ratio:,.0f} times as much as the file so far)"
        if self._limits.unpacked is None:
            facts += ", half of the free space"
            if self._limits.ask is not None and self._limits.ask(f"{self._path}: {facts}"):
                self._most = shutil.disk_usage(self._folder).free + self._taken
                return
        raise AccessError(f"{self._path}: {facts}: --unpack-limit SIZE allows more")


def open_container(request: OpenRequest) -> Evidence:
    """The image in a gzip, xz or bzip2 file, decompressed into the directory of temporary files.

    Data before damage is kept, and the damage becomes a problem.

    Raises:
        AccessError: nothing can be decompressed, or there is not enough space.
    """
    path, kind, problems = request.path, request.kind, Problems()
    keep_off((path,))
    with temporary_file(buffering=0) as target:
        size, damage = _unpack(path, _OPENERS[kind], target, _Room(path, request.limits))
        if damage:
            text = f"its {kind} data is damaged after them ({damage}): the rest is missing"
            problems.add(f"image, the first {size:,} bytes", text)
        if not size:
            raise AccessError(f"{path}: nothing in it can be unpacked: {damage or 'it is empty'}")
        held = bytes_on_disk(os.fstat(target.fileno()))
        source = RawFile(path, os.dup(target.fileno()))
    ratio = size / max(path.stat().st_size, 1)
    text = f"unpacked to a temporary file in {tempfile.gettempdir()} ({held:,} bytes, {ratio:,.1f}"
    text += " times the file with its zeros); once for each command"
    problems.add(f"{path.name}", text, Severity.NOTE)
    return Evidence(source, (path,), kind, problems=problems)


def _unpack(path: Path, opener: Opener, target: IO[bytes], room: _Room) -> tuple[int, str]:
    """Decompress up to the end or the first damage.

    Returns:
        (number of decompressed bytes, reason of an early stop or "").

    Raises:
        AccessError: reading or writing failed, or there is not enough space.
    """
    size = 0
    try:
        with opener(path) as packed:
            while piece := _next(packed):
                if isinstance(piece, str):
                    return _ended(target, size), piece
                _put(target, size, piece, room)
                size += len(piece)
    except OSError as error:
        raise AccessError(f"{path}: cannot be unpacked: {error.strerror or error}") from error
    return _ended(target, size), ""


def _next(packed: io.BufferedIOBase) -> bytes | str:
    """The next chunk, b"" at the end, or a text that describes damage."""
    try:
        return bytes(packed.read1(_AT_ONCE))
    except (OSError, *_DAMAGE) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _put(target: IO[bytes], offset: int, piece: bytes, room: _Room) -> None:
    """Write the parts of a chunk that are not zeros."""
    for start in range(0, len(piece), _HOLE):
        part = piece[start : start + _HOLE]
        if part.count(0) != len(part):
            room.take(len(part), offset + start)
            target.seek(offset + start)
            target.write(part)


def _ended(target: IO[bytes], size: int) -> int:
    target.truncate(size)
    return size
