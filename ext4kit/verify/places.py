"""Locations of the file system's own blocks, for all groups at once."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.filesystem.geometry import (
    descriptor_blocks_count,
    descriptors_per_block,
    has_boot_block,
)
from ext4kit.parsers.features import Compat, Incompat, RoCompat
from ext4kit.parsers.superblock import Superblock


def superblock_groups(superblock: Superblock, count: int) -> Int64s:
    """int64: the groups that start with a superblock copy, ascending.

    Args:
        superblock: geometry of the file system.
        count: number of groups to test.
    """
    if Compat.SPARSE_SUPER2 in superblock.features:
        wanted = {0, *superblock.backup_groups}
    elif RoCompat.SPARSE_SUPER not in superblock.features:
        return np.arange(count)
    else:
        wanted = {0, 1, *(base**power for base in (3, 5, 7) for power in range(1, 25))}
    return np.array(sorted(group for group in wanted if group < count), np.int64)


def overheads(superblock: Superblock, groups: int) -> Int64s:
    """int64 per group: blocks at its start for boot block, superblock copy and descriptors."""
    count = descriptor_blocks_count(superblock)
    per_block = descriptors_per_block(superblock)
    number = np.arange(groups)
    copy = np.zeros(groups, np.int64)
    copy[superblock_groups(superblock, groups)] = 1
    classic = count
    if Incompat.META_BG in superblock.features:
        classic = min(superblock.first_meta_group, count)
    ahead = copy * (1 + classic + superblock.reserved_gdt_blocks)
    if has_boot_block(superblock):
        ahead[:1] += 1
        copy[:1] += 1
    if Incompat.META_BG not in superblock.features:
        return ahead
    inside, index = number % per_block, number // per_block
    has = ((inside < 2) | (inside == per_block - 1)) & (index < count)
    return np.where(index >= classic, copy + has, ahead)


def group_starts(superblock: Superblock, groups: int) -> Int64s:
    """int64: the first block of each group."""
    return superblock.first_data_block + np.arange(groups) * superblock.blocks_per_group
