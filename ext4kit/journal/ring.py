"""The log as a ring of blocks: positions, transaction order, and reading that survives damage.

A position is a log block number: 0 is the journal superblock, `Ring.first` the ring's first
block. Source: kernel fs/jbd2/journal.c and fs/jbd2/recovery.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.parsers.journal import JournalSuperblock
from ext4kit.problems import Problems

CHUNK_BYTES = 8 << 20  # what one step of a stream through the log holds


@dataclass(frozen=True, slots=True)
class Ring:
    """The part of the log that is written round and round.

    Attributes:
        first: its first log block.
        end: the log block behind its last one; fast commits start at `end` + 1.
    """

    first: int
    end: int

    def wrap(self, positions: Any) -> Any:
        """Positions that ran past the end, taken back to the start."""
        return self.first + (positions - self.first) % (self.end - self.first)

    def __contains__(self, position: int) -> bool:
        return self.first <= position < self.end


def ring_of(
    superblock: JournalSuperblock, blocks_there: int, fast_commits: bool, problems: Problems
) -> Ring:
    """The ring a superblock describes, cut to the blocks that are there.

    Args:
        superblock: the journal's.
        blocks_there: blocks that the log has.
        fast_commits: the file system has the fast_commit feature.
        problems: told when the two do not fit.

    Source: kernel fs/jbd2/journal.c, `journal_load_superblock`: the fast-commit area takes the
    last blocks.
    """
    length = superblock.length
    if length > blocks_there:
        problems.add(
            "journal superblock",
            f"says {length:,} blocks, the journal has {blocks_there:,}: the rest is not read",
        )
        length = blocks_there
    area = superblock.fast_commit_area if fast_commits else superblock.fast_commit_blocks
    end = max(min(length, superblock.length - area), 2)
    first = superblock.first
    if not 0 < first < end:
        problems.add("journal superblock", f"first log block {first:,} is impossible; 1 is used")
        first = 1
    return Ring(first, end)


def order_of(sequences: Any, reference: int) -> Any:
    """Transaction ids (mod 2**32) as monotone int64, equal to the id near the reference.

    Ids are compared as signed 32-bit differences, as the kernel's `tid_gt` does.

    Args:
        sequences: int64 column or integer, 0..2**32-1.
        reference: s_sequence of the journal superblock.
    """
    return reference + ((sequences - reference + (1 << 31)) % (1 << 32)) - (1 << 31)


class LogReader:
    """Reads log blocks by position; what cannot be read comes as zeros and is told.

    Args:
        blocks: the file system's blocks.
        log_blocks: int64 array, file system block of each log block.
        problems: told about unreadable blocks.

    Attributes:
        unreadable: bool, one a log block: no place to read it from, or reading it has failed.
    """

    def __init__(self, blocks: BlockReader, log_blocks: Any, problems: Problems) -> None:
        self.blocks = blocks
        self.log_blocks = log_blocks
        self.problems = problems
        self.chunk = max(CHUNK_BYTES // blocks.block_size, 1)
        self.unreadable = (log_blocks <= 0) | (log_blocks >= blocks.blocks_count)

    def read(self, positions: Any) -> Any:
        """The log blocks at `positions` (int64), uint8 (n, block size)."""
        there = ~self.unreadable[positions]
        if there.all():
            return self._read(positions)
        self.problems.add("journal", "log blocks that cannot be read are taken as zeros")
        rows = np.zeros((len(positions), self.blocks.block_size), np.uint8)
        rows[there] = self._read(positions[there])
        return rows

    def view(self, positions: Any) -> Any:
        """As `read`, not to be written to: no copy is made of blocks that lie in one run."""
        wanted = self.log_blocks[positions]
        is_run = len(wanted) > 0 and bool((np.diff(wanted) == 1).all())
        if is_run and not self.unreadable[positions].any():
            with suppress(AccessError):
                data = self.blocks.read(int(wanted[0]), len(wanted))
                return np.frombuffer(data, np.uint8).reshape(-1, self.blocks.block_size)
        return self.read(positions)

    def _read(self, positions: Any) -> Any:
        """As `read`, halving what fails until only the unreadable blocks are left out."""
        try:
            return self.blocks.read_many(self.log_blocks[positions])
        except AccessError as error:
            if len(positions) <= 1:
                self.problems.add("journal", f"a log block cannot be read: {error}")
                self.unreadable[positions] = True
                return np.zeros((len(positions), self.blocks.block_size), np.uint8)
        middle = len(positions) // 2
        return np.concatenate([self._read(positions[:middle]), self._read(positions[middle:])])

    def stream(self, positions: Any) -> Iterator[tuple[Any, Any]]:
        """(positions, rows) chunk by chunk; the rows are not to be written to."""
        for start in range(0, len(positions), self.chunk):
            piece = positions[start : start + self.chunk]
            yield piece, self.view(piece)
