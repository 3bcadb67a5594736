"""Lists to choose from, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ext4kit.browse.actions import (
    FoundLine,
)
from ext4kit.browse.filters import HELP, TIMES_OF_FILTER
from ext4kit.browse.panes import ChoicePane, LinePane

_WIDTH = 58
_KEYS = (
    ("j k, arrows", "move; PgUp PgDn by a page; g G to the ends"),
    ("l, h", "open a directory, or go into it; close it, or go up; Enter opens and closes"),
    ("Tab", "to the next pane"),
    ("[ ]", "the moment before, the next one; Home the oldest, End now"),
    ("t", "go to a moment: 2026-03-01T18:00, now, tid-4711, 2h before the last moment"),
    ("p P", "another kind of preview"),
    ("> <", "next, previous part of a large file"),
    ("v", "versions of the file; Enter compares one with the next, p shows its content"),
    ("o", "who had the blocks of the file before"),
    ("s n N", "find a name in what is open; again; backwards"),
    ("S", "find names in all files"),
    ("/", "search the content of everything"),
    ("i", "signs, as in `report`"),
    ("b", "whose a block is"),
    ("f", "filter: " + HELP),
    ("", TIMES_OF_FILTER + "; of time 2h: the last two hours of the image"),
    ("D", "all deleted files, the last deleted first; Enter goes to one"),
    ("w", "who changed what in this directory and below, in the times of the filter"),
    ("L", "the last list again"),
    ("Space", "mark a file or a directory"),
    ("r", "write the marked files, or the one at the cursor, into a folder;"),
    ("", "of a directory: what is below it, live and deleted, as the filter lets through"),
    ("m M", "bookmark with a note; list of bookmarks"),
    ("c", "commands that do the same"),
    ("Esc", "leave a prompt or a list; cancel what runs"),
    ("T", "light or dark"),
    ("?", "these keys"),
    ("q", "quit"),
    ("* D E +", "before names: * marked, D deleted, E earlier version, + has earlier versions"),
)  # fmt: skip


KEYS = tuple(
    (key if at == 0 else "", line)
    for key, text in _KEYS
    for at, line in enumerate(wrap(text, _WIDTH, break_on_hyphens=False))
)
"""The keys and what they do, in lines that fit a screen of 80 columns."""


class ListScreen(ModalScreen[FoundLine | None]):
    """A list to choose from."""

    CSS = """
    ListScreen { align: center middle; }
    ListScreen > Vertical { width: 95%; height: 90%; border: solid $primary; background: $surface; }
    ListScreen ChoicePane { height: 1fr; }
    ListScreen Static { height: 1; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Close", show=False),
    ]

    hint = ""

    def __init__(self, title: str, found: Sequence[FoundLine]) -> None:
        super().__init__()
        self._title, self.found = title, found

    def compose(self) -> ComposeResult:
        """The title and the lines."""
        with Vertical():
            yield Static(Content(self._title))
            yield ChoicePane(id="choices")
            if self.hint:
                yield Static(Content(self.hint), id="hint")

    def on_mount(self) -> None:
        """Show the lines."""
        pane = self.query_one(ChoicePane)
        lines = [((one.text, "heading" if one.is_heading else "plain"),) for one in self.found]
        is_filtered = self._title.endswith("(the filter is on)")
        nothing = "nothing was found" + " (the filter is on)" * is_filtered
        pane.show(lines or [((nothing, "dim"),)])
        pane.focus()

    @on(LinePane.Entered)
    def choose(self, message: LinePane.Entered) -> None:
        """Give the line to the one who asked."""
        message.stop()
        line = message.pane.cursor
        self.dismiss(self.found[line] if line < len(self.found) else None)

    @on(LinePane.Moved)
    def moved(self, message: LinePane.Moved) -> None:
        """The cursor of the list is no concern of the tree."""
        message.stop()

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)


class VersionsScreen(ListScreen):
    """The versions of a file.

    Attributes:
        shows_content: whether the content is wanted instead of the difference.
    """

    hint = "Enter: compare with the next version (the last: with the one before)  p: its content"
    shows_content = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "content", "Content", show=False)]

    def action_content(self) -> None:
        """Choose the version, to show its content."""
        self.shows_content = True
        self.query_one(ChoicePane).action_enter()
