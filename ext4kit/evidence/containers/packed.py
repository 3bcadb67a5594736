"""Compressed raw images: unpacked once, sparsely, to a file without a name.

Neither gzip nor a plain xz file can be entered in the middle without unpacking what is before
it, and both have to be read once to the end to be checked and to know their size. So that is
done once when it is opened: runs of zeros become holes, every later read is that of a raw image,
and the file is gone with the process.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tempfile
import zlib
from pathlib import Path
from typing import IO, Any

from ext4kit.errors import AccessError
from ext4kit.evidence.containers.opened import Opened
from ext4kit.evidence.raw import RawFile, bytes_on_disk
from ext4kit.problems import Problems, Severity

_AT_ONCE = 1 << 20
_HOLE = 64 << 10
_DAMAGE = (EOFError, lzma.LZMAError, zlib.error, ValueError)


_OPENERS: dict[str, Any] = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open}
PACKED = frozenset(_OPENERS)


def open_packed(path: Path, kind: str) -> Opened:
    """The image in a gzip, xz or bzip2 file, unpacked to the folder for temporary files.

    What is in front of damage is kept, and the damage is a problem.

    Raises:
        AccessError: nothing can be unpacked, or there is no room for it.
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
    return Opened(source, (path,), kind, problems=problems)


def _unpack(path: Path, opener: Any, target: IO[bytes]) -> tuple[int, str]:
    """Unpack as far as it goes.

    Returns:
        The bytes unpacked; what stopped it, "" for its end.

    Raises:
        AccessError: reading or writing failed.
    """
    size = 0
    try:
        with opener(path, "rb") as packed:
            while piece := _next(packed):
                if isinstance(piece, str):
                    return _ended(target, size), piece
                _put(target, size, piece)
                size += len(piece)
    except OSError as error:
        raise AccessError(f"{path}: cannot be unpacked: {error.strerror or error}") from error
    return _ended(target, size), ""


def _next(packed: Any) -> bytes | str:
    """The next piece; b"" at the end, a text for what is wrong with it."""
    try:
        return bytes(packed.read1(_AT_ONCE))
    except (OSError, *_DAMAGE) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _put(target: IO[bytes], offset: int, piece: bytes) -> None:
    """Write what is not zeros."""
    for start in range(0, len(piece), _HOLE):
        part = piece[start : start + _HOLE]
        if part.count(0) != len(part):
            target.seek(offset + start)
            target.write(part)


def _ended(target: IO[bytes], size: int) -> int:
    target.truncate(size)
    return size
