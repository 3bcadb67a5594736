"""A timeline as lines and as records."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import NoOldPath, Nothing, OldPathText, json_name
from ext4kit.report.inode_facts import flag_names
from ext4kit.report.safe import printable, shown
from ext4kit.report.tables import fold_cells
from ext4kit.report.times import iso
from ext4kit.timeline import Event, EventFilter, EventKind, Timeline
from ext4kit.timeline.events import EventValue

_HEADINGS = (f"{'committed':30}", f"{'transaction':>11}", f"{'event':17}", f"{'inode':>8}")
_VALUE_LENGTH = 40  # bytes of an attribute value in a line
_TIME_FIELDS = ("atime", "mtime", "ctime", "crtime")


def timeline_lines(timeline: Timeline, wanted: EventFilter) -> Iterator[str]:
    """The events, then the hints, then their numbers."""
    kinds, counts = set(wanted.kinds or EventKind), []
    hints_title = ["", "hints: contradictions, not verdicts"]
    for title, chosen in (([], kinds - {EventKind.HINT}), (hints_title, kinds & {EventKind.HINT})):
        count = 0
        for event in timeline.select(replace(wanted, kinds=tuple(chosen))) if chosen else ():
            if not count:
                yield from [*title, _row(_HEADINGS, "path")]
            count += 1
            yield _event_line(event)
        counts.append(count)
    yield "{:,} events, {:,} hints".format(*counts)


def _event_line(event: Event) -> str:
    time = "-" if event.time is None else iso(event.time).replace("T", " ")
    number = "-" if event.transaction is None else str(event.transaction)
    place = number if event.exact else f"<={number}"
    cells = (f"{time:30}", f"{place:>11}", f"{event.kind:17}", f"{event.inode:>8}")
    return _row(cells, event_text(event))


def _row(cells: tuple[str, str, str, str], last: str) -> str:
    time, place, kind, inode = cells
    return fold_cells(f"{time} {place}  {kind} {inode}  {last}", (*cells, last))


def event_text(event: Event) -> str:
    """The path, both paths where it changed, and the change in brackets."""
    path, details = event_words(event)
    return f"{path}  [{details}]" if details else path


def event_words(event: Event) -> tuple[str, str]:
    """(the path, both paths where it changed; the change, "" where the kind is sufficient)."""
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
    return ", ".join(f"{name} {iso(old[name])} -> {iso(new[name])}" for name in changed)


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
    if event.new is None:
        return event.reason
    values = [value for value in (event.old, event.new) if isinstance(value, int)]
    texts = [iso(value) if event.field in _TIME_FIELDS else str(value) for value in values]
    return f"{event.reason}: {', '.join(texts)}"


class TimelineSummary(TypedDict):
    """Summary of `timeline`."""

    record: Literal["summary"]
    events: int
    hints: int
    kinds: dict[str, int]


class HintFacts(TypedDict):
    """Facts about a hint."""

    reason: str
    field: str
    old_iso: NotRequired[str | None]
    new_iso: NotRequired[str | None]


class EventRecord(fields.PathOrNone, fields.CommitTime):
    """An event of an inode or a name (`timeline`, `report`)."""

    record: Literal["event"]
    kind: Annotated[EventKind, "What it is."]
    old_path: NotRequired[Annotated[str | None, "Of a move: the old path."]]
    old_path_bytes: NotRequired[fields.Exact]
    inode: fields.Inode
    generation: fields.Generation | None
    transaction: fields.Transaction | None
    exact: Annotated[
        bool, "False: in this transaction or an earlier one that is not in the journal."
    ]
    old: Annotated[fields.Value, "Before; an attribute is its name, and its value in base64."]
    new: Annotated[fields.Value, "Value after the change."]
    seen: Annotated[str | None, "A log block and its home block."]
    reason: NotRequired[Annotated[str, "Of a hint: the contradiction."]]
    field: NotRequired[Annotated[str, "Of a hint: the field of the inode."]]
    old_iso: NotRequired[Annotated[str | None, "Of a hint about a time: `old` in ISO 8601."]]
    new_iso: NotRequired[Annotated[str | None, "Of a hint about a time: `new` in ISO 8601."]]


def timeline_records(
    timeline: Timeline, wanted: EventFilter
) -> Iterator[EventRecord | TimelineSummary]:
    """The events as records, in order, then the number of each kind."""
    counts: Counter[EventKind] = Counter()
    for event in timeline.select(wanted):
        counts[event.kind] += 1
        yield event_record(event)
    yield {
        "record": "summary",
        "events": counts.total() - counts[EventKind.HINT],
        "hints": counts[EventKind.HINT],
        "kinds": {str(kind): count for kind, count in counts.items() if count},
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
        "transaction": event.transaction,
        "commit_time_ns": event.time,
        "exact": event.exact,
        "old": plain_value(event.old),
        "new": plain_value(event.new),
        "seen": event.source or None,
        **hint,
    }


def _hint_facts(event: Event) -> HintFacts:
    """Reason and field of a hint, and the values of a time as text."""
    facts: HintFacts = {"reason": event.reason, "field": event.field}
    if event.field in _TIME_FIELDS:
        old, new = (
            iso(value) if isinstance(value, int) else None for value in (event.old, event.new)
        )
        facts["old_iso"], facts["new_iso"] = old, new
    return facts


def plain_value(value: EventValue) -> fields.Value:
    """Text for an attribute name and base64 for its value; other values are unchanged."""
    if not isinstance(value, dict):
        return value
    if "value" not in value:
        return {**value}
    exact = base64.b64encode(value["value"]).decode("ascii")
    return {**json_name(value["name"], "name"), "value_base64": exact}
