"""Live files that meet the conditions of a selection."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, UInt16s
from ext4kit.errors import CorruptError
from ext4kit.fields import FileType
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.filesystem import FileSystem
from ext4kit.filesystem.view import NodeId
from ext4kit.parsers.inode import KINDS, Inode, InodeTable
from ext4kit.selection import Limits, Selection


def selected_rows(
    fs: FileSystem, selection: Selection, paths: list[bytes], numbers: Int64s
) -> Rows:
    """Rows of the selected files; inodes of unknown state are included.

    Args:
        fs: the file system.
        selection: the conditions.
        paths: full paths of the files.
        numbers: inode numbers of the files.
    """
    if selection.is_everything:
        return np.arange(len(paths))
    rows = np.flatnonzero(
        [
            selection.matches_path(path, None) and selection.matches_name(path.rpartition(b"/")[2])
            for path in paths
        ]
    )
    table = fs.inode_table(numbers[rows])
    known = fs.inodes_known(table.number)
    kept = ~known | _meets_conditions(table, selection)
    if selection.places is not None:
        is_directory = known & are_of_types(table.mode, frozenset(("directory",)))
        for place in np.flatnonzero(kept & is_directory).tolist():
            kept[place] = selection.matches_path(paths[rows[place]], None, is_directory=True)
    if selection.content is not None:
        for place in np.flatnonzero(kept & known).tolist():
            name = paths[rows[place]].rpartition(b"/")[2]
            kept[place] = selection.content(_head(fs, table.one(place)), name)
    if selection.known is not None:
        for place in np.flatnonzero(kept).tolist():
            kept[place] = selection.known(*known_key_of(fs, table, place, bool(known[place])))
    return rows[kept]


def _meets_conditions(table: InodeTable, selection: Selection) -> Bools:
    kept = np.full(len(table), not selection.grades and selection.deleted == Limits())
    if selection.numbers:
        kept &= np.isin(table.number, selection.numbers)
    if selection.owners:
        kept &= np.isin(table.uid, selection.owners)
    if selection.types:
        kept &= are_of_types(table.mode, selection.types)
    for values, limits in ((table.size, selection.size), (table.mtime, selection.modified)):
        if limits.least is not None:
            kept &= values >= limits.least
        if limits.most is not None:
            kept &= values <= limits.most
    return kept


def are_of_types(mode: Int64s | UInt16s, types: frozenset[FileType]) -> Bools:
    """True for each mode of one of these file types."""
    modes = [mode for mode, kind in KINDS.items() if kind in types]
    found: Bools = np.isin(mode & 0xF000, modes)
    return found


def known_key_of(
    fs: FileSystem, table: InodeTable, row: int, is_known: bool = True
) -> tuple[Hashable, Callable[[], object]]:
    """What tells whether a live file is known, as `selection.known_key` gives it of a node."""
    number, generation = int(table.number[row]), int(table.generation[row])
    has_content = is_known and bool(table.is_regular[row])
    opened = partial(_content, fs, table, row) if has_content else lambda: None
    return NodeId(fs.state, number, generation), opened


def _content(fs: FileSystem, table: InodeTable, row: int) -> Content:
    """The content of an inode, which is taken from the table when it is asked for."""
    return fs.content(table.one(row))


def _head(fs: FileSystem, inode: Inode) -> bytes:
    if inode.kind != "file":
        return b""
    try:
        return fs.content(inode).head()
    except CorruptError:
        return b""
