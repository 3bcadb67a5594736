"""The deleted files as a tree of their last paths.

Files without a path are below `/$Unnamed`, and contents without an inode below `/$Carved`. If
several files had the same path, the file that was deleted last keeps the path, and `~2`, `~3` ...
is appended to the names of the other files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ext4kit.fields import FileType
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Folder, Node, NodeId, View, free_name
from ext4kit.reasons import Reason
from ext4kit.recovery import DeletedFile, SearchSource, is_written
from ext4kit.recovery.search_sources import ALL_SOURCES
from ext4kit.recovery.tree_paths import CARVED, tree_path
from ext4kit.units import Progress
from ext4kit.workspace import Workspace

_INFERRED = CARVED + b"/inferred"  # folder of files whose content was found without their block map
_Index = dict[bytes, dict[bytes, "int | None"]]  # folder -> name -> row of the files


@dataclass(frozen=True)
class DeletedNode(Node):
    """A deleted file or directory, an earlier version, or content without an inode.

    Attributes:
        file: the record of the deleted file.
    """

    file: DeletedFile = field(kw_only=True, repr=False)
    below: DeletedView = field(kw_only=True, repr=False, compare=False)

    @property
    def kind(self) -> FileType:
        """File type."""
        return self.file.kind

    @property
    def size(self) -> int | None:
        """Bytes, None if unknown."""
        return self.file.size

    @property
    def further_paths(self) -> tuple[bytes, ...]:
        """Other full paths that the file had."""
        known = () if self.file.path in (None, self.path) else (self.file.path,)
        return (*known, *self.file.further_paths)

    @property
    def deletion_time(self) -> int | None:
        """Time of the deletion, ns."""
        return self.file.deletion_time

    @property
    def grade(self) -> str | None:
        """Grade of the content."""
        return self.file.grade

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Reasons why the content is not intact."""
        return self.file.reasons

    def children(self) -> Iterable[Node]:
        """The deleted files of the directory, by name."""
        return self.below.in_folder(self.path)

    def child(self, name: bytes) -> Node | None:
        """The node with a given name in the directory; None for none."""
        return self.below.named(self.path, name)

    def content(self) -> Content | None:
        """The bytes that `recover` writes; None if nothing is left."""
        return self.file.content() if is_written(self.file) else None

    def link_target(self) -> bytes | None:
        """The target of a symlink."""
        return self.file.link_target

    def xattrs(self) -> Mapping[bytes, bytes]:
        """Extended attributes."""
        found = self.file.xattrs()
        return {} if found is None else found.values


class DeletedView(View):
    """The deleted files of a file system.

    Content without an inode is searched for when `/$Carved` is first read.

    Args:
        workspace: the workspace of the file system.
        versions: whether earlier versions are included.
        sources: where to search.
        progress: called with (done, total) during the search.
    """

    def __init__(
        self,
        workspace: Workspace,
        versions: bool = False,
        sources: frozenset[SearchSource] = ALL_SOURCES,
        progress: Progress | None = None,
    ) -> None:
        self.workspace = workspace
        self._versions, self._sources, self._progress = versions, sources, progress
        super().__init__(self._folder(b""))

    def in_folder(self, path: bytes) -> Iterable[Node]:
        """The nodes of a directory, by name; b"" for the root."""
        return (self._node(path, name) for name in sorted(self._index_of(path).get(path, {})))

    def named(self, path: bytes, name: bytes) -> Node | None:
        """The node with a given name in a directory, None for none."""
        return self._node(path, name) if name in self._index_of(path).get(path, {}) else None

    def _node(self, folder: bytes, name: bytes) -> Node:
        row, path = self._index_of(folder)[folder][name], folder + b"/" + name
        if row is None:
            return self._folder(path)
        file = (self._carved if _is_carved(folder) else self.files)[row]
        return DeletedNode(file.identity, path, file.inode, file=file, below=self)

    def _folder(self, path: bytes) -> Folder:
        """A directory that was not deleted itself, or that has no record."""
        name = path.decode("utf-8", "surrogateescape")
        identity = NodeId("deleted", detail=f"folder:{name}")
        return Folder(identity, path or b"/", fill=lambda: self.in_folder(path))

    @cached_property
    def files(self) -> Sequence[DeletedFile]:
        """The deleted files found without carving."""
        sources = self._sources - {SearchSource.RUNS}
        return self.workspace.deleted(self._versions, sources, self._progress).files

    @cached_property
    def _carved(self) -> Sequence[DeletedFile]:
        """The deleted files found with carving."""
        return self.workspace.deleted(self._versions, self._sources, self._progress).files

    @property
    def _has_carved(self) -> bool:
        return SearchSource.RUNS in self._sources and not self.workspace.is_lost

    @cached_property
    def _index(self) -> _Index:
        """The index of files with an inode."""
        index: _Index = {b"": {}}
        if self._has_carved:
            index[b""][CARVED[1:]] = None
        each = ((row, file) for row, file in enumerate(self.files) if file.inode is not None)
        _place(index, [(row, tree_path(file), file.kind == "directory") for row, file in each])
        return index

    @cached_property
    def _carved_index(self) -> _Index:
        """The index of contents without an inode, and of files found without their block map."""
        index: _Index = {CARVED: {}}
        if self._has_carved:
            each = enumerate(self._carved)
            found = [(row, file) for row, file in each if file.first_block is not None]
            above = {True: b"", False: _INFERRED}
            paths = (above[file.inode is None] + tree_path(file) for _, file in found)
            rows = (row for row, _ in found)
            _place(index, [(row, path, False) for row, path in zip(rows, paths, strict=True)])
        return index

    def _index_of(self, folder: bytes) -> _Index:
        return self._carved_index if _is_carved(folder) else self._index


def _is_carved(folder: bytes) -> bool:
    return folder == CARVED or folder.startswith(CARVED + b"/")


def _place(index: _Index, found: list[tuple[int, bytes, bool]]) -> None:
    """Enter files in an index, with their parent directories; a name that is taken gets a suffix.

    Args:
        index: the index to enter the files in.
        found: (row, path, whether it is a directory) of each file.
    """
    for _, path, _ in found:
        _make_folder(index, path.rpartition(b"/")[0])
    for row, path, is_directory in found:
        folder, _, name = path.rpartition(b"/")
        here = index[folder]
        if is_directory and here.get(name, row) is None:  # entered before, as a parent directory
            here[name] = row
            continue
        here[free_name(name, here)] = row


def _make_folder(index: _Index, folder: bytes) -> None:
    """Enter a directory and its parents in an index."""
    below: list[bytes] = []
    while folder not in index:
        index[folder] = {name: None for name in below}
        folder, _, name = folder.rpartition(b"/")
        below = [name]
    index[folder] |= {name: None for name in below if name not in index[folder]}
