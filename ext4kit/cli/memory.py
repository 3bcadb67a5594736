"""What the program asks of the C library's allocator."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

# mallopt(3), glibc: the numbers of the options
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGEST_KEPT = 32 << 20  # bytes of one piece; glibc takes no more
_MOST_KEPT = 128 << 20


def keep_freed_memory() -> None:
    """Keep memory that is freed for what is wanted next, in one pool for all threads.

    For commands that make and drop arrays of some megabytes all the time: memory that was given
    back has to be cleared by the system, page by page, before it is had again. glibc alone.
    """
    if sys.platform != "linux":
        return
    with suppress(AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
