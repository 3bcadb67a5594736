"""The log as a ring of blocks: positions, tids, and a reader that tolerates damage.

A position is a log block number: 0 is the journal superblock, `Ring.first` the ring's first
block. Source: kernel fs/jbd2/journal.c and fs/jbd2/recovery.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.parsers.journal import JournalSuperblock
from ext4kit.problems import Problems

Numbers = TypeVar("Numbers", int, Int64s)
CHUNK_BYTES = 8 << 20  # bytes of the log in memory at once


@dataclass(frozen=True, slots=True)
class Ring:
    """The part of the log that the kernel writes circularly.

    Attributes:
        first: first log block of the ring.
        end: the log block after the last one of the ring; fast commits start at `end` + 1.
    """

    first: int
    end: int

    def wrap(self, positions: Numbers) -> Numbers:
        """Positions, with those past the end wrapped to the start."""
        return self.first + (positions - self.first) % (self.end - self.first)

    def __contains__(self, position: int) -> bool:
        return self.first <= position < self.end


def ring_of(
    superblock: JournalSuperblock, blocks_there: int, fast_commits: bool, problems: Problems
) -> Ring:
    """The ring that a superblock describes, limited to the mapped log blocks.

    Args:
        superblock: the journal superblock.
        blocks_there: number of mapped log blocks.
        fast_commits: whether the file system has the fast_commit feature.
        problems: collects contradictions between the superblock and the mapped blocks.

    Source: kernel fs/jbd2/journal.c, `journal_load_superblock`: the fast-commit area is the
    last blocks.
    """
    length = superblock.length
    if length > blocks_there:
        problems.add(
            "journal superblock",
            f"length {length:,} blocks, but there are {blocks_there:,}; the rest is not read",
        )
        length = blocks_there
    area = superblock.fast_commit_area if fast_commits else superblock.fast_commit_blocks
    end = max(min(length, superblock.length - area), 2)
    first = superblock.first
    if not 0 < first < end:
        problems.add("journal superblock", f"first log block {first:,} is invalid; 1 is used")
        first = 1
    return Ring(first, end)


def order_of(sequences: Numbers, reference: int) -> Numbers:
    """Tids of transaction ids (mod 2**32): monotone int64, equal to the ids near the reference.

    Ids are compared as signed 32-bit differences, as the kernel's `tid_gt` does.

    Args:
        sequences: int64 column or integer, 0..2**32-1.
        reference: `s_sequence` of the journal superblock.
    """
    return reference + ((sequences - reference + (1 << 31)) % (1 << 32)) - (1 << 31)


class LogReader:
    """Reads log blocks by position; returns zeros for unreadable blocks and reports them.

    Args:
        blocks: the file system's blocks.
        log_blocks: int64 array, file system block of each log block.
        problems: collects unreadable blocks.

    Attributes:
        unreadable: bool per log block, True where it is not mapped or a read has failed.
    """

    def __init__(self, blocks: BlockReader, log_blocks: Int64s, problems: Problems) -> None:
        self.blocks = blocks
        self.log_blocks = log_blocks
        self.problems = problems
        self.chunk = max(CHUNK_BYTES // blocks.block_size, 1)
        self.unreadable = (log_blocks <= 0) | (log_blocks >= blocks.blocks_count)

    def read(self, positions: Int64s) -> Bytes2D:
        """The log blocks at `positions` (int64), uint8 (n, block size)."""
        there = ~self.unreadable[positions]
        if there.all():
            return self._read(positions)
        self.problems.add("journal", "unreadable log blocks are treated as zeros")
        rows = np.zeros((len(positions), self.blocks.block_size), np.uint8)
        rows[there] = self._read(positions[there])
        return rows

    def view(self, positions: Int64s) -> Bytes2D:
        """As `read`, but read-only; blocks of one run are not copied."""
        wanted = self.log_blocks[positions]
        is_run = len(wanted) > 0 and bool((np.diff(wanted) == 1).all())
        if is_run and not self.unreadable[positions].any():
            with suppress(AccessError):
                data = self.blocks.read(int(wanted[0]), len(wanted))
                return np.frombuffer(data, np.uint8).reshape(-1, self.blocks.block_size)
        return self.read(positions)

    def _read(self, positions: Int64s) -> Bytes2D:
        """As `read`; halves a failed read until only the unreadable blocks remain as zeros."""
        try:
            return self.blocks.read_many(self.log_blocks[positions])
        except AccessError as error:
            if len(positions) <= 1:
                self.problems.add("journal", f"a log block could not be read: {error}")
                self.unreadable[positions] = True
                return np.zeros((len(positions), self.blocks.block_size), np.uint8)
        middle = len(positions) // 2
        return np.concatenate([self._read(positions[:middle]), self._read(positions[middle:])])

    def stream(self, positions: Int64s) -> Iterator[tuple[Int64s, Bytes2D]]:
        """Yield (positions, their blocks as rows) chunk by chunk; the rows are read-only."""
        for start in range(0, len(positions), self.chunk):
            piece = positions[start : start + self.chunk]
            yield piece, self.view(piece)
