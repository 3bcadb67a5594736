"""Bytes of the evidence into another open file without a way through this process.

About half the time of writing mapped pages, whose every page has to be faulted in first. On a
file system that can share blocks between files, copy_file_range takes next to no time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

_AT_ONCE = 64 << 20  # after which a signal is heeded
# What a kernel says when it cannot copy between these two descriptors; others are failures.
_CANNOT = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
)


def copy_in_kernel(source: int, offset: int, length: int, target: int) -> int:
    """Copy a range of an open file to where the target's position is, and move that on.

    Args:
        source: descriptor of a regular file; its position does not matter.
        offset: first byte of the range.
        length: its bytes.
        target: descriptor of a file, a pipe or a socket.

    Returns:
        The bytes copied: fewer than `length` where the kernel cannot copy between these two, or
        the source ended.

    Raises:
        OSError: reading or writing failed.
    """
    done = copy_range(source, offset, length, target)
    return done + _repeated(_send, source, offset + done, length - done, target)


def copy_range(source: int, offset: int, length: int, target: int) -> int:
    """The same between two regular files of one file system (or two that can do it)."""
    return _repeated(_copy_range, source, offset, length, target)


def _repeated(
    copy: Callable[[int, int, int, int], int], source: int, offset: int, length: int, target: int
) -> int:
    """Copy in one way until all is done or that way is closed between these two."""
    done = 0
    while done < length:
        try:
            count = copy(source, offset + done, min(length - done, _AT_ONCE), target)
        except OSError as error:
            if error.errno in _CANNOT:
                return done
            raise
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
