"""Previews of SQLite databases: their tables, with the number and the first of their rows.

SQLite reads a copy in memory, without its write-ahead log and its journal. Only ordinary tables are
read (`search/database_cells.py`); views and triggers are listed and never run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from ext4kit.errors import UnsupportedError
from ext4kit.preview.folding import spans_of
from ext4kit.preview.model import LineList, Preview, Span
from ext4kit.preview.parts import NodeContent
from ext4kit.report.safe import printable_text
from ext4kit.search.database_cells import (
    DATABASE_ERRORS,
    STEPS,
    DatabaseRoom,
    TableRows,
    restrict,
)

MOST_DATABASE = 64 << 20  # bytes
_MOST_STEPS = 2000  # of `STEPS` of SQLite each, for the whole preview
_MOST_COUNTED = 100_000  # rows of a table
_MOST_LISTED = 1000  # tables and other objects
_ROWS_SHOWN = 10
_MOST_CELL = 40  # characters
_MOST_COLUMNS = 32
_WAL = b"\2\2"  # file format versions of a database with a write-ahead log
_ROLLBACK = b"\1\1"
_VERSIONS = slice(18, 20)  # where these are in the header


def database_preview(held: NodeContent, most_lines: int, width: int) -> Preview:
    """The tables of a database.

    Args:
        held: the content.
        most_lines: number of lines.
        width: cells in a line.

    Raises:
        UnsupportedError: it is too large, or SQLite cannot read it.
    """
    if held.size > MOST_DATABASE:
        text = f"the database has {held.size:,} bytes; at most {MOST_DATABASE:,} are opened here"
        raise UnsupportedError(text)
    data = bytearray(held.read(0, held.size))
    has_log = data[_VERSIONS] == _WAL
    if has_log:  # SQLite looks for the log of such a database, also of one in memory
        data[_VERSIONS] = _ROLLBACK
    shown = LineList(most_lines)
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(bytes(data))
            _DatabaseLines(connection, DatabaseRoom(held.size), shown, width).fill()
    except DATABASE_ERRORS as error:
        raise UnsupportedError(f"SQLite cannot read the database: {error}") from error
    lost = held.lost_bytes()
    notes = [
        "changes in its write-ahead log are not shown" if has_log else "",
        f"{lost:,} bytes of it are lost and were read as zeros" if lost else "",
    ]
    note = "; ".join(filter(None, notes))
    return Preview("table", "SQLite database", tuple(shown.lines), shown.is_cut, note)


class _DatabaseLines:
    """Fills lines with the tables of a database."""

    def __init__(
        self, connection: sqlite3.Connection, room: DatabaseRoom, shown: LineList, width: int
    ) -> None:
        self._connection, self._room, self._shown, self._width = connection, room, shown, width
        self._steps = 0
        restrict(connection)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_progress_handler(self._is_over, STEPS)

    def _is_over(self) -> bool:
        self._steps += 1
        return self._steps > _MOST_STEPS

    def fill(self) -> None:
        """Add the lines of each table, then the other objects."""
        listed = self._connection.execute(
            "SELECT type, name, rootpage FROM sqlite_schema ORDER BY type <> 'table' LIMIT ?",
            (_MOST_LISTED,),
        ).fetchall()
        others = []
        for kind, name, page in listed:
            if kind == "table" and isinstance(name, str) and isinstance(page, int) and page > 0:
                if not self._table(name):
                    return
            else:
                others.append((str(kind), str(name)))
        for kind, name in others:
            text = printable_text(f"{kind} {name}")
            if not self._shown.add(Span(text[: self._width], "dim")):
                return
        self._shown.is_cut |= len(listed) == _MOST_LISTED

    def _table(self, name: str) -> bool:
        """The lines of a table; False if the lines are full."""
        found = TableRows(self._connection, name)
        rows, count, damage = list[tuple[object, ...]](), 0, ""
        try:
            for _, values in found.each():
                self._room.take(values)
                if count < _ROWS_SHOWN:
                    rows.append(values)
                count += 1
                if count == _MOST_COUNTED:
                    break
        except DATABASE_ERRORS as error:
            damage = str(error)
        damage = found.damage or damage
        least = "at least " if count == _MOST_COUNTED or damage else ""
        text = f"table {printable_text(name)}: {least}{count:,} row{'s' * (count != 1)}"
        if not self._shown.add(Span(text, "heading")):
            return False
        if damage:
            text = f"  not all rows were counted: {printable_text(damage)}"
            if not self._shown.add(Span(text, "warning")):
                return False
        return all(self._shown.add(*line) for line in self._grid(found.columns, rows))

    def _grid(self, columns: list[str], rows: list[tuple[object, ...]]) -> Iterator[list[Span]]:
        """The names of the columns and the rows, in columns that fit the width."""
        names = [printable_text(name)[:_MOST_CELL] for name in columns[:_MOST_COLUMNS]]
        cells = [[_cell_text(value) for value in row[:_MOST_COLUMNS]] for row in rows]
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=False)]
        yield [Span(self._row(names, widths), "key")]
        for row in cells:
            yield spans_of(self._row(row, widths))

    def _row(self, cells: list[str], widths: list[int]) -> str:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False))
        return ("  " + "  ".join(padded)).rstrip()[: self._width]


def _cell_text(value: object) -> str:
    """A value as text; only the start of a long one."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        start = value[: _MOST_CELL // 4].hex()
        return f"x'{start}'" if len(value) * 4 <= _MOST_CELL else f"x'{start}...' ({len(value):,})"
    text = "".join(islice(printable_text(str(value)[:_MOST_CELL]), _MOST_CELL))
    return text if len(str(value)) <= _MOST_CELL else text[: _MOST_CELL - 3] + "..."
