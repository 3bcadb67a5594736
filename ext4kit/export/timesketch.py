"""Timesketch: one row for each time of each file, and one for each event of the journal.

Timesketch requires `message`, `datetime`, `timestamp` (microseconds) and `timestamp_desc` in every
row. It keeps the other columns as fields. Source: Timesketch's documentation of CSV and JSONL
imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Required, TypedDict

from ext4kit.export.columns import guarded
from ext4kit.export.format import TextFormat
from ext4kit.export.rows import Batch, FileRow
from ext4kit.export.texts import iso_micro
from ext4kit.report.records import json_line
from ext4kit.report.safe import printable
from ext4kit.report.timeline import event_text
from ext4kit.timeline import Event
from ext4kit.triage import Indicator
from ext4kit.triage.suspicions.sessions import Deed, find_sessions
from ext4kit.zones import UTC, times_in

_TIMES = {  # times of a row
    "atime": "Last Access Time",
    "mtime": "Content Modification Time",
    "ctime": "Metadata Modification Time",
    "crtime": "Creation Time",
    "dtime": "Deletion Time",
}
_COMMIT = "Journal Commit Time"
_SIGN = "Sign"
_GONE_BY = "Deleted At The Latest"
_TIMED = ("message", "datetime", "timestamp", "timestamp_desc")


class EventFacts(TypedDict, total=False):
    """The columns after the times, in their order; the hashes follow."""

    data_type: Required[str]
    source_short: Required[str]
    filename: str | None
    old_filename: str | None
    inode: int | None
    file_type: str
    file_size: int | None
    mode: str | None
    uid: int | None
    gid: int | None
    state: str
    grade: str | None
    event: str
    transaction: int | None
    tag: list[str]  # labels of Timesketch


COLUMNS = (*_TIMED, *EventFacts.__annotations__)


class Timesketch(TextFormat):
    """Common part of CSV and JSONL.

    A file has several rows that differ only in their times. `around` gives the text before and
    after the times, `between` the text of a time.
    """

    takes_events: ClassVar[bool] = True
    takes_signs: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns: `COLUMNS`, then the requested hashes under Plaso's names."""
        return (*COLUMNS, *(f"{name}_hash" for name in self.subject.hashes))

    def around(self, message: str, rest: Mapping[str, object]) -> tuple[str, str]:
        """The text of a row before its times and after them.

        Args:
            message: as in `COLUMNS`.
            rest: the other cells, by column.
        """
        raise NotImplementedError

    def between(self, moment: int, description: str) -> str:
        """The three columns of a time (ns)."""
        raise NotImplementedError

    def files(self, batch: Batch) -> None:
        """Write a row for each time of each file."""
        lines = []
        for row, digests in zip(batch.rows, batch.digests, strict=True):
            message, facts = _file(row)
            hashes = {f"{name}_hash": digests.get(name) for name in self.subject.hashes}
            head, tail = self.around(message, {**facts, **hashes})
            lines += [head + self.between(*each) + tail for each in _moments(row)]
        self._write(lines)

    def events(self, events: Sequence[Event]) -> None:
        """Write one row per event; an event without a time is omitted."""
        lines = []
        for event in events:
            if event.time is not None:
                head, tail = self.around(*_event(event))
                lines.append(head + self.between(event.time, _COMMIT) + tail)
        self._write(lines)

    def signs(self, found: Sequence[Indicator] | None) -> None:
        """Write one row per change of a file that has signs, with its rules as tags."""
        techniques = {one.rule.code: one.rule.attack for one in found or ()}
        lines = []
        for session in find_sessions(found or (), ()):
            for deed in session.deeds:
                head, tail = self.around(*_deed(deed, techniques))
                lines.append(head + self.between(deed.time, _SIGN) + tail)
        self._write(lines)

    def _write(self, lines: list[str]) -> None:
        self.stream.write("".join(lines))
        self.count += len(lines)


class TimesketchCsv(Timesketch):
    """The rows as CSV, text in quotes."""

    def begin(self) -> None:
        """Write the headings."""
        self.stream.write(",".join(map(_cell, self.columns)) + "\r\n")

    def around(self, message: str, rest: Mapping[str, object]) -> tuple[str, str]:
        """The message and a comma; the remaining cells."""
        cells = map(_cell, map(rest.get, self.columns[len(_TIMED) :]))
        return f"{_cell(message)},", f",{','.join(cells)}\r\n"

    def between(self, moment: int, description: str) -> str:
        """The three cells of a time."""
        return f'"{iso_micro(moment)}",{moment // 1000},"{description}"'


class TimesketchJsonl(Timesketch):
    """The rows as JSON lines, without empty fields."""

    def around(self, message: str, rest: Mapping[str, object]) -> tuple[str, str]:
        """The beginning and the end of an object."""
        values = ((name, rest.get(name)) for name in self.columns[len(_TIMED) :])
        fields = json_line({name: value for name, value in values if value is not None})
        return f"{json_line({'message': message})[:-1]}, ", f", {fields[1:]}\n"

    def between(self, moment: int, description: str) -> str:
        """The three fields of a time."""
        return (
            f'"datetime": "{iso_micro(moment)}", "timestamp": {moment // 1000}, '
            f'"timestamp_desc": "{description}"'
        )


def _cell(value: object) -> str:
    """A cell: numbers without quotes, text in quotes and never a formula, "" for None."""
    if isinstance(value, str):
        text = guarded(value)
        return '"' + (text.replace('"', '""') if '"' in text else text) + '"'
    if isinstance(value, list):
        return _cell(",".join(value))
    return "" if value is None else str(value)


def _file(row: FileRow) -> tuple[str, EventFacts]:
    """(message, facts) of a file."""
    grade = None if row.gone is None else row.gone.grade.value
    return _message(row, grade), {
        "data_type": "ext4:file",
        "source_short": "FILE",
        "filename": row.path,
        "inode": row.number,
        "file_type": row.kind,
        "file_size": row.size,
        "mode": None if row.mode is None else f"{row.mode & 0o7777:04o}",
        "uid": row.uid,
        "gid": row.gid,
        "state": row.state.value,
        "grade": grade,
    }


def _message(row: FileRow, grade: str | None) -> str:
    target = "" if row.target is None else f" -> {printable(row.target)}"
    what = row.kind if row.size is None else f"{row.kind}, {row.size:,} bytes"
    if row.gone is not None:
        word = "an earlier state" if row.gone.superseded else "deleted"
        what += f", {word}, {grade}"
    return f"{row.path}{target} [{what}]"


def _moments(row: FileRow) -> Iterator[tuple[int, str]]:
    for name, description in _TIMES.items():
        moment = getattr(row, name)
        if moment is not None:
            yield moment, description
    deleted = row.gone
    if deleted is not None and row.dtime is None and not deleted.superseded and deleted.deletion:
        yield deleted.deletion[0], _GONE_BY


def _event(event: Event) -> tuple[str, EventFacts]:
    """(message, facts) of an event."""
    path = None if event.path is None else printable(event.path) or "/"
    old = None if event.old_path is None else printable(event.old_path)
    kind = event.kind.value
    with times_in(UTC):
        text = event_text(event)
    return f"{kind}: {text}", {
        "data_type": "ext4:journal:event",
        "source_short": "JOURNAL",
        "filename": path,
        "old_filename": old,
        "inode": event.inode,
        "uid": event.uid,
        "event": kind,
        "transaction": event.transaction,
    }


def _deed(deed: Deed, techniques: Mapping[str, Sequence[str]]) -> tuple[str, EventFacts]:
    """(message, facts) of a change of a file that has signs."""
    path = None if deed.path is None else printable(deed.path) or "/"
    attack = dict.fromkeys(each for code in deed.codes for each in techniques[code])
    return f"sign: {deed.what} {path or '(path unknown)'}", {
        "data_type": "ext4:sign",
        "source_short": "SIGN",
        "filename": path,
        "inode": deed.inode,
        "uid": deed.uid,
        "event": deed.what,
        "tag": [*deed.codes, *attack],
    }
