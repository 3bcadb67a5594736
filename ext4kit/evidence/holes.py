"""The ranges of the evidence that hold data, without the holes of sparse images."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from ext4kit.evidence.source import Source, fileno_range


def data_ranges(source: Source, offset: int = 0, length: int | None = None) -> Iterator[range]:
    """The byte ranges of a source that may hold other bytes than zeros, in order.

    If the system does not report holes, the whole range is returned.

    Args:
        source: the evidence.
        offset: first byte of the range.
        length: bytes of the range; up to the end by default.

    Raises:
        AccessError: the range is outside the source.
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
    """(first byte, end) of the data in a file; bytes beyond its end count as data."""
    while at < end:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            stop = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole up to the end of the file
                at = max(at, os.fstat(fd).st_size)
            if at < end:
                yield at, end
            return
        if start >= end:
            return
        yield start, min(stop, end)
        at = stop
