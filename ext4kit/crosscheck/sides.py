"""ext4kit's reading of the live tree: names by directory, inodes as columns."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.filesystem.inodes import INODES_AT_ONCE
from ext4kit.parsers.inode import COLUMN_SECONDS
from ext4kit.units import NANOSECONDS

PLAIN = ("mode", "uid", "gid", "links_count", "size", "flags", "extra_isize")
TIMES: tuple[Literal["atime", "mtime", "ctime", "crtime"], ...] = (
    "atime",
    "mtime",
    "ctime",
    "crtime",
)


class TreeView:
    """One view of the file system; row `len(tree)` is the root itself.

    Attributes:
        tree: all entries below the root.
        number: inode number of each row, int64.
    """

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self.tree = fs.tree()
        self.number = np.append(self.tree.inode, ROOT)
        self._order = np.argsort(self.tree.folder, kind="stable")
        edges = np.arange(len(self.tree.folders) + 1)
        self._edges = np.searchsorted(self.tree.folder[self._order], edges)

    @cached_property
    def _folders(self) -> dict[bytes, int]:
        return {path: place for place, path in enumerate(self.tree.folders)}

    def within(self, folder: bytes) -> dict[bytes, list[int]]:
        """Name to rows of the entries of a directory, given by its path.

        An undamaged directory has each name once.
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
    def _rows_of_folders(self) -> dict[bytes, int]:
        """Path to row of all possible directories, because a path alone cannot be split.

        Encrypted names may contain a slash.
        """
        kind = self.columns["mode"][: len(self.tree)] & 0xF000
        rows = np.flatnonzero(kind == 0o040000)
        found = dict(zip(self.tree.paths_of(rows), rows.tolist(), strict=True))
        return found | {b"": len(self.tree)}

    def row_of_folder(self, path: bytes) -> int | None:
        """The row of a directory, given by its path."""
        return self._rows_of_folders.get(path)

    def folder(self, row: int) -> bytes:
        """Path of the directory of a row, "" for rows in the root."""
        return self.tree.folders[int(self.tree.folder[row])] if row < len(self.tree) else b""

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Inode values of each row, int64; times in seconds, and their nanoseconds as `_ns`."""
        parts = [
            self._columns(self.number[start : start + INODES_AT_ONCE])
            for start in range(0, len(self.number), INODES_AT_ONCE)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _columns(self, numbers: Any) -> dict[str, Any]:
        table = self.fs.inode_table(numbers)
        found = {name: getattr(table, name) for name in PLAIN}
        for name in TIMES:
            moment = getattr(table, name)
            seconds, rest = np.divmod(moment, NANOSECONDS)
            for row in np.flatnonzero(seconds >= COLUMN_SECONDS).tolist():
                exact = getattr(table.one(row), name) or 0
                seconds[row], rest[row] = divmod(exact, NANOSECONDS)
            found |= {name: seconds, f"{name}_ns": rest}
        return found
