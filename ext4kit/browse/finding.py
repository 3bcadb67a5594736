"""Names, contents, signs, blocks and filters."""

from __future__ import annotations

from collections.abc import Callable

from ext4kit.browse.actions import (
    block_owners,
    find_names,
    find_signs,
    list_changes,
    list_deleted,
    search_content,
)
from ext4kit.browse.background import Task
from ext4kit.browse.commands import shell_line
from ext4kit.browse.filters import TIMES_OF_FILTER, FileFilter
from ext4kit.browse.looking import LookingApp
from ext4kit.browse.shell import BrowseOptions
from ext4kit.browse.sources import FILES, ROOTS
from ext4kit.errors import RequestError
from ext4kit.report.safe import printable_text, shown
from ext4kit.views.together import own_node


class FindingApp(LookingApp):
    """All that looks for files.

    Args:
        options: what is browsed.
    """

    def __init__(self, options: BrowseOptions) -> None:
        super().__init__(options)
        self._last_name = ""

    def prompt_ended(self, submit: Callable[[str], None], text: str) -> None:
        """An empty filter shows everything; other prompts want a text."""
        if submit == self.set_filter or text.strip():
            submit(text)

    def action_ask_name(self) -> None:
        """Find a name in what is open, while it is typed."""
        start = self.tree_pane.cursor
        self._prompt("name: ", self._keep_name, lambda text: self._find_name(text, start))

    def _keep_name(self, text: str) -> None:
        self._last_name = text

    def _find_name(self, text: str, start: int, is_forward: bool = True) -> None:
        line = self.rows.find(text, start, is_forward)
        if line is None:
            self.say(f"no open directory has {text!r}{self._filtered}; S looks in all files")
        else:
            self.tree_pane.move_to(line)

    def action_again(self, by: int) -> None:
        """Find the same name again."""
        if self._last_name:
            cursor = self.tree_pane.cursor
            self._find_name(self._last_name, cursor + 1 if by > 0 else cursor, by > 0)

    def action_ask_names(self) -> None:
        """Find names in all files."""
        question = "names (regular expression): "
        self._prompt(question, lambda text: self._start("list", self._find_names, text))

    async def _find_names(self, text: str) -> None:
        task, wanted = Task("finding names"), self.filter
        reader = self.sources.deleted
        line = self.options.commands.line("ls", "/", "-r", "--view", "all")
        self.show_command(f"{line} | grep -i -e {shell_line([text])}")
        found = await self._ask(
            reader, lambda ws: find_names(self.sources, ws, text, wanted, task), task
        )
        title = f"names with {printable_text(text)}{self._filtered}"
        if self.position != self._now:
            title += ", of now: Enter leaves the moment"
        await self._offer(title, found)

    @property
    def _filtered(self) -> str:
        return " (the filter is on)" if self.filter.text else ""

    def action_all_deleted(self) -> None:
        """List all deleted files, the last deleted first."""
        self._start("list", self._list_deleted)

    async def _list_deleted(self) -> None:
        task, wanted = Task("listing deleted files"), self.filter
        lists = self.options.list_paths
        self.show_command(self.options.commands.deleted(wanted, lists))
        found = await self._ask(
            self.sources.deleted, lambda ws: list_deleted(self.sources, ws, wanted, task), task
        )
        await self._offer(f"deleted files, the last deleted first{self._filtered}", found)

    def action_changes(self) -> None:
        """List who changed what in the directory at the cursor."""
        row = self.tree_pane.row
        if row is None or row.node is None or row.root is not FILES:
            self.say("go to a file or a directory of the tree /")
            return
        self._start("list", self._list_changes, own_node(row.node).path)

    async def _list_changes(self, path: bytes) -> None:
        task, wanted = Task("reading the journal"), self.filter
        self.show_command(self.options.commands.changes(path, wanted))
        found = await self._ask(
            self.sources.work, lambda ws: list_changes(ws, path, wanted, task), task
        )
        names = {name for name, _ in wanted.values}
        when = "in the time of the filter" if names & {"since", "until"} else \
            "since the journal begins; f since: until: narrow the time"  # fmt: skip
        await self._offer(f"changes of {shown(path) or '/'} and below, {when}", found)

    def action_ask_content(self) -> None:
        """Search the content of everything."""
        self._prompt("content: ", lambda text: self._start("list", self._search, text))

    async def _search(self, text: str) -> None:
        task = Task("searching")
        self.show_command(self.options.commands.line("search", "--text", text, "-i"))
        found = await self._ask(self.sources.work, lambda ws: search_content(ws, text, task), task)
        await self._offer(f"hits of {printable_text(text)}", found)

    def action_signs(self) -> None:
        """List the signs."""
        self._start("list", self._find_signs)

    async def _find_signs(self) -> None:
        task = Task("signs")
        self.show_command(self.options.commands.line("report"))
        found = await self._ask(self.sources.work, lambda ws: find_signs(ws, task), task)
        await self._offer("signs", found)

    def action_ask_block(self) -> None:
        """Tell whose a block is."""
        self._prompt("block: ", lambda text: self._start("list", self._find_block, text))

    async def _find_block(self, text: str) -> None:
        if not text.strip().isdecimal() or len(text) > 18:
            raise RequestError(f"{text!r} is no number of a block")
        block, options, task = int(text), self.options, Task("owners of the block")
        self.show_command(options.commands.line("who", str(block)))
        found = await self._ask(
            self.sources.work,
            lambda ws: block_owners(ws, block, options.commands, options.volume, task),
            task,
        )
        await self._offer(f"block {block}", found)

    def action_ask_filter(self) -> None:
        """Show some files only."""
        question = "filter, such as deleted since:2h: "
        self._prompt(question, self.set_filter, text=self.filter.text, hint=TIMES_OF_FILTER)

    def set_filter(self, text: str) -> None:
        """Show the files that a filter describes; all, if it is empty."""
        try:
            self.filter = FileFilter.parse(text)
        except RequestError as error:
            self.say(str(error))
            return
        if self.filter.text:
            lists = self.options.list_paths
            self.show_command(self.options.commands.filtered(self.filter, lists))
        self._start("moment", self._filter_trees)

    async def _filter_trees(self) -> None:
        for at in list(self.rows.top.opened):
            await self._rebuild(ROOTS[at])
        self._tell()
