"""One image, opened once for each thing that is read at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ext4kit.browse.background import ReaderThread, ReadPlace, Task
from ext4kit.browse.filters import FileFilter
from ext4kit.browse.tree import FolderEntries, RowCondition, TreeRoot, listing_of, problem_notes
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.known.files import KnownFiles
from ext4kit.known.lists import KnownList
from ext4kit.problems import Problem, Problems
from ext4kit.units import Progress
from ext4kit.views.opening import open_view
from ext4kit.views.together import joined
from ext4kit.workspace import Workspace

if TYPE_CHECKING:
    from ext4kit.views.deleted import DeletedView

FILES, UNATTACHED = TreeRoot("/", "/"), TreeRoot("unattached", "unattached files")
UNALLOCATED, CONTENTS = (
    TreeRoot("unallocated", "unallocated blocks"),
    TreeRoot("carved", "carved contents"),
)
ROOTS = (FILES, UNATTACHED, UNALLOCATED, CONTENTS)
_KEPT = 4  # states of earlier times
Opening = Callable[[Workspace], Node]


@dataclass(frozen=True)
class ReadFolder:
    """A directory that was read.

    Attributes:
        node: the directory.
        listing: its entries, those of a filter alone.
        notes: errors of reading it.
    """

    node: Node
    listing: FolderEntries
    notes: list[str]


@dataclass
class Sources:
    """The readers of an image, each with the file system opened for itself.

    Attributes:
        open_fs: opens the file system once more.
        lists: lists of known files.
        has_deleted: whether the deleted files were found, and are in the tree.
    """

    open_fs: Callable[[], FileSystem]
    lists: Sequence[KnownList] = ()
    has_deleted: bool = False
    _found: DeletedView | None = None
    _carved: DeletedView | None = None
    _earlier: dict[int, Workspace] = field(default_factory=dict)
    _known: dict[int, KnownFiles] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start the threads; each opens the file system when it is asked for the first time."""
        names = ("live", "deleted", "moments", "others", "work")
        readers = [ReaderThread(f"ext4kit-{name}", self.open_fs) for name in names]
        self.live, self.deleted, self.moments, self.others, self.work = readers

    @property
    def readers(self) -> tuple[ReaderThread, ...]:
        """All threads."""
        return self.live, self.deleted, self.moments, self.others, self.work

    def close(self) -> None:
        """End all threads."""
        for reader in self.readers:
            reader.close()

    def where(self, root: TreeRoot, transaction: int | None) -> ReadPlace:
        """What reads a tree."""
        if root is not FILES:
            return ReadPlace(self.others)
        if transaction is not None:
            return ReadPlace(self.moments, transaction)
        return ReadPlace(self.deleted if self.has_deleted else self.live)

    def opening(self, root: TreeRoot, where: ReadPlace, task: Task | None = None) -> Opening:
        """What returns the top of a tree, called by its reader."""
        if root is UNATTACHED or root is UNALLOCATED:
            return lambda workspace: open_view(workspace, root.key).root
        if root is CONTENTS:
            progress = None if task is None else task.progress
            return lambda workspace: self._carved_top(workspace, progress)
        if where.transaction is not None:
            tid = where.transaction
            return lambda workspace: LiveView(self.earlier(workspace, tid).fs).root
        if where.reader is self.deleted:
            return lambda workspace: self._together(workspace).root
        return lambda workspace: LiveView(workspace.fs).root

    def earlier(self, workspace: Workspace, transaction: int) -> Workspace:
        """The state after a transaction; the last few are kept."""
        found = self._earlier.pop(transaction, None) or workspace.as_of(transaction)
        self._earlier[transaction] = found
        while len(self._earlier) > _KEPT:
            self._earlier.pop(next(iter(self._earlier)))
        return found

    def workspace_of(self, workspace: Workspace, where: ReadPlace) -> Workspace:
        """The state that a row belongs to."""
        tid = where.transaction
        return workspace if tid is None else self.earlier(workspace, tid)

    def find_deleted(self, workspace: Workspace, progress: Progress) -> int:
        """Search for deleted files; returns their number."""
        from ext4kit.views.deleted import DeletedView

        found = DeletedView(workspace, progress=progress)
        list(found.root.children())
        self._found = found
        return len(found.files)

    def deleted_view(self, workspace: Workspace) -> DeletedView:
        """The deleted files, found before."""
        from ext4kit.views.deleted import DeletedView

        return self._found or DeletedView(workspace)

    def _together(self, workspace: Workspace) -> View:
        """The live and the deleted files, without contents that have no inode."""
        from ext4kit.recovery.tree_paths import CARVED

        found = self.deleted_view(workspace)

        def fill() -> list[Node]:
            return [node for node in found.root.children() if node.path != CARVED]

        top = Folder(NodeId("deleted", detail="folder:"), b"/", fill=fill)
        return joined(LiveView(workspace.fs), View(top))

    def _carved_top(self, workspace: Workspace, progress: Progress | None) -> Node:
        from ext4kit.recovery.tree_paths import CARVED
        from ext4kit.views.deleted import DeletedView

        if self._carved is None:
            view = DeletedView(workspace, progress=progress)
            list(view.in_folder(CARVED))
            self._carved = view
        return self._carved.lookup(CARVED)

    def condition(self, workspace: Workspace, wanted: FileFilter) -> RowCondition:
        """The condition of a filter, for the files of a reader."""
        known = None
        if self.lists:
            blocks = workspace.fs.blocks
            known = self._known.setdefault(id(blocks), KnownFiles(self.lists, blocks))
        return wanted.condition(workspace, known)

    def listed(
        self, workspace: Workspace, find: Opening, where: ReadPlace, wanted: FileFilter
    ) -> ReadFolder:
        """Read a directory; errors of its structure become notes.

        Raises:
            Ext4kitError: it cannot be read at all.
        """
        state = self.workspace_of(workspace, where)
        problems = list[Problem]()
        with _own_problems(state.fs, problems):
            node = find(workspace)
            listing = listing_of(node).shown(self.condition(state, wanted))
        return ReadFolder(node, listing, problem_notes(problems))


@contextmanager
def _own_problems(fs: FileSystem, found: list[Problem]) -> Iterator[None]:
    """Find the problems of some reading, also those that were reported before."""
    kept, fs.problems = fs.problems, Problems()
    try:
        yield
    finally:
        found += fs.problems
        fs.problems = kept
        for each in found:
            kept.add(each.where, each.what, each.severity)
