"""Compressed raw images: decompressed once into a sparse file without a name.

Neither gzip nor a plain xz file can be read from the middle without decompressing all before it.
Both must be read to the end to check them and to get their size. Therefore opening decompresses
the whole file. Runs of zeros become holes, and later reads are those of a raw image. The file
ceases to exist with the process.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import IO

from ext4kit.errors import AccessError
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.raw import RawFile, bytes_on_disk
from ext4kit.problems import Problems, Severity

_AT_ONCE = 1 << 20
_HOLE = 64 << 10
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, ValueError)
Opener = Callable[[Path], BufferedIOBase]
_OPENERS: dict[str, Opener] = {"gzip": gzip.GzipFile, "xz": lzma.LZMAFile, "bzip2": bz2.BZ2File}


def open_packed(path: Path, kind: str) -> Evidence:
    """The image in a gzip, xz or bzip2 file, decompressed into the directory of temporary files.

    Data before damage is kept, and the damage becomes a problem.

    Raises:
        AccessError: nothing can be decompressed, or there is not enough space.
    """
    problems = Problems()
    with tempfile.TemporaryFile(buffering=0, prefix="ext4kit-") as target:
        size, damage = _unpack(path, _OPENERS[kind], target)
        if damage:
            text = f"its {kind} data is damaged behind them ({damage}): the rest is missing"
            problems.add(f"image, the first {size:,} bytes", text)
        if not size:
            raise AccessError(f"{path}: nothing in it can be unpacked: {damage or 'it is empty'}")
        held = bytes_on_disk(os.fstat(target.fileno()))
        source = RawFile(path, os.dup(target.fileno()))
    folder = tempfile.gettempdir()
    text = f"unpacked to a temporary file in {folder} ({held:,} bytes); once for each command"
    problems.add(f"{path.name}", text, Severity.NOTE)
    return Evidence(source, (path,), kind, problems=problems)


def _unpack(path: Path, opener: Opener, target: IO[bytes]) -> tuple[int, str]:
    """Decompress up to the end or the first damage.

    Returns:
        (number of decompressed bytes, reason of the stop or "" at the end).

    Raises:
        AccessError: reading or writing failed.
    """
    size = 0
    try:
        with opener(path) as packed:
            while piece := _next(packed):
                if isinstance(piece, str):
                    return _ended(target, size), piece
                _put(target, size, piece)
                size += len(piece)
    except OSError as error:
        raise AccessError(f"{path}: cannot be unpacked: {error.strerror or error}") from error
    return _ended(target, size), ""


def _next(packed: BufferedIOBase) -> bytes | str:
    """The next chunk; b"" at the end, a text that describes damage."""
    try:
        return bytes(packed.read1(_AT_ONCE))
    except (OSError, *_DAMAGE) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _put(target: IO[bytes], offset: int, piece: bytes) -> None:
    """Write the parts of a chunk that are not zeros."""
    for start in range(0, len(piece), _HOLE):
        part = piece[start : start + _HOLE]
        if part.count(0) != len(part):
            target.seek(offset + start)
            target.write(part)


def _ended(target: IO[bytes], size: int) -> int:
    target.truncate(size)
    return size
