"""A case as an SQLite database, for the standard client, Datasette and other programs.

`schema.sql` declares the tables, `indexes.sql` the indexes. The file must not exist before. An
unfinished database is named `*.incomplete`, like every output.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files as resources
from itertools import chain
from pathlib import Path
from typing import ClassVar

from ext4kit import __version__
from ext4kit.errors import OutputError
from ext4kit.export.format import Format, Subject
from ext4kit.export.rows import Batch, Cell, FileRow, RowState
from ext4kit.export.texts import iso
from ext4kit.fields import SomeDigests
from ext4kit.problems import Problem
from ext4kit.recovery import DeletedFile, TransactionTime
from ext4kit.recovery.manifest import ground_of
from ext4kit.report.listing import mode_text
from ext4kit.report.safe import printable, printable_text
from ext4kit.report.timeline import plain_value
from ext4kit.timeline import Event
from ext4kit.timeline.events import EventValue
from ext4kit.triage import Indicator, Sighting
from ext4kit.triage.suspicions.rules import Rule
from ext4kit.verify import Verification

_MOST = (1 << 63) - 1  # largest SQLite integer
_NO_SIGNS = "not searched: they need all files and events"
_FILES = "CREATE TABLE files"
_JSON = json.JSONEncoder().encode
_SETTINGS = (
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
    "PRAGMA cache_size = -65536;"
)


class Database(Format):
    """Writes the tables, then the indexes.

    Args:
        subject: what is exported.
        path: an empty file of the output.
    """

    takes_types: ClassVar[bool] = True
    takes_events: ClassVar[bool] = True
    takes_findings: ClassVar[bool] = True
    takes_signs: ClassVar[bool] = True

    def __init__(self, subject: Subject, path: Path) -> None:
        super().__init__(subject)
        self.path = path
        self._to = sqlite3.connect(path, isolation_level=None)
        self._volume = subject.volume.index

    def begin(self) -> None:
        """Create the tables; record the export and the volumes of the image."""
        self._script(_SETTINGS)
        schema = _sql("schema.sql")
        self._script(schema)
        files = schema[schema.index(_FILES) : schema.index(";", schema.index(_FILES)) + 1]
        self._script(files.replace(_FILES, "CREATE TABLE versions"))  # with the same columns
        self._to.execute("BEGIN")
        self._insert("meta", _meta(self.subject))
        self._insert("volumes", _volumes(self.subject))

    def files(self, batch: Batch) -> None:
        """Fill `files`; earlier versions go to `versions`."""
        pairs = list(zip(batch.rows, batch.digests, strict=True))
        now = [pair for pair in pairs if pair[0].state is not RowState.EARLIER]
        earlier = [pair for pair in pairs if pair[0].state is RowState.EARLIER]
        for table, some in (("files", now), ("versions", earlier)):
            self._insert(table, (_file(self._volume, *pair) for pair in some))
        self.count += len(now)

    def events(self, events: Sequence[Event]) -> None:
        """Fill `events`."""
        self._insert("events", (_event(self._volume, event) for event in events))

    def findings(self, result: Verification | None, problems: Iterable[Problem]) -> None:
        """Fill `findings`."""
        self._insert("findings", _findings(self._volume, result, problems))

    def signs(self, found: Sequence[Indicator] | None) -> None:
        """Fill `signs`; `meta` tells whether they were searched."""
        state = "searched" if found is not None else _NO_SIGNS
        self._insert("meta", [("signs", state)])
        for one in found or ():
            self._insert("signs", (_sign(self._volume, one.rule, seen) for seen in one.sightings))

    def end(self) -> None:
        """Create the indexes and close."""
        self._script(_sql("indexes.sql"))  # ends the transaction first
        self._to.close()

    def close(self) -> None:
        """Close an unfinished database."""
        self._to.close()

    def _insert(self, table: str, rows: Iterable[tuple[Cell, ...]]) -> None:
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        marks = ", ".join("?" * len(first))
        try:
            self._to.executemany(f"INSERT INTO {table} VALUES ({marks})", chain([first], rows))
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _script(self, script: str) -> None:
        try:
            self._to.executescript(script)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> OutputError:
        return OutputError(f"{self.path}: {error}; it is incomplete")


def _sql(name: str) -> str:
    return resources("ext4kit.export").joinpath(name).read_text("utf-8")


def _meta(subject: Subject) -> Iterator[tuple[str, Cell]]:
    evidence = subject.image.evidence
    yield "tool", f"ext4kit {__version__}"
    yield "image", printable_text(str(evidence.path))
    yield "image_format", evidence.format
    yield "image_size", evidence.source.size
    yield "started", iso(subject.started)
    yield "command", printable_text(subject.command)
    yield "hashes", ", ".join(subject.hashes)
    yield "operator", subject.operator
    yield "case_number", subject.case_number


def _volumes(subject: Subject) -> Iterator[tuple[Cell, ...]]:
    for each in subject.image.evidence.volumes:
        yield (
            each.index, each.parent or None, each.offset, each.size, each.source.size, each.kind,
            *map(printable_text, (each.label, each.uuid, each.scheme, each.description)),
            int(each.index == subject.volume.index),
        )  # fmt: skip


def _file(volume: int, row: FileRow, digests: SomeDigests) -> tuple[Cell, ...]:
    """A row of `files`, its columns in order."""
    deleted = row.gone
    last, by = deleted.deleted_between if deleted else (None, None)
    return (
        None, volume, row.state.value, deleted.grade.value if deleted else None, row.path, row.name,
        *_known(row), row.kind, row.number, row.generation, row.mode,
        None if row.mode is None else mode_text(row.mode), row.uid, row.gid, _held(row.size),
        row.links, *map(_held, row[9:14]),
        *_name(row.target),
        *_moment(last), *_moment(by), *_deletion(deleted), *row.remains,
        digests.get("md5"), digests.get("sha1"), digests.get("sha256"),
        _JSON(deleted.sources) if deleted else None,
        _JSON(deleted.problems) if deleted and deleted.problems else None,
    )  # fmt: skip


def _held(value: int | None) -> int | None:
    """A number limited to the range of a column, which for times ends in 2262."""
    return value if value is None or value <= _MOST else _MOST


def _known(row: FileRow) -> tuple[int, str | None, bytes | None]:
    """(whether the path is known, the evidence for it, its bytes where the text differs)."""
    if row.raw is None:
        return 0, None, None
    return 1, ground_of(row.gone), _exact(row.raw, row.path)


def _exact(name: bytes, text: str) -> bytes | None:
    """The bytes of a name whose text differs from them."""
    return None if text.encode() == name else name


def _name(name: bytes | None) -> tuple[str | None, bytes | None]:
    """(text, exact bytes where they differ)."""
    if name is None:
        return None, None
    text = printable(name)
    return text, _exact(name, text)


def _moment(moment: TransactionTime | None) -> tuple[int | None, int | None]:
    return (None, None) if moment is None else (moment.transaction, moment.time)


def _deletion(file: DeletedFile | None) -> tuple[int | None, str | None]:
    """(deletion time, its ground)."""
    found = file.deletion if file else None
    return (None, None) if found is None else (_held(found[0]), found[1].value)


def _sign(volume: int, rule: Rule, seen: Sighting) -> tuple[Cell, ...]:
    """A row of `signs`, its columns in order."""
    path = b"/" if seen.path == b"" else seen.path
    return (
        None, volume, rule.code, rule.weight.value, rule.title, rule.reason, *_name(path),
        seen.inode, seen.generation, _held(seen.when), _JSON(seen.seen), _held(seen.size),
        seen.mode, seen.grade.value if seen.grade else None, seen.note or None,
    )  # fmt: skip


def _event(volume: int, event: Event) -> tuple[Cell, ...]:
    path = b"/" if event.path == b"" else event.path
    return (
        None, volume, event.time, event.transaction, int(event.exact), event.kind.value,
        event.inode, event.generation, *_name(path),
        *_name(event.old_path), _value(event.old), _value(event.new), event.reason or None,
        event.source or None,
    )  # fmt: skip


def _value(value: EventValue) -> Cell:
    """A number unchanged, a compound value as JSON."""
    return _JSON(plain_value(value)) if isinstance(value, dict) else _held(value)


def _findings(
    volume: int, result: Verification | None, problems: Iterable[Problem]
) -> Iterator[tuple[Cell, ...]]:
    for finding in result.findings.kept if result else ():
        yield (
            None, volume, "verify", finding.severity.value, finding.code, finding.structure,
            finding.inode, finding.group, finding.block, finding.byte,
            printable_text(finding.read) or None, printable_text(finding.expected) or None,
            finding.meaning,
        )  # fmt: skip
    for problem in problems:
        yield (
            None, volume, "reading", problem.severity.value, None, printable_text(problem.where),
            None, None, None, None, None, None, printable_text(problem.what),
        )  # fmt: skip
