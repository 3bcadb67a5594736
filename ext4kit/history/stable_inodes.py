"""Settled inodes: live files that every state in the log shows with the map they have now.

Most inodes in a log are there because they were created or a neighbour in their block changed.
They never gave a block away, so the blocks that each has are kept and its states are not.
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
    """Runs of blocks that settled inodes have, as columns.

    Attributes:
        start, length: the blocks.
        inode: whose they are.
    """

    start: Int64s
    length: Int64s
    inode: Int64s


def split_stable(
    fs: FileSystem, table: InodeTable, logged: Int64s | None = None
) -> tuple[Bools, OwnedRuns]:
    """Tell the states of settled inodes from those that matter.

    Args:
        fs: the file system.
        table: states from consecutive inode table blocks of the log. Nothing in the first and
            the last block is settled: other pieces of the log may hold more states of it.
        logged: blocks that the log has copies of, ascending; who has one now is not settled.

    Returns:
        (per state (bool): its inode is settled, what the settled inodes have).
    """
    numbers, place = distinct(table.number)
    disk = fs.inode_table(numbers)
    settled = _has_fixed_map(fs, disk)
    settled[place[~_matches_disk(table, disk, place)]] = False
    holdings = _owned_runs(fs, disk.take(settled))
    if logged is not None:
        low = np.searchsorted(logged, holdings.start)
        rewritten = np.searchsorted(logged, holdings.start + holdings.length) > low
        settled &= ~np.isin(numbers, holdings.inode[rewritten])
        kept = np.isin(holdings.inode, numbers[settled])
        holdings = holdings.take(kept)
    return settled[place], holdings


def _has_fixed_map(fs: FileSystem, disk: InodeTable) -> Bools:
    """Live, no directory, and mapped by nothing but its own i_block."""
    by_extents = (disk.flags & int(InodeFlags.EXTENTS)) != 0
    words = _map_words(disk.i_block)
    deep = np.where(by_extents, words[:, 1] >> 16 != 0, words[:, 12:].any(axis=1))
    alive = (disk.links_count > 0) & fs.bitmaps.inodes_in_use(disk.number)
    group, slot = group_and_slot(fs.superblock, disk.number)
    per_block = fs.superblock.block_size // fs.superblock.inode_size
    block = group * fs.superblock.inodes_per_group + slot // per_block
    inner = (block != block[:1]) & (block != block[-1:])
    fixed: Bools = alive & inner & ~deep & ~disk.is_dir
    return fixed


def _matches_disk(table: InodeTable, disk: InodeTable, place: Rows) -> Bools:
    """Per state (bool): alive, of the same life and kind as on disk, its map the same or empty."""
    same: Bools = (_map_words(table.i_block) == _map_words(disk.i_block)[place]).all(axis=1)
    others = np.flatnonzero(~same)
    same[others] = _map_is_empty(table.flags[others], table.i_block[others])
    same &= table.links_count > 0
    for logged, now in (
        (table.mode, disk.mode),
        (table.flags, disk.flags),
        (table.generation, disk.generation),
    ):
        same &= logged == now[place]
    return same


def _map_words(i_block: Bytes2D) -> UInt32s:
    """Each i_block as 15 numbers, which are compared sooner than its bytes are."""
    return i_block.view("<u4")


def _map_is_empty(flags: Int64s, i_block: Bytes2D) -> Bools:
    """Per state (bool): its map has no entry yet, as before the first data were written."""
    by_extents = (flags & int(InodeFlags.EXTENTS)) != 0
    words = _map_words(i_block)
    root = (words[:, 0] >> 16) | (words[:, 1] >> 16)  # eh_entries and eh_depth
    return np.where(by_extents, root == 0, ~words.any(axis=1))


def _owned_runs(fs: FileSystem, disk: InodeTable) -> OwnedRuns:
    runs = fs.map_table_silently(disk).runs
    return OwnedRuns(runs.physical, runs.length, disk.number[runs.owner])
