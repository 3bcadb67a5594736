"""Block maps rebuilt from freed indirect blocks.

A block that points at indirect blocks is a double indirect block, and one that points at double
indirect blocks is a triple indirect block. The 12 direct blocks are directly before the first
indirect block if the content confirms this, else before its first data block. The content under the
double indirect block follows the content of the first indirect block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.carving.indirect_bodies import DIRECT_BLOCKS
from ext4kit.filesystem.block_maps import Runs, merge_adjacent
from ext4kit.recovery.maps.ends import sizes_to_last_nonzero
from ext4kit.unallocated.indirect import is_mostly_sequential
from ext4kit.unallocated.space import UnallocatedSpace

_AT_ONCE = 2048
_FEW = 4  # minimum number of pointers that do not occur by chance
_GAP = 4  # maximum tree blocks between the content blocks before and after them
_HOLE = 8  # maximum file blocks there that were never written
_LEVELS = 3
_WINDOW, _PERIODS = 24, 4  # pointers that show how a file begins; maximum period of holes


@dataclass(frozen=True, slots=True)
class IndirectMaps:
    """Files that are mapped by indirect blocks, one row per file.

    Attributes:
        runs: blocks of the files; `owner` is the row in this table.
        nodes: (row, block) of the indirect blocks.
        headless: bool, True if the start of the file is unknown.
        reused: bool, True if blocks of the file are allocated now.
        size: bytes up to the last nonzero one.
    """

    runs: Runs
    nodes: tuple[Int64s, Int64s]
    headless: Bools
    reused: Bools
    size: Int64s

    def __len__(self) -> int:
        return len(self.size)

    @property
    def is_incomplete(self) -> Bools:
        """Bool: True if the tree shows that the file is incomplete."""
        return self.headless | self.reused

    def take(self, kept: Bools) -> Self:
        """The files selected by a bool array."""
        tree = blocks_of_files(self.runs, self.nodes, kept)
        return type(self)(*tree, self.headless[kept], self.reused[kept], self.size[kept])


def blocks_of_files(
    runs: Runs, nodes: tuple[Int64s, Int64s], kept: Bools
) -> tuple[Runs, tuple[Int64s, Int64s]]:
    """Runs and (file, block) pairs of the files selected by a bool array, renumbered."""
    row = np.cumsum(kept) - 1
    runs, mine = runs.take(kept[runs.owner]), kept[nodes[0]]
    return replace(runs, owner=row[runs.owner]), (row[nodes[0][mine]], nodes[1][mine])


@dataclass(frozen=True, slots=True)
class _PointerTable:
    """All pointers of all candidates, sorted by node and slot, with the bounds of each node."""

    node: Int64s
    slot: Int64s
    block: Int64s
    first: Rows
    last: Rows

    @classmethod
    def of(cls, node: Int64s, slot: Int64s, block: Int64s, nodes: int) -> Self:
        """The pointers of `nodes` nodes, sorted by node."""
        edges = row_bounds(node, nodes)
        return cls(node, slot, block, edges[:-1], edges[1:] - 1)

    def take(self, kept: Bools) -> Self:
        """Select nodes by a bool array."""
        mine = kept[self.node]
        row = np.cumsum(kept) - 1
        columns = row[self.node[mine]], self.slot[mine], self.block[mine]
        return self.of(*columns, int(kept.sum()))


def rebuild_indirect_maps(space: UnallocatedSpace, candidates: Int64s) -> IndirectMaps:
    """Join the indirect blocks that a scan found into maps of files.

    Args:
        space: the space that was scanned.
        candidates: int64, blocks that may hold pointers.
    """
    nodes = _limit(space, np.unique(candidates))
    level, pointers, nodes = _classify_levels(space, nodes)
    parent = np.full(len(nodes), -1)
    at = SortedIndex(nodes).rows(pointers.block)
    below = (at != NO_ROW) & (level[pointers.node] == level[at] + 1)
    parent[at[below]] = pointers.node[below]
    head, base = _find_heads(space, nodes, level, parent, pointers)
    return _assemble(space, nodes, level, parent, head, base, pointers)


def _limit(space: UnallocatedSpace, nodes: Int64s) -> Int64s:
    """Limit the nodes to `space.max_mappings` pointers, and report how many are left out."""
    room = space.max_mappings
    if len(nodes) * (space.fs.superblock.block_size // 4) <= room:
        return nodes
    for at in range(0, len(nodes), _AT_ONCE):
        data, _ = space.fs.fetch(nodes[at : at + _AT_ONCE])
        room -= int(np.count_nonzero(data.view("<u4")))
        if room < 0:
            what = f"name more blocks than there are; left out from block {nodes[at]:,} on"
            space.fs.problems.add("indirect blocks in free space", what)
            return nodes[:at]
    return nodes


def _classify_levels(
    space: UnallocatedSpace, nodes: Int64s
) -> tuple[Int64s, _PointerTable, Int64s]:
    """Find the level of each candidate that points at unallocated blocks.

    A candidate of level 1 points at content. Content can look like pointers, so a candidate at
    which another one of level 1 points is content.

    Returns (level, pointers, nodes).
    """
    parts = [(*[np.zeros(0, np.int64)] * 3,)]
    for begin in range(0, len(nodes), _AT_ONCE):
        data, _ = space.fs.fetch(nodes[begin : begin + _AT_ONCE])
        words = data.view("<u4")
        row, slot = np.nonzero(words)
        parts.append((row + begin, slot, words[row, slot].astype(np.int64)))
    node, slot, block = map(np.concatenate, zip(*parts, strict=True))
    pointers = _PointerTable.of(node, slot, block, len(nodes))
    kept = _is_plausible(space, nodes, pointers)
    nodes, pointers = nodes[kept], pointers.take(kept)
    held = np.bincount(pointers.node, minlength=len(nodes))
    at = SortedIndex(nodes).rows(pointers.block)
    inner = at != NO_ROW
    below = np.bincount(pointers.node[inner], minlength=len(nodes))
    level = np.where(2 * below >= held, 2, 1)
    top = pointers.node[inner & (level[at] == 2) & (level[pointers.node] == 2)]
    level[top] = _LEVELS
    content = np.zeros(len(nodes), bool)
    content[at[inner & (level[pointers.node] == 1)]] = True
    return level[~content], pointers.take(~content), nodes[~content]


def _is_plausible(space: UnallocatedSpace, nodes: Int64s, pointers: _PointerTable) -> Bools:
    """Per candidate (bool): True if its pointers are mostly sequential or all name indirect blocks.

    Tables of ascending numbers in programs meet neither condition.
    """
    used = space.fs.bitmaps.blocks_in_use(pointers.block)
    held = np.bincount(pointers.node, minlength=len(nodes))
    taken = np.bincount(pointers.node[used], minlength=len(nodes))
    free = (2 * taken < held) & (held > 0)
    superblock = space.fs.superblock
    found = free & is_mostly_sequential(pointers.node, pointers.block, len(nodes), superblock)
    for _ in range(_LEVELS - 1):
        strange = ~np.isin(pointers.block, nodes[found])
        found |= free & (np.bincount(pointers.node[strange], minlength=len(nodes)) == 0)
    return found


def _find_heads(
    space: UnallocatedSpace, nodes: Int64s, level: Int64s, parent: Int64s, pointers: _PointerTable
) -> tuple[Int64s, Int64s]:
    """Per root: (first root of its file, first of the 12 direct blocks or -1)."""
    first, last = np.full((2, len(nodes)), -1)
    ones = np.flatnonzero(level == 1)
    starts = pointers.slot[pointers.first[ones]] == 0
    first[ones] = np.where(starts, pointers.block[pointers.first[ones]], -1)
    last[ones] = pointers.block[pointers.last[ones]]
    for deep in range(2, _LEVELS + 1):
        for edge, column in ((pointers.first, first), (pointers.last, last)):
            above = np.flatnonzero(level == deep)
            child = SortedIndex(nodes).rows(pointers.block[edge[above]])
            column[above] = values_at(column, child)
    file = np.arange(len(nodes))
    if not len(nodes):
        return file, first
    rest = space.fs.superblock.block_size // 4 - 1 - pointers.slot[pointers.last]
    for deep in range(2, _LEVELS + 1):
        roots = np.flatnonzero((parent < 0) & (level == deep) & (first >= 0))
        before = np.flatnonzero((parent < 0) & (level == deep - 1) & (rest <= _HOLE))
        before = before[np.argsort(last[before], kind="stable")]
        low = np.searchsorted(last[before], first[roots] - _GAP - _HOLE)
        high = np.searchsorted(last[before], first[roots])
        sole = high - low == 1
        file[roots[sole]] = file[before[low[sole]]]
    direct = np.where(first == nodes + 1, nodes, first) - DIRECT_BLOCKS
    known = (level == 1) & (parent < 0) & (first >= 0)
    known &= _direct_block_pattern(nodes, pointers).any(axis=1)
    return file, np.where(known, direct, -1)


def _direct_block_pattern(nodes: Int64s, pointers: _PointerTable) -> Bools:
    """Bool (n, 12): the direct blocks that a file has if this is its first indirect block.

    The first blocks must have the same distances on disk as in the file. A regular pattern of holes
    is assumed to begin at the start of the file. The row is all False if no pattern fits.
    """
    place = np.arange(len(pointers.node)) - pointers.first[pointers.node]
    first = pointers.block[pointers.first][pointers.node]
    early = pointers.slot < _WINDOW
    odd = (place < DIRECT_BLOCKS) & (pointers.block - pointers.slot != first)
    sound = np.bincount(pointers.node[odd], minlength=len(nodes)) == 0
    present = np.zeros((len(nodes), _WINDOW), bool)
    present[pointers.node[early], pointers.slot[early]] = True
    ends = pointers.slot[pointers.last] if len(nodes) else place
    observed = np.arange(_WINDOW) <= ends[:, None]
    direct, open_rows = np.zeros((len(nodes), DIRECT_BLOCKS), bool), sound.copy()
    for period in range(1, _PERIODS + 1):
        again = (present[:, period:] == present[:, :-period]) | ~observed[:, period:]
        fits = open_rows & again.all(axis=1) & ((period == 1) | (ends >= DIRECT_BLOCKS))
        pattern = present[:, (np.arange(DIRECT_BLOCKS) - DIRECT_BLOCKS) % period]
        direct[fits] = pattern[fits]
        open_rows &= ~fits
    return direct


def _assemble(
    space: UnallocatedSpace,
    nodes: Int64s,
    level: Int64s,
    parent: Int64s,
    head: Int64s,
    base: Int64s,
    pointers: _PointerTable,
) -> IndirectMaps:
    """Arrange the content of all nodes in order of file blocks."""
    logical = _first_logical(nodes, level, parent, pointers, space.fs.superblock.block_size // 4)
    root = np.arange(len(nodes))
    for _ in range(_LEVELS):
        root = np.where(parent[root] >= 0, parent[root], root)
    file, owner = np.unique(head[root], return_inverse=True)
    content = level[pointers.node] == 1
    node = pointers.node[content]
    direct = _direct_block_pattern(nodes, pointers)[file]
    start = base[file]
    block = start[:, None] + np.arange(DIRECT_BLOCKS)
    others = np.isin(block, pointers.block) | np.isin(block, nodes)
    others |= space.fs.bitmaps.blocks_in_use(block.reshape(-1)).reshape(block.shape)
    good = (start > space.fs.superblock.first_data_block) & ~(others & direct).any(axis=1)
    order = np.argsort(start, kind="stable")
    crowded = np.zeros(len(start), bool)
    crowded[order[1:]] |= np.diff(start[order]) < DIRECT_BLOCKS
    crowded[order[:-1]] |= np.diff(start[order]) < DIRECT_BLOCKS
    good &= ~crowded
    start = np.where(good, start, -1)
    row, position = _nonzero_direct_blocks(space, start, direct)
    files = np.append(owner[node], row)
    places = np.append(logical[node] + pointers.slot[content], position)
    blocks = np.append(pointers.block[content], start[row] + position)
    runs = Runs.single(files, places, blocks).take(np.lexsort((places, files)))
    used = space.fs.bitmaps.blocks_in_use(runs.physical)
    reused = np.zeros(len(file), bool)
    reused[runs.owner[used]] = True
    size = np.zeros(len(file), np.int64)
    found = IndirectMaps(merge_adjacent(runs), (owner, nodes), start < 0, reused, size)
    held = np.bincount(owner[node], minlength=len(file))
    found = found.take((start >= 0) | (held >= _FEW))
    return replace(found, size=sizes_to_last_nonzero(space.fs, found.runs, len(found)))


def _first_logical(
    nodes: Int64s, level: Int64s, parent: Int64s, pointers: _PointerTable, per_block: int
) -> Int64s:
    """The first file block that is below each node."""
    roots = [0, *(sum(per_block**k for k in range(1, n)) for n in (1, 2, 3))]
    logical = np.array(roots)[level] + DIRECT_BLOCKS
    at = SortedIndex(nodes).rows(pointers.block)
    for deep in range(_LEVELS, 1, -1):
        below = (at != NO_ROW) & (parent[at] == pointers.node)
        below &= level[pointers.node] == deep
        skip = pointers.slot[below] * per_block ** (deep - 1)
        logical[at[below]] = logical[pointers.node[below]] + skip
    return logical


def _nonzero_direct_blocks(
    space: UnallocatedSpace, start: Int64s, direct: Bools
) -> tuple[Int64s, Int64s]:
    """(file, position) of the direct blocks that are not zeros; zero blocks are taken as holes."""
    rows = np.flatnonzero(start >= 0)
    parts = [np.zeros((0, 2), np.int64)]
    for at in range(0, len(rows), _AT_ONCE // DIRECT_BLOCKS):
        some = rows[at : at + _AT_ONCE // DIRECT_BLOCKS]
        data, _ = space.fs.fetch((start[some][:, None] + np.arange(DIRECT_BLOCKS)).reshape(-1))
        filled = np.argwhere(data.any(axis=1).reshape(-1, DIRECT_BLOCKS) & direct[some])
        parts.append(np.stack([some[filled[:, 0]], filled[:, 1]], axis=1))
    found = np.concatenate(parts)
    return found[:, 0], found[:, 1]
