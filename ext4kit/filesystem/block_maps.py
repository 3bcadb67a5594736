"""Block maps: the file system block of each file block, for one inode or for a whole table.

Extent trees and indirect blocks are walked level by level over all inodes at once. Therefore
the same code maps one inode and a million inodes.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from ext4kit.arrays.grouping import expand, first_occurrence
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers import extents
from ext4kit.parsers.inode import InodeFlags, is_fast_symlink
from ext4kit.units import Integers, widen

MOST_BLOCKS = 1 << 40  # limit of a plausible size: 4 PiB in blocks of 4 KiB
NODE_BYTES_AT_ONCE = 64 << 20
# In an undamaged file system a block has one owner, and old states of files share a few. Hostile
# maps that share all their nodes are cut at this limit.
OWNERS_A_BLOCK = 8
SPARE_PIECES = 1 << 16

# (blocks (n,), owners (n,)) -> (rows (n, block size), readable (n,))
Fetch = Callable[[Int64s, Rows], tuple[Bytes2D, Bools]]


@dataclass(frozen=True, slots=True)
class Runs(Table):
    """Runs of blocks as int64 columns (n,), by owner and file block.

    Attributes:
        owner: row of the inode that the run belongs to.
        logical: first file block.
        length: blocks.
        physical: first block in the file system.
        unwritten: bool, True where the run is allocated but reads as zeros.
    """

    owner: Rows
    logical: Int64s
    length: Int64s
    physical: Int64s
    unwritten: Bools

    @classmethod
    def stacked(cls, parts: Sequence[tuple[Runs, int]]) -> Runs:
        """One table from several (runs, number of owners); owners are numbered consecutively."""
        starts = accumulate((count for _, count in parts), initial=0)
        pairs = zip(parts, starts, strict=False)
        return cls.concat([replace(runs, owner=runs.owner + start) for (runs, _), start in pairs])

    @classmethod
    def consecutive(cls, first: int, count: int) -> Runs:
        """A table of one run of written blocks, from file block 0 of owner 0."""
        none = np.zeros(1, np.int64)
        return cls(none, none, np.array([count]), np.array([first]), np.zeros(1, bool))

    def owned_by(self, row: int) -> Runs:
        """The same runs with another owner, the same one for all."""
        return replace(self, owner=np.full_like(self.owner, row))

    @classmethod
    def single(cls, owner: Int64s, logical: Int64s, physical: Int64s) -> Runs:
        """A table of written runs of one block each."""
        ones = np.ones_like(physical)
        return cls(owner, logical, ones, physical, np.zeros(len(ones), bool))


@dataclass(frozen=True, slots=True)
class BlockMaps:
    """The maps of a table of inodes.

    Attributes:
        runs: runs of file content.
        tree_blocks: (owner, block) columns of tree and indirect blocks.
        damaged: bool per inode, True where a part of its map could not be read.
    """

    runs: Runs
    tree_blocks: tuple[Rows, Int64s]
    damaged: Bools


@dataclass(slots=True)
class _MapWalk:
    """The results of a level-by-level walk so far.

    Attributes:
        left: number of nodes and runs that may still be added.
        at_once: number of nodes that are read together.
    """

    fetch: Fetch
    blocks_count: int
    damaged: Bools
    left: int
    at_once: int
    runs: list[Runs] = field(default_factory=list)
    nodes: list[tuple[Rows, Int64s]] = field(default_factory=list)
    seen: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def in_bounds(self, owner: Rows, block: Int64s, length: Int64s) -> Bools:
        """True where a run is in the file system; marks the owners of other runs as damaged."""
        fits = (block > 0) & (length > 0) & (block + length <= self.blocks_count)
        self.damaged[owner[~fits]] = True
        return fits

    def _may_follow(self, owner: Rows) -> int:
        """Number of these rows that may be added; marks the owners of the rest as damaged."""
        count = min(len(owner), self.left)
        self.left -= count
        self.damaged[owner[count:]] = True
        return count

    def collect(self, runs: Runs) -> None:
        """Add the runs that are in the file system."""
        fits = np.flatnonzero(self.in_bounds(runs.owner, runs.physical, runs.length))
        self.runs.append(runs.take(fits[: self._may_follow(runs.owner[fits])]))

    def descend(self, owner: Rows, block: Int64s) -> tuple[Rows, Bytes2D]:
        """Read child nodes: (indexes of the kept ones, rows); a repeated node is a loop."""
        key = owner * np.int64(self.blocks_count) + block
        fresh = first_met(key, self.seen)
        self.damaged[owner[~fresh]] = True
        kept = np.flatnonzero(fresh)
        kept = kept[: self._may_follow(owner[kept])]
        self.seen = np.concatenate([self.seen, key[kept]])
        rows, readable = self.fetch(block[kept], owner[kept])
        self.damaged[owner[kept[~readable]]] = True
        self.nodes.append((owner[kept], block[kept]))
        return kept[readable], rows[readable]

    def result(self) -> BlockMaps:
        """All maps, sorted and with adjacent runs merged."""
        runs = Runs.concat(self.runs)
        data = merge_adjacent(runs.take(np.lexsort((runs.logical, runs.owner))))
        none = np.zeros(0, np.int64)
        owners, blocks = (
            np.concatenate(part) for part in zip((none, none), *self.nodes, strict=True)
        )
        overlap = (data.owner[1:] == data.owner[:-1]) & (
            data.logical[1:] < data.logical[:-1] + data.length[:-1]
        )
        self.damaged[data.owner[1:][overlap]] = True
        return BlockMaps(data, (owners, blocks), self.damaged)


def first_met(keys: Int64s, seen: Int64s) -> Bools:
    """True for the first occurrence of each key that is not in `seen`."""
    return first_occurrence(keys) & ~np.isin(keys, seen)


def merge_adjacent(runs: Runs) -> Runs:
    """The runs, with neighbours merged that are contiguous both on disk and in the file."""
    if not len(runs):
        return runs
    follows = (
        (runs.owner[1:] == runs.owner[:-1])
        & (runs.logical[1:] == runs.logical[:-1] + runs.length[:-1])
        & (runs.physical[1:] == runs.physical[:-1] + runs.length[:-1])
        & (runs.unwritten[1:] == runs.unwritten[:-1])
    )
    starts = np.concatenate([[0], np.flatnonzero(~follows) + 1])
    length = np.add.reduceat(runs.length, starts)
    first = runs.take(starts)
    return Runs(first.owner, first.logical, length, first.physical, first.unwritten)


def has_map(mode: Int64s, size: Int64s, flags: Int64s) -> Bools:
    """True where `i_block` holds a block map."""
    mapped = np.isin(mode & 0xF000, (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK))
    inline: Bools = (flags & int(InodeFlags.INLINE_DATA)) != 0
    return mapped & ~inline & ~is_fast_symlink(mode, size, flags)


def map_inodes(
    i_block: Bytes2D,
    flags: Int64s,
    mapped: Bools,
    blocks_count: int,
    block_size: int,
    fetch: Fetch,
    readable: int | None = None,
) -> BlockMaps:
    """The block maps of many inodes.

    Args:
        i_block: uint8 (n, 60).
        flags: `i_flags` (n,).
        mapped: bool (n,), True where `i_block` is a map (`has_map`).
        blocks_count: block count of the file system, the limit of block numbers. Blocks beyond the
            end of the evidence are mapped too, and cause an error when they are read.
        block_size: bytes per block.
        fetch: reads tree blocks.
        readable: number of blocks in the evidence, if lower than `blocks_count`.
    """
    real = min(blocks_count, MOST_BLOCKS) if readable is None else readable
    most, at_once = OWNERS_A_BLOCK * real + SPARE_PIECES, NODE_BYTES_AT_ONCE // block_size
    by_extents = (flags & int(InodeFlags.EXTENTS)) != 0
    damaged = np.zeros(len(flags), bool)
    walk = _MapWalk(fetch, min(blocks_count, MOST_BLOCKS), damaged, most, at_once)
    if len(owner := np.flatnonzero(mapped & by_extents)):
        _walk_extents(walk, i_block, owner)
    if len(owner := np.flatnonzero(mapped & ~by_extents)):
        _walk_indirect(walk, i_block, owner, block_size // 4)
    return walk.result()


def _walk_extents(walk: _MapWalk, i_block: Bytes2D, owner: Rows) -> None:
    pending = [_extent_nodes(walk, i_block[owner], owner, None)]
    while pending:
        owner, block, expected = pending.pop()
        if len(owner) > walk.at_once:
            rest, batch = slice(walk.at_once, None), slice(walk.at_once)
            pending.append((owner[rest], block[rest], expected[rest]))
            owner, block, expected = owner[batch], block[batch], expected[batch]
        kept, rows = walk.descend(owner, block)
        if len(kept):
            pending.append(_extent_nodes(walk, rows, owner[kept], expected[kept]))


def _extent_nodes(
    walk: _MapWalk, rows: Bytes2D, owner: Rows, expected: Int64s | None
) -> tuple[Rows, Int64s, Int64s]:
    """Add the extents in these nodes; returns (owner, block, expected depth) of their children.

    Args:
        walk: the walk.
        rows: uint8 (n, node size).
        owner: owner of each node.
        expected: expected depth of each node; None for roots, which may have any.
    """
    sound, entries, _, depth = extents.parse_headers(rows)
    if expected is not None:
        sound &= depth == expected
    walk.damaged[owner[~sound]] = True
    row, slot = expand(np.where(sound & (depth == 0), entries, 0))
    logical, length, physical, unwritten = extents.parse_extents(rows, row, slot)
    # Source: kernel fs/ext4/extents.c, `ext4_valid_extent_entries`.
    disorder = (row[1:] == row[:-1]) & (logical[1:] < logical[:-1] + length[:-1])
    walk.damaged[owner[row[1:][disorder]]] = True
    walk.collect(Runs(owner[row], logical, length, physical, unwritten))
    row, slot = expand(np.where(sound & (depth > 0), entries, 0))
    _, child = extents.parse_children(rows, row, slot)
    fits = walk.in_bounds(owner[row], child, np.ones_like(child))
    row, child = row[fits], child[fits]
    return owner[row], child, depth[row] - 1


def _walk_indirect(walk: _MapWalk, i_block: Bytes2D, owner: Rows, per_block: int) -> None:
    pointers = np.ascontiguousarray(i_block[owner]).view("<u4").astype(np.int64)
    _collect_pointers(walk, owner, np.zeros(len(owner), np.int64), pointers[:, :12])
    base = 12
    for level in (1, 2, 3):
        root = pointers[:, 11 + level]
        used = root != 0
        bases = np.full(used.sum(), base)
        _walk_indirect_tree(walk, owner[used], root[used], bases, level, per_block)
        base += per_block**level


def _walk_indirect_tree(
    walk: _MapWalk, owner: Rows, block: Int64s, base: Int64s, level: int, per_block: int
) -> None:
    """Follow an array of indirect blocks down to the pointers to content."""
    pending = [(owner, block, base, level)]
    while pending:
        owner, block, base, level = pending.pop()
        if len(owner) > walk.at_once:
            rest, batch = slice(walk.at_once, None), slice(walk.at_once)
            pending.append((owner[rest], block[rest], base[rest], level))
            owner, block, base = owner[batch], block[batch], base[batch]
        fits = walk.in_bounds(owner, block, np.ones_like(block))
        owner, block, base = owner[fits], block[fits], base[fits]
        kept, rows = walk.descend(owner, block)
        owner, base = owner[kept], base[kept]
        pointers = np.ascontiguousarray(rows).view("<u4")
        if level == 1:
            _collect_pointers(walk, owner, base, pointers)
        elif len(owner):
            row, slot = np.nonzero(pointers)
            below = base[row] + slot * per_block ** (level - 1)
            pending.append((owner[row], widen(pointers[row, slot]), below, level - 1))


def _collect_pointers(walk: _MapWalk, owner: Rows, base: Int64s, pointers: Integers) -> None:
    row, slot = np.nonzero(pointers)
    walk.collect(Runs.single(owner[row], base[row] + slot, widen(pointers[row, slot])))
