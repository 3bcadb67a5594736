"""Memory that was freed and that the C library still holds."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def release_freed_memory() -> None:
    """Return freed memory to the system.

    glibc keeps what is freed between other allocations. Called after a stage that needed much, the
    next stage does not add to what that one left.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # the C library is not glibc
            ctypes.CDLL(None).malloc_trim(0)
