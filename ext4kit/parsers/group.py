"""Group descriptors of 32 and 64 bytes, and the bitmap checksums in them.

Source: kernel Documentation/filesystems/ext4/group_descr.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np

from ext4kit.parsers.checksums import crc16, crc32c, crc32c_rows
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.layout import Layout
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


class GroupFlags(IntFlag):
    """Bits of `bg_flags`."""

    INODE_UNINIT = 0x1  # inode bitmap and table not initialised
    BLOCK_UNINIT = 0x2  # block bitmap not initialised
    INODE_ZEROED = 0x4  # inode table zeroed on disk


@dataclass(frozen=True, slots=True)
class GroupTable:
    """All group descriptors as int64 columns, one row per group."""

    block_bitmap: Any
    inode_bitmap: Any
    inode_table: Any
    free_blocks_count: Any
    free_inodes_count: Any
    used_dirs_count: Any
    flags: Any
    itable_unused: Any
    block_bitmap_checksum: Any
    inode_bitmap_checksum: Any
    checksum: Any
    computed_checksum: Any

    def __len__(self) -> int:
        return len(self.flags)


_JOINED = {
    "block_bitmap": ("bg_block_bitmap", 32),
    "inode_bitmap": ("bg_inode_bitmap", 32),
    "inode_table": ("bg_inode_table", 32),
    "free_blocks_count": ("bg_free_blocks_count", 16),
    "free_inodes_count": ("bg_free_inodes_count", 16),
    "used_dirs_count": ("bg_used_dirs_count", 16),
    "itable_unused": ("bg_itable_unused", 16),
    "block_bitmap_checksum": ("bg_block_bitmap_csum", 16),
    "inode_bitmap_checksum": ("bg_inode_bitmap_csum", 16),
}


def parse_groups(rows: Any, superblock: Superblock) -> GroupTable:
    """Group descriptors from a (groups, descriptor size) uint8 array."""
    wide = rows.shape[1] >= DESCRIPTOR_64.size
    raw = (DESCRIPTOR_64 if wide else DESCRIPTOR).columns(rows)
    columns = {
        name: join(raw[f"{field}_hi"], raw[f"{field}_lo"], bits)
        if wide
        else widen(raw[f"{field}_lo"])
        for name, (field, bits) in _JOINED.items()
    }
    return GroupTable(
        **columns,
        flags=widen(raw["bg_flags"]),
        checksum=widen(raw["bg_checksum"]),
        computed_checksum=_descriptor_checksums(rows, superblock),
    )


def _descriptor_checksums(rows: Any, superblock: Superblock) -> Any:
    """Computed checksum of each descriptor; -1 where the format has none."""
    features = superblock.features
    if superblock.has_metadata_checksums:
        return _crc32c_descriptors(superblock, rows)
    if RoCompat.UNINIT_BG in features:
        return np.array([_crc16_descriptor(superblock, n, row) for n, row in enumerate(rows)])
    return np.full(len(rows), -1)


def descriptor_checksum(superblock: Superblock, number: int, row: Any) -> int:
    """Computed checksum of one group's descriptor; -1 if the format has none."""
    if superblock.has_metadata_checksums:
        return _crc32c_descriptor(superblock, number, row)
    if RoCompat.UNINIT_BG in superblock.features:
        return _crc16_descriptor(superblock, number, row)
    return -1


def _crc32c_descriptors(superblock: Superblock, rows: Any) -> Any:
    """`_crc32c_descriptor` of all groups, int64."""
    numbers = np.arange(len(rows), dtype="<u4").view(np.uint8).reshape(-1, 4)
    body = rows.copy()
    body[:, 30:32] = 0
    return widen(crc32c_rows(crc32c_rows(superblock.seed, numbers), body)) & 0xFFFF


def _crc32c_descriptor(superblock: Superblock, number: int, row: Any) -> int:
    body = bytearray(row.tobytes())
    body[30:32] = b"\0\0"
    return crc32c(crc32c(superblock.seed, number.to_bytes(4, "little")), body) & 0xFFFF


def _crc16_descriptor(superblock: Superblock, number: int, row: Any) -> int:
    """crc16 over uuid, group number and the descriptor without its checksum field."""
    body = row.tobytes()
    register = crc16(crc16(0xFFFF, superblock.uuid), number.to_bytes(4, "little"))
    return crc16(crc16(register, body[:30]), body[32:] if len(body) > 32 else b"")


def bitmap_checksum(superblock: Superblock, bitmap: Any) -> int:
    """crc32c of the used bytes of a block or inode bitmap, in the width of the descriptor.

    Args:
        superblock: has the seed, and determines whether descriptors hold 16 or 32 bits.
        bitmap: clusters_per_group / 8 or inodes_per_group / 8 bytes.
    """
    checksum = crc32c(superblock.seed, bitmap)
    return checksum if superblock.descriptor_size >= DESCRIPTOR_64.size else checksum & 0xFFFF
