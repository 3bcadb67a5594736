"""Tables with a place for each inode number, few of which are used."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np


def sparse_flags(count: int) -> Any:
    """Bool (count,), all False; memory goes to the pages that are written, 4 KiB each.

    `np.zeros` asks for pages of 2 MiB, and a billion inode numbers are spread over all of them.
    """
    if sys.platform != "linux" or count < 1 << 20:
        return np.zeros(count, bool)
    pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, bool)
