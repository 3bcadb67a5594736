"""The disk map: allocated blocks, and blocks of recoverable files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import first_block, group_overhead
from ext4kit.journal import Log
from ext4kit.recovery import DeletedFiles, Grade
from ext4kit.triage.facts import DiskMap, MapCategory

_RECOVERABLE = (
    (Grade.INTACT, MapCategory.INTACT),
    (Grade.CONSISTENT, MapCategory.CONSISTENT),
    (Grade.PARTIAL, MapCategory.PARTIAL),
    (Grade.CARVED, MapCategory.CARVED),
)


def disk_map(fs: FileSystem, log: Log | None, deleted: DeletedFiles, cells: int) -> DiskMap:
    """The blocks of a file system in at most `cells` cells.

    Args:
        fs: the file system.
        log: its journal.
        deleted: its deleted files.
        cells: maximum number of cells.
    """
    blocks = fs.superblock.blocks_count
    cell = max(-(-blocks // cells), 1)
    edges = np.minimum(np.arange(0, blocks + cell, cell), blocks)
    edges = edges[: -(-blocks // cell) + 1]
    size = np.diff(edges)
    used = np.minimum(_blocks_per_cell(_allocated_runs(fs), edges), size)
    metadata = np.minimum(_blocks_per_cell(_metadata_runs(fs, log), edges), used)
    counts = {MapCategory.METADATA: metadata, MapCategory.FILES: used - metadata}
    free, runs, before = size - used, np.zeros((0, 2), np.int64), np.zeros(len(size), np.int64)
    for grade, use in _RECOVERABLE:  # a block of several files counts for the best grade
        runs = np.concatenate([runs, *_recoverable_runs(deleted, grade)])
        covered = np.minimum(_blocks_per_cell(runs, edges), free)
        counts[use] = np.maximum(covered - before, 0)
        before = np.maximum(covered, before)
    counts[MapCategory.FREE] = free - before
    return DiskMap(cell, counts)


def _blocks_per_cell(runs: Any, edges: Any) -> Any:
    """Number of blocks between neighbouring edges that runs (n, 2) of (first, end) cover.

    A block in several runs is counted once.
    """
    whole = Intervals.union(runs[:, 0], runs[:, 1] - runs[:, 0])
    columns = (whole.start, whole.end)
    sums = [np.concatenate([[0], np.cumsum(column)]) for column in columns]
    counts = [np.searchsorted(column, edges) for column in columns]
    before = [edges * n - total[n] for n, total in zip(counts, sums, strict=True)]
    return np.diff(before[0] - before[1])


def _allocated_runs(fs: FileSystem) -> Any:
    """(first, end) of the runs of blocks that the bitmaps mark."""
    superblock, parts = fs.superblock, [np.zeros((0, 2), np.int64)]
    for group in range(len(fs.groups)):
        start = first_block(superblock, group)
        count = min(superblock.blocks_per_group, superblock.blocks_count - start)
        used = Intervals.of_mask(fs.bitmaps.block_bitmap(group))
        places = np.stack([used.start, used.end], axis=1)
        parts.append(start + np.minimum(places * superblock.cluster_ratio, count))
    return np.concatenate([_boot_blocks(fs), *parts])


def _boot_blocks(fs: FileSystem) -> Any:
    """The blocks before the first group."""
    return np.array([[0, fs.superblock.first_data_block]], np.int64)


def _metadata_runs(fs: FileSystem, log: Log | None) -> Any:
    """(first, end) of superblocks, descriptors, bitmaps, inode tables and the journal."""
    superblock, groups = fs.superblock, fs.groups
    number = np.arange(len(groups))
    starts = superblock.first_data_block + number * superblock.blocks_per_group
    overhead = np.array([group_overhead(superblock, group) for group in number.tolist()], np.int64)
    table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
    kinds = ((starts, overhead), (groups.block_bitmap, 1), (groups.inode_bitmap, 1),
             (groups.inode_table, table))  # fmt: skip
    parts = [
        _boot_blocks(fs),
        *(np.stack([first, first + count], axis=1) for first, count in kinds),
    ]
    if log is not None and log.reader.blocks is fs.blocks:
        places = np.sort(log.reader.log_blocks[log.reader.log_blocks > 0])
        parts.append(np.stack([places, places + 1], axis=1))
    return np.concatenate(parts)


def _recoverable_runs(deleted: DeletedFiles, grade: Grade) -> Iterable[Any]:
    """(first, end) of the recoverable runs of files of a grade."""
    for file in deleted:
        content = file.content() if file.grade is grade else None
        if content is not None and content.runs is not None:
            runs = content.runs
            yield np.stack([runs.physical, runs.physical + runs.length], axis=1)
