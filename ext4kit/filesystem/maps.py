"""Block maps: which blocks hold which file blocks, for one inode or for a whole table.

Extent trees and indirect blocks are walked level by level over all inodes at once, so one
inode and a million go the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ext4kit.parsers import extents
from ext4kit.parsers.inode import InodeFlags, is_fast_symlink

MOST_BLOCKS = 1 << 40  # a believable bound: 4 PiB in blocks of 4 KiB

# (blocks (n,), owners (n,)) -> (rows uint8 (n, block size), readable bool (n,))
Fetch = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of blocks as int64 columns (n,), in order of owner and file block.

    Attributes:
        owner: row of the inode that the run belongs to.
        logical: first file block.
        length: blocks.
        physical: first block in the file system.
        unwritten: allocated, but reads as zeros.
    """

    owner: Any
    logical: Any
    length: Any
    physical: Any
    unwritten: Any

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, index: Any) -> Runs:
        """The rows that `index` selects."""
        return Runs(
            self.owner[index],
            self.logical[index],
            self.length[index],
            self.physical[index],
            self.unwritten[index],
        )


@dataclass(frozen=True, slots=True)
class Maps:
    """The maps of a table of inodes.

    Attributes:
        data: runs of file content.
        nodes: (owner, block) columns of tree and indirect blocks.
        damaged: bool, a row an inode: some part of its map could not be read.
    """

    data: Runs
    nodes: tuple[Any, Any]
    damaged: Any


@dataclass(slots=True)
class _Walk:
    """What a level-by-level walk has collected so far."""

    fetch: Fetch
    blocks_count: int
    damaged: Any
    runs: list[tuple[Any, ...]] = field(default_factory=list)
    nodes: list[tuple[Any, Any]] = field(default_factory=list)
    seen: Any = field(default_factory=lambda: np.zeros(0, np.int64))

    def within(self, owner: Any, block: Any, length: Any) -> Any:
        """Which of the runs lie in the file system; the owners of others are damaged."""
        fits = (block > 0) & (length > 0) & (block + length <= self.blocks_count)
        self.damaged[owner[~fits]] = True
        return fits

    def descend(self, owner: Any, block: Any) -> tuple[Any, Any]:
        """Read child nodes; (kept positions, rows). A node met twice by its owner is a loop."""
        key = owner * np.int64(self.blocks_count) + block
        _, first = np.unique(key, return_index=True)
        fresh = np.zeros(len(key), bool)
        fresh[first] = ~np.isin(key[first], self.seen)
        self.damaged[owner[~fresh]] = True
        kept = np.flatnonzero(fresh)
        self.seen = np.concatenate([self.seen, key[kept]])
        rows, readable = self.fetch(block[kept], owner[kept])
        self.damaged[owner[kept[~readable]]] = True
        self.nodes.append((owner[kept], block[kept]))
        return kept[readable], rows[readable]

    def result(self) -> Maps:
        """Everything found, sorted and with neighbouring runs joined."""
        columns = [np.concatenate(part) for part in zip(*self.runs, strict=True)] or [
            np.zeros(0, np.int64)
        ] * 5
        order = np.lexsort((columns[1], columns[0]))
        nodes = [np.concatenate(part) for part in zip(*self.nodes, strict=True)] or [
            np.zeros(0, np.int64)
        ] * 2
        data = _joined(Runs(*(column[order] for column in columns)))
        overlap = (data.owner[1:] == data.owner[:-1]) & (
            data.logical[1:] < data.logical[:-1] + data.length[:-1]
        )
        self.damaged[data.owner[1:][overlap]] = True
        return Maps(data, (nodes[0], nodes[1]), self.damaged)


def _joined(runs: Runs) -> Runs:
    """Runs that continue each other on disk and in the file become one."""
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


def has_map(mode: Any, size: Any, flags: Any) -> Any:
    """Whether i_block holds a block map at all; for columns."""
    kind = mode & 0xF000
    mapped = (kind == 0x8000) | (kind == 0x4000) | (kind == 0xA000)
    inline = (flags & int(InodeFlags.INLINE_DATA)) != 0
    return mapped & ~inline & ~is_fast_symlink(mode, size, flags)


def map_inodes(
    i_block: Any, flags: Any, mapped: Any, blocks_count: int, block_size: int, fetch: Fetch
) -> Maps:
    """Walk the maps of many inodes.

    Args:
        i_block: uint8 (n, 60).
        flags: i_flags (n,).
        mapped: bool (n,): inodes whose i_block is a map (`has_map`).
        blocks_count: blocks that may be pointed at, the file system's own count: what lies
            beyond the end of the evidence is mapped, and told when it is read.
        block_size: bytes a block.
        fetch: reads tree blocks.
    """
    by_extents = (flags & int(InodeFlags.EXTENTS)) != 0
    walk = _Walk(fetch, min(blocks_count, MOST_BLOCKS), np.zeros(len(flags), bool))
    _walk_extents(walk, i_block, np.flatnonzero(mapped & by_extents))
    _walk_indirect(walk, i_block, np.flatnonzero(mapped & ~by_extents), block_size // 4)
    return walk.result()


def spread(counts: Any) -> tuple[Any, Any]:
    """(row, position) for `counts[row]` positions each, all rows after each other."""
    row = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return row, np.arange(len(row)) - starts[row]


def _walk_extents(walk: _Walk, i_block: Any, owner: Any) -> None:
    rows = i_block[owner]
    expected = None
    while len(owner):
        sound, entries, _, depth = extents.parse_headers(rows)
        if expected is not None:
            sound &= depth == expected
        walk.damaged[owner[~sound]] = True
        _collect_extents(walk, rows, owner, np.where(sound & (depth == 0), entries, 0))
        row, slot = spread(np.where(sound & (depth > 0), entries, 0))
        _, child = extents.parse_children(rows, row, slot)
        fits = walk.within(owner[row], child, np.ones_like(child))
        row, child = row[fits], child[fits]
        expected, owner = depth[row] - 1, owner[row]
        kept, rows = walk.descend(owner, child)
        owner, expected = owner[kept], expected[kept]


def _collect_extents(walk: _Walk, rows: Any, owner: Any, entries: Any) -> None:
    row, slot = spread(entries)
    logical, length, physical, unwritten = extents.parse_extents(rows, row, slot)
    fits = walk.within(owner[row], physical, length)
    walk.runs.append(
        (owner[row][fits], logical[fits], length[fits], physical[fits], unwritten[fits])
    )


def _walk_indirect(walk: _Walk, i_block: Any, owner: Any, per_block: int) -> None:
    pointers = np.ascontiguousarray(i_block[owner]).view("<u4").astype(np.int64)
    _collect_pointers(walk, owner, np.zeros(len(owner), np.int64), pointers[:, :12])
    base = 12
    for level in (1, 2, 3):
        root = pointers[:, 11 + level]
        used = root != 0
        _walk_indirect_tree(
            walk, owner[used], root[used], np.full(used.sum(), base), level, per_block
        )
        base += per_block**level


def _walk_indirect_tree(
    walk: _Walk, owner: Any, block: Any, base: Any, level: int, per_block: int
) -> None:
    """Follow one column of indirect blocks down to its pointers to content."""
    while len(owner):
        fits = walk.within(owner, block, np.ones_like(block))
        owner, block, base = owner[fits], block[fits], base[fits]
        kept, rows = walk.descend(owner, block)
        owner, base = owner[kept], base[kept]
        pointers = np.ascontiguousarray(rows).view("<u4").astype(np.int64)
        level -= 1
        if level == 0:
            _collect_pointers(walk, owner, base, pointers)
            return
        row, slot = np.nonzero(pointers)
        owner, block = owner[row], pointers[row, slot]
        base = base[row] + slot * per_block**level


def _collect_pointers(walk: _Walk, owner: Any, base: Any, pointers: Any) -> None:
    row, slot = np.nonzero(pointers)
    block = pointers[row, slot]
    fits = walk.within(owner[row], block, np.ones_like(block))
    row, slot, block = row[fits], slot[fits], block[fits]
    ones = np.ones_like(block)
    walk.runs.append((owner[row], base[row] + slot, ones, block, np.zeros(len(block), bool)))
