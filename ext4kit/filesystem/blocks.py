"""Block readers: the one way the file system reads its blocks."""

from __future__ import annotations

import os
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ext4kit.errors import AccessError
from ext4kit.evidence.lost import joined, lost_ranges
from ext4kit.evidence.source import Source, fileno_range, mapped_view

_MANY_RUNS = 16  # from which on it is worth while to look at them all together
_APART = 1 << 20  # bytes from a block to the next: a page fault would read ahead at each
_GATHERED = 512  # blocks at a time: the pages around each count as memory in use


class BlockReader(Protocol):
    """Blocks by number; every reader of the file system stands on one of these.

    Attributes:
        block_size: bytes a block.
        blocks_count: blocks that can be asked for; less than the superblock's count when
            the evidence ends early.
    """

    block_size: int
    blocks_count: int

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on, or AccessError."""
        ...

    def read_many(self, blocks: Any) -> Any:
        """The blocks of an int64 array (n,), as uint8 (n, block_size), or AccessError."""
        ...


@runtime_checkable
class LossyBlocks(Protocol):
    """A reader that may know of blocks that are lost."""

    def lost_blocks(self) -> Any:
        """First block and end of each run, int64 (n, 2), in order and apart."""
        ...


def lost_blocks(blocks: BlockReader) -> Any:
    """The blocks of which the evidence is known to have lost bytes, int64 (n, 2): first, end."""
    return blocks.lost_blocks() if isinstance(blocks, LossyBlocks) else joined([])


class SourceBlocks:
    """Blocks straight from a byte source."""

    def __init__(self, source: Source, block_size: int, blocks_count: int) -> None:
        self.source = source
        self.block_size = block_size
        self.blocks_count = min(blocks_count, source.size // block_size)

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on, without a copy where the source allows it.

        Raises:
            AccessError: a block lies outside, or the source cannot be read there.
        """
        if block < 0 or block + count > self.blocks_count:
            raise AccessError(
                f"{self.source.name}: block {block + count - 1:,} lies beyond the last readable "
                f"block {self.blocks_count - 1:,}"
            )
        return self.source.read(block * self.block_size, count * self.block_size)

    def lost_blocks(self) -> Any:
        """What the source knows to be lost, in whole blocks."""
        table = lost_ranges(self.source)
        return joined(
            np.stack([table[:, 0], table[:, 1] + self.block_size - 1], 1) // self.block_size
        )

    def read_many(self, blocks: Any) -> Any:
        """The blocks of an int64 array, as uint8 (n, block_size): one read a run of blocks.

        Raises:
            AccessError: as `read`.
        """
        out = np.empty((len(blocks), self.block_size), np.uint8)
        if not len(blocks):
            return out
        edges = np.flatnonzero(np.diff(blocks) != 1) + 1
        far = int(blocks.max() - blocks.min()) * self.block_size > len(blocks) * _APART
        if len(edges) >= _MANY_RUNS and not far and self._gathered(blocks, out):
            return out
        starts = np.concatenate([[0], edges])
        ends = np.concatenate([edges, [len(blocks)]])
        firsts = blocks[starts]
        for start, end, block in zip(starts.tolist(), ends.tolist(), firsts.tolist(), strict=True):
            if far and self._fetched(block, out[start:end]):
                continue
            piece = self.read(block, end - start)
            out[start:end] = np.frombuffer(piece, np.uint8).reshape(-1, self.block_size)
        return out

    def _fetched(self, block: int, rows: Any) -> bool:
        """Read a run past the mapping; False where the source is no open file.

        Raises:
            AccessError: as `read`.
        """
        if block < 0 or block + len(rows) > self.blocks_count or not hasattr(os, "preadv"):
            return False
        place = fileno_range(self.source, block * self.block_size, rows.nbytes)
        if place is None:
            return False
        try:
            return bool(os.preadv(place[0], [memoryview(rows)], place[1]) == rows.nbytes)
        except OSError as error:
            raise AccessError(f"{self.source.name}: block {block:,}: {error.strerror}") from error

    def _gathered(self, blocks: Any, out: Any) -> bool:
        """Copy the blocks out of a mapped source; False when it is none."""
        first, last = int(blocks.min()), int(blocks.max())
        place, length = first * self.block_size, (last - first + 1) * self.block_size
        if first < 0 or last >= self.blocks_count:
            return False
        for start in range(0, len(blocks), _GATHERED):
            some = blocks[start : start + _GATHERED]
            view = mapped_view(self.source, place, length, len(some))
            if view is None:
                return False
            rows = np.frombuffer(view, np.uint8).reshape(-1, self.block_size)
            np.take(rows, some - first, axis=0, out=out[start : start + _GATHERED], mode="clip")
        return True
