"""Unallocated blocks, and journal blocks that no descriptor block names, read in one pass.

The blocks are read in batches, without the holes of a sparse image. All scanners process each batch
in the same pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals, split
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.holes import data_ranges
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks
from ext4kit.filesystem.geometry import first_block
from ext4kit.history import History
from ext4kit.journal import Log
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.scan import BlockBatch

BYTES_AT_ONCE = 8 << 20
_OWNERS, _MAPPINGS_AT_LEAST = 2, 1 << 20


class UnallocatedSpace:
    """The unallocated blocks of a file system and the untagged blocks of its journal.

    Args:
        history: states of the file system over time.
    """

    def __init__(self, history: History) -> None:
        self.epochs = history.epochs
        self.fs: FileSystem = history.fs
        self.log: Log | None = history.log
        self.blocks: BlockReader = below_replay(history.fs.blocks)

    @cached_property
    def runs_with_data(self) -> Intervals:
        """The unallocated runs for which the evidence has data."""
        return self.unused.intersect(self._data_runs)

    @cached_property
    def unused(self) -> Intervals:
        """The unallocated runs, including holes of the evidence; adjacent runs are joined.

        Groups that consist only of holes are left out.
        """
        parts = []
        for first, end in self._groups_with_data():
            superblock = self.fs.superblock
            group = (first - superblock.first_data_block) // superblock.blocks_per_group
            used = self.fs.bitmaps.block_bitmap(group)
            if superblock.cluster_ratio > 1:
                used = np.repeat(used, superblock.cluster_ratio)
            free: Bools = used[: end - first] == 0
            runs = Intervals.of_mask(free)
            parts.append(Intervals(runs.start + first, runs.length))
        found = Intervals.concat(parts)
        return Intervals.union(found.start, found.length)  # joins runs across group ends

    @cached_property
    def max_mappings(self) -> int:
        """Maximum number of block map entries to accept, which bounds the memory.

        A block has one owner at a time, and the maps of its earlier owners are gradually
        overwritten, so that only a few entries for each block remain.
        """
        return max(_MAPPINGS_AT_LEAST, _OWNERS * int(self.unused.length.sum()))

    @cached_property
    def untagged_positions(self) -> Int64s:
        """Journal blocks (int64) without a descriptor that are not blocks of jbd2 itself."""
        return np.zeros(0, np.int64) if self.log is None else self.log.unclaimed

    @cached_property
    def _data_runs(self) -> Intervals:
        return blocks_with_data(self.blocks)

    def _groups_with_data(self) -> Iterator[tuple[int, int]]:
        """(first block, end) of the groups that do not consist only of holes."""
        superblock = self.fs.superblock
        start, end = self._data_runs.start, self._data_runs.end
        per_group, origin = superblock.blocks_per_group, superblock.first_data_block
        low = np.maximum(start - origin, 0) // per_group
        high = np.maximum(end - 1 - origin, 0) // per_group
        seen = -1
        for first, last in zip(low.tolist(), high.tolist(), strict=True):
            for group in range(max(first, seen + 1), min(last + 1, len(self.fs.groups))):
                begin = first_block(superblock, group)
                yield begin, min(begin + per_group, superblock.blocks_count)
                seen = group

    @property
    def batch_count(self) -> int:
        """Number of batches: of unallocated blocks, then of untagged blocks of the journal."""
        return len(self._cuts) - 1 + len(self._log_cuts) - 1

    def batches(self) -> Iterator[BlockBatch]:
        """The unallocated runs in block order, then the untagged blocks of the journal."""
        return map(self.batch, range(self.batch_count))

    def batch(self, number: int) -> BlockBatch:
        """One of the batches; after a read error, each block is read by itself."""
        unallocated = len(self._cuts) - 1
        if number < unallocated:
            return self._read_batch(*self._runs_of(number))
        first, end = self._log_cuts[number - unallocated :][:2]
        positions = self.untagged_positions[first:end]
        assert self.log is not None
        return BlockBatch(positions, self.log.reader.read(positions), in_log=True)

    @cached_property
    def bytes(self) -> int:
        """Total size of `batches` in bytes."""
        return self.bytes_of(range(self.batch_count))

    def bytes_of(self, numbers: range) -> int:
        """Size of some batches in bytes, without reading them."""
        unallocated, most = len(self._cuts) - 1, self.batch_count
        first, end = min(numbers.start, most), min(numbers.stop, most)
        runs = slice(self._cuts[min(first, unallocated)], self._cuts[min(end, unallocated)])
        logged = [self._log_cuts[max(each - unallocated, 0)] for each in (first, end)]
        blocks = int(self._runs[1][runs].sum()) + logged[1] - logged[0]
        return blocks * self.blocks.block_size

    @cached_property
    def _runs(self) -> tuple[Int64s, Int64s]:
        """First blocks and lengths of the runs, none of which is longer than a batch."""
        row, position, length = split(self.runs_with_data.length, self._most)
        return self.runs_with_data.start[row] + position, length

    @cached_property
    def _cuts(self) -> list[int]:
        """The first run of each batch, and the number of runs."""
        ends, cuts = np.cumsum(self._runs[1]), [0]
        while cuts[-1] < len(ends):
            before = ends[cuts[-1] - 1] if cuts[-1] else 0
            stop = int(np.searchsorted(ends, before + self._most, side="right"))
            cuts.append(max(stop, cuts[-1] + 1))
        return cuts

    @cached_property
    def _log_cuts(self) -> list[int]:
        """The first of the untagged positions of each batch, and the number of positions."""
        count = len(self.untagged_positions)
        return [*range(0, count, self._most), count]

    @property
    def _most(self) -> int:
        """Blocks in a batch."""
        return max(BYTES_AT_ONCE // self.blocks.block_size, 1)

    def _runs_of(self, number: int) -> tuple[Int64s, Int64s]:
        cut = slice(*self._cuts[number : number + 2])
        return self._runs[0][cut], self._runs[1][cut]

    def _read_batch(self, start: Int64s, length: Int64s) -> BlockBatch:
        """The runs as one batch; a single run is not copied."""
        row, position = expand(length)
        blocks = start[row] + position
        try:
            if len(start) == 1:
                piece = self.blocks.read(int(start[0]), int(length[0]))
                data = np.frombuffer(piece, np.uint8).reshape(-1, self.blocks.block_size)
            else:
                data = self.blocks.read_many(blocks)
        except AccessError:
            data, readable = self.fs.fetch(blocks)
            blocks, data = blocks[readable], data[readable]
        return BlockBatch(blocks, data)


def below_replay(blocks: BlockReader) -> BlockReader:
    """The blocks as they are on disk, without the overlay of a replay."""
    while isinstance(blocks, JournalOverlay):
        blocks = blocks.base
    return blocks


def blocks_with_data(blocks: BlockReader) -> Intervals:
    """The runs of blocks that are not entirely in holes of the evidence."""
    size = blocks.block_size
    ranges = iter([range(blocks.blocks_count * size)])
    if isinstance(blocks, SourceBlocks):
        ranges = data_ranges(blocks.source)
    pairs = [(each.start // size, -(-each.stop // size)) for each in ranges]
    table = np.array(pairs, np.int64).reshape(-1, 2)
    end = np.minimum(table[:, 1], blocks.blocks_count)
    start = np.maximum(table[:, 0], np.concatenate([[0], end[:-1]])[: len(end)])
    kept = end > start
    return Intervals(start[kept], (end - start)[kept])
