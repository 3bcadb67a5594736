"""Extent trees of a whole table of inodes, checked level by level, with all nodes and entries."""

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
from ext4kit.verify.scene import VerifyContext

END = 1 << 32  # file blocks are 32-bit numbers


@dataclass(slots=True)
class Found:
    """Contents of block maps.

    Attributes:
        runs: (owner row, file block, length, block, unwritten) columns, in pieces.
        nodes: (owner row, block) columns of tree blocks, in pieces.
        bad: bool per row: True where a part of the map cannot be used.
        ordered: cached result of `all_runs`.
    """

    bad: Bools
    runs: list[tuple[Rows, Int64s, Int64s, Int64s, Bools]] = field(default_factory=list)
    nodes: list[tuple[Rows, Int64s]] = field(default_factory=list)
    ordered: Runs | None = None

    def all_runs(self) -> Runs:
        """All runs, sorted by owner and file block; call it only after all runs are added."""
        if self.ordered is None:
            self.ordered = self._in_order()
        return self.ordered

    def _in_order(self) -> Runs:
        columns = [np.concatenate(part) for part in zip(*self.runs, strict=True)]
        if not columns:
            return Runs.empty()
        owner, logical = columns[:2]
        step = np.diff(owner)
        runs = Runs(*columns)
        if ((step > 0) | ((step == 0) & (logical[1:] >= logical[:-1]))).all():
            return runs
        return runs.take(np.lexsort((logical, owner)))

    def all_nodes(self) -> tuple[Rows, Int64s]:
        """(owner row, block) of every tree block."""
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        owner, block = zip(none, *self.nodes, strict=True)
        return np.concatenate(owner), np.concatenate(block)


@dataclass(frozen=True, slots=True)
class _Nodes(Table):
    """Nodes of one level.

    Attributes:
        owner: row of the inode.
        block: block number of the node; -1 for the root in the inode.
        low, high: file blocks that the index entry above covers, `high` excluded.
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
        scene: receives the findings.
        table: the inodes.
        found: receives runs and nodes.
    """

    def __init__(self, scene: VerifyContext, table: InodeTable, found: Found) -> None:
        self._scene = scene
        self._table = table
        self._found = found
        self._blocks_count = scene.superblock.blocks_count

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
        self._report("extent-header", nodes, np.flatnonzero(~sound), "invalid header")
        self._leaves(nodes, rows, np.where(sound & (depth == 0), entries, 0))
        return self._children(nodes, rows, np.where(sound & (depth > 0), entries, 0), depth)

    def _report(
        self, code: str, nodes: _Nodes, rows: Rows, read: str | list[str], spoils: bool = True
    ) -> None:
        """Record a finding for each of some nodes."""
        if spoils:
            self._found.bad[nodes.owner[rows]] = True
        findings = self._scene.findings
        shown = rows[: findings.room(code)]
        for place, row in enumerate(shown.tolist()):
            number, block = int(self._table.number[nodes.owner[row]]), int(nodes.block[row])
            words = read if isinstance(read, str) else read[place]
            if block < 0:
                where = self._scene.inode_place(number)
                self._scene.add(code, "extent tree root", **where, read=words)
            else:
                self._scene.add(code, "extent block", inode=number, block=block, read=words)
        findings.count(code, len(rows) - len(shown))

    def _leaves(self, nodes: _Nodes, rows: Bytes2D, entries: Int64s) -> None:
        row, slot = expand(entries)
        if not len(row):
            return
        logical, length, physical, unwritten = extents.parse_extents(rows, row, slot)
        words = _Words("extent {}: file blocks {}+{} at block {}", slot, logical, length, physical)
        empty = length == 0
        self._tell_entries("extent-length", nodes, row, empty, words)
        first = self._scene.superblock.first_data_block
        outside = (physical < max(first, 1)) | (physical + length > self._blocks_count)
        self._tell_entries("extent-range", nodes, row, outside & ~empty, words)
        end = logical + length
        wrong = end > END
        same = row[1:] == row[:-1]
        wrong[1:] |= same & (logical[1:] < end[:-1])
        wrong |= end > nodes.high[row]
        wrong |= logical < nodes.low[row]
        self._tell_entries("extent-order", nodes, row, wrong, words)
        started = (slot == 0) & (nodes.block[row] >= 0) & (logical > nodes.low[row])
        self._tell_entries("extent-index", nodes, row, started, words, spoils=False)
        fine = ~empty & ~outside
        columns = (nodes.owner[row], logical, length, physical, unwritten)
        self._found.runs.append(tuple(column[fine] for column in columns))

    def _tell_entries(
        self, code: str, nodes: _Nodes, row: Rows, bad: Bools, words: _Words, spoils: bool = True
    ) -> None:
        entries = np.flatnonzero(bad)
        if len(entries):
            shown = words.of(entries[: self._scene.findings.room(code)])
            self._report(code, nodes, row[entries], shown, spoils)

    def _children(
        self, nodes: _Nodes, rows: Bytes2D, entries: Int64s, depth: Int64s
    ) -> tuple[_Nodes, Bytes2D]:
        row, slot = expand(entries)
        low, child = extents.parse_children(rows, row, slot)
        words = _Words("index {}: file block {} at block {}", slot, low, child)
        first = max(self._scene.superblock.first_data_block, 1)
        outside = (child < first) | (child >= self._blocks_count)
        self._tell_entries("extent-range", nodes, row, outside, words)
        same = row[1:] == row[:-1]
        wrong = (low < nodes.low[row]) | (low >= nodes.high[row])
        wrong[1:] |= same & (low[1:] <= low[:-1])
        self._tell_entries("extent-order", nodes, row, wrong, words)
        late = (slot == 0) & (nodes.block[row] >= 0) & (low > nodes.low[row])
        self._tell_entries("extent-index", nodes, row, late, words, spoils=False)
        high = nodes.high[row].copy()
        high[:-1][same] = low[1:][same]
        below = _Nodes(nodes.owner[row], child, low, high, depth[row] - 1)
        return self._read(below.take(~outside))

    def _read(self, nodes: _Nodes) -> tuple[_Nodes, Bytes2D]:
        """The readable nodes that were not read before, and their bytes."""
        self._found.nodes.append((nodes.owner, nodes.block))
        fresh = self._scene.nodes.visit(nodes.block)
        self._report("extent-loop", nodes, np.flatnonzero(~fresh), "a block that was read before")
        nodes = nodes.take(fresh)
        rows, readable = self._scene.fs.fetch(nodes.block)
        lost = np.flatnonzero(~readable)
        self._report("metadata-unreadable", nodes, lost, self._scene.fs.unreadable)
        nodes, rows = nodes.take(readable), rows[readable]
        self._check_sums(nodes, rows)
        return nodes, rows

    def _check_sums(self, nodes: _Nodes, rows: Bytes2D) -> None:
        """Check the checksum in each node's tail, which follows `eh_max` entries."""
        if not self._scene.superblock.has_metadata_checksums or not len(rows):
            return
        _, _, most, _ = extents.parse_headers(rows)
        end = extents.HEADER.size + most * extents.EXTENT.size
        table = self._table
        seeds = inode_seeds(
            self._scene.superblock, table.number[nodes.owner], table.generation[nodes.owner]
        ).astype(np.int64)
        fine = np.zeros(len(rows), bool)
        for length in sorted(set(end.tolist())):
            if length + extents.TAIL.size > rows.shape[1]:
                continue
            some = np.flatnonzero(end == length)
            stored = rows[some, length : length + 4].copy().view("<u4")[:, 0]
            body = (rows[place, :length] for place in some.tolist())
            fine[some] = crc32c_each(seeds[some], body) == stored
        self._report("extent-checksum", nodes, np.flatnonzero(~fine), "", spoils=False)


class _Words:
    """Texts for some of many entries, computed only for the rows that need them."""

    def __init__(self, template: str, *columns: Int64s) -> None:
        self._template, self._columns = template, columns

    def of(self, rows: Rows) -> list[str]:
        """The texts of these rows."""
        lists = (column[rows].tolist() for column in self._columns)
        return [self._template.format(*values) for values in zip(*lists, strict=True)]
