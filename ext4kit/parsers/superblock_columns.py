"""Superblocks as columns: the sectors that can begin one, and the location that each one states.

A superblock has a magic of only two bytes. Therefore other fields must be valid too: sizes that
the format allows, and an inode count that is the count per group times the number of groups. The
kernel requires that at mount (fs/ext4/super.c, `ext4_check_geometry`). Random bytes pass at most
once in 2**100 sectors: magic 2**-16, block size 2**-29, revision and first block 2**-31 each,
inodes 2**-32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, UInt8s
from ext4kit.parsers.checksums import ONES, crc32c_each
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.layout import Structures
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET
from ext4kit.units import SECTOR, join, widen

_MAGIC_WORD = SUPERBLOCK.offset_of("s_magic") // 2
_IDENTITY = [
    SUPERBLOCK.span(name)
    for name in ("s_uuid", "s_first_data_block", "s_log_block_size", "s_blocks_per_group")
]
_LARGEST_LOG = 6  # blocks of 64 KiB
_LARGEST = 1 << 62  # bytes of a file system; keeps all sums within int64


@dataclass(frozen=True, slots=True)
class SuperblockCopies(Table):
    """Superblock copies as columns, by offset.

    Attributes:
        place: int64, byte offset of the copy in the source.
        start: int64, byte offset of its file system according to the copy; may be negative.
        group: int64, group of the copy according to its field.
        identity: uint8 (n, 28): UUID, block size and group size; equal for one file system.
        written: int64, time of the last write, s since 1970.
        is_sound: bool, True where the checksum is right or there is none.
        is_old: bool, True for revision 0, where tools do not record the group.
    """

    place: Int64s
    start: Int64s
    group: Int64s
    identity: Bytes2D
    written: Int64s
    is_sound: Bools
    is_old: Bools


def superblocks_in(data: UInt8s, place: int, length: int) -> SuperblockCopies:
    """The superblock copies that begin at a sector of a byte range.

    Args:
        data: uint8 (n,), the bytes from `place` on: the range, and 512 bytes after it if the
            source has them.
        place: byte offset of the range in the source, a multiple of 512.
        length: bytes of the range.
    """
    count = min(-(-length // SECTOR), (len(data) - SUPERBLOCK.size) // SECTOR + 1)
    words = data[: max(count, 0) * SECTOR].view("<u2").reshape(-1, SECTOR // 2)
    sector = np.flatnonzero(words[:, _MAGIC_WORD] == MAGIC)
    rows = data[sector[:, None] * SECTOR + np.arange(SUPERBLOCK.size)]
    raw = SUPERBLOCK.columns(rows)
    found = np.flatnonzero(_plausible(raw))
    return _copies(sector[found] * SECTOR + place, raw[found], rows[found])


def _plausible(raw: Structures) -> Bools:
    """True where the fields are consistent, by the rules that `judge` applies to one superblock."""
    old = raw["s_rev_level"] == 0
    by_clusters = widen(raw["s_feature_ro_compat"]) & int(RoCompat.BIGALLOC) != 0
    more = widen(raw["s_log_cluster_size"]) - widen(raw["s_log_block_size"])
    size, ratio = _block_size(raw), 1 << np.where(by_clusters, np.clip(more, 0, 22), 0)
    blocks, per_group = _blocks_count(raw), widen(raw["s_blocks_per_group"])
    inodes, inodes_each = widen(raw["s_inodes_count"]), widen(raw["s_inodes_per_group"])
    inode_size = np.where(old, 128, widen(raw["s_inode_size"]))
    span = blocks - widen(raw["s_first_data_block"])
    groups = -(-span // np.maximum(per_group, 1))
    fits = (raw["s_log_block_size"] <= _LARGEST_LOG) & (raw["s_rev_level"] <= 1)
    fits &= (raw["s_first_data_block"] <= 1) & (span > 0) & (blocks < _LARGEST // size)
    fits &= (per_group > 0) & (per_group <= 8 * size * ratio)
    fits &= (inodes_each > 0) & (inodes_each <= 8 * size)
    fits &= (inodes % np.maximum(inodes_each, 1) == 0) & (inodes > 0)
    fits &= inodes // np.maximum(inodes_each, 1) == groups
    fits &= (inode_size >= 128) & (inode_size <= size) & (inode_size & (inode_size - 1) == 0)
    fits &= widen(raw["s_feature_incompat"]) & int(Incompat.JOURNAL_DEV) == 0
    return fits & (widen(raw["s_block_group_nr"]) < groups)


def _block_size(raw: Structures) -> Int64s:
    return 1024 << np.minimum(widen(raw["s_log_block_size"]), _LARGEST_LOG)


def _blocks_count(raw: Structures) -> Int64s:
    """Number of blocks, limited to the largest int64."""
    wide = widen(raw["s_feature_incompat"]) & int(Incompat.BIT64) != 0
    upper = widen(raw["s_blocks_count_hi"]) * wide
    count = join(np.minimum(upper, (1 << 31) - 1), raw["s_blocks_count_lo"], 32)
    return np.where(upper < 1 << 31, count, (1 << 63) - 1)


def _copies(place: Int64s, raw: Structures, rows: Bytes2D) -> SuperblockCopies:
    group, old = widen(raw["s_block_group_nr"]), raw["s_rev_level"] == 0
    first = widen(raw["s_first_data_block"]) + group * widen(raw["s_blocks_per_group"])
    before = np.where(group == 0, SUPERBLOCK_OFFSET, first * _block_size(raw))
    parts = [rows[:, span] for span in _IDENTITY]
    computed = crc32c_each(np.full(len(rows), ONES), rows[:, : SUPERBLOCK.size - 4].copy())
    plain = widen(raw["s_feature_ro_compat"]) & int(RoCompat.METADATA_CSUM) == 0
    return SuperblockCopies(
        place,
        place - before,
        group,
        np.concatenate(parts, axis=1),
        join(raw["s_wtime_hi"], raw["s_wtime"], 32),
        plain | (computed == widen(raw["s_checksum"])),
        old,
    )
