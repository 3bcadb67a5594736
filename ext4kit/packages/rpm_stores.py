"""The three files in which rpm keeps the headers of packages: SQLite, ndb, Berkeley DB.

Sources: lib/backend of rpm 4.18 (its layout of `Packages.db`), the documentation of Berkeley DB 5.3
and its db_page.h, and the file format of SQLite.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing

from ext4kit.errors import CorruptError

_MOST_HEADER = 128 << 20  # bytes of one header
MOST_HEADERS = 200_000
_SECONDS = 60.0  # most time of SQLite
_STEPS = 100_000
_SQLITE = b"SQLite format 3\0"


def headers_in_sqlite(data: bytes, log: bytes | None) -> Iterator[bytes]:
    """The headers in rpmdb.sqlite.

    Args:
        data: the database.
        log: rpmdb.sqlite-wal, which may have newer pages.

    Raises:
        CorruptError: it is damaged; headers before the damage were given.
    """
    pages = bytearray(data)
    if not pages.startswith(_SQLITE):
        raise CorruptError("rpmdb.sqlite", 0, "no SQLite database")
    if log:
        _apply_log(pages, log)
    pages[18:20] = b"\1\1"  # not in the mode with a log, which needs a file
    left = 2 * len(pages)
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            _prepare(connection, bytes(pages))
            query = "SELECT blob FROM Packages ORDER BY hnum LIMIT ?"
            for (blob,) in connection.execute(query, (MOST_HEADERS,)):
                header = blob if isinstance(blob, bytes) else b""
                left -= len(header)
                if left < 0:
                    raise CorruptError("rpmdb.sqlite", None, "more headers than fit into it")
                yield header
    except (sqlite3.Error, sqlite3.Warning, OverflowError, MemoryError) as error:
        raise CorruptError("rpmdb.sqlite", None, str(error)) from error


def _prepare(connection: sqlite3.Connection, data: bytes) -> None:
    """Open a hostile database in memory.

    Raises:
        CorruptError: it has no table of packages.
    """
    end = time.monotonic() + _SECONDS
    connection.deserialize(data)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_HEADER)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    kind = "SELECT type FROM sqlite_schema WHERE name = 'Packages'"
    if connection.execute(kind).fetchone() != ("table",):
        raise CorruptError("rpmdb.sqlite", None, "it has no table of packages")


_LOG_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")


def _apply_log(pages: bytearray, log: bytes) -> None:
    """Copy the pages of committed transactions of a write-ahead log into a database."""
    if len(log) < _LOG_HEADER.size:
        return
    magic, _, size, _, *salts = _LOG_HEADER.unpack_from(log)[:6]
    if magic & ~1 != 0x377F0682 or size < 512 or size > 65_536:
        return
    waiting: dict[int, int] = {}
    for at in range(_LOG_HEADER.size, len(log) - size - _FRAME.size + 1, _FRAME.size + size):
        number, committed, *rest = _FRAME.unpack_from(log, at)
        if rest[:2] != salts or not 0 < number <= (len(pages) + len(log)) // size:
            break
        waiting[number] = at + _FRAME.size
        if committed:
            for page, place in waiting.items():
                end = page * size
                pages.extend(bytes(max(end - len(pages), 0)))
                pages[end - size : end] = log[place : place + size]
            waiting.clear()


_NDB_HEADER, _SLOT, _BLOB = (
    struct.Struct("<4sIIII"),
    struct.Struct("<4sIII"),
    struct.Struct("<4sIII"),
)
_NDB_PAGE, _NDB_BLOCK = 4096, 16


def headers_in_ndb(data: bytes) -> Iterator[bytes]:
    """The headers in Packages.db.

    Raises:
        CorruptError: it is damaged; headers before the damage were given.
    """
    if len(data) < _NDB_PAGE or data[:4] != b"RpmP":
        raise CorruptError("Packages.db", 0, "no database of rpm")
    slot_pages = min(_NDB_HEADER.unpack_from(data)[3], len(data) // _NDB_PAGE)
    damage, left = "", len(data)
    for at in range(2 * _SLOT.size, slot_pages * _NDB_PAGE, _SLOT.size):
        magic, package, block, count = _SLOT.unpack_from(data, at)
        if magic != b"Slot":
            raise CorruptError("Packages.db", at, "no slot")
        if not package:
            continue
        start, end = block * _NDB_BLOCK, (block + count) * _NDB_BLOCK
        left -= end - start
        if end > len(data) or left < 0 or end - start < _BLOB.size:
            damage = f"package {package} lies outside of it"
            continue
        magic, number, _, size = _BLOB.unpack_from(data, start)
        if magic != b"BlbS" or number != package or size > end - start - _BLOB.size:
            damage = f"package {package} has no header"
            continue
        yield data[start + _BLOB.size : start + _BLOB.size + size]
    if damage:
        raise CorruptError("Packages.db", None, damage)


_HASH_MAGIC, _MAGIC_AT = 0x061561, 12
_PAGE_HEADER, _INDEXES = 26, 26
_KEY_DATA, _OFF_PAGE = 1, 3
_HASH_PAGES, _OVERFLOW = (2, 13), 7
_BDB = "Packages (Berkeley DB)"


def headers_in_bdb(data: bytes) -> Iterator[bytes]:
    """The headers in Packages, a hash table of Berkeley DB in either byte order.

    Raises:
        CorruptError: it is damaged; headers before the damage were given.
    """
    if len(data) < 512:
        raise CorruptError(_BDB, 0, "too short")
    order = next((o for o in "<>" if _word(data, _MAGIC_AT, o) == _HASH_MAGIC), "")
    size = _word(data, 20, order) if order else 0
    if not order or not 512 <= size <= 65_536 or size & (size - 1):
        raise CorruptError(_BDB, 0, "no hash table of Berkeley DB")
    if data[24]:
        raise CorruptError(_BDB, 0, "it is encrypted")
    pages = _HashPages(data, size, order)
    for number in range(1, len(data) // size):
        if data[number * size + 25] in _HASH_PAGES:
            yield from pages.headers(number)
    if pages.damage:
        raise CorruptError(_BDB, None, pages.damage)


def _word(data: bytes, at: int, order: str) -> int:
    value: int = struct.unpack_from(f"{order}I", data, at)[0]
    return value


class _HashPages:
    """The pages of a hash table.

    Attributes:
        damage: what was found last; "" for nothing.
    """

    def __init__(self, data: bytes, size: int, order: str) -> None:
        self._data, self._size = data, size
        self._index = struct.Struct(f"{order}H")
        self._reference = struct.Struct(f"{order}B3xII")  # H_OFFPAGE: type, page, length
        self._following = struct.Struct(f"{order}I2xH")  # at byte 16: next page, bytes of this one
        self._left = len(data)  # no byte is in two headers
        self.damage = ""

    def headers(self, number: int) -> Iterator[bytes]:
        """The values in a page whose keys are not that of the counter."""
        base, end = number * self._size, self._size
        count = self._index.unpack_from(self._data, base + 20)[0]
        if count * 2 > self._size - _INDEXES:
            self.damage = f"page {number} has {count} entries"
            return
        starts = [
            self._index.unpack_from(self._data, base + _INDEXES + 2 * row)[0]
            for row in range(count)
        ]
        for row, start in enumerate(starts):
            if not _INDEXES <= start < end:
                self.damage = f"an entry of page {number} lies outside of it"
                return
            item, end = self._data[base + start : base + end], start
            if row % 2 and (header := self._value(item)) is not None and len(header) > 4:
                yield header

    def _value(self, item: bytes) -> bytes | None:
        if item[0] == _KEY_DATA:
            return item[1:]
        if item[0] != _OFF_PAGE or len(item) < self._reference.size:
            self.damage = f"an entry of type {item[0]}"
            return None
        _, page, size = self._reference.unpack_from(item)
        if size > min(self._left, _MOST_HEADER):
            self.damage = "an entry is larger than the database"
            return None
        self._left -= size
        return self._chain(page, size)

    def _chain(self, page: int, size: int) -> bytes | None:
        """The bytes of a chain of overflow pages."""
        parts, left = [], size
        while left > 0:
            base = page * self._size
            if not page or base + self._size > len(self._data):
                break
            following, held = self._following.unpack_from(self._data, base + 16)
            is_overflow = self._data[base + 25] == _OVERFLOW
            if not is_overflow or not 0 < held <= self._size - _PAGE_HEADER:
                break
            parts.append(self._data[base + _PAGE_HEADER : base + _PAGE_HEADER + min(held, left)])
            page, left = following, left - held
        if left > 0:
            self.damage = "a chain of overflow pages is cut"
            return None
        return b"".join(parts)
