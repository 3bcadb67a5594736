"""Earlier states of inodes, from the copies of inode tables that the log still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bytes2D, Int64s
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.journal.block_history import BlockHistory
from ext4kit.journal.epochs import Epochs, epochs_of, table_places

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


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
        of_other_layout: include states from times with another inode size or with other positions
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
    """The copies of inode table blocks from the epochs with one inode size."""
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
    words = slots.view(np.uint64)  # needs only an eighth of the comparisons
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
