"""Settings of the C library's allocator."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_ARENA_MAX = -8  # mallopt(3), glibc


def use_one_arena() -> None:
    """Keep freed memory in one pool for all threads; glibc has one pool per thread.

    With 120,000 files the peak of verify is 82 MiB instead of 117, of deleted 153 MiB instead of
    234.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
