"""A tree in pieces of bounded size, for file systems with very many files.

First, all directories are found; they stay in memory. Then their entries are read again, some
directories at a time. An entry that comes after a subdirectory is held back until everything below
that subdirectory has been returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import first_occurrence
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem.directories import (
    DirTree,
    TreeLimits,
    depth_first_rows,
    directories_only,
    read_level,
    read_levels,
)
from ext4kit.filesystem.inodes import Inodes
from ext4kit.parsers.directory import Names

DIRECTORIES_AT_ONCE = 1 << 12
BLOCKS_AT_ONCE = 1 << 12


@dataclass(frozen=True)  # without slots: it has a cached property
class _Directories(Table):
    """The directories of a tree; each comes before those below it.

    Attributes:
        number: inode number.
        parent: row of the parent directory; 0 for row 0.
        depth: number of directories above it.
        last: row of the last directory below it; its own row if there is none.
        names: name of each directory.
    """

    number: Int64s
    parent: Rows
    depth: Int64s
    last: Rows
    names: Names

    def rows_of(self, numbers: Int64s) -> Rows:
        """Row of each inode number, NO_ROW where it is not one of the directories."""
        order, index = self._by_number
        return values_at(order, index.rows(numbers))

    @cached_property
    def _by_number(self) -> tuple[Rows, SortedIndex]:
        order = np.argsort(self.number, kind="stable")
        return order, SortedIndex(self.number[order])

    def paths(self, rows: Rows, top: bytes) -> list[bytes]:
        """The paths of some directories; `top` is that of row 0."""
        known = {0: top}
        for row in rows.tolist():
            chain = []
            while row not in known:
                chain.append(row)
                row = int(self.parent[row])
            path = known[row]
            names = self.names.take(np.array(chain[::-1], np.int64)).tolist()
            for each, name in zip(chain[::-1], names, strict=True):
                path += b"/" + name
                known[each] = path
        return [known[row] for row in rows.tolist()]


@dataclass(frozen=True, slots=True)
class _Entries(Table):
    """Entries of directories.

    Attributes:
        after: row of the last directory before the entry in a depth-first walk.
        parent: row of the directory.
    """

    after: Rows
    parent: Rows
    number: Int64s
    file_type: Int64s
    names: Names


def read_tree_pieces(
    fs: Inodes, number: int, path: bytes = b"", blocks: int = BLOCKS_AT_ONCE
) -> Iterator[DirTree]:
    """The result of `read_tree`, in consecutive pieces.

    Args:
        fs: the file system.
        number: inode number of the directory.
        path: its path.
        blocks: most directory blocks that are read for a piece, unless one directory has more.
    """
    directories = _find_directories(fs, number, path)
    bounds, waiting = TreeLimits.of(fs), list[_Entries]()
    for part in _parts(fs, directories, blocks):
        fresh, later = _split(_read(fs, directories, part, bounds), part.stop)
        later = replace(later, names=Names.of(later.names.tolist()))  # frees the other names
        halves = [_split(one, part.stop) for one in waiting]
        due = [*(one for one, _ in halves), fresh]
        waiting = [one for one in (*(one for _, one in halves), later) if len(one)]
        entries = _Entries.concat(due)
        entries = entries.take(np.lexsort((-directories.depth[entries.parent], entries.after)))
        piece = _as_tree(directories, entries, path)
        lengths = np.array([len(folder) + 1 for folder in piece.folders], np.int64)
        kept = bounds.take_text(lengths[piece.folder] + piece.names.length)
        if kept < len(piece):
            bounds.tell(fs, len(piece) - kept + sum(map(len, waiting)))
            yield _as_tree(directories, entries.take(slice(kept)), path)
            return
        yield piece


def _split(entries: _Entries, end: int) -> tuple[_Entries, _Entries]:
    """(entries that come after directories before row `end`, other entries)."""
    count = int(np.searchsorted(entries.after, end))
    return entries.take(slice(count)), entries.take(slice(count, None))


def _find_directories(fs: Inodes, number: int, path: bytes) -> _Directories:
    levels, opened = read_levels(fs, number, path, directories_only)
    starts = np.cumsum([0, *map(len, levels)])  # first row of each level, in all entries together
    order = depth_first_rows(levels)
    is_opened = np.zeros(len(order), bool)
    for start, rows in zip(starts, opened, strict=False):
        is_opened[start + rows] = True
    entries = order[is_opened[order]]
    row_of = np.zeros(len(order), np.int64)
    row_of[entries] = np.arange(1, len(entries) + 1)
    depth = np.searchsorted(starts, entries, side="right")
    above = np.concatenate([level.parent for level in levels])[entries]
    above += np.append(0, starts)[depth - 1]
    parent = np.append(0, row_of[above] * (depth > 1))
    depth = np.append(0, depth)
    names = Names.concat([level.names for level in levels]).take(entries).tolist()
    numbers = np.concatenate([level.number for level in levels])[entries]
    return _Directories(
        np.append(number, numbers), parent, depth, _last_below(parent, depth),
        Names.of([path, *names]),
    )  # fmt: skip


def _last_below(parent: Rows, depth: Int64s) -> Rows:
    """The last row below each directory, its own for none; computed from the deepest level up."""
    last = np.arange(len(parent))
    ends = np.cumsum(np.bincount(depth))
    for rows in np.split(np.argsort(depth, kind="stable"), ends[:-1])[:0:-1]:
        np.maximum.at(last, parent[rows], last[rows])
    return last


def _parts(fs: Inodes, directories: _Directories, blocks: int) -> Iterator[range]:
    """Rows of directories in parts with at most `blocks` blocks in total, or of one directory."""
    start, count = 0, len(directories)
    while start < count:
        some = slice(start, start + DIRECTORIES_AT_ONCE)
        size = fs.inode_table(directories.number[some]).size
        ends = np.cumsum(np.maximum(-(-size // fs.superblock.block_size), 1))
        while start < some.stop and len(ends):
            taken = max(int(np.searchsorted(ends, blocks, side="right")), 1)
            yield range(start, start + taken)
            start, ends = start + taken, ends[taken:] - ends[taken - 1]


def _read(fs: Inodes, directories: _Directories, part: range, bounds: TreeLimits) -> _Entries:
    """The entries of some directories, in the order of `after`.

    Args:
        fs: the file system.
        directories: all directories.
        part: rows of the directories to read.
        bounds: as for `directory_blocks`.
    """
    rows = np.arange(part.start, part.stop)
    level, children = read_level(fs, directories.number[rows], rows, bounds, None)
    below = directories.rows_of(level.number[children])
    is_read = (below > 0) & (directories.parent[below] == level.parent[children])
    is_read[is_read] = first_occurrence(below[is_read])
    child, below = children[is_read], below[is_read]
    before = np.searchsorted(child, np.arange(len(level.number))) - 1
    has_one = before >= 0
    has_one[has_one] = level.parent[child[before[has_one]]] == level.parent[has_one]
    after = level.parent.copy()
    after[has_one] = directories.last[below[before[has_one]]]
    entries = _Entries(after, level.parent, level.number, level.file_type, level.names)
    return entries.take(np.argsort(after, kind="stable"))


def _as_tree(directories: _Directories, entries: _Entries, path: bytes) -> DirTree:
    rows, folder = np.unique(entries.parent, return_inverse=True)
    folders = directories.paths(rows, path)
    return DirTree(entries.number, entries.file_type, entries.names, folder, folders)
