"""The blocks that no live file has: free ones, and log blocks that no descriptor names.

They are streamed as stretches, holes of a sparse image left out, and every source that needs
them looks at each stretch in the same pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np

from ext4kit.arrays.intervals import Intervals, split
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.errors import AccessError
from ext4kit.evidence.holes import data_ranges
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks
from ext4kit.filesystem.geometry import first_block
from ext4kit.history import History
from ext4kit.journal import Log
from ext4kit.journal.overlay import JournalOverlay

BYTES_AT_ONCE = 8 << 20
_OWNERS, _MAPPINGS_AT_LEAST = 2, 1 << 20
WORKERS = 2
AHEAD = 2 * WORKERS  # stretches on their way at any time

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class BlockBatch:
    """Some blocks that no live file has.

    Attributes:
        blocks: int64 (n,), ascending: file system blocks, or log blocks.
        data: uint8 (n, block size); not to be written to.
        in_log: these are blocks of the log; `blocks` count within it.
    """

    blocks: Int64s
    data: Bytes2D
    in_log: bool = False

    def __len__(self) -> int:
        return len(self.blocks)


T = TypeVar("T")
Scanner = Callable[[BlockBatch], T]


class UnallocatedSpace:
    """The space of a file system that no live file has.

    Args:
        history: what is known of the file system over time.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.fs: FileSystem = history.fs
        self.log: Log | None = history.log
        self.blocks: BlockReader = below_replay(history.fs.blocks)

    @cached_property
    def runs_with_data(self) -> Intervals:
        """The free runs that the evidence has data in."""
        return self.unused.intersect(self._data_runs)

    @cached_property
    def unused(self) -> Intervals:
        """The free runs, holes of the evidence included.

        Groups that are nothing but holes are left out.
        """
        parts = []
        for first, end in self._groups_with_data():
            runs = Intervals.of_mask(self._are_free(first, end))
            parts.append(Intervals(runs.start + first, runs.length))
        return Intervals.concat(parts)

    @cached_property
    def max_mappings(self) -> int:
        """As many entries of block maps are believed, so that memory stays bounded.

        A block has one owner at a time, and the maps of earlier ones are overwritten by and by.
        """
        return max(_MAPPINGS_AT_LEAST, _OWNERS * int(self.unused.length.sum()))

    @cached_property
    def untagged_positions(self) -> Int64s:
        """Log blocks (int64) that no descriptor names and that are no metadata of the log."""
        return np.zeros(0, np.int64) if self.log is None else self.log.unclaimed

    @cached_property
    def _data_runs(self) -> Intervals:
        """The runs of blocks that do not wholly lie in holes."""
        size = self.blocks.block_size
        pieces = iter([range(self.blocks.blocks_count * size)])
        if isinstance(self.blocks, SourceBlocks):
            pieces = data_ranges(self.blocks.source)
        pairs = [(piece.start // size, -(-piece.stop // size)) for piece in pieces]
        table = np.array(pairs, np.int64).reshape(-1, 2)
        end = np.minimum(table[:, 1], self.blocks.blocks_count)
        start = np.maximum(table[:, 0], np.concatenate([[0], end[:-1]])[: len(end)])
        kept = end > start
        return Intervals(start[kept], (end - start)[kept])

    def _groups_with_data(self) -> Iterator[tuple[int, int]]:
        """(first block, end) of the groups that have something else than holes."""
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

    def _are_free(self, first: int, end: int) -> Bools:
        """Per block of the group from `first` on (bool): it is free."""
        superblock = self.fs.superblock
        group = (first - superblock.first_data_block) // superblock.blocks_per_group
        used = self.fs.bitmaps.block_bitmap(group)
        if superblock.cluster_ratio > 1:
            used = np.repeat(used, superblock.cluster_ratio)
        free: Bools = used[: end - first] == 0
        return free

    def batches(self) -> Iterator[BlockBatch]:
        """All of it: the free runs by block, then the log blocks that no descriptor names."""
        yield from chain(self._unallocated_batches(), self._journal_batches())

    @cached_property
    def bytes(self) -> int:
        """Bytes that `batches` gives."""
        count = int(self.runs_with_data.length.sum()) + len(self.untagged_positions)
        return count * self.blocks.block_size

    def _unallocated_batches(self) -> Iterator[BlockBatch]:
        most = max(BYTES_AT_ONCE // self.blocks.block_size, 1)
        row, position, length = split(self.runs_with_data.length, most)
        start = self.runs_with_data.start[row] + position
        ends = np.cumsum(length)
        at = 0
        while at < len(start):
            stop = int(np.searchsorted(ends, (ends[at - 1] if at else 0) + most, side="right"))
            stop = max(stop, at + 1)
            yield from self._read_batch(start[at:stop], length[at:stop])
            at = stop

    def _read_batch(self, start: Int64s, length: Int64s) -> Iterator[BlockBatch]:
        """The runs as one stretch, as they lie where it is one run; what fails block by block."""
        blocks = np.repeat(start - np.cumsum(length) + length, length) + np.arange(length.sum())
        try:
            if len(start) == 1:
                piece = self.blocks.read(int(start[0]), int(length[0]))
                data = np.frombuffer(piece, np.uint8).reshape(-1, self.blocks.block_size)
            else:
                data = self.blocks.read_many(blocks)
        except AccessError:
            data, readable = self.fs.fetch(blocks)
            blocks, data = blocks[readable], data[readable]
        yield BlockBatch(blocks, data)

    def _journal_batches(self) -> Iterator[BlockBatch]:
        if self.log is None:
            return
        most = max(BYTES_AT_ONCE // self.log.reader.blocks.block_size, 1)
        for at in range(0, len(self.untagged_positions), most):
            positions = self.untagged_positions[at : at + most]
            yield BlockBatch(positions, self.log.reader.read(positions), in_log=True)


def scan(
    space: UnallocatedSpace, looks: Sequence[Scanner[T]], progress: Progress | None = None
) -> Iterator[tuple[T, ...]]:
    """What each look makes of each stretch, in order; several stretches are looked at at once.

    Args:
        space: where to look.
        looks: functions of a stretch that keep nothing of its data.
        progress: called with (bytes done, bytes in all).
    """
    waiting: deque[tuple[int, Future[tuple[T, ...]]]] = deque()
    done = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for stretch in space.batches():
            future = pool.submit(lambda one: tuple(look(one) for look in looks), stretch)
            waiting.append((stretch.data.nbytes, future))
            while len(waiting) > AHEAD:
                done += waiting[0][0]
                yield waiting.popleft()[1].result()
                if progress is not None:
                    progress(done, space.bytes)
        for size, future in waiting:
            done += size
            yield future.result()
            if progress is not None:
                progress(done, space.bytes)


def below_replay(blocks: BlockReader) -> BlockReader:
    """The blocks as the disk has them, without what a replay would put in front."""
    while isinstance(blocks, JournalOverlay):
        blocks = blocks.base
    return blocks
