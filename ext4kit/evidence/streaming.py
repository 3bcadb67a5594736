"""A single pass over all data of a source, in chunks and with threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import numpy as np

from ext4kit.arrays.types import Int64s, UInt8s
from ext4kit.errors import AccessError
from ext4kit.evidence.holes import data_ranges
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.source import Source
from ext4kit.units import SECTOR, Progress

BYTES_AT_ONCE = 8 << 20
WORKERS = 2

Result = TypeVar("Result")


def data_pieces(source: Source, unit: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """(byte offset, length) of chunks of data in whole units; holes and lost ranges are skipped.

    Args:
        source: the evidence.
        unit: bytes; chunks start and end at multiples of this number.
        most: bytes of data after which to stop.
    """
    end, last = 0, source.size - source.size % unit
    left = source.size if most is None else most
    lost = unreadable_ranges(source)
    for data in data_ranges(source):
        for first, stop in _between(lost, data.start, data.stop):
            start = max(first - first % unit, end)
            end = min(-(-stop // unit) * unit, last)
            for at in range(start, end, BYTES_AT_ONCE):
                if left <= 0:
                    return
                length = min(BYTES_AT_ONCE, end - at)
                left -= length
                yield at, length


def _between(lost: Int64s, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """(first byte, end) of the parts of a range that are not lost."""
    low, high = np.searchsorted(lost[:, 1], start, "right"), np.searchsorted(lost[:, 0], stop)
    for first, end in lost[low:high].tolist():
        if start < first:
            yield start, first
        start = end
    if start < stop:
        yield start, stop


def stream(
    pieces: list[tuple[int, int]],
    look: Callable[[int, int], Result],
    progress: Progress | None = None,
) -> Iterator[Result]:
    """The results of a function for each chunk, in order, with a few chunks in progress.

    Args:
        pieces: (byte offset, length) of each chunk.
        look: function of byte offset and length, called in a thread.
        progress: called with (bytes done, bytes in total).
    """
    waiting: deque[tuple[int, Future[Result]]] = deque()
    total, done = sum(length for _, length in pieces), 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for at, (place, length) in enumerate(pieces, 1):
            waiting.append((length, pool.submit(look, place, length)))
            while len(waiting) > 2 * WORKERS or (at == len(pieces) and waiting):
                size, future = waiting.popleft()
                done += size
                yield future.result()
                if progress is not None:
                    progress(done, total)


def read_with_zeros(source: Source, place: int, length: int) -> UInt8s:
    """uint8 (length,) of a range, with zeros for unreadable sectors."""
    try:
        return np.frombuffer(source.read(place, length), np.uint8)
    except AccessError:
        data = np.zeros(length, np.uint8)
    for first, stop in _between(unreadable_ranges(source), place, place + length):
        for at in range(first, stop, SECTOR):
            with suppress(AccessError):
                size = min(SECTOR, stop - at)
                data[at - place :][:size] = np.frombuffer(source.read(at, size), np.uint8)
    return data
