"""Text of unknown origin as rows of a given width, with everything visible that has no shape."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from ext4kit.preview.model import Line, Role, Span
from ext4kit.report.safe import printable_text

_PLAIN = re.compile(r"[\x20-\x7e]*")
_KEY_WIDTH = 20  # cells of the name of a fact
_TAB = 8  # cells between tab stops
_WIDE = ("W", "F")


@dataclass(slots=True)
class _Row:
    """A row that is being filled.

    Attributes:
        width: cells.
        used: cells so far.
        letters: number of characters of the text so far.
        spans: the characters as they are shown.
    """

    width: int
    used: int = 0
    letters: int = 0
    spans: list[tuple[list[str], Role]] = field(default_factory=list)

    def add(self, letter: str) -> bool:
        """Add a character; False if it has no room."""
        text, role, size = _shown(letter, self.used)
        if self.used + size > self.width and self.letters:
            return False
        if not self.spans or self.spans[-1][1] != role:
            self.spans.append(([], role))
        self.spans[-1][0].append(text)
        self.used += size
        self.letters += 1
        return True

    def finished(self) -> tuple[list[Span], int]:
        return [Span("".join(texts), role) for texts, role in self.spans], self.letters


def folded(text: str, width: int) -> Iterator[tuple[list[Span], int]]:
    """Rows of a text without line ends.

    Args:
        text: any characters.
        width: cells in a row.

    Returns:
        The spans of each row, and the number of characters of the text in it; at least one row.
    """
    if _PLAIN.fullmatch(text):
        for at in range(0, max(len(text), 1), width):
            part = text[at : at + width]
            yield [Span(part)] if part else [], len(part)
        return
    row = _Row(width)
    for letter in text:
        if not row.add(letter):
            yield row.finished()
            row = _Row(width)
            row.add(letter)
    yield row.finished()


def spans_of(text: str, role: Role = "plain") -> list[Span]:
    """A text in one row, whatever its width, with escapes in a role of their own."""
    (spans, _), *_ = folded(text, 1 << 62)
    return [Span(span.text, role) if span.role == "plain" else span for span in spans]


def fact_line(name: str, text: str) -> Line:
    """A line with the name of a fact and its text."""
    return Line((Span(f"{printable_text(name):<{_KEY_WIDTH}} ", "key"), *spans_of(text)))


def _shown(letter: str, column: int) -> tuple[str, Role, int]:
    """A character as it is shown, its role, and its cells."""
    if letter == "\t":
        size = _TAB - column % _TAB
        return " " * size, "plain", size
    text = printable_text(letter)
    if text != letter:
        return text, "escape", len(text)
    return letter, "plain", 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
