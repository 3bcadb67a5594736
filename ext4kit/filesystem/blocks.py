"""Block readers, which all reads of file system blocks use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.lost import merge_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, fileno_range

_MANY_RUNS = 16  # number of runs from which on sorting them together is faster
_GAP = 4 << 10  # gaps up to this many bytes are copied faster than skipped
_NEAR = 32 << 10  # gaps up to this many bytes are read faster than skipped
_TOGETHER = 1 << 20  # most bytes of one read of nearby runs


class BlockReader(Protocol):
    """Blocks by number; every reader of the file system uses one of these.

    Attributes:
        block_size: bytes per block.
        blocks_count: number of readable blocks; less than the superblock's count if the
            evidence ends early.
    """

    block_size: int
    blocks_count: int

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on; raises AccessError if one is unreadable."""
        ...

    def read_many(self, blocks: Int64s) -> Bytes2D:
        """The blocks of an int64 array (n,), as uint8 (n, block_size); may raise AccessError."""
        ...


@runtime_checkable
class HasUnreadableBlocks(Protocol):
    """A reader that may record unreadable blocks."""

    def lost_blocks(self) -> Int64s:
        """First block and end of each unreadable run, int64 (n, 2), ascending and disjoint."""
        ...


def unreadable_blocks(blocks: BlockReader) -> Int64s:
    """Runs of blocks that are known as unreadable, int64 (n, 2): first block, end."""
    return blocks.lost_blocks() if isinstance(blocks, HasUnreadableBlocks) else merge_ranges([])


def read_blocks_or_zeros(blocks: BlockReader, numbers: Int64s) -> tuple[Bytes2D, Bools]:
    """(uint8 (n, block size), True where readable (n,)); unreadable blocks are zeros."""
    inside = (numbers >= 0) & (numbers < blocks.blocks_count)
    shape = len(numbers), blocks.block_size
    try:
        if inside.all():
            return blocks.read_many(numbers), inside
        rows = np.zeros(shape, np.uint8)
        rows[inside] = blocks.read_many(numbers[inside])
    except AccessError:
        rows = np.zeros(shape, np.uint8)
        for row in np.flatnonzero(inside).tolist():
            try:
                rows[row] = np.frombuffer(blocks.read(int(numbers[row])), np.uint8)
            except AccessError:
                inside[row] = False
    return rows, inside


def read_run_or_zeros(blocks: BlockReader, first: int, count: int) -> tuple[memoryview, int]:
    """(bytes of consecutive blocks, number of unreadable ones); unreadable blocks are zeros."""
    try:
        return blocks.read(first, count), 0
    except AccessError:
        rows, readable = read_blocks_or_zeros(blocks, first + np.arange(count))
        return rows.reshape(-1).data, int((~readable).sum())


class SourceBlocks:
    """Blocks read directly from a byte source."""

    def __init__(self, source: Source, block_size: int, blocks_count: int) -> None:
        self.source = source
        self.block_size = block_size
        self.blocks_count = min(blocks_count, source.size // block_size)

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            AccessError: a block is outside the file system, or the source cannot be read there.
        """
        if block < 0 or block + count > self.blocks_count:
            what = f"lies beyond the last readable block {self.blocks_count - 1:,}"
            raise AccessError(f"{self.source.name}: block {block + count - 1:,} {what}")
        return self.source.read(block * self.block_size, count * self.block_size)

    def lost_blocks(self) -> Int64s:
        """The unreadable ranges of the source, in whole blocks."""
        table = unreadable_ranges(self.source)
        return merge_ranges((table + np.array([0, self.block_size - 1])) // self.block_size)

    def read_many(self, blocks: Int64s) -> Bytes2D:
        """The blocks of an int64 array, as uint8 (n, block_size), with one read per run.

        Raises:
            AccessError: as `read`.
        """
        out = np.empty((len(blocks), self.block_size), np.uint8)
        if not len(blocks):
            return out
        edges = [0, *(np.flatnonzero(np.diff(blocks) != 1) + 1).tolist(), len(blocks)]
        file = self._file(blocks)
        is_scattered = len(edges) - 2 >= _MANY_RUNS
        if file is not None and is_scattered and self._read_sorted(blocks, out, file):
            return out
        for start, end in pairwise(edges):
            rows, block = out[start:end], int(blocks[start])
            if file is None or not file.fetch(block, rows):
                piece = self.read(block, end - start)
                rows[:] = np.frombuffer(piece, np.uint8).reshape(-1, self.block_size)
        return out

    def _read_sorted(self, blocks: Int64s, out: Bytes2D, file: _OpenFile) -> bool:
        """Read many runs by position; one read covers nearby runs and the bytes between them.

        Returns:
            False if a read fails, even if only bytes between the runs are unreadable.
        """
        together = max(_TOGETHER // self.block_size, 1)
        order = np.argsort(blocks, kind="stable")
        ascending = blocks[order]
        for start, end in _nearby_groups(ascending, _NEAR // self.block_size, together):
            file.advise(int(ascending[start]), int(ascending[end - 1]))
        room = np.empty((together, self.block_size), np.uint8)
        for start, end in _nearby_groups(ascending, _GAP // self.block_size, together):
            first, last = int(ascending[start]), int(ascending[end - 1])
            rows = out[order[start]] if end - start == 1 else room[: last + 1 - first]
            if not file.fetch(first, rows):
                return False
            if end - start > 1:
                out[order[start:end]] = rows[ascending[start:end] - first]
        return True

    def _file(self, blocks: Int64s) -> _OpenFile | None:
        """The open file in which these blocks are consecutive; None if there is none."""
        first, last = int(blocks.min()), int(blocks.max())
        if first < 0 or last >= self.blocks_count:
            return None
        size = self.block_size
        place = fileno_range(self.source, first * size, (last + 1 - first) * size)
        return None if place is None else _OpenFile(place[0], place[1] - first * size, size)


def _nearby_groups(ascending: Int64s, gap: int, most: int) -> Iterator[tuple[int, int]]:
    """Bounds of groups of blocks that are at most `gap` apart and span at most `most`."""
    step = np.diff(ascending)
    apart = (step > 1 + gap) | (np.diff(ascending // most) > 0)
    return pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(ascending)])


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """Blocks in an open file; `base` is the byte offset of block 0."""

    number: int
    base: int
    block_size: int

    def fetch(self, block: int, rows: Bytes2D) -> bool:
        """Read blocks directly into rows; False if the read fails."""
        if not hasattr(os, "preadv"):
            return False
        with suppress(OSError):  # the caller's read reports the error
            place = self.base + block * self.block_size
            return bool(os.preadv(self.number, (rows.data,), place) == rows.nbytes)
        return False

    def advise(self, first: int, last: int) -> None:
        """Ask the kernel to read these blocks and the bytes between them ahead."""
        if hasattr(os, "posix_fadvise"):
            place, length = self.base + first * self.block_size, last + 1 - first
            with suppress(OSError):
                os.posix_fadvise(
                    self.number, place, length * self.block_size, os.POSIX_FADV_WILLNEED
                )
