"""The blocks available for carving, laid end to end: unallocated, unclaimed, without block lists.

The index of a block in this sequence is its position. Two blocks with only indirect blocks between
them have consecutive positions, because they are consecutive in the content of their file.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Int64s


class CarvingArea:
    """Runs of blocks that can be carved, and their positions.

    Args:
        start: int64 (n,), first blocks of runs, ascending, not overlapping.
        length: int64 (n,), lengths in blocks.
        left_out: int64, ascending blocks to omit without a break in the positions.

    Attributes:
        start: int64 (m,), first blocks of the remaining runs.
        length: int64 (m,), lengths in blocks.
        base: int64 (m,), position of the first block of each run.
        size: number of positions.
        limit: int64 (m,), per run: one past the last position that follows the run without a break.
    """

    def __init__(self, start: Int64s, length: Int64s, left_out: Int64s) -> None:
        kept = length > 0
        start, length = start[kept], length[kept]
        row = np.searchsorted(start, left_out, side="right") - 1
        inside = (row >= 0) & (left_out < (start + length)[row]) if len(start) else row > 0
        out = left_out[inside]
        begins = np.concatenate([start, out + 1])
        ends = np.concatenate([start + length, out])
        goes_on = np.concatenate([np.zeros(len(start), bool), np.ones(len(out), bool)])
        order = np.argsort(begins, kind="stable")
        self.start: Int64s = begins[order]
        self.length: Int64s = np.sort(ends) - self.start
        goes_on = goes_on[order]
        self.base: Int64s = np.cumsum(self.length) - self.length
        self.size = int(self.length.sum())
        heads = np.flatnonzero(~goes_on)
        limits = np.append(self.base[heads[1:]], self.size) if len(heads) else heads
        self.limit: Int64s = limits[np.cumsum(~goes_on) - 1] if len(heads) else heads

    def positions(self, blocks: Int64s) -> Int64s:
        """The position of each block (int64), -1 for a block that is not in the area."""
        if not len(self.start):
            return np.full(len(blocks), -1, np.int64)
        row = np.searchsorted(self.start, blocks, side="right") - 1
        inside = (row >= 0) & (blocks < (self.start + self.length)[row])
        return np.where(inside, self.base[row] + blocks - self.start[row], -1)

    def blocks(self, positions: Int64s) -> Int64s:
        """The block at each position (int64)."""
        row = np.searchsorted(self.base, positions, side="right") - 1
        found: Int64s = self.start[row] + positions - self.base[row]
        return found

    def contiguous_end(self, positions: Int64s) -> Int64s:
        """Per position: one past the last position that follows it without a break (int64)."""
        return self.limit[np.searchsorted(self.base, positions, side="right") - 1]

    def runs_of(self, first: int, count: int) -> list[tuple[int, int]]:
        """(first block, number of blocks) of the runs at `count` positions from `first` on."""
        row, found = int(np.searchsorted(self.base, first, side="right")) - 1, []
        while count > 0 and row < len(self.start):
            skip = first - int(self.base[row])
            run_count = min(count, int(self.length[row]) - skip)
            if run_count > 0:
                found.append((int(self.start[row]) + skip, run_count))
            first, count, row = first + run_count, count - run_count, row + 1
        return found

    def clip(self, start: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
        """(first position, count) of the parts of ascending runs of blocks that are in the area."""
        ends = self.start + self.length
        low = np.searchsorted(ends, start, side="right")
        high = np.searchsorted(self.start, start + length, side="left")
        theirs, position = expand(np.maximum(high - low, 0))
        row = low[theirs] + position
        first = np.maximum(start[theirs], self.start[row])
        last = np.minimum((start + length)[theirs], ends[row])
        return self.base[row] + first - self.start[row], last - first
