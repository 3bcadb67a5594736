"""Check of the index of hashed directories: roots, nodes, order and references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import distinct, expand, first_occurrence
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers.checksums import crc32c_each, crc32c_rows
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.htree import (
    BLOCK_MASK,
    DX_COUNTLIMIT,
    DX_ENTRY,
    DX_ROOT,
    DX_TAIL,
    FAKE_DIRENT,
    HASH_NAMES,
    INFO_LENGTH,
    MAX_LEVELS,
    UNSIGNED_STEP,
)
from ext4kit.parsers.inode import InodeFlags, InodeTable
from ext4kit.verify.context import VerifyContext

HIGHEST = 1 << 32
FLAG_INCOMPATIBLE = 1  # unused_flags: an unknown format
UNSIGNED_HASH = 2  # s_flags
BLOCKS_AT_ONCE = 2048
_SHIFT = np.int64(32)


@dataclass(frozen=True, slots=True)
class DirectoryBlocks(Table):
    """The blocks of directories, sorted by owner and file block.

    Attributes:
        owner: row of the directory in its table; inode: inode number of the directory.
        logical: file block; block: block number.
    """

    owner: Rows
    inode: Int64s
    logical: Int64s
    block: Int64s

    def find(self, owner: Rows, logical: Int64s) -> Rows:
        """Row of a directory's file block, -1 for none."""
        key = self.owner << _SHIFT | self.logical
        return SortedIndex(key).rows(owner << _SHIFT | logical)


@dataclass(slots=True)
class Index:
    """Index data of directory blocks, one row for each row of `DirectoryBlocks`.

    Attributes:
        is_inner: True for a node of the index, which holds no names.
        is_root: True for the first block of an indexed directory.
        version: per row of the directory: hash version including signedness, -1 where unknown.
        low, high: hash range of the names in a leaf, `high` excluded; both are 0 for a block that
            is not a leaf of an index.
    """

    is_inner: Bools
    is_root: Bools
    version: Int64s
    low: Int64s
    high: Int64s


@dataclass(frozen=True, slots=True)
class _Level(Table):
    """Blocks of index entries of one level.

    Attributes:
        place: row of the block; low, high: hash range of the block; left: levels of nodes below the
            block.
    """

    place: Rows
    low: Int64s
    high: Int64s
    left: Int64s


def check_index(
    context: VerifyContext, table: InodeTable, blocks: DirectoryBlocks, seeds: Int64s
) -> Index:
    """Check the index of the directories that have one.

    Args:
        context: receives the findings.
        table: directories.
        blocks: blocks of the directories.
        seeds: checksum seed of each directory.
    """
    return _Check(context, table, blocks, seeds).run()


class _Check:
    def __init__(
        self, context: VerifyContext, table: InodeTable, blocks: DirectoryBlocks, seeds: Int64s
    ) -> None:
        self.context, self.table, self.blocks, self.seeds = context, table, blocks, seeds
        count = len(blocks.owner)
        self.broken = np.zeros(len(table), bool)
        self.sealed = context.superblock.has_metadata_checksums
        self.referred = np.zeros(count, np.int64)
        self.index = Index(
            np.zeros(count, bool), np.zeros(count, bool), np.full(len(table), -1),
            np.zeros(count, np.int64), np.zeros(count, np.int64),
        )  # fmt: skip

    def run(self) -> Index:
        """Check the roots and all levels below them, then the references to the blocks."""
        blocks = self.blocks
        indexed = ((self.table.flags & int(InodeFlags.INDEX)) != 0)[blocks.owner]
        roots = np.flatnonzero(indexed & (blocks.logical == 0))
        self.index.is_root[roots] = True
        for at in range(0, len(roots), BLOCKS_AT_ONCE):
            self._roots(roots[at : at + BLOCKS_AT_ONCE])
        wanted = indexed & ~self.broken[blocks.owner] & (blocks.logical > 0)
        self._report("htree-unreferenced", wanted & (self.referred == 0))
        self._report("htree-node", wanted & (self.referred > 1), "referenced more than once")
        return self.index

    def _report(
        self, code: str, places: Rows | Bools, read: str = "", name: str = "htree node"
    ) -> None:
        blocks = self.blocks
        self.context.add_rows(code, name, places, read, inode=blocks.inode, block=blocks.block)

    def _roots(self, places: Rows) -> None:
        rows, readable = self.context.fs.fetch(self.blocks.block[places])
        places, rows = places[readable], rows[readable]
        if not len(places) or rows.shape[1] < DX_ROOT.size:
            return
        root = DX_ROOT.columns(rows)
        levels = root["indirect_levels"].astype(np.int64)
        most = MAX_LEVELS if Incompat.LARGE_DIR in self.context.superblock.features else 1
        version = root["hash_version"].astype(np.int64)
        fine = (
            (root["reserved_zero"] == 0)
            & (root["info_length"] == INFO_LENGTH)
            & (levels <= most)
            & np.isin(version, tuple(HASH_NAMES))
            & (root["unused_flags"] & FLAG_INCOMPATIBLE == 0)
        )
        bad = places[~fine]
        self.broken[self.blocks.owner[bad]] = True
        self._report("htree-root", bad, name="htree root")
        unsigned = bool(self.context.superblock.flags & UNSIGNED_HASH)
        version = np.where(unsigned & (version < UNSIGNED_STEP), version + UNSIGNED_STEP, version)
        self.index.version[self.blocks.owner[places[fine]]] = version[fine]
        places = places[fine]
        none = np.zeros(len(places), np.int64)
        level, rows = _Level(places, none, none + HIGHEST, levels[fine]), rows[fine]
        start = DX_ROOT.size
        while len(level):
            level, rows = self._below(level, rows, start)
            start = FAKE_DIRENT.size

    def _below(self, level: _Level, rows: Bytes2D, start: int) -> tuple[_Level, Bytes2D]:
        """Check one level of index blocks, whose entries begin at the byte offset `start`.

        Records its leaves and returns the next level of nodes.
        """
        row, slot = expand(self._counts(level, rows, start))
        body = np.ascontiguousarray(rows[:, start:])
        entries = body[:, : body.shape[1] // DX_ENTRY.size * DX_ENTRY.size].view(DX_ENTRY.dtype)
        chosen = entries[row, slot]
        hashes = np.where(slot == 0, level.low[row], chosen["hash"].astype(np.int64))
        child = self.blocks.find(
            self.blocks.owner[level.place[row]], chosen["block"].astype(np.int64) & BLOCK_MASK
        )
        same = row[1:] == row[:-1]
        high = level.high[row]
        high[:-1][same] = hashes[1:][same] + (hashes[1:][same] & 1)
        wrong = np.zeros(len(row), bool)
        wrong[1:] = same & (hashes[1:] < hashes[:-1])
        wrong |= (child < 0) | (hashes > level.high[row])
        disordered = distinct(row[wrong])[0]
        self._report("htree-node", level.place[disordered], "entries out of order or out of range")
        kept = child >= 0
        np.add.at(self.referred, child[kept], 1)
        below = _Level(child, hashes & ~1, high, level.left[row] - 1).take(kept)
        leaf = below.left < 0
        self.index.low[below.place[leaf]] = below.low[leaf]
        self.index.high[below.place[leaf]] = below.high[leaf]
        return self._nodes(below, ~leaf)

    def _nodes(self, level: _Level, chosen: Bools) -> tuple[_Level, Bytes2D]:
        """The nodes of a level and their bytes; each node is read only once."""
        chosen = chosen & first_occurrence(level.place) & ~self.index.is_inner[level.place]
        level = level.take(chosen)
        self.index.is_inner[level.place] = True
        rows, _ = self.context.fs.fetch(self.blocks.block[level.place])
        head = FAKE_DIRENT.columns(rows) if len(rows) else np.zeros(0, FAKE_DIRENT.dtype)
        size = rows.shape[1]
        whole = np.isin(head["rec_len"], (size,) if size < 1 << 16 else (0, 0xFFFF))
        bad = (head["inode"] != 0) | (head["name_len"] != 0) | ~whole
        self._report("htree-node", level.place[bad], "no single unused entry that spans the block")
        return level, rows

    def _counts(self, level: _Level, rows: Bytes2D, start: int) -> Int64s:
        """Check counts and checksums; return the entry count of each block, 0 if it is invalid."""
        if not len(rows):
            return np.zeros(0, np.int64)
        head = DX_COUNTLIMIT.columns(rows, start)
        count, limit = head["count"].astype(np.int64), head["limit"].astype(np.int64)
        room = (rows.shape[1] - start - DX_TAIL.size * self.sealed) // DX_ENTRY.size
        fine = (limit == room) & (count >= 1) & (count <= limit)
        is_root = start == DX_ROOT.size
        self.broken[self.blocks.owner[level.place[~fine]]] = True
        read = "count or limit does not match the block"
        code, name = ("htree-root", "htree root") if is_root else ("htree-node", "htree node")
        self._report(code, level.place[~fine], read, name)
        if self.sealed:
            used = start + count * DX_ENTRY.size
            wrong = fine & ~self._sums_fit(level, rows, used, start + room * DX_ENTRY.size)
            self._report("htree-checksum", level.place[wrong], name=name)
        return np.where(fine, count, 0)

    def _sums_fit(self, level: _Level, rows: Bytes2D, used: Int64s, tail: int) -> Bools:
        """Per block: True where the checksum in the tail matches the bytes up to `used`."""
        bodies = (rows[row, :end] for row, end in enumerate(used.tolist()))
        seeds = self.seeds[self.blocks.owner[level.place]]
        register = crc32c_each(seeds, bodies).astype(np.uint32)
        end = rows[:, tail : tail + DX_TAIL.size].copy()
        stored = end[:, 4:].copy().view("<u4")[:, 0]
        end[:, 4:] = 0
        fits: Bools = crc32c_rows(register, end) == stored
        return fits
