"""The tree and its moments."""

from __future__ import annotations

import asyncio

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ext4kit.browse.actions import (
    FoundLine,
)
from ext4kit.browse.background import Cancelled, ReadPlace, Task
from ext4kit.browse.filters import FileFilter, moment_of
from ext4kit.browse.panes import LinePane, SliderPane, TextPane, TreePane
from ext4kit.browse.shell import SOON, BrowseOptions, ShellApp
from ext4kit.browse.slider import Moments
from ext4kit.browse.sources import CONTENTS, FILES, ROOTS
from ext4kit.browse.tree import NOTE, OpenFolder, TreeRoot, TreeRow, TreeRows, error_note
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.filesystem.view import Node, NodeId
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable_text, shown
from ext4kit.units import Moment
from ext4kit.views.together import own_node
from ext4kit.workspace import Workspace

HINT_OF_TIME = "2h counts from the last moment of the image; also now, tid-4711"


class WalkingApp(ShellApp):
    """The tree, and the moment that it shows.

    Args:
        options: what is browsed.

    Attributes:
        rows: the tree.
        moments: of the journal; None until they are read.
        position, wanted: the moment that the tree shows, and the one of the slider.
        filter: which files are shown.
        with_versions: inode and generation of files with earlier versions.
        is_first_tree_there: set when the first tree is on the screen.
    """

    def __init__(self, options: BrowseOptions) -> None:
        super().__init__(options)
        self.rows = TreeRows(ROOTS)
        self.moments: Moments | None = None
        self.position, self.wanted = 0, 0
        self.filter = FileFilter()
        self.with_versions: frozenset[tuple[int, int]] = frozenset()
        self.is_first_tree_there = asyncio.Event()

    def compose(self) -> ComposeResult:
        """The panes."""
        yield Static(id="head")
        with Horizontal(id="main"):
            yield TreePane(self.rows, self.is_marked, self.has_versions, id="tree")
            with Vertical(id="right"):
                yield TextPane(id="preview")
                yield TextPane(id="details")
        yield SliderPane(id="slider")
        yield Static(id="status")
        yield Static(id="command")
        with Horizontal(id="prompt"):
            yield Static(id="question")
            answer = Input(id="answer")
            answer.cursor_blink = False
            yield answer

    @property
    def tree_pane(self) -> TreePane:
        """The pane of the tree."""
        return self.screen_stack[0].query_one("#tree", TreePane)

    @property
    def slider(self) -> SliderPane:
        """The slider."""
        return self.screen_stack[0].query_one("#slider", SliderPane)

    def is_marked(self, _node: Node) -> bool:
        """Whether a file is marked."""
        return False

    def has_versions(self, node: Node) -> bool:
        """Whether a file is known to have earlier versions."""
        return (node.id.inode, node.id.generation) in self.with_versions

    def row_changed(self) -> None:
        """There is another row at the cursor."""

    def head_text(self) -> str:
        """The image, the moment and the filter."""
        head = f"{super().head_text()} | {self._moment_text(self.position)}"
        return head + (f" | filter: {printable_text(self.filter.text)}" if self.filter.text else "")

    def go_back(self) -> None:
        """Go to the tree."""
        self.screen_stack[0].set_focus(self.tree_pane)

    @property
    def _now(self) -> int:
        return 0 if self.moments is None else self.moments.now

    @property
    def _transaction(self) -> int | None:
        return None if self.moments is None else self.moments.transaction(self.position)

    def _moment_text(self, position: int) -> str:
        return "now" if self.moments is None else self.moments.title(position)

    async def _rebuild(self, root: TreeRoot, position: int | None = None) -> None:
        """Read a tree again, with the directories that are open; it is shown when it is whole."""
        at = ROOTS.index(root)
        before = self.rows.top.opened.get(at)
        transaction = self._transaction
        if position is not None and self.moments is not None:
            transaction = self.moments.transaction(position)
        new = OpenFolder(root, self.rows.top, at, where=self.sources.where(root, transaction))
        if before is None:
            self.rows.top.put(new)
        await self._fill(new)
        if before is not None:
            while await self._open_as(new, before):
                pass
        names = self._cursor_names()
        self.rows.top.put(new)
        if position is not None:
            self.position = position
        self._put_cursor(names)
        self.tree_pane.lines_changed()
        self.row_changed()

    async def _fill(self, branch: OpenFolder, task: Task | None = None) -> None:
        """Read the entries of a directory; an error is shown in its place."""
        root, where, node = branch.root, branch.where, branch.node
        assert root is not None and where is not None
        find = self.sources.opening(root, where, task) if node is None else lambda _: node
        wanted = self.filter
        try:
            found = await self._ask(
                where.reader, lambda ws: self.sources.listed(ws, find, where, wanted), task
            )
        except Ext4kitError as error:
            branch.fill(None, [error_note(error)])
            return
        except Cancelled:
            branch.fill(None, ["cancelled"])
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- what an image causes stays in its place
            self.note_failure(error)
            branch.fill(None, [error_note(error)])
            return
        branch.node = found.node
        branch.fill(found.listing, found.notes)

    async def _open_as(self, branch: OpenFolder, before: OpenFolder) -> bool:
        """Open the directories that are open in another state of the same directory.

        Returns:
            whether there was one to open; others may have been opened in the meantime.
        """
        if branch.listing is None or before.listing is None:
            return False
        is_changed = False
        for row, inner in list(before.opened.items()):
            at = branch.listing.find(before.listing.name(row))
            if at is None or not branch.listing.is_directory(at):
                continue
            below = branch.opened.get(at)
            if below is None:
                node = branch.listing.node(at)
                below = OpenFolder(branch.root, branch, at, node, where=branch.where)
                branch.put(below)
                await self._fill(below)
                is_changed = True
            is_changed |= await self._open_as(below, inner)
        return is_changed

    def _cursor_names(self) -> tuple[int, tuple[bytes, ...]]:
        """The row of the tree at the top, and the names from there to the row at the cursor."""
        row = self.tree_pane.row
        if row is None or row.root is None:
            return 0, ()
        at = ROOTS.index(row.root)
        if row.branch.parent is None:
            return at, ()
        names = row.branch.names
        if row.at != NOTE:
            assert row.branch.listing is not None
            names = (*names, row.branch.listing.name(row.at))
        return at, names

    def _put_cursor(self, place: tuple[int, tuple[bytes, ...]]) -> None:
        """Put the cursor on a row, or on the last directory above it that is there."""
        at, names = place
        branch, line = self.rows.top.opened.get(at), self.rows.line(self.rows.top, at)
        for name in names:
            found = None if branch is None or branch.listing is None else branch.listing.find(name)
            if branch is None or found is None:
                break
            line = self.rows.line(branch, found)
            branch = branch.opened.get(found)
        self.tree_pane.cursor = line
        self.tree_pane.lines_changed()
        self.tree_pane.move_to(line)

    async def _open(self, row: TreeRow) -> None:
        root = row.root
        assert root is not None
        branch = self.rows.open(row)
        if row.branch.parent is None:
            branch.where = self.sources.where(root, self._transaction)
        self.tree_pane.lines_changed()
        task = None
        if root is CONTENTS and branch.node is None:
            task = Task("carving")
        await self._fill(branch, task)
        self.tree_pane.lines_changed()
        self.row_changed()

    @on(LinePane.Entered, "#tree")
    def entered(self) -> None:
        """Open or close a directory; look at a file."""
        row = self.tree_pane.row
        if row is None or row.at == NOTE:
            return
        if not row.is_directory:
            self.query_one("#preview").focus()
        elif row.is_open:
            self.rows.close(row)
            self.tree_pane.lines_changed()
        else:
            self._open_soon(row)

    @on(TreePane.Inner)
    def inner(self) -> None:
        """Open a directory; of an open one, go to its first entry."""
        row = self.tree_pane.row
        if row is not None and row.at != NOTE and row.is_open:
            self.tree_pane.action_step(1)
        else:
            self.entered()

    def _open_soon(self, row: TreeRow) -> None:
        async def call() -> None:
            await self._guarded(lambda: self._open(row))

        self._begin(call, "open", is_only=False)

    @on(TreePane.Closed)
    def closed(self) -> None:
        """Close the directory at the cursor, else go to the one that has it."""
        row = self.tree_pane.row
        if row is None:
            return
        if row.at != NOTE and row.is_open:
            self.rows.close(row)
            self.tree_pane.lines_changed()
        elif row.branch.parent is not None:
            self.tree_pane.move_to(self.rows.line(row.branch.parent, row.branch.row))

    async def _reveal(self, root: TreeRoot, path: bytes, identity: NodeId | None) -> bool:
        """Open the directories above a file and put the cursor on it; False if it is not there."""
        at = ROOTS.index(root)
        branch = self.rows.top.opened.get(at)
        if branch is None:
            branch = await self._opened(TreeRow(self.rows.top, at))
        top = b"" if branch.node is None else branch.node.path.rstrip(b"/")
        names = [name for name in path.removeprefix(top).split(b"/") if name]
        line = self.rows.line(self.rows.top, at)
        for depth, name in enumerate(names):
            found = _entry(branch, name, identity if depth == len(names) - 1 else None)
            if found is None:
                self.tree_pane.move_to(line)
                return False
            line = self.rows.line(branch, found)
            if depth < len(names) - 1:
                below = branch.opened.get(found)
                branch = below or await self._opened(TreeRow(branch, found))
        self.tree_pane.lines_changed()
        self.tree_pane.move_to(line)
        self.tree_pane.focus()
        return True

    async def _opened(self, row: TreeRow) -> OpenFolder:
        await self._open(row)
        return row.branch.opened[row.at]

    async def jump(self, found: FoundLine) -> None:
        """Go to the file of a result, in the state that has it."""
        if found.path is None:
            return
        moments = self.moments
        if found.root is FILES and moments is not None:
            tid = found.transaction
            place = moments.now if tid is None else moments.position_of(tid)
            if place is None:
                self.say(f"transaction {tid} is not in the journal")
                return
            if place != self.position:
                await self._go_to(place)
                self.say(_arrived_text(moments, place))
        if not await self._reveal(found.root, found.path, found.id):
            hidden = " (there is a filter)" if self.filter.text else ""
            self.say(f"{shown(found.path)} is not in the tree{hidden}")

    def _where(self, row: TreeRow) -> ReadPlace | None:
        branch = row.branch
        if branch.parent is None:
            below = branch.opened.get(row.at)
            return None if below is None else below.where
        return branch.where

    def action_moment(self, by: int) -> None:
        """Go to the moment before, or the next one."""
        if self.moments is None or not self.moments.now:
            self.say("no earlier moment" if self.moments is None else self.moments.reason)
            return
        self._want(self.wanted + by)

    def action_first_moment(self) -> None:
        """Go to the oldest moment."""
        self.action_moment(-self.wanted)

    def action_now(self) -> None:
        """Go to the present."""
        if self.moments is not None:
            self._want(self.moments.now)

    @on(SliderPane.Chosen)
    def chosen(self, message: SliderPane.Chosen) -> None:
        """Go to the moment that was clicked."""
        self.action_moment(message.position - self.wanted)

    def _want(self, position: int) -> None:
        self.wanted = min(max(position, 0), self._now)
        slider = self.slider
        slider.position = self.wanted
        slider.refresh()
        self._start("moment", self._go_to, self.wanted, SOON)

    async def _go_to(self, position: int, delay: float = 0) -> None:
        """Show the tree of a moment."""
        moments = self.moments
        assert moments is not None
        self.wanted = position
        slider = self.slider
        slider.position = position
        slider.refresh()
        await asyncio.sleep(delay)
        if position != self.position:
            self.say(f"reading {moments.title(position)}")
            await self._rebuild(FILES, position)
            self.say("")
        self.show_command(self.options.commands.moment(moments.transaction(position)))

    def action_ask_time(self) -> None:
        """Go to a time or a transaction."""
        question = "time, such as 2026-03-01T18:00 or 2h: "
        self._prompt(
            question, lambda text: self._start("moment", self._go_to_time, text), hint=HINT_OF_TIME
        )

    async def _go_to_time(self, text: str) -> None:
        moments = self.moments
        if moments is None:
            return
        text, said = text.strip(), ""
        number = text.removeprefix("tid-")
        if text.startswith("tid-") and number.isdecimal():
            position = moments.position_of(int(number))
            if position is None:
                raise RequestError(f"transaction {number} is not recorded")
        elif text == "now":
            position = moments.now
        else:
            time, last = await self._ask(
                self.sources.moments, lambda ws: (moment_of(text, ws), ws.last_moment)
            )
            position = moments.position_at(Moment(time))
            said = moments.beyond_text(time, last)
        await self._go_to(position)
        self.say(said)

    async def _first(self) -> None:
        """The tree of the present, then the moments, the deleted files, the events."""
        await self._rebuild(FILES)
        self.is_first_tree_there.set()
        self.moments = await self._ask(self.sources.moments, Moments.read)
        self.position = self.wanted = self.moments.now
        slider = self.slider
        slider.count, slider.position = self.moments.now + 1, self.moments.now
        slider.refresh()
        self._start("deleted", self._find_deleted)

    async def _find_deleted(self) -> None:
        task = Task("searching deleted files")
        number = await self._ask(
            self.sources.deleted, lambda ws: self.sources.find_deleted(ws, task.progress), task
        )
        self.sources.has_deleted = True
        if self.position == self._now:
            await self._rebuild(FILES)
        self.say(f"{count_text(number, 'deleted file')} found")
        self._start("events", self._read_events)

    async def _read_events(self) -> None:
        moments = self.moments
        assert moments is not None
        task = Task("reading events")
        slider = self.slider
        slider.counts = await self._ask(
            self.sources.work, lambda ws: moments.counts(ws.timeline(task.progress)), task
        )
        slider.refresh()
        later = Task("looking for earlier versions")
        self.with_versions = await self._ask(
            self.sources.work, lambda ws: _with_versions(ws, later), later
        )
        self.tree_pane.refresh()


def _arrived_text(moments: Moments, position: int) -> str:
    return "now at the present" if position == moments.now else f"at {moments.title(position)}"


def _entry(branch: OpenFolder, name: bytes, identity: NodeId | None) -> int | None:
    """The row of a name in an open directory; the one with an identity, if names are alike."""
    listing = branch.listing
    found = None if listing is None else listing.find(name)
    if listing is None or identity is None:
        return found
    if found is not None and own_node(listing.node(found)).id == identity:
        return found
    stem = name.partition(b"~")[0]
    for row in range(len(listing)):
        if listing.name(row).startswith(stem) and own_node(listing.node(row)).id == identity:
            return row
    return found


def _with_versions(workspace: Workspace, task: Task) -> frozenset[tuple[int, int]]:
    """Inode and generation of the files that have earlier versions."""
    from ext4kit.recovery.search_sources import WITH_INODES

    files = workspace.deleted(True, WITH_INODES, task.progress).files
    each = (file.inode for file in files if file.superseded)
    return frozenset((inode.number, inode.generation) for inode in each if inode is not None)
