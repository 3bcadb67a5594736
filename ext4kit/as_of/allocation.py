"""Whether blocks stayed allocated since a transaction, from the journal copies of the bitmaps.

The transaction that frees a block writes a bitmap copy with a clear bit: in ordered and journaled
mode the kernel reuses metadata and data blocks only after the commit. Therefore a block whose bit
is set in every copy since a transaction had the same owner throughout.
Source: kernel fs/ext4/mballoc.c, `ext4_mb_clear_bb`.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.journal.block_history import BlockHistory

COPIES_AT_ONCE = 256


class AllocationHistory:
    """The block bitmaps, on disk and in the journal, and the blocks that stayed allocated in them.

    Args:
        now: the file system as it is on disk.
        history: the journal copies.
    """

    def __init__(self, now: FileSystem, history: BlockHistory) -> None:
        self.now = now
        self.history = history

    def stayed_allocated(
        self, blocks: Int64s, since: Int64s | int, until: int | None = None
    ) -> Bools:
        """True where every bitmap copy newer than `since` marks the block as allocated.

        Args:
            blocks: block numbers.
            since: tid; one integer, or one per block.
            until: tid of the last copy that counts; None includes the bitmap on disk.
        """
        held = np.ones(len(blocks), bool)
        if until is None:
            held = (blocks >= 0) & (blocks < self.now.superblock.blocks_count)
            held &= self.now.bitmaps.blocks_in_use(blocks)
        since = np.broadcast_to(since, len(blocks))
        superblock = self.now.superblock
        index = blocks - superblock.first_data_block
        group = index // superblock.blocks_per_group
        bit = index % superblock.blocks_per_group // superblock.cluster_ratio
        for each in np.unique(group[(group >= 0) & (group < len(self.now.groups))]).tolist():
            rows = np.flatnonzero(group == each)
            held[rows] &= self._bits_in_copies(each, bit[rows], since[rows], until)
        return held

    def _bits_in_copies(self, group: int, bit: Int64s, since: Int64s, until: int | None) -> Bools:
        """True where the bit is set in every copy of the group's bitmap from `since` to `until`."""
        tags = self.history.log.tags
        copies = self.history.copies_of_block(int(self.now.groups.block_bitmap[group]))
        order = tags.order[copies]
        wanted = order > since.min()
        if until is not None:
            wanted &= order <= until
        copies = copies[wanted]
        held = np.ones(len(bit), bool)
        for start in range(0, len(copies), COPIES_AT_ONCE):
            piece = copies[start : start + COPIES_AT_ONCE]
            rows = self.history.log.read_copies(piece)
            is_set = (rows[:, bit >> 3] >> (bit & 7) & 1) != 0
            counts = tags.order[piece][:, None] > since
            held &= (is_set | ~counts).all(axis=0)
        return held
