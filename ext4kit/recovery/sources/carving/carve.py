"""Free blocks that nobody claims, cut into files."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.recovery.sources.carving.carved import Carved
from ext4kit.recovery.sources.carving.cuts import Events, Pieces, cut
from ext4kit.recovery.sources.carving.ground import Ground
from ext4kit.recovery.sources.carving.heads import Whole, paired, with_heads
from ext4kit.recovery.sources.carving.lengths import Budget
from ext4kit.recovery.sources.carving.lists import Lists, Runs
from ext4kit.recovery.sources.carving.marks import Marks
from ext4kit.recovery.sources.carving.stated import READ_AT_LEAST, READ_TIMES, Measuring

_EVENTS_AT_ONCE = 1 << 21  # so that memory stays bounded


def carve(
    reader: BlockReader,
    marks: Marks,
    usable: Intervals,
    claimed: Intervals,
    lists: Lists | None = None,
) -> Carved:
    """Cut the free blocks that nobody claims into files.

    First come files whose lists of blocks are there (ext2 and ext3), then those whose format
    says where they end, from the front to the back, and the rest is cut at zeros and borders.

    Args:
        reader: the blocks as they are on the disk.
        marks: of all free blocks, joined.
        usable: the free runs, those with nothing but zeros in them included.
        claimed: what others have already.
        lists: what is left of files of which the lists of blocks are there.
    """
    left = usable.subtract(claimed)
    lists = (lists or Lists.none()).inside(left)
    edges = [] if len(lists) else _slices(marks, left.start).tolist()
    parts = [
        _carve(reader, marks.between(int(runs.start[0]), int(runs.end[-1])), runs, lists)
        for first, end in pairwise([0, *edges, len(left)])
        if len(runs := left.take(slice(first, end)))
    ]
    return Carved.joined(parts)


def _slices(marks: Marks, start: Any) -> Any:
    """Rows of runs, those before which a good many events have come since the last one."""
    slices = np.searchsorted(marks.block, start) // _EVENTS_AT_ONCE
    return np.flatnonzero(np.diff(slices)) + 1


def _carve(reader: BlockReader, marks: Marks, runs: Intervals, lists: Lists) -> Carved:
    """The files in some usable runs."""
    budget = Budget(max(int(runs.length.sum()) * reader.block_size * READ_TIMES, READ_AT_LEAST))
    ground = Ground(runs.start, runs.length, np.unique(lists.nodes[1]))
    events = Events.of(marks, ground)
    measuring = Measuring(reader, ground, events, budget)
    whole, headless = with_heads(lists.bodies(ground), lists.leading, measuring)
    taken = _Taken.of([file.runs for file in whole] + headless)
    measured = measuring.files(*taken.runs)
    rest = cut(events, ground, *taken.with_pieces(measured).runs, reader.block_size)
    further, used = paired(headless, rest)
    parts = [_placed(measured, ground), _placed(rest, ground).without(used)]
    return Carved.joined([*parts, _put_together(whole + further, measuring)])


class _Taken:
    """Positions that are a file's already, ascending."""

    def __init__(self, first: Any, count: Any) -> None:
        order = np.argsort(first, kind="stable")
        self.runs = (first[order], count[order])

    @classmethod
    def of(cls, files: list[Runs]) -> _Taken:
        pairs = [run for runs in files for run in runs]
        table = np.array(pairs, np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    def with_pieces(self, pieces: Pieces) -> _Taken:
        first, count = self.runs
        return _Taken(np.concatenate([first, pieces.first]), np.concatenate([count, pieces.count]))


def _placed(pieces: Pieces, ground: Ground) -> Carved:
    """Pieces of the ground as carved files, with their blocks."""
    return Carved(
        ground.blocks(pieces.first),
        pieces.count,
        pieces.size,
        pieces.kind,
        pieces.text,
        pieces.end,
        pieces.fresh,
        *_blocks_of(pieces.first, pieces.count, ground),
    )


def _blocks_of(start: Any, count: Any, ground: Ground) -> tuple[Any, Any, Any]:
    """(row of the run, first block, blocks) of the blocks at runs of positions."""
    low = np.searchsorted(ground.base, start, side="right") - 1
    high = np.searchsorted(ground.base, start + count, side="left")
    run, position = expand(high - low)
    row = low[run] + position
    first = np.maximum(start[run], ground.base[row])
    last = np.minimum((start + count)[run], ground.base[row] + ground.length[row])
    filled = last > first
    block = ground.start[row] + first - ground.base[row]
    return run[filled], block[filled], (last - first)[filled]


def _put_together(files: list[Whole], measuring: Measuring) -> Carved:
    """Files of several runs as carved files, trimmed."""
    ground, events = measuring.ground, measuring.events
    table = np.array([run for file in files for run in file.runs], np.int64).reshape(-1, 2)
    owner = np.repeat(np.arange(len(files)), [len(file.runs) for file in files])
    count = np.bincount(owner, table[:, 1], len(files)).astype(np.int64)
    first = np.array([file.runs[0][0] for file in files], np.int64)
    last = np.array([sum(file.runs[-1]) - 1 for file in files], np.int64)
    row, here = events.at(first)
    kind = np.where(here, np.append(events.kind, 0)[row], 0).astype(np.uint8)
    size = count * measuring.reader.block_size - events.tails(last)
    for one, file in enumerate(files):
        size[one] = measuring.fits(file.runs) or size[one]
    run, block, blocks = _blocks_of(table[:, 0], table[:, 1], ground)
    return Carved(
        ground.blocks(first),
        count,
        size,
        kind,
        np.append(events.text, False)[row],
        np.array([file.end for file in files], np.uint8),
        events.fresh(first, ground),
        owner[run],
        block,
        blocks,
    )
