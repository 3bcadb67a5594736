"""Digests in SQLite databases: NSRL RDS 3, the hash sets of Autopsy, and others with such columns.

The minimal RDS has a table `FILE (sha256, sha1, md5, crc32, file_name, file_size, package_id)`, of
which all columns together are the primary key; the full one has a table `METADATA`. A digest is
looked up where an index starts with its column. Without one, the digests are read once.

Source: schema.sql in the minimal deltas of RDS 2026.03 (NIST).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import RequestError
from ext4kit.fields import HashName
from ext4kit.known.lists import DigestList, KnownList
from ext4kit.known.table import WIDTHS, DigestTable

_NAMES: dict[str, HashName] = {
    "sha256": "sha256", "sha2_256": "sha256", "sha-256": "sha256", "sha1": "sha1",
    "sha-1": "sha1", "md5": "md5",
}  # fmt: skip
_SIZES = ("file_size", "filesize", "size", "bytes")
_AT_ONCE = 1 << 16  # rows


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of digests in a table or view.

    Attributes:
        size: column with the size of the file, "" for none.
    """

    table: str
    name: str
    algorithm: HashName
    is_indexed: bool
    size: str = ""


@dataclass(slots=True)
class DatabaseList:
    """A database in which digests are looked up; see `KnownList`."""

    name: str
    connection: sqlite3.Connection
    column: _Column
    count: int | None = None
    bad: int = 0
    first_bad: int = 0

    @property
    def algorithms(self) -> tuple[HashName, ...]:
        """The one algorithm that is looked up."""
        return (self.column.algorithm,)

    def may_have_size(self, size: int) -> bool:
        """Always true: sizes are not indexed."""
        return size >= 0

    def has(self, algorithm: HashName, digest: bytes) -> bool:
        """Whether it has a digest: as text in either case, or as bytes.

        Raises:
            RequestError: the database is damaged.
        """
        if algorithm != self.column.algorithm:
            return False
        text = digest.hex()
        table, column = _quoted(self.column.table), _quoted(self.column.name)
        query = f"SELECT 1 FROM {table} WHERE {column} IN (?, ?, ?) LIMIT 1"
        with _told(self.name):
            found = self.connection.execute(query, (text.upper(), text, digest)).fetchone()
        return found is not None


def open_database(path: Path) -> KnownList:
    """Open a database read-only, without locks and without changing anything beside it.

    Raises:
        RequestError: it is damaged or in use, or no column has digests.
    """
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.exists() and beside.stat().st_size:
            raise RequestError(f"{path}: is in use or was not closed: {beside.name} is not empty")
    with _told(str(path)):
        address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        connection.text_factory = bytes
        connection.execute("PRAGMA trusted_schema = OFF")
        column = _chosen(connection)
        if column is None:
            raise RequestError(f"{path}: no table has a column sha256, sha1 or md5 with hashes")
        if column.is_indexed:
            return DatabaseList(path.name, connection, column)
        try:
            return _read(path.name, connection, column)
        finally:
            connection.close()


def _chosen(connection: sqlite3.Connection) -> _Column | None:
    """The column to look up: with an index before none, in a table before a view, the strongest."""
    order = list(WIDTHS)
    kinds = connection.execute(
        "SELECT type = 'view', name FROM sqlite_master WHERE type IN ('table', 'view')"
    ).fetchall()
    found = [
        (not column.is_indexed, is_view, order.index(column.algorithm), place, column)
        for place, (is_view, name) in enumerate(kinds)
        for column in _columns(connection, name.decode("utf-8", "replace"), bool(is_view))
    ]
    for *_, column in sorted(found, key=lambda each: each[:4]):
        if _digest(_first(connection, column), WIDTHS[column.algorithm]) is not None:
            return column
    return None


def _first(connection: sqlite3.Connection, column: _Column) -> object:
    """A value of a column."""
    name, table = _quoted(column.name), _quoted(column.table)
    query = f"SELECT {name} FROM {table} WHERE length({name}) > 15 LIMIT 1"
    found = connection.execute(query).fetchone()
    return None if found is None else found[0]


def _columns(connection: sqlite3.Connection, table: str, is_view: bool) -> Iterator[_Column]:
    """The columns of a table that are named after an algorithm."""
    quoted = _quoted(table)
    info = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
    names = [row[1].decode("utf-8", "replace") for row in info]
    indexes = () if is_view else connection.execute(f"PRAGMA index_list({quoted})").fetchall()
    leading = set()
    for index in indexes:
        is_partial = bool(index[4])
        first = connection.execute(
            f"PRAGMA index_info({_quoted(index[1].decode('utf-8', 'replace'))})"
        ).fetchone()
        if first is not None and first[2] is not None and not is_partial:
            leading.add(first[2].decode("utf-8", "replace"))
    size = next((name for name in names if name.lower() in _SIZES), "")
    for name in names:
        if (algorithm := _NAMES.get(name.lower())) is not None:
            yield _Column(table, name, algorithm, name in leading, size)


def _read(name: str, connection: sqlite3.Connection, column: _Column) -> DigestList:
    """All digests of a column without an index, and the sizes of their files."""
    width, table = WIDTHS[column.algorithm], _quoted(column.table)
    parts, bad, first_bad, done = list[bytes](), 0, 0, 0
    cursor = connection.execute(f"SELECT {_quoted(column.name)} FROM {table}")
    while rows := cursor.fetchmany(_AT_ONCE):
        try:  # most often all of them are digits
            some = [bytes.fromhex(b"".join([value for (value,) in rows]).decode("ascii"))]
        except (TypeError, ValueError):
            some = []
        if len(rows) * width != sum(map(len, some)) or {len(row[0]) for row in rows} != {2 * width}:
            found = [_digest(value, width) for (value,) in rows]
            some = [digest for digest in found if digest is not None]
            bad += len(found) - len(some)
            first_bad = first_bad or (done + found.index(None) + 1 if None in found else 0)
        parts += some
        done += len(rows)
    array = np.frombuffer(b"".join(parts), np.uint8).reshape(-1, width)
    sizes = _all_sizes(connection, column)
    return DigestList(name, {column.algorithm: DigestTable.of(array)}, sizes, bad, first_bad)


def _all_sizes(connection: sqlite3.Connection, column: _Column) -> Int64s | None:
    """The sizes of all files, sorted; None where not each has one."""
    if not column.size:
        return None
    query = f"SELECT DISTINCT {_quoted(column.size)} FROM {_quoted(column.table)}"
    found = [size for (size,) in connection.execute(query)]
    is_whole = all(isinstance(size, int) for size in found)
    return np.array(sorted(found), np.int64) if is_whole else None


def _digest(value: object, width: int) -> bytes | None:
    """The digest that a value is, as hexadecimal digits or as bytes; None for another value."""
    if not isinstance(value, bytes):
        return None
    if len(value) == width:
        return value
    try:
        found = bytes.fromhex(value.decode("ascii"))
    except ValueError:
        return None
    return found if len(found) == width else None


def _quoted(name: str) -> str:
    """A name in a query."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _told(name: str) -> Iterator[None]:
    """An error of SQLite as one of the request."""
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        raise RequestError(f"{name}: cannot be read as an SQLite database: {error}") from error
