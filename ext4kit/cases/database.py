"""One SQLite database of all images of a case, made from the databases of `export --db`.

`version_1.sql` declares the tables and views; `refresh.sql` fills the tables that are derived from
all volumes. The id of a row is the id of its volume in the case, shifted left by 40 bits, plus the
id in the export. Therefore the result does not depend on the order of imports, and the rows of a
volume lie together. Nothing of the time or place of a run is stored.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from ext4kit.cases.queries import Value, find_query
from ext4kit.errors import OutputError, RequestError

TABLES = ("files", "versions", "events", "findings", "signs")
_VERSIONS = ("version_1.sql",)  # each brings the database to the next version
_APPLICATION = 1702376547  # "ex4c"
_EXPORT_VERSION = 2  # of export/schema.sql
_ID_BITS = 40
_MOST_VOLUMES = 1 << 22
_STEPS = 1_000_000  # steps of SQLite between two looks at interrupts
_PATIENCE, _PAUSE = 600.0, 0.1  # seconds that another process may take; between two tries
_AT_ONCE = 1000
_HOUR = 3600 * 1_000_000_000
# Errors that mean, during an import, that the export is not as it should be.
_OF_EXPORT = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_NOTADB,
)

# The derived rows of one volume; those of all volumes are in refresh.sql.
_OWNERS = """INSERT INTO owners
    SELECT uid, :volume, count(*), sum(state = 'deleted'), CAST(total(size) AS INTEGER)
    FROM files WHERE id BETWEEN :first AND :last AND uid IS NOT NULL GROUP BY uid"""
_TIMES = {
    "mtime": "content modified", "atime": "accessed", "ctime": "metadata changed",
    "crtime": "created", "dtime": "deleted",
}  # fmt: skip
_IN_HOUR = f"time - ((time % {_HOUR}) + {_HOUR}) % {_HOUR}"  # % has the sign of time
_HOURS = """INSERT INTO hours SELECT {hour}, :volume, what, count(*)
    FROM (SELECT {column} AS time, {what} AS what FROM {table}
          WHERE id BETWEEN :first AND :last AND {column} IS NOT NULL)
    WHERE true GROUP BY 1, 3
    ON CONFLICT DO UPDATE SET count = count + excluded.count"""


@dataclass(frozen=True, slots=True)
class VolumeInCase:
    """A volume of the case.

    Attributes:
        id: its number in the case, from 1.
        image: name of its image, unique in the case; volumes of one image give the same.
        locator: address of the volume.
        host: name of the computer; "" if it is not known.
        uuid, label: of the file system; "" for none.
    """

    id: int
    image: str
    locator: str
    host: str = ""
    uuid: str = ""
    label: str = ""

    @property
    def rows(self) -> dict[str, int]:
        """The first and last id that a row of this volume can have, as parameters of SQL."""
        first = self.id << _ID_BITS
        return {"volume": self.id, "first": first, "last": first + (1 << _ID_BITS) - 1}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query.

    Attributes:
        columns: names of the columns.
        rows: the rows; they are read from the database while they are taken.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[object, ...]]

    def by_column(self) -> Iterator[dict[str, Any]]:
        """The rows, each by the names of the columns."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


class CaseDatabase:
    """The database of a case; it is created if there is none.

    Several processes may open it at once. Writers wait for each other. A killed writer leaves
    nothing: the next one to open the database undoes its transaction.

    Args:
        path: the file.

    Raises:
        RequestError: the file is not a case database, or a newer program made it.
        OutputError: it cannot be opened, created or read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.environ.setdefault("SQLITE_TMPDIR", str(path.absolute().parent))
        with self._told():
            self._to = sqlite3.connect(
                _address(path, "rwc"), uri=True, isolation_level=None, timeout=0
            )
            try:
                self._prepare()
            except BaseException:
                self._to.close()
                raise

    def _prepare(self) -> None:
        self._to.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
        self._to.set_progress_handler(_go_on, _STEPS)
        for setting in ("trusted_schema = OFF", "temp_store = FILE", "cache_size = -262144"):
            self._run(f"PRAGMA {setting}")
        self._check()
        if self._pragma("user_version") < len(_VERSIONS):
            with self._transaction():
                self._check()  # another process may have been faster
                for name in _VERSIONS[self._pragma("user_version") :]:
                    self._script(name)

    def _check(self) -> None:
        """Refuse a database that is not of a case, or newer.

        Raises:
            RequestError: it is.
        """
        is_empty = not self._one("SELECT count(*) FROM sqlite_master")
        if not is_empty and self._pragma("application_id") != _APPLICATION:
            raise RequestError(f"{self.path}: is not a case database")
        version = self._pragma("user_version")
        if version > len(_VERSIONS):
            raise RequestError(
                f"{self.path}: has version {version} of the tables; this program knows versions"
                f" up to {len(_VERSIONS)}; use a newer one"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._to.close()

    # ------------------------------------------------------------------------------- writing

    def set_volumes(self, volumes: Iterable[VolumeInCase]) -> None:
        """Record facts of volumes without importing them; `not_read` then lists them.

        Raises:
            RequestError: an id is out of range.
            OutputError: the database could not be written.
        """
        with self._told(), self._transaction():
            for volume in volumes:
                self._set_volume(volume)

    def _set_volume(self, volume: VolumeInCase) -> None:
        if not 0 < volume.id < _MOST_VOLUMES:
            raise RequestError(f"volume {volume.id}: ids are 1 to {_MOST_VOLUMES - 1:,}")
        self._run(  # derived tables count images and name them
            "UPDATE state SET value = 0 WHERE key = 'is_fresh'"
            " AND EXISTS (SELECT 1 FROM volumes WHERE id = ? AND image <> ?)",
            (volume.id, volume.image),
        )
        self._run(
            "INSERT INTO volumes (id, image, host, locator, uuid, label) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET image = excluded.image, host = excluded.host,"
            " locator = excluded.locator, uuid = excluded.uuid, label = excluded.label",
            (volume.id, volume.image, volume.host, volume.locator, volume.uuid, volume.label),
        )

    def import_volume(self, volume: VolumeInCase, export: Path, job: str) -> None:
        """Replace all rows of a volume by those of an export, in one transaction.

        Args:
            volume: the volume.
            export: the file that `export --db` wrote; it is opened read-only.
            job: what is imported, as a digest of the export; see `imports`.

        Raises:
            RequestError: the file is no export of one volume, or damaged; nothing is changed.
            OutputError: the database could not be written; nothing is changed.
        """
        with self._told(export), self._attached(export), self._transaction():
            self._set_volume(volume)
            self._replace(volume)
            self._derive(volume)
            self._run("DELETE FROM imports WHERE volume_id = ?", (volume.id,))
            self._run(
                "INSERT INTO imports (volume_id, job, hashes, signs) VALUES (?, ?,"
                " (SELECT value FROM export.meta WHERE key = 'hashes'),"
                " (SELECT value FROM export.meta WHERE key = 'signs'))",
                (volume.id, job),
            )
            self._run("UPDATE state SET value = 0 WHERE key = 'is_fresh'")

    @contextmanager
    def _attached(self, export: Path) -> Iterator[None]:
        """The export, checked, as the schema `export`."""
        if not export.is_file():
            raise RequestError(f"{export}: no such file")
        self._run("ATTACH ? AS export", (_address(export, "ro"),))
        try:
            self._check_export(export)
            yield
        finally:
            self._run("DETACH export")

    def _check_export(self, export: Path) -> None:
        """Refuse a file that `export --db` did not write, or that is damaged.

        Raises:
            RequestError: it is.
        """
        plain = "type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        found = self._run(f"SELECT name FROM export.sqlite_master WHERE {plain}")
        names = {name for (name,) in found}
        if not {"meta", "volumes", *TABLES} <= names:
            raise RequestError(f"{export}: is not a database of `export --db`")
        version = self._pragma("export.user_version")
        if version != _EXPORT_VERSION:
            raise RequestError(
                f"{export}: has version {version} of the tables, not {_EXPORT_VERSION};"
                " export again"
            )
        if self._one("SELECT count(*) FROM export.volumes WHERE exported = 1") != 1:
            raise RequestError(f"{export}: is not the export of one volume")
        for table in TABLES:
            found = self._run(f"PRAGMA export.quick_check({table})").fetchone()[0]
            if found != "ok":
                raise RequestError(f"{export}: is damaged ({found.splitlines()[-1]}); export again")
            ids = f"SELECT min(id) < 1 OR max(id) >= {1 << _ID_BITS} FROM export.{table}"
            if self._one(ids):
                raise RequestError(f"{export}: ids of {table} are out of range")

    def _replace(self, volume: VolumeInCase) -> None:
        """Replace the rows of a volume; a column that the export does not have becomes NULL."""
        for table in TABLES:
            self._run(f"DELETE FROM {table} WHERE id BETWEEN :first AND :last", volume.rows)
            given = self._columns("export", table)
            copied = [name for name in self._columns("main", table)[2:] if name in given]
            columns = ", ".join(["id", "volume_id", *copied])
            values = ", ".join([":first + id", ":volume", *copied])
            insert = f"INSERT INTO main.{table} ({columns}) SELECT {values} FROM export.{table}"
            self._run(f"{insert} ORDER BY id", volume.rows)

    def _derive(self, volume: VolumeInCase) -> None:
        """Replace the derived rows of a volume."""
        for table in ("owners", "hours"):
            self._run(f"DELETE FROM {table} WHERE volume_id = ?", (volume.id,))
        self._run(_OWNERS, volume.rows)
        sources = [("files", column, f"'{what}'") for column, what in _TIMES.items()]
        for table, column, what in [("events", "time", "kind"), *sources]:
            hours = _HOURS.format(hour=_IN_HOUR, table=table, column=column, what=what)
            self._run(hours, volume.rows)

    def refresh(self) -> bool:
        """Bring indexes and tables that are derived from all volumes up to date.

        Returns:
            Whether there was anything to do.

        Raises:
            OutputError: the database could not be written; it is as before.
        """
        with self._told():
            if self.is_fresh:
                return False
            with self._transaction():
                self._script("refresh.sql")
        return True

    # ------------------------------------------------------------------------------- reading

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was imported since the last `refresh`."""
        return bool(self._one("SELECT value FROM state WHERE key = 'is_fresh'"))

    def imports(self) -> dict[int, str]:
        """The job of each imported volume, by the id of the volume."""
        with self._told():
            return dict(self._run("SELECT volume_id, job FROM imports ORDER BY volume_id"))

    def query(
        self, name: str, values: Mapping[str, Value] | None = None, limit: int | None = None
    ) -> Answer:
        """Answer one of `queries.QUERIES`.

        Args:
            name: its name.
            values: its parameters, by name; None as a value is the same as no value.
            limit: most rows; None for all.

        Raises:
            RequestError: there is no such query, a parameter does not fit, or the query needs
                `refresh` first.
            OutputError: the database cannot be read.
        """
        asked = find_query(name)
        bound = asked.bound(values or {})
        with self._told():
            if asked.needs_refresh and not self.is_fresh:
                raise RequestError(f"{self.path}: volumes were imported since the last refresh")
            sql = f"{asked.sql} LIMIT :_limit"
            cursor = self._run(sql, {**bound, "_limit": -1 if limit is None else limit})
        return Answer(tuple(each[0] for each in cursor.description), self._rows(cursor))

    def _rows(self, cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
        while True:
            with self._told():
                some = cursor.fetchmany(_AT_ONCE)
            if not some:
                return
            yield from some

    # ------------------------------------------------------------------------------- SQLite

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction; an error or an interrupt undoes it."""
        self._run("BEGIN EXCLUSIVE")  # no wait for readers later, in the middle of the work
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite itself has undone it after some errors
                self._run("ROLLBACK")
            raise

    def _run(self, sql: str, values: Sequence[Value] | Mapping[str, Value] = ()) -> sqlite3.Cursor:
        """Run a statement, when no other process writes; an interrupt ends the wait."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._to.execute(sql, values)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)

    def _script(self, name: str) -> None:
        """Run a script within the open transaction, which `executescript` would commit."""
        text = resources("ext4kit.cases").joinpath(name).read_text("utf-8")
        statement = ""
        for line in text.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._run(statement)
                statement = ""

    def _columns(self, schema: str, table: str) -> list[str]:
        return [row[1] for row in self._run(f"PRAGMA {schema}.table_info({table})")]

    def _pragma(self, name: str) -> int:
        return int(self._one(f"PRAGMA {name}"))

    def _one(self, sql: str) -> int:
        """The only value of a query."""
        value = self._run(sql).fetchone()[0]
        return value or 0

    @contextmanager
    def _told(self, export: Path | None = None) -> Iterator[None]:
        """An error of SQLite in one line; an interrupt as what it is.

        Raises:
            RequestError: the error is one of `export`.
            OutputError: it is one of the case database.
        """
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error
            if export and code in _OF_EXPORT:
                text = f"{export}: is damaged or not a database of `export --db` ({error})"
                raise RequestError(text) from error
            raise OutputError(f"{self.path}: {error}") from error


def _go_on() -> int:
    """Let SQLite go on; an interrupt that Python raises here ends its statement."""
    return 0


def _address(path: Path, mode: str) -> str:
    return f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
