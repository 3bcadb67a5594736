"""The blocks as of a transaction, from the journal and the disk; a block may be unknown."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, is_member, values_at
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.as_of.allocation import AllocationHistory
from ext4kit.as_of.range import TID_MODULUS, AsOfRange
from ext4kit.errors import AccessError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import descriptor_blocks
from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.parsers.superblock import SUPERBLOCK_OFFSET


class UnknownStateError(AccessError):
    """The requested state of a block is unknown: the journal holds no copy of it."""


class PointInTime:
    """The state after one transaction, as the journal records it.

    Args:
        present: the file system as it is on disk, without the changes of fast commits.
        history: the journal copies.
        reach: the transactions whose state the journal can give.
        order: tid of the transaction, one of `reach`.

    Attributes:
        transaction: the stored tid of the transaction.
        allocation: the bitmaps over time.
    """

    def __init__(
        self, present: FileSystem, history: BlockHistory, reach: AsOfRange, order: int
    ) -> None:
        self.present = present
        self.history = history
        self.log = history.log
        self.range = reach
        self.order = order
        self.transaction = order % TID_MODULUS
        self.allocation = AllocationHistory(present, history)

    def copies_as_of(self, blocks: Int64s) -> Rows:
        """Row of `log.tags` with the state of each block after the transaction; -1 without a copy.

        Two kinds of copies do not count. A copy older than `range.complete_since` may not be the
        last copy of its block up to the transaction. A revoked copy is not valid any more.
        """
        copies = self.history.newest_copies(blocks, self.order)
        order = self.log.tags.order[copies] if len(self.log.tags) else copies
        revoked_blocks, revoked_at = self._revokes
        revoke = SortedIndex(revoked_blocks).rows(blocks)
        is_revoked = (revoke != NO_ROW) & (values_at(revoked_at, revoke) > order)
        fits = (copies >= 0) & (order >= self.range.complete_since) & ~is_revoked
        return np.where(fits, copies, -1)

    def changed_later(self, blocks: Int64s) -> Bools:
        """True where a later transaction has, or may have, a copy of the block."""
        return is_member(blocks, self._later_copies)

    @cached_property
    def _later_copies(self) -> Int64s:
        tags = self.log.tags
        return np.unique(tags.block[tags.order > self.order])

    @cached_property
    def _revokes(self) -> tuple[Int64s, Int64s]:
        """(revoked blocks ascending, tid of the last revoke of each), up to this transaction."""
        revokes = self.log.revokes
        rows = np.flatnonzero(revokes.order <= self.order)
        rows = rows[np.lexsort((-revokes.order[rows], revokes.block[rows]))]
        blocks, first = np.unique(revokes.block[rows], return_index=True)
        return blocks, revokes.order[rows][first]


class AsOfMetadataBlocks(JournalOverlay):
    """Metadata blocks as of a transaction; reading a block of unknown state raises an error.

    The state of a block is its newest copy up to the transaction. Without such a copy, it is the
    block on disk if no later transaction has a copy and the block stayed allocated.

    Args:
        moment: the point in time.
        fixed: blocks, ascending, that are read from the disk if their state is unknown.
    """

    def __init__(self, moment: PointInTime, fixed: Int64s) -> None:
        super().__init__(moment.present.blocks, moment.log)
        self.moment = moment
        self.fixed = fixed

    def copies_of(self, blocks: Int64s) -> Rows:
        """Row of `log.tags` with the state of each block as of the transaction, -1 for none."""
        return self.moment.copies_as_of(blocks)

    def is_known(self, blocks: Int64s) -> Bools:
        """True where the state of the block after the transaction is known."""
        known: Bools = (self.copies_of(blocks) >= 0) | is_member(blocks, self.fixed)
        rest = np.flatnonzero(~known & ~self.moment.changed_later(blocks))
        known[rest] = self.moment.allocation.stayed_allocated(blocks[rest], self.moment.order)
        return known

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            UnknownStateError: the state of one of the blocks is not known.
            AccessError: a block is outside the file system, or cannot be read.
        """
        self._check(np.arange(block, block + max(count, 0)))
        return super().read(block, count)

    def read_many(self, blocks: Int64s) -> Bytes2D:
        """The blocks, as uint8 (n, block_size).

        Raises:
            UnknownStateError, AccessError: as `read`.
        """
        self._check(blocks)
        rows: Bytes2D = super().read_many(blocks)
        return rows

    def _check(self, blocks: Int64s) -> None:
        unknown = blocks[~self.is_known(blocks)]
        if len(unknown):
            moment = f"right after transaction {self.moment.transaction}"
            raise UnknownStateError(f"block {unknown[0]:,}: its state {moment} is not known")


class AsOfContentBlocks(JournalOverlay):
    """Blocks of file content: a copy counts only if its block stayed allocated since.

    A block may have held metadata before. In ordered mode the data that replaces it leaves no copy.
    """

    def __init__(self, moment: PointInTime) -> None:
        super().__init__(moment.present.blocks, moment.log)
        self.moment = moment

    def copies_of(self, blocks: Int64s) -> Rows:
        """Row of `log.tags` with the content of each block as of the transaction, -1 for none."""
        copies = self.moment.copies_as_of(blocks)
        logged = np.flatnonzero(copies >= 0)
        since = self.log.tags.order[copies[logged]] - 1
        held = self.moment.allocation.stayed_allocated(blocks[logged], since, self.moment.order)
        copies[logged[~held]] = -1
        return copies


def layout_blocks(now: FileSystem) -> Int64s:
    """Blocks (ascending) of the superblock and the group descriptors, which locate all others."""
    places = descriptor_blocks(now.superblock, 0, now.blocks.blocks_count)
    return np.unique(np.append(places, SUPERBLOCK_OFFSET // now.blocks.block_size))
