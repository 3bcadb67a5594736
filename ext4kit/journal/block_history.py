"""Earlier states of blocks and inodes, from the copies that the log still holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.lookup import AsOfIndex, SortedIndex, values_at
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import JournalOverlay


@dataclass(frozen=True, eq=False)
class BlockHistory:
    """The versions of every block of which the log holds copies.

    A copy counts if it is still in the log and was certainly written: its transaction is committed,
    or the checksum of the copy itself matches. The class is frozen, because its other attributes
    are derived from the copies; for another choice of copies, create another `BlockHistory`.

    Attributes:
        log: the log that holds the copies.
        committed_only: whether only copies of committed transactions count.
    """

    log: Log
    committed_only: bool = False

    @cached_property
    def tag_rows(self) -> Rows:
        """Rows of `log.tags`, by (block, tid)."""
        tags, counts = self.log.tags, self.log.tags.committed
        if not self.committed_only:
            counts = counts | (tags.checksum_bits > 0)
        return self.log.oldest_first(np.flatnonzero(tags.valid & counts))

    @cached_property
    def blocks(self) -> Int64s:
        """Home block of each of `tag_rows`."""
        return self.log.tags.block[self.tag_rows]

    @cached_property
    def tids(self) -> Int64s:
        """Tid of each of `tag_rows`."""
        return self.log.tags.order[self.tag_rows]

    @cached_property
    def _index(self) -> AsOfIndex:
        return AsOfIndex(self.blocks, self.tids)

    def newest_copies(self, blocks: Int64s, at: Int64s | int) -> Rows:
        """The newest copy of each block that is not newer than `at`.

        Args:
            blocks: int64 array of file system blocks.
            at: tid; an int64 array of the same length or one integer.

        Returns:
            int64 array, rows of `log.tags`; -1 where the log has no such copy.
        """
        return values_at(self.tag_rows, self._index.rows(blocks, at))

    def around(self, blocks: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
        """(number of older copies, number of newer copies) of each block, relative to `at`.

        Args:
            blocks: int64 array of file system blocks.
            at: int64 array of tids.
        """
        first, end = SortedIndex(self.blocks).bounds(blocks)
        before, newest = self._index.rows(blocks, at - 1), self._index.rows(blocks, at)
        older = np.where(before == NO_ROW, 0, before + 1 - first)
        return older, end - np.where(newest == NO_ROW, first, newest + 1)

    def copies_of_block(self, block: int) -> Rows:
        """Rows of `log.tags` with the copies of one block, oldest first."""
        first, end = np.searchsorted(self.blocks, [block, block + 1])
        return self.tag_rows[first:end]


class CopiesAsOf(JournalOverlay):
    """The blocks as of a transaction, from the journal copies.

    Args:
        base: reader for blocks without a copy.
        history: the copies.
        at: tid of the transaction.
    """

    def __init__(self, base: BlockReader, history: BlockHistory, at: int) -> None:
        super().__init__(base, history.log)
        self.history = history
        self.at = at

    def copies_of(self, blocks: Int64s) -> Rows:
        """Row of `log.tags` of each block's newest copy not newer than `at`, else -1."""
        return self.history.newest_copies(blocks, self.at)

    def read_at(self, blocks: Int64s, at: Int64s | int | None = None) -> tuple[Bytes2D, Bools]:
        """Blocks as of `at`: one tid, or one tid per block; by default this reader's own tid.

        Returns:
            (uint8 (n, block_size), bool (n,): True where the block was read from the log).
        """
        copies = self.history.newest_copies(blocks, self.at if at is None else at)
        return self.read_with(blocks, copies), copies >= 0
