"""Tables with one element per inode number, few of which are used."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

import numpy as np

from ext4kit.arrays.types import Bools


def sparse_flags(count: int) -> Bools:
    """Bool (count,), all False; only written pages of 4 KiB use memory.

    `np.zeros` requests pages of 2 MiB, and a billion inode numbers are spread over all of them.
    """
    if sys.platform != "linux" or count < 1 << 20:
        return np.zeros(count, bool)
    pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # EINVAL: a kernel without huge pages
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, bool)
