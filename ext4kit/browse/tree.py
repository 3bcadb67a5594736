"""The rows of the tree: directories are listed when they are opened, and names are kept once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.browse.background import ReadPlace
from ext4kit.filesystem.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveBatch, LiveNode
from ext4kit.filesystem.selected import selected_rows
from ext4kit.filesystem.view import FileState, Node, free_name
from ext4kit.parsers.inode import InodeTable
from ext4kit.problems import Problem, Severity
from ext4kit.report.safe import printable_text, shown
from ext4kit.selection import Limits, Selection
from ext4kit.views.together import JoinedNode

_LETTERS = {FileState.LIVE: " ", FileState.DELETED: "D", FileState.EARLIER: "E"}
NOTE = -1  # row of a line that stands for no file


@dataclass(frozen=True)
class RowCondition:
    """Which rows are shown.

    Attributes:
        selection: conditions that files must meet; directories are always shown.
        deleted_only: whether live files are hidden.
        times: of the deletion, for deleted files; of the last modification, the last change or the
            creation, for others, of which one is enough.
    """

    selection: Selection = field(default_factory=Selection)
    deleted_only: bool = False
    times: Limits = field(default_factory=Limits)

    @property
    def is_everything(self) -> bool:
        """Whether every row is shown."""
        return self.selection.is_everything and not self.deleted_only and self.times == Limits()

    def selects(self, node: Node) -> bool:
        """Whether a file meets the conditions; whether it is live is not asked."""
        return self.selection.selects(node) and self._in_time(node)

    def _in_time(self, node: Node) -> bool:
        if self.times == Limits():
            return True
        if node.file_state is FileState.DELETED:
            return self.times.include(node.deletion_time)
        inode = node.inode
        each = () if inode is None else (inode.mtime, inode.ctime, inode.crtime)
        return any(map(self.times.include, each))

    def rows_in_time(self, table: InodeTable) -> Bools:
        """True for each live inode with one of its times in the limits."""
        found = np.full(len(table), self.times == Limits())
        if found.all():
            return found
        for values in (table.mtime, table.ctime, table.crtime):
            kept = np.ones(len(table), bool)
            if self.times.least is not None:
                kept &= values >= self.times.least
            if self.times.most is not None:
                kept &= values <= self.times.most
            found |= kept
        return found


class FolderEntries:
    """The entries of one directory, by name; nodes are made when they are asked for.

    Args:
        live: entries of a directory on disk, as columns; None for none.
        others: further nodes, in order, none of which has a name of `live`.
        node_of: makes the node of a row of `live`.
        both: rows of `live` that are directories of both trees.

    Attributes:
        hidden: number of entries that a condition hides.
    """

    def __init__(
        self,
        live: LiveBatch | None,
        others: Sequence[Node] = (),
        is_joined: bool = False,
        both: dict[int, Node] | None = None,
    ) -> None:
        self._live, self._others = live, others
        self._is_joined, self._both = is_joined, both or {}
        self._paths: Sequence[bytes] = () if live is None else live.paths
        self._start = _name_start(self._paths)
        self._known: Bools = np.zeros(0, bool) if live is None else _known(live.fs, live.table)
        self._rows = self._ordered()
        self.hidden = 0

    def _ordered(self) -> Int64s:
        """Row of `live` of each entry; of others, -1 - row."""
        count = len(self._paths)
        if not self._others:
            return np.arange(count)
        names = [node.name for node in self._others]
        start = self._start
        keys = [(path[start:], row) for row, path in enumerate(self._paths)]
        keys += [(name, -1 - row) for row, name in enumerate(names)]
        keys.sort()
        return np.array([row for _, row in keys], np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def name(self, row: int) -> bytes:
        """Name of an entry."""
        at = int(self._rows[row])
        return self._paths[at][self._start :] if at >= 0 else self._others[-1 - at].name

    def is_directory(self, row: int) -> bool:
        """Whether an entry is a directory."""
        at = int(self._rows[row])
        if at < 0:
            return self._others[-1 - at].kind == "directory"
        assert self._live is not None
        return bool(self._known[at] and self._live.table.is_dir[at])

    def node(self, row: int) -> Node:
        """The node of an entry."""
        at = int(self._rows[row])
        if at < 0:
            return self._others[-1 - at]
        live = self._live
        assert live is not None
        inode = live.table.one(at) if self._known[at] else None
        node = LiveNode.of(live.fs, self._paths[at], int(live.table.number[at]), inode)
        if not self._is_joined:
            return node
        return JoinedNode.of(node.path, node, self._both.get(at))

    def find(self, name: bytes) -> int | None:
        """The row of a name."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.name(middle) < name:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.name(low) == name else None

    def shown(self, condition: RowCondition) -> FolderEntries:
        """The entries that a condition shows."""
        if condition.is_everything:
            return self
        found = FolderEntries(self._live, self._others, self._is_joined, self._both)
        live = self._live_rows(condition)
        others = [node.kind == "directory" or condition.selects(node) for node in self._others]
        kept = [live[at] if at >= 0 else others[-1 - at] for at in self._rows.tolist()]
        found._rows = self._rows[np.array(kept, bool)]
        found.hidden = len(self) - len(found)
        return found

    def _live_rows(self, condition: RowCondition) -> Bools:
        """True for each row of `live` that is shown."""
        live = self._live
        if live is None:
            return np.zeros(0, bool)
        shown: Bools = self._known & live.table.is_dir
        if not condition.deleted_only:
            numbers = live.table.number
            rows = selected_rows(live.fs, condition.selection, live.paths, numbers)
            in_time = self._known & condition.rows_in_time(live.table)
            shown[rows] |= in_time[rows]
        return shown


def _name_start(paths: Sequence[bytes]) -> int:
    return paths[0].rpartition(b"/")[0].__len__() + 1 if paths else 0


def _known(fs: FileSystem, table: InodeTable) -> Bools:
    """Which inodes of a listing are known, and can exist."""
    known = fs.inodes_known(table.number) & (table.number > 0)
    found: Bools = known & (table.number <= fs.superblock.inodes_count)
    return found


def listing_of(node: Node) -> FolderEntries:
    """The entries of a directory; called by the thread that reads its file system.

    Raises:
        AccessError: the directory cannot be read.
        CorruptError: its structure is damaged.
    """
    if isinstance(node, JoinedNode) and isinstance(node.own, LiveNode):
        batch = node.own.listed()
        if batch is not None and node.own.path == node.path:
            return _joined(batch, [] if node.other is None else list(node.other.children()))
    if isinstance(node, LiveNode) and (batch := node.listed()) is not None:
        return FolderEntries(batch)
    return FolderEntries(None, list(node.children()))


def _joined(batch: LiveBatch, others: list[Node]) -> FolderEntries:
    """The entries of a live directory with those of the deleted one, named as `views.together`."""
    if not others:
        return FolderEntries(batch, (), is_joined=True)
    start = _name_start(batch.paths)
    above = batch.paths[0][:start] if batch.paths else others[0].path.rpartition(b"/")[0] + b"/"
    rows = {path[start:]: row for row, path in enumerate(batch.paths)}
    known = _known(batch.fs, batch.table)
    both, left = dict[int, Node](), list[Node]()
    for other in others:
        row = rows.get(other.name)
        is_folder = row is not None and known[row] and batch.table.is_dir[row]
        if row is not None and is_folder and other.kind == "directory":
            both[row] = other
        else:
            left.append(other)
    taken, further = set(rows), list[Node]()
    for other in left:
        name = free_name(other.name, taken)
        taken.add(name)
        further.append(JoinedNode.of(above + name, other))
    return FolderEntries(batch, further, True, both)


@dataclass(frozen=True)
class TreeRoot:
    """The top of one of the trees.

    Attributes:
        key: tells it apart: "/", "unattached", "unallocated", "carved".
        label: what is shown.
    """

    key: str
    label: str


@dataclass(eq=False)
class OpenFolder:
    """A directory that was opened, or the list of all trees.

    Attributes:
        root: the tree that it belongs to.
        parent: the directory that has it; None for the top.
        row: in the listing of `parent`.
        node: the directory; None until the first listing of a tree.
        listing: its entries; None while they are read.
        notes: errors, each shown as a line before the entries.
        opened: the directories in it that are open, by row.
        where: what reads it; None for the top.
        roots: the trees, of the top.
    """

    root: TreeRoot | None = None
    parent: OpenFolder | None = None
    row: int = 0
    node: Node | None = None
    listing: FolderEntries | None = None
    notes: list[str] = field(default_factory=list)
    opened: dict[int, OpenFolder] = field(default_factory=dict)
    where: ReadPlace | None = None
    roots: Sequence[TreeRoot] = ()
    _lines: int | None = None

    @property
    def count(self) -> int:
        """Number of its entries."""
        if self.parent is None:
            return len(self.roots)
        return 0 if self.listing is None else len(self.listing)

    @property
    def messages(self) -> list[str]:
        """Lines before the entries: errors, or why there are no entries."""
        if self.parent is None:
            return []
        if self.listing is None and not self.notes:
            return ["reading ..."]
        hidden = 0 if self.listing is None else self.listing.hidden
        empty = "empty" if not hidden else f"{hidden:,} entries hidden by the filter"
        empty = "1 entry hidden by the filter" if hidden == 1 else empty
        return self.notes or ([] if self.count else [empty])

    @property
    def lines(self) -> int:
        """Number of lines, those of open directories included."""
        if self._lines is None:
            inner = sum(branch.lines for branch in self.opened.values())
            self._lines = len(self.messages) + self.count + inner
        return self._lines

    @property
    def depth(self) -> int:
        """Number of directories above it."""
        return 0 if self.parent is None else self.parent.depth + 1

    def changed(self) -> None:
        """Count the lines again, here and above."""
        branch: OpenFolder | None = self
        while branch is not None:
            branch._lines = None
            branch = branch.parent

    def put(self, below: OpenFolder) -> None:
        """Let a directory of it be open."""
        self.opened[below.row] = below
        self.opened = dict(sorted(self.opened.items()))
        self.changed()

    def label(self, row: int) -> str:
        """What is shown of an entry."""
        if self.parent is None:
            return self.roots[row].label
        assert self.listing is not None
        return shown(self.listing.name(row))

    @property
    def names(self) -> tuple[bytes, ...]:
        """The names from the top of its tree to it."""
        if self.parent is None or self.parent.parent is None:
            return ()
        assert self.parent.listing is not None
        return (*self.parent.names, self.parent.listing.name(self.row))

    def fill(self, listing: FolderEntries | None, notes: Iterable[str]) -> None:
        """Give it its entries."""
        self.listing, self.notes = listing, list(notes)
        self.opened.clear()
        self.changed()


class TreeRow(NamedTuple):
    """A line of the tree.

    Attributes:
        branch: the directory that has it.
        at: row of the listing; NOTE for a message.
        message: the message, "" for an entry.
    """

    branch: OpenFolder
    at: int
    message: str = ""

    @property
    def node(self) -> Node | None:
        """The file; None for a message, or a tree that was not read yet."""
        branch = self.branch
        if self.at == NOTE:
            return None
        if branch.parent is None:
            below = branch.opened.get(self.at)
            return None if below is None else below.node
        assert branch.listing is not None
        return branch.listing.node(self.at)

    @property
    def root(self) -> TreeRoot | None:
        """The tree that it belongs to."""
        if self.branch.parent is None:
            return self.branch.roots[self.at]
        return self.branch.root

    @property
    def label(self) -> str:
        """What is shown of it."""
        return self.message if self.at == NOTE else self.branch.label(self.at)

    @property
    def is_directory(self) -> bool:
        """Whether it can be opened."""
        if self.at == NOTE:
            return False
        if self.branch.parent is None:
            return True
        assert self.branch.listing is not None
        return self.branch.listing.is_directory(self.at)

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self.at in self.branch.opened


class TreeRows:
    """The trees of an image, as lines.

    Args:
        roots: the top of each.
    """

    def __init__(self, roots: Sequence[TreeRoot]) -> None:
        self.top = OpenFolder(roots=roots)

    def __len__(self) -> int:
        return self.top.lines

    def row(self, line: int) -> TreeRow | None:
        """What a line shows; None beyond the last one."""
        if not 0 <= line < len(self):
            return None
        branch, left = self.top, line
        while True:
            messages = branch.messages
            if left < len(messages):
                return TreeRow(branch, NOTE, messages[left])
            left -= len(messages)
            row, left, below = _within(branch, left)
            if below is None:
                return TreeRow(branch, row)
            branch = below

    def line(self, branch: OpenFolder, at: int) -> int:
        """The line of an entry."""
        found = len(branch.messages) + at
        found += sum(each.lines for row, each in branch.opened.items() if row < at)
        if branch.parent is None:
            return found
        return self.line(branch.parent, branch.row) + 1 + found

    def open(self, row: TreeRow) -> OpenFolder:
        """Open a directory, whose entries are not there yet."""
        branch, node = row.branch, row.node
        below = OpenFolder(row.root, branch, row.at, node, where=branch.where)
        branch.put(below)
        return below

    def close(self, row: TreeRow) -> None:
        """Close a directory."""
        row.branch.opened.pop(row.at, None)
        row.branch.changed()

    def find(self, text: str, start: int, is_forward: bool = True) -> int | None:
        """The next line whose name has a text, upper and lower case alike; goes round once."""
        wanted = text.casefold()
        found = [line for line, label in _labels(self.top, 0) if wanted in label.casefold()]
        if not is_forward:
            before = [line for line in found if line < start]
            return (before or found)[-1] if found else None
        return next((line for line in found if line >= start), found[0] if found else None)


def _labels(branch: OpenFolder, line: int) -> Iterator[tuple[int, str]]:
    """(line, name) of the entries of a directory and of those open in it."""
    line += len(branch.messages)
    for row in range(branch.count):
        yield line, branch.label(row)
        line += 1
        below = branch.opened.get(row)
        if below is not None:
            yield from _labels(below, line)
            line += below.lines


def _within(branch: OpenFolder, left: int) -> tuple[int, int, OpenFolder | None]:
    """(row, line in the directory of that row, that directory; None for the row itself)."""
    row = left
    for at, below in branch.opened.items():
        if row <= at:
            break
        inside = row - at - 1
        if inside < below.lines:
            return at, inside, below
        row -= below.lines
    return row, 0, None


def state_letter(node: Node | None) -> str:
    """The letter of a file that is not live: D of a deleted one, E of an earlier version."""
    return " " if node is None else _LETTERS[node.file_state]


def problem_notes(problems: Iterable[Problem]) -> list[str]:
    """Errors as lines of the tree."""
    errors = [each for each in problems if each.severity is Severity.ERROR]
    return [printable_text(f"error: {each}") for each in errors]


def error_note(error: BaseException) -> str:
    """An error as a line of the tree."""
    text = str(error) or type(error).__name__
    return printable_text(f"error: {text}")
