"""Log lines as records and as lines of text."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.fields import json_name
from ext4kit.logs import LogFilter, LogFindings, LogKind, LogLine, Origin, Removal
from ext4kit.logs.result import How
from ext4kit.logs.stamps import TimeGround
from ext4kit.logs.zeroed import ZeroedRecords
from ext4kit.recovery.manifest import FileMoment, moment_record
from ext4kit.recovery.model import TransactionTime
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable, shown
from ext4kit.report.tables import fold_cells, wrapped
from ext4kit.report.times import exact_time, offset_width, time_text

_HEADINGS = ("time", "view", "kind", "line  [place]")
_TIME_WIDTH = len("2026-03-01 18:00:00Z")
_GROUNDS: dict[TimeGround, Literal["none", "stated", "zone assumed", "year inferred", "before"]] = {
    TimeGround.NONE: "none",
    TimeGround.STATED: "stated",
    TimeGround.ZONE: "zone assumed",
    TimeGround.YEAR: "year inferred",
    TimeGround.BEFORE: "before",
}


class RemovalFacts(TypedDict):
    """The proof that lines were removed from a log."""

    path: Annotated[str, "The log."]
    how: Annotated[
        How,
        "cut out: lines before and after them stayed; cut off: lines before them, as also an older"
        " copy that was put back leaves them; emptied: all, and no copy has the log's name.",
    ]
    after: Annotated[FileMoment | None, "The last transaction that shows the log with them."]
    before: Annotated[
        FileMoment | None, "The first transaction that shows it without; null for the disk."
    ]


class LineBytes(TypedDict):
    """A line that is not UTF-8."""

    line_bytes: str


class LogLineRecord(fields.PathOrNone):
    """A line of a text log, or a record of a binary one (`logs`, `timeline --logs`)."""

    record: Literal["log line"]
    kind: Annotated[LogKind, "What it is of."]
    time: Annotated[int | None, "Nanoseconds since 1970 UTC; null if the line has none."]
    time_ground: Annotated[
        Literal["none", "stated", "zone assumed", "year inferred", "before"],
        "What the time rests on; year inferred: the zone is assumed too; before: it is that of"
        " the line before.",
    ]
    line: Annotated[str, "The line as UTF-8; of a binary record, words made of its fields."]
    line_bytes: NotRequired[fields.Exact]
    view: Annotated[Origin, "Where the line stands."]
    inode: fields.Inode | None
    offset: Annotated[int, "Byte of the file, or of consecutive blocks without a file."]
    block: Annotated[int | None, "File system block; null in compressed or inline content."]
    position: Annotated[int | None, "Byte of the file system; null likewise."]
    torn: Annotated[bool, "Whether the end of the line is missing."]
    removed: Annotated[RemovalFacts | None, "The proof of its removal; null without one."]


class LogsSummary(TypedDict):
    """Summary of `logs`."""

    record: Literal["summary"]
    lines: int
    removed: Annotated[int, "Lines with a proof of their removal."]
    views: Annotated[dict[str, int], "Lines by view."]
    live_logs: Annotated[int, "Live logs that were compared."]
    zeroed: NotRequired[
        Annotated[list[ZeroedFacts], "Logs of logins with records that were filled with zeros."]
    ]


class ZeroedFacts(TypedDict):
    """Records of zeros between other records of a log of logins."""

    path: Annotated[str, "The log."]
    records: fields.Count
    offset: Annotated[int, "Byte of the first one."]


class _Zeroed(TypedDict):
    zeroed: NotRequired[list[ZeroedFacts]]


class LineCounts:
    """Numbers of the lines that are shown."""

    def __init__(self) -> None:
        self.views: Counter[Origin] = Counter()
        self.grounds: Counter[TimeGround] = Counter()
        self.removals: Counter[Removal] = Counter()

    def add(self, line: LogLine) -> None:
        """Count a line."""
        self.views[line.origin] += 1
        self.grounds[line.ground] += 1
        if line.removal is not None:
            self.removals[line.removal] += 1


def log_records(findings: LogFindings, wanted: LogFilter) -> Iterator[LogLineRecord | LogsSummary]:
    """The selected lines as records, in order, then their numbers."""
    counts = LineCounts()
    for line in findings.select(wanted):
        counts.add(line)
        yield log_record(line)
    yield {
        "record": "summary",
        "lines": counts.views.total(),
        "removed": counts.removals.total(),
        "views": {str(view): count for view, count in counts.views.items()},
        "live_logs": findings.live_logs,
        **_zeroed(findings.zeroed),
    }


def _zeroed(found: Sequence[ZeroedRecords]) -> _Zeroed:
    each: list[ZeroedFacts] = [
        {"path": printable(one.path), "records": one.count, "offset": one.offset} for one in found
    ]
    return {"zeroed": each} if each else {}


def log_record(line: LogLine) -> LogLineRecord:
    """One line as a record."""
    removal = line.removal
    text = line.text.decode("utf-8", "backslashreplace")
    raw: LineBytes | fields.Nothing = {}
    if text.encode("utf-8") != line.text:
        raw = {"line_bytes": base64.b64encode(line.text).decode("ascii")}
    return {
        "record": "log line",
        **json_name(line.path),
        "kind": line.kind,
        "time": line.time,
        "time_ground": _GROUNDS[line.ground],
        "line": text,
        **raw,
        "view": line.origin,
        "inode": line.inode,
        "offset": line.offset,
        "block": line.block,
        "position": line.position,
        "torn": line.torn,
        "removed": None if removal is None else removal_facts(removal),
    }


def removal_facts(removal: Removal) -> RemovalFacts:
    """The proof of a removal for a record."""
    return {
        "path": printable(removal.path),
        "how": removal.how,
        "after": moment_record(removal.after),
        "before": moment_record(removal.before),
    }


def log_lines(findings: LogFindings, wanted: LogFilter, zone: str) -> Iterator[str]:
    """The selected lines, what was removed when, their numbers, and what is inferred.

    Args:
        findings: all lines.
        wanted: which ones to show.
        zone: of times in lines without one, for people.
    """
    counts = LineCounts()
    for line in findings.select(wanted):
        if not counts.views:
            yield _row(*_HEADINGS)
        counts.add(line)
        yield _row(time_text(line.time), line.origin, line.kind, line_text(line))
    yield from [""] if counts.removals else ()
    yield from wrapped(map(_removal_line, counts.removals.items()))
    yield from wrapped((*_totals(findings, counts), *inferred(counts, zone)))


def _row(time: str, view: str, kind: str, line: str) -> str:
    width = _TIME_WIDTH + offset_width() - 1
    cells = (time.ljust(width), f"{view:11}", f"{kind:10}", line)
    return fold_cells("  ".join(cells), (time, *cells[1:3], line))


def line_text(line: LogLine, with_kind: bool = False) -> str:
    """A line with its place in brackets, behind its kind if that is asked for."""
    return f"{printable(line.text)}  [{_place(line, [line.kind] if with_kind else [])}]"


def _place(line: LogLine, before: Sequence[str]) -> str:
    words = [*before, *(["removed"] if line.removal is not None else [])]
    words += [shown(line.path)] if line.path is not None else []
    words += [f"byte {line.offset}"] if line.path is not None else []
    words += [] if line.block is None else [f"block {line.block}"]
    words += ["torn"] if line.torn else []
    return ", ".join(words)


def _removal_line(found: tuple[Removal, int]) -> str:
    removal, count = found
    lines = f"{count_text(count, 'line')} removed from {shown(removal.path)}"
    return f"{lines} {removal_text(removal)}"


def removal_text(removal: Removal) -> str:
    """The transactions between which lines were removed, and how."""
    return f"{_between(removal)} ({removal.how})"


def _between(removal: Removal) -> str:
    after, before = removal.after, removal.before
    if after is None and before is None:
        return "at an unknown time"
    if before is None:
        return f"after transaction {_moment(after)}"
    if after is None:
        return f"before transaction {_moment(before)}"
    return f"between transaction {_moment(after)} and {_moment(before)}"


def _moment(moment: TransactionTime | None) -> str:
    if moment is None:
        return "-"
    time = "" if moment.time is None else f" ({exact_time(moment.time)})"
    return f"{moment.transaction}{time}"


def _totals(findings: LogFindings, counts: LineCounts) -> Iterator[str]:
    gone = counts.views.total() - counts.views[Origin.LIVE]
    views = ", ".join(f"{counts.views[view]:,} {view}" for view in Origin if counts.views[view])
    compared = f"compared with {count_text(findings.live_logs, 'live log')}"
    text = f"{count_text(gone, 'line')} in no live log; {compared}"
    yield f"{text}: {views}" if views else text
    for one in findings.zeroed:
        records = count_text(one.count, "record")
        yield f"{records} of {shown(one.path)} filled with zeros, from byte {one.offset}"


def inferred(counts: LineCounts, zone: str) -> Iterator[str]:
    """What the times of lines rest on that do not state all of it."""
    if years := counts.grounds[TimeGround.YEAR]:
        yield (
            f"{count_text(years, 'line')} without a year: it is the last one in which the line is"
            " not later than the last change of its file, or of the file system"
        )
    if zones := counts.grounds[TimeGround.ZONE] + counts.grounds[TimeGround.YEAR]:
        yield f"{count_text(zones, 'line')} without a zone: read in {zone}"
