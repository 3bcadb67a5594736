"""Allocation of blocks and inodes, written to bitmaps, group descriptors and superblock.

Everything is written at the end: clusters that changed inodes had before the fast commits become
free, and those that they have afterwards become allocated, whatever happened in between.
Source: kernel fs/ext4/fast_commit.c, `ext4_fc_set_bitmaps_and_counters`; fs/ext4/mballoc.c,
`ext4_mb_mark_context`; fs/ext4/ialloc.c, `ext4_mark_inode_used`.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Int64s, UInt8s
from ext4kit.errors import CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import descriptor_blocks, descriptors_per_block, group_and_slot
from ext4kit.journal.fast_commits.overlay import BlockOverlay, get_field, set_fields
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.group import (
    DESCRIPTOR,
    DESCRIPTOR_64,
    GroupFlags,
    bitmap_checksum,
    descriptor_checksum,
)
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET

_NONE = np.zeros(0, np.int64)
Spans = tuple[Int64s, Int64s]  # (first blocks, lengths)


class BlockAllocator:
    """Blocks and inodes that are free, allocated and freed.

    Args:
        fs: the file system before the fast commits.
        draft: receives the changes.
        reserved: (first blocks, lengths) of ranges that fast commits name; they are never
            allocated.
    """

    def __init__(self, fs: FileSystem, draft: BlockOverlay, reserved: Spans) -> None:
        self._fs = fs
        self._draft = draft
        superblock = fs.superblock
        self._ratio = superblock.cluster_ratio
        self._per_group = superblock.bits_per_group
        self._reserved = self._clusters([reserved])
        self._busy: dict[int, UInt8s] = {}
        self._freed: list[Spans] = []
        self._taken: list[Spans] = []
        self._kept: list[Spans] = []
        self._inodes: dict[int, tuple[bool, bool]] = {}
        self._free_blocks = fs.groups.free_blocks_count.copy()
        self._free_inodes = fs.groups.free_inodes_count.copy()

    # -- blocks ---------------------------------------------------------------------------

    def note_freed(self, first: Int64s, length: Int64s) -> None:
        """Record blocks (int64 columns) that belonged to an inode before its change."""
        self._freed.append((first, length))

    def note_used(self, first: Int64s, length: Int64s) -> None:
        """Record blocks (int64 columns) that belong to an inode after its change."""
        self._taken.append((first, length))

    def keep(self, block: int) -> None:
        """Record a block that stays in use after the change and that several inodes may share."""
        self._kept.append((np.array([block]), np.ones(1, np.int64)))

    def allocate(self, group: int) -> int:
        """Allocate a free cluster, in `group` if possible, and return its first block.

        Raises:
            CorruptError: no cluster is free.
        """
        with_room = np.flatnonzero(self._fs.groups.free_blocks_count > 0)
        order = np.concatenate([with_room[with_room >= group], with_room[with_room < group]])
        for candidate in order.tolist():
            busy = self._unavailable(candidate)
            place = int(np.argmin(busy))
            if not busy[place]:
                busy[place] = 1
                cluster = candidate * self._per_group + place
                return int(self._fs.superblock.first_data_block + cluster * self._ratio)
        raise CorruptError("block bitmaps", None, "no free block is left")

    def _unavailable(self, group: int) -> UInt8s:
        """True for each cluster of a group that is in use or named by a fast commit."""
        if group not in self._busy:
            bits = self._fs.bitmaps.block_bitmap(group).copy()
            bits[self._clusters_in(group) :] = 1
            start = group * self._per_group
            first, end = (np.clip(edge - start, 0, len(bits)) for edge in self._reserved)
            for one, other in zip(first.tolist(), end.tolist(), strict=True):
                bits[one:other] = 1
            self._busy[group] = bits
        return self._busy[group]

    def _clusters_in(self, group: int) -> int:
        """Number of clusters of a group; the last group can be short."""
        superblock = self._fs.superblock
        left = superblock.blocks_count - superblock.first_data_block
        return min(-(-left // self._ratio) - group * self._per_group, self._per_group)

    def _clusters(self, spans: list[Spans]) -> Spans:
        """(first cluster, one past the last) of block runs, numbered over all groups."""
        first = np.concatenate([_NONE, *(span[0] for span in spans)])
        length = np.concatenate([_NONE, *(span[1] for span in spans)])
        start = first - self._fs.superblock.first_data_block
        return start // self._ratio, -(-(start + length) // self._ratio)

    def count_clusters(self, first: Int64s, length: Int64s) -> int:
        """Number of clusters that contain the blocks."""
        start, end = self._clusters([(first, length)])
        return int(Intervals.union(start, end - start).length.sum())

    def _by_group(self, spans: list[Spans]) -> dict[int, Spans]:
        """Per group: (first, one past the last) cluster of each run, numbered in the group."""
        start, end = self._clusters(spans)
        row, step = expand((end - 1) // self._per_group - start // self._per_group + 1)
        group = start[row] // self._per_group + step
        base = group * self._per_group
        first = np.maximum(start[row] - base, 0)
        last = np.minimum(end[row] - base, self._per_group)
        order = np.argsort(group, kind="stable")
        edges = np.flatnonzero(np.diff(group[order])) + 1
        parts = np.split(order, edges) if len(order) else []
        return {int(group[part[0]]): (first[part], last[part]) for part in parts}

    def _clusters_of_runs(self, spans: Spans | None) -> Bools:
        """True for each cluster of a group that is in one of the runs."""
        delta = np.zeros(self._per_group + 1, np.int64)
        if spans is not None:
            np.add.at(delta, spans[0], 1)
            np.add.at(delta, spans[1], -1)
        return np.cumsum(delta)[:-1] > 0

    # -- inodes ---------------------------------------------------------------------------

    def note_inode(self, number: int, used: bool, directory: bool) -> None:
        """Record whether an inode is in use, and whether it is a directory, after its change."""
        self._inodes[number] = (used, directory)

    # -- writing --------------------------------------------------------------------------

    def write_all(self) -> int:
        """Write bitmaps, descriptors and the superblock's counts.

        Returns:
            Number of clusters that a changed inode uses although they belong to another inode.
        """
        parts = [self._by_group(spans) for spans in (self._freed, self._taken, self._kept)]
        clashes = 0
        for group in sorted(set().union(*parts)):
            if 0 <= group < len(self._fs.groups):
                clashes += self._finish_blocks(group, *(part.get(group) for part in parts))
        numbers = np.array(sorted(self._inodes), np.int64)
        groups, slots = group_and_slot(self._fs.superblock, numbers)
        for group in np.unique(groups).tolist():
            in_group = groups == group
            self._finish_inode_group(group, numbers[in_group], slots[in_group])
        self._finish_superblock()
        return clashes

    def _finish_blocks(self, group: int, *runs: Spans | None) -> int:
        given, now, kept = (self._clusters_of_runs(one) for one in runs)
        before = self._fs.bitmaps.block_bitmap(group)
        after = np.where(now | kept, 1, np.where(given, 0, before)).astype(np.uint8)
        clashes = int((now & (before != 0) & ~given).sum())
        if (after == before).all():
            return clashes
        uninitialised = self._is_uninitialised(group, GroupFlags.BLOCK_UNINIT)
        block = int(self._fs.groups.block_bitmap[group])
        row = self._write_bits(block, after, self._clusters_in(group), uninitialised)
        change = int(before.astype(np.int64).sum() - after.astype(np.int64).sum())
        self._free_blocks[group] += change
        descriptor = self._descriptor(group)
        descriptor.add("bg_free_blocks_count", change)
        descriptor.clear_flag(GroupFlags.BLOCK_UNINIT)
        if self._fs.superblock.has_metadata_checksums:
            covered = row[: self._per_group // 8]
            checksum = bitmap_checksum(self._fs.superblock, covered.tobytes())
            descriptor.set("bg_block_bitmap_csum", checksum)
        descriptor.write_checksum()
        return clashes

    def _write_bits(self, block: int, bits: UInt8s, bit_count: int, uninitialised: bool) -> UInt8s:
        """Write a bitmap; in one that was never written before, the padding bits are set."""
        row = self._draft.zeroed(block) if uninitialised else self._draft.writable(block)
        whole = np.unpackbits(row, bitorder="little")
        whole[: len(bits)] = bits
        if uninitialised:
            whole[bit_count:] = 1
        row[:] = np.packbits(whole, bitorder="little")
        return row

    def _is_uninitialised(self, group: int, flag: GroupFlags) -> bool:
        superblock = self._fs.superblock
        lazy = superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features
        return lazy and bool(int(self._fs.groups.flags[group]) & flag)

    def _descriptor(self, group: int) -> _GroupDescriptor:
        superblock = self._fs.superblock
        index, slot = divmod(group, descriptors_per_block(superblock))
        block = int(descriptor_blocks(superblock)[index])
        at = slot * superblock.descriptor_size
        row = self._draft.writable(block)[at : at + superblock.descriptor_size]
        return _GroupDescriptor(self._fs, group, row)

    def _finish_inode_group(self, group: int, numbers: Int64s, slots: Int64s) -> None:
        fs = self._fs
        before = fs.bitmaps.inode_bitmap(group)
        after = before.copy()
        states = [self._inodes[number] for number in numbers.tolist()]
        after[slots] = [used for used, _ in states]
        directories = sum(used and directory for used, directory in states)
        old = fs.inode_table(numbers)
        was = (before[slots] != 0) & old.is_dir
        descriptor = self._descriptor(group)
        descriptor.add("bg_used_dirs_count", directories - int(was.sum()))
        if (after != before).any():
            lazy = self._is_uninitialised(group, GroupFlags.INODE_UNINIT)
            block = int(fs.groups.inode_bitmap[group])
            row = self._write_bits(block, after, len(after), lazy)
            change = int(before.astype(np.int64).sum() - after.astype(np.int64).sum())
            self._free_inodes[group] += change
            descriptor.add("bg_free_inodes_count", change)
            if fs.superblock.has_metadata_checksums:
                checksum = bitmap_checksum(fs.superblock, row[: len(after) // 8].tobytes())
                descriptor.set("bg_inode_bitmap_csum", checksum)
            last_used = int(np.flatnonzero(after).max(initial=-1)) + 1
            self._lower_itable_unused(descriptor, group, last_used)
        descriptor.write_checksum()

    def _lower_itable_unused(self, descriptor: _GroupDescriptor, group: int, used: int) -> None:
        """Lower `bg_itable_unused` to the slots past the last inode in use; zero new slots."""
        superblock = self._fs.superblock
        if not (superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features):
            return
        whole = self._is_uninitialised(group, GroupFlags.INODE_UNINIT)
        unused = descriptor.get("bg_itable_unused")
        written = 0 if whole else superblock.inodes_per_group - unused
        descriptor.clear_flag(GroupFlags.INODE_UNINIT)
        if used <= written:
            return
        descriptor.set("bg_itable_unused", superblock.inodes_per_group - used)
        if not whole and int(self._fs.groups.flags[group]) & GroupFlags.INODE_ZEROED:
            return
        base = group * superblock.inodes_per_group + 1
        numbers = np.arange(base + written, base + used)
        rows, _ = self._fs.inode_rows(numbers)
        for number in numbers[rows.any(axis=1)].tolist():
            if number not in self._inodes:
                writable_inode(self._fs, self._draft, number)[:] = 0

    def _finish_superblock(self) -> None:
        superblock = self._fs.superblock
        block, at = divmod(SUPERBLOCK_OFFSET, superblock.block_size)
        row = self._draft.writable(block)[at : at + SUPERBLOCK.size]
        free = int(self._free_blocks.sum()) * self._ratio
        inodes = int(self._free_inodes.sum())
        set_fields(SUPERBLOCK, row, s_free_blocks_count_lo=free, s_free_inodes_count=inodes)
        if superblock.descriptor_size >= DESCRIPTOR_64.size:
            set_fields(SUPERBLOCK, row, s_free_blocks_count_hi=free >> 32)
        if superblock.has_metadata_checksums:
            value = crc32c(ONES, row[: SUPERBLOCK.offset_of("s_checksum")])
            set_fields(SUPERBLOCK, row, s_checksum=value)


def writable_inode(fs: FileSystem, draft: BlockOverlay, number: int) -> UInt8s:
    """The bytes of an inode in its table block, to be changed in place."""
    superblock = fs.superblock
    group, slot = group_and_slot(superblock, number)
    block, at = divmod(slot * superblock.inode_size, superblock.block_size)
    row = draft.writable(int(fs.groups.inode_table[group]) + block)
    return row[at : at + superblock.inode_size]


class _GroupDescriptor:
    """One group descriptor, changed in place; fields are named without `_lo` and `_hi`."""

    def __init__(self, fs: FileSystem, group: int, row: UInt8s) -> None:
        self._superblock = fs.superblock
        self._group = group
        self._row = row
        self._wide = len(row) >= DESCRIPTOR_64.size

    def get(self, field: str) -> int:
        low = get_field(DESCRIPTOR, self._row, f"{field}_lo")
        high = get_field(DESCRIPTOR_64, self._row, f"{field}_hi") if self._wide else 0
        return high << 16 | low

    def set(self, field: str, value: int) -> None:
        set_fields(DESCRIPTOR, self._row, **{f"{field}_lo": value})
        if self._wide:
            set_fields(DESCRIPTOR_64, self._row, **{f"{field}_hi": value >> 16})

    def add(self, field: str, change: int) -> None:
        self.set(field, max(self.get(field) + change, 0))

    def clear_flag(self, flag: GroupFlags) -> None:
        flags = get_field(DESCRIPTOR, self._row, "bg_flags") & ~int(flag)
        set_fields(DESCRIPTOR, self._row, bg_flags=flags)

    def write_checksum(self) -> None:
        checksum = descriptor_checksum(self._superblock, self._group, self._row)
        if checksum >= 0:
            set_fields(DESCRIPTOR, self._row, bg_checksum=checksum)
