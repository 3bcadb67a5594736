"""Directories: the entries of many at once, and whole trees level by level."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from ext4kit.filesystem.inodes import Inodes
from ext4kit.filesystem.xattrs import inline_tail
from ext4kit.findings import Severity
from ext4kit.parsers.directory import EntryTable, parse_entries
from ext4kit.parsers.inode import InodeFlags, InodeTable

DIRECTORY_TYPE = 2
BLOCKS_AT_ONCE = 16384


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory; `file_type` as in `parsers.directory.FILE_TYPES`."""

    name: bytes
    inode: int
    file_type: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of several directories as columns.

    Attributes:
        owner: row of the directory in the table that was asked for, ascending.
        inode: inode number of each entry.
        file_type: as stored; 0 without the filetype feature.
        names: the names as they are on disk.
    """

    owner: Any
    inode: Any
    file_type: Any
    names: list[bytes]


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below a directory, in the order of a depth-first walk.

    Attributes:
        paths: full path of each entry.
        number: inode numbers; file_type: as stored in the entry.
    """

    paths: list[bytes]
    number: Any
    file_type: Any

    def __len__(self) -> int:
        return len(self.paths)


def directory_blocks(fs: Inodes, table: InodeTable) -> tuple[Any, Any]:
    """(owner row, block) of every block of the directories, in order of file block."""
    runs = fs.map_table(table).data
    limit = -(-table.size[runs.owner] // fs.superblock.block_size)
    length = np.clip(limit - runs.logical, 0, runs.length)
    owner = np.repeat(runs.owner, length)
    starts = np.cumsum(length) - length
    block = np.arange(length.sum()) + np.repeat(runs.physical - starts, length)
    return owner, block


def read_directories(fs: Inodes, table: InodeTable, dots: bool = True) -> Listing:
    """The entries of all directories in the table.

    Args:
        fs: the file system.
        table: the directories.
        dots: `.` and `..` as well.
    """
    owner, block = directory_blocks(fs, table)
    parts = [
        _read_blocks(
            fs, table, owner[start : start + BLOCKS_AT_ONCE], block[start:][:BLOCKS_AT_ONCE], dots
        )
        for start in range(0, len(owner), BLOCKS_AT_ONCE)
    ]
    inline = np.flatnonzero((table.flags & int(InodeFlags.INLINE_DATA)) != 0)
    if len(inline):
        parts += _read_inline(fs, table, inline, dots)
    return _merged(parts)


def _merged(parts: list[Listing]) -> Listing:
    if len(parts) == 1:
        return parts[0]
    nothing = np.zeros(0, np.int64)
    owner = np.concatenate([nothing, *(part.owner for part in parts)])
    inode = np.concatenate([nothing, *(part.inode for part in parts)])
    kind = np.concatenate([nothing, *(part.file_type for part in parts)])
    names = [name for part in parts for name in part.names]
    if np.all(owner[1:] >= owner[:-1]):
        return Listing(owner, inode, kind, names)
    order = np.argsort(owner, kind="stable")
    return Listing(owner[order], inode[order], kind[order], [names[i] for i in order.tolist()])


def _read_blocks(fs: Inodes, table: InodeTable, owner: Any, block: Any, dots: bool) -> Listing:
    rows, readable = fs.fetch(block)
    entries, broken = parse_entries(rows, fs.has_file_types)
    damaged = np.flatnonzero((broken >= 0) | ~readable)
    for row in damaged[: fs.problems.limit].tolist():
        what = f"block {block[row]} cannot be read"
        if readable[row]:
            what = f"block {block[row]}: entries break off at byte {broken[row]}"
        fs.problems.add(f"directory inode {table.number[owner[row]]}", what)
    return _listed(entries, rows, owner, dots)


def _listed(entries: EntryTable, data: Any, owner: Any, dots: bool) -> Listing:
    """The entries as a listing; `owner` is a row a block."""
    if not dots:
        entries = entries.take(~entries.are_dots(data))
    return Listing(owner[entries.block], entries.inode, entries.file_type, entries.names(data))


def _read_inline(fs: Inodes, table: InodeTable, inline: Any, dots: bool) -> list[Listing]:
    """Entries kept in the inode: `..` as a number, then entries, then more in system.data."""
    typed = fs.has_file_types
    body = np.ascontiguousarray(table.i_block[inline])
    parents = body[:, :4].copy().view("<u4")[:, 0].astype(np.int64)
    entries, broken = parse_entries(body, typed, start=4)
    for row in np.flatnonzero(broken >= 0)[: fs.problems.limit].tolist():
        where = f"directory inode {table.number[inline[row]]}"
        fs.problems.add(where, f"inline entries break off at byte {broken[row]}")
    kind = np.full(len(inline), DIRECTORY_TYPE * typed)
    parts = [
        Listing(inline, table.number[inline], kind, [b"."] * len(inline)),
        Listing(inline, parents, kind, [b".."] * len(inline)),
    ]
    parts = parts if dots else []
    parts.append(_listed(entries, body, inline, dots))
    for row in inline[table.size[inline] > 60].tolist():
        parts.append(_read_inline_tail(fs, table, row, dots))
    return parts


def _read_inline_tail(fs: Inodes, table: InodeTable, row: int, dots: bool) -> Listing:
    raw, extra = table.raw[row].tobytes(), int(table.extra_isize[row])
    tail = inline_tail(raw, extra)[: max(int(table.size[row]) - 60, 0)]
    data = np.frombuffer(tail, np.uint8)[None, :]
    entries, _ = parse_entries(data, fs.has_file_types)
    return _listed(entries, data, np.array([row]), dots)


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of a tree: entries grouped by the row of their directory in the level above."""

    parent: Any
    number: Any
    file_type: Any
    names: list[bytes]


def read_tree(fs: Inodes, number: int, path: bytes = b"") -> Tree:
    """Everything below directory `number`, whose own path is `path`."""
    levels: list[_Level] = []
    seen = np.array([number], np.int64)
    frontier, rows = seen, np.zeros(1, np.int64)
    while len(frontier):
        level, children = _read_level(fs, frontier, rows)
        levels.append(level)
        fresh = np.zeros(len(children), bool)
        fresh[np.unique(level.number[children], return_index=True)[1]] = True
        fresh &= ~np.isin(level.number[children], seen)
        for again in level.number[children[~fresh]][: fs.problems.limit].tolist():
            fs.problems.add(f"directory inode {again}", "is reached twice; listed once")
        rows = children[fresh]
        frontier = level.number[rows]
        seen = np.concatenate([seen, frontier])
    return _depth_first(levels, path)


def _read_level(fs: Inodes, numbers: Any, rows: Any) -> tuple[_Level, Any]:
    """Entries of the directories `numbers`, and which of those entries are directories."""
    table = fs.inode_table(numbers)
    wrong = (table.mode & 0xF000) != 0x4000
    for number in numbers[wrong][: fs.problems.limit].tolist():
        fs.problems.add(f"inode {number}", "is named as a directory and is none")
    table, rows = table.take(~wrong), rows[~wrong]
    listing = read_directories(fs, table, dots=False)
    level = _Level(rows[listing.owner], listing.inode, listing.file_type, listing.names)
    inside = (level.number > 0) & (level.number <= fs.superblock.inodes_count)
    for number in level.number[~inside][: fs.problems.limit].tolist():
        fs.problems.add(f"inode {number}", "is named by an entry and cannot exist", Severity.ERROR)
    return level, np.flatnonzero(inside & _are_directories(fs, level, inside))


def _are_directories(fs: Inodes, level: _Level, inside: Any) -> Any:
    found = level.file_type == DIRECTORY_TYPE
    unknown = np.flatnonzero(inside & (level.file_type == 0))
    if len(unknown):
        table = fs.inode_table(level.number[unknown])
        found[unknown] = (table.mode & 0xF000) == 0x4000
    return found


def _depth_first(levels: list[_Level], path: bytes) -> Tree:
    """Put breadth-first levels into the order of a depth-first walk, without recursion.

    An entry's place is its parent's place, plus one, plus the sizes of the subtrees of the
    siblings before it.
    """
    sizes = [np.ones(len(level.names), np.int64) for level in levels]
    for below, above, level in zip(sizes[:0:-1], sizes[-2::-1], levels[:0:-1], strict=True):
        np.add.at(above, level.parent, below)
    places, paths = [np.array([-1])], [[path]]
    for size, level in zip(sizes, levels, strict=True):
        order = np.argsort(level.parent, kind="stable")
        before = np.cumsum(size[order]) - size[order]
        starts = np.searchsorted(level.parent[order], level.parent[order])
        place = np.empty(len(size), np.int64)
        place[order] = places[-1][level.parent[order]] + 1 + before - before[starts]
        places.append(place)
        paths.append(_joined_paths(paths[-1], level))
    place = np.concatenate(places[1:])
    back = np.empty_like(place)
    back[place] = np.arange(len(place))
    flat = list(chain.from_iterable(paths[1:]))
    return Tree(
        list(map(flat.__getitem__, back.tolist())),
        np.concatenate([level.number for level in levels])[back],
        np.concatenate([level.file_type for level in levels])[back],
    )


def _joined_paths(above: list[bytes], level: _Level) -> list[bytes]:
    """Full paths of a level's entries: each directory's own path is spelled once."""
    folders, row = np.unique(level.parent, return_inverse=True)
    prefixes = [above[folder] + b"/" for folder in folders.tolist()]
    return list(map(add, map(prefixes.__getitem__, row.tolist()), level.names))
