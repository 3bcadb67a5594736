"""Blocks whose type follows from their location."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import Int64s
from ext4kit.filesystem.geometry import (
    descriptor_blocks_count,
    first_block,
    group_overhead,
    has_superblock,
)
from ext4kit.journal.block_types.types import BlockRole
from ext4kit.parsers.features import Incompat

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.journal.log import Log


def by_place(fs: FileSystem, log: Log, blocks: Int64s) -> tuple[Int64s, Int64s]:
    """The types of blocks from their location alone.

    Args:
        fs: the file system.
        log: its log.
        blocks: int64 (n,), block numbers.

    Returns:
        (int64 BlockRole (n,), int64 (n,)). The second array has the group of a bitmap, the first
        inode of an inode table block, and -1 elsewhere.
    """
    kind, number = np.zeros(len(blocks), np.int64), np.full(len(blocks), -1)
    superblock = fs.superblock
    group = (blocks - superblock.first_data_block) // superblock.blocks_per_group
    inside = (blocks >= 0) & (blocks < superblock.blocks_count)
    kind[~inside] = BlockRole.OUTSIDE
    wanted = np.unique(group[inside & (group >= 0) & (group < len(fs.groups))])
    _classify_overhead(fs, blocks, group, wanted, kind)
    groups = fs.groups
    for content, places in (
        (BlockRole.BLOCK_BITMAP, groups.block_bitmap),
        (BlockRole.INODE_BITMAP, groups.inode_bitmap),
    ):
        owner = _found_in(places, blocks)
        kind[owner >= 0], number[owner >= 0] = content, owner[owner >= 0]
    first = first_inodes(fs, blocks)
    kind[first >= 0], number[first >= 0] = BlockRole.INODES, first[first >= 0]
    if log.home is log.reader.blocks:
        kind[np.isin(blocks, log.reader.log_blocks)] = BlockRole.JOURNAL
    if Incompat.MMP in superblock.features:
        kind[blocks == superblock.mmp_block] = BlockRole.MMP
    return kind, number


def _classify_overhead(
    fs: FileSystem, blocks: Int64s, group: Int64s, wanted: Int64s, kind: Int64s
) -> None:
    """Superblocks and group descriptors of the groups that contain any of the blocks."""
    superblock = fs.superblock
    if not len(wanted):
        return
    rank = np.searchsorted(wanted, group)
    known = (rank < len(wanted)) & (wanted[np.minimum(rank, len(wanted) - 1)] == group)
    if not known.any():
        return
    numbers = wanted.tolist()
    starts = np.array([first_block(superblock, each) for each in numbers])
    copies = np.array([has_superblock(superblock, each) for each in numbers])
    lengths = np.array([group_overhead(superblock, each) for each in numbers])
    rank = np.where(known, rank, 0)
    inside = blocks - starts[rank]
    descriptors = known & (inside >= 0) & (inside < lengths[rank])
    kind[descriptors] = BlockRole.DESCRIPTORS
    kind[known & copies[rank] & (inside == 0)] = BlockRole.SUPERBLOCK
    kind[blocks == 1024 // superblock.block_size] = BlockRole.SUPERBLOCK
    most = superblock.first_data_block + 1 + descriptor_blocks_count(superblock)
    early = (blocks > 1024 // superblock.block_size) & (blocks < most) & (group == 0)
    kind[early] = BlockRole.DESCRIPTORS


def _found_in(places: Int64s, blocks: Int64s) -> Int64s:
    """Row of each block in a column, -1 where the column does not contain it."""
    order = np.argsort(places, kind="stable")
    return values_at(order, SortedIndex(places[order]).rows(blocks))


def first_inodes(fs: FileSystem, blocks: Int64s) -> Int64s:
    """First inode number in each block of an inode table, -1 elsewhere."""
    superblock = fs.superblock
    per_block = superblock.block_size // superblock.inode_size
    starts = fs.groups.inode_table
    order = np.argsort(starts, kind="stable")
    place = np.searchsorted(starts[order], blocks, side="right") - 1
    group = order[np.maximum(place, 0)]
    slot = (blocks - starts[group]) * per_block
    fits = (place >= 0) & (slot >= 0) & (slot < superblock.inodes_per_group)
    return np.where(fits, group * superblock.inodes_per_group + slot + 1, -1)
