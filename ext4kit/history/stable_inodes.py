"""Stable inodes: live files whose block map in every logged state is empty or as on disk.

Most inodes are in the journal because they were created, or because another inode in their block
changed. Their block maps never changed. For such inodes only the runs are kept, not the states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import distinct
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt32s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import group_and_slot
from ext4kit.parsers.inode import InodeFlags, InodeTable


@dataclass(frozen=True, slots=True)
class OwnedRuns(Table):
    """Runs of blocks of stable inodes, as columns.

    Attributes:
        start, length: file system blocks.
        inode: inode number of the owner.
    """

    start: Int64s
    length: Int64s
    inode: Int64s


def split_stable(
    fs: FileSystem, table: InodeTable, watched: Int64s, logged: Int64s | None = None
) -> tuple[Bools, OwnedRuns]:
    """Separate the states of stable inodes from all others.

    Args:
        fs: the file system.
        table: states from consecutive inode table blocks of the log. Inodes in the first and the
            last block are not treated as stable, because other batches may have more of their
            states.
        watched: inode numbers that are not treated as stable either.
        logged: blocks with copies in the log, ascending; an inode that maps such a block is not
            treated as stable.

    Returns:
        (True for each state of a stable inode, runs of the stable inodes).
    """
    numbers, place = distinct(table.number)
    disk = fs.inode_table(numbers)
    stable = _has_fixed_map(fs, disk)
    stable[place[~_matches_disk(table, disk, place)]] = False
    stable &= ~np.isin(numbers, watched)
    runs = _owned_runs(fs, disk.take(stable))
    if logged is not None:
        low = np.searchsorted(logged, runs.start)
        rewritten = np.searchsorted(logged, runs.start + runs.length) > low
        stable &= ~np.isin(numbers, runs.inode[rewritten])
        kept = np.isin(runs.inode, numbers[stable])
        runs = runs.take(kept)
    return stable[place], runs


def _has_fixed_map(fs: FileSystem, disk: InodeTable) -> Bools:
    """True for live non-directories with their whole map in `i_block`, in inner blocks only."""
    by_extents = (disk.flags & int(InodeFlags.EXTENTS)) != 0
    words = _map_words(disk.i_block)
    deep = np.where(by_extents, words[:, 1] >> 16 != 0, words[:, 12:].any(axis=1))
    linked = (disk.links_count > 0) & fs.bitmaps.inodes_in_use(disk.number)
    group, slot = group_and_slot(fs.superblock, disk.number)
    per_block = fs.superblock.block_size // fs.superblock.inode_size
    block = group * fs.superblock.inodes_per_group + slot // per_block
    inner = (block != block[:1]) & (block != block[-1:])
    fixed: Bools = linked & inner & ~deep & ~disk.is_dir
    return fixed


def _matches_disk(table: InodeTable, disk: InodeTable, place: Rows) -> Bools:
    """True for linked states of the same instance as on disk, with the same map or an empty map."""
    same: Bools = (_map_words(table.i_block) == _map_words(disk.i_block)[place]).all(axis=1)
    others = np.flatnonzero(~same)
    # True where the map has no entry, as before the first write.
    by_extents = (table.flags[others] & int(InodeFlags.EXTENTS)) != 0
    words = _map_words(table.i_block[others])
    root = (words[:, 0] >> 16) | (words[:, 1] >> 16)  # eh_entries and eh_depth
    same[others] = np.where(by_extents, root == 0, ~words.any(axis=1))
    same &= table.links_count > 0
    for logged, now in (
        (table.mode, disk.mode),
        (table.flags, disk.flags),
        (table.generation, disk.generation),
    ):
        same &= logged == now[place]
    return same


def _map_words(i_block: Bytes2D) -> UInt32s:
    """Each `i_block` as 15 numbers, which compare faster than bytes."""
    return i_block.view("<u4")


def _owned_runs(fs: FileSystem, disk: InodeTable) -> OwnedRuns:
    runs = fs.map_table_silently(disk).runs
    return OwnedRuns(runs.physical, runs.length, disk.number[runs.owner])
