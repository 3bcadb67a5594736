"""The files of a lost file system as deleted files with path, content and grade.

`intact` requires an inode with a valid checksum, blocks that are all unallocated in the
overwriting file system, and no possible unrecorded write to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.block_maps import BlockMaps, Runs
from ext4kit.filesystem.inodes import INODES_AT_ONCE, ROOT
from ext4kit.lost.deleted import find_deleted_in_lost
from ext4kit.lost.file_system import LostFileSystem
from ext4kit.lost.overwriting import in_blocks
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import GOOD_OLD_SIZE, Inode, InodeFlags, InodeTable, inode_seeds
from ext4kit.parsers.traces import node_checksums_ok
from ext4kit.reasons import Reason
from ext4kit.recovery.content import open_content
from ext4kit.recovery.deleted_files import DeletedFiles
from ext4kit.recovery.grading.checks import on_unreadable_media
from ext4kit.recovery.grading.slack import may_hold_foreign_metadata
from ext4kit.recovery.intervals import subtract_parts
from ext4kit.recovery.model import (
    DeletedFile,
    DeletionGround,
    DeletionTime,
    Grade,
    ReusedRange,
    Sources,
)
from ext4kit.units import NANOSECONDS, SECTOR

LATER_FS = "the file system that was made later"
NODES_AT_ONCE = 2048


@dataclass(frozen=True, slots=True)
class _FileBatch:
    """A batch of files.

    Attributes:
        table: the inodes of the files.
        runs: the blocks of the files up to their sizes; `owner` is a row of `table`.
        kept_runs: the parts of `runs` that are not overwritten.
        overwritten: (row of `runs`, first block, count) of the parts that are overwritten.
        reasons: per file, the reasons why it is not intact.
    """

    table: InodeTable
    runs: Runs
    kept_runs: Runs
    overwritten: tuple[Rows, Int64s, Int64s]
    reasons: dict[int, list[Reason]]


def find_lost_files(fs: LostFileSystem) -> DeletedFiles:
    """All known files of the lost file system, with grades.

    These include files that were deleted before the loss and that its journal shows.
    """
    tree = fs.tree()
    known = fs.inodes_known(tree.inode)
    rows = np.flatnonzero(known & (tree.inode != ROOT))
    places: dict[int, list[bytes]] = {}
    for number, path in zip(tree.inode[rows].tolist(), tree.paths_of(rows), strict=True):
        if not fs.is_synthetic(number):
            places.setdefault(number, []).append(path)
    numbers = np.array(sorted(places), np.int64)
    pieces = range(0, len(numbers), INODES_AT_ONCE)
    batches = [_read_batch(fs, fs.inode_table(numbers[at : at + INODES_AT_ONCE])) for at in pieces]
    _mark_shared_blocks(batches)
    files = [file for batch in batches for file in _records(fs, batch, places)]
    files += find_deleted_in_lost(fs, files)
    files.sort(
        key=lambda one: (one.path is None, one.path or one.partial_path or b"", one.number or 0)
    )
    return DeletedFiles(fs, files)


# ------------------------------------------------------------------------------- many at once


def _read_batch(fs: LostFileSystem, table: InodeTable) -> _FileBatch:
    maps = _verified_maps(fs, table)
    size = fs.superblock.block_size
    length = np.clip(-(-table.size[maps.runs.owner] // size) - maps.runs.logical, 0, None)
    length = np.minimum(length, maps.runs.length)
    runs = replace(maps.runs, length=length).take(length > 0)
    # bytes of the file in the last block of each run
    used = table.size[runs.owner] - (runs.logical + runs.length - 1) * size
    fs.blocks.give_back((runs.physical + runs.length - 1)[used < size], used[used < size])
    taken = fs.blocks.overwritten_parts(runs.physical, runs.length)
    batch = _FileBatch(table, runs, subtract_parts(runs, *taken), taken, defaultdict(list))
    for doubtful, reason in _checks(fs, table, maps, runs):
        for row in np.flatnonzero(doubtful).tolist():
            batch.reasons[row].append(reason)
    return batch


def _verified_maps(fs: LostFileSystem, table: InodeTable) -> BlockMaps:
    """The block maps, read after tree blocks with a wrong checksum were excluded."""
    maps = fs.map_table_silently(table)
    owner, block = maps.tree_blocks
    proven = (table.flags[owner] & int(InodeFlags.EXTENTS)) != 0
    if fs.identity.seed is None or not proven.any():
        return maps
    owner, block = owner[proven], block[proven]
    seeds = inode_seeds(fs.superblock, table.number, table.generation).astype(np.int64)
    wrong = []
    for at in range(0, len(block), NODES_AT_ONCE):
        some = slice(at, at + NODES_AT_ONCE)
        rows, there = fs.fetch(block[some])
        wrong.append(block[some][there & ~node_checksums_ok(rows, seeds[owner[some]])])
    foreign = np.unique(np.concatenate(wrong))
    fs.blocks.exclude(foreign)
    return fs.map_table_silently(table) if len(foreign) else maps


def _checks(
    fs: LostFileSystem, table: InodeTable, maps: BlockMaps, runs: Runs
) -> Iterator[tuple[Bools, Reason]]:
    """(True for the files (bool) that are not intact, reason) for each check."""
    every = np.ones(len(table), bool)
    if fs.identity.seed is None:
        yield every, reasons.LOST_INODE_UNVERIFIED
    elif fs.superblock.inode_size <= GOOD_OLD_SIZE:
        yield every, reasons.LOST_INODE_WEAK_CHECKSUM
    yield fs.from_journal_copy(table.number), reasons.LOST_INODE_FROM_JOURNAL
    yield maps.damaged, reasons.MAP_UNREADABLE
    yield on_unreadable_media(fs.blocks, runs, len(table)), reasons.UNREADABLE_MEDIA
    yield _incomplete(fs, table, maps), reasons.MAP_INCOMPLETE
    kept = in_blocks(fs.overwriting.reserved_bytes, fs.superblock.block_size)
    mine, _ = overlap_pairs(runs.physical, runs.length, kept.start, kept.length)
    reserved = np.zeros(len(table), bool)
    reserved[runs.owner[mine]] = True
    yield reserved, reasons.LOST_BLOCKS_RESERVED
    yield from _overwrite_checks(fs, table, runs)


def _incomplete(fs: LostFileSystem, table: InodeTable, maps: BlockMaps) -> Bools:
    """Per file (bool): True where `i_blocks` exceeds the number of mapped blocks."""
    superblock = fs.superblock
    if superblock.cluster_ratio > 1 or Incompat.EA_INODE in superblock.features:
        return np.zeros(len(table), bool)
    owners = np.concatenate([maps.runs.owner, maps.tree_blocks[0]])
    lengths = np.concatenate([maps.runs.length, np.ones(len(maps.tree_blocks[0]), np.int64)])
    mapped = np.bincount(owners, lengths, len(table)) + (table.file_acl > 0)
    return table.blocks * SECTOR // superblock.block_size > mapped


def _overwrite_checks(
    fs: LostFileSystem, table: InodeTable, runs: Runs
) -> Iterator[tuple[Bools, Reason]]:
    """(files (bool), reason) where the blocks may have been written to without a record."""
    every = np.ones(len(table), bool)
    if fs.identity.was_unmounted is False:
        yield every, reasons.LOST_JOURNAL_NOT_REPLAYED
    if fs.overwriting.was_mounted:
        yield every, reasons.LOST_LATER_FS_USED
    if fs.identity.was_unmounted is None:
        suspect = may_hold_foreign_metadata(fs, table.size, runs)
        yield suspect, reasons.LOST_JOURNAL_MISSING


def _mark_shared_blocks(batches: list[_FileBatch]) -> None:
    """Mark files that share blocks with another inode."""
    sizes = [len(batch.runs) for batch in batches]
    if not sum(sizes):
        return
    start = np.concatenate([batch.runs.physical for batch in batches])
    end = start + np.concatenate([batch.runs.length for batch in batches])
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    later = np.flatnonzero(start[order][1:] < reach[:-1]) + 1
    shared = np.zeros(len(start), bool)
    shared[order[later]] = True
    begun = np.minimum.accumulate(start[order][::-1])[::-1]  # also runs that overlap a later run
    ahead = np.append(begun[1:], end.max())
    shared[order] |= end[order] > ahead
    for batch, rows in zip(batches, np.split(shared, np.cumsum(sizes)[:-1]), strict=True):
        for row in np.unique(batch.runs.owner[rows]).tolist():
            batch.reasons[row].append(reasons.SHARED_BLOCKS)


# ------------------------------------------------------------------------------ one at a time


def _records(
    fs: LostFileSystem, batch: _FileBatch, places: dict[int, list[bytes]]
) -> Iterator[DeletedFile]:
    count = len(batch.table)
    left = row_bounds(batch.kept_runs.owner, count).tolist()
    row, start, length = batch.overwritten
    order = np.lexsort((batch.runs.logical[row], batch.runs.owner[row]))
    row, start, length = row[order], start[order], length[order]
    logical = batch.runs.logical[row] + start - batch.runs.physical[row]
    lost = list(zip(logical.tolist(), length.tolist(), strict=True))
    ends = row_bounds(batch.runs.owner[row], count).tolist()
    blocks = np.bincount(batch.runs.owner, batch.runs.length, count).astype(np.int64).tolist()
    copied = fs.from_journal_copy(batch.table.number).tolist()
    size = fs.superblock.block_size
    bound = _overwritten_at(fs)
    for place, inode in enumerate(batch.table.each()):
        (path, *others), against = places[inode.number], batch.reasons.get(place, [])
        kept = batch.kept_runs.take(slice(left[place], left[place + 1]))
        taken = lost[ends[place] : ends[place + 1]]
        reused = sum(length for _, length in taken)
        grade = Grade.PARTIAL if against or reused else Grade.INTACT
        if blocks[place] and reused >= blocks[place]:
            grade = Grade.OVERWRITTEN
        unnamed = path[1:].split(b"/", 1)[0] in fs.unnamed
        where = "journal copy" if copied[place] else "inode table"
        sources: Sources = {"inode": f"{where} of the lost file system"}
        if path[1:] not in fs.unnamed:
            sources["name"] = "directory blocks of the lost file system"
        content = None
        if inode.kind == "file":
            content = open_content(fs, fs.blocks, inode, kept, (), inode.size)
        yield DeletedFile(
            path=None if unnamed else path,
            name=None if path[1:] in fs.unnamed else path.rsplit(b"/", 1)[1],
            inode=inode,
            size=inode.size,
            dtime=None,
            deleted_between=(None, None),
            deletion_bound=bound,
            grade=grade,
            blocks=blocks[place],
            blocks_reused=reused,
            lost=tuple(
                ReusedRange(at * size, min(length * size, inode.size - at * size), LATER_FS)
                for at, length in taken
            ),
            sources=sources,
            reasons=tuple(against),
            superseded=False,
            link_target=None if taken else _link_target(fs, inode, kept),
            partial_path=path[1:] if unnamed else None,
            other_paths=() if unnamed or inode.is_directory else _named(fs, others),
            _content=content,
        )


def _overwritten_at(fs: LostFileSystem) -> DeletionTime | None:
    """When the file system was overwritten: the creation time of the present file system."""
    present = fs.overwriting.present
    if present is None or not present.superblock.mkfs_time:
        return None
    return present.superblock.mkfs_time * NANOSECONDS, DeletionGround.OVERWRITTEN


def _named(fs: LostFileSystem, paths: list[bytes]) -> tuple[bytes, ...]:
    """The paths without an unnamed directory at their start."""
    return tuple(path for path in paths if path[1:].split(b"/", 1)[0] not in fs.unnamed)


def _link_target(fs: LostFileSystem, inode: Inode, left: Runs) -> bytes | None:
    if inode.kind != "symlink":
        return None
    try:
        return fs.link_target(inode, left)
    except (AccessError, CorruptError):
        return None
