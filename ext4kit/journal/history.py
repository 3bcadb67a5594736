"""Earlier states of blocks and inodes, from the copies that the log still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ext4kit.filesystem.ahead import ahead
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import CopiesInFront

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


class History:
    """The versions of every block that the log holds copies of.

    A copy counts when it is still in the log and was written for certain: its transaction is
    committed, or the copy's own checksum fits.

    Attributes:
        log: the log.
        tags: int64, rows of `log.tags`, by (block, order).
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        tags = log.tags
        sure = tags.committed | log.features.has_block_checksums
        index = np.flatnonzero(tags.valid & sure)
        age = (tags.ordinal[index], log.ring_distance(tags.descriptor[index]), tags.order[index])
        self.tags = index[np.lexsort((*age, tags.block[index]))]

    @cached_property
    def blocks(self) -> Any:
        """int64, block of each row of `tags`."""
        return self.log.tags.block[self.tags]

    @cached_property
    def orders(self) -> Any:
        """int64, transaction order of each row of `tags`."""
        return self.log.tags.order[self.tags]

    @cached_property
    def _known_blocks(self) -> Any:
        return np.unique(self.blocks)

    @cached_property
    def _known_orders(self) -> Any:
        return np.unique(self.orders)

    @cached_property
    def _keys(self) -> Any:
        """(block, order) of each row as one ascending number."""
        block = np.searchsorted(self._known_blocks, self.blocks)
        order = np.searchsorted(self._known_orders, self.orders)
        return block * len(self._known_orders) + order

    def latest(self, blocks: Any, at: Any) -> Any:
        """The newest copy of each block that is not newer than `at`.

        Args:
            blocks: int64 array of file system blocks.
            at: order of a transaction; an int64 array of the same length or one integer.

        Returns:
            int64 array, rows of `log.tags`; -1 where the log has no such copy.
        """
        if not len(self.tags):
            return np.full(len(blocks), -1)
        last = len(self._known_blocks) - 1
        block = np.minimum(np.searchsorted(self._known_blocks, blocks), last)
        order = np.searchsorted(self._known_orders, at, side="right") - 1
        width = len(self._known_orders)
        place = np.searchsorted(self._keys, block * width + order, side="right") - 1
        known = (self._known_blocks[block] == blocks) & (place >= 0)
        known &= self._keys[place] >= block * width
        return np.where(known, self.tags[place], -1)

    def versions(self, block: int) -> Any:
        """Rows of `log.tags` with the copies of one block, oldest first."""
        first, end = np.searchsorted(self.blocks, [block, block + 1])
        return self.tags[first:end]


class AsOfBlocks(CopiesInFront):
    """The blocks as they were right after a transaction, as far as the log tells.

    Args:
        base: what a block without a copy is read from.
        history: the copies.
        at: order of the transaction.
    """

    def __init__(self, base: BlockReader, history: History, at: int) -> None:
        super().__init__(base, history.log)
        self.history = history
        self.at = at

    def copies_of(self, blocks: Any) -> Any:
        """Row of `log.tags` of each block's newest copy not newer than `at`, else -1."""
        return self.history.latest(blocks, self.at)

    def read_at(self, blocks: Any, at: Any = None) -> tuple[Any, Any]:
        """Blocks as of `at` (this reader's own by default; one order or one a block).

        Returns:
            (uint8 (n, block_size), bool (n,): the block came from the log).
        """
        copies = self.history.latest(blocks, self.at if at is None else at)
        return self.read_chosen(blocks, copies), copies >= 0


@dataclass(frozen=True, slots=True)
class InodeVersions:
    """Distinct states of inodes in the log, by (inode table block, order, number).

    States of one inode are oldest first. A state equal to the one before it is left out; an
    all-zero slot is kept only where it follows a used one.

    Attributes:
        number: int64, inode number.
        order: int64, order of the transaction that first shows the state.
        tag: int64, row of `log.tags`.
        rows: uint8 (n, inode size).
    """

    number: Any
    order: Any
    tag: Any
    rows: Any

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class _TableCopies:
    """Copies of inode table blocks: row of `log.tags` and the first inode number in each."""

    tag: Any
    first: Any
    last: Any  # last inode number of the group


def inode_versions(fs: FileSystem, history: History) -> InodeVersions:
    """Every inode state that the log holds."""
    none = np.zeros(0, np.int64)
    parts = [InodeVersions(none, none, none, np.zeros((0, fs.superblock.inode_size), np.uint8))]
    parts += inode_version_pieces(fs, history)
    columns = ("number", "order", "tag", "rows")
    return InodeVersions(*(np.concatenate([getattr(p, name) for p in parts]) for name in columns))


def inode_version_pieces(fs: FileSystem, history: History) -> Iterator[InodeVersions]:
    """The same in pieces; two that follow each other share one inode table block at most."""
    copies, size = _table_copies(fs, history), fs.superblock.inode_size
    yield from ahead(lambda one: _changes(history, *one, size), _pieces(history, copies))


def _table_copies(fs: FileSystem, history: History) -> _TableCopies:
    """The copies in a history whose block lies in an inode table."""
    superblock = fs.superblock
    per_block = superblock.block_size // superblock.inode_size
    per_group = superblock.inodes_per_group
    starts = fs.groups.inode_table
    by_start = np.argsort(starts, kind="stable")
    place = np.searchsorted(starts[by_start], history.blocks, side="right") - 1
    group = by_start[np.maximum(place, 0)]
    slot = (history.blocks - starts[group]) * per_block
    inside = np.flatnonzero((place >= 0) & (slot >= 0) & (slot < per_group))
    group = group[inside]
    first = group * per_group + slot[inside] + 1
    return _TableCopies(history.tags[inside], first, (group + 1) * per_group)


def _pieces(history: History, copies: _TableCopies) -> Iterator[tuple[_TableCopies, bool]]:
    """Chunks of copies; True when the first one is the last of the chunk before."""
    step = history.log.reader.chunk
    for start in range(0, len(copies.tag), step):
        piece = slice(max(start - 1, 0), start + step)
        yield _TableCopies(copies.tag[piece], copies.first[piece], copies.last[piece]), start > 0


def _changes(history: History, copies: _TableCopies, overlaps: bool, size: int) -> InodeVersions:
    """The states in a chunk that differ from the copy before."""
    log = history.log
    rows = log.read_copies(copies.tag)
    per_block = rows.shape[1] // size
    slots = rows[:, : per_block * size].reshape(len(rows), per_block, size)
    words = slots.view(np.uint64)  # an eighth of what there is to compare
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
    return InodeVersions(numbers.reshape(-1)[kept], log.tags.order[tag], tag, states)
