"""Directories: the entries of many directories at once, and whole trees level by level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import add

import numpy as np

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, RowSlice
from ext4kit.errors import CorruptError
from ext4kit.filesystem.block_maps import first_met
from ext4kit.filesystem.blocks import SourceBlocks
from ext4kit.filesystem.inodes import Inodes
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.parsers.directory import EntryTable, Names, parse_entries
from ext4kit.parsers.inode import InodeFlags, InodeTable
from ext4kit.problems import Severity

DIRECTORY_TYPE = 2
BLOCKS_AT_ONCE = 1024
SPARE_TEXT = 64 << 20
LONGEST_PATH = 1 << 14  # bytes; four times the kernel's PATH_MAX


@dataclass(frozen=True, slots=True)
class DirEntry:
    """One directory entry; `file_type` as in `parsers.directory.FILE_TYPES`."""

    name: bytes
    inode: int
    file_type: int


@dataclass(frozen=True, slots=True)
class DirListing(Table):
    """The entries of several directories as columns.

    Attributes:
        owner: row of the directory in the requested table, ascending.
        inode: inode number of each entry.
        file_type: as stored; 0 without the filetype feature.
        names: the stored names.
    """

    owner: Int64s
    inode: Int64s
    file_type: Int64s
    names: Names


@dataclass(frozen=True)
class DirTree:
    """Everything below a directory, in the order of a depth-first walk.

    Attributes:
        inode: inode number of each entry.
        file_type: as stored in the entry.
        names: the name of each entry.
        folder: row in `folders` of the directory of each entry.
        folders: path of each directory that has entries.
    """

    inode: Int64s
    file_type: Int64s
    names: Names
    folder: Int64s
    folders: list[bytes]

    def __len__(self) -> int:
        return len(self.inode)

    @classmethod
    def empty(cls) -> DirTree:
        """A tree without entries."""
        none = np.zeros(0, np.int64)
        return cls(none, none, Names.empty(), none, [])

    def followed_by(self, other: DirTree) -> DirTree:
        """These entries, then those of another tree."""
        return DirTree(
            np.concatenate([self.inode, other.inode]),
            np.concatenate([self.file_type, other.file_type]),
            Names.concat([self.names, other.names]),
            np.concatenate([self.folder, other.folder + len(self.folders)]),
            self.folders + other.folders,
        )

    def batches(self, size: int) -> Iterator[RowSlice]:
        """The rows in batches of `size` entries."""
        return (slice(at, min(at + size, len(self))) for at in range(0, len(self), size))

    @cached_property
    def paths(self) -> list[bytes]:
        """Full path of each entry."""
        return self.paths_of(slice(None))

    def paths_of(self, rows: Rows | RowSlice) -> list[bytes]:
        """Full path of the entries that `rows` selects."""
        prefixes = [folder + b"/" for folder in self.folders]
        within = map(prefixes.__getitem__, self.folder[rows].tolist())
        return list(map(add, within, self.names.take(rows).tolist()))

    def name_runs(self) -> Iterator[tuple[int, slice[int, int, None], bytes]]:
        """Entries of one directory whose names are consecutive in memory.

        Yields:
            The row in `folders`, the rows of the entries, and their names, each preceded by a
            newline.
        """
        if not len(self):
            return
        start, stop = self.names.start - 1, self.names.start + self.names.length
        cut = (self.folder[1:] != self.folder[:-1]) | (start[1:] != stop[:-1])
        last = np.append(np.flatnonzero(cut), len(self) - 1)
        first = np.concatenate([[0], last[:-1] + 1])
        columns = (self.folder[first], first, last + 1, start[first], stop[last])
        data = self.names.data
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for folder, a, b, start_byte, stop_byte in rows:
            yield folder, slice(a, b), data[start_byte:stop_byte]


@dataclass(slots=True)
class TreeLimits:
    """The remaining limits of a tree, which end the reading of an endless (hostile) tree.

    Attributes:
        blocks: directory blocks; at most the blocks of the evidence, because each has one owner.
        text: bytes of the paths of all entries.
    """

    blocks: int
    text: int

    @classmethod
    def of(cls, fs: Inodes) -> TreeLimits:
        """The limits of a file system; an entry and its inode need more space than a usual path."""
        count, size = fs.blocks.blocks_count, fs.blocks.block_size
        return cls(count, SPARE_TEXT + count * size)

    def take_text(self, lengths: Int64s) -> int:
        """Number of paths, given their lengths in bytes, that can still be listed."""
        ends = np.cumsum(lengths)
        count = int(np.searchsorted(ends, self.text, side="right"))
        self.text -= int(ends[count - 1]) if count else 0
        return count

    def tell(self, fs: Inodes, lost: int) -> None:
        """Report a number of entries that are not listed because of the limits."""
        fs.tree_was_cut = True
        what = "the directory tree exceeds the limits (loop or hostile data)"
        fs.problems.add("directories", f"{what}; at least {lost:,} entries are not listed")


# (entries, their blocks, inode number of the directory of each entry) -> True for those to keep
EntryFilter = Callable[[EntryTable, Bytes2D, Int64s], Bools]


def with_inodes(numbers: Int64s) -> EntryFilter:
    """A filter that keeps the entries of these inodes."""
    return lambda entries, *_: np.isin(entries.inode, numbers)


def directories_only(entries: EntryTable, _blocks: Bytes2D, _directory: Int64s) -> Bools:
    """A filter that keeps no entries except those of directories."""
    return np.zeros(len(entries), bool)


def with_names(fits: Callable[[bytes], bool]) -> EntryFilter:
    """A filter that keeps the entries whose names fulfil `fits`."""
    return lambda entries, blocks, _: np.array(list(map(fits, entries.names(blocks))), bool)


def directory_blocks(
    fs: Inodes, table: InodeTable, bounds: TreeLimits | None = None
) -> tuple[Rows, Int64s]:
    """(owner row, block) of every block of the directories, in order of file block.

    Args:
        fs: the file system.
        table: the directories.
        bounds: limits of the tree that contains the directories; blocks beyond them are reported.
    """
    runs = fs.map_table(table).runs
    limit = -(-table.size[runs.owner] // fs.superblock.block_size)
    length = np.clip(limit - runs.logical, 0, runs.length)
    bounds = TreeLimits.of(fs) if bounds is None else bounds
    inside = np.clip(fs.blocks.blocks_count - runs.physical, 0, length)
    kept = np.clip(inside - np.maximum(np.cumsum(inside) - bounds.blocks, 0), 0, None)
    for cut, what in ((inside < length, fs.unreadable), (kept < inside, "are there too often")):
        for row in np.flatnonzero(cut)[: fs.problems.limit].tolist():
            number, first = table.number[runs.owner[row]], runs.physical[row]
            fs.problems.add(f"directory inode {number}", f"blocks from {first} on {what}")
    bounds.blocks -= int(kept.sum())
    row, position = expand(kept)
    return runs.owner[row], runs.physical[row] + position


def read_directories(
    fs: Inodes,
    table: InodeTable,
    dots: bool = True,
    bounds: TreeLimits | None = None,
    only: EntryFilter | None = None,
) -> DirListing:
    """The entries of all directories in the table.

    Args:
        fs: the file system.
        table: the directories.
        dots: include `.` and `..`.
        bounds: as for `directory_blocks`.
        only: filter of the entries other than directories; all are kept by default.
    """
    owner, block = directory_blocks(fs, table, bounds)

    def read(piece: RowSlice) -> tuple[DirListing, Bools, Int64s]:
        rows, readable = fs.fetch(block[piece])
        entries, broken = parse_entries(rows, fs.has_file_types, dots=dots)
        if only is not None:
            may_be_directory = np.isin(entries.file_type, (0, DIRECTORY_TYPE))
            directory = table.number[owner[piece]][entries.block]
            entries = entries.take(may_be_directory | only(entries, rows, directory))
        return _to_listing(entries, rows, owner[piece]), readable, broken

    is_plain = isinstance(fs.blocks, SourceBlocks)
    ways = prefetch_map if is_plain and len(block) > BLOCKS_AT_ONCE else map
    pieces = [slice(at, at + BLOCKS_AT_ONCE) for at in range(0, len(block), BLOCKS_AT_ONCE)]
    parts = []
    for piece, (listing, readable, broken) in zip(pieces, ways(read, pieces), strict=True):
        bad = np.flatnonzero(~readable | (broken != -1))
        for row in bad[: fs.problems.limit].tolist():
            what = f"block {block[piece][row]} {fs.unreadable}"
            if readable[row]:
                what = f"block {block[piece][row]}: invalid entry at byte {broken[row]}"
            fs.problems.add(f"directory inode {table.number[owner[piece][row]]}", what)
        parts.append(listing)
    inline = np.flatnonzero((table.flags & int(InodeFlags.INLINE_DATA)) != 0)
    if len(inline):
        parts += _read_inline(fs, table, inline, dots)
    if len(parts) == 1:
        return parts[0]
    found = DirListing.concat(parts)
    in_order = (found.owner[1:] >= found.owner[:-1]).all()
    return found if in_order else found.take(np.argsort(found.owner, kind="stable"))


def _to_listing(entries: EntryTable, data: Bytes2D, owner: Rows) -> DirListing:
    """The entries as a listing; `owner` has one row per block."""
    names = entries.packed_names(data)
    return DirListing(owner[entries.block], entries.inode, entries.file_type, names)


def _read_inline(fs: Inodes, table: InodeTable, inline: Rows, dots: bool) -> list[DirListing]:
    """Entries in inodes: the inode number of `..`, then entries, then more in `system.data`."""
    typed = fs.has_file_types
    body = np.ascontiguousarray(table.i_block[inline])
    parents = body[:, :4].copy().view("<u4")[:, 0].astype(np.int64)
    entries, broken = parse_entries(body, typed, start=4, dots=dots)
    for row in np.flatnonzero(broken >= 0)[: fs.problems.limit].tolist():
        _tell_broken_inline(fs, int(table.number[inline[row]]), int(broken[row]))
    kind = np.full(len(inline), DIRECTORY_TYPE * typed)
    parts = [
        DirListing(inline, table.number[inline], kind, Names.of([b"."] * len(inline))),
        DirListing(inline, parents, kind, Names.of([b".."] * len(inline))),
    ]
    parts = parts if dots else []
    parts.append(_to_listing(entries, body, inline))
    for row in inline[table.size[inline] > 60].tolist():
        parts.append(_read_inline_tail(fs, table, row, dots))
    return parts


def _read_inline_tail(fs: Inodes, table: InodeTable, row: int, dots: bool) -> DirListing:
    from ext4kit.filesystem.xattrs import inline_data_tail

    number, extra = int(table.number[row]), int(table.extra_isize[row])
    try:
        tail = inline_data_tail(table.raw[row].tobytes(), extra)[: int(table.size[row]) - 60]
    except CorruptError as error:
        fs.problems.add(f"directory inode {number}", f"a part of its entries is lost: {error}")
        tail = b""
    data = np.frombuffer(tail, np.uint8)[None, :]
    entries, broken = parse_entries(data, fs.has_file_types, dots=dots)
    if broken[0] >= 0:
        _tell_broken_inline(fs, number, 60 + int(broken[0]))
    return _to_listing(entries, data, np.array([row]))


def _tell_broken_inline(fs: Inodes, number: int, offset: int) -> None:
    fs.problems.add(f"directory inode {number}", f"invalid inline entry at byte {offset}")


@dataclass(frozen=True, slots=True)
class TreeLevel(Table):
    """One level of a tree: entries grouped by the row of their directory in the level above."""

    parent: Int64s
    number: Int64s
    file_type: Int64s
    names: Names


def read_tree(
    fs: Inodes, number: int, path: bytes = b"", only: EntryFilter | None = None
) -> DirTree:
    """The entries below directory `number`, whose own path is `path`.

    Args:
        fs: the file system.
        number: inode number of the directory.
        path: path of the directory.
        only: as for `read_directories`; all entries by default.
    """
    return _depth_first(read_levels(fs, number, path, only)[0], path)


def read_trees_below(
    fs: Inodes, tops: TreeLevel, path: bytes, only: EntryFilter | None = None
) -> DirTree:
    """Given entries of a directory that does not exist, with all entries below them.

    Args:
        fs: the file system.
        tops: the entries.
        path: path of the directory.
        only: as for `read_tree`.
    """
    return _depth_first(read_levels(fs, 0, path, only, tops)[0], path)


def read_levels(
    fs: Inodes, number: int, path: bytes, only: EntryFilter | None, tops: TreeLevel | None = None
) -> tuple[list[TreeLevel], list[Rows]]:
    """(levels of a tree, for each level the rows of the directories that were read).

    A directory that is reached twice is read only once. The arguments are those of `read_tree`;
    `tops` is the first level, if it is known.
    """
    levels: list[TreeLevel] = []
    opened: list[Rows] = []
    bounds = TreeLimits.of(fs)
    seen = np.array([number], np.int64)
    frontier, rows, above = seen, np.zeros(1, np.int64), np.array([len(path)])
    if tops is not None:
        levels.append(tops)
        rows = np.flatnonzero(tops.file_type == DIRECTORY_TYPE)
        opened.append(rows)
        frontier = seen = tops.number[rows]
        above = len(path) + 1 + tops.names.length
    while len(frontier):
        level, children = read_level(fs, frontier, rows, bounds, only)
        level, children, above = _limit_level(fs, level, children, above, bounds)
        levels.append(level)
        fresh = first_met(level.number[children], seen)
        for again in level.number[children[~fresh]][: fs.problems.limit].tolist():
            fs.problems.add(f"directory inode {again}", "is reached twice; listed once")
        rows = children[fresh]
        opened.append(rows)
        frontier = level.number[rows]
        seen = np.concatenate([seen, frontier])
    return levels, opened


def _limit_level(
    fs: Inodes, level: TreeLevel, children: Rows, above: Int64s, bounds: TreeLimits
) -> tuple[TreeLevel, Rows, Int64s]:
    """(level without entries beyond the limit, its `children`, path length of each entry).

    Args:
        fs: the file system.
        level: the entries.
        children: rows of the directories among the entries.
        above: path length of each entry of the level above.
        bounds: the remaining limits.
    """
    length = above[level.parent] + 1 + level.names.length
    count = bounds.take_text(length)
    deep = children[(children < count) & (length[children] > LONGEST_PATH)]
    for entry in deep[: fs.problems.limit].tolist():
        fs.tree_was_cut = True
        what = "is nested too deep; files below it are not listed"
        fs.problems.add(f"directory inode {level.number[entry]}", what)
    children = children[(children < count) & (length[children] <= LONGEST_PATH)]
    if count == len(length):
        return level, children, length
    bounds.tell(fs, len(length) - count)
    return level.take(slice(count)), children, length[:count]


def read_level(
    fs: Inodes, numbers: Int64s, rows: Rows, bounds: TreeLimits, only: EntryFilter | None
) -> tuple[TreeLevel, Rows]:
    """(entries of the directories `numbers`, rows of the directories among those entries).

    Args:
        fs: the file system.
        numbers: inode numbers of the directories.
        rows: the `parent` value for the entries of each directory, ascending.
        bounds: as for `directory_blocks`.
        only: as for `read_directories`.
    """
    table = fs.inode_table(numbers)
    wrong = ~table.is_dir
    for number in numbers[wrong & fs.inodes_known(numbers)][: fs.problems.limit].tolist():
        what = "a directory entry has type directory, but the inode is not a directory"
        fs.problems.add(f"inode {number}", what)
    table, rows = table.take(~wrong), rows[~wrong]
    listing = read_directories(fs, table, dots=False, bounds=bounds, only=only)
    level = TreeLevel(rows[listing.owner], listing.inode, listing.file_type, listing.names)
    inside = (level.number > 0) & (level.number <= fs.superblock.inodes_count)
    for number in level.number[~inside][: fs.problems.limit].tolist():
        fs.problems.add(f"inode {number}", "is named by an entry and cannot exist", Severity.ERROR)
    found = inside & (level.file_type == DIRECTORY_TYPE)
    unknown = np.flatnonzero(inside & (level.file_type == 0))
    if len(unknown):
        found[unknown] = fs.inode_table(level.number[unknown]).is_dir
    return level, np.flatnonzero(found)


def _depth_first(levels: list[TreeLevel], path: bytes) -> DirTree:
    """Convert breadth-first levels to a depth-first tree; empties the list to save memory."""
    rows = depth_first_rows(levels)
    folder, folders = _directory_paths(levels, path)
    folder = folder[rows]
    inode = np.concatenate([level.number for level in levels])[rows]
    file_type = np.concatenate([level.file_type for level in levels])[rows]
    names = [level.names for level in levels]
    levels.clear()
    packed = Names.concat(names)
    names.clear()
    return DirTree(inode, file_type, packed.take(rows), folder, folders)


def depth_first_rows(levels: list[TreeLevel]) -> Rows:
    """The order of a depth-first walk, as rows of all levels together; without recursion.

    The position of an entry is its parent's position, plus one, plus the sizes of the subtrees
    of the siblings before it.
    """
    sizes = [np.ones(len(level.names), np.int64) for level in levels]
    for below, above, level in zip(sizes[:0:-1], sizes[-2::-1], levels[:0:-1], strict=True):
        np.add.at(above, level.parent, below)
    places = [np.array([-1])]
    for size, level in zip(sizes, levels, strict=True):
        first, group = _groups(level.parent)
        before = np.cumsum(size) - size
        places.append(places[-1][level.parent] + 1 + before - before[first][group])
    place = np.concatenate(places[1:])
    rows = np.empty_like(place)
    rows[place] = np.arange(len(place))
    return rows


def _groups(parent: Int64s) -> tuple[Rows, Rows]:
    """(first row of each group of equal parents, group of each row); parents are ascending."""
    new = starts_group(parent)
    return np.flatnonzero(new), np.cumsum(new) - 1


def _directory_paths(levels: list[TreeLevel], path: bytes) -> tuple[Rows, list[bytes]]:
    """(row of each entry's directory, for all levels together; path of each such directory)."""
    rows: list[Rows] = []
    folders = [path]
    for number, level in enumerate(levels):
        first, group = _groups(level.parent)
        if number:
            entries = level.parent[first]
            names = levels[number - 1].names.take(entries).tolist()
            above = map(folders.__getitem__, rows[-1][entries].tolist())
            folders += [f + b"/" + name for f, name in zip(above, names, strict=True)]
        rows.append(group + len(folders) - len(first))
    return np.concatenate(rows), folders
