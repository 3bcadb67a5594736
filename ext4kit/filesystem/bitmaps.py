"""Block and inode bitmaps; uninitialised ones are computed as in the kernel."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, UInt8s
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.geometry import first_block, group_overhead
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.group import GroupFlags, GroupTable
from ext4kit.parsers.superblock import Superblock
from ext4kit.problems import Problems


class Bitmaps:
    """The block and inode bitmaps of a file system, each read on first use.

    If a bitmap cannot be read, a problem is reported and everything in its group counts as in use,
    which is the safe assumption for recovery. The same holds for a block bitmap that marks bitmaps
    or inode tables in its group as free (kernel fs/ext4/balloc.c, `ext4_valid_block_bitmap`, which
    checks this without flex_bg).
    """

    def __init__(
        self, blocks: BlockReader, superblock: Superblock, groups: GroupTable, problems: Problems
    ) -> None:
        self._blocks = blocks
        self._superblock = superblock
        self._groups = groups
        self._problems = problems
        self._cache: dict[tuple[str, int], UInt8s] = {}
        self._unread: set[int] = set()  # groups whose block bitmap cannot be read
        self._also_used = np.zeros(0, np.int64)  # blocks in use regardless of their bitmap

    def block_bitmap(self, group: int) -> UInt8s:
        """(bits per group,): 1 where a cluster of the group is in use."""
        return self._cached_bits("block", group)

    def inode_bitmap(self, group: int) -> UInt8s:
        """(inodes per group,): 1 where an inode of the group is in use."""
        return self._cached_bits("inode", group)

    def blocks_in_use(self, blocks: Int64s) -> Bools:
        """True where a block is in use. Blocks outside the file system count as in use."""
        superblock = self._superblock
        index = blocks - superblock.first_data_block
        group = index // superblock.blocks_per_group
        bit = index % superblock.blocks_per_group // superblock.cluster_ratio
        return self._look_up("block", group, bit)

    def blocks_unknown(self, start: Int64s, length: Int64s | int = 1) -> Bools:
        """True where a bitmap that covers the run was requested before but cannot be read."""
        superblock, unread = self._superblock, np.array(sorted(self._unread), np.int64)
        first = (start - superblock.first_data_block) // superblock.blocks_per_group
        last = (start + length - 1 - superblock.first_data_block) // superblock.blocks_per_group
        return np.searchsorted(unread, first) < np.searchsorted(unread, last, "right")

    def inodes_in_use(self, numbers: Int64s) -> Bools:
        """True where an inode number is in use."""
        index = numbers - 1
        per_group = self._superblock.inodes_per_group
        return self._look_up("inode", index // per_group, index % per_group)

    def count_as_used(self, blocks: Int64s) -> None:
        """Mark blocks (ascending) as in use from now on, regardless of the bitmaps."""
        self._also_used = np.union1d(self._also_used, blocks)
        self._cache.clear()

    def _look_up(self, kind: str, group: Int64s, bit: Int64s) -> Bools:
        used = np.ones(len(group), bool)
        inside = np.flatnonzero((group >= 0) & (group < len(self._groups)))
        order = inside[np.argsort(group[inside], kind="stable")]
        edges = np.flatnonzero(np.diff(group[order])) + 1
        for part in np.split(order, edges) if len(order) else ():
            used[part] = self._cached_bits(kind, int(group[part[0]]))[bit[part]] != 0
        return used

    def _cached_bits(self, kind: str, group: int) -> UInt8s:
        key = (kind, group)
        if key not in self._cache:
            if len(self._cache) > 512:
                self._cache.clear()
            bits = self._load(kind, group)
            if kind == "block" and len(self._also_used):
                superblock, first = self._superblock, first_block(self._superblock, group)
                edges = np.searchsorted(
                    self._also_used, [first, first + superblock.blocks_per_group]
                )
                used = self._also_used[slice(*edges.tolist())]
                bits[(used - first) // superblock.cluster_ratio] = 1
            self._cache[key] = bits
        return self._cache[key]

    def _load(self, kind: str, group: int) -> UInt8s:
        superblock, groups = self._superblock, self._groups
        count = superblock.inodes_per_group
        block, absent = groups.inode_bitmap[group], GroupFlags.INODE_UNINIT
        if kind == "block":
            count = superblock.bits_per_group
            block, absent = groups.block_bitmap[group], GroupFlags.BLOCK_UNINIT
        lazy = superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features
        if lazy and groups.flags[group] & absent:
            return self._uninitialised(kind, group, count)
        try:
            data = np.frombuffer(self._blocks.read(int(block)), np.uint8)
        except AccessError as error:
            self._problems.add(f"group {group} {kind} bitmap", f"{error}; all counted as in use")
            if kind == "block":
                self._unread.add(group)
            return np.ones(count, np.uint8)
        bits = np.unpackbits(data, bitorder="little")[:count]
        if kind == "block" and (bits < self._own(group, count)).any():
            what = "marks bitmaps or inode tables free; all counted as in use"
            self._problems.add(f"group {group} block bitmap", what)
            self._unread.add(group)
            return np.ones(count, np.uint8)
        return bits

    def _uninitialised(self, kind: str, group: int, count: int) -> UInt8s:
        """Bits of a bitmap that was never written: all free except the group's own metadata."""
        if kind == "inode":
            return np.zeros(count, np.uint8)
        superblock = self._superblock
        bits = self._own(group, count)
        bits[: -(-group_overhead(superblock, group) // superblock.cluster_ratio)] = 1
        return bits

    def _own(self, group: int, count: int) -> UInt8s:
        """Bits of the bitmaps and inode tables in a group, including those of other groups."""
        superblock = self._superblock
        start, ratio = first_block(superblock, group), superblock.cluster_ratio
        bits = np.zeros(count, np.uint8)
        for places, length in self._metadata_locations:
            edges = (start - length + 1, start + superblock.blocks_per_group)
            first = places[slice(*np.searchsorted(places, edges).tolist())] - start
            if not len(first):  # true of most groups with flex_bg
                continue
            begin = np.minimum(np.maximum(first, 0) // ratio, count)
            end = np.minimum(-(-(first + length) // ratio), count)
            steps = np.bincount(begin, minlength=count + 1) - np.bincount(end, minlength=count + 1)
            bits |= np.cumsum(steps[:count]) > 0
        return bits

    @cached_property
    def _metadata_locations(self) -> list[tuple[Int64s, int]]:
        """(distinct first blocks, ascending; length in blocks) of the bitmaps and inode tables."""
        superblock, groups = self._superblock, self._groups
        table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
        kinds = ((groups.block_bitmap, 1), (groups.inode_bitmap, 1), (groups.inode_table, table))
        return [(np.unique(places), length) for places, length in kinds]
