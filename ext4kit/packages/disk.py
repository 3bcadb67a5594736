"""The files of a system on the disk, and where listed paths are among them."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.links import Names, followed
from ext4kit.filesystem.live_view import LiveBatch, LiveNode, LiveView
from ext4kit.filesystem.view import Node, View, WalkBatch
from ext4kit.parsers.inode import InodeTable
from ext4kit.units import Progress


@dataclass(frozen=True, slots=True)
class DiskFiles(Table):
    """Names on the disk, as columns (n,).

    Attributes:
        path: below the root directory of the system, with a slash before it.
        number: inode number.
        content: number of the inode that has the bytes, which in layers of overlayfs may be another
            one; 0 for none.
        mode, uid, gid, size, ctime: of the inode; ctime in ns.
        is_known: False where the state of the inode is not known (as of a transaction), or where
            no layer has the content.
    """

    path: list[bytes]
    number: Int64s
    content: Int64s
    mode: Int64s
    uid: Int64s
    gid: Int64s
    size: Int64s
    ctime: Int64s
    is_known: Bools

    @property
    def kind(self) -> Int64s:
        """The type bits of the mode."""
        return self.mode & stat.S_IFMT(0o177777)


class DiskTree:
    """The names below the root directory of a system that matter for its packages.

    Args:
        fs: the file system.
        files: the names.
        merged: inodes of directories by path, of those that have several in layers of overlayfs and
            of the root directory, b"".
    """

    def __init__(
        self, fs: FileSystem, files: DiskFiles, merged: Mapping[bytes, tuple[int, ...]]
    ) -> None:
        self.fs, self.files, self._merged = fs, files, merged
        self._real: dict[bytes, bytes] = {}

    @classmethod
    def read(
        cls,
        fs: FileSystem,
        root: Node,
        is_wanted: Callable[[bytes, bytes], bool],
        progress: Progress | None = None,
    ) -> DiskTree:
        """The names that matter, from one walk.

        Args:
            fs: the file system.
            root: the root directory of the system.
            is_wanted: whether a name matters, by its path and its last part; symlinks always do.
            progress: called with (names, names in total).
        """
        skipped = len(root.path.rstrip(b"/"))
        parts, merged = list[DiskFiles](), {b"": root.content_inodes}
        is_live = isinstance(root, LiveNode)
        for batch in LiveView(fs).walk(None, root) if is_live else View(root).walk():
            if progress is not None:
                progress(batch.end, batch.total)
            columns = _Columns.of(fs, batch)
            parts.append(_kept(fs, columns, skipped, is_wanted))
            merged |= {path[skipped:]: numbers for path, numbers in columns.merged.items()}
        return cls(fs, DiskFiles.concat(parts), merged)

    def directory_inodes(self, path: bytes) -> tuple[int, ...]:
        """Inodes of a directory, in each layer; none where it is not on the disk."""
        at = self.row_of.get(path, NO_ROW)
        return self._merged.get(path) or (() if at == NO_ROW else (int(self.files.number[at]),))

    @cached_property
    def row_of(self) -> dict[bytes, int]:
        """Row of each path."""
        return {path: row for row, path in enumerate(self.files.path)}

    @cached_property
    def _links(self) -> dict[bytes, int]:
        rows = np.flatnonzero(self.files.kind == stat.S_IFLNK).tolist()
        return {self.files.path[row]: row for row in rows}

    def place(self, path: bytes) -> bytes:
        """The path through the symlinks of its directories; its last part is not followed."""
        folder, _, name = path.rpartition(b"/")
        real = self._real.get(folder)
        if real is None:
            real = self._real[folder] = self._followed(folder) if folder else b""
        return real + b"/" + name

    def places(self, paths: Iterable[bytes]) -> tuple[list[bytes], Rows]:
        """(where each path leads, row of the file there or `NO_ROW`)."""
        found = list(map(self.place, paths))
        return found, np.array([self.row_of.get(one, NO_ROW) for one in found], np.intp)

    def end_of(self, path: bytes) -> bytes:
        """The path to which a path leads through all its symlinks."""
        return self._followed(path)

    def target(self, row: int) -> bytes:
        """The target of a symlink; b"" where it cannot be read."""
        try:
            return self.fs.link_target(self.fs.inode(int(self.files.number[row])))
        except Ext4kitError:
            return b""

    def _followed(self, path: bytes) -> bytes:
        names = tuple(path.split(b"/")[1:])
        found = followed(names, self._target_of)
        return path if found is None else b"".join(b"/" + name for name in found)

    def _target_of(self, names: Names) -> bytes | None:
        row = self._links.get(b"/" + b"/".join(names))
        return None if row is None else self.target(row) or None


@dataclass(frozen=True)
class _Columns:
    """Names of a walk as columns.

    Attributes:
        paths: their paths.
        table: their inodes.
        content: number of the inode that has the bytes; 0 for none.
        merged: inodes of the directories that have several, by path.
    """

    paths: list[bytes]
    table: InodeTable
    content: Int64s
    merged: dict[bytes, tuple[int, ...]]

    @classmethod
    def of(cls, fs: FileSystem, batch: WalkBatch) -> _Columns:
        """The columns of a batch of any walk."""
        if isinstance(batch, LiveBatch):
            return cls(batch.paths, batch.table, batch.table.number, {})
        nodes = list(batch.nodes)
        inodes = [node.content_inodes for node in nodes]
        table = fs.inode_table(np.array([node.id.inode for node in nodes], np.int64))
        content = np.array([each[-1] if each else 0 for each in inodes], np.int64)
        each = zip(nodes, inodes, strict=True)
        merged = {node.path: numbers for node, numbers in each if len(numbers) > 1}
        return cls([node.path for node in nodes], table, content, merged)


def _kept(
    fs: FileSystem, batch: _Columns, skipped: int, is_wanted: Callable[[bytes, bytes], bool]
) -> DiskFiles:
    paths = [path[skipped:] for path in batch.paths] if skipped else batch.paths
    mask = batch.table.is_symlink
    wanted = [is_wanted(path, path[path.rfind(b"/") + 1 :]) for path in paths]
    rows = np.flatnonzero(mask | np.array(wanted, bool))
    table = batch.table.take(rows)
    return DiskFiles(
        [paths[row] for row in rows.tolist()],
        table.number,
        batch.content[rows],
        table.mode,
        table.uid,
        table.gid,
        table.size,
        table.ctime,
        fs.inodes_known(table.number) & (batch.content[rows] > 0),
    )
