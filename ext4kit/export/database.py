"""A case as an SQLite database, for the standard client, Datasette and other programs.

`schema.sql` declares the tables, `indexes.sql` the indexes. The file must be empty. An unfinished
database is named `*.incomplete`, like every output.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files as resources
from itertools import chain
from pathlib import Path
from typing import ClassVar

from ext4kit import __version__
from ext4kit.errors import OutputError
from ext4kit.export.columns import exact, held, sql_columns, sql_rows
from ext4kit.export.format import Format, Subject
from ext4kit.export.rows import Batch, Cell, RowState
from ext4kit.export.texts import iso
from ext4kit.problems import Problem
from ext4kit.report.safe import printable, printable_text
from ext4kit.report.timeline import plain_value
from ext4kit.timeline import Event
from ext4kit.timeline.events import EventValue
from ext4kit.triage import Indicator, Sighting
from ext4kit.triage.rules.rule import Rule
from ext4kit.verify import Finding, Verification

_NO_SIGNS = "not searched: they need all files and events"
_JSON = json.JSONEncoder().encode
Row = Mapping[str, Cell]  # by column
_SETTINGS = (
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
    "PRAGMA cache_size = -65536;"
)


class Database(Format):
    """Writes the tables, then the indexes.

    Args:
        subject: what is exported, and how.
        path: the empty output file.
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
        columns = ",\n    ".join(f"{name} {kind}" for name, kind in sql_columns().items())
        self._script(_sql("schema.sql").replace("-- columns of a file", columns))
        self._to.execute("BEGIN")
        facts = _meta(self.subject).items()
        self._insert("meta", ({"key": key, "value": value} for key, value in facts))
        self._insert("volumes", _volumes(self.subject))

    def files(self, batch: Batch) -> None:
        """Fill `files`; earlier versions go to `versions`."""
        names = ("volume_id", *sql_columns())
        tables: dict[str, list[Row]] = {"files": [], "versions": []}
        for file, values in zip(batch.rows, sql_rows(batch), strict=True):
            table = "versions" if file.state is RowState.EARLIER else "files"
            tables[table].append(dict(zip(names, (self._volume, *values), strict=True)))
        for table, rows in tables.items():
            self._insert(table, rows)
        self.count += len(tables["files"])

    def events(self, events: Sequence[Event]) -> None:
        """Fill `events`."""
        self._insert("events", (_event(self._volume, event) for event in events))

    def findings(self, result: Verification | None, problems: Iterable[Problem]) -> None:
        """Fill `findings`."""
        found = result.findings.kept if result else ()
        self._insert("findings", (_finding(self._volume, one) for one in found))
        self._insert("findings", (_problem(self._volume, one) for one in problems))

    def signs(self, found: Sequence[Indicator] | None) -> None:
        """Fill `signs`; `meta` records whether signs were searched."""
        state = "searched" if found is not None else _NO_SIGNS
        self._insert("meta", [{"key": "signs", "value": state}])
        for one in found or ():
            self._insert("signs", (_sign(self._volume, one.rule, seen) for seen in one.sightings))

    def end(self) -> None:
        """Create the indexes and close."""
        self._script(_sql("indexes.sql"))  # the script first commits the open transaction
        self._to.close()

    def close(self) -> None:
        """Close an unfinished database."""
        self._to.close()

    def _insert(self, table: str, rows: Iterable[Row]) -> None:
        """Insert rows, all with the columns of the first one."""
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        columns, values = ", ".join(first), ", ".join(f":{name}" for name in first)
        insert = f"INSERT INTO {table} ({columns}) VALUES ({values})"
        try:
            self._to.executemany(insert, chain([first], rows))
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


def _meta(subject: Subject) -> Row:
    evidence = subject.image.evidence
    return {
        "tool": f"ext4kit {__version__}",
        "image": printable_text(str(evidence.path)),
        "image_format": evidence.format,
        "image_size": evidence.source.size,
        "locator": printable_text(subject.locator),
        "started": iso(subject.started),
        "command": printable_text(subject.command),
        "hashes": ", ".join(subject.hashes),
        "operator": subject.operator,
        "case_number": subject.case_number,
    }


def _volumes(subject: Subject) -> Iterator[Row]:
    for each in subject.image.evidence.volumes:
        yield {
            "id": each.index,
            "parent": each.parent or None,
            "byte_offset": each.offset,
            "size": each.size,
            "readable": each.source.size,
            "kind": each.kind,
            "label": printable_text(each.label),
            "uuid": printable_text(each.uuid),
            "scheme": printable_text(each.scheme),
            "description": printable_text(each.description),
            "exported": int(each.index == subject.volume.index),
        }


def _named(column: str, name: bytes | None) -> Row:
    """A column with the text of a name, and one with its bytes if the text is not exact."""
    text = None if name is None else printable(name)
    return {column: text, f"{column}_bytes": exact(name, text or "")}


def _sign(volume: int, rule: Rule, seen: Sighting) -> Row:
    """A row of `signs`."""
    return {
        "volume_id": volume,
        "code": rule.code,
        "weight": rule.weight.value,
        "title": rule.title,
        "reason": rule.reason,
        **_named("path", b"/" if seen.path == b"" else seen.path),
        "inode": seen.inode,
        "generation": seen.generation,
        "time": held(seen.when),
        "seen": _JSON(seen.seen),
        "size": held(seen.size),
        "mode": seen.mode,
        "grade": seen.grade.value if seen.grade else None,
        "note": seen.note or (seen.lines.text if seen.lines else None) or None,
    }


def _event(volume: int, event: Event) -> Row:
    """A row of `events`."""
    return {
        "volume_id": volume,
        "time": event.time,
        "transaction_id": event.transaction,
        "exact": int(event.exact),
        "kind": event.kind.value,
        "inode": event.inode,
        "generation": event.generation,
        "uid": event.uid,
        **_named("path", b"/" if event.path == b"" else event.path),
        **_named("old_path", event.old_path),
        "old": _value(event.old),
        "new": _value(event.new),
        "reason": event.reason or None,
        "seen": event.source or None,
    }


def _value(value: EventValue) -> Cell:
    """A number unchanged, a compound value as JSON."""
    return _JSON(plain_value(value)) if isinstance(value, dict) else held(value)


def _finding(volume: int, finding: Finding) -> Row:
    """A row of `findings` for a finding of verify."""
    return {
        "volume_id": volume,
        "source": "verify",
        "severity": finding.severity.value,
        "code": finding.code,
        "place": finding.structure,
        "inode": finding.inode,
        "group_number": finding.group,
        "block": finding.block,
        "byte": finding.byte,
        "read": printable_text(finding.read) or None,
        "expected": printable_text(finding.expected) or None,
        "meaning": finding.meaning,
    }


def _problem(volume: int, problem: Problem) -> Row:
    """A row of `findings` for a problem met while reading."""
    return {
        "volume_id": volume,
        "source": "reading",
        "severity": problem.severity.value,
        "place": printable_text(problem.where),
        "meaning": printable_text(problem.what),
    }
