"""Earlier states of blocks and inodes, from the copies that the log still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.lookup import AsOfIndex, SortedIndex, values_at
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.journal.epochs import Epochs, epochs_of, table_places
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import JournalOverlay

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


@dataclass(frozen=True, eq=False)
class BlockHistory:
    """The versions of every block of which the log holds copies.

    A copy counts if it is still in the log and was certainly written: its transaction is
    committed, or the checksum of the copy itself matches. It is frozen, because everything else
    is derived from its copies; another choice of copies is another `BlockHistory`.

    Attributes:
        log: the log.
        committed_only: only copies of committed transactions count.
        known_epochs: what `epochs_of` found, at most one.
    """

    log: Log
    committed_only: bool = False
    known_epochs: list[Epochs] = field(default_factory=list)

    @cached_property
    def tag_rows(self) -> Rows:
        """Rows of `log.tags`, by (block, tid)."""
        tags, counts = self.log.tags, self.log.tags.committed
        if not self.committed_only:
            counts = counts | (tags.checksum_bits > 0)
        return self.log.oldest_first(np.flatnonzero(tags.valid & counts))

    @cached_property
    def blocks(self) -> Int64s:
        """Block of each of `tag_rows`."""
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
        base: reader of the blocks without a copy.
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
        """Blocks as of `at` (this reader's own tid by default; one tid or one per block).

        Returns:
            (uint8 (n, block_size), bool (n,): True where the block was read from the log).
        """
        copies = self.history.newest_copies(blocks, self.at if at is None else at)
        return self.read_with(blocks, copies), copies >= 0


@dataclass(frozen=True, slots=True)
class InodeVersions(Table):
    """Distinct states of inodes in the log, by (inode table block, tid, inode number).

    States of one inode are oldest first. A state equal to the previous one is left out. An
    all-zero slot is kept only if it follows a used one.

    Attributes:
        number: int64, inode number.
        order: int64, tid of the first transaction with the state.
        tag: int64, row of `log.tags`.
        rows: uint8 (n, inode size).
    """

    number: Int64s
    order: Int64s
    tag: Int64s
    rows: Bytes2D


@dataclass(frozen=True, slots=True)
class _TableCopies(Table):
    """Copies of inode table blocks: row of `log.tags` and the first inode number in each."""

    tag: Int64s
    first: Int64s
    last: Int64s  # last inode number of the group


def inode_versions(fs: FileSystem, history: BlockHistory) -> InodeVersions:
    """Every inode state that the log holds."""
    none = np.zeros(0, np.int64)
    parts = [InodeVersions(none, none, none, np.zeros((0, fs.superblock.inode_size), np.uint8))]
    parts += inode_version_batches(fs, history)
    return InodeVersions.concat(parts)


def inode_version_batches(
    fs: FileSystem, history: BlockHistory, of_other_layout: bool = True
) -> Iterator[InodeVersions]:
    """The states of `inode_versions` in batches; consecutive ones share at most one table block.

    States are converted to the present inode size and checksums (see `epochs`). Each inode size
    has its own batches.

    Args:
        fs: the file system.
        history: the log's copies.
        of_other_layout: include states from a time of another inode size or other positions
            of the inode tables.
    """
    epochs, now = epochs_of(fs, history), fs.superblock.inode_size
    sizes = {now, *(epoch.inode_size for epoch in epochs.epochs if of_other_layout)}
    for size in sorted(sizes):
        copies = _table_copies(fs, history, epochs, size)
        if not of_other_layout:
            copies = copies.take(history.log.tags.order[copies.tag] >= epochs.first_of_layout)
        step = history.log.reader.chunk
        pieces = (
            (copies.take(slice(max(start - 1, 0), start + step)), start > 0, size, epochs)
            for start in range(0, len(copies), step)
        )
        yield from prefetch_map(lambda one: _changes(history, *one), pieces)


def _table_copies(fs: FileSystem, history: BlockHistory, epochs: Epochs, size: int) -> _TableCopies:
    """The copies of inode table blocks, of one inode size."""
    per_group = fs.superblock.inodes_per_group
    group, byte = table_places(fs, history, epochs.moved)
    inside = (group >= 0) & (byte // size < per_group)
    if not epochs.is_single:
        inside &= epochs.sizes(history.tids) == size
    rows = np.flatnonzero(inside)
    group = group[rows]
    first = group * per_group + byte[rows] // size + 1
    return _TableCopies(history.tag_rows[rows], first, (group + 1) * per_group)


def _changes(
    history: BlockHistory, copies: _TableCopies, overlaps: bool, size: int, epochs: Epochs
) -> InodeVersions:
    """The states in a chunk that differ from the previous copy.

    With `overlaps`, the first copy is the last one of the previous chunk.
    """
    log = history.log
    rows = log.read_copies(copies.tag)
    per_block = rows.shape[1] // size
    slots = rows[:, : per_block * size].reshape(len(rows), per_block, size)
    words = slots.view(np.uint64)  # an eighth of the elements to compare
    numbers = copies.first[:, None] + np.arange(per_block)
    used = np.bitwise_or.reduce(words, axis=2) != 0
    follows = copies.first[1:] == copies.first[:-1]
    keep = used.copy()
    differs = (words[1:] != words[:-1]).any(axis=2)
    keep[1:] = np.where(follows[:, None], differs, used[1:])
    keep &= numbers <= copies.last[:, None]
    if overlaps:
        keep[0] = False
    kept = np.flatnonzero(keep)
    tag = copies.tag[kept // per_block]
    states = slots.reshape(-1, size)[kept]
    number, order = numbers.reshape(-1)[kept], log.tags.order[tag]
    return InodeVersions(number, order, tag, epochs.today(states, number, order))
