"""Which parts of the evidence hold data: sparse images have holes, which read as zeros."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from ext4kit.evidence.source import Source, fileno_range


def data_ranges(source: Source, offset: int = 0, length: int | None = None) -> Iterator[range]:
    """The byte ranges of a source that may hold something else than zeros, in order.

    Where the system does not tell holes the whole range comes back.

    Args:
        source: the evidence.
        offset: first byte to look at.
        length: bytes to look at; up to the end by default.

    Raises:
        AccessError: the range leaves the source.
    """
    length = source.size - offset if length is None else length
    place = fileno_range(source, offset, length) if length else None
    if place is None or not hasattr(os, "SEEK_DATA"):
        if length:
            yield range(offset, offset + length)
        return
    fd, base = place
    for start, stop in _in_file(fd, base, base + length):
        yield range(start + offset - base, stop + offset - base)


def _in_file(fd: int, at: int, end: int) -> Iterator[tuple[int, int]]:
    """(first byte, end) of what is no hole; what the file has no more is none either."""
    while at < end:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            stop = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the file's end
                at = max(at, os.fstat(fd).st_size)
            if at < end:
                yield at, end
            return
        if start >= end:
            return
        yield start, min(stop, end)
        at = stop
