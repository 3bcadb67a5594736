"""The orphan file: inodes that were unlinked while open or were being truncated.

Source: kernel Documentation/filesystems/ext4/orphan.rst and fs/ext4/orphan.c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import UInt32s
from ext4kit.errors import CorruptError
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Int32ul, Struct

ORPHAN_TAIL = Layout(
    "orphan file block tail",
    Struct(
        "ob_magic" / Int32ul,  # MAGIC
        "ob_checksum" / Int32ul,  # crc32c(orphan inode's seed, le64 block number, numbers)
    ),
)

MAGIC = 0x0B10CA04
_SLOT = 4  # bytes of one inode number


@dataclass(frozen=True, slots=True, eq=False)
class OrphanBlock:
    """One block of the orphan file.

    Attributes:
        slots: uint32, all slots of the block; 0 is a free slot.
        checksum: stored checksum; valid with metadata_csum only.
    """

    slots: UInt32s
    checksum: int

    @property
    def inodes(self) -> UInt32s:
        """The stored inode numbers, by slot."""
        used: UInt32s = self.slots[self.slots != 0]
        return used


def _tail_offset(block: Buffer) -> int:
    return memoryview(block).nbytes - ORPHAN_TAIL.size


def parse_orphan_block(block: Buffer) -> OrphanBlock:
    """One block of the orphan file.

    Raises:
        CorruptError: the block is too short or its tail does not have the magic number.
    """
    offset = _tail_offset(block)
    if offset < 0:
        raise CorruptError(ORPHAN_TAIL.name, 0, "the block is shorter than its tail")
    tail = ORPHAN_TAIL.first(block, offset)
    if tail.ob_magic != MAGIC:
        raise CorruptError(ORPHAN_TAIL.name, offset, f"magic number {tail.ob_magic:#010x}")
    slots = np.frombuffer(block, np.dtype("<u4"), offset // _SLOT)
    return OrphanBlock(slots.astype(np.uint32), int(tail.ob_checksum))


def orphan_checksum(inode_seed: int, block_number: int, block: Buffer) -> int:
    """Computed checksum of the tail.

    Args:
        inode_seed: checksum seed of the orphan file's own inode (number and generation).
        block_number: file system block number of the block.
        block: the whole block.
    """
    register = crc32c(inode_seed, block_number.to_bytes(8, "little"))
    return crc32c(register, bytes(memoryview(block)[: _tail_offset(block)]))
