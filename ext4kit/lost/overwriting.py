"""The bytes of the volume that the overwriting file system uses.

`mke2fs` writes less than it allocates: with lazy_itable_init, the unused part of an inode table
is unchanged until the kernel zeroes it, and so are the bitmaps of uninitialised groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import first_block, group_overhead
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.group import GroupFlags
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET

MKE2FS_WIPED_TAIL = (
    1 << 16
)  # bytes at the end of the volume that mke2fs clears, because RAID metadata may be there


class OverwritingFs:
    """The present file system as the later owner of blocks of the lost one.

    Args:
        present: the present file system; None if there is none.
        size: bytes of the volume.
    """

    def __init__(self, present: FileSystem | None, size: int) -> None:
        self.present = present
        self.size = size

    @property
    def was_mounted(self) -> bool:
        """Whether the present file system was ever mounted; blocks it has freed are unknown."""
        if self.present is None:
            return False
        superblock = self.present.superblock
        return bool(superblock.mount_count or superblock.mount_time)

    @cached_property
    def written_bytes(self) -> Intervals:
        """Allocated bytes that the present file system wrote or may have written."""
        return self._spans[0]

    @cached_property
    def reserved_bytes(self) -> Intervals:
        """Allocated bytes that the present file system never wrote."""
        return self._spans[1]

    @cached_property
    def _spans(self) -> tuple[Intervals, Intervals]:
        if self.present is None:
            return Intervals.empty(), Intervals.empty()
        kept = _union(*_make(list(_unwritten_bytes(self.present))))
        used = _make(list(_allocated_bytes(self.present)))
        own = (
            np.array([0, self.size - MKE2FS_WIPED_TAIL]),
            np.array([SUPERBLOCK_OFFSET + SUPERBLOCK.size, self.size]),
        )
        written = _union(*used).subtract(kept)
        start, end = np.append(written.start, own[0]), np.append(written.end, own[1])
        return _union(start, end), kept

    def allocated_inodes_at(self, place: Int64s) -> Bools:
        """Per byte (bool): True where an inode in use of the present file system begins."""
        found = np.zeros(len(place), bool)
        if self.present is None or not len(place):
            return found
        for first, last, size, numbers in self._tables:
            row = np.flatnonzero((place >= first) & (place < last))
            number = numbers + (place[row] - first) // size
            found[row] = self.present.bitmaps.inodes_in_use(number)
        return found

    @cached_property
    def _tables(self) -> list[tuple[int, int, int, int]]:
        """(first byte, end, inode size, first inode number) of the inode table of each group."""
        assert self.present is not None
        superblock = self.present.superblock
        length = superblock.inodes_per_group * superblock.inode_size
        starts = (self.present.groups.inode_table * superblock.block_size).tolist()
        return [
            (start, start + length, superblock.inode_size, group * superblock.inodes_per_group + 1)
            for group, start in enumerate(starts)
        ]


def _union(start: Int64s, end: Int64s) -> Intervals:
    return Intervals.union(start, end - start)


def in_blocks(ranges: Intervals, size: int) -> Intervals:
    """The blocks of `size` bytes that overlap byte ranges."""
    return _union(ranges.start // size, -(-ranges.end // size))


def _make(pairs: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    none = np.zeros(0, np.int64)
    start = np.concatenate([none, *(first for first, _ in pairs)])
    return start, np.concatenate([none, *(end for _, end in pairs)])


def _allocated_bytes(fs: FileSystem) -> Iterator[tuple[Int64s, Int64s]]:
    """(start, end) of the allocated blocks in bytes, group by group."""
    superblock = fs.superblock
    size = superblock.block_size
    for group in range(len(fs.groups)):
        first = first_block(superblock, group)
        bits = np.repeat(fs.bitmaps.block_bitmap(group), superblock.cluster_ratio)
        runs = Intervals.of_mask(bits[: superblock.blocks_count - first])
        yield (runs.start + first) * size, (runs.end + first) * size


def unwritten_inode_tables(fs: FileSystem) -> tuple[Int64s, Int64s]:
    """Per group: (first block, number of blocks) of the unwritten end of its inode table."""
    superblock, groups = fs.superblock, fs.groups
    size, per_group = superblock.block_size, superblock.inodes_per_group
    table = -(-per_group * superblock.inode_size // size)
    zeroed = (groups.flags & int(GroupFlags.INODE_ZEROED)) != 0
    used = np.where(
        _uninitialised_groups(fs), 0, np.clip(per_group - groups.itable_unused, 0, per_group)
    )
    used = -(-used * superblock.inode_size // size)
    used = np.where(zeroed | (not _is_lazy(fs)), table, used)
    return groups.inode_table + used, table - used


def _is_lazy(fs: FileSystem) -> bool:
    superblock = fs.superblock
    return superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features


def _uninitialised_groups(fs: FileSystem) -> Bools:
    """Per group (bool): True where inode bitmap and inode table were never used."""
    unused: Bools = (fs.groups.flags & int(GroupFlags.INODE_UNINIT)) != 0
    return unused


def _unwritten_bytes(fs: FileSystem) -> Iterator[tuple[Int64s, Int64s]]:
    """(start, end) of unwritten bytes: ends of inode tables, bitmaps, reserved GDT blocks."""
    size, groups = fs.superblock.block_size, fs.groups
    first, count = unwritten_inode_tables(fs)
    yield first * size, (first + count) * size
    if _is_lazy(fs):
        blank = (groups.flags & int(GroupFlags.BLOCK_UNINIT)) != 0
        for place in (groups.inode_bitmap[_uninitialised_groups(fs)], groups.block_bitmap[blank]):
            yield place * size, (place + 1) * size
    superblock, spare = fs.superblock, fs.superblock.reserved_gdt_blocks
    ends = [
        (first_block(superblock, group) + group_overhead(superblock, group)) * size
        for group in range(1, len(fs.groups))
        if spare and group_overhead(superblock, group) > spare
    ]
    end = np.array(ends, np.int64)
    yield end - spare * size, end  # these blocks are unwritten in all groups but the first
