"""Live files that meet the conditions of a selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, UInt16s
from ext4kit.errors import AccessError, CorruptError
from ext4kit.fields import FileType
from ext4kit.filesystem.filesystem import FileSystem
from ext4kit.filesystem.inodes import ROOT
from ext4kit.parsers.inode import KINDS, Inode, InodeTable
from ext4kit.selection import Limits, Selection

HEAD_BYTES = 64 << 10  # of a content, to tell its type


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """The selected ones of some consecutive names below a directory.

    Attributes:
        paths: their full paths; table: their inodes.
        places: place of each among all names of the walk.
        start, end: places of the first of the names, selected or not, and behind the last one.
        total: number of all names; an estimate where they are very many.
    """

    paths: list[bytes]
    table: InodeTable
    places: Rows
    start: int
    end: int
    total: int


def selected_files(
    fs: FileSystem, selection: Selection, at_once: int, number: int = ROOT, path: bytes = b""
) -> Iterator[SelectedFiles]:
    """The selected files below a directory, in tree order.

    Args:
        fs: the file system.
        selection: the conditions.
        at_once: names that are looked at together.
        number: inode number of the directory.
        path: its path.
    """
    start = 0
    for tree in fs.tree_pieces(number, path):
        total = max(fs.names_expected(number), start + len(tree))
        for some in tree.batches(at_once):
            paths, numbers = tree.paths_of(some), tree.inode[some]
            rows = selected_rows(fs, selection, paths, numbers)
            chosen = [paths[row] for row in rows.tolist()]
            table, end = fs.inode_table(numbers[rows]), start + len(paths)
            yield SelectedFiles(chosen, table, start + rows, start, end, total)
            start = end


def selected_rows(
    fs: FileSystem, selection: Selection, paths: list[bytes], numbers: Int64s
) -> Rows:
    """Rows of the selected files; an inode whose state is unknown is not left out.

    Args:
        fs: the file system.
        selection: the conditions.
        paths: full paths of the files.
        numbers: their inode numbers.
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
    if selection.content is not None:
        for place in np.flatnonzero(kept & known).tolist():
            name = paths[rows[place]].rpartition(b"/")[2]
            kept[place] = selection.content(_head(fs, table.one(place)), name)
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


def _head(fs: FileSystem, inode: Inode) -> bytes:
    if inode.kind != "file":
        return b""
    try:
        return fs.content(inode).read(0, min(HEAD_BYTES, inode.size))
    except (AccessError, CorruptError):
        return b""
