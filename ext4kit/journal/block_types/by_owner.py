"""Blocks whose type follows from their owner: from inodes in the log and on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import BlockMaps, Fetch, has_map, map_inodes
from ext4kit.journal.block_history import BlockHistory, CopiesAsOf, inode_version_batches
from ext4kit.journal.block_types.types import BlockRole
from ext4kit.parsers.inode import InodeTable, parse_inodes

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem

AT_ONCE = 1 << 20  # claims that are processed together
TID_ON_DISK = np.iinfo(np.int64).max  # tid of the disk: newer than any in the log
TYPES = ((0x4000, BlockRole.DIRECTORY), (0xA000, BlockRole.SYMLINK), (0x8000, BlockRole.FILE_DATA))


@dataclass(slots=True)
class Owners:
    """Owners of blocks, and the transaction from which on each had its block.

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
        runs = maps.runs
        kind = self._kinds(table)
        self._claim(runs.physical, runs.length, runs.owner, kind[runs.owner], table, order)
        owner, block = maps.tree_blocks
        nodes = np.full(len(block), int(BlockRole.MAP_NODE))
        self._claim(block, np.ones_like(block), owner, nodes, table, order)
        xattrs = np.flatnonzero(table.file_acl > 0)
        acls = np.full(len(xattrs), int(BlockRole.XATTR))
        ones = np.ones(len(xattrs), np.int64)
        self._claim(table.file_acl[xattrs], ones, xattrs, acls, table, order)

    def _kinds(self, table: InodeTable) -> Int64s:
        kind = np.zeros(len(table), np.int64)
        for mode, content in TYPES:
            kind[table.mode & 0xF000 == mode] = content
        return kind

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
        """Keep the first claim of each owner on each block; a reused number is another owner."""
        every = np.concatenate([self.claims, claims])
        owner = [0, 2, 3, 4]
        every = every[np.lexsort((every[:, 1], *every[:, owner[::-1]].T))]
        fresh = np.ones(len(every), bool)
        fresh[1:] = (every[1:, owner] != every[:-1, owner]).any(axis=1)
        self.claims = every[fresh]

    def of(self, blocks: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
        """(BlockRole, inode number) of blocks as of transactions; (0, -1) without a known owner.

        The owner is the newest one not later than the transaction, else the first later one.
        """
        claims = self.claims[np.lexsort((self.claims[:, 1], self.claims[:, 0]))]
        if not len(claims):
            return np.zeros(len(blocks), np.int64), np.full(len(blocks), -1)
        place = np.searchsorted(self.blocks, blocks)
        orders = np.unique(claims[:, 1])
        width = len(orders) + 1
        keys = claims[:, 0] * width + np.searchsorted(orders, claims[:, 1])
        rank = np.searchsorted(orders, order, side="right") - 1
        row = np.searchsorted(keys, place * width + rank, side="right") - 1
        earlier = (row >= 0) & (claims[row, 0] == place)
        row = np.where(earlier, row, np.minimum(row + 1, len(claims) - 1))
        known = claims[row, 0] == place
        return np.where(known, claims[row, 3], 0), np.where(known, claims[row, 2], -1)


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
