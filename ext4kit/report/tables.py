"""Tables as plain text; a row that is wider than the terminal is folded between its columns."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence

_GAP = "  "
_BETWEEN = "\0"  # separates the cells of a stored row; printable text never contains it
_FEWEST = 24  # room that a last cell needs beside the other cells; else it goes on a new line
_INDENT = 4  # of continuation lines


def table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()
) -> list[str]:
    """Lines of a table of printable cells; `right` has the positions of right-aligned columns.

    A column is as wide as its widest cell. On a terminal, a line that does not fit is broken within
    its last cell, or before the columns that have no room.
    """
    table = TableText(headings, right)
    for row in rows:
        table.add(row)
    return list(table.lines())


class TableText:
    """A table that is filled row by row; each row is stored as one text to save memory.

    Args:
        headings: headings of the columns.
        right: positions of right-aligned columns.
    """

    def __init__(self, headings: Sequence[str], right: Collection[int] = ()) -> None:
        self._right = right
        self._rows: list[str] = []
        self._widths = [0] * len(headings)
        self.add(headings)

    def add(self, row: Sequence[str]) -> None:
        """Add a row of printable cells."""
        self._widths = list(map(max, self._widths, map(_cells, row)))
        self._rows.append(_BETWEEN.join(row))

    def lines(self) -> Iterator[str]:
        """The lines of all rows, the headings first."""
        widths, width = self._widths, screen_width()
        fits = width is None or sum(widths) + len(_GAP) * (len(widths) - 1) <= width
        groups = [] if fits or width is None else list(_groups(widths, width))
        for text in self._rows:
            cells = text.split(_BETWEEN)
            for place, cell in enumerate(cells):
                room = " " * (widths[place] - _cells(cell))
                cells[place] = room + cell if place in self._right else cell + room
            if fits or width is None:
                yield _GAP.join(cells).rstrip()
            else:
                yield "\n".join(_folded_row(cells, groups, width))


def screen_width() -> int | None:
    """Width of the terminal in columns; None if standard output is a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences folded to the width of the terminal; unchanged without a terminal."""
    width = screen_width()
    for sentence in sentences:
        first, *rest = [sentence] if width is None else fold(sentence, width - len(_GAP))
        yield "\n".join((first, *(_GAP + line for line in rest)))


def fold_row(head: str, last: str) -> str:
    """The start of a row and its last cell, folded if they are wider than the terminal."""
    width = screen_width()
    if width is None or (len(head) + len(last) <= width and _cells(head) + _cells(last) <= width):
        return head + last
    room = width - len(head)
    if room >= _FEWEST:
        return head + f"\n{' ' * len(head)}".join(fold(last, room))
    lines = [*fold(head.rstrip(), width), *(" " * _INDENT + each for each in
             fold(last, width - _INDENT))]  # fmt: skip
    return "\n".join(lines)


def fold_cells(row: str, cells: Sequence[str]) -> str:
    """A row of padded cells, split into several lines if it is wider than the terminal.

    Args:
        row: the complete row, returned unchanged if it fits.
        cells: the cells of the row; the last one may have any length.
    """
    width = screen_width()
    if width is None or _cells(row) <= width:
        return row
    sizes = [*map(_cells, cells[:-1]), _FEWEST]  # so that each row is split at the same columns
    return "\n".join(_folded_row(cells, list(_groups(sizes, width)), width))


def fold(text: str, width: int) -> list[str]:
    """Split a text into lines of at most `width` cells, at a blank or after a slash if possible."""
    lines, width = [], max(width, 1)
    while len(text) > 1 and _cells(text) > width:
        end, used = 0, 0
        while used + (size := _cells(text[end])) <= width:
            end, used = end + 1, used + size
        end = max(end, 1)
        blank, slash = text.rfind(" ", 1, end + 1), text.rfind("/", 1, end)
        cut = max(blank, slash + 1 if slash > 0 else 0)
        cut = cut if cut > end // 3 else end
        lines.append(text[:cut])
        text = text[cut + text.startswith(" ", cut) :]  # further blanks belong to the text
    return [*lines, text]


def _cells(text: str) -> int:
    """Width of a text on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # loads slowly

    return cell_len(text)


def _groups(widths: Sequence[int], width: int) -> Iterator[range]:
    """Groups of columns that fit on one line; the last column needs at most `_FEWEST` cells."""
    start, used = 0, 0
    for place, size in enumerate(widths):
        wanted = min(size, _FEWEST) if place == len(widths) - 1 else size
        if place > start and used + len(_GAP) + wanted > width:
            yield range(start, place)
            start, used = place, _INDENT
        used += wanted + len(_GAP) * (place > start)
    yield range(start, len(widths))


def _folded_row(row: Sequence[str], groups: Sequence[range], width: int) -> Iterator[str]:
    for group in groups:
        indent = " " * (_INDENT if group.start else 0)
        head = indent + "".join(row[place] + _GAP for place in group[:-1])
        last = row[group[-1]].rstrip()
        room = width - _cells(head)
        first, *more = fold(last, max(room, 1))
        yield (head + first).rstrip()
        yield from (" " * _cells(head) + each for each in more)


def human_size(size: int) -> str:
    """A size in the largest unit that gives at most four digits."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"
