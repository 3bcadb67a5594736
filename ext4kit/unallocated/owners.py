"""Owners of blocks, found by looking up the seeds of their checksums among all known inodes.

The seed of an inode is computed from its number and generation. The known inodes are those on disk
(live and deleted), those in the journal, and those in inode table blocks found elsewhere. A
directory block with `.` states the inode number of its owner; the generation follows from this
number and the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.lookup import is_member
from ext4kit.arrays.types import NO_ROW, Bytes2D, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.history import History
from ext4kit.parsers.checksums import crc32c_rows, crc32c_words
from ext4kit.parsers.inode import inode_seeds, parse_inodes
from ext4kit.parsers.superblock import Superblock
from ext4kit.unallocated.metadata import INODES, NO_SEED, MetadataBlocks, read_metadata_blocks
from ext4kit.unallocated.space import UnallocatedSpace

_PIECES_AT_ONCE = 2048


class SeedIndex:
    """Inodes by the seeds of their checksums.

    Args:
        superblock: superblock of the file system.
        number: int64 (n,), inode numbers; a pair of number and generation may occur several times.
        generation: int64 (n,).
        others: superblocks with former checksum seeds of the file system.

    Attributes:
        superblock: superblock of the file system.
        number, generation: the known pairs, sorted by seed.
    """

    def __init__(
        self,
        superblock: Superblock,
        number: Int64s,
        generation: Int64s,
        others: tuple[Superblock, ...] = (),
    ) -> None:
        self.superblock = superblock
        pairs = np.sort(number << 32 | generation)
        pairs = pairs[starts_group(pairs)]
        number, generation = pairs >> 32, pairs & 0xFFFFFFFF
        each = [inode_seeds(then, number, generation) for then in (superblock, *others)]
        seeds = np.concatenate(each).astype(np.int64)
        number, generation = np.tile(number, len(each)), np.tile(generation, len(each))
        keys = np.sort(seeds << 31 | np.arange(len(seeds)))  # faster than an indirect sort
        order = keys & 0x7FFFFFFF
        self.number, self.generation = number[order], generation[order]
        self._seeds = keys >> 31

    def rows_of(self, seeds: Int64s) -> Rows:
        """Per seed: row of the only pair with that seed, NO_ROW if none or several have it."""
        low = np.searchsorted(self._seeds, seeds)
        high = np.searchsorted(self._seeds, seeds, side="right")
        return np.where((high - low == 1) & (seeds != NO_SEED), low, NO_ROW)

    def inodes_of(self, seeds: Int64s) -> tuple[Int64s, Int64s]:
        """(inode number, generation) of the owner of each seed; number 0 if unknown."""
        row = self.rows_of(seeds)
        known = row != NO_ROW
        number, generation = np.zeros((2, len(row)), np.int64)
        number[known], generation[known] = self.number[row[known]], self.generation[row[known]]
        return number, generation


def index_known_inodes(
    history: History, space: UnallocatedSpace, structures: MetadataBlocks
) -> SeedIndex:
    """Index the inodes that may own a structure: of all whose number and generation are known.

    Inodes with the seed of no structure are left out, because a disk has millions of them.

    Args:
        history: the states in the journal and on disk.
        space: the space in which the structures were found.
        structures: the metadata blocks found there.
    """
    superblock = history.fs.superblock
    logged = history.states.table
    with_number = structures.take((structures.stated_number > 0) & (structures.seed != NO_SEED))
    # the generations that follow from these numbers and seeds
    raw = np.ascontiguousarray(with_number.stated_number.astype("<u4")).view(np.uint8)
    starts = crc32c_rows(superblock.seed, raw.reshape(-1, 4)).astype(np.int64)
    known = chain(
        [(logged.number, logged.generation)],
        _disk_inodes(history.fs),
        _found_inodes(space, structures),
        [(with_number.stated_number, crc32c_words(starts, with_number.seed))],
    )
    superblocks = history.epochs.superblocks
    seeds = np.unique(structures.seed)
    owners = [_with_seeds(superblocks, seeds, *pairs) for pairs in known]
    number, generation = (np.concatenate(part) for part in zip(*owners, strict=True))
    return SeedIndex(superblock, number, generation, superblocks[1:])


def _with_seeds(
    superblocks: tuple[Superblock, ...], seeds: Int64s, number: Int64s, generation: Int64s
) -> tuple[Int64s, Int64s]:
    """The pairs of number and generation that have one of the ascending seeds."""
    kept = np.zeros(len(number), bool)
    for then in superblocks:
        kept |= is_member(inode_seeds(then, number, generation).astype(np.int64), seeds)
    return number[kept], generation[kept]


def _disk_inodes(fs: FileSystem) -> Iterator[tuple[Int64s, Int64s]]:
    for table in fs.inode_batches():
        used = (table.mode != 0) | (table.generation != 0)
        yield table.number[used], table.generation[used]


def _found_inodes(
    space: UnallocatedSpace, structures: MetadataBlocks
) -> Iterator[tuple[Int64s, Int64s]]:
    pieces = structures.of_kind(INODES)
    pieces = pieces.take(pieces.stated_number > 0)
    for at in range(0, len(pieces), _PIECES_AT_ONCE):
        batch = pieces.take(slice(at, at + _PIECES_AT_ONCE))
        number, rows = inode_slots(space.fs.superblock, batch, read_metadata_blocks(space, batch))
        table = parse_inodes(rows, number, space.fs.superblock)
        used = table.mode != 0
        yield table.number[used], table.generation[used]


def number_inode_blocks(
    fs: FileSystem, space: UnallocatedSpace, structures: MetadataBlocks
) -> MetadataBlocks:
    """The structures, with numbers for inode table blocks that have none from checksums.

    The generations in a block are compared with those of the inodes on disk. If the inodes that are
    unchanged on disk agree, they give the number of the block. A block without a number is left
    out, because it may not be an inode table block at all.
    """
    unnumbered = np.flatnonzero((structures.kind == INODES) & (structures.stated_number == 0))
    if not len(unnumbered):
        return structures
    no_inode = np.zeros(1, np.int64), np.full(1, -1)  # a generation that no inode has
    known = [no_inode, *_disk_inodes(fs)]
    numbers, generations = (np.concatenate(part) for part in zip(*known, strict=True))
    order = np.argsort(generations, kind="stable")
    numbers, generations = numbers[order], generations[order]
    single = starts_group(generations) & ends_group(generations)
    numbers, generations = numbers[single], generations[single]
    found = structures.stated_number.copy()
    for at in range(0, len(unnumbered), _PIECES_AT_ONCE):
        rows = unnumbered[at : at + _PIECES_AT_ONCE]
        data = read_metadata_blocks(space, structures.take(rows))
        size = fs.superblock.inode_size
        per_block = fs.superblock.block_size // size
        slots = data[:, : per_block * size].reshape(-1, size)
        table = parse_inodes(slots, np.zeros(len(slots), np.int64), fs.superblock)
        place = np.minimum(np.searchsorted(generations, table.generation), len(generations) - 1)
        slot = np.arange(len(slots)) % per_block
        first = numbers[place] - slot
        same = (table.mode != 0) & (generations[place] == table.generation)
        same &= (first - 1) % fs.superblock.inodes_per_group % per_block == 0
        same = same.reshape(-1, per_block)
        first = np.where(same, first.reshape(-1, per_block), 0)
        low = np.where(same, first, np.iinfo(np.int64).max).min(axis=1)
        high = first.max(axis=1)
        found[rows] = np.where(low == high, high, 0)  # 0: the inodes disagree or none is known
    numbered = replace(structures, stated_number=found)
    return numbered.take((numbered.kind != INODES) | (found > 0))


def inode_slots(
    superblock: Superblock, pieces: MetadataBlocks, data: Bytes2D
) -> tuple[Int64s, Bytes2D]:
    """(inode number, uint8 rows) of all slots in blocks of inode tables."""
    size = superblock.inode_size
    per_block = superblock.block_size // size
    number = pieces.stated_number[:, None] + np.arange(per_block)
    rows = data[:, : per_block * size].reshape(-1, size)
    return number.reshape(-1), rows
