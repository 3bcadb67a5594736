"""The report as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.recovery import DeletedFile, Grade
from ext4kit.report.answers import contents_text, folder_line
from ext4kit.report.deleted import GRADE_MEANINGS, deletion_text, display_path
from ext4kit.report.pages import html_pieces
from ext4kit.report.phrases import count_text, duration_text
from ext4kit.report.tables import human_size
from ext4kit.report.timeline import event_words
from ext4kit.report.times import time_text
from ext4kit.report.triage import case as words
from ext4kit.report.triage.case import TriageReport
from ext4kit.report.triage.charts import ALLOCATED, block_map, column_chart, share_bar
from ext4kit.report.volumes import description_text, has_offset
from ext4kit.timeline import Event
from ext4kit.triage import Bins, Indicator, Weight
from ext4kit.triage.suspicions.sessions import SignSession

SHOWN = 6  # sightings per rule that are visible at once
SESSIONS = 50  # the newest ones
FOLDED = 200  # sightings per rule in the page, including folded ones
VICTIMS, VOLUMES, PROBLEMS = 200, 200, 100


@dataclass(frozen=True, slots=True)
class TableCell:
    """A table cell: text, sort key and CSS class."""

    text: str
    value: int | str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table that can be sorted and searched."""

    name: str
    headings: tuple[tuple[str, str], ...]  # (name, CSS class)
    rows: list[tuple[TableCell, ...]]
    note: str  # number of omitted rows, and the command that lists all rows


def page_pieces(case: TriageReport) -> Iterator[str]:
    """The page, piece by piece."""
    values = {"heading": case.title, "case": case, **_facts(case)}
    yield from html_pieces("page.html", ["page.css"], "page.js", **values)


def _facts(case: TriageReport) -> dict[str, object]:
    """Values for the template."""
    summary = case.summary
    deletions, activity, size = summary.deletions, summary.activity, summary.superblock.block_size
    verdict, good = words.check_text(case)
    grades = [(str(grade), count) for grade, count in deletions.grades.items()]
    sizes = [(str(grade), count) for grade, count in deletions.sizes.items()]
    hours = activity.hours if words.has_hours(case) else None
    return {
        "tiles": _tiles(case),
        "signs": [_indicator(one) for one in summary.suspicions],
        "sessions": list(map(_session, reversed(summary.sessions[-SESSIONS:]))),
        "sessions_before": max(len(summary.sessions) - SESSIONS, 0),
        **_over_time(case, "deleted", deletions.when, "deletions over time", marks=False),
        "by_count": share_bar(grades, "deleted files by grade"),
        "by_size": share_bar(sizes, "bytes of deleted files by grade"),
        "grades": [
            (str(grade), count, human_size(deletions.sizes[grade]), GRADE_MEANINGS[grade])
            for grade, count in deletions.grades.items()
            if count
        ],
        **_over_time(case, "span", activity.span, "events over time"),
        **_over_time(case, "hours", hours, "events by hour"),
        "hours_title": count_text(len(hours), "hour") if hours else "",
        "used": block_map(summary.disk, size, ALLOCATED, "the blocks of the disk by use"),
        "back": block_map(
            summary.disk, size, words.RECOVERABLE, "the blocks of the disk by recoverability"
        ),
        "path_grounds": words.path_grounds(deletions),
        "removed_names": words.removed_names(deletions),
        "together": [folder_line(each) for each in deletions.folders],
        "contents": contents_text(deletions),
        "largest": [_file_row(file) for file in deletions.largest],
        "listings": [_deleted(case), _events(case)],
        "victims": [
            (time_text(one.written), words.zero_length_path(one), words.zero_length_text(one))
            for one in summary.victims[1][:VICTIMS]
        ],
        "volumes": case.evidence.volumes[:VOLUMES],
        "has_offset": has_offset,
        "description_text": description_text,
        "problems": case.problems[:PROBLEMS],
        "notes": {
            "victims": _note(summary.victims[0], VICTIMS, "report IMAGE --json"),
            "volumes": _note(len(case.evidence.volumes), VOLUMES, "volumes IMAGE"),
            "problems": _note(case.problems_total, PROBLEMS, "report IMAGE --json"),
        },
        "check_rows": words.check_rows(case),
        "verdict": (verdict, {True: "good", False: "bad", None: ""}[good]),
        "evidence_rows": list(words.evidence_rows(case)),
        "identity_rows": list(words.identity_rows(case)),
        "log_rows": list(words.journal_rows(summary.log)),
        "whole": deletions.grades[Grade.INTACT] + deletions.grades[Grade.CONSISTENT],
    }


_note = words.truncation_note


def _over_time(
    case: TriageReport, key: str, bins: Bins | None, name: str, marks: bool = True
) -> dict[str, object]:
    """A chart under `key`, and a text with its column width and first time under `{key}_width`."""
    if bins is None:
        return {key: None}
    width = f"a column is {words.bin_width(bins)}, from {time_text(bins.start)} on"
    width += words.elsewhere(bins)
    signs = words.sightings_per_bin(case, bins) if marks else ()
    return {key: column_chart(bins, name, signs), f"{key}_width": width}


def _tiles(case: TriageReport) -> list[tuple[str, str, str]]:
    """(value, label, class) of the tiles at the top."""
    summary = case.summary
    strong = sum(one.rule.weight is Weight.STRONG for one in summary.suspicions)
    deletions, log = summary.deletions, summary.log
    verdict, good = words.check_text(case)
    known = log.since_ns is not None and log.until_ns is not None
    span = duration_text((log.until_ns or 0) - (log.since_ns or 0)) if known else "nothing"
    return [
        (str(count := len(summary.suspicions)), f"sign{'s' * (count != 1)}, {strong} strong",
         "bad" * bool(strong)),
        (f"{words.files_deleted(deletions):,}", "known deleted files", ""),
        (f"{deletions.grades[Grade.INTACT]:,} + {deletions.grades[Grade.CONSISTENT]:,}",
         "intact + consistent", "good"),
        (span, "covered by the journal", ""),
        ("sound" if good else verdict, "in metadata" if good is False else "metadata",
         {True: "good", False: "warn", None: ""}[good]),
    ]  # fmt: skip


def _session(one: SignSession) -> dict[str, object]:
    """Signs that follow each other, some visible and others folded."""
    rows = [(time_text(deed.time), words.deed_text(deed), deed.is_strong) for deed in one.deeds]
    return {
        "title": words.session_text(one),
        "open": rows[:SHOWN],
        "folded": rows[SHOWN:FOLDED],
        "note": _note(len(rows), FOLDED, "report IMAGE --json"),
    }


def _indicator(one: Indicator) -> dict[str, object]:
    """A rule that matched, with its sightings, of which some are visible and others are folded."""
    rows = [
        (time_text(seen.when), words.sighting_path(seen), words.sighting_text(seen),
         words.story_text(seen.story), words.line_texts(seen))
        for seen in one.sightings[:FOLDED]
    ]  # fmt: skip
    return {
        "code": one.rule.code,
        "title": one.rule.title,
        "reason": one.rule.reason,
        "attack": one.rule.attack,
        "weight": str(one.rule.weight),
        "count": one.count,
        "open": rows[:SHOWN],
        "folded": rows[SHOWN:],
        "note": _note(one.count, len(rows), "report IMAGE --json"),
    }


def _file_row(file: DeletedFile) -> tuple[TableCell, ...]:
    """A deleted file: deletion time, grade, size, reused blocks, owner, path."""
    grade = str(file.grade)
    reused = f"{file.blocks_reused:,} of {file.blocks:,}" if file.blocks_reused else ""
    owner = "" if file.uid is None else f"{file.uid}:{file.gid}"
    kind = "" if file.kind == "file" else file.kind
    return (
        TableCell(deletion_text(file), file.deletion_time or 0, "time"),
        TableCell(grade, tuple(Grade).index(file.grade), f"grade g-{grade}"),
        TableCell("?" if file.size is None else human_size(file.size), file.size or 0, "number"),
        TableCell(reused, file.blocks_reused, "number minor"),
        TableCell(owner, file.uid if file.uid is not None else -1, "number minor"),
        TableCell(
            "" if file.number is None else str(file.number), file.number or 0, "number minor"
        ),
        TableCell(display_path(file) + (f"  ({kind})" if kind else ""), "", "path"),
    )


def _deleted(case: TriageReport) -> HtmlTable:
    found = case.summary.deletions
    headings = (("deleted", "time"), ("grade", ""), ("size", "number"), ("reused", "number minor"),
                ("owner", "number minor"), ("inode", "number minor"), ("path", "path"))  # fmt: skip
    rows = [_file_row(file) for file in found.listed]
    note = words.truncation_note(found.total, len(rows), "deleted IMAGE --json")
    return HtmlTable("Deleted files", headings, rows, note)


def _event_row(event: Event) -> tuple[TableCell, ...]:
    number = "-" if event.transaction is None else str(event.transaction)
    path, details = event_words(event)
    return (
        TableCell(time_text(event.time), event.time or 0, "time"),
        TableCell(str(event.kind), "", "kind"),
        TableCell(number if event.exact else f"<={number}", event.transaction or 0, "number minor"),
        TableCell(str(event.inode), event.inode, "number minor"),
        TableCell(path, "", "path"),
        TableCell(details, "", "details"),
    )


def _events(case: TriageReport) -> HtmlTable:
    found = case.summary.activity
    headings = (("committed", "time"), ("event", ""), ("transaction", "number minor"),
                ("inode", "number minor"), ("path", "path"), ("from -> to", "details"))  # fmt: skip
    rows = [_event_row(event) for event in reversed(found.listed)]
    note = words.truncation_note(found.events, len(rows), "timeline IMAGE --json")
    return HtmlTable("Events of the journal", headings, rows, note)
