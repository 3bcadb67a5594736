"""Unallocated and unclaimed blocks, cut into files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.carving.area import CarvingArea
from ext4kit.carving.block_features import BlockFeatures
from ext4kit.carving.boundaries import CarvedPieces, FeatureIndex, split_remaining
from ext4kit.carving.direct_blocks import (
    AssembledFile,
    attach_nearest_blocks,
    attach_preceding_blocks,
)
from ext4kit.carving.format_sizes import READ_AT_LEAST, READ_TIMES, FormatSizer
from ext4kit.carving.indirect_bodies import HeadlessBodies
from ext4kit.carving.result import CarvedFiles, EndEvidence
from ext4kit.carving.scattered import join_scattered
from ext4kit.carving.texts import TextSeams
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filetypes.formats import Budget

_EVENTS_AT_ONCE = 1 << 21  # maximum events in a slice; bounds the memory


def carve(
    reader: BlockReader,
    features: BlockFeatures,
    usable: Intervals,
    claimed: Intervals,
    bodies: HeadlessBodies | None = None,
    structures: Int64s | None = None,
) -> CarvedFiles:
    """Cut the unallocated and unclaimed blocks into files.

    Files whose block lists still exist (ext2 and ext3) are assembled first, then files whose format
    states their end, in disk order. The remaining blocks are cut at zeros and borders.

    Args:
        reader: the blocks as they are on disk.
        features: features of all unallocated blocks.
        usable: the unallocated runs, including runs of zeros.
        claimed: runs that other sources have already assigned.
        bodies: remains of files whose block lists exist.
        structures: int64, ascending blocks of directories and similar metadata. A file without a
            known format ends before such a block. A file of a known format may contain one: disk
            images contain metadata blocks.
    """
    left = usable.subtract(claimed)
    bodies = (bodies or HeadlessBodies.empty()).within(left)
    if structures is not None:
        features = features.without(structures)
    slices = np.searchsorted(features.block, left.start) // _EVENTS_AT_ONCE
    edges = [] if len(bodies) else (np.flatnonzero(np.diff(slices)) + 1).tolist()
    parts = [
        _carve_slice(reader, features.between(int(runs.start[0]), int(runs.end[-1])), runs, bodies)
        for first, end in pairwise([0, *edges, len(left)])
        if len(runs := left.take(slice(first, end)))
    ]
    return CarvedFiles.concat(parts)


def _carve_slice(
    reader: BlockReader, features: BlockFeatures, runs: Intervals, bodies: HeadlessBodies
) -> CarvedFiles:
    """The carved files of a slice of usable runs."""
    budget = Budget(max(int(runs.length.sum()) * reader.block_size * READ_TIMES, READ_AT_LEAST))
    area = CarvingArea(runs.start, runs.length, np.unique(bodies.nodes[1]))
    index = FeatureIndex.from_features(features, area)
    measuring = FormatSizer(reader, area, index, budget)
    whole, headless = attach_preceding_blocks(
        bodies.position_runs(area), bodies.lacks_direct_blocks, measuring
    )
    known = [file.runs for file in whole] + headless
    taken = np.array([run for runs in known for run in runs], np.int64).reshape(-1, 2)
    taken = taken[np.argsort(taken[:, 0], kind="stable")]
    measured = measuring.sized_files(taken[:, 0], taken[:, 1])
    sure = measured.end != EndEvidence.FORMAT_LENGTH_OPEN
    joined = join_scattered(measuring, _with_runs(taken, measured.take(np.flatnonzero(sure))))
    pieces = np.array([run for file in joined for run in file.runs], np.int64).reshape(-1, 2)
    mine, _ = overlap_pairs(measured.first, measured.count, *pieces.T)
    measured = measured.take(np.delete(np.arange(len(measured)), mine))
    taken = _with_runs(np.concatenate([taken, pieces]), measured)
    rest = split_remaining(index, area, taken[:, 0], taken[:, 1], reader.block_size)
    seams = TextSeams(reader, area)
    edges = seams.within(rest, measuring.part_starts)
    if len(edges):
        rest = split_remaining(index, area, taken[:, 0], taken[:, 1], reader.block_size, edges)
    further, used = attach_nearest_blocks(headless, rest)
    texts, used_too = seams.joined(rest)
    used = np.union1d(used, used_too)
    parts = [_to_carved(measured, area), _to_carved(rest, area).drop(used)]
    return CarvedFiles.concat([*parts, _join_runs(whole + further + joined + texts, measuring)])


def _with_runs(taken: Int64s, pieces: CarvedPieces) -> Int64s:
    """`taken` and the runs of `pieces` together, (first position, count) in ascending order."""
    both = np.concatenate([taken, np.stack([pieces.first, pieces.count], axis=1)])
    found: Int64s = both[np.argsort(both[:, 0], kind="stable")]
    return found


def _to_carved(pieces: CarvedPieces, area: CarvingArea) -> CarvedFiles:
    """Pieces of the carving area converted to carved files with their blocks."""
    return CarvedFiles(
        area.blocks(pieces.first),
        pieces.count,
        pieces.size,
        pieces.kind,
        pieces.text,
        pieces.end,
        pieces.at_boundary,
        *_blocks_of(pieces.first, pieces.count, area),
    )


def _blocks_of(start: Int64s, count: Int64s, area: CarvingArea) -> tuple[Rows, Int64s, Int64s]:
    """(row of the run, first block, number of blocks) of the blocks at runs of positions."""
    low = np.searchsorted(area.base, start, side="right") - 1
    high = np.searchsorted(area.base, start + count, side="left")
    run, position = expand(high - low)
    row = low[run] + position
    first = np.maximum(start[run], area.base[row])
    last = np.minimum((start + count)[run], area.base[row] + area.length[row])
    filled = last > first
    block = area.start[row] + first - area.base[row]
    return run[filled], block[filled], (last - first)[filled]


def _join_runs(files: list[AssembledFile], measuring: FormatSizer) -> CarvedFiles:
    """Files of several runs converted to carved files and trimmed to their size."""
    area, index = measuring.area, measuring.index
    table = np.array([run for file in files for run in file.runs], np.int64).reshape(-1, 2)
    owner = np.repeat(np.arange(len(files)), [len(file.runs) for file in files])
    count = np.bincount(owner, table[:, 1], len(files)).astype(np.int64)
    first = np.array([file.runs[0][0] for file in files], np.int64)
    last = np.array([sum(file.runs[-1]) - 1 for file in files], np.int64)
    row, is_event = index.at_positions(first)
    kind = np.where(is_event, np.append(index.kind, 0)[row], 0).astype(np.uint8)
    size = count * measuring.reader.block_size - index.zero_tails(last)
    for one, file in enumerate(files):
        size[one] = file.size or measuring.size_in_runs(file.runs) or size[one]
    run, block, blocks = _blocks_of(table[:, 0], table[:, 1], area)
    return CarvedFiles(
        area.blocks(first),
        count,
        size,
        kind,
        np.append(index.text, False)[row],
        np.array([file.end for file in files], np.uint8),
        index.at_boundary(first, area),
        owner[run],
        block,
        blocks,
    )
