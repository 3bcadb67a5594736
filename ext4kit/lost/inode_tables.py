"""Location of the inode tables of a lost file system, block by block.

With metadata_csum, the checksum of an inode gives its number, and thus the index of its table
block. Without metadata_csum, and for inodes of 128 bytes (whose checksums are too short), the index
is counted from the nearest directory whose number is known from its `.` entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import group_sizes, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.evidence.source import Source
from ext4kit.lost.artifacts import FsArtifacts
from ext4kit.lost.identify import FsIdentity, read_records
from ext4kit.parsers.inode import GOOD_OLD_SIZE, INODE, inode_checksums_ok, parse_inodes
from ext4kit.parsers.traces import inode_marks, plausible_inodes
from ext4kit.units import widen

BLOCKS_AT_ONCE = 1024
FIRM = 2  # minimum inodes of a block, or blocks in a row, that agree


@dataclass(frozen=True, slots=True)
class TableClaims(Table):
    """Blocks, and the index in the inode tables that their inodes indicate, int64 columns (n,).

    Attributes:
        place: byte offset of the block.
        index: table block, counted over all groups: (number - 1) // inodes per block.
        inodes: number of inodes of the block that agree on the index.
        changed: the latest ctime of these inodes, in seconds.
    """

    place: Int64s
    index: Int64s
    inodes: Int64s
    changed: Int64s


@dataclass(frozen=True, slots=True)
class InodeTableMap:
    """Location of the inode table blocks, one row per block, counted over all groups.

    Attributes:
        byte: byte offset of the block in the volume, -1 if not found.
        from_journal: bool, True where only a journal copy was found and the block itself is lost.
    """

    byte: Int64s
    from_journal: Bools


def locate_inode_tables(source: Source, traces: FsArtifacts, origin: FsIdentity) -> InodeTableMap:
    """Locate the inode tables of a file system.

    Of several blocks with the same index, the one that agrees with most other blocks on the start
    of the tables is chosen; if there are only journal copies, the newest copy.
    """
    superblock = origin.superblock
    size = superblock.block_size
    by_marks = origin.seed is not None and superblock.inode_size > GOOD_OLD_SIZE
    places = np.unique(traces.inode_units // size * size)
    places = places[places + size <= source.size]
    parts = []
    for at in range(0, len(places), BLOCKS_AT_ONCE):
        some = places[at : at + BLOCKS_AT_ONCE]
        read = _claims_by_checksum if by_marks else _claims_by_neighbours
        parts.append(read(source, origin, some))
    claims = TableClaims.concat(parts)
    size = origin.superblock.block_size
    start = claims.place - claims.index * size
    _, group, count = np.unique(start, return_inverse=True, return_counts=True)
    per_block = size // origin.superblock.inode_size
    known = origin.pairs.place - (origin.pairs.number - 1) * origin.superblock.inode_size
    firm = (claims.inodes >= FIRM) | (count[group] >= FIRM) | np.isin(start, known)
    in_log = traces.in_journals(claims.place)
    rank = np.lexsort((claims.inodes, claims.changed, count[group] * ~in_log, ~in_log))
    rank = rank[firm[rank]]  # the best claim is last and therefore overwrites the others
    last = int(max(claims.index.max(initial=0), (origin.pairs.number.max() - 1) // per_block))
    found = np.full(last + 1, -1)
    copied = np.zeros(last + 1, bool)
    found[claims.index[rank]] = claims.place[rank]
    copied[claims.index[rank]] = in_log[rank]
    return InodeTableMap(found, copied)


def _inode_slots(
    source: Source, origin: FsIdentity, places: Int64s
) -> tuple[Bytes2D, Int64s, Int64s, Int64s]:
    """(bytes, row of the block, slot, place of the block) of plausible inodes in the blocks."""
    superblock = origin.superblock
    per_block = superblock.block_size // superblock.inode_size
    rows = read_records(source, places, superblock.block_size).reshape(-1, superblock.inode_size)
    found = plausible_inodes(rows)
    return rows[found], found // per_block, found % per_block, places[found // per_block]


def _claims_by_checksum(source: Source, origin: FsIdentity, places: Int64s) -> TableClaims:
    superblock = origin.superblock
    rows, block, slot, place = _inode_slots(source, origin, places)
    residues, whole = inode_marks(rows)
    number = residues ^ superblock.seed
    per_block = superblock.block_size // superblock.inode_size
    fits = whole & (number > 0) & (number <= source.size // superblock.inode_size)
    fits &= (number - 1) % per_block == slot
    index = (number - 1) // per_block
    return _majority_claims(block[fits], place[fits], index[fits], _ctime(rows)[fits])


def _ctime(rows: Bytes2D) -> Int64s:
    seconds: Int64s = widen(INODE.columns(rows)["i_ctime"]) & 0xFFFFFFFF
    return seconds


def _majority_claims(block: Int64s, place: Int64s, index: Int64s, changed: Int64s) -> TableClaims:
    """One claim per block: the index that most of its inodes indicate."""
    order = np.lexsort((index, block))
    block, place, index, changed = (part[order] for part in (block, place, index, changed))
    new = starts_group(block, index)
    first, count = np.flatnonzero(new), group_sizes(new)
    changed = np.maximum.reduceat(changed, first) if len(first) else changed
    block, place, index = block[first], place[first], index[first]
    order = np.lexsort((-count, block))
    _, kept = np.unique(block[order], return_index=True)
    kept = order[kept]
    return TableClaims(place[kept], index[kept], count[kept], changed[kept])


def _claims_by_neighbours(source: Source, origin: FsIdentity, places: Int64s) -> TableClaims:
    """Claims from the nearest directories before and after each block."""
    superblock = origin.superblock
    size = superblock.block_size
    rows, block, slot, place = _inode_slots(source, origin, places)
    claims = []
    for start in _table_starts(origin, place):
        index = (place - start) // size
        number = index * (size // superblock.inode_size) + slot + 1
        fits = (place >= start) & ((place - start) % size == 0)
        fits &= number <= source.size // superblock.inode_size
        if origin.seed is not None:
            table = parse_inodes(rows, np.where(fits, number, 0), superblock)
            fits &= inode_checksums_ok(table, superblock)
        claims.append((block[fits], place[fits], index[fits], _ctime(rows)[fits]))
    return _majority_claims(*(np.concatenate(column) for column in zip(*claims, strict=True)))


def _table_starts(origin: FsIdentity, place: Int64s) -> Iterator[Int64s]:
    """Starts of contiguous inode tables according to the nearest directory pairs.

    Without checksums, there is one start for each place, from the nearer of the possible pairs.
    With checksums, the starts from the pairs on both sides are returned, and the caller tries both.
    """
    superblock, pairs = origin.superblock, origin.pairs
    order = np.argsort(pairs.place)
    at, number = pairs.place[order], pairs.number[order]
    start = at - (number - 1) * superblock.inode_size
    right = np.minimum(np.searchsorted(at, place), len(at) - 1)
    left = np.maximum(right - 1, 0)
    if origin.seed is not None:
        yield start[left]
        yield start[right]
        return
    per_block = superblock.block_size // superblock.inode_size
    before, after = (
        (place - start[side]) // superblock.block_size * per_block for side in (left, right)
    )
    by_left = (before < number[right]) | (number[right] < number[left])
    by_right = (after > number[left]) | (number[right] < number[left])
    nearer = place - at[left] <= at[right] - place
    yield np.where(by_left & (nearer | ~by_right), start[left], start[right])
