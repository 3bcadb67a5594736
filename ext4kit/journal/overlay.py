"""A block reader with copies from the log in front of the blocks on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.evidence.source import Source, Window
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks, unreadable_blocks
from ext4kit.journal.log import Log


class JournalOverlay(ABC):
    """Reads a block from the log where `copies_of` names a copy, else from `base`.

    Copies are read from the log on request, which bounds the memory used.

    Attributes:
        block_size: bytes per block.
        blocks_count: number of readable blocks.
    """

    def __init__(self, base: BlockReader, log: Log) -> None:
        self.base = base
        self.log = log
        self.block_size = base.block_size
        self.blocks_count = base.blocks_count

    @abstractmethod
    def copies_of(self, blocks: Int64s) -> Rows:
        """Row of `log.tags` for each block (int64), -1 where `base` has the block."""

    def lost_blocks(self) -> Int64s:
        """The blocks of `base` that are known to be unreadable."""
        lost: Int64s = unreadable_blocks(self.base)
        return lost

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            AccessError: a block is outside the file system, or cannot be read.
        """
        if block < 0 or count < 0 or block + count > self.blocks_count:
            raise AccessError(
                f"blocks {block:,} to {block + count - 1:,} are outside the file system"
            )
        blocks = np.arange(block, block + count)
        if (self.copies_of(blocks) < 0).all():
            return self.base.read(block, count)
        return self.read_many(blocks).reshape(-1).data.toreadonly()

    def read_many(self, blocks: Int64s) -> Bytes2D:
        """The blocks of an int64 array, as uint8 (n, block_size).

        Raises:
            AccessError: as `read`.
        """
        return self.read_with(blocks, self.copies_of(blocks))

    def read_with(self, blocks: Int64s, copies: Rows) -> Bytes2D:
        """As `read_many`, with the result of `copies_of` given (int64, one per block)."""
        logged = copies >= 0
        if not logged.any():
            return self.base.read_many(blocks)
        rows = np.empty((len(blocks), self.block_size), np.uint8)
        rows[~logged] = self.base.read_many(blocks[~logged])
        rows[logged] = self.log.read_copies(copies[logged])
        return rows


def first_byte(blocks: BlockReader) -> int | None:
    """Byte offset of a file system in the image, None if it has no single start there.

    Args:
        blocks: reader of its blocks, with any number of overlays in front.
    """
    while isinstance(blocks, JournalOverlay):
        blocks = blocks.base
    if not isinstance(blocks, SourceBlocks):
        return None
    source: Source = blocks.source
    base = 0
    while isinstance(source, Window):
        base += source.offset
        source = source.source
    return base
