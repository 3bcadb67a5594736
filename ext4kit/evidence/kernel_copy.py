"""Copies of evidence bytes to another open file inside the kernel.

This takes about half the time of reading and writing. On a file system that can share blocks
between files, `copy_file_range` takes almost no time.

The copy stops early if the kernel cannot copy between the two descriptors, or if a read or write
fails. The caller then reads and writes the rest, which raises the actual error if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_AT_ONCE = 64 << 20  # bytes between checks for signals


def copy_in_kernel(source: int, offset: int, length: int, target: int) -> int:
    """Copy a range of an open file to the target's position, and advance this position.

    Args:
        source: descriptor of a regular file; its position does not matter.
        offset: first byte of the range.
        length: bytes of the range.
        target: descriptor of a file, a pipe or a socket.

    Returns:
        The number of bytes copied; fewer than `length` if the kernel stopped early.
    """
    done = copy_range(source, offset, length, target)
    return done + _repeated(_send, source, offset + done, length - done, target)


def copy_range(source: int, offset: int, length: int, target: int) -> int:
    """As `copy_in_kernel`, between two regular files if their file systems allow it."""
    return _repeated(_copy_range, source, offset, length, target)


def _repeated(
    copy: Callable[[int, int, int, int], int], source: int, offset: int, length: int, target: int
) -> int:
    """Repeat a copy function until the range is copied or there is no progress."""
    done = 0
    while done < length:
        try:
            count = copy(source, offset + done, min(length - done, _AT_ONCE), target)
        except OSError:
            return done
        if count == 0:
            return done
        done += count
    return done


def _copy_range(source: int, offset: int, length: int, target: int) -> int:
    if not hasattr(os, "copy_file_range"):
        return 0
    return os.copy_file_range(source, target, length, offset)


def _send(source: int, offset: int, length: int, target: int) -> int:
    return os.sendfile(target, source, offset, length) if hasattr(os, "sendfile") else 0
