"""What blocks are now: from their location, and from the maps of all inodes in use.

The maps are read once, as a table of runs. Each question is then a join of sorted columns, so that
millions of blocks cost one pass and no walk over the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps
from ext4kit.filesystem.inodes import BAD_BLOCKS, RESIZE
from ext4kit.journal import Log, SharedLog
from ext4kit.journal.block_types import (
    BlockRole,
    by_place,
    classify_special_files,
    uses_of_inodes,
)
from ext4kit.parsers.inode import InodeTable


@dataclass(frozen=True, slots=True)
class PresentRuns(Table):
    """Runs of blocks of the inodes in use, as columns (n,), by start.

    Attributes:
        start, length: the blocks.
        inode: inode number of the owner.
        file_block: first file block of content; -1 of tree and attribute blocks.
        role: BlockRole.
        unwritten: True where the run is allocated and was never written.
        size: of the owner, bytes.
    """

    start: Int64s
    length: Int64s
    inode: Int64s
    file_block: Int64s
    role: Int64s
    unwritten: Bools
    size: Int64s


@dataclass(frozen=True, slots=True)
class PresentUses(Table):
    """What blocks are now, as columns (n,), by place; one or more rows for each block.

    Attributes:
        place: which of the given blocks.
        block: the block.
        role: BlockRole; UNKNOWN without an owner.
        inode: inode number of the owner, 0 for none.
        number: group of a bitmap, first inode of an inode table block, log block of the journal;
            -1 elsewhere.
        file_block: of content, in the file of the owner; -1 elsewhere.
        used: bytes from the start of the block that are content; the rest is slack. 0 where the
            block was never written for its owner. The block size where there is no slack.
    """

    place: Rows
    block: Int64s
    role: Int64s
    inode: Int64s
    number: Int64s
    file_block: Int64s
    used: Int64s


class BlockOwners:
    """Answers what blocks are now.

    Args:
        fs: the file system.
        log: its log; None if there is none.
        runs: of all inodes in use, by start.
    """

    def __init__(self, fs: FileSystem, log: Log | None, runs: PresentRuns) -> None:
        self.fs, self.log, self.runs = fs, log, runs

    @classmethod
    def read(cls, shared: SharedLog) -> Self:
        """Read the maps of all inodes in use; damaged ones are reported.

        Args:
            shared: the file system and its log.
        """
        fs = shared.fs
        parts = [_bad_blocks(fs)]
        for table in fs.inode_batches():
            used = table.take((table.links_count > 0) | np.isin(table.number, fs.orphans))
            parts.append(_owned_runs(fs, used, fs.map_table(used)))
        runs = PresentRuns.concat(parts)
        return cls(fs, shared.log, runs.take(np.argsort(runs.start, kind="stable")))

    def of(self, blocks: Int64s) -> PresentUses:
        """What blocks (int64 (n,), in any order) are now.

        A block has a row for what its location makes it, and one for each inode that maps it. The
        log and reserved group descriptors are told once, without the inodes that hold them.
        """
        role, number = by_place(self.fs, self.log, blocks)
        placed, owned = self._placed(blocks, role, number), self._owned(blocks, role)
        is_alone = np.ones(len(blocks), bool)
        is_alone[placed.place] = is_alone[owned.place] = False
        alone = np.flatnonzero(is_alone)
        none = np.zeros_like(alone)
        size = none + self.fs.superblock.block_size
        unowned = PresentUses(alone, blocks[alone], none, none, none + NO_ROW, none + NO_ROW, size)
        found = PresentUses.concat([placed, owned, unowned])
        return found.take(np.argsort(found.place, kind="stable"))

    def _placed(self, blocks: Int64s, role: Int64s, number: Int64s) -> PresentUses:
        """What their location makes blocks; `role` and `number` as `by_place` gives them."""
        superblock, fixed = self.fs.superblock, np.flatnonzero(role != BlockRole.UNKNOWN)
        log_block = self._log_blocks(blocks[fixed])
        return PresentUses(
            fixed,
            blocks[fixed],
            role[fixed],
            np.where(log_block >= 0, superblock.journal_inode, 0),
            np.where(log_block >= 0, log_block, number[fixed]),
            log_block,
            np.full(len(fixed), superblock.block_size),
        )

    def _owned(self, blocks: Int64s, role: Int64s) -> PresentUses:
        """What inodes use blocks for, but for what their location says already."""
        superblock = self.fs.superblock
        place, row = overlap_pairs(blocks, np.ones_like(blocks), self.runs.start, self.runs.length)
        mapped = self.runs.take(row)
        is_told = (mapped.inode == RESIZE) & (role[place] == BlockRole.DESCRIPTORS)
        journal = superblock.journal_inode if self.log is not None else 0
        is_told |= (mapped.inode == journal) & (role[place] == BlockRole.JOURNAL)
        place, mapped = place[~is_told], mapped.take(~is_told)
        inside = blocks[place] - mapped.start
        file_block = np.where(mapped.file_block >= 0, mapped.file_block + inside, NO_ROW)
        size = superblock.block_size
        content = np.clip(mapped.size - file_block * size, 0, size)
        is_content = (file_block >= 0) & (mapped.role == BlockRole.FILE_DATA)
        used = np.where(is_content, np.where(mapped.unwritten, 0, content), size)
        number = np.full(len(place), NO_ROW)
        return PresentUses(
            place, blocks[place], mapped.role, mapped.inode, number, file_block, used
        )

    def _log_blocks(self, blocks: Int64s) -> Int64s:
        """The log block that each block is, NO_ROW for none."""
        if self.log is None or self.log.home is not self.log.reader.blocks:
            return np.full(len(blocks), NO_ROW)
        by_block = np.argsort(self.log.reader.log_blocks, kind="stable")
        return values_at(by_block, SortedIndex(self.log.reader.log_blocks[by_block]).rows(blocks))


def _owned_runs(fs: FileSystem, table: InodeTable, maps: BlockMaps) -> PresentRuns:
    uses = uses_of_inodes(table, maps)
    inode = table.number[uses.owner]
    classify_special_files(fs, uses.role, inode)
    size = table.size[uses.owner]
    return PresentRuns(
        uses.start, uses.length, inode, uses.file_block, uses.role, uses.unwritten, size
    )


def _bad_blocks(fs: FileSystem) -> PresentRuns:
    """The blocks of the bad blocks inode, which has a map, but neither type nor links."""
    table = fs.inode_table(np.array([BAD_BLOCKS]))
    runs = fs.block_map_from(table.i_block[0].tobytes(), int(table.flags[0]), 1)
    count = len(runs)
    return PresentRuns(
        runs.physical, runs.length, np.full(count, BAD_BLOCKS), runs.logical,
        np.full(count, int(BlockRole.UNKNOWN)), runs.unwritten, np.zeros(count, np.int64),
    )  # fmt: skip
