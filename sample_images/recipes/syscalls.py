"""System calls that Python has no words for: fallocate modes, generations, flushes, a cut."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from enum import IntEnum, IntFlag
from pathlib import Path

FS_IOC_GETVERSION = 0x80087601
EXT4_IOC_SHUTDOWN = 0x8004587D
SYNC_FILE_RANGE_ALL = 7  # wait before, write, wait after
_LIBC = ctypes.CDLL(None, use_errno=True)


class Fallocate(IntFlag):
    """Modes of fallocate(2)."""

    KEEP_SIZE = 0x01
    PUNCH_HOLE = 0x02
    COLLAPSE_RANGE = 0x08
    ZERO_RANGE = 0x10
    INSERT_RANGE = 0x20


class Cut(IntEnum):
    """How a file system stops: with its running transaction committed, or as it is."""

    LOG_FLUSHED = 1
    AT_ONCE = 2


def _check(result: int, call: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), call)


def fallocate(handle: int, mode: int, offset: int, length: int) -> None:
    """Take, punch or zero bytes `offset` to `offset + length` of an open file."""
    numbers = ctypes.c_long(offset), ctypes.c_long(length)
    _check(_LIBC.fallocate(handle, int(mode), *numbers), "fallocate")


def flush(handle: int) -> None:
    """Write a file's dirty pages out and wait; nothing is committed."""
    everything = ctypes.c_long(0)
    _check(
        _LIBC.sync_file_range(handle, everything, everything, SYNC_FILE_RANGE_ALL),
        "sync_file_range",
    )


def write_directly(handle: int, offset: int, data: bytes) -> None:
    """Write whole blocks past the page cache, into a file that was opened with O_DIRECT."""
    with mmap.mmap(-1, len(data)) as aligned:
        aligned[:] = data
        os.pwrite(handle, aligned, offset)


def generation(path: Path) -> int:
    """The generation of a regular file's or a directory's inode."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME)
    try:
        answer = fcntl.ioctl(handle, FS_IOC_GETVERSION, bytes(8))
    finally:
        os.close(handle)
    return int(struct.unpack_from("<I", answer)[0])


def shut_down(root: Path, how: Cut) -> None:
    """Stop every further write to a mounted file system."""
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("<I", how))
    finally:
        os.close(handle)


def write_mapped(handle: int, offset: int, data: bytes) -> None:
    """Write through a shared mapping; the file has to reach that far."""
    start = offset - offset % mmap.PAGESIZE
    with mmap.mmap(handle, offset - start + len(data), offset=start) as mapped:
        mapped[offset - start :] = data
