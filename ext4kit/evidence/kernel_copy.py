"""Bytes of the evidence into another open file without a way through this process.

About half the time of reading and writing. On a file system that can share blocks between files,
copy_file_range takes next to no time.

A kernel that cannot copy between two descriptors, and one that fails to read or to write, stop
short alike: who then reads and writes what is left learns which it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_AT_ONCE = 64 << 20  # after which a signal is heeded


def copy_in_kernel(source: int, offset: int, length: int, target: int) -> int:
    """Copy a range of an open file to where the target's position is, and move that on.

    Args:
        source: descriptor of a regular file; its position does not matter.
        offset: first byte of the range.
        length: its bytes.
        target: descriptor of a file, a pipe or a socket.

    Returns:
        The bytes copied: fewer than `length` where the kernel went no further.
    """
    done = copy_range(source, offset, length, target)
    return done + _repeated(_send, source, offset + done, length - done, target)


def copy_range(source: int, offset: int, length: int, target: int) -> int:
    """The same between two regular files of one file system (or two that can do it)."""
    return _repeated(_copy_range, source, offset, length, target)


def _repeated(
    copy: Callable[[int, int, int, int], int], source: int, offset: int, length: int, target: int
) -> int:
    """Copy in one way until all is done or that way goes no further."""
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
