"""Locations of superblock copies, group descriptors and inode slots.

Source: kernel Documentation/filesystems/ext4/blockgroup.rst and special_inodes.rst.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.parsers.features import Compat, Incompat, RoCompat
from ext4kit.parsers.superblock import Superblock

Numbers = TypeVar("Numbers", int, Int64s)
_SPARSE_GROUPS = frozenset(base**power for base in (3, 5, 7) for power in range(1, 22))


def has_superblock(superblock: Superblock, group: int) -> bool:
    """Whether a group starts with a superblock copy (sparse_super, sparse_super2)."""
    if group == 0:
        return True
    if Compat.SPARSE_SUPER2 in superblock.features:
        return group in superblock.backup_groups
    if RoCompat.SPARSE_SUPER not in superblock.features or group == 1:
        return True
    return group in _SPARSE_GROUPS


def superblock_groups(superblock: Superblock, count: int) -> Int64s:
    """The groups that start with a superblock copy, int64, ascending.

    Args:
        superblock: geometry of the file system.
        count: number of groups to test.
    """
    if Compat.SPARSE_SUPER2 in superblock.features:
        wanted = {0, *superblock.backup_groups}
    elif RoCompat.SPARSE_SUPER not in superblock.features:
        return np.arange(count)
    else:
        wanted = {0, 1, *_SPARSE_GROUPS}
    return np.array(sorted(group for group in wanted if group < count), np.int64)


def first_block(superblock: Superblock, group: int) -> int:
    """The first block of a group."""
    return superblock.first_data_block + group * superblock.blocks_per_group


def descriptors_per_block(superblock: Superblock) -> int:
    """Number of group descriptors per block."""
    return superblock.block_size // superblock.descriptor_size


def descriptor_blocks_count(superblock: Superblock) -> int:
    """Number of blocks of one full copy of the group descriptors."""
    return -(-superblock.groups_count // descriptors_per_block(superblock))


def _meta_groups_start(superblock: Superblock) -> int:
    """The first descriptor block that meta_bg places inside its own meta group."""
    if Incompat.META_BG not in superblock.features:
        return descriptor_blocks_count(superblock)
    return min(superblock.first_meta_group, descriptor_blocks_count(superblock))


def has_boot_block(superblock: Superblock) -> bool:
    """Whether group 0 has the boot block and then the superblock: bigalloc with 1 KiB blocks.

    Source: kernel fs/ext4/super.c, `descriptor_loc`.
    """
    return superblock.block_size == 1024 and superblock.first_data_block == 0


def descriptor_blocks(
    superblock: Superblock, copy_group: int = 0, most: int | None = None
) -> Int64s:
    """The block of each group descriptor block, int64.

    Args:
        superblock: the geometry.
        copy_group: group of the superblock copy whose descriptors are requested. In meta
            groups the copies are in the second group instead of the first.
        most: limit of blocks; a damaged superblock can give a huge count.
    """
    count, classic = descriptor_blocks_count(superblock), _meta_groups_start(superblock)
    if most is not None:
        count, classic = min(count, most), min(classic, most)
    boots = int(copy_group == 0 and has_boot_block(superblock))
    base = first_block(superblock, copy_group) + 1 + boots
    places = list(range(base, base + classic))
    per_block = descriptors_per_block(superblock)
    for index in range(classic, count):
        group = index * per_block + (1 if copy_group else 0)
        ahead = has_superblock(superblock, group) + (boots if index == 0 else 0)
        places.append(first_block(superblock, group) + ahead)
    return np.array(places, np.int64)


def group_overhead(superblock: Superblock, group: int) -> int:
    """Number of blocks that boot block, superblock copy and descriptors take in a group."""
    count, classic = descriptor_blocks_count(superblock), _meta_groups_start(superblock)
    copy = has_superblock(superblock, group) + (group == 0 and has_boot_block(superblock))
    per_block = descriptors_per_block(superblock)
    index = group // per_block
    if Incompat.META_BG in superblock.features and index >= classic:
        inside = group - index * per_block
        return copy + (inside in (0, 1, per_block - 1) and index < count)
    return copy + classic + superblock.reserved_gdt_blocks if copy else 0


def group_and_slot(superblock: Superblock, numbers: Numbers) -> tuple[Numbers, Numbers]:
    """(group, slot in the group's table) of inode numbers, as integers or columns."""
    index = numbers - 1
    return index // superblock.inodes_per_group, index % superblock.inodes_per_group
