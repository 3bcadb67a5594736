"""What is left of a candidate's blocks: less those of later owners, from log and disk."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ext4kit.arrays.intervals import Intervals, common_parts
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.history.history import History
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.recovery.intervals import subtract_parts


class TaggedContentBlocks(JournalOverlay):
    """The blocks of one file, those that went through the log as data read from there."""

    def __init__(self, history: History, base: BlockReader, blocks: Any, copies: Any) -> None:
        assert history.log is not None
        super().__init__(base, history.log)
        self._blocks, self._copies = blocks, copies

    def copies_of(self, blocks: Any) -> Any:
        """The log's copy of each block that has one."""
        return values_at(self._copies, SortedIndex(self._blocks).rows(blocks))


def drop_overlaps(pieces: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Sorted (start, length, owner) pieces with what an earlier one covers cut away."""
    kept: list[tuple[int, int, str]] = []
    end = 0
    for start, length, owner in pieces:
        stop = start + length
        start = max(start, end)
        if stop > start:
            kept.append((start, stop - start, owner))
            end = stop
    return kept


def without_copied(pieces: list[tuple[int, int, str]], blocks: Any) -> list[tuple[int, int, str]]:
    """The (start, length, owner) pieces less single blocks, which ascend."""
    kept: list[tuple[int, int, str]] = []
    for start, length, owner in pieces:
        low, high = np.searchsorted(blocks, [start, start + length]).tolist()
        edges = [start - 1, *blocks[low:high].tolist(), start + length]
        for before, after in pairwise(edges):
            if after > before + 1:
                kept.append((before + 1, after - before - 1, owner))
    return kept


def without_blocks(runs: Runs, lost: list[tuple[int, int, str]]) -> Runs:
    """The runs less the lost blocks."""
    if not lost:
        return runs
    table = np.array([(start, length) for start, length, _ in lost], np.int64)
    gone = Intervals.union(table[:, 0], table[:, 1])
    return subtract_parts(runs, *common_parts(runs.physical, runs.length, gone.start, gone.length))
