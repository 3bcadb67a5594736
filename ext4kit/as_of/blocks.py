"""The blocks as they were right after a transaction, and which of them the log cannot tell."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, is_member, values_at
from ext4kit.arrays.types import NO_ROW
from ext4kit.as_of.allocation import AllocationHistory
from ext4kit.as_of.range import TID_MODULUS, AsOfRange
from ext4kit.errors import AccessError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import descriptor_blocks
from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.parsers.superblock import SUPERBLOCK_OFFSET


class UnknownStateError(AccessError):
    """What was asked for was not the same at all times, and the log does not say what it was."""


class PointInTime:
    """The log's view of one point in time: right after a transaction.

    Args:
        present: the file system as it is, what fast commits change left out.
        history: the copies.
        range: the transactions that can be asked for.
        order: the transaction's order, one of them.

    Attributes:
        allocation: since when blocks were in use.
    """

    def __init__(
        self, now: FileSystem, history: BlockHistory, reach: AsOfRange, order: int
    ) -> None:
        self.present = now
        self.history = history
        self.log = history.log
        self.range = reach
        self.order = order
        self.allocation = AllocationHistory(now, history)

    @property
    def transaction(self) -> int:
        """The transaction's id."""
        return self.order % TID_MODULUS

    def copies_as_of(self, blocks: Any) -> Any:
        """Row of `log.tags` with each block's state then; -1 where no copy gives it.

        A copy older than the reach's floor need not be the block's last one, and a revoked one
        was given up: neither counts.
        """
        copies = self.history.newest_copies(blocks, self.order)
        order = self.log.tags.order[copies] if len(self.log.tags) else copies
        fits = (copies >= 0) & (order >= self.range.complete_since)
        fits &= ~self._is_revoked(blocks, order)
        return np.where(fits, copies, -1)

    def changed_later(self, blocks: Any) -> Any:
        """Per block (bool): some later transaction has a copy of it, or may have."""
        return is_member(blocks, self._later_copies)

    @cached_property
    def _later_copies(self) -> Any:
        tags = self.log.tags
        return np.unique(tags.block[tags.order > self.order])

    @cached_property
    def _revokes(self) -> tuple[Any, Any]:
        """(blocks ascending, order of the last revoke of each up to this transaction)."""
        revokes = self.log.revokes
        rows = np.flatnonzero(revokes.order <= self.order)
        rows = rows[np.lexsort((-revokes.order[rows], revokes.block[rows]))]
        blocks, first = np.unique(revokes.block[rows], return_index=True)
        return blocks, revokes.order[rows][first]

    def _is_revoked(self, blocks: Any, order: Any) -> Any:
        """Per block (bool): given up behind its copy of `order`, and not journaled since."""
        known, at = self._revokes
        row = SortedIndex(known).rows(blocks)
        return (row != NO_ROW) & (values_at(at, row) > order)


class AsOfMetadataBlocks(JournalOverlay):
    """Metadata as of a moment; a block whose state then is not known cannot be read.

    A block's state is its newest copy. One that no copy speaks of is on disk as it was, where
    no later transaction has a copy and the block stayed in use.

    Args:
        moment: the point in time.
        fixed: blocks (int64) that are taken from the present rather than refused.
    """

    def __init__(self, moment: PointInTime, fixed: Any) -> None:
        super().__init__(moment.present.blocks, moment.log)
        self.moment = moment
        self.fixed = fixed

    def copies_of(self, blocks: Any) -> Any:
        """Row of `log.tags` of each block's state then, -1 where the disk has it."""
        return self.moment.copies_as_of(blocks)

    def is_known(self, blocks: Any) -> Any:
        """Per block (bool): its state then is known."""
        known = (self.copies_of(blocks) >= 0) | is_member(blocks, self.fixed)
        rest = np.flatnonzero(~known & ~self.moment.changed_later(blocks))
        known[rest] = self.moment.allocation.stayed_allocated(blocks[rest], self.moment.order)
        return known

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            UnknownStateError: the state of one of them is not known.
            AccessError: a block lies outside, or cannot be read.
        """
        self._check(np.arange(block, block + max(count, 0)))
        return super().read(block, count)

    def read_many(self, blocks: Any) -> Any:
        """The blocks of an int64 array, as uint8 (n, block_size).

        Raises:
            UnknownStateError, AccessError: as `read`.
        """
        self._check(blocks)
        return super().read_many(blocks)

    def _check(self, blocks: Any) -> None:
        unknown = blocks[~self.is_known(blocks)]
        if len(unknown):
            moment = f"right after transaction {self.moment.transaction}"
            raise UnknownStateError(f"block {unknown[0]:,}: its state {moment} is not known")


class AsOfContentBlocks(JournalOverlay):
    """Blocks of files: a copy counts only while its block stayed in use since.

    A block may have been metadata before, and ordered data leaves no copy when it takes over.
    """

    def __init__(self, moment: PointInTime) -> None:
        super().__init__(moment.present.blocks, moment.log)
        self.moment = moment

    def copies_of(self, blocks: Any) -> Any:
        """Row of `log.tags` of each block's content then, -1 without one."""
        copies = self.moment.copies_as_of(blocks)
        logged = np.flatnonzero(copies >= 0)
        since = self.log.tags.order[copies[logged]] - 1
        held = self.moment.allocation.stayed_allocated(blocks[logged], since, self.moment.order)
        copies[logged[~held]] = -1
        return copies


def layout_blocks(now: FileSystem) -> Any:
    """Blocks of the superblock and the group descriptors, which say where things lie: ascending."""
    places = descriptor_blocks(now.superblock, 0, now.blocks.blocks_count)
    return np.unique(np.append(places, SUPERBLOCK_OFFSET // now.blocks.block_size))
