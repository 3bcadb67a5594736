"""Rebuilt maps for deleted inodes without a content state, and for files without an inode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Strings
from ext4kit.carving.indirect_bodies import DIRECT_BLOCKS, HeadlessBodies
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history import History
from ext4kit.reasons import Reason
from ext4kit.recovery.found_entries import instance_rows_of
from ext4kit.recovery.maps.ends import sizes_to_last_nonzero
from ext4kit.recovery.maps.extent_leaves import ExtentMaps
from ext4kit.recovery.maps.freed_blocks import find_freed_runs, runs_of_sole_freed_inode
from ext4kit.recovery.maps.indirect_maps import IndirectMaps, blocks_of_files
from ext4kit.recovery.maps.stale_entries import order_by_extent_starts, stale_extent_starts
from ext4kit.unallocated.space import UnallocatedSpace

EXTENT_LEAVES, BITMAP_DIFFERENCES = "extent leaves", "bitmap differences"
INDIRECT_BLOCKS = "indirect blocks"


@dataclass(frozen=True, slots=True)
class RebuiltMaps:
    """The rebuilt maps, one row per file.

    Attributes:
        instance: the instance that had the map, -1 if unknown.
        source: provenance of the map: EXTENT_LEAVES, BITMAP_DIFFERENCES or INDIRECT_BLOCKS.
        runs: blocks of the files; `owner` is the row in this table.
        tree_blocks: (row, block) of tree blocks.
        size: bytes up to the last nonzero one.
        reasons: (bool by row, reason against the map) pairs.
    """

    instance: Int64s
    source: Strings
    runs: Runs
    tree_blocks: tuple[Int64s, Int64s]
    size: Int64s
    reasons: list[tuple[Bools, Reason]]

    def __len__(self) -> int:
        return len(self.instance)

    @classmethod
    def empty(cls) -> RebuiltMaps:
        """No rows."""
        none = np.zeros(0, np.int64)
        return cls(none, none.astype("U18"), Runs.empty(), (none, none), none, [])

    @classmethod
    def concat(cls, parts: list[RebuiltMaps]) -> RebuiltMaps:
        """One table from several."""
        starts = np.cumsum([0, *(len(part) for part in parts)])
        pairs = list(zip(parts, starts.tolist(), strict=False))
        checks = []
        for part, at in pairs:
            for applies, reason in part.reasons:
                every = np.zeros(int(starts[-1]), bool)
                every[at : at + len(part)] = applies
                checks.append((every, reason))
        return cls(
            np.concatenate([part.instance for part in parts]),
            np.concatenate([part.source for part in parts]),
            Runs.stacked([(part.runs, len(part)) for part in parts]),
            (
                np.concatenate([part.tree_blocks[0] + at for part, at in pairs]),
                np.concatenate([part.tree_blocks[1] for part in parts]),
            ),
            np.concatenate([part.size for part in parts]),
            checks,
        )

    def take(self, kept: Bools) -> RebuiltMaps:
        """The rows selected by a bool array."""
        return RebuiltMaps(
            self.instance[kept],
            self.source[kept],
            *blocks_of_files(self.runs, self.tree_blocks, kept),
            self.size[kept],
            [(applies[kept], reason) for applies, reason in self.reasons],
        )


def from_extent_maps(history: History, found: ExtentMaps) -> RebuiltMaps:
    """Maps from extent leaves, for unknown owners and deleted instances without a content state.

    Maps of allocated instances and of instances with a content state are left out.
    """
    known = found.inode > 0
    generation = np.where(known, found.generation, 0)
    instance = np.where(known, instance_rows_of(history, found.inode, generation), NO_ROW)
    described = np.append((history.last_content_row >= 0) | history.is_allocated, False)[instance]
    checks = [
        (found.damaged, reasons.REBUILT_MAP_INCOMPLETE),
        (found.earlier, reasons.REBUILT_MAP_OLDER),
        (found.logged, reasons.REBUILT_MAP_UNTAGGED),
    ]
    source = np.full(len(found), EXTENT_LEAVES)
    maps = RebuiltMaps(instance, source, found.runs, found.tree_blocks, found.size, checks)
    return maps.take(~found.is_linked & ~described & (found.size > 0))


def from_freed_blocks(history: History, space: UnallocatedSpace, metadata: Int64s) -> RebuiltMaps:
    """Maps from block bitmaps in the journal, for files without a content state.

    The order of several runs is unknown, so these are used only if the root of the freed inode
    shows their order.

    Args:
        history: the instances.
        space: unallocated space, from which blocks are read.
        metadata: int64, unallocated blocks that hold metadata and not content.
    """
    instance, runs = runs_of_sole_freed_inode(history, find_freed_runs(history), metadata)
    none = np.zeros(0, np.int64)
    rows = np.searchsorted(history.states.instance, instance, side="right") - 1
    table = history.states.table.take(rows)
    starts, count = stale_extent_starts(table)
    several, fits, alike = order_by_extent_starts(runs, starts, count)
    single = np.bincount(runs.owner, minlength=len(instance)) == 1
    runs = Runs.stacked([(runs.take(single[runs.owner]), 0), (several, len(instance))])
    runs = runs.take(np.argsort(runs.owner, kind="stable"))
    size = sizes_to_last_nonzero(space.fs, runs, len(instance))
    plain = table.is_regular
    checks = [(fits & alike | single & (count > 1), reasons.REBUILT_MAP_ORDER)]
    source = np.full(len(instance), BITMAP_DIFFERENCES)
    maps = RebuiltMaps(instance, source, runs, (none, none), size, checks)
    return maps.take(plain & (single | fits))


def from_indirect_maps(found: IndirectMaps) -> RebuiltMaps:
    """Maps from freed indirect blocks, for files whose start is known."""
    instance, source = np.full(len(found), NO_ROW), np.full(len(found), INDIRECT_BLOCKS)
    maps = RebuiltMaps(instance, source, found.runs, found.nodes, found.size, [])
    return maps.take(~found.is_incomplete & (found.size > 0))


def headless_bodies(found: IndirectMaps) -> HeadlessBodies:
    """Bodies from freed indirect blocks, for files whose start is unknown.

    Only disjoint trees without holes are used.
    """
    files, runs = len(found), found.runs
    first, end = np.full(files, np.iinfo(np.int64).max), np.zeros(files, np.int64)
    np.minimum.at(first, runs.owner, runs.logical)
    np.maximum.at(end, runs.owner, runs.logical + runs.length)
    dense = np.bincount(runs.owner, runs.length, files) == end - first
    kept = found.headless & ~found.reused & dense & owners_without_overlap(runs, files)
    left = found.take(kept)
    return HeadlessBodies(left.runs, left.nodes, first[kept] == DIRECT_BLOCKS)


def owners_without_overlap(runs: Runs, files: int) -> Bools:
    """Per file (bool): True if none of its blocks is in the runs of another file."""
    order = np.argsort(runs.physical, kind="stable")
    start, end = runs.physical[order], (runs.physical + runs.length)[order]
    apart = np.ones(files, bool)
    if len(order) > 1:
        reach = np.maximum.accumulate(end)
        apart[runs.owner[order[1:][start[1:] < reach[:-1]]]] = False
        apart[runs.owner[order[:-1][end[:-1] > start[1:]]]] = False
    return apart
