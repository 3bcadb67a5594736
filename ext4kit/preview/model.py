"""Lines of text with roles. A front end chooses a style for each role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Role = Literal[
    "plain",
    "dim",  # offsets, line numbers
    "key",  # name of a value, head of a column
    "heading",  # starts a part
    "hole",  # never stored: a hole, or allocated and never written
    "lost",  # unreadable, or known to be overwritten
    "warning",
    "removed",  # only in the older of two versions
    "added",  # only in the newer of two versions
    "match",
    "escape",  # stands for a character without a shape
]
Kind = Literal[
    "text",
    "hex",
    "picture",
    "table",
    "archive",
    "directory",
    "link",
    "device",
    "empty",
    "error",
    "difference",
]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive characters with one role; all of them are printable.

    Attributes:
        text: the characters.
        role: what they are.
    """

    text: str
    role: Role = "plain"


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        spans: its characters, in order.
    """

    spans: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """The characters without their roles."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Preview:
    """A part of a node, as lines.

    Attributes:
        kind: what is shown.
        title: what it shows, in a few words.
        lines: the lines.
        is_cut: whether there is more.
        note: what the reader has to know about all lines; "" for nothing.
        offset: byte of the content with which the lines begin.
        next_offset: byte with which the next lines begin, for `preview(..., offset=)`; None at the
            end, and for kinds that are not read by offset.
        next_line: number of the line with that byte, for `preview(..., line=)`; None if unknown.
    """

    kind: Kind
    title: str
    lines: tuple[Line, ...]
    is_cut: bool = False
    note: str = ""
    offset: int = 0
    next_offset: int | None = None
    next_line: int | None = None

    @property
    def text(self) -> str:
        """The lines without their roles."""
        return "\n".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Section:
    """Some facts about a node.

    Attributes:
        title: what they are about.
        rows: name and value of each fact; the name is "" in a row that has a value alone.
    """

    title: str
    rows: tuple[tuple[str, str], ...]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The rows."""
        return iter(self.rows)


@dataclass(slots=True)
class LineList:
    """Lines that are being made, with a limit.

    Attributes:
        most: number of lines.
        lines: the lines so far.
        is_cut: whether lines were left out.
    """

    most: int
    lines: list[Line] = field(default_factory=list)
    is_cut: bool = False

    def add(self, *spans: Span) -> bool:
        """Add a line; False, and nothing is added, where the list is full."""
        if len(self.lines) >= self.most:
            self.is_cut = True
            return False
        self.lines.append(Line(spans))
        return True
