"""Superblocks as columns: which of many sectors can begin one, and where it says that it stands.

A superblock has a magic of two bytes only, so the rest has to fit: sizes that the format knows,
and a count of inodes that is that of a group times the groups, as the kernel asks of it at mount
(fs/ext4/super.c, `ext4_check_geometry`). Random bytes do so once in 2**100 sectors or less often:
magic 2**-16, block size 2**-29, revision and first block 2**-31 each, inodes 2**-32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.parsers.checksums import ONES, crc32c_each
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET
from ext4kit.units import join, widen

SECTOR = 512
_MAGIC_WORD = SUPERBLOCK.offset_of("s_magic") // 2
_LARGEST_LOG = 6  # blocks of 64 KiB
_LARGEST = 1 << 62  # bytes of a file system; keeps all sums within int64


@dataclass(frozen=True, slots=True)
class SuperblockCopies(Table):
    """Superblock copies as columns, in the order of the disk.

    Attributes:
        place: byte of the copy, int64.
        start: byte where its file system begins by what it says, int64; may be negative.
        group: the group that it says it stands in, int64.
        identity: uint8 (n, 28): UUID, block size and group size; of one file system alike.
        written: seconds since 1970 of the last write, int64.
        is_sound: its checksum is right, or it has none.
        is_old: of revision 0, where tools do not say the group.
    """

    place: Int64s
    start: Int64s
    group: Int64s
    identity: Bytes2D
    written: Int64s
    is_sound: Bools
    is_old: Bools


def superblocks_in(data: Any, place: int, length: int) -> SuperblockCopies:
    """The superblock copies that begin at sectors of a stretch of bytes.

    Args:
        data: uint8 (n,) of the bytes from `place` on: the stretch, and if the source has them 512
            bytes behind it.
        place: byte of the first of them in the source, a multiple of 512.
        length: bytes of the stretch.
    """
    count = min(-(-length // SECTOR), (len(data) - SUPERBLOCK.size) // SECTOR + 1)
    words = data[: max(count, 0) * SECTOR].view("<u2").reshape(-1, SECTOR // 2)
    sector = np.flatnonzero(words[:, _MAGIC_WORD] == MAGIC)
    rows = data[sector[:, None] * SECTOR + np.arange(SUPERBLOCK.size)]
    raw = SUPERBLOCK.columns(rows)
    found = np.flatnonzero(_plausible(raw))
    return _copies(sector[found] * SECTOR + place, raw[found], rows[found])


def _plausible(raw: Any) -> Any:
    """Per row (bool): its fields fit each other, as `judge` wants it of one superblock."""
    old = raw["s_rev_level"] == 0
    size, ratio = _block_size(raw), _cluster_ratio(raw)
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


def _block_size(raw: Any) -> Any:
    return 1024 << np.minimum(widen(raw["s_log_block_size"]), _LARGEST_LOG)


def _cluster_ratio(raw: Any) -> Any:
    by_clusters = widen(raw["s_feature_ro_compat"]) & int(RoCompat.BIGALLOC) != 0
    more = widen(raw["s_log_cluster_size"]) - widen(raw["s_log_block_size"])
    return 1 << np.where(by_clusters, np.clip(more, 0, 22), 0)


def _blocks_count(raw: Any) -> Any:
    """Blocks; the largest number there is where 63 bits do not hold it."""
    wide = widen(raw["s_feature_incompat"]) & int(Incompat.BIT64) != 0
    upper = widen(raw["s_blocks_count_hi"]) * wide
    count = join(np.minimum(upper, (1 << 31) - 1), raw["s_blocks_count_lo"], 32)
    return np.where(upper < 1 << 31, count, (1 << 63) - 1)


def _copies(place: Any, raw: Any, rows: Any) -> SuperblockCopies:
    group, old = widen(raw["s_block_group_nr"]), raw["s_rev_level"] == 0
    first = widen(raw["s_first_data_block"]) + group * widen(raw["s_blocks_per_group"])
    before = np.where(group == 0, SUPERBLOCK_OFFSET, first * _block_size(raw))
    parts = [rows[:, at : at + length] for at, length in _IDENTITY]
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


_IDENTITY = tuple(
    (SUPERBLOCK.offset_of(name), length)
    for name, length in (
        ("s_uuid", 16),
        ("s_first_data_block", 4),
        ("s_log_block_size", 4),
        ("s_blocks_per_group", 4),
    )
)
