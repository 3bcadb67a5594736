"""Group descriptors of 32 and 64 bytes, and the bitmap checksums in them.

Source: kernel Documentation/filesystems/ext4/group_descr.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bytes2D, Int64s, UInt8s
from ext4kit.parsers.checksums import crc16, crc32c, crc32c_rows
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.superblock import Superblock
from ext4kit.parsers.words import Int16ul, Int32ul, Struct
from ext4kit.units import join, widen

_LOW = (
    "bg_block_bitmap_lo" / Int32ul,
    "bg_inode_bitmap_lo" / Int32ul,
    "bg_inode_table_lo" / Int32ul,
    "bg_free_blocks_count_lo" / Int16ul,  # clusters, with bigalloc
    "bg_free_inodes_count_lo" / Int16ul,
    "bg_used_dirs_count_lo" / Int16ul,
    "bg_flags" / Int16ul,
    "bg_exclude_bitmap_lo" / Int32ul,
    "bg_block_bitmap_csum_lo" / Int16ul,
    "bg_inode_bitmap_csum_lo" / Int16ul,
    "bg_itable_unused_lo" / Int16ul,  # inodes at the table's end never used
    "bg_checksum" / Int16ul,
)
_HIGH = (
    "bg_block_bitmap_hi" / Int32ul,
    "bg_inode_bitmap_hi" / Int32ul,
    "bg_inode_table_hi" / Int32ul,
    "bg_free_blocks_count_hi" / Int16ul,
    "bg_free_inodes_count_hi" / Int16ul,
    "bg_used_dirs_count_hi" / Int16ul,
    "bg_itable_unused_hi" / Int16ul,
    "bg_exclude_bitmap_hi" / Int32ul,
    "bg_block_bitmap_csum_hi" / Int16ul,
    "bg_inode_bitmap_csum_hi" / Int16ul,
    "bg_reserved" / Int32ul,
)
DESCRIPTOR = Layout("group descriptor", Struct(*_LOW))
DESCRIPTOR_64 = Layout("group descriptor", Struct(*_LOW, *_HIGH))
_CHECKSUM = DESCRIPTOR.span("bg_checksum")


class GroupFlags(IntFlag):
    """Bits of `bg_flags`."""

    INODE_UNINIT = 0x1  # inode bitmap and table not initialised
    BLOCK_UNINIT = 0x2  # block bitmap not initialised
    INODE_ZEROED = 0x4  # inode table zeroed on disk


@dataclass(frozen=True, slots=True)
class GroupTable(Table):
    """All group descriptors as columns, one row per group."""

    block_bitmap: Int64s
    inode_bitmap: Int64s
    inode_table: Int64s
    free_blocks_count: Int64s
    free_inodes_count: Int64s
    used_dirs_count: Int64s
    flags: Int64s
    itable_unused: Int64s
    block_bitmap_checksum: Int64s
    inode_bitmap_checksum: Int64s
    checksum: Int64s
    computed_checksum: Int64s


_SPLIT = {  # columns that are stored in two halves
    "block_bitmap": "bg_block_bitmap",
    "inode_bitmap": "bg_inode_bitmap",
    "inode_table": "bg_inode_table",
    "free_blocks_count": "bg_free_blocks_count",
    "free_inodes_count": "bg_free_inodes_count",
    "used_dirs_count": "bg_used_dirs_count",
    "itable_unused": "bg_itable_unused",
    "block_bitmap_checksum": "bg_block_bitmap_csum",
    "inode_bitmap_checksum": "bg_inode_bitmap_csum",
}


def parse_groups(rows: Bytes2D, superblock: Superblock) -> GroupTable:
    """Group descriptors from a (groups, descriptor size) uint8 array."""
    wide = rows.shape[1] >= DESCRIPTOR_64.size
    raw = (DESCRIPTOR_64 if wide else DESCRIPTOR).columns(rows)
    columns = {}
    for name, field in _SPLIT.items():
        low = raw[f"{field}_lo"]
        columns[name] = join(raw[f"{field}_hi"], low, 8 * low.itemsize) if wide else widen(low)
    return GroupTable(
        **columns,
        flags=widen(raw["bg_flags"]),
        checksum=widen(raw["bg_checksum"]),
        computed_checksum=_descriptor_checksums(rows, superblock),
    )


def _descriptor_checksums(rows: Bytes2D, superblock: Superblock) -> Int64s:
    """`descriptor_checksum` of all groups."""
    if not superblock.has_metadata_checksums:
        return np.array(
            [descriptor_checksum(superblock, n, row) for n, row in enumerate(rows)], np.int64
        )
    numbers = np.arange(len(rows), dtype="<u4").view(np.uint8).reshape(-1, 4)
    body = rows.copy()
    body[:, _CHECKSUM] = 0
    return widen(crc32c_rows(crc32c_rows(superblock.seed, numbers), body)) & 0xFFFF


def descriptor_checksum(superblock: Superblock, number: int, row: UInt8s) -> int:
    """Computed checksum of one group's descriptor; -1 if the format has none."""
    body, at = row.tobytes(), number.to_bytes(4, "little")
    before, behind = body[: _CHECKSUM.start], body[_CHECKSUM.stop :]
    if superblock.has_metadata_checksums:
        return crc32c(crc32c(superblock.seed, at), before + bytes(2) + behind) & 0xFFFF
    if RoCompat.UNINIT_BG in superblock.features:
        return crc16(crc16(0xFFFF, superblock.uuid + at), before + behind)
    return -1


def bitmap_checksum(superblock: Superblock, bitmap: Buffer) -> int:
    """crc32c of the used bytes of a block or inode bitmap, in the width of the descriptor.

    Args:
        superblock: has the seed, and determines whether descriptors hold 16 or 32 bits.
        bitmap: clusters_per_group / 8 or inodes_per_group / 8 bytes.
    """
    checksum = crc32c(superblock.seed, bitmap)
    return checksum if superblock.descriptor_size >= DESCRIPTOR_64.size else checksum & 0xFFFF
