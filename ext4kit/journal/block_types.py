"""The types of the blocks in the log, found by location, by owner or by content."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.lookup import AsOfIndex, SortedIndex, values_at
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import BlockMaps, Fetch, has_map, map_inodes
from ext4kit.filesystem.geometry import (
    descriptor_blocks_count,
    first_block,
    group_overhead,
    has_superblock,
)
from ext4kit.journal.block_history import BlockHistory, CopiesAsOf
from ext4kit.journal.epochs import find_in_tables
from ext4kit.journal.logged_inodes import inode_version_batches
from ext4kit.parsers.features import Compat, Incompat
from ext4kit.parsers.inode import InodeTable, parse_inodes
from ext4kit.parsers.orphan import MAGIC as ORPHAN_MAGIC

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.journal.log import Log


class BlockRole(IntEnum):
    """The type of a block of the file system."""

    UNKNOWN = 0
    SUPERBLOCK = 1
    DESCRIPTORS = 2  # group descriptors, including reserved blocks and copies
    BLOCK_BITMAP = 3
    INODE_BITMAP = 4
    INODES = 5
    JOURNAL = 6
    DIRECTORY = 7
    MAP_NODE = 8  # extent tree or indirect block
    XATTR = 9
    ORPHAN_FILE = 10
    FILE_DATA = 11
    SYMLINK = 12
    MMP = 13
    QUOTA = 14
    OUTSIDE = 15


BLOCK_CONTENT_NAMES = {
    BlockRole.UNKNOWN: "unknown",
    BlockRole.SUPERBLOCK: "superblock",
    BlockRole.DESCRIPTORS: "group descriptors",
    BlockRole.BLOCK_BITMAP: "block bitmap",
    BlockRole.INODE_BITMAP: "inode bitmap",
    BlockRole.INODES: "inodes",
    BlockRole.JOURNAL: "journal",
    BlockRole.DIRECTORY: "directory",
    BlockRole.MAP_NODE: "extent or indirect block",
    BlockRole.XATTR: "xattr block",
    BlockRole.ORPHAN_FILE: "orphan file",
    BlockRole.FILE_DATA: "file data",
    BlockRole.SYMLINK: "symlink",
    BlockRole.MMP: "mount protection",
    BlockRole.QUOTA: "quota file",
    BlockRole.OUTSIDE: "outside the file system",
}
WITH_GROUP = frozenset({BlockRole.BLOCK_BITMAP, BlockRole.INODE_BITMAP})
WITH_INODE = frozenset(
    {
        BlockRole.DIRECTORY,
        BlockRole.MAP_NODE,
        BlockRole.XATTR,
        BlockRole.FILE_DATA,
        BlockRole.SYMLINK,
        BlockRole.QUOTA,
    }
)


def by_place(fs: FileSystem, log: Log | None, blocks: Int64s) -> tuple[Int64s, Int64s]:
    """The types of blocks from their location alone.

    Args:
        fs: the file system.
        log: its log; None if there is none.
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
        by_start = np.argsort(places, kind="stable")
        owner = values_at(by_start, SortedIndex(places[by_start]).rows(blocks))
        kind[owner >= 0], number[owner >= 0] = content, owner[owner >= 0]
    first = first_inodes(fs, blocks)
    kind[first >= 0], number[first >= 0] = BlockRole.INODES, first[first >= 0]
    if log is not None and log.home is log.reader.blocks:
        kind[np.isin(blocks, log.reader.log_blocks)] = BlockRole.JOURNAL
    if Incompat.MMP in superblock.features:
        kind[blocks == superblock.mmp_block] = BlockRole.MMP
    return kind, number


def _classify_overhead(
    fs: FileSystem, blocks: Int64s, group: Int64s, wanted: Int64s, kind: Int64s
) -> None:
    """Classify superblocks and group descriptors in the groups that contain any of the blocks."""
    superblock = fs.superblock
    if not len(wanted):
        return
    rank = SortedIndex(wanted).rows(group)
    known = rank != NO_ROW
    numbers = wanted.tolist()
    starts = np.array([first_block(superblock, each) for each in numbers])
    copies = np.array([has_superblock(superblock, each) for each in numbers])
    lengths = np.array([group_overhead(superblock, each) for each in numbers])
    inside = blocks - starts[rank]
    descriptors = known & (inside >= 0) & (inside < lengths[rank])
    kind[descriptors] = BlockRole.DESCRIPTORS
    kind[known & copies[rank] & (inside == 0)] = BlockRole.SUPERBLOCK
    kind[blocks == 1024 // superblock.block_size] = BlockRole.SUPERBLOCK
    most = superblock.first_data_block + 1 + descriptor_blocks_count(superblock)
    early = (blocks > 1024 // superblock.block_size) & (blocks < most) & (group == 0)
    kind[early] = BlockRole.DESCRIPTORS


def first_inodes(fs: FileSystem, blocks: Int64s) -> Int64s:
    """First inode number in each block of an inode table, -1 elsewhere."""
    group, byte = find_in_tables(fs, blocks, fs.groups.inode_table)
    first = group * fs.superblock.inodes_per_group + byte // fs.superblock.inode_size + 1
    return np.where(group < 0, -1, first)


AT_ONCE = 1 << 20  # claims processed together
TID_ON_DISK = np.iinfo(np.int64).max  # stands for the disk: newer than any tid in the log
TYPES = ((0x4000, BlockRole.DIRECTORY), (0xA000, BlockRole.SYMLINK), (0x8000, BlockRole.FILE_DATA))


@dataclass(frozen=True, slots=True)
class InodeUses(Table):
    """Runs of blocks that inodes use, as columns (n,).

    Attributes:
        start, length: the blocks.
        owner: row of the inode.
        file_block: first file block of content, -1 for tree and attribute blocks.
        role: BlockRole, from the file type alone; 0 for content of an inode without a type.
        unwritten: True where the run is allocated and was never written.
    """

    start: Int64s
    length: Int64s
    owner: Rows
    file_block: Int64s
    role: Int64s
    unwritten: Bools


def uses_of_inodes(table: InodeTable, maps: BlockMaps) -> InodeUses:
    """What each inode uses blocks for: content, tree blocks, its attribute block.

    Args:
        table: the inodes.
        maps: their maps.
    """
    runs, (owner, block) = maps.runs, maps.tree_blocks
    kind = np.zeros(len(table), np.int64)
    for mode, content in TYPES:
        kind[table.mode & 0xF000 == mode] = content
    xattrs = np.flatnonzero(table.file_acl > 0)
    others = len(block) + len(xattrs)
    roles = np.repeat([int(BlockRole.MAP_NODE), int(BlockRole.XATTR)], [len(block), len(xattrs)])
    return InodeUses(
        np.concatenate([runs.physical, block, table.file_acl[xattrs]]),
        np.concatenate([runs.length, np.ones(others, np.int64)]),
        np.concatenate([runs.owner, owner, xattrs]),
        np.concatenate([runs.logical, np.full(others, -1)]),
        np.concatenate([kind[runs.owner], roles]),
        np.concatenate([runs.unwritten, np.zeros(others, bool)]),
    )


@dataclass(slots=True)
class Owners:
    """Owners of blocks, each with the transaction from which on it had the block.

    Attributes:
        blocks: int64, the requested blocks, ascending.
        claims: int64 (n, 5): row in `blocks`, tid, inode number, BlockRole, generation.
    """

    blocks: Int64s
    claims: Int64s = field(default_factory=lambda: np.zeros((0, 5), np.int64))

    @property
    def unowned(self) -> Int64s:
        """Blocks (int64) without a known owner."""
        mask = np.ones(len(self.blocks), bool)
        mask[self.claims[:, 0]] = False
        return self.blocks[mask]

    def add(self, table: InodeTable, order: Int64s, maps: BlockMaps) -> None:
        """Add the maps of inodes as of the transactions `order` (int64 tids, one per inode)."""
        uses = uses_of_inodes(table, maps)
        self._claim(uses.start, uses.length, uses.owner, uses.role, table, order)

    def _claim(
        self,
        first: Int64s,
        length: Int64s,
        owner: Rows,
        kind: Int64s,
        table: InodeTable,
        order: Int64s,
    ) -> None:
        low = np.searchsorted(self.blocks, first)
        counts = np.searchsorted(self.blocks, first + length) - low
        rows = np.flatnonzero(counts)
        total = np.cumsum(counts[rows])
        while len(rows):
            size = max(int(np.searchsorted(total - total[0] + counts[rows[0]], AT_ONCE)), 1)
            piece, rows, total = rows[:size], rows[size:], total[size:]
            run, step = expand(counts[piece])
            inode = owner[piece][run]
            claims = (low[piece][run] + step, order[inode], table.number[inode], kind[piece][run],
                      table.generation[inode])  # fmt: skip
            self._keep(np.stack(claims, axis=1))

    def _keep(self, claims: Int64s) -> None:
        """Keep each owner's first claim on each block; a reused inode number is another owner."""
        every = np.concatenate([self.claims, claims])
        owner = [0, 2, 3, 4]
        every = every[np.lexsort((every[:, 1], *every[:, owner[::-1]].T))]
        self.claims = every[starts_group(*every[:, owner].T)]

    def of(self, blocks: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
        """(BlockRole, inode number) of blocks as of transactions; (0, -1) without a known owner.

        The owner is the newest one not later than the transaction, else the first later one.
        """
        claims = self.claims[np.lexsort((self.claims[:, 1], self.claims[:, 0]))]
        place = np.searchsorted(self.blocks, blocks)
        row = AsOfIndex(claims[:, 0], claims[:, 1]).rows(place, order)
        row = np.where(row == NO_ROW, SortedIndex(claims[:, 0]).rows(place), row)
        claims = np.append(claims, [[0, 0, -1, 0, 0]], axis=0)  # for blocks without an owner
        return claims[row, 3], claims[row, 2]


def find_block_owners(fs: FileSystem, history: BlockHistory, blocks: Int64s) -> Owners:
    """Owners of blocks (int64), from the inodes in the log and then from those on disk.

    The inodes on disk are read only for blocks that no inode in the log maps.
    """
    owners = Owners(np.unique(blocks))
    for piece in inode_version_batches(fs, history):
        if len(piece):
            table = parse_inodes(piece.rows, piece.number, fs.superblock)
            fetch = _fetch_as_of(CopiesAsOf(fs.blocks, history, 0), piece.order)
            owners.add(table, piece.order, _block_maps(fs, table, fetch))
    if len(owners.unowned):
        for table in fs.inode_batches():
            maps = _block_maps(fs, table, lambda wanted, _: fs.fetch(wanted))
            owners.add(table, np.full(len(table), TID_ON_DISK), maps)
    return owners


def _fetch_as_of(as_of: CopiesAsOf, order: Int64s) -> Fetch:
    """A function that reads tree blocks as of the transaction of their owner."""

    def fetch(blocks: Int64s, owners: Rows) -> tuple[Bytes2D, Bools]:
        try:
            return as_of.read_at(blocks, order[owners])[0], np.ones(len(blocks), bool)
        except AccessError:
            none = np.zeros((len(blocks), as_of.block_size), np.uint8)
            return none, np.zeros(len(blocks), bool)

    return fetch


def _block_maps(fs: FileSystem, table: InodeTable, fetch: Fetch) -> BlockMaps:
    return map_inodes(
        table.i_block,
        table.flags,
        has_map(table.mode, table.size, table.flags),
        fs.superblock.blocks_count,
        fs.superblock.block_size,
        fetch,
        fs.blocks.blocks_count,
    )


SIGNATURES = (  # ((offset, bytes there), ...) of each type; the last match counts
    (BlockRole.XATTR, ((0, b"\x00\x00\x02\xea"),)),
    (BlockRole.MAP_NODE, ((0, b"\x0a\xf3"),)),
    (BlockRole.ORPHAN_FILE, ((-8, ORPHAN_MAGIC.to_bytes(4, "little")),)),
    (BlockRole.DIRECTORY, ((-12, b"\x00\x00\x00\x00\x0c\x00\x00\xde"),)),  # checksum tail of a leaf
    (BlockRole.DIRECTORY, ((4, b"\x0c\x00\x01"), (8, b"."))),  # the first entry, `.`
)


@dataclass(frozen=True, slots=True)
class Touched:
    """Types of the copies in a log, one row per tag of `log.tags`.

    Attributes:
        order: int64, tid of the transaction.
        block: int64, home block of the copy.
        kind: int64, BlockRole.
        number: int64: group of a bitmap, first inode of an inode table block, inode of a block
            with an owner; -1 where there is none or it is not known.
        rows: int64, rows of the other columns in the order of (order, kind, number).
    """

    order: Int64s
    block: Int64s
    kind: Int64s
    number: Int64s
    rows: Rows

    def of(self, order: int) -> Rows:
        """Rows of one transaction, by kind and number."""
        first, end = np.searchsorted(self.order[self.rows], [order, order + 1])
        return self.rows[first:end]


def classify_copies(fs: FileSystem, log: Log) -> Touched:
    """Classify every copy that a descriptor of the log names.

    Args:
        fs: the file system as it is on disk.
        log: its log.
    """
    tags = log.tags
    kind, number = by_place(fs, log, tags.block)
    open_ones = np.flatnonzero(kind == BlockRole.UNKNOWN)
    if len(open_ones):
        owners = find_block_owners(fs, BlockHistory(log), tags.block[open_ones])
        found, inode = owners.of(tags.block[open_ones], tags.order[open_ones])
        kind[open_ones], number[open_ones] = found, inode
        classify_special_files(fs, kind, number)
        _classify_by_content(log, kind)
    rows = np.lexsort((tags.block, number, kind, tags.order))
    return Touched(tags.order, tags.block, kind, number, rows)


def classify_special_files(fs: FileSystem, kind: Int64s, inode: Int64s) -> None:
    """Set the types of content of the orphan file and of quota files.

    Args:
        fs: the file system.
        kind: BlockRole (n,), changed in place.
        inode: inode number of the owner of each block (n,).
    """
    data, superblock = kind == BlockRole.FILE_DATA, fs.superblock
    if Compat.ORPHAN_FILE in superblock.features:
        kind[data & (inode == superblock.orphan_file_inode)] = BlockRole.ORPHAN_FILE
    quotas = np.array([superblock.user_quota_inode, superblock.group_quota_inode,
                       superblock.project_quota_inode])  # fmt: skip
    kind[data & (inode > 0) & np.isin(inode, quotas)] = BlockRole.QUOTA


def _classify_by_content(log: Log, kind: Int64s) -> None:
    """Classify the copies of blocks without a known owner by their content."""
    unknown = np.flatnonzero((kind == BlockRole.UNKNOWN) & log.tags.valid)
    for start in range(0, len(unknown), log.reader.chunk):
        index = unknown[start : start + log.reader.chunk]
        rows = log.read_copies(index)
        for role, signature in SIGNATURES:
            fits = [
                (rows[:, at : at + len(part)] == np.frombuffer(part, np.uint8)).all(axis=1)
                for at, part in signature
            ]
            kind[index[np.logical_and.reduce(fits)]] = role
