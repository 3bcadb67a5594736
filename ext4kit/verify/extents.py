"""Check of the extent trees of a whole table of inodes, one level of all trees at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem.block_maps import Runs
from ext4kit.parsers import extents
from ext4kit.parsers.checksums import crc32c_each
from ext4kit.parsers.inode import InodeTable, inode_seeds
from ext4kit.verify.context import OwnedBlocks, VerifyContext
from ext4kit.verify.findings import Words, text_of

END = 1 << 32  # file blocks are 32-bit numbers


@dataclass(slots=True)
class Found:
    """Contents of block maps.

    Attributes:
        runs: runs of blocks by row of the inode, in pieces.
        nodes: tree blocks by row of the inode, in pieces.
        bad: bool per row: True where a part of the map cannot be used.
        ordered: cached result of `all_runs`.
    """

    bad: Bools
    runs: list[Runs] = field(default_factory=list)
    nodes: list[OwnedBlocks] = field(default_factory=list)
    ordered: Runs | None = None

    def all_runs(self) -> Runs:
        """All runs, sorted by owner and file block; call it only after all runs are added."""
        if self.ordered is None:
            runs = Runs.concat(self.runs)
            step = np.diff(runs.owner)
            later = (step > 0) | ((step == 0) & (np.diff(runs.logical) >= 0))
            in_order = later.all()
            self.ordered = runs if in_order else runs.take(np.lexsort((runs.logical, runs.owner)))
        return self.ordered


@dataclass(frozen=True, slots=True)
class _Nodes(Table):
    """Nodes of one level.

    Attributes:
        owner: row of the inode.
        block: block number of the node; -1 for the root in the inode.
        low, high: file blocks that the parent's index entry covers, `high` excluded.
        depth: expected `eh_depth`; -1 for any.
    """

    owner: Rows
    block: Int64s
    low: Int64s
    high: Int64s
    depth: Int64s


class TreeCheck:
    """Check of the extent trees of one table of inodes.

    Args:
        context: receives the findings.
        table: the inodes.
        found: receives runs and nodes.
    """

    def __init__(self, context: VerifyContext, table: InodeTable, found: Found) -> None:
        self._context, self._table, self._found = context, table, found
        self._blocks_count = context.superblock.blocks_count

    def walk(self, owner: Rows) -> None:
        """Follow the trees of the inodes in rows `owner`."""
        count = len(owner)
        nodes = _Nodes(
            owner, np.full(count, -1), np.zeros(count, np.int64), np.full(count, END),
            np.full(count, -1),
        )  # fmt: skip
        rows = self._table.i_block[owner]
        while len(nodes.owner):
            nodes, rows = self._level(nodes, rows)

    def _level(self, nodes: _Nodes, rows: Bytes2D) -> tuple[_Nodes, Bytes2D]:
        sound, entries, _, depth = extents.parse_headers(rows)
        sound &= (nodes.depth < 0) | (depth == nodes.depth)
        sound &= (depth == 0) | (entries > 0)
        self._report("extent-header", nodes, ~sound, "invalid header")
        self._leaves(nodes, rows, np.where(sound & (depth == 0), entries, 0))
        return self._children(nodes, rows, np.where(sound & (depth > 0), entries, 0), depth)

    def _report(
        self, code: str, nodes: _Nodes, wrong: Bools, read: Words = "", row: Rows | None = None,
        spoils: bool = True,
    ) -> None:  # fmt: skip
        """Record a finding for each of some nodes, or for entries that are in the nodes `row`."""
        if not wrong.any():
            return
        row = np.arange(len(wrong)) if row is None else row
        if spoils:
            self._found.bad[nodes.owner[row[wrong]]] = True
        for place in self._context.findings.shown(code, wrong):
            number = int(self._table.number[nodes.owner[row[place]]])
            block = int(nodes.block[row[place]])
            if block < 0:
                name, where = "extent tree root", self._context.inode_place(number)
            else:
                name, where = "extent block", {"inode": number, "block": block}
            self._context.add(code, name, text_of(read, place), **where)

    def _leaves(self, nodes: _Nodes, rows: Bytes2D, entries: Int64s) -> None:
        row, slot = expand(entries)
        if not len(row):
            return
        logical, length, physical, unwritten = extents.parse_extents(rows, row, slot)

        def read(entry: int) -> str:
            blocks = f"{logical[entry]}+{length[entry]} at block {physical[entry]}"
            return f"extent {slot[entry]}: file blocks {blocks}"

        empty = length == 0
        self._report("extent-length", nodes, empty, read, row)
        first = self._context.superblock.first_data_block
        outside = (physical < max(first, 1)) | (physical + length > self._blocks_count)
        self._report("extent-range", nodes, outside & ~empty, read, row)
        end = logical + length
        wrong = end > END
        same = row[1:] == row[:-1]
        wrong[1:] |= same & (logical[1:] < end[:-1])
        wrong |= (end > nodes.high[row]) | (logical < nodes.low[row])
        self._report("extent-order", nodes, wrong, read, row)
        started = (slot == 0) & (nodes.block[row] >= 0) & (logical > nodes.low[row])
        self._report("extent-index", nodes, started, read, row, spoils=False)
        runs = Runs(nodes.owner[row], logical, length, physical, unwritten)
        self._found.runs.append(runs.take(~empty & ~outside))

    def _children(
        self, nodes: _Nodes, rows: Bytes2D, entries: Int64s, depth: Int64s
    ) -> tuple[_Nodes, Bytes2D]:
        row, slot = expand(entries)
        low, child = extents.parse_children(rows, row, slot)

        def read(entry: int) -> str:
            return f"index {slot[entry]}: file block {low[entry]} at block {child[entry]}"

        first = max(self._context.superblock.first_data_block, 1)
        outside = (child < first) | (child >= self._blocks_count)
        self._report("extent-range", nodes, outside, read, row)
        same = row[1:] == row[:-1]
        wrong = (low < nodes.low[row]) | (low >= nodes.high[row])
        wrong[1:] |= same & (low[1:] <= low[:-1])
        self._report("extent-order", nodes, wrong, read, row)
        late = (slot == 0) & (nodes.block[row] >= 0) & (low > nodes.low[row])
        self._report("extent-index", nodes, late, read, row, spoils=False)
        high = nodes.high[row]
        high[:-1][same] = low[1:][same]
        below = _Nodes(nodes.owner[row], child, low, high, depth[row] - 1)
        return self._read(below.take(~outside))

    def _read(self, nodes: _Nodes) -> tuple[_Nodes, Bytes2D]:
        """The readable nodes that were not read before, and their bytes."""
        self._found.nodes.append(OwnedBlocks(nodes.owner, nodes.block))
        fresh = self._context.nodes.visit(nodes.block)
        self._report("extent-loop", nodes, ~fresh, "a block that was read before")
        nodes = nodes.take(fresh)
        rows, readable = self._context.fs.fetch(nodes.block)
        self._report("metadata-unreadable", nodes, ~readable, self._context.fs.unreadable)
        nodes, rows = nodes.take(readable), rows[readable]
        self._check_sums(nodes, rows)
        return nodes, rows

    def _check_sums(self, nodes: _Nodes, rows: Bytes2D) -> None:
        """Check the checksum in each node's tail, which follows `eh_max` entries."""
        if not self._context.superblock.has_metadata_checksums or not len(rows):
            return
        _, _, most, _ = extents.parse_headers(rows)
        end = extents.HEADER.size + most * extents.EXTENT.size
        table = self._table
        seeds = inode_seeds(
            self._context.superblock, table.number[nodes.owner], table.generation[nodes.owner]
        ).astype(np.int64)
        words = np.ascontiguousarray(rows).view("<u4")
        stored = words[np.arange(len(words)), np.minimum(end // 4, words.shape[1] - 1)]
        bodies = (row[:stop] for row, stop in zip(rows, end.tolist(), strict=True))
        wrong = crc32c_each(seeds, bodies) != stored
        wrong |= end + extents.TAIL.size > rows.shape[1]
        self._report("extent-checksum", nodes, wrong, spoils=False)
