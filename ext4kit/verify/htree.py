"""The index of hashed directories: roots, nodes, their order, and their references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import distinct, expand, first_occurrence
from ext4kit.arrays.lookup import SortedIndex
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
from ext4kit.parsers.inode import InodeTable, inode_seeds
from ext4kit.verify.scene import VerifyContext

HIGHEST = 1 << 32
FLAG_INCOMPATIBLE = 1  # unused_flags: an unknown format
UNSIGNED_HASH = 2  # s_flags
BLOCKS_AT_ONCE = 2048
_SHIFT = np.int64(32)


@dataclass(frozen=True, slots=True)
class DirectoryBlocks:
    """The blocks of directories as columns, sorted by owner and file block.

    Attributes:
        owner: row of the directory in its table; logical: file block; block: block number.
    """

    owner: Rows
    logical: Int64s
    block: Int64s

    def find(self, owner: Rows, logical: Int64s) -> Rows:
        """Row of a directory's file block, -1 for none."""
        key = self.owner << _SHIFT | self.logical
        return SortedIndex(key).rows(owner << _SHIFT | logical)


@dataclass(slots=True)
class Index:
    """Index data of each directory block (one row for each row of `DirectoryBlocks`).

    Attributes:
        is_inner: True for a node of the index, which holds no names.
        is_root: True for the first block of an indexed directory.
        version: hash version with signedness by row of the directory, -1 where unknown.
        low, high: hash range of the names of a leaf, `high` excluded; 0 and 0 for a block that is
            not a leaf of an index.
    """

    is_inner: Bools
    is_root: Bools
    version: Int64s
    low: Int64s
    high: Int64s


@dataclass(frozen=True, slots=True)
class _Level:
    """Blocks of index entries of one level.

    Attributes:
        place: row of the block; low, high: its hash range; left: levels of nodes below it.
        start: byte offset of the first entry in the block.
    """

    place: Rows
    low: Int64s
    high: Int64s
    left: Int64s
    start: int


def check_index(
    scene: VerifyContext, table: InodeTable, blocks: DirectoryBlocks, indexed: Bools
) -> Index:
    """Check the index of the directories that have one.

    Args:
        scene: receives the findings.
        table: directories.
        blocks: their blocks.
        indexed: bool per directory.
    """
    return _Check(scene, table, blocks).run(indexed)


class _Check:
    def __init__(self, scene: VerifyContext, table: InodeTable, blocks: DirectoryBlocks) -> None:
        self.context, self.table, self.blocks = scene, table, blocks
        count = len(blocks.owner)
        self.seeds = inode_seeds(scene.superblock, table.number, table.generation).astype(np.int64)
        self.sealed = scene.superblock.has_metadata_checksums
        self.referred = np.zeros(count, np.int64)
        self.index = Index(
            np.zeros(count, bool), np.zeros(count, bool), np.full(len(table), -1),
            np.zeros(count, np.int64), np.zeros(count, np.int64),
        )  # fmt: skip

    def run(self, indexed: Bools) -> Index:
        blocks = self.blocks
        roots = np.flatnonzero(indexed[blocks.owner] & (blocks.logical == 0))
        self.broken = np.zeros(len(self.table), bool)
        self.index.is_root[roots] = True
        for at in range(0, len(roots), BLOCKS_AT_ONCE):
            self._roots(roots[at : at + BLOCKS_AT_ONCE])
        wanted = indexed[blocks.owner] & ~self.broken[blocks.owner] & (blocks.logical > 0)
        self._report("htree-unreferenced", np.flatnonzero(wanted & (self.referred == 0)))
        self._report(
            "htree-node", np.flatnonzero(wanted & (self.referred > 1)), "referenced more than once"
        )
        return self.index

    def _report(self, code: str, places: Rows, read: str = "", name: str = "htree node") -> None:
        blocks = self.blocks
        self.context.add_rows(
            code, name, places, inode=self.table.number[blocks.owner], block=blocks.block, read=read
        )

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
        level = _Level(
            places, np.zeros(len(places), np.int64), np.full(len(places), HIGHEST),
            levels[fine], DX_ROOT.size,
        )  # fmt: skip
        self._descend(level, rows[fine])

    def _descend(self, level: _Level, rows: Bytes2D) -> None:
        for _ in range(MAX_LEVELS + 1):
            level, rows = self._below(level, rows)
            if not len(level.place):
                return

    def _below(self, level: _Level, rows: Bytes2D) -> tuple[_Level, Bytes2D]:
        """Check one level of index blocks; record its leaves and return the next level of nodes."""
        count = self._counts(level, rows)
        row, slot = expand(count)
        body = np.ascontiguousarray(rows[:, level.start :])
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
        below = _Level(
            child[kept], hashes[kept] & ~1, high[kept], level.left[row[kept]] - 1, FAKE_DIRENT.size
        )
        leaf = below.left < 0
        self.index.low[below.place[leaf]] = below.low[leaf]
        self.index.high[below.place[leaf]] = below.high[leaf]
        return self._nodes(below, ~leaf)

    def _nodes(self, level: _Level, chosen: Bools) -> tuple[_Level, Bytes2D]:
        """The nodes of a level and their bytes; each node is read only once."""
        chosen = chosen & first_occurrence(level.place) & ~self.index.is_inner[level.place]
        level = _Level(
            level.place[chosen], level.low[chosen], level.high[chosen], level.left[chosen],
            level.start,
        )  # fmt: skip
        self.index.is_inner[level.place] = True
        rows, _ = self.context.fs.fetch(self.blocks.block[level.place])
        head = FAKE_DIRENT.columns(rows) if len(rows) else np.zeros(0, FAKE_DIRENT.dtype)
        size = rows.shape[1]
        whole = np.isin(head["rec_len"], (size,) if size < 1 << 16 else (0, 0xFFFF))
        bad = (head["inode"] != 0) | (head["name_len"] != 0) | ~whole
        self._report("htree-node", level.place[bad], "no single unused entry that spans the block")
        return level, rows

    def _counts(self, level: _Level, rows: Bytes2D) -> Int64s:
        """Check counts and checksums; return entries in use of each block, 0 for invalid counts."""
        if not len(rows):
            return np.zeros(0, np.int64)
        head = DX_COUNTLIMIT.columns(rows, level.start)
        count, limit = head["count"].astype(np.int64), head["limit"].astype(np.int64)
        room = (rows.shape[1] - level.start - DX_TAIL.size * self.sealed) // DX_ENTRY.size
        fine = (limit == room) & (count >= 1) & (count <= limit)
        is_root = level.start == DX_ROOT.size
        self.broken[self.blocks.owner[level.place[~fine]]] = True
        read = "count or limit does not match the block"
        code, name = ("htree-root", "htree root") if is_root else ("htree-node", "htree node")
        self._report(code, level.place[~fine], read, name)
        if self.sealed:
            tail = level.start + room * DX_ENTRY.size
            wrong = fine & ~self._sums_fit(level, rows, count, tail)
            self._report("htree-checksum", level.place[wrong], name=name)
        return np.where(fine, count, 0)

    def _sums_fit(self, level: _Level, rows: Bytes2D, count: Int64s, tail: int) -> Bools:
        """Per block: True where its tail has the checksum of the entries in use."""
        used = np.minimum(level.start + count * DX_ENTRY.size, rows.shape[1])
        bodies = (rows[row, :end] for row, end in enumerate(used.tolist()))
        seeds = self.seeds[self.blocks.owner[level.place]]
        register = crc32c_each(seeds, bodies).astype(np.uint32)
        end = rows[:, tail : tail + DX_TAIL.size].copy()
        stored = end[:, 4:].copy().view("<u4")[:, 0]
        end[:, 4:] = 0
        fits: Bools = crc32c_rows(register, end) == stored
        return fits
