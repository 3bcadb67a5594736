"""The cells of a SQLite database of unknown origin.

SQLite reads a temporary copy that nothing can change, without its journal or write-ahead log. Only
ordinary tables are read, by statements of this module: no view, trigger, virtual table or generated
column is asked for, and an authorizer denies everything but reading.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from ext4kit.evidence.temporary import temporary_directory
from ext4kit.search.packed_streams import PIECE, NotUnpackedError, Reader

MOST_DATABASE = 1 << 30  # bytes
MOST_SECONDS = 60  # for one database
_MOST_CELL = 64 << 20  # bytes
STEPS = 10_000  # of SQLite, between two looks at the clock
_MOST_TABLES = 10_000
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
DATABASE_ERRORS = (sqlite3.Error, sqlite3.Warning, OverflowError, MemoryError)
_LEAST_ID = -(1 << 63)
_MOST_JUMPS = 10_000  # over rows that cannot be read
_ROW_NAMES = ("rowid", "_rowid_", "oid")


class Cell(NamedTuple):
    """A text or a blob in a table.

    Attributes:
        table: its name.
        column: its name.
        row: the row id; where a table has none, the number of the row, from 1.
        data: the bytes, of a text in UTF-8.
    """

    table: str
    column: str
    row: int
    data: bytes

    @property
    def name(self) -> str:
        """Where it is."""
        return f"table {self.table}, column {self.column}, row {self.row}"


class UnreadTable(NamedTuple):
    """A table that was not read, or not to its end.

    Attributes:
        table: its name.
        reason: why.
    """

    table: str
    reason: str


@contextmanager
def stored(stream: Reader) -> Iterator[Path]:
    """A temporary file with the bytes of a stream.

    Raises:
        NotUnpackedError: there are too many bytes.
    """
    with temporary_directory() as folder:
        path, size = Path(folder, "database"), 0
        try:
            with path.open("wb") as file:
                while piece := stream.read(PIECE):
                    size += len(piece)
                    if size > MOST_DATABASE:
                        raise NotUnpackedError(f"it has more than {MOST_DATABASE:,} bytes")
                    if piece.count(0) != len(piece):
                        file.seek(size - len(piece))
                        file.write(piece)
                file.truncate(size)
        except OSError as error:
            raise NotUnpackedError(f"{folder}: {error.strerror}") from error
        yield path


class DatabaseRoom:
    """The cells and rows that a database of a size can have; damaged ones repeat their pages.

    Args:
        size: bytes of the database.
    """

    def __init__(self, size: int) -> None:
        self._rows, self._bytes = size, 2 * size  # UTF-16 takes more bytes in UTF-8

    def take(self, values: Iterable[object]) -> None:
        """Count a row.

        Raises:
            sqlite3.Error: there are too many.
        """
        self._rows -= 1
        self._bytes -= sum(len(value) for value in values if isinstance(value, bytes | str))
        if min(self._rows, self._bytes) < 0:
            raise sqlite3.DatabaseError("it has more rows than fit into its bytes")


def cells(path: Path) -> Iterator[Cell | UnreadTable]:
    """The texts and blobs of a database.

    Args:
        path: a file that nothing else uses.

    Raises:
        NotUnpackedError: it cannot be read at all.
    """
    address = f"{path.as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            restrict(connection)
            connection.text_factory = bytes
            end = time.monotonic() + MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
            names = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 LIMIT ?",
                (_MOST_TABLES,),
            ).fetchall()
            room = DatabaseRoom(path.stat().st_size)
            for (name,) in names:
                if isinstance(name, bytes):
                    yield from _rows(connection, name.decode("utf-8", "replace"), room)
    except DATABASE_ERRORS as error:
        raise NotUnpackedError(f"SQLite cannot read it: {error}") from error


def restrict(connection: sqlite3.Connection) -> None:
    """Let nothing be changed or attached, nothing of the schema run, and no cell be too large."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_CELL)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON",
                    "mmap_size = 0", "temp_store = MEMORY", "writable_schema = ON"):  # fmt: skip
        connection.execute(f"PRAGMA {setting}")


def _rows(
    connection: sqlite3.Connection, table: str, room: DatabaseRoom
) -> Iterator[Cell | UnreadTable]:
    """The cells of one table."""
    rows = TableRows(connection, table)
    try:
        for row, values in rows.each():
            room.take(values)
            for column, value in zip(rows.columns, values, strict=True):
                if isinstance(value, bytes) and value:
                    yield Cell(table, column, row, value)
    except DATABASE_ERRORS as error:
        rows.damage = rows.damage or str(error)
    if rows.damage:
        yield UnreadTable(table, f"{rows.damage}; {rows.done:,} rows were read")


class TableRows:
    """The rows of a table; those that cannot be read are passed over where rows have an id.

    Args:
        connection: to the database.
        table: its name.

    Attributes:
        columns: their names.
        done: number of rows that were read.
        damage: the first error.
    """

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        self._connection, self._table = connection, table
        self.columns: list[str] = []
        self.done, self.damage = 0, ""

    def each(self) -> Iterator[tuple[int, tuple[object, ...]]]:
        """(row id or number, values) of each row."""
        self._connection.set_authorizer(None)
        listed = self._connection.execute(f"PRAGMA table_xinfo({_quoted(self._table)})").fetchall()
        self.columns = [_text(one[1]) for one in listed if one[6] == 0]
        self._connection.set_authorizer(_permission)
        if not self.columns:
            raise sqlite3.DatabaseError("its columns are not known")
        taken = {name.lower() for name in self.columns}
        name = next((one for one in _ROW_NAMES if one not in taken), "")
        try:
            self._selected(f"{name or 'nothing'}, *", "LIMIT 0").close()
        except sqlite3.DatabaseError:
            for number, values in enumerate(self._selected("*", ""), 1):
                self.done += 1
                yield number, values
        else:
            yield from self._by_id(name)

    def _selected(self, what: str, condition: str) -> sqlite3.Cursor:
        columns = what.replace("*", ", ".join(map(_quoted, self.columns)))
        return self._connection.execute(f"SELECT {columns} FROM {_quoted(self._table)} {condition}")

    def _by_id(self, name: str) -> Iterator[tuple[int, tuple[object, ...]]]:
        low, failures = _LEAST_ID, 0
        for _ in range(_MOST_JUMPS):
            try:
                for row, *values in self._selected(f"{name}, *", f"WHERE {name} >= {low}"):
                    self.done += 1
                    yield row, tuple(values)
                    low, failures = row + 1, 0
            except sqlite3.DatabaseError as error:
                self.damage = self.damage or str(error)
                if "interrupt" in str(error):
                    raise
                low = max(low, 0) + (1 << max(failures - 1, 0))  # further each time
                failures += 1
            else:
                return
            if low >= -_LEAST_ID:
                return


def _permission(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
