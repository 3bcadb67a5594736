"""ext4kit's reading of the live tree: names by directory, inodes as columns."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.types import Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import read_tree
from ext4kit.filesystem.inodes import INODES_AT_ONCE, ROOT
from ext4kit.parsers.inode import COLUMN_SECONDS
from ext4kit.units import NANOSECONDS

PLAIN = ("mode", "uid", "gid", "links_count", "size", "flags", "extra_isize")
TimeField = Literal["atime", "mtime", "ctime", "crtime"]
TIMES: tuple[TimeField, ...] = ("atime", "mtime", "ctime", "crtime")


class TreeView:
    """One view of the file system; row `len(tree)` is the root itself.

    Attributes:
        tree: all entries below the root.
        number: inode number of each row.
    """

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self.tree = read_tree(fs, ROOT)  # without unattached files, as in The Sleuth Kit
        self.number = np.append(self.tree.inode, ROOT)
        self._order = np.argsort(self.tree.folder, kind="stable")
        self._edges = row_bounds(self.tree.folder[self._order], len(self.tree.folders))

    @cached_property
    def _folders(self) -> dict[bytes, int]:
        return {path: place for place, path in enumerate(self.tree.folders)}

    def within(self, folder: bytes) -> dict[bytes, list[int]]:
        """The rows of the entries of a directory (given by its path), by name.

        In an undamaged directory, each name has one row.
        """
        place = self._folders.get(folder)
        if place is None:
            return {}
        rows = self._order[self._edges[place] : self._edges[place + 1]]
        found: dict[bytes, list[int]] = {}
        for name, row in zip(self.tree.names.take(rows).tolist(), rows.tolist(), strict=True):
            found.setdefault(name, []).append(row)
        return found

    def path(self, row: int) -> bytes:
        """Full path of a row."""
        if row == len(self.tree):
            return b"/"
        return self.tree.paths_of(slice(row, row + 1))[0]

    @cached_property
    def row_of_folder(self) -> dict[bytes, int]:
        """The row of each possible directory, by path.

        A path alone cannot be split, because encrypted names may contain a slash.
        """
        kind = self.columns["mode"][: len(self.tree)] & 0xF000
        rows = np.flatnonzero(kind == 0o040000)
        found = dict(zip(self.tree.paths_of(rows), rows.tolist(), strict=True))
        return found | {b"": len(self.tree)}

    def folder(self, row: int) -> bytes:
        """Path of the directory of a row, "" for rows in the root."""
        return self.tree.folders[int(self.tree.folder[row])] if row < len(self.tree) else b""

    @cached_property
    def columns(self) -> dict[str, Int64s]:
        """Inode values of each row; times in seconds, and their nanoseconds as `_ns`."""
        found: dict[str, list[Int64s]] = {}
        for start in range(0, len(self.number), INODES_AT_ONCE):
            table = self.fs.inode_table(self.number[start : start + INODES_AT_ONCE])
            columns = {name: getattr(table, name) for name in PLAIN}
            for name in TIMES:
                seconds, rest = np.divmod(getattr(table, name), NANOSECONDS)
                for row in np.flatnonzero(seconds >= COLUMN_SECONDS).tolist():
                    exact = getattr(table.one(row), name) or 0
                    seconds[row], rest[row] = divmod(exact, NANOSECONDS)
                columns |= {name: seconds, f"{name}_ns": rest}
            for key, column in columns.items():
                found.setdefault(key, []).append(column)
        return {name: np.concatenate(parts) for name, parts in found.items()}
