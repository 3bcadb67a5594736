"""Blocks and fields changed in memory, in front of a block reader that is never written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import NO_ROW, Bytes2D, Int64s, Rows, UInt8s
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.overlay import OverlayReader
from ext4kit.parsers.layout import Buffer, Layout


def set_fields(layout: Layout, data: Buffer, at: int = 0, **values: int) -> None:
    """Write little-endian fields of one structure.

    Args:
        layout: the structure.
        data: bytearray or uint8 array, changed in place.
        at: byte offset of the structure.
        values: field name -> number; bits that do not fit the field are dropped.
    """
    view = memoryview(data)
    for name, value in values.items():
        place, size = at + layout.offset_of(name), layout.dtype[name].itemsize
        view[place : place + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def get_field(layout: Layout, data: Buffer, name: str, at: int = 0) -> int:
    """One little-endian field of the structure at byte `at`."""
    place = at + layout.offset_of(name)
    return int.from_bytes(memoryview(data)[place : place + layout.dtype[name].itemsize], "little")


@dataclass(frozen=True, slots=True, eq=False)
class ChangedBlocks:
    """Blocks with their bytes after a replay of fast commits.

    Attributes:
        blocks: int64 (n,), file system blocks, ascending.
        rows: uint8 (n, block size), their bytes; read only.
    """

    blocks: Int64s
    rows: Bytes2D

    def __len__(self) -> int:
        return len(self.blocks)

    def rows_of(self, blocks: Int64s) -> Rows:
        """Row of each block of an int64 array, -1 where the block is not changed."""
        return SortedIndex(self.blocks).rows(blocks)


def no_changes(block_size: int) -> ChangedBlocks:
    """A table without changed blocks."""
    return ChangedBlocks(np.zeros(0, np.int64), np.zeros((0, block_size), np.uint8))


class BlockOverlay(OverlayReader):
    """A block reader whose blocks can be changed in memory.

    Args:
        base: reader of the unchanged blocks.
    """

    def __init__(self, base: BlockReader) -> None:
        super().__init__(base)
        self._edited: dict[int, UInt8s] = {}

    def copies_of(self, blocks: Int64s) -> Rows:
        """The block number of each changed block, -1 for unchanged ones."""
        edited = [block if block in self._edited else NO_ROW for block in blocks.tolist()]
        return np.array(edited, np.intp)

    def read_copies(self, copies: Rows) -> Bytes2D:
        """The bytes of changed blocks."""
        return np.stack([self._edited[block] for block in copies.tolist()])

    def writable(self, block: int) -> UInt8s:
        """The block's bytes, uint8 (block_size,), to be changed in place.

        Raises:
            AccessError: as `read`.
        """
        if block not in self._edited:
            self._edited[block] = np.frombuffer(self.read(block), np.uint8).copy()
        return self._edited[block]

    def zeroed(self, block: int) -> UInt8s:
        """As `writable`, but zeroed, for a block that is rewritten completely.

        Raises:
            AccessError: the block is outside the file system.
        """
        if not 0 <= block < self.blocks_count:
            raise AccessError(f"block {block:,} is outside the file system")
        self._edited[block] = np.zeros(self.block_size, np.uint8)
        return self._edited[block]

    def changes(self) -> ChangedBlocks:
        """The blocks whose bytes differ from those of the base."""
        kept = [block for block, row in sorted(self._edited.items()) if self._differs(block, row)]
        if not kept:
            return no_changes(self.block_size)
        blocks = np.array(kept)
        rows = self.read_copies(blocks)
        rows.flags.writeable = False
        return ChangedBlocks(blocks, rows)

    def _differs(self, block: int, row: UInt8s) -> bool:
        try:
            return bytes(self.base.read(block)) != row.tobytes()
        except AccessError:
            return True
