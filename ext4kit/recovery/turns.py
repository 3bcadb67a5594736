"""Files with known blocks, in creation order and in disk order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.matching.between_neighbours import Placement
from ext4kit.matching.hmm import NeighbourFiles
from ext4kit.matching.transitions import NEAR_BLOCKS, NOTHING, STREAM_REQUEST_BLOCKS, Adjacency
from ext4kit.parsers.inode import InodeTable
from ext4kit.recovery.attribution import BlockAttribution


@dataclass(frozen=True, slots=True)
class PlacedFiles:
    """Files with a known inode and known blocks.

    Attributes:
        placed: files of all types.
        regular: True for regular files.
        candidate: int64, candidate row, NOTHING for allocated files.
        runs: their blocks; `owner` is the row in `placed`.
        taken: (first block, one past the last) of all runs with an owner, ascending.
    """

    placed: Placement
    regular: Bools
    candidate: Int64s
    runs: Runs
    taken: tuple[Int64s, Int64s]


def find_placed_files(blocks: BlockAttribution) -> PlacedFiles:
    """All allocated files, and candidates with a map."""
    fs, states, runs = blocks.history.fs, blocks.history.states, blocks.runs
    earlier = blocks.candidates.superseded
    every = np.arange(len(blocks.candidates))
    tables = [(states.table.take(blocks.candidates.state_row), runs, earlier, every)]
    for table, maps in fs.allocated_maps():
        nobody = np.full(len(table), NOTHING)
        tables.append((table, maps.runs, np.zeros(len(table), bool), nobody))
    placed, regular, candidate, theirs = [], [], [], []
    for table, data, superseded, row in tables:
        mapped, part = _placement(fs, table, data)
        placed.append(part)
        kept = table.is_regular & ~superseded & (table.crtime > 0)
        regular.append((kept & (table.number >= fs.superblock.first_inode))[mapped])
        candidate.append(row[mapped])
        owner = np.searchsorted(mapped, data.owner)
        theirs.append((replace(data, owner=owner), len(mapped)))
    taken = Intervals.union(
        np.concatenate([data.physical for _, data, _, _ in tables]),
        np.concatenate([data.length for _, data, _, _ in tables]),
    )
    return PlacedFiles(
        Placement.concat(placed),
        np.concatenate(regular),
        np.concatenate(candidate),
        Runs.stacked(theirs),
        (taken.start, taken.end),
    )


def _placement(fs: FileSystem, table: InodeTable, runs: Runs) -> tuple[Rows, Placement]:
    """Rows of a table that have blocks, and their `Placement`."""
    mapped, first = np.unique(runs.owner, return_index=True)
    last = np.append(first[1:], len(runs))[: len(first)] - 1
    start, end = runs.physical[first], runs.physical[last] + runs.length[last]
    number = table.number[mapped]
    group = group_of(fs, number)
    return mapped, Placement(group, table.crtime[mapped], number, start, end, first == last)


def group_of(fs: FileSystem, number: Int64s) -> Int64s:
    """Block groups of inodes."""
    return (number - 1) // fs.superblock.inodes_per_group


def creation_rank(time: Int64s, number: Int64s, other_time: Int64s, other_number: Int64s) -> Int64s:
    """Number of files, ascending by time and number, created before each other file."""
    order = np.lexsort((np.concatenate([number, other_number]), np.concatenate([time, other_time])))
    mine = order < len(time)
    count = np.empty(len(order), np.int64)
    count[order] = np.cumsum(mine) - mine
    return count[len(time) :]


def allocation_order(first: Int64s, end: Int64s) -> Rows:
    """Order of contents: the small ones as they lie, then the large ones.

    The allocator has a place of its own for each of the two, and fills each in the order in which
    the files are written (kernel Documentation/filesystems/ext4/allocators.rst).
    """
    return np.lexsort((first, end - first > STREAM_REQUEST_BLOCKS))


def neighbours_of(
    lying: tuple[Int64s, Int64s], known: tuple[Int64s, Int64s, Int64s, Int64s]
) -> tuple[Int64s, NeighbourFiles, NeighbourFiles]:
    """Adjacency of contents in allocation order, and the known files before and after each.

    Args:
        lying: (first block, one past the last) of the contents, as `allocation_order` has them.
        known: (first block, one past the last, creation rank, directory) of the runs of known
            files, in any order.

    Returns:
        (an `Adjacency` per content, known files before, known files after).
    """
    first, end = (np.concatenate(pair) for pair in zip(lying, known, strict=False))
    order = np.argsort(first, kind="stable")
    first, end = first[order], end[order]
    content = order < len(lying[0])
    large = end - first > STREAM_REQUEST_BLOCKS
    gap = np.append(np.iinfo(np.int64).max, first[1:] - end[:-1])
    same = np.append(False, large[1:] == large[:-1])
    row = np.cumsum((gap != 0) | ~same)
    here = np.argsort(order)[: len(lying[0])]
    link = np.where(large[here], Adjacency.CONTIGUOUS_LARGE, Adjacency.CONTIGUOUS_SMALL)
    breaks = (
        (row, Adjacency.CONTIGUOUS_MIXED),
        (gap != 0, Adjacency.NEAR),
        ((gap < 0) | (gap > NEAR_BLOCKS), Adjacency.FAR),
    )
    for broken, kind in breaks:
        sums = np.cumsum(broken) if broken.dtype == bool else broken
        link[1:][sums[here[1:]] != sums[here[:-1]]] = kind
    link[:1] = Adjacency.FAR
    link[1:][np.diff(here) < 0] = Adjacency.FAR
    every = np.arange(len(order))
    in_front = np.maximum.accumulate(np.where(content, NOTHING, every))[here]
    after = np.minimum.accumulate(np.where(content, len(order), every)[::-1])[::-1][here]
    after[after == len(order)] = NOTHING
    counted: Int64s = np.cumsum(content)
    sides = []
    for side, between in (
        (in_front, counted[here] - counted[in_front] - 1),
        (after, counted[after] - counted[here]),
    ):
        there = side != NOTHING
        known_row = np.where(there, order[side] - len(lying[0]), NOTHING)
        made, folder = (np.append(column, 0)[known_row] for column in known[2:])
        sides.append(
            NeighbourFiles(
                np.where(there, made, NOTHING),
                between,
                there & (row[side] == row[here]),
                np.where(there, folder, NOTHING),
            )
        )
    return link, sides[0], sides[1]
