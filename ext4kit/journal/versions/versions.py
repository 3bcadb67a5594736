"""The versions of one block: its copies in the log, oldest first, then the block on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.errors import AccessError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.journal.transactions import Transaction
from ext4kit.units import TransactionId


@dataclass(frozen=True, slots=True)
class BlockVersion:
    """A block at one time.

    Attributes:
        data: its bytes, with the magic of an escaped copy restored.
        offset: byte offset of `data`: in the file system, or in the external journal for a copy
            there.
        transaction: the transaction that wrote this copy; None for the block on disk.
        commit_time_ns: of the transaction, ns since 1970; None when not known.
        log_block: of the copy; None for the block on disk.
        is_committed: whether the transaction was committed; None for the block on disk.
    """

    data: bytes
    offset: int
    transaction: TransactionId | None = None
    commit_time_ns: int | None = None
    log_block: int | None = None
    is_committed: bool | None = None

    def slice(self, start: int, length: int) -> BlockVersion:
        """The version of a byte range of the block."""
        data = self.data[start : start + length]
        times = (self.transaction, self.commit_time_ns, self.log_block, self.is_committed)
        return BlockVersion(data, self.offset + start, *times)


def block_versions(
    fs: FileSystem, log: Log, block: int, since: int | None = None
) -> Iterator[BlockVersion]:
    """Every copy of a block that is still in the log, oldest first, then the block on disk.

    Args:
        fs: the file system; an overlay such as a replay is bypassed.
        log: its log.
        block: a block of the file system.
        since: tid of the oldest copy to return.

    Raises:
        RequestError: the file system has no such block.
    """
    if not 0 <= block < fs.superblock.blocks_count:
        last = fs.superblock.blocks_count - 1
        raise RequestError(f"block {block}: this file system has blocks 0 to {last:,}")
    tags = log.tags
    rows = np.flatnonzero(tags.valid & (tags.block == block))
    rows = rows if since is None else rows[tags.order[rows] >= since]
    age = (tags.ordinal[rows], log.ring_distance(tags.descriptor[rows]), tags.order[rows])
    rows = rows[np.lexsort(age)]
    for start in range(0, len(rows), log.reader.chunk):
        piece = rows[start : start + log.reader.chunk]
        copies, order = log.read_copies(piece), tags.order[piece]
        known = log.transactions.row_of(order).tolist()
        for row, copy, transaction in zip(piece.tolist(), copies, known, strict=True):
            yield _journal_version(log, row, copy.tobytes(), log.transactions[transaction])
    yield from _disk_version(fs, block)


def _journal_version(log: Log, row: int, data: bytes, transaction: Transaction) -> BlockVersion:
    position = int(log.tags.position[row])
    return BlockVersion(
        data,
        offset=int(log.reader.log_blocks[position]) * len(data),
        transaction=transaction.id,
        commit_time_ns=transaction.commit_time_ns,
        log_block=position,
        is_committed=transaction.committed,
    )


def _disk_version(fs: FileSystem, block: int) -> Iterator[BlockVersion]:
    blocks: BlockReader = fs.blocks
    while isinstance(blocks, JournalOverlay):
        blocks = blocks.base
    try:
        yield BlockVersion(bytes(blocks.read(block)), block * blocks.block_size)
    except AccessError as error:
        fs.problems.add(f"block {block}", str(error))
