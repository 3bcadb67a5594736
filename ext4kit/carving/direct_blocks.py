"""Finds the first twelve blocks of files whose block lists still exist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.carving.boundaries import CarvedPieces, FeatureIndex
from ext4kit.carving.format_sizes import FormatSizer
from ext4kit.carving.indirect_bodies import DIRECT_BLOCKS, PositionRuns
from ext4kit.carving.result import EndEvidence

_MANY_ENDS = 3  # file ends within one body: its block list is then older than the blocks


@dataclass(frozen=True, slots=True)
class AssembledFile:
    """A file assembled from runs of positions.

    Attributes:
        runs: (first position, count) pairs in content order.
        end: an `EndEvidence`.
        size: bytes, 0 where it has not been determined from the format.
    """

    runs: PositionRuns
    end: EndEvidence
    size: int = 0


def attach_preceding_blocks(
    bodies: list[PositionRuns], leading: Bools, measuring: FormatSizer
) -> tuple[list[AssembledFile], list[PositionRuns]]:
    """Files whose first twelve blocks precede their other blocks, and the remaining bodies.

    The format must confirm the file if no other file ends directly before the twelve blocks, if a
    file seems to end within the twelve blocks, or if several files seem to end in the body. A body
    for which the twelve blocks are not found is dropped if a file seems to end in the body, because
    its block list is then outdated.

    Args:
        bodies: runs of positions.
        leading: True where the body begins directly after the first twelve blocks.
        measuring: the carving area, its features, and the sizes by format.
    """
    area, index = measuring.area, measuring.index
    if not bodies:
        return [], []
    first = np.array([body[0][0] for body in bodies], np.int64)
    start = first - DIRECT_BLOCKS
    near = leading & (start >= 0) & (area.contiguous_end(np.maximum(start, 0)) > first)
    taken = np.array(sorted(run for body in bodies for run in body), np.int64)
    following = np.searchsorted(taken[:, 0] + taken[:, 1], start, side="right")
    near &= np.append(taken[:, 0], area.size)[following] >= first
    fresh = index.at_boundary(start, area) | np.isin(start, taken.sum(axis=1))
    whole = [
        AssembledFile(
            [(body[0][0] - DIRECT_BLOCKS, DIRECT_BLOCKS + body[0][1]), *body[1:]],
            EndEvidence.BLOCK_LIST,
        )
        for body in bodies
    ]
    owner = np.repeat(np.arange(len(bodies)), [len(body) for body in bodies])
    table = np.array([run for body in bodies for run in body], np.int64)
    stop = table.sum(axis=1) - ends_group(owner)
    ends = _count_file_ends(index, table[:, 0], stop)
    inner = np.bincount(owner, ends, len(bodies)).astype(np.int64)
    doubtful = (_count_file_ends(index, start, first) > 0) | (inner >= _MANY_ENDS)
    for row in np.flatnonzero(near & (doubtful | ~fresh)).tolist():
        near[row] = measuring.size_in_runs(whole[row].runs)
    whole = [file for file, good in zip(whole, near.tolist(), strict=True) if good]
    remaining = np.flatnonzero(~near & (inner == 0)).tolist()
    return whole, [bodies[row] for row in remaining]


def _count_file_ends(index: FeatureIndex, start: Int64s, stop: Int64s) -> Int64s:
    """int64: number of file ends between the two positions, recognised by text and signatures."""
    following = np.append(index.position[1:], -1) == index.position + 1
    begins = following & (np.append(index.kind[1:], 0) > 0)
    ends: Int64s = np.concatenate([[0], np.cumsum((index.tail > 0) & (index.text | begins))])
    low = np.searchsorted(index.position, start, side="left")
    high = np.searchsorted(index.position, stop, side="left")
    return ends[high] - ends[low]


def attach_nearest_blocks(
    bodies: list[PositionRuns], rest: CarvedPieces
) -> tuple[list[AssembledFile], Rows]:
    """Bodies as files, each joined to twelve full blocks if the two are nearest to each other.

    Returns:
        The files, and the rows of the pieces that they took.
    """
    rows = np.flatnonzero((rest.count == DIRECT_BLOCKS) & (rest.end == EndEvidence.NEXT_START))
    first = np.array([body[0][0] for body in bodies], np.int64)
    if not len(rows) or not len(first):
        return [AssembledFile(body, EndEvidence.NEXT_START) for body in bodies], rows[:0]
    nearest_piece = _nearest(first, rest.first[rows])
    nearest_body = _nearest(rest.first[rows], first)
    good = nearest_body[nearest_piece] == np.arange(len(first))
    whole = [
        AssembledFile(
            [(int(rest.first[rows[other]]), DIRECT_BLOCKS), *body],
            EndEvidence.BLOCK_LIST_GUESSED_HEAD,
        )
        if match
        else AssembledFile(body, EndEvidence.NEXT_START)
        for body, other, match in zip(bodies, nearest_piece.tolist(), good.tolist(), strict=True)
    ]
    return whole, rows[nearest_piece[good]]


def _nearest(wanted: Int64s, places: Int64s) -> Rows:
    """Row of the place nearest to each number in `wanted`; `places` need not be sorted."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    after = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(ordered[before] - wanted) <= np.abs(ordered[after] - wanted)
    return order[np.where(nearer, before, after)]
