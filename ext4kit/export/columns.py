"""The columns of a file, from which CSV, JSON lines, their schema and SQL are derived.

Values are computed for a batch of files at once. A column has the same name in all formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import Annotated, Any, Literal, NotRequired

from ext4kit import fields
from ext4kit.export.rows import Batch, FileRow, RowState
from ext4kit.export.texts import iso_or_empty
from ext4kit.fields import HashName, json_name
from ext4kit.history.places import Ground
from ext4kit.recovery import DeletedFile, TransactionTime
from ext4kit.recovery.manifest import (
    Between,
    DeletedAt,
    DeletedGround,
    Freed,
    Mime,
    Trust,
    moment_record,
)
from ext4kit.report.listing import mode_text
from ext4kit.report.safe import printable

Value = Any  # type: ignore[explicit-any]  # what JSON takes, bytes of a name, two transactions
Values = Iterable[Value]
_MOST = (1 << 63) - 1  # largest SQLite integer; times end in 2262 there
_JSON = json.JSONEncoder().encode


class Shape(Enum):
    """How a value becomes a cell of a table, and a field in JSON."""

    NUMBER = auto()
    TEXT = auto()
    TIME = auto()  # ns; ISO 8601 in a table for people
    MODE = auto()  # octal in a table for people
    FLAG = auto()  # yes or no in a table for people
    NAME = auto()  # exact bytes; given as text, with the bytes added where the text is not exact
    TEXTS = auto()  # several texts
    BETWEEN = auto()  # a pair of transactions; two columns of a table, four of a database


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: name in all formats.
        kind: type and description of the field in JSON.
        of: gives the values of a batch.
        shape: form of the value.
        sql: type in the database, if it does not follow from the shape.
        is_gone: whether only deleted files have the column; JSON omits it for live files.
        is_optional: whether JSON omits the field if it has no value.
        only: formats that have the column.
    """

    name: str
    kind: object
    of: Callable[[FileColumns], Values]
    shape: Shape = Shape.TEXT
    sql: str = ""
    is_gone: bool = False
    is_optional: bool = False
    only: tuple[Literal["csv", "json", "sql"], ...] = ("csv", "json", "sql")


class FileColumns:
    """The files of a batch, column by column.

    Args:
        batch: the files, either all live or all deleted.
    """

    def __init__(self, batch: Batch) -> None:
        self.rows, self._digests = batch.rows, batch.digests
        columns = zip(*batch.rows, strict=True) if batch.rows else repeat(())
        names = batch.rows[0]._fields if batch.rows else FileRow._fields
        self._fields: dict[str, Sequence[Value]] = dict(zip(names, columns, strict=False))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def files(self) -> list[DeletedFile] | None:
        """The records of deleted files; None for live ones."""
        return (
            [row.gone for row in self.rows if row.gone] if self.rows and self.rows[0].gone else None
        )

    @property
    def is_known(self) -> list[bool]:
        """Per file: whether its path is known."""
        return [raw is not None for raw in self.field("raw")]

    @property
    def state(self) -> list[RowState]:
        """Per file: live, deleted or earlier."""
        return [row.state for row in self.rows]

    def field(self, name: str) -> Sequence[Value]:
        """The values of one field of the rows."""
        return self._fields[name]

    def gone(self, of: Callable[[DeletedFile], Value]) -> Values:
        """The value of `of` for each deleted file; None for live files."""
        return repeat(None, len(self)) if self.files is None else list(map(of, self.files))

    def digest(self, name: HashName) -> Values:
        """One hash of each file."""
        return [digests.get(name) for digests in self._digests]

    def each(self, of: Callable[[FileRow], Value]) -> Values:
        """The value of `of` for each row."""
        return list(map(of, self.rows))


def _field(name: str) -> Callable[[FileColumns], Values]:
    return lambda files: files.field(name)


def _gone(name: str) -> Callable[[FileColumns], Values]:
    return lambda files: files.gone(attrgetter(name))


def _digest(name: HashName) -> Callable[[FileColumns], Values]:
    return lambda files: files.digest(name)


def _permissions(files: FileColumns) -> Values:
    return [None if mode is None else mode_text(mode) for mode in files.field("mode")]


def _mime(files: FileColumns) -> Values:
    return files.each(lambda row: row.format.mime if row.gone and row.format else None)


def _deleted_at(files: FileColumns) -> Values:
    return files.gone(lambda file: file.deletion and file.deletion[0])


def _deletion_ground(files: FileColumns) -> Values:
    return files.gone(lambda file: file.deletion and file.deletion[1])


_SHOWN = "The path as other formats show it; a path below `/$Unnamed` or `/$Carved` is made up."
_NUMBER, _TIME = Shape.NUMBER, Shape.TIME
COLUMNS = (
    Column("state", RowState, lambda files: files.state, sql="TEXT NOT NULL"),
    Column("grade", Trust, _gone("grade"), is_gone=True),
    Column("path", fields.Path | None, _field("raw"), Shape.NAME, "TEXT NOT NULL"),
    Column("shown", Annotated[str, _SHOWN], _field("path"), only=("json",)),
    Column("name", str, lambda files: files.each(attrgetter("name")), only=("sql",)),
    Column("path_known", bool, lambda files: files.is_known, Shape.FLAG, only=("csv", "sql")),
    Column(
        "path_ground",
        Annotated[Ground | None, "Evidence for the path of a deleted file."],
        _gone("path_ground"),
        is_gone=True,
    ),
    Column("type", fields.FileType, lambda files: files.each(attrgetter("kind"))),
    Column("mode", fields.Mode | None, _field("mode"), Shape.MODE),
    Column("permissions", str | None, _permissions, only=("sql",)),
    Column("inode", fields.Inode | None, _field("number"), _NUMBER),
    Column("generation", fields.Generation | None, _field("generation"), _NUMBER),
    Column("uid", fields.Count | None, _field("uid"), _NUMBER),
    Column("gid", fields.Count | None, _field("gid"), _NUMBER),
    Column("size", Annotated[int | None, "Bytes."], _field("size"), _NUMBER),
    Column("links_count", int | None, _field("links"), _NUMBER),
    Column("atime", fields.Moment | None, _field("atime"), _TIME),
    Column("mtime", fields.Moment | None, _field("mtime"), _TIME),
    Column("ctime", fields.Moment | None, _field("ctime"), _TIME),
    Column("crtime", fields.Created | None, _field("crtime"), _TIME),
    Column("dtime", Freed | None, _field("dtime"), _TIME),
    Column("deleted_between", Between, _gone("deleted_between"), Shape.BETWEEN, is_gone=True),
    Column("target", fields.Target, _field("target"), Shape.NAME, is_optional=True),
    Column("blocks", int, _gone("blocks"), _NUMBER, is_gone=True),
    Column("blocks_reused", int, _gone("blocks_reused"), _NUMBER, is_gone=True),
    Column("first_block", int | None, _gone("first_block"), _NUMBER, is_gone=True),
    Column("mime", Mime | None, _mime, is_gone=True),
    Column("md5", fields.Md5, _digest("md5"), is_optional=True),
    Column("sha1", fields.Sha1, _digest("sha1"), is_optional=True),
    Column("sha256", fields.Sha256, _digest("sha256"), is_optional=True),
    Column("sources", dict[str, str], _gone("sources"), Shape.TEXTS, is_gone=True, only=("sql",)),
    Column(
        "problems",
        Annotated[
            tuple[str, ...], "Reasons why the content is incomplete or uncertain, as sentences."
        ],
        _gone("problems"),
        Shape.TEXTS,
        is_gone=True,
    ),
    Column("deleted_at", DeletedAt | None, _deleted_at, _TIME, is_gone=True),
    Column("deleted_at_ground", DeletedGround | None, _deletion_ground, is_gone=True),
)


# --------------------------------------------------------------------------- tables for people

# Characters that begin a formula in spreadsheets, and the quote itself, so that a reader can tell
# which quotes were added.
_GUARDED = frozenset("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")


def guarded(text: str) -> str:
    """Text for a cell that no spreadsheet reads as a formula: `'` is put in front where needed."""
    return f"'{text}" if text[:1] in _GUARDED and text else text


def _columns(form: Literal["csv", "json", "sql"]) -> list[Column]:
    return [each for each in COLUMNS if form in each.only]


def table_names() -> tuple[str, ...]:
    """The headings of a table for people."""
    return tuple(
        name
        for each in _columns("csv")
        for name in (("last_seen", "gone_by") if each.shape is Shape.BETWEEN else (each.name,))
    )


def table_rows(batch: Batch) -> Iterator[tuple[Value, ...]]:
    """The cells of a table for people; text is guarded, except paths, which start with `/`."""
    files = FileColumns(batch)
    found: list[Values] = []
    for each in _columns("csv"):
        values = files.field("path") if each.name == "path" else each.of(files)
        if each.shape is Shape.BETWEEN:
            found += ([_moment(one) for one in side] for side in _sides(values))
        elif each.shape in _CELLS and each.name != "path":
            found.append(map(_CELLS[each.shape], values))
        else:
            found.append(values)
    return zip(*found, strict=True)


_CELLS: dict[Shape, Callable[[Value], str | None]] = {
    Shape.TIME: iso_or_empty,
    Shape.MODE: lambda mode: None if mode is None else f"{mode:06o}",
    Shape.FLAG: lambda value: "yes" if value else "no",
    Shape.NAME: lambda name: None if name is None else guarded(printable(name)),
    Shape.TEXTS: lambda some: None if some is None else guarded("; ".join(some)),
}


def _sides(pairs: Values) -> tuple[list[TransactionTime | None], list[TransactionTime | None]]:
    """(last time at which each file existed, first time at which it did not)."""
    known = [pair or (None, None) for pair in pairs]
    return [pair[0] for pair in known], [pair[1] for pair in known]


def _moment(moment: TransactionTime | None) -> str | None:
    if moment is None:
        return None
    return f"transaction {moment.transaction} {iso_or_empty(moment.time)}".rstrip()


# ---------------------------------------------------------------------------------- JSON lines


def json_fields() -> dict[str, Value]:
    """The annotation of each field of a record `file`."""
    found: dict[str, Value] = {"record": Literal["file"]}
    for each in _columns("json"):
        is_left_out = each.is_gone or each.is_optional
        found[each.name] = NotRequired[each.kind] if is_left_out else each.kind
        if each.shape is Shape.NAME:
            found[f"{each.name}_bytes"] = NotRequired[fields.Exact]
    return found


def json_records(batch: Batch) -> Iterator[dict[str, Value]]:
    """The record of each file: times in integer nanoseconds, names exact."""
    files = FileColumns(batch)
    known = [each for each in _columns("json") if files.files is not None or not each.is_gone]
    names = [each.name for each in known]
    optional = [each.name for each in known if each.is_optional]
    exact = [each.name for each in known if each.shape is Shape.NAME]
    values = [
        _between(each.of(files)) if each.shape is Shape.BETWEEN else each.of(files)
        for each in known
    ]
    for row in zip(*values, strict=True):
        record: dict[str, Value] = {"record": "file", **dict(zip(names, row, strict=True))}
        for name in optional:
            if record[name] is None:
                del record[name]
        for name in exact:
            if name in record:
                record |= json_name(record[name], name)
        yield record


def _between(pairs: Values) -> Values:
    return (tuple(map(moment_record, pair)) for pair in pairs)


# ------------------------------------------------------------------------------------ database

_SQL_TYPES = {
    Shape.NUMBER: "INTEGER",
    Shape.TEXT: "TEXT",
    Shape.TIME: "INTEGER",
    Shape.MODE: "INTEGER",
    Shape.FLAG: "INTEGER NOT NULL",
    Shape.NAME: "TEXT",
    Shape.TEXTS: "TEXT",
}
_SIDES = ("last_seen_transaction", "last_seen_time", "gone_by_transaction", "gone_by_time")


def sql_columns() -> dict[str, str]:
    """The type of each column of `files` and `versions` in the database."""
    found: dict[str, str] = {}
    for each in _columns("sql"):
        if each.shape is Shape.BETWEEN:
            found |= dict.fromkeys(_SIDES, "INTEGER")
        else:
            found[each.name] = each.sql or _SQL_TYPES[each.shape]
        if each.shape is Shape.NAME:
            found[f"{each.name}_bytes"] = "BLOB"
    return found


def sql_rows(batch: Batch) -> Iterator[tuple[Value, ...]]:
    """The values of `sql_columns` for each file."""
    files = FileColumns(batch)
    found: list[Values] = []
    for each in _columns("sql"):
        values = each.of(files)
        if each.shape is Shape.BETWEEN:
            for side in _sides(values):
                found.append([one and one.transaction for one in side])
                found.append([one and one.time for one in side])
        elif each.shape is Shape.NAME:
            names = list(values)
            is_path = each.name == "path"
            texts = files.field("path") if is_path else [name and printable(name) for name in names]
            found += [texts, map(exact, names, texts)]
        else:
            found.append(map(_SQL_VALUES.get(each.shape, _as_it_is), values))
    return zip(*found, strict=True)


def _as_it_is(value: Value) -> Value:
    return value


def held(value: int | None) -> int | None:
    """A number limited to the range of a column, which for times ends in 2262."""
    return value if value is None or value <= _MOST else _MOST


def exact(name: bytes | None, text: str | None) -> bytes | None:
    """The bytes of a name if its text does not represent them exactly, else None."""
    return None if name is None or (text or "").encode() == name else name


_SQL_VALUES: dict[Shape, Callable[[Value], Value]] = {
    Shape.TIME: held,
    Shape.NUMBER: held,
    Shape.FLAG: int,
    Shape.TEXTS: lambda some: _JSON(some) if some else None,
}
