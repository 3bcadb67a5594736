"""Ends of files whose format states no length: at zeros, at file starts and at borders of runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, Rows, UInt8s
from ext4kit.carving.area import CarvingArea
from ext4kit.carving.block_features import BlockFeatures
from ext4kit.carving.result import EndEvidence
from ext4kit.filetypes.formats import FORMATS

_CHARACTER_BYTES = np.array([1, *(one.character_bytes for one in FORMATS)])
MAX_CHANCE_ZEROS = 8  # fewer zeros than this at the end of a full binary block may be chance


@dataclass(frozen=True, slots=True)
class FeatureIndex:
    """Block features by position.

    Attributes:
        start: int64 (r,), first positions of the runs of blocks that are not all zero.
        length: int64 (r,), lengths in blocks.
        position: int64 (k,), events, ascending.
        tail: int64 (k,), zero bytes at the end of the block.
        kind: uint8 (k,), signature at the start of the block.
        text: bool (k,), True where the block looks like text.
        dense: bool (k,), True where the block has almost no zeros before the zero bytes at its end.
    """

    start: Int64s
    length: Int64s
    position: Int64s
    tail: Int64s
    kind: UInt8s
    text: Bools
    dense: Bools

    @classmethod
    def from_features(cls, features: BlockFeatures, area: CarvingArea) -> FeatureIndex:
        """The features of the blocks in the carving area."""
        borders, before = _range_borders(features, area)
        places = area.positions(np.concatenate([features.block, borders]))
        row = np.concatenate([np.arange(len(features.block)), before])
        order = np.flatnonzero(places >= 0)
        order = order[np.argsort(places[order], kind="stable")]
        row, itself = row[order], order < len(features.block)
        start, length = area.clip(features.start, features.length)
        return cls(
            start,
            length,
            places[order],
            np.where(itself, features.tail[row].astype(np.int64), 0),
            np.where(itself, features.kind[row], 0).astype(np.uint8),
            features.text[row],
            features.dense[row],
        )

    def at_positions(self, positions: Int64s) -> tuple[Rows, Bools]:
        """(row of the last event at or before each position, True where it is at that position)."""
        row = np.searchsorted(self.position, positions, side="right") - 1
        is_event = (row >= 0) & (np.append(self.position, -1)[row] == positions)
        return row, is_event

    def zero_tails(self, positions: Int64s) -> Int64s:
        """int64: zero bytes at the end of the block at each position; 0 for a block of zeros."""
        row, is_event = self.at_positions(positions)
        return np.where(is_event, np.append(self.tail, 0)[row], 0)

    def is_nonzero(self, positions: Int64s) -> Bools:
        """True where the block at the position is not all zero."""
        row = np.searchsorted(self.start, positions, side="right") - 1
        return (row >= 0) & (positions < np.append(self.start + self.length, 0)[row])

    def at_boundary(self, positions: Int64s, area: CarvingArea, zeros: int = 1) -> Bools:
        """True where the content before the position has ended: at zeros or at a border.

        Args:
            positions: int64 (n,).
            area: the positions.
            zeros: minimum number of zero bytes directly before the position.
        """
        before = positions - 1
        border = (before < 0) | (area.contiguous_end(np.maximum(before, 0)) <= positions)
        return border | ~self.is_nonzero(before) | (self.zero_tails(before) >= zeros)


def _range_borders(features: BlockFeatures, area: CarvingArea) -> tuple[Int64s, Rows]:
    """(first blocks of usable runs that are not events, the last event before each).

    Such a block may lie within a run of data. The event before it then describes it too.
    """
    start = np.union1d(area.start, features.start)
    event = np.searchsorted(features.block, start, side="right") - 1
    run = np.searchsorted(features.start, start, side="right") - 1
    if not len(features.block):
        return start[:0], event[:0]
    within = (event >= 0) & (run >= 0) & (features.block[event] != start)
    within &= start < (features.start + features.length)[run]
    return start[within], event[within]


@dataclass(frozen=True, slots=True)
class CarvedPieces(Table):
    """Runs of positions, each of which is treated as one file; columns as in `CarvedFiles`."""

    first: Int64s
    count: Int64s
    size: Int64s
    kind: UInt8s
    text: Bools
    end: UInt8s
    at_boundary: Bools


def split_remaining(
    index: FeatureIndex,
    area: CarvingArea,
    taken: Int64s,
    taken_count: Int64s,
    block_size: int,
    seams: Int64s | None = None,
) -> CarvedPieces:
    """Divide into files the positions that are not taken by files of known formats.

    Args:
        index: features by position.
        area: the positions.
        taken: int64, first positions of taken runs, ascending.
        taken_count: int64, their lengths.
        block_size: bytes.
        seams: int64, further positions at which one file ends and another begins.
    """
    # the runs of data, cut where they cross a break
    edges = np.unique(area.limit) if seams is None else np.union1d(area.limit, seams)
    start, ends = index.start, index.start + index.length
    row = np.searchsorted(start, edges, side="right") - 1
    inside = (row >= 0) & (edges > np.append(start, 0)[row]) & (edges < np.append(ends, 0)[row])
    start = np.sort(np.concatenate([start, edges[inside]]))
    length = np.sort(np.concatenate([ends, edges[inside]])) - start
    start, length = start[length > 0], length[length > 0]
    left = Intervals(start, length).subtract(Intervals(taken, taken_count))
    start, length = left.start, left.length
    last = final_blocks(index, start, length)
    ends = np.unique(np.concatenate([last + 1, start + length]))
    row = np.searchsorted(start, ends, side="left") - 1
    before = np.concatenate([[-1], ends[:-1]]) if len(ends) else ends
    first = np.maximum(start[row], before)
    return _describe(index, area, first, ends - first, block_size)


def final_blocks(index: FeatureIndex, start: Int64s, length: Int64s) -> Int64s:
    """Positions of the last blocks of files.

    A full block of binary data may end in a few zeros by chance. It therefore ends a file only if a
    known signature or text follows. A single zero before text is usually chance and does not count.
    """
    following = np.append(index.position[1:], -1)
    next_here = following == index.position + 1
    next_kind = np.append(index.kind[1:], 0) > 0
    next_text = np.append(index.text[1:], False) & ~index.text
    starts = next_here & (next_kind | next_text & (index.tail > 1))
    ends = (index.tail > 0) & (index.text | (index.tail >= MAX_CHANCE_ZEROS) | starts)
    places: Int64s = index.position[ends]
    row = np.searchsorted(start, places, side="right") - 1
    inside = (row >= 0) & (places < np.append(start + length, 0)[row])
    found: Int64s = places[inside]
    return found


def _describe(
    index: FeatureIndex, area: CarvingArea, first: Int64s, count: Int64s, size: int
) -> CarvedPieces:
    row, is_event = index.at_positions(first)
    tail = index.zero_tails(first + count - 1)
    text = np.append(index.text, False)[row]
    low = np.searchsorted(index.position, first, side="left")
    high = np.searchsorted(index.position, first + count, side="left")
    binary = np.concatenate([[0], np.cumsum(~index.text)])
    text &= binary[high] == binary[low]
    final, _ = index.at_positions(first + count - 1)
    dense = np.append(index.dense, False)[row] & np.append(index.dense, False)[final]
    how = np.where(
        text, EndEvidence.TEXT, np.where(dense, EndEvidence.DENSE, EndEvidence.ZERO_PADDING)
    )
    end = np.where(tail > 0, how, EndEvidence.NEXT_START).astype(np.uint8)
    kind = np.where(is_event, np.append(index.kind, 0)[row], 0).astype(np.uint8)
    unit = _CHARACTER_BYTES[kind]
    return CarvedPieces(
        first,
        count,
        -(-(count * size - tail) // unit) * unit,
        kind,
        text,
        end,
        index.at_boundary(first, area),
    )
