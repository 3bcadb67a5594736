"""A lost file system as a `FileSystem` with a derived geometry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np

from ext4kit.arrays.intervals import Intervals, common_parts, overlap_pairs
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s
from ext4kit.errors import AccessError
from ext4kit.evidence.source import Source
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.bitmaps import Bitmaps
from ext4kit.filesystem.block_maps import MOST_BLOCKS, BlockMaps, has_map, map_inodes
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks, unreadable_blocks
from ext4kit.filesystem.filesystem import LOST
from ext4kit.filesystem.inodes import INODES_AT_ONCE
from ext4kit.lost.identify import FsIdentity, read_records
from ext4kit.lost.inode_tables import InodeTableMap
from ext4kit.lost.overwriting import OverwritingFs, in_blocks
from ext4kit.parsers.group import GroupTable
from ext4kit.parsers.inode import GOOD_OLD_SIZE, InodeTable, inode_checksums_ok, parse_inodes
from ext4kit.parsers.superblock import Superblock
from ext4kit.parsers.traces import plausible_inodes
from ext4kit.problems import Problems
from ext4kit.reasons import Reason

TAKEN = "is used by the file system that was created later"
GONE = "is missing"


class LostBlocks:
    """The blocks of the volume that were not overwritten, followed by synthetic blocks.

    Attributes:
        block_size: bytes per block.
        blocks_count: number of readable block numbers, including synthetic blocks.
        disk_blocks_count: number of blocks of the file system; the volume may have fewer.
    """

    def __init__(self, base: BlockReader, count: int, later: OverwritingFs) -> None:
        self.block_size = base.block_size
        self.disk_blocks_count = self.blocks_count = max(base.blocks_count, count)
        self._base = base
        self._later = later
        self._taken = in_blocks(later.written_bytes, base.block_size)
        self._made = np.zeros((0, base.block_size), np.uint8)

    def add_synthetic(self, rows: Bytes2D) -> int:
        """Add synthetic blocks, uint8 (n, block size); return the number of the first one."""
        first = self.blocks_count
        self._made = np.concatenate([self._made, rows])
        self.blocks_count += len(rows)
        return first

    def exclude(self, blocks: Int64s) -> None:
        """Treat these blocks as overwritten."""
        if len(blocks):
            start = np.concatenate([self._taken.start, blocks])
            length = np.concatenate([self._taken.length, np.ones_like(blocks)])
            self._taken = Intervals.union(start, length)

    def give_back(self, blocks: Int64s, used: Int64s) -> None:
        """Treat blocks as not overwritten if their first `used` bytes (int64) are not overwritten.

        This matters if the present file system has smaller blocks.
        """
        written = self._later.written_bytes
        row, _ = overlap_pairs(blocks * self.block_size, used, written.start, written.length)
        free = np.ones(len(blocks), bool)
        free[row] = False
        given = Intervals.union(blocks[free], np.ones_like(blocks[free]))
        self._taken = self._taken.subtract(given)

    def overwritten_parts(self, start: Int64s, length: Int64s) -> tuple[Rows, Int64s, Int64s]:
        """(row, first block, count) of the overwritten parts of runs."""
        return common_parts(start, length, self._taken.start, self._taken.length)

    def is_overwritten(self, blocks: Int64s) -> Bools:
        """Per block (bool): True where it was overwritten."""
        found = np.zeros(len(blocks), bool)
        found[self.overwritten_parts(blocks, np.ones_like(blocks))[0]] = True
        return found

    def lost_blocks(self) -> Int64s:
        """Known unreadable blocks of the volume."""
        lost: Int64s = unreadable_blocks(self._base)
        return lost

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            AccessError: a block is outside the file system, overwritten or unreadable.
        """
        if block + count <= self.disk_blocks_count:
            self._check(np.array([block]), np.array([count]))
            return self._base.read(block, count)
        rows = self.read_many(np.arange(block, block + count))
        return rows.reshape(-1).data.toreadonly()

    def read_many(self, blocks: Int64s) -> Bytes2D:
        """The blocks of an int64 array (n,), as uint8 (n, block_size).

        Raises:
            AccessError: as `read`.
        """
        made = (blocks >= self.disk_blocks_count) & (blocks < self.blocks_count)
        self._check(blocks, np.ones_like(blocks))
        if not made.any():
            return self._base.read_many(blocks)
        rows = np.empty((len(blocks), self.block_size), np.uint8)
        rows[~made] = self._base.read_many(blocks[~made])
        rows[made] = self._made[blocks[made] - self.disk_blocks_count]
        return rows

    def _check(self, start: Int64s, length: Int64s) -> None:
        _, first, _ = self.overwritten_parts(start, length)
        if len(first):
            raise AccessError(f"block {first[0]:,} {TAKEN}")


class LostFileSystem(FileSystem):
    """A lost file system: its remaining inodes, and its blocks that were not overwritten.

    Its bitmaps and descriptors are lost. An inode is accepted if its checksum is valid; without
    checksums, it is accepted if it is plausible and the overwriting file system has no inode in use
    at its place. Inodes without a name are in the root as `inode-NUMBER-GENERATION`.

    Attributes:
        identity: what distinguishes it from other lost file systems.
        inode_tables: location of its inode tables.
        overwriting: the file system that is there now.
        unnamed: inode number of each synthetic name in the root.
    """

    blocks: LostBlocks
    unreadable = GONE
    state = LOST

    def content_uncertainties(self, table: InodeTable) -> list[Reason | None]:
        """None for each inode: in a lost file system, only the grades state uncertainties."""
        return [None] * len(table)

    def __init__(
        self,
        source: Source,
        origin: FsIdentity,
        tables: InodeTableMap,
        later: OverwritingFs,
        under: BlockReader | None = None,
    ) -> None:
        # The constructor of the base class is not called, because it reads group descriptors.
        superblock = origin.superblock
        self.source = source
        self.identity = origin
        self.inode_tables = tables
        self.overwriting = later
        self.unnamed: dict[bytes, int] = {}
        self.problems = Problems()
        size = superblock.block_size
        reader = under or SourceBlocks(source, size, source.size // size)
        self._replayed = under
        self.blocks = LostBlocks(reader, min(superblock.blocks_count, MOST_BLOCKS), later)
        last = len(tables.byte) * self._inodes_per_block(superblock)
        counted = min(superblock.inodes_count, source.size // superblock.inode_size)
        self.superblock = replace(superblock, inodes_count=max(counted, last))
        self.groups = synthetic_groups(self.superblock, tables)
        self.bitmaps = _AllAllocated(self.blocks, self.superblock, self.groups, self.problems)
        self._made: dict[int, bytes] = {}

    @staticmethod
    def _inodes_per_block(superblock: Superblock) -> int:
        return superblock.block_size // superblock.inode_size

    def set_inode(self, number: int, row: bytes) -> None:
        """Set the bytes of an inode."""
        self._made[number] = row
        count = max(number, self.superblock.inodes_count)
        self.superblock = replace(self.superblock, inodes_count=count)

    def is_synthetic(self, number: int) -> bool:
        """Whether the inode is not on disk but that of a directory rebuilt from its blocks."""
        return number in self._made and not self.exists_on_disk(number)

    def exists_on_disk(self, number: int) -> bool:
        """Whether the inode remains on disk."""
        return bool(self._rows_on_disk(np.array([number]))[1][0])

    # -- blocks ---------------------------------------------------------------------------

    def fetch(self, blocks: Int64s) -> tuple[Bytes2D, Bools]:
        """(uint8 (n, block size), readable (n,)); overwritten blocks are zeros."""
        own = ~self.blocks.is_overwritten(blocks)
        rows = np.zeros((len(blocks), self.blocks.block_size), np.uint8)
        rows[own], own[own] = super().fetch(blocks[own])
        return rows, own

    def map_table_silently(self, table: InodeTable) -> BlockMaps:
        """The block maps of many inodes, with at most as many entries as the volume has blocks."""
        return map_inodes(
            table.i_block,
            table.flags,
            has_map(table.mode, table.size, table.flags),
            self.blocks.blocks_count,
            self.blocks.block_size,
            lambda blocks, _: self.fetch(blocks),
            self.source.size // self.blocks.block_size,
        )

    # -- inodes ---------------------------------------------------------------------------

    def inode_location(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """(block, byte offset in the block) of the inodes `numbers` (int64); block -1 for none."""
        place = self._inode_bytes(numbers)
        size = self.superblock.block_size
        return np.where(place >= 0, place // size, -1), np.where(place >= 0, place % size, 0)

    def _inode_bytes(self, numbers: Int64s) -> Int64s:
        """Byte offset of each inode in the volume, -1 if unknown."""
        if not len(self.inode_tables.byte):
            return np.full(len(numbers), -1)
        per_block = self._inodes_per_block(self.superblock)
        index, slot = (numbers - 1) // per_block, (numbers - 1) % per_block
        known = (numbers > 0) & (index < len(self.inode_tables.byte))
        block = self.inode_tables.byte[np.where(known, index, 0)]
        return np.where(known & (block >= 0), block + slot * self.superblock.inode_size, -1)

    def inode_rows(self, numbers: Int64s) -> tuple[Bytes2D, Bools]:
        """(uint8 (n, inode size), there (n,)) of the inodes `numbers`; lost inodes are zeros."""
        rows, known = self._rows_on_disk(numbers)
        if self._made:
            made = np.isin(numbers, np.fromiter(self._made, np.int64))
            for row in np.flatnonzero(made).tolist():
                rows[row] = np.frombuffer(self._made[int(numbers[row])], np.uint8)
                known[row] = True
        return rows, known

    def _rows_on_disk(self, numbers: Int64s) -> tuple[Bytes2D, Bools]:
        rows = np.zeros((len(numbers), self.superblock.inode_size), np.uint8)
        place = self._inode_bytes(numbers)
        there = np.flatnonzero(place >= 0)
        found = self._read_rows(place[there])
        sound = self._verify(found, numbers[there], place[there])
        rows[there[sound]] = found[sound]
        known = np.zeros(len(numbers), bool)
        known[there[sound]] = True
        return rows, known

    def _read_rows(self, places: Int64s) -> Bytes2D:
        """The inodes at these byte offsets, after the replay if there was one."""
        size, block_size = self.superblock.inode_size, self.superblock.block_size
        if self._replayed is None:
            return read_records(self.source, places, size)
        blocks, back = np.unique(places // block_size, return_inverse=True)
        rows, _ = super().fetch(blocks)
        slot = back * (block_size // size) + places % block_size // size
        found: Bytes2D = rows.reshape(-1, size)[slot]
        return found

    def _verify(self, rows: Bytes2D, numbers: Int64s, places: Int64s) -> Bools:
        """Per inode (bool): True if it is of this file system, by checksum or by plausibility."""
        sound = np.zeros(len(rows), bool)
        some = plausible_inodes(rows)
        if self.identity.seed is None:
            sound[some] = ~self.overwriting.allocated_inodes_at(places[some])
            return sound
        table = parse_inodes(rows[some], numbers[some], self.superblock)
        sound[some] = inode_checksums_ok(table, self.superblock)
        if self.superblock.inode_size <= GOOD_OLD_SIZE:  # a 16-bit checksum is not enough
            sound[some] &= ~self.overwriting.allocated_inodes_at(places[some])
        return sound

    def inodes_known(self, numbers: Int64s) -> Bools:
        """Per inode number (bool): True where the inode remains."""
        return self.inode_rows(numbers)[1]

    def from_journal_copy(self, numbers: Int64s) -> Bools:
        """Per inode number (bool): True if read from a journal copy instead of its table."""
        index = (numbers - 1) // self._inodes_per_block(self.superblock)
        inside = (numbers > 0) & (index < len(self.inode_tables.from_journal))
        found = np.zeros(len(numbers), bool)
        found[inside] = self.inode_tables.from_journal[index[inside]]
        return found

    def inode_numbers(self) -> Iterator[Int64s]:
        """Numbers (int64) of the inodes in use, in batches of at most 65,536."""
        per_block = self._inodes_per_block(self.superblock)
        index = np.flatnonzero(self.inode_tables.byte >= 0)
        at_once = max(INODES_AT_ONCE // per_block, 1)
        for at in range(0, len(index), at_once):
            numbers = index[at : at + at_once, None] * per_block + 1 + np.arange(per_block)
            numbers = numbers.reshape(-1)
            yield numbers[self.inode_rows(numbers)[1]]


class _AllAllocated(Bitmaps):
    """Bitmaps in which all inodes and blocks are allocated."""

    def _load(self, kind: str, group: int) -> UInt8s:
        superblock = self._superblock
        bits = superblock.bits_per_group if kind == "block" else superblock.inodes_per_group
        return np.ones(bits, np.uint8)


def synthetic_groups(superblock: Superblock, tables: InodeTableMap) -> GroupTable:
    """Group descriptors with only the locations of the inode tables, where these are known."""
    per_block = superblock.block_size // superblock.inode_size
    per_group = superblock.inodes_per_group
    count = -(-superblock.inodes_count // per_group)
    first = np.arange(count) * per_group // per_block
    place = np.full(count, -1)
    inside = first < len(tables.byte)
    place[inside] = tables.byte[first[inside]]
    none = np.zeros(count, np.int64)
    values = {column.name: none for column in fields(GroupTable)}
    values["inode_table"] = np.where(place >= 0, place // superblock.block_size, -1)
    values["computed_checksum"] = none - 1
    return GroupTable(**values)
