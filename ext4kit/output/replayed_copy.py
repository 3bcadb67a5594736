"""A copy of a volume with changed blocks and bytes: its state after a recovery.

The original is never written. Ranges without data stay holes. The kernel copies the other ranges
where it can.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.holes import data_ranges
from ext4kit.evidence.kernel_copy import copy_range
from ext4kit.evidence.source import Source, fileno_range
from ext4kit.journal.post_recovery import Patch
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.output.new_file import new_file
from ext4kit.output.pouring import write_all
from ext4kit.output.written import Written
from ext4kit.units import Progress

CHUNK_BYTES = 4 << 20
PIECE_BYTES = 4096  # unit of holes, and of ranges lost to a bad sector


def replayed_changes(replayed: ReplayedBlocks, patches: Iterable[Patch]) -> Iterator[Patch]:
    """All changes of a recovery, blocks first, with one chunk of the journal in memory."""
    size = replayed.block_size
    blocks = np.union1d(replayed.plan.blocks, replayed.changed.blocks)
    step = max(CHUNK_BYTES // size, 1)
    for start in range(0, len(blocks), step):
        chunk = blocks[start : start + step]
        rows = replayed.read_many(chunk)
        with suppress(AccessError):  # all of them differ where the disk is unreadable
            differ = (rows != replayed.base.read_many(chunk)).any(axis=1)
            chunk, rows = chunk[differ], rows[differ]
        yield from _runs(chunk, rows)
    yield from patches


def _runs(blocks: Int64s, rows: Bytes2D) -> Iterator[Patch]:
    """Consecutive blocks as one patch."""
    edges = np.flatnonzero(np.diff(blocks) != 1) + 1
    for numbers, content in zip(np.split(blocks, edges), np.split(rows, edges), strict=True):
        if len(numbers):
            yield Patch(int(numbers[0]) * rows.shape[1], content.tobytes())


def write_copy(
    path: Path,
    source: Source,
    changes: Iterable[Patch],
    evidence: tuple[Path, ...] = (),
    progress: Progress | None = None,
) -> Written:
    """Copy a volume to a new file and apply the changes of a recovery.

    Args:
        path: a file that does not exist yet.
        source: the volume.
        changes: applied in order to the copy.
        evidence: files that `path` must not be.
        progress: called with (bytes done, total bytes).

    Raises:
        RequestError: `path` exists already.
        OutputError: the copy could not be written; the written part is named `*.incomplete`.
    """
    with new_file(path, evidence) as handle:
        os.ftruncate(handle, source.size)
        lost = tuple(_pour(source, handle, progress))
        for patch in changes:
            _write_at(handle, patch.data, patch.offset)
    return Written(str(path), source.size, None, lost)


def _pour(source: Source, target: int, progress: Progress | None) -> Iterator[tuple[int, int, str]]:
    """Copy all data of the source; yields unreadable ranges."""
    place = fileno_range(source, 0, source.size)
    for data in data_ranges(source):
        position = data.start
        while position < data.stop:
            length = min(CHUNK_BYTES, data.stop - position)
            os.lseek(target, position, os.SEEK_SET)
            if place is None or copy_range(place[0], place[1] + position, length, target) < length:
                yield from _read_and_write(source, target, position, length)
            position += length
            if progress is not None:
                progress(position, source.size)


def _read_and_write(
    source: Source, target: int, offset: int, length: int
) -> Iterator[tuple[int, int, str]]:
    """Copy a range by reading it, without zeros; yields unreadable ranges."""
    try:
        _write_data(target, source.read(offset, length), offset)
        return
    except AccessError as error:
        if length <= PIECE_BYTES:
            yield offset, length, str(error)
            return
    half = max(length // 2 // PIECE_BYTES, 1) * PIECE_BYTES
    yield from _read_and_write(source, target, offset, half)
    yield from _read_and_write(source, target, offset + half, length - half)


def _write_data(target: int, data: memoryview, offset: int) -> None:
    """Write the pieces that are not all zeros."""
    whole = len(data) // PIECE_BYTES * PIECE_BYTES
    pieces = np.frombuffer(data[:whole], np.uint64).reshape(-1, PIECE_BYTES // 8)
    filled = np.append(pieces.any(axis=1), any(data[whole:]))
    runs = Intervals.of_mask(filled)
    for first, end in zip(runs.start.tolist(), runs.end.tolist(), strict=True):
        start = first * PIECE_BYTES
        _write_at(target, data[start : end * PIECE_BYTES], offset + start)


def _write_at(target: int, data: memoryview | bytes, offset: int) -> None:
    os.lseek(target, offset, os.SEEK_SET)
    write_all(target, data)
