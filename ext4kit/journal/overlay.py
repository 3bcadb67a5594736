"""A block reader with copies from the log in front of the blocks on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s, Rows
from ext4kit.errors import AccessError
from ext4kit.evidence.source import Source, Window
from ext4kit.filesystem.blocks import BlockReader, SourceBlocks, unreadable_blocks
from ext4kit.journal.log import Log


class OverlayReader(ABC):
    """Reads a copy of a block where `copies_of` names one, else the block of `base`.

    Attributes:
        block_size: bytes per block.
        blocks_count: number of readable blocks.
    """

    def __init__(self, base: BlockReader) -> None:
        self.base = base
        self.block_size = base.block_size
        self.blocks_count = base.blocks_count

    @abstractmethod
    def copies_of(self, blocks: Int64s) -> Rows:
        """The number of each block's copy for `read_copies` (int64), -1 where there is no copy."""

    @abstractmethod
    def read_copies(self, copies: Rows) -> Bytes2D:
        """Copies by the numbers that `copies_of` gives, as uint8 (n, block_size)."""

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
        """As `read_many`, given the result of `copies_of` (int64, one per block)."""
        return read_in_front(self.base.read_many, self.read_copies, blocks, copies)


class JournalOverlay(OverlayReader):
    """Reads a block from the log where `copies_of` names a row of `log.tags`, else from `base`.

    Copies are read from the log on request, which bounds the memory used.
    """

    def __init__(self, base: BlockReader, log: Log) -> None:
        super().__init__(base)
        self.log = log

    def read_copies(self, copies: Rows) -> Bytes2D:
        """The copies of some rows of `log.tags`."""
        return self.log.read_copies(copies)

    def log_blocks_of(self, copies: Rows) -> Int64s:
        """Log block of each copy that `copies_of` names."""
        return self.log.tags.position[copies]


def stored_at(reader: BlockReader, blocks: Int64s) -> Int64s:
    """The block that each block (int64 (n,)) is read from: a copy in the journal, or itself.

    -1 where the copy is on another device.
    """
    found, is_open = blocks.copy(), np.ones(len(blocks), bool)
    while isinstance(reader, JournalOverlay):
        copies = reader.copies_of(blocks)
        here, log = is_open & (copies >= 0), reader.log
        homes = log.reader.log_blocks[reader.log_blocks_of(copies[here])]
        found[here] = homes if log.home is log.reader.blocks else -1
        is_open &= ~here
        reader = reader.base
    return found


def read_in_front(
    base: Callable[[Int64s], Bytes2D], front: Callable[[Rows], Bytes2D], blocks: Int64s, rows: Rows
) -> Bytes2D:
    """The blocks, from `front` where `rows` is not negative, else from `base`."""
    in_front = rows >= 0
    if not in_front.any():
        return base(blocks)
    below = base(blocks[~in_front])
    found = np.empty((len(blocks), below.shape[1]), np.uint8)
    found[~in_front], found[in_front] = below, front(rows[in_front])
    return found


def first_byte(blocks: BlockReader) -> int | None:
    """Byte offset of a file system in the image, None if it has no single start there.

    Args:
        blocks: reader of the blocks, with any number of overlays in front.
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
