"""What the program asks of the C library's allocator."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_ARENA_MAX = -8  # mallopt(3), glibc


def use_one_arena() -> None:
    """Keep freed memory in one pool for all threads, where glibc has one for each.

    With 120,000 files the peak of verify is 82 MiB, else 117; of deleted 153 MiB, else 234.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
