"""The terminal program: panes, keys, and what each key does."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from ext4kit.browse.actions import (
    FoundLine,
    MarkedFile,
    MarkedFiles,
    MarkedGroup,
    WrittenGroup,
    check_marked,
    groups_of,
    write_group,
    written_text,
)
from ext4kit.browse.background import ReadPlace, Task
from ext4kit.browse.below import is_expanded, with_below
from ext4kit.browse.commands import shell_line
from ext4kit.browse.finding import FindingApp
from ext4kit.browse.shell import TICK, BrowseOptions
from ext4kit.browse.sources import FILES, ROOTS
from ext4kit.browse.tree import TreeRow
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.filesystem.view import Node
from ext4kit.output.bookmarks import BookmarkRecord, append_bookmark, bookmark, read_bookmarks
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable_text, shown
from ext4kit.workspace import Workspace


class Browser(FindingApp):
    """The program.

    Args:
        options: what is browsed.

    Attributes:
        marks: the files to write.
        bookmarks: those of the case file, and of this run.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 1; background: $primary; color: $text; }
    #main { height: 1fr; }
    #tree { width: 45%; }
    #right { width: 1fr; border-left: solid $primary; }
    #preview { height: 1fr; }
    #details { height: 40%; border-top: solid $primary; }
    #status, #command { height: 1; }
    #command { color: $text-muted; }
    #prompt { height: 1; display: none; }
    #prompt Static { width: auto; }
    #prompt Input { width: 1fr; border: none; height: 1; padding: 0; }
    .narrow #right { display: none; }
    .narrow #tree { width: 100%; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, show=False, priority=True)
        for keys, action in (
            ("left_square_bracket", "moment(-1)"), ("right_square_bracket", "moment(1)"),
            ("home", "first_moment"), ("end", "now"), ("t", "ask_time"),
            ("p", "kind(1)"), ("P", "kind(-1)"),
            ("greater_than_sign", "part(1)"), ("less_than_sign", "part(-1)"),
            ("v", "versions"), ("o", "owners"), ("s", "ask_name"), ("n", "again(1)"),
            ("N", "again(-1)"), ("S", "ask_names"), ("slash", "ask_content"), ("i", "signs"),
            ("b", "ask_block"), ("f", "ask_filter"), ("D", "all_deleted"), ("w", "changes"),
            ("L", "last_list"), ("space", "mark"),
            ("r", "ask_folder"), ("m", "ask_note"), ("M", "bookmarks"), ("c", "commands"),
            ("escape", "cancel"), ("T", "theme"), ("question_mark", "keys"),
            ("q", "quit"), ("ctrl+c", "stop"),
        )
    ]  # fmt: skip

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the browser count in its panes alone, not in a prompt or a list.

        They are handled before the panes get them, so that what is typed ahead finds the prompt.
        """
        if action not in _ACTIONS - {"stop"}:
            return super().check_action(action, parameters)
        return len(self.screen_stack) == 1 and (self._submit is None or action == "cancel")

    def __init__(self, options: BrowseOptions) -> None:
        super().__init__(options)
        self.marks = MarkedFiles()
        self.bookmarks: list[BookmarkRecord] = []
        self._was_asked = False

    def on_mount(self) -> None:
        """Read the first tree, then all that takes longer."""
        self._heed_signals()
        self.tree_pane.focus()
        self.set_interval(TICK, self._tell)
        self._tell()
        self._start("first", self._first)
        self._start("case", self._read_case)

    async def _read_case(self) -> None:
        if self.options.case is not None:
            self.bookmarks = list(read_bookmarks(self.options.case))

    def is_marked(self, node: Node) -> bool:
        """Whether a file is marked."""
        return self.marks.has(node, node.path)

    def head_text(self) -> str:
        """The image, the moment, the filter, and how many files are marked."""
        return super().head_text() + (f" | {len(self.marks)} marked" if self.marks else "")

    def _at_cursor(self) -> tuple[TreeRow, Node, ReadPlace] | None:
        row = self.tree_pane.row
        node = None if row is None else row.node
        where = None if row is None else self._where(row)
        if row is None or node is None or where is None:
            return None
        return row, node, where

    def _to_mark(self) -> MarkedFile | None:
        """The file at the cursor; None, and the reason told, if it cannot be marked."""
        found = self._at_cursor()
        if found is None:
            return None
        row, node, where = found
        assert row.root is not None
        try:
            check_marked(node, row.root)
        except RequestError as error:
            self.say(str(error))
            return None
        return MarkedFile(node, node.path, row.root, where.transaction)

    def action_mark(self) -> None:
        """Mark the file at the cursor, and go to the next one."""
        if (marked := self._to_mark()) is None:
            return
        self.marks.toggle(marked)
        self.tree_pane.action_step(1)
        self._tell()

    def action_ask_folder(self) -> None:
        """Write the marked files."""
        marks = list(self.marks)
        if not marks and self._at_cursor() is None:
            self.say("go to a file, or mark some with Space")
            return
        if not marks:
            if (marked := self._to_mark()) is None:
                return
            marks = [marked]
        what = shown(marks[0].path) if not self.marks else f"{len(marks)} marked"
        question = f"write {what} into the new folder: "
        self._prompt(question, lambda text: self._start("write", self._write, Path(text), marks))

    async def _write(self, out: Path, marks: Sequence[MarkedFile]) -> None:
        """Write each group of marked files, and take the marks away."""
        groups_of(marks)  # refuses before anything is searched
        self.options.check_output(out)
        if any(map(is_expanded, marks)):
            marks = await self._with_below(marks)
        groups, done = groups_of(marks), list[WrittenGroup]()
        for group in groups:
            place = out if len(groups) == 1 else out / group.name
            done.append(await self._write_group(group, place))
        self.say(written_text(done, out))
        self.marks.clear()
        self.tree_pane.refresh()
        self._tell()

    async def _with_below(self, marks: Sequence[MarkedFile]) -> list[MarkedFile]:
        task, wanted = Task("finding what is below the marks"), self.filter
        return await self._ask(
            self.sources.deleted,
            lambda ws: with_below(self.sources, ws, marks, wanted, task),
            task,
        )

    async def _write_group(self, group: MarkedGroup, out: Path) -> WrittenGroup:
        mark, sources, facts = group.marks[0], self.sources, self.options.facts
        where = sources.where(mark.root, mark.transaction)
        if mark.root is FILES and mark.transaction is None:
            where = ReadPlace(sources.deleted if group.files else sources.work)
        words = group.command(self.options.commands, out)
        self.show_command(shell_line(words))
        task = Task(f"writing {count_text(len(group.marks), 'file')}")

        def write(workspace: Workspace) -> WrittenGroup:
            state = sources.workspace_of(workspace, where)
            return write_group(state, group, out, words, facts, task)

        return await self._ask(where.reader, write, task)

    def action_ask_note(self) -> None:
        """Bookmark the file at the cursor."""
        found = self._at_cursor()
        if found is None:
            return
        if self.options.case is None:
            self.say("bookmarks are kept for this run only; --case FILE saves them")
        self._prompt("note: ", lambda text: self._bookmark(found, text))

    def _bookmark(self, found: tuple[TreeRow, Node, ReadPlace], note: str) -> None:
        row, node, where = found
        assert row.root is not None
        tree = "files" if row.root is FILES else row.root.key
        locator = self.options.facts.locator
        record = bookmark(node, node.path, tree, where.transaction, note, locator)
        try:
            if self.options.case is not None:
                append_bookmark(self.options.case, record, self.options.facts.files)
                self.say(f"bookmark saved in {self.options.case}")
        except Ext4kitError as error:
            self.say(str(error))
            return
        self.bookmarks.append(record)

    def action_bookmarks(self) -> None:
        """List the bookmarks."""
        found = [_found_bookmark(record) for record in self.bookmarks]
        self._start("list", self._offer, "bookmarks", [one for one in found if one])

    def action_commands(self) -> None:
        """List the commands that do the same; Enter copies one."""
        each = [line for line in (*self._commands(), self.last_command) if line]
        found = [FoundLine(line) for line in dict.fromkeys(each)]
        earlier = [FoundLine(line) for line in self.commands_shown if line not in each]
        if earlier:
            found += [FoundLine("of earlier actions", is_heading=True), *earlier]
        self._start("list", self._copy_command, found)

    async def _copy_command(self, found: Sequence[FoundLine]) -> None:
        chosen = await self._choose("commands that do the same; Enter copies one", found)
        if chosen is not None and not chosen.is_heading:
            self.copy_to_clipboard(chosen.text)
            self.show_command(chosen.text)
            self.say("copied, where the terminal allows it")

    async def action_stop(self) -> None:
        """End, also from a prompt or a list."""
        self._end()

    async def action_quit(self) -> None:
        """End; if something would be lost, the second time."""
        lost = [count_text(len(self.marks), "mark")] if self.marks else []
        if self.bookmarks and self.options.case is None:
            lost.append(f"{count_text(len(self.bookmarks), 'bookmark')} not saved")
        if lost and not self._was_asked:
            self._was_asked = True
            self.say(f"{' and '.join(lost)} will be lost; q again quits")
            return
        self._end()

    def _end(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.exit(0)


def run(options: BrowseOptions) -> int | None:
    """Run the program; the signal that ended it, None for none."""
    app = Browser(options)
    try:
        app.run()
    finally:
        app.sources.close()
    return app.signal


def _found_bookmark(record: BookmarkRecord) -> FoundLine | None:
    """A bookmark as a line; None if the record is not complete."""
    try:
        raw = record.get("path_bytes")
        path = base64.b64decode(str(raw)) if raw else os.fsencode(record["path"])
        roots = {root.key: root for root in ROOTS} | {"files": FILES}
        root, tid = roots[record["tree"]], record["transaction"]
        when = "" if tid is None else f"  transaction {int(tid)}"
        text = printable_text(f"{shown(path)}{when}  {record['note']}")
        return FoundLine(text, path, None, root, None if tid is None else int(tid))
    except (KeyError, TypeError, ValueError):
        return None


_ACTIONS = {
    binding.action.partition("(")[0] for binding in Browser.BINDINGS if isinstance(binding, Binding)
}
