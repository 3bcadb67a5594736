"""A timeline as lines and as records."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import NoOldPath, Nothing, OldPathText, json_name
from ext4kit.report.inode_facts import flag_names
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable, shown
from ext4kit.report.tables import fold_cells, table_lines, wrapped
from ext4kit.report.times import exact_time, offset_width, spaced_time, time_text
from ext4kit.timeline import Event, EventFilter, EventKind, Timeline
from ext4kit.timeline.events import EventValue
from ext4kit.times import iso

if TYPE_CHECKING:
    from ext4kit.logs import LogLine
    from ext4kit.report.logs import LogLineRecord
    from ext4kit.report.timeline_logs import LinesAmongEvents

_HEADINGS = (
    "committed", f"{'transaction':>11}", f"{'event':17}", f"{'inode':>8}", f"{'uid':>5}",
)  # fmt: skip
_WITH_LINES = ("time".ljust(len(_HEADINGS[0])), *_HEADINGS[1:])
_TIME_WIDTH = len("2026-03-01 12:00:00.000000000")
_VALUE_LENGTH = 40  # bytes of an attribute value that a line shows
_TIME_FIELDS = ("atime", "mtime", "ctime", "crtime")
_PLURAL = {"is": "are", "has": "have", "differs": "differ"}
_VERB = re.compile(r"\b(is|has|differs)\b")  # in a reason whose subject is the field
_COPIED_TITLE = "hints: copied files, see --all-hints"
_COPIED_HEADINGS = ("inodes", "hints", "first commit", "last commit", "below")
_FEWEST_COPIED = 10  # from this number on, files copied into a directory are only counted
# Packages install into these directories; their files are counted over all of them together.
# Elsewhere, as in /tmp, a few copied files are listed one by one.
_INSTALLED = frozenset({
    None, b"bin", b"boot", b"etc", b"lib", b"lib32", b"lib64", b"libx32", b"opt", b"sbin", b"usr",
    b"var/cache", b"var/lib",
})  # fmt: skip
_MOST_DIRECTORIES = 30  # of copied files


def timeline_lines(
    timeline: Timeline,
    wanted: EventFilter,
    all_hints: bool = False,
    logs: LinesAmongEvents | None = None,
) -> Iterator[str]:
    """The events with the log lines, then the hints, then the counts.

    Args:
        timeline: the timeline.
        wanted: the events to show.
        all_hints: show each hint on its own line, instead of one line per inode and one per
            directory of copied files.
        logs: the log lines to show among the events.
    """
    kinds = set(wanted.kinds or EventKind)
    plain = replace(wanted, kinds=tuple(kinds - {EventKind.HINT}))
    events = timeline.select(plain) if plain.kinds else iter(())
    count, heading = 0, [_row(_HEADINGS if logs is None else _WITH_LINES, "path")]
    for one in events if logs is None else logs.merge(events):
        yield from heading
        heading = []
        if isinstance(one, Event):
            count += 1
            yield _event_line(one)
        elif logs is not None:
            yield _log_line(one, logs.text(one))
    total = f"{count:,} events"
    if logs is not None:
        total += f", {count_text(logs.counts.views.total(), 'log line')}"
    if EventKind.HINT in kinds:
        hints = _HintLines(all_hints)
        yield from hints.lines(timeline.hints_by_inode(wanted))
        total += f", {hints.count:,} hints" + f" of {hints.inodes:,} inodes" * bool(hints.inodes)
    yield total
    yield from () if logs is None else wrapped(logs.notes())


@dataclass
class _CopiedFiles:
    """Copied and unpacked files in one directory of the root.

    Attributes:
        inodes, hints: number of files and of their hints.
        directory: directory that contains all of them; None if unknown.
        times: earliest and latest commit time of the hints; None if there is none.
    """

    inodes: int = 0
    hints: int = 0
    directory: bytes | None = None
    times: tuple[int, int] | None = None

    def add(self, events: list[Event]) -> None:
        """Add a file, given its hints."""
        path = events[0].path
        if path is not None:
            directory = path.rpartition(b"/")[0]
            known = directory if self.directory is None else self.directory
            self.directory = _common_directory(known, directory)
        self.inodes, self.hints = self.inodes + 1, self.hints + len(events)
        found = [*(self.times or ()), *(each.time for each in events if each.time is not None)]
        self.times = (min(found), max(found)) if found else None

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """The files as a row of the table."""
        first, last = map(time_text, self.times) if self.times else ("-", "-")
        below = "(path unknown)" if self.directory is None else shown(self.directory) or "/"
        return f"{self.inodes:,}", f"{self.hints:,}", first, last, below


def _common_directory(one: bytes, other: bytes) -> bytes:
    parts = zip(one.split(b"/"), other.split(b"/"), strict=False)
    return b"/".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], parts))


class _HintLines:
    """Hints as lines.

    Attributes:
        count: number of hints; inodes: number of inodes with hints.
    """

    def __init__(self, all_hints: bool) -> None:
        self.all_hints = all_hints
        self.count = self.inodes = 0
        self._copied: dict[bytes | None, _CopiedFiles] = {}

    def lines(self, by_inode: Iterable[list[Event]]) -> Iterator[str]:
        """One line per inode or per hint, then a table of copied files."""
        heading = ["", "hints: contradictions, not verdicts", _row(_HEADINGS, "path")]
        for _, some in groupby(self._counted(by_inode), lambda events: events[0].transaction):
            for events in some if self.all_hints else self._without_copied(some):
                yield from heading
                heading = []
                yield from map(_event_line, events) if self.all_hints else [_inode_line(events)]
        yield from self._copied_lines()

    def _counted(self, by_inode: Iterable[list[Event]]) -> Iterator[list[Event]]:
        for events in by_inode:
            self.inodes, self.count = self.inodes + 1, self.count + len(events)
            yield events

    def _without_copied(self, by_inode: Iterable[list[Event]]) -> Iterator[list[Event]]:
        """The hints of inodes of one transaction; files copied in large numbers are set aside."""
        copied: dict[bytes | None, list[list[Event]]] = {}
        for events in by_inode:
            if all(event.is_copied for event in events):
                copied.setdefault(_directory_in_root(events[0].path), []).append(events)
            else:
                yield events
        total = sum(map(len, copied.values()))
        for directory, files in copied.items():
            many = total if directory in _INSTALLED else len(files)
            if many < _FEWEST_COPIED:
                yield from files
                continue
            for events in files:
                self._copied.setdefault(directory, _CopiedFiles()).add(events)

    def _copied_lines(self) -> Iterator[str]:
        if not self._copied:
            return
        yield from ("", _COPIED_TITLE)
        groups = sorted(self._copied.values(), key=lambda each: -each.inodes)
        rows = [each.row for each in groups[:_MOST_DIRECTORIES]]
        yield from table_lines(_COPIED_HEADINGS, rows, right={0, 1})
        if rest := groups[_MOST_DIRECTORIES:]:
            yield f"{sum(each.inodes for each in rest):,} in {len(rest):,} other directories"


def _directory_in_root(path: bytes | None) -> bytes | None:
    """Top-level directory of a file, or its directory in /var; b"" for files in the root."""
    if path is None:
        return None
    *directories, _ = path.lstrip(b"/").split(b"/")
    return b"/".join(directories[: 2 if directories[:1] == [b"var"] else 1])


def _inode_line(events: list[Event]) -> str:
    """All hints of an inode; only transactions that differ from the first hint's are shown."""
    first = events[0]
    by_reason: dict[str, list[Event]] = {}
    for event in events:
        by_reason.setdefault(event.reason.removeprefix(event.field), []).append(event)
    texts = (_hints_text(reason, some, first) for reason, some in by_reason.items())
    return _event_line(first, f"{event_words(first)[0]}  [{'; '.join(texts)}]")


def _hints_text(reason: str, hints: list[Event], first: Event) -> str:
    """The hints with one reason: their fields, the reason, and the values of each field."""
    names = list(dict.fromkeys(event.field for event in hints))
    if reason[:1] == " ":
        if len(names) > 1:
            reason = _VERB.sub(lambda verb: _PLURAL[verb[0]], reason, count=1)
        reason = " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) + reason
    values = []
    for event in hints:
        text = f"{event.field} " * (len(hints) > 1) + _hint_values(event)
        if event.transaction is not None and event.transaction != first.transaction:
            text += f" (transaction {event.transaction})"
        values.append(text)
    return f"{reason}: {', '.join(values)}" if any(map(str.strip, values)) else reason


def _event_line(event: Event, text: str = "") -> str:
    """The line of an event; `text`, if given, replaces the event's own text."""
    time = spaced_time(event.time)
    number = "-" if event.transaction is None else str(event.transaction)
    place = number if event.exact else f"<={number}"
    owner = "-" if event.uid is None else str(event.uid)
    cells = (
        time, f"{place:>11}", f"{event.kind:17}", f"{event.inode:>8}", f"{owner:>5}",
    )  # fmt: skip
    return _row(cells, text or event_text(event))


def _log_line(line: LogLine, text: str) -> str:
    number = "-" if line.inode is None else str(line.inode)
    cells = (
        spaced_time(line.time), f"{'-':>11}", f"{'log line':17}", f"{number:>8}", f"{'-':>5}",
    )  # fmt: skip
    return _row(cells, text)


def _row(cells: tuple[str, str, str, str, str], last: str) -> str:
    time, place, kind, inode, owner = cells
    time = time.ljust(_TIME_WIDTH + offset_width())
    return fold_cells(f"{time} {place}  {kind} {inode}  {owner}  {last}", (time, *cells[1:], last))


def event_text(event: Event) -> str:
    """The path (both paths if it changed), and the change in brackets."""
    path, details = event_words(event)
    return f"{path}  [{details}]" if details else path


def event_words(event: Event) -> tuple[str, str]:
    """(path or both paths, change) as text; the change is "" where the kind is sufficient."""
    both = event.kind in (EventKind.RENAMED, EventKind.MOVED)
    paths = (event.old_path, event.path) if both else (event.path,)
    texts = ("(path unknown)" if path is None else shown(path) or "/" for path in paths)
    return " -> ".join(texts), _details(event)


def _details(event: Event) -> str:
    """Old and new values as text, "" where the kind is sufficient."""
    if event.kind is EventKind.HINT:
        return _hint(event)
    if event.kind is EventKind.CREATED:
        return "" if event.new is None else f"{event.new:,} bytes"
    describe = _CHANGES.get(event.kind)
    return describe(event.old, event.new) if describe else ""


def _times(old: dict[str, int], new: dict[str, int]) -> str:
    changed = [name for name in ("mtime", "atime") if old[name] != new[name]]
    pairs = ((name, exact_time(old[name]), exact_time(new[name])) for name in changed)
    return ", ".join(f"{name} {before} -> {after}" for name, before, after in pairs)


def _flags(flags: int) -> str:
    return ", ".join(flag_names(flags)) or "none"


def _attribute(old: dict[str, bytes] | None, new: dict[str, bytes] | None) -> str:
    name = printable((old or new or {})["name"])
    values = [
        "absent"
        if side is None
        else f'"{printable(side["value"][:_VALUE_LENGTH])}"'
        + ("..." if len(side["value"]) > _VALUE_LENGTH else "")
        for side in (old, new)
    ]
    return f"{name}: {values[0]} -> {values[1]}"


_CHANGES: dict[EventKind, Callable[[Any, Any], str]] = {
    EventKind.SIZE: lambda old, new: f"{old:,} -> {new:,} bytes",
    EventKind.TRUNCATED: lambda old, new: f"{old:,} -> {new:,} bytes",
    EventKind.MODE: lambda old, new: f"{old & 0o7777:04o} -> {new & 0o7777:04o}",
    EventKind.OWNER: lambda old, new: f"{old['uid']}:{old['gid']} -> {new['uid']}:{new['gid']}",
    EventKind.FLAGS: lambda old, new: f"{_flags(old)} -> {_flags(new)}",
    EventKind.PROJECT: lambda old, new: f"{old} -> {new}",
    EventKind.TIMES: _times,
    EventKind.XATTR: _attribute,
    EventKind.ACL: _attribute,
}


def _hint(event: Event) -> str:
    values = _hint_values(event)
    return f"{event.reason}: {values}" if values else event.reason


def _hint_values(event: Event) -> str:
    """The value that a hint compares with, if any, and the value of its field; "" for neither."""
    if event.new is None:
        return ""
    values = [value for value in (event.old, event.new) if isinstance(value, int)]
    texts = [exact_time(value) if event.field in _TIME_FIELDS else str(value) for value in values]
    return ", ".join(texts)


class LineTotals(TypedDict):
    """Numbers of log lines."""

    log_lines: NotRequired[Annotated[int, "Log lines among the events; only with log lines."]]
    log_lines_untimed: NotRequired[
        Annotated[int, "Log lines without a time, which are left out; only with log lines."]
    ]


class TimelineSummary(LineTotals):
    """Summary of `timeline`."""

    record: Literal["summary"]
    events: int
    hints: int
    kinds: dict[str, int]


class HintFacts(TypedDict):
    """Facts about a hint."""

    reason: str
    field: str
    copied: bool
    old_iso: NotRequired[str | None]
    new_iso: NotRequired[str | None]


class EventRecord(fields.PathOrNone, fields.CommitTime):
    """An event of an inode or a name (`timeline`, `report`)."""

    record: Literal["event"]
    kind: Annotated[EventKind, "Kind of the event."]
    old_path: NotRequired[Annotated[str | None, "The old path; only for a move."]]
    old_path_bytes: NotRequired[fields.Exact]
    inode: fields.Inode
    generation: fields.Generation | None
    uid: Annotated[int | None, "Owner of the file after the event; null if unknown."]
    transaction: fields.Transaction | None
    exact: Annotated[
        bool, "False: in this transaction or an earlier one that is not in the journal."
    ]
    old: Annotated[
        fields.Value,
        "Value before the change; for an attribute, its name, and its value in base64.",
    ]
    new: Annotated[fields.Value, "Value after the change."]
    seen: Annotated[str | None, "A log block and its home block."]
    reason: NotRequired[Annotated[str, "The contradiction; only for a hint."]]
    field: NotRequired[Annotated[str, "The field of the inode; only for a hint."]]
    copied: NotRequired[
        Annotated[bool, "True if copying and unpacking tools leave such a time; only for a hint."]
    ]
    old_iso: NotRequired[Annotated[str | None, "Of a hint about a time: `old` in ISO 8601."]]
    new_iso: NotRequired[Annotated[str | None, "Of a hint about a time: `new` in ISO 8601."]]


def timeline_records(
    timeline: Timeline, wanted: EventFilter, logs: LinesAmongEvents | None = None
) -> Iterator[EventRecord | LogLineRecord | TimelineSummary]:
    """The events and log lines as records, in order, then a summary with their numbers."""
    counts: Counter[EventKind] = Counter()
    events = timeline.select(wanted)
    for one in events if logs is None else logs.merge(events):
        if isinstance(one, Event):
            counts[one.kind] += 1
            yield event_record(one)
        elif logs is not None:
            yield logs.record(one)
    lines: LineTotals | Nothing = {}
    if logs is not None:
        lines = {"log_lines": logs.counts.views.total(), "log_lines_untimed": logs.untimed}
    yield {
        "record": "summary",
        "events": counts.total() - counts[EventKind.HINT],
        "hints": counts[EventKind.HINT],
        "kinds": {str(kind): count for kind, count in counts.items() if count},
        **lines,
    }


def event_record(event: Event) -> EventRecord:
    """One event as a record; times in integer nanoseconds."""
    old_path: OldPathText | NoOldPath | Nothing = {}
    if event.kind in (EventKind.RENAMED, EventKind.MOVED):
        old_path = json_name(event.old_path, "old_path")
    hint: HintFacts | Nothing = _hint_facts(event) if event.kind is EventKind.HINT else {}
    return {
        "record": "event",
        "kind": event.kind,
        **json_name(event.path if event.path is None else event.path or b"/"),
        **old_path,
        "inode": event.inode,
        "generation": event.generation,
        "uid": event.uid,
        "transaction": event.transaction,
        "commit_time_ns": event.time,
        "exact": event.exact,
        "old": plain_value(event.old),
        "new": plain_value(event.new),
        "seen": event.source or None,
        **hint,
    }


def _hint_facts(event: Event) -> HintFacts:
    """Reason and field of a hint, with the values of a time field as text."""
    facts: HintFacts = {
        "reason": event.reason,
        "field": event.field,
        "copied": event.is_copied,
    }
    if event.field in _TIME_FIELDS:
        old, new = (
            iso(value) if isinstance(value, int) else None for value in (event.old, event.new)
        )
        facts["old_iso"], facts["new_iso"] = old, new
    return facts


def plain_value(value: EventValue) -> fields.Value:
    """A value for JSON: attribute names as text, attribute values as base64, others unchanged."""
    if not isinstance(value, dict):
        return value
    if "value" not in value:
        return {**value}
    exact = base64.b64encode(value["value"]).decode("ascii")
    return {**json_name(value["name"], "name"), "value_base64": exact}
