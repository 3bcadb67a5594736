"""The disk map, which shows allocated blocks and blocks of recoverable files."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import MOST_BLOCKS
from ext4kit.filesystem.geometry import first_block, group_overhead
from ext4kit.journal import Log
from ext4kit.recovery import DeletedFiles, Grade
from ext4kit.triage.facts import DiskMap, MapCategory

_RECOVERABLE = (Grade.INTACT, Grade.CONSISTENT, Grade.PARTIAL, Grade.CARVED)  # the best grade first


def disk_map(fs: FileSystem, log: Log | None, deleted: DeletedFiles, cells: int) -> DiskMap:
    """The disk map of a file system with at most `cells` cells."""
    blocks = min(fs.superblock.blocks_count, MOST_BLOCKS)
    cell = max(-(-blocks // cells), 1)
    edges = np.append(np.arange(0, blocks, cell), blocks)
    size = np.diff(edges)
    used = np.minimum(_blocks_per_cell(_allocated_runs(fs), edges), size)
    metadata = np.minimum(_blocks_per_cell(_metadata_runs(fs, log), edges), used)
    counts = {MapCategory.METADATA: metadata, MapCategory.FILES: used - metadata}
    free, runs, before = size - used, np.zeros((0, 2), np.int64), np.zeros(len(size), np.int64)
    contents = [(file.grade, file.content()) for file in deleted if file.grade in _RECOVERABLE]
    for grade in _RECOVERABLE:  # a block of several files is counted for the best of their grades
        found = (one.runs for of, one in contents if of is grade and one and one.runs is not None)
        own = (np.stack([each.physical, each.physical + each.length], axis=1) for each in found)
        runs = np.concatenate([runs, *own])
        covered = np.minimum(_blocks_per_cell(runs, edges), free)
        counts[MapCategory(grade)] = np.maximum(covered - before, 0)
        before = np.maximum(covered, before)
    counts[MapCategory.FREE] = free - before
    return DiskMap(cell, counts)


def _blocks_per_cell(runs: Int64s, edges: Int64s) -> Int64s:
    """Per interval between neighbouring edges: number of its blocks that are covered by runs.

    The runs are rows (first, end) of shape (n, 2). A block in several runs is counted once.
    """
    whole = Intervals.union(runs[:, 0], runs[:, 1] - runs[:, 0])
    covered = np.zeros(len(edges), np.int64)  # number of covered blocks before each edge
    for sign, column in ((1, whole.start), (-1, whole.end)):
        sums, counts = np.append(0, np.cumsum(column)), np.searchsorted(column, edges)
        covered += sign * (edges * counts - sums[counts])
    return np.diff(covered)


def _allocated_runs(fs: FileSystem) -> Int64s:
    """(first, end) of the blocks before the first group and of blocks marked in the bitmaps."""
    superblock, parts = fs.superblock, [np.array([[0, fs.superblock.first_data_block]])]
    for group in range(len(fs.groups)):
        start = first_block(superblock, group)
        count = min(superblock.blocks_per_group, superblock.blocks_count - start)
        used = Intervals.of_mask(fs.bitmaps.block_bitmap(group))
        places = np.stack([used.start, used.end], axis=1)
        parts.append(start + np.minimum(places * superblock.cluster_ratio, count))
    return np.concatenate(parts)


def _metadata_runs(fs: FileSystem, log: Log | None) -> Int64s:
    """(first, end) of boot block, superblocks, descriptors, bitmaps, inode tables and journal."""
    superblock, groups = fs.superblock, fs.groups
    number = np.arange(len(groups))
    starts = superblock.first_data_block + number * superblock.blocks_per_group
    overhead = np.array([group_overhead(superblock, group) for group in number.tolist()], np.int64)
    table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
    kinds: list[tuple[Int64s, Int64s | int]] = [
        (np.zeros(1, np.int64), superblock.first_data_block), (starts, overhead),
        (groups.block_bitmap, 1), (groups.inode_bitmap, 1), (groups.inode_table, table),
    ]  # fmt: skip
    if log is not None and log.reader.blocks is fs.blocks:
        kinds.append((log.reader.log_blocks[log.reader.log_blocks > 0], 1))
    return np.concatenate([np.stack([first, first + count], axis=1) for first, count in kinds])
