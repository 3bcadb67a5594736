"""The widgets: lines that are made only when they are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from ext4kit.arrays.types import Int64s
from ext4kit.browse.slider import histogram, position_in, track
from ext4kit.browse.tree import NOTE, TreeRow, TreeRows, state_letter
from ext4kit.filesystem.view import Node
from ext4kit.report.safe import printable_text

Part = tuple[str, str]  # characters, and what they are
ROLES = (
    "plain", "dim", "key", "heading", "hole", "lost", "warning", "removed", "added", "match",
    "directory", "deleted", "mark",
)  # fmt: skip
_CLASSES = {f"role--{role}" for role in ROLES} | {"row--cursor", "row--left"}
_COLOURS = """
{name} {{ overflow-x: hidden; overflow-y: auto; scrollbar-size: 1 1; scrollbar-gutter: stable; }}
{name} > .role--dim {{ color: $text-muted; }}
{name} > .role--key {{ color: $accent; }}
{name} > .role--heading {{ text-style: bold; color: $primary; }}
{name} > .role--hole {{ color: $text-muted; text-style: italic; }}
{name} > .role--lost {{ color: $error; text-style: reverse; }}
{name} > .role--warning {{ color: $warning; text-style: bold; }}
{name} > .role--removed {{ color: $error; }}
{name} > .role--added {{ color: $success; }}
{name} > .role--match {{ text-style: reverse; }}
{name} > .role--directory {{ text-style: bold; }}
{name} > .role--deleted {{ color: $error; text-style: italic; }}
{name} > .role--mark {{ color: $warning; text-style: bold; }}
{name} > .row--cursor {{ text-style: reverse; }}
{name} > .row--left {{ text-style: underline; }}
"""


class PaneMessage(Message):
    """A message of a pane."""

    def __init__(self, pane: LinePane) -> None:
        super().__init__()
        self.pane = pane

    @property
    def control(self) -> LinePane:
        """The pane."""
        return self.pane


class LinePane(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines, of which only those on the screen are made; a cursor, if it is a list.

    The pane that has the keys shows its cursor, or without one its first line, in reverse.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = _CLASSES
    DEFAULT_CSS = _COLOURS.format(name="LinePane")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "Down", show=False),
        Binding("k,up", "step(-1)", "Up", show=False),
        Binding("g", "top", "First line", show=False),
        Binding("G", "bottom", "Last line", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("l,right,enter", "enter", "Open", show=False),
        Binding("h,left", "leave", "Close", show=False),
    ]
    has_cursor = False

    def __init__(self, name: str | None = None, id: str | None = None) -> None:  # noqa: A002
        super().__init__(name=name, id=id)
        self.cursor = 0

    class Moved(PaneMessage):
        """The cursor is on another line."""

    class Entered(PaneMessage):
        """A line was chosen, by Enter or a second click."""

    def line_count(self) -> int:
        """Number of lines."""
        return 0

    def parts(self, line: int) -> Sequence[Part]:
        """The characters of a line."""
        return ()

    def lines_changed(self) -> None:
        """Show the lines as they are now."""
        count = self.line_count()
        self.cursor = min(max(self.cursor, 0), max(count - 1, 0))
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        self.refresh()

    def move_to(self, line: int) -> None:
        """Put the cursor on a line, and show it; without a cursor, scroll to it."""
        count = self.line_count()
        line = min(max(line, 0), max(count - 1, 0))
        if not self.has_cursor:
            self.scroll_to(y=line, animate=False, immediate=True)
            return
        before, self.cursor = self.cursor, line
        self.refresh_lines(before)
        self.refresh_lines(line)
        self.scroll_to_region(Region(0, line, 1, 1), animate=False, immediate=True)
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        """A line of the screen."""
        line = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        if line >= self.line_count():
            return Strip.blank(width, self.rich_style)
        base = self.rich_style
        segments, left = list[Segment](), width
        for text, role in self.parts(line):
            if left <= 0:
                break
            text = printable_text(text)  # no text may control the terminal, wherever it is from
            size = cell_len(text)
            if size > left:
                text, size = set_cell_size(text, left - 1) + "…", left
            segments.append(Segment(text, base + self._style(role)))
            left -= size
        strip = Strip([*segments, Segment(" " * max(left, 0), base)], width)
        if self.has_cursor and line == self.cursor:
            role = "row--cursor" if self.has_focus else "row--left"
            strip = strip.apply_style(self.get_component_rich_style(role))
        elif not self.has_cursor and y == 0 and self.has_focus:
            strip = strip.apply_style(self.get_component_rich_style("row--cursor"))
        return strip

    def _style(self, role: str) -> Style:
        known = role if role in ROLES else "plain"
        return self.get_component_rich_style(f"role--{known}", partial=True)

    def on_focus(self) -> None:
        """Show that it has the keys."""
        self.refresh()

    def on_blur(self) -> None:
        """Show that it has not."""
        self.refresh()

    def on_resize(self) -> None:
        """Make the lines fit."""
        self.lines_changed()

    def action_step(self, by: int) -> None:
        """Move by some lines."""
        self.move_to((self.cursor if self.has_cursor else self.scroll_offset.y) + by)

    def action_page(self, by: int) -> None:
        """Move by a page."""
        self.action_step(by * max(self.scrollable_content_region.height - 1, 1))

    def action_top(self) -> None:
        """Move to the first line."""
        self.move_to(0)

    def action_bottom(self) -> None:
        """Move to the last line."""
        self.move_to(self.line_count() - 1)

    def action_enter(self) -> None:
        """Choose the line."""
        if self.has_cursor:
            self.post_message(self.Entered(self))

    def action_leave(self) -> None:
        """Go back; nothing, in a list."""

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the line; choose it, if it was there."""
        line = event.y + self.scroll_offset.y
        if not self.has_cursor or line >= self.line_count():
            return
        if line == self.cursor:
            self.action_enter()
        else:
            self.move_to(line)


class TextPane(LinePane):
    """Lines that are there already."""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: Sequence[Sequence[Part]] = ()

    def show(self, lines: Sequence[Sequence[Part]], keeps_place: bool = False) -> None:
        """Show other lines."""
        self._lines = lines
        if not keeps_place:
            self.cursor = 0
            self.scroll_to(y=0, animate=False, immediate=True)
        self.lines_changed()

    def line_count(self) -> int:
        """Number of lines."""
        return len(self._lines)

    def parts(self, line: int) -> Sequence[Part]:
        """The characters of a line."""
        return self._lines[line]


class ChoicePane(TextPane):
    """Lines of which one can be chosen."""

    has_cursor = True


class TreePane(LinePane):
    """The rows of a tree.

    Args:
        tree: the rows.
        is_marked: whether a file has a mark.
        has_versions: whether a file has earlier versions.
    """

    has_cursor = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("l,right", "inner", "Into", show=False)]

    def __init__(
        self,
        tree: TreeRows,
        is_marked: Callable[[Node], bool],
        has_versions: Callable[[Node], bool],
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.rows, self._is_marked, self._has_versions = tree, is_marked, has_versions

    class Inner(Message):
        """What is in the directory at the cursor is wanted."""

    class Closed(Message):
        """The directory at the cursor is to be closed."""

    @property
    def row(self) -> TreeRow | None:
        """The row at the cursor."""
        return self.rows.row(self.cursor)

    def line_count(self) -> int:
        """Number of lines."""
        return len(self.rows)

    def parts(self, line: int) -> Sequence[Part]:
        """The characters of a line: mark, state, arrow, name."""
        row = self.rows.row(line)
        if row is None:
            return ()
        indent = "  " * row.branch.depth
        if row.at == NOTE:
            role = "warning" if row.message.startswith("error") else "dim"
            return ((f"   {indent}  ", "plain"), (row.message, role))
        node = row.node if row.branch.parent is not None else None
        letter = state_letter(node)
        is_marked = node is not None and self._is_marked(node)
        more = "+" if node is not None and self._has_versions(node) else " "
        arrow = ("▾ " if row.is_open else "▸ ") if row.is_directory else "  "
        role = "directory" if row.is_directory else "plain"
        label = row.label + "/" * (row.is_directory and row.branch.parent is not None)
        return (
            ("*" if is_marked else " ", "mark"),
            (letter, "deleted"),
            (more, "dim"),
            (f"{indent}{arrow}", "dim"),
            (label, role if letter == " " else "deleted"),
        )

    def action_inner(self) -> None:
        """Open the directory, or go into it."""
        self.post_message(self.Inner())

    def action_leave(self) -> None:
        """Close the directory, or go to the one above."""
        self.post_message(self.Closed())


class SliderPane(Widget):
    """The moments: a histogram of events, and a knob."""

    DEFAULT_CSS = "SliderPane { height: 2; }"

    def __init__(self, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.count, self.position = 1, 0
        self.counts: Int64s | None = None

    class Chosen(Message):
        """A position was clicked."""

        def __init__(self, position: int) -> None:
            super().__init__()
            self.position = position

    def render_line(self, y: int) -> Strip:
        """The histogram, and the line with the knob."""
        is_plain, width = self.app.no_color, self.size.width
        if y == 0:
            text = " " * width if self.counts is None else histogram(self.counts, width, is_plain)
        else:
            text = track(self.position, self.count, width, is_plain)
        return Strip([Segment(text, self.rich_style)], width)

    def on_click(self, event: events.Click) -> None:
        """Choose the nearest position."""
        self.post_message(self.Chosen(position_in(event.x, self.count, self.size.width)))
