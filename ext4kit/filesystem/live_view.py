"""The tree of a file system (present, as of a transaction, or lost) as a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Int64s, Rows
from ext4kit.fields import FileType
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.filesystem.filesystem import FOLDER, FileSystem
from ext4kit.filesystem.inodes import ROOT
from ext4kit.filesystem.selected import selected_rows
from ext4kit.filesystem.view import AT_ONCE, Folder, Node, NodeId, View, WalkBatch
from ext4kit.grades import Grade
from ext4kit.parsers.inode import Inode, InodeTable
from ext4kit.reasons import Reason
from ext4kit.selection import Selection


@dataclass(frozen=True)
class LiveNode(Node):
    """A name in the tree of a file system, with its inode."""

    fs: FileSystem = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, fs: FileSystem, path: bytes, number: int, inode: Inode | None) -> LiveNode:
        """The node of an inode; its inode is None if it is unknown or cannot exist."""
        generation = 0 if inode is None else inode.generation
        return cls(NodeId(fs.state, number, generation), path or b"/", inode, fs=fs)

    @property
    def kind(self) -> FileType:
        """File type; a directory for a destroyed root."""
        if self.inode is None:
            return "directory" if self.id.inode == ROOT else "unknown"
        return self.inode.kind

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the kernel refuses the content, or why it is not intact as of a transaction."""
        if (graded := self._graded) is not None:
            return graded.reasons
        doubt = None if self.inode is None else self.fs.content_uncertainty(self.inode)
        return () if doubt is None else (doubt,)

    @property
    def grade(self) -> str | None:
        """Grade of the content as of a transaction; None for the file as it is."""
        return None if self._graded is None else self._graded.grade

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """(offset, length) of the bytes that are lost as of a transaction."""
        return () if self._graded is None else self._graded.lost

    @property
    def _graded(self) -> GradedContent | None:
        return None if self.inode is None else self.fs.graded_content(self.inode)

    def children(self) -> Iterable[Node]:
        """The entries of the directory, by name, without `.` and `..`."""
        fs, number = self.fs, self.id.inode
        if self.kind != "directory":
            return ()
        if number == ROOT and fs.root_is_lost:
            return (unattached_folder(fs),)
        entries = [one for one in fs.entries(number) if one.name not in (b".", b"..")]
        entries.sort(key=lambda entry: entry.name)
        return _nodes(fs, self.path, [one.name for one in entries], [one.inode for one in entries])

    def listed(self) -> LiveBatch | None:
        """The entries of the directory as columns, by name; None if it has no entries on disk."""
        fs, number = self.fs, self.id.inode
        is_lost = number == ROOT and fs.root_is_lost
        if self.inode is None or self.kind != "directory" or is_lost:
            return None
        entries = [one for one in fs.entries(number) if one.name not in (b".", b"..")]
        entries.sort(key=lambda entry: entry.name)
        start = self.path.rstrip(b"/") + b"/"
        table = fs.inode_table(np.array([one.inode for one in entries], np.int64))
        rows = np.arange(len(entries))
        paths = [start + one.name for one in entries]
        return LiveBatch(len(entries), len(entries), fs, paths, table, rows, 0)

    def child(self, name: bytes) -> Node | None:
        """The entry of the directory with a name."""
        fs, number = self.fs, self.id.inode
        if self.kind != "directory" or (number == ROOT and fs.root_is_lost):
            return super().child(name)
        found = [entry.inode for entry in fs.entries(number) if entry.name == name]
        return next(iter(_nodes(fs, self.path, [name], found[:1])), None) if found else None

    def content(self) -> Content | None:
        """The bytes of the file, or of the directory or link; None for an overwritten file."""
        if self.inode is None or self.grade == Grade.OVERWRITTEN:
            return None
        return self.fs.content(self.inode)

    def link_target(self) -> bytes | None:
        """The target of a symlink."""
        is_link = self.inode is not None and self.inode.kind == "symlink"
        return self.fs.link_target(self.inode) if self.inode is not None and is_link else None

    def xattrs(self) -> dict[bytes, bytes]:
        """Extended attributes."""
        return {} if self.inode is None else self.fs.xattrs(self.inode)


def _nodes(
    fs: FileSystem, above: bytes, names: list[bytes], numbers: list[int]
) -> Iterable[LiveNode]:
    """Nodes of the entries of one directory."""
    table = fs.inode_table(np.array(numbers, np.int64))
    known = fs.inodes_known(table.number) & (table.number > 0)
    known &= table.number <= fs.superblock.inodes_count
    start = above.rstrip(b"/") + b"/"
    for row, (name, number) in enumerate(zip(names, numbers, strict=True)):
        yield LiveNode.of(fs, start + name, number, table.one(row) if known[row] else None)


def unattached_folder(fs: FileSystem) -> Folder:
    """`/unattached`: the tops of all trees that cannot be reached from the root directory."""
    path = b"/" + FOLDER

    def fill() -> Iterable[Node]:
        return _nodes(fs, path, fs.unattached.names.tolist(), fs.unattached.number.tolist())

    return Folder(NodeId(fs.state, detail=FOLDER.decode()), path, fill=fill)


@dataclass(frozen=True)
class LiveBatch(WalkBatch):
    """Names of a tree and their inodes, as columns.

    Attributes:
        fs: the file system.
        table: the inodes.
        places: position of each name among all names of the walk.
        start: number of names before this batch.
    """

    fs: FileSystem
    listed: list[bytes]
    table: InodeTable
    places: Rows
    start: int

    @property
    def paths(self) -> list[bytes]:
        """Full path of each node."""
        return self.listed

    @property
    def nodes(self) -> Iterable[LiveNode]:
        """The nodes."""
        known = self.fs.inodes_known(self.table.number).tolist()
        each = zip(self.listed, self.table.number.tolist(), self.table.each(), known, strict=True)
        for path, number, inode, is_known in each:
            yield LiveNode.of(self.fs, path, number, inode if is_known else None)

    @property
    def sizes(self) -> Int64s:
        """Bytes of each."""
        return self.table.size

    def node(self, row: int) -> LiveNode:
        """One of the nodes."""
        number = self.table.number[row : row + 1]
        inode = self.table.one(row) if self.fs.inodes_known(number)[0] else None
        return LiveNode.of(self.fs, self.listed[row], int(number[0]), inode)

    def runs(self) -> Runs:
        """The runs of all contents; the owner of each is a row of the batch."""
        return self.fs.map_table(self.table).runs


class LiveView(View):
    """The names below the root of a file system.

    Args:
        fs: the file system, in any state.
    """

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs

    @cached_property
    def root(self) -> Node:  # type: ignore[override]
        """The root directory, read at first use, as a walk below another one does not need it."""
        fs = self.fs
        return LiveNode.of(fs, b"/", ROOT, None if fs.root_is_lost else fs.inode(ROOT))

    def lookup(self, path: str | bytes) -> Node:
        """The node at a path or of an inode number given as `<12>`."""
        raw = path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path
        parts = [part for part in raw.split(b"/") if part not in (b"", b".")]
        if parts == [FOLDER] and not self.fs.has_name(ROOT, FOLDER):
            return unattached_folder(self.fs)
        number = self.fs.lookup(raw)
        if number == ROOT:
            return self.root
        known = self.fs.inodes_known(np.array([number]))[0]
        given = raw if raw.startswith(b"<") else b"/" + b"/".join(parts)
        return LiveNode.of(self.fs, given, number, self.fs.inode(number) if known else None)

    def walk(
        self, selection: Selection | None = None, start: Node | None = None, at_once: int = AT_ONCE
    ) -> Iterator[LiveBatch]:
        """The selected names below a directory that has an inode, in tree order, as columns."""
        fs, number, path = self.fs, ROOT, b""
        if start is not None:
            number, path = start.id.inode, start.path.rstrip(b"/")
        done = 0
        for tree in fs.tree_pieces(number, path):
            total = max(fs.names_expected(number), done + len(tree))
            for some in tree.batches(at_once):
                paths, numbers = tree.paths_of(some), tree.inode[some]
                rows = selected_rows(fs, selection or Selection(), paths, numbers)
                chosen = [paths[row] for row in rows.tolist()]
                table, end = fs.inode_table(numbers[rows]), done + len(paths)
                yield LiveBatch(end, total, fs, chosen, table, done + rows, done)
                done = end
