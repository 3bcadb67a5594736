"""Treats blocks mapped by linked inodes as allocated, even if the bitmaps mark them free.

A bitmap may be damaged, cleared by hand, or flagged uninitialised. The content of linked files
would then be carved as unallocated space.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import first_block
from ext4kit.parsers.inode import inode_checksums_ok


def count_mapped_as_used(fs: FileSystem) -> None:
    """Treat all blocks mapped by linked inodes as allocated; report blocks that are marked free."""
    starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for table in fs.inode_batches():
        linked = table.take((table.links_count > 0) & (table.dtime == 0) & (table.mode != 0))
        if fs.superblock.has_metadata_checksums:
            linked = linked.take(inode_checksums_ok(linked, fs.superblock))
        maps = fs.map_table_silently(linked)
        nodes = maps.tree_blocks[1]
        starts += [maps.runs.physical, nodes]
        lengths += [maps.runs.length, np.ones(len(nodes), np.int64)]
    free = _marked_free(fs, Intervals.union(np.concatenate(starts), np.concatenate(lengths)))
    if len(free):
        what = f"{len(free):,} blocks that inodes map are marked free; they count as allocated"
        fs.problems.add("block bitmaps", what)
        fs.bitmaps.count_as_used(free)


def _marked_free(fs: FileSystem, mapped: Intervals) -> Int64s:
    """Mapped blocks (int64, ascending) that are marked free."""
    superblock, found = fs.superblock, [np.zeros(0, np.int64)]
    start, end = mapped.start, mapped.end
    for group in range(len(fs.groups)):
        first = first_block(superblock, group)
        last = first + superblock.blocks_per_group
        low, high = np.searchsorted(end, first, "right"), np.searchsorted(start, last)
        if low == high:
            continue
        begin, stop = np.maximum(start[low:high], first), np.minimum(end[low:high], last)
        bits = np.repeat(fs.bitmaps.block_bitmap(group) == 0, superblock.cluster_ratio)
        before = np.concatenate([[0], np.cumsum(bits)])
        some = before[stop - first] > before[begin - first]
        row, position = expand(stop[some] - begin[some])
        blocks = begin[some][row] + position
        found.append(blocks[bits[blocks - first]])
    return np.concatenate(found)
