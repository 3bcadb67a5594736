"""Files deleted while the lost file system was still in use, found in its old journal.

The journal shows earlier inodes and directories. The bitmaps are inferred: the blocks of the
remaining inodes and the blocks that the overwriting file system wrote are taken as allocated. The
old bitmaps would show more allocated blocks, so every file is partial at best.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import NO_ROW, Bools, Int64s
from ext4kit.filesystem.bitmaps import Bitmaps
from ext4kit.journal import BlockHistory, Log
from ext4kit.lost.file_system import LostFileSystem, synthetic_groups
from ext4kit.lost.inode_tables import InodeTableMap
from ext4kit.lost.overwriting import in_blocks
from ext4kit.parsers.group import GroupTable
from ext4kit.problems import Problems
from ext4kit.recovery.model import DeletedFile, Grade, Sources
from ext4kit.recovery.pipeline import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.unallocated.inode_tables import find_inode_table_blocks

_IN_LOG = "journal of the lost file system, "


def find_deleted_in_lost(fs: LostFileSystem, there: list[DeletedFile]) -> list[DeletedFile]:
    """Files in the old journal that were deleted before the loss.

    They are searched only with metadata_csum, because without checksums one journal block can be
    mistaken for another.

    Args:
        fs: the lost file system.
        there: the remaining files of the lost file system.
    """
    if fs.identity.seed is None:
        return []
    instances = {(file.number, file.generation) for file in there}
    living = {file.number for file in there if file.number is not None}
    quiet = copy(fs)
    quiet.problems = Problems()  # a missing log is not a problem here
    log = Log.open(quiet)
    if log is None or not len(log.tags):
        return []
    view = _one_group_per_block(quiet, _with_journal_tables(fs, log), living)
    return [
        _downgraded(file)
        for file in find_deleted(view, sources=JOURNAL_ONLY)
        if (file.number, file.generation) not in instances
    ]


def _downgraded(file: DeletedFile) -> DeletedFile:
    """The file with its provenance added, and with a grade of partial at best."""
    grade = Grade.PARTIAL if file.grade.is_whole else file.grade
    sources: Sources = {what: f"{_IN_LOG}{where}" for what, where in file.sources.items()}
    found = (reasons.LOST_DELETED_EARLIER, *file.reasons)
    return replace(file, grade=grade, sources=sources, reasons=found, _evidence=None)


def _with_journal_tables(fs: LostFileSystem, log: Log) -> InodeTableMap:
    """The inode table map, extended by blocks that are known only from journal copies."""
    size = fs.superblock.block_size
    per_block = size // fs.superblock.inode_size
    history = BlockHistory(log)
    known = np.flatnonzero((fs.inode_tables.byte >= 0) & ~fs.inode_tables.from_journal)
    indexes, homes = [known], [fs.inode_tables.byte[known]]
    for at in range(0, len(history.tag_rows), log.reader.chunk):
        some = slice(at, at + log.reader.chunk)
        copies = log.read_copies(history.tag_rows[some])
        row, first, _ = find_inode_table_blocks(fs.superblock, copies, copies.view("<u4"))
        indexes.append((first - 1) // per_block)
        homes.append(history.blocks[some][row] * size)
    index, place = np.unique(np.concatenate(indexes), return_index=True)
    found = np.full(int(index.max(initial=-1)) + 1, -1)
    found[index] = np.concatenate(homes)[place]
    return InodeTableMap(found, np.zeros(len(found), bool))


def _one_group_per_block(
    fs: LostFileSystem, tables: InodeTableMap, living: set[int]
) -> LostFileSystem:
    """The file system with a separate group for each known inode table block.

    Journal copies of inode tables are looked up by home block, and only some home blocks are known.
    """
    per_block = fs.superblock.block_size // fs.superblock.inode_size
    view = copy(fs)
    count = max(fs.superblock.inodes_count, len(tables.byte) * per_block)
    view.superblock = replace(fs.superblock, inodes_per_group=per_block, inodes_count=count)
    view.groups = synthetic_groups(view.superblock, tables)
    view.bitmaps = _InferredBitmaps(fs, view.groups, living)
    return view


class _InferredBitmaps(Bitmaps):
    """Bitmaps that are inferred from the remaining inodes and the overwriting file system."""

    def __init__(self, fs: LostFileSystem, groups: GroupTable, living: set[int]) -> None:
        super().__init__(fs.blocks, fs.superblock, groups, fs.problems)
        starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for table in fs.inode_batches():
            maps = fs.map_table_silently(table)
            starts += [maps.runs.physical, maps.tree_blocks[1]]
            lengths += [maps.runs.length, np.ones(len(maps.tree_blocks[1]), np.int64)]
        later = in_blocks(fs.overwriting.written_bytes, fs.superblock.block_size)
        self._used = Intervals.union(
            np.concatenate([*starts, later.start]), np.concatenate([*lengths, later.length])
        )
        self._living = np.array(sorted(living), np.int64)

    def blocks_in_use(self, blocks: Int64s) -> Bools:
        """Per block of an int64 array (bool): True where it is taken as allocated."""
        used: Bools = self._used.rows_at(blocks) != NO_ROW
        return used

    def inodes_in_use(self, numbers: Int64s) -> Bools:
        """Per inode number of an int64 array (bool): True where the inode remains."""
        return np.isin(numbers, self._living)
