"""Blocks that are changed in memory, in front of a block reader that is never written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader


@dataclass(frozen=True, slots=True, eq=False)
class ChangedBlocks:
    """Blocks with the bytes that a recovery of fast commits gives them.

    Attributes:
        blocks: int64 (n,), file system blocks, ascending.
        rows: uint8 (n, block size), their bytes; read only.
    """

    blocks: Any
    rows: Any

    def __len__(self) -> int:
        return len(self.blocks)

    def rows_of(self, blocks: Any) -> Any:
        """Row for each block of an int64 array, -1 where the block is not changed."""
        return SortedIndex(self.blocks).rows(blocks)


def no_changes(block_size: int) -> ChangedBlocks:
    """Nothing changed."""
    return ChangedBlocks(np.zeros(0, np.int64), np.zeros((0, block_size), np.uint8))


class BlockOverlay:
    """A block reader whose blocks can be changed in memory.

    Args:
        base: what is read where nothing was changed.

    Attributes:
        block_size: bytes a block.
        blocks_count: blocks that can be asked for.
    """

    def __init__(self, base: BlockReader) -> None:
        self.base = base
        self.block_size = base.block_size
        self.blocks_count = base.blocks_count
        self._edited: dict[int, Any] = {}

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on, changes included.

        Raises:
            AccessError: a block lies outside, or cannot be read.
        """
        if block < 0 or count < 0 or block + count > self.blocks_count:
            raise AccessError(f"blocks {block:,} to {block + count - 1:,} lie outside")
        return memoryview(self.read_many(np.arange(block, block + count)).reshape(-1))

    def read_many(self, blocks: Any) -> Any:
        """The blocks of an int64 array, changes included, as uint8 (n, block_size).

        Raises:
            AccessError: as `read`.
        """
        mine = [place for place, block in enumerate(blocks.tolist()) if block in self._edited]
        if not mine:
            return self.base.read_many(blocks)
        rows = np.empty((len(blocks), self.block_size), np.uint8)
        others = np.ones(len(blocks), bool)
        others[mine] = False
        rows[others] = self.base.read_many(blocks[others])
        for place in mine:
            rows[place] = self._edited[int(blocks[place])]
        return rows

    def writable(self, block: int) -> Any:
        """The block's bytes, uint8 (block_size,), to be changed in place.

        Raises:
            AccessError: as `read`.
        """
        if block not in self._edited:
            self._edited[block] = np.frombuffer(self.read(block), np.uint8).copy()
        return self._edited[block]

    def zeroed(self, block: int) -> Any:
        """As `writable`, for a block that is filled anew: zeros.

        Raises:
            AccessError: it lies outside.
        """
        if not 0 <= block < self.blocks_count:
            raise AccessError(f"block {block:,} lies outside")
        self._edited[block] = np.zeros(self.block_size, np.uint8)
        return self._edited[block]

    def changes(self) -> ChangedBlocks:
        """The blocks whose bytes differ from the base's."""
        kept = [(block, row) for block, row in sorted(self._edited.items()) if self._differs(block)]
        if not kept:
            return no_changes(self.block_size)
        rows = np.stack([row for _, row in kept])
        rows.flags.writeable = False
        return ChangedBlocks(np.array([block for block, _ in kept], np.int64), rows)

    def _differs(self, block: int) -> bool:
        try:
            return bool(bytes(self.base.read(block)) != self._edited[block].tobytes())
        except AccessError:
            return True
