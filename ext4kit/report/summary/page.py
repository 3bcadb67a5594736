"""The report as one page of HTML that needs nothing else, and lets nothing in it act.

Every text is escaped by the template engine, names are made safe to show before, and a content
security policy names the page's own script and style by their hashes: nothing else may run or
load.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ext4kit.recovery import DeletedFile, Grade
from ext4kit.report.deleted import deleted_when, path_of
from ext4kit.report.safe import shown, shown_text
from ext4kit.report.summary import case as words
from ext4kit.report.summary.case import Case
from ext4kit.report.summary.charts import back_map, columns, shares, used_map
from ext4kit.report.tables import human_size
from ext4kit.report.timeline import event_words
from ext4kit.summary import Bins, Suspicion, Weight
from ext4kit.timeline import Event

SHOWN = 6  # sightings of a rule that are open
FOLDED = 200  # sightings of a rule in the page
VICTIMS = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: its text, what it is sorted by, and its class."""

    text: str
    value: int | str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A table that can be sorted and searched.

    Attributes:
        headings: (name, class).
        note: what is left out, and how to get all.
    """

    name: str
    headings: tuple[tuple[str, str], ...]
    rows: list[tuple[Cell, ...]]
    note: str


def page_pieces(case: Case) -> Iterator[str]:
    """The page, in pieces."""
    environment = _environment()
    script, style = (_part(environment, name) for name in ("page.js", "page.css"))
    template = environment.get_template("page.html")
    yield from template.generate(
        policy=_policy(script, style),
        script=Markup(script),  # noqa: S704 -- the page's own
        style=Markup(style),  # noqa: S704 -- the page's own
        case=case,
        **_facts(case),
    )


@cache
def _environment() -> Environment:
    """Autoescape for all templates; a name that is not given is an error."""
    made = Environment(
        loader=PackageLoader("ext4kit.report.summary", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"size": human_size, "when": words.when, "shown": shown_text}
    return made


def _part(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _policy(script: str, style: str) -> str:
    """Nothing may be loaded, and of what is in the page these two alone may act."""
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, style)
    ]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _facts(case: Case) -> dict[str, Any]:
    """What the template shows, in plain values."""
    summary = case.summary
    deletions, activity, size = summary.deletions, summary.activity, summary.identity.block_size
    verdict, good = words.health_words(case)
    grades = [(str(grade), count) for grade, count in deletions.grades.items()]
    sizes = [(str(grade), count) for grade, count in deletions.sizes.items()]
    hours = activity.hours if words.has_hours(case) else None
    return {
        "tiles": _tiles(case),
        "signs": [_sign(one) for one in summary.suspicions],
        "deleted_when": columns(deletions.when, "deletions over time") if deletions.when else None,
        "deleted_width": _scale(deletions.when),
        "by_count": shares(grades, "deleted files by grade"),
        "by_size": shares(sizes, "bytes of deleted files by grade"),
        "grades": [
            (str(grade), count, human_size(deletions.sizes[grade]), words.MEANING[grade])
            for grade, count in deletions.grades.items()
            if count
        ],
        "span": columns(activity.span, "events over time", words.signs_in(case, activity.span))
        if activity.span
        else None,
        "span_width": _scale(activity.span),
        "hours": columns(hours, "events by hour", words.signs_in(case, hours)) if hours else None,
        "hours_width": _scale(hours),
        "hours_title": words.counted(len(hours), "hour") if hours else "",
        "used": used_map(summary.disk, size),
        "back": back_map(summary.disk, size),
        "path_grounds": words.path_grounds(deletions),
        "removed_names": words.removed_names(deletions),
        "largest": [_file_row(file) for file in deletions.largest],
        "listings": [_deleted(case), _events(case)],
        "victims": [_victim(one) for one in summary.victims[1][:VICTIMS]],
        "verdict": (verdict, {True: "good", False: "bad", None: ""}[good]),
        "evidence_rows": list(words.evidence_rows(case)),
        "identity_rows": list(words.identity_rows(case)),
        "log_rows": list(words.log_rows(summary.log)),
        "whole": deletions.grades[Grade.INTACT] + deletions.grades[Grade.CONSISTENT],
    }


def _scale(bins: Bins | None) -> str:
    """How wide a column is, and of what year the first one."""
    if bins is None:
        return ""
    before = f"; {bins.before:,} lie before" if bins.before else ""
    return f"a column is {words.bin_width(bins)}, from {words.when(bins.start)} on{before}"


def _tiles(case: Case) -> list[tuple[str, str, str]]:
    """(value, label, class) of the first look."""
    summary = case.summary
    strong = sum(one.rule.weight is Weight.STRONG for one in summary.suspicions)
    deletions, log = summary.deletions, summary.log
    verdict, good = words.health_words(case)
    known = log.since is not None and log.until is not None
    span = words.length_of((log.until or 0) - (log.since or 0)) if known else "nothing"
    return [
        (str(len(summary.suspicions)), f"signs to look at, {strong} strong", "bad" * bool(strong)),
        (f"{deletions.total:,}", "deleted files known of", ""),
        (f"{deletions.grades[Grade.INTACT]:,} + {deletions.grades[Grade.CONSISTENT]:,}",
         "intact + consistent", "good"),
        (span, "told by the journal", ""),
        ("sound" if good else verdict, "in metadata" if good is False else "metadata",
         {True: "good", False: "warn", None: ""}[good]),
    ]  # fmt: skip


def _sign(one: Suspicion) -> dict[str, Any]:
    """A rule that is met, and its sightings, some open and some folded."""
    rows = [
        (words.when(seen.when), words.sighting_path(seen), words.sighting_words(seen))
        for seen in one.sightings[:FOLDED]
    ]
    more = one.count - len(rows)
    return {
        "code": one.rule.code,
        "title": one.rule.title,
        "reason": one.rule.reason,
        "weight": str(one.rule.weight),
        "count": one.count,
        "open": rows[:SHOWN],
        "folded": rows[SHOWN:],
        "note": f"and {more:,} more; `ext4kit report IMAGE --json` has them" if more else "",
    }


def _file_row(file: DeletedFile) -> tuple[Cell, ...]:
    """A deleted file: when, grade, size, reused, owner, path."""
    grade = str(file.grade)
    reused = f"{file.blocks_reused:,} of {file.blocks:,}" if file.blocks_reused else ""
    owner = "" if file.uid is None else f"{file.uid}:{file.gid}"
    kind = "" if file.kind == "file" else file.kind
    return (
        Cell(deleted_when(file), file.moment or 0, "time"),
        Cell(grade, tuple(Grade).index(file.grade), f"grade g-{grade}"),
        Cell(words.size_of(file.size), file.size or 0, "number"),
        Cell(reused, file.blocks_reused, "number minor"),
        Cell(owner, file.uid if file.uid is not None else -1, "number minor"),
        Cell("" if file.number is None else str(file.number), file.number or 0, "number minor"),
        Cell(path_of(file) + (f"  ({kind})" if kind else ""), "", "path"),
    )


def _deleted(case: Case) -> Listing:
    found = case.summary.deletions
    headings = (("deleted", "time"), ("grade", ""), ("size", "number"), ("reused", "number minor"),
                ("owner", "number minor"), ("inode", "number minor"), ("path", "path"))  # fmt: skip
    rows = [_file_row(file) for file in found.listed]
    note = words.left_out(found.total, len(rows), "deleted IMAGE --json")
    return Listing("Deleted files", headings, rows, note)


def _event_row(event: Event) -> tuple[Cell, ...]:
    number = "-" if event.transaction is None else str(event.transaction)
    path, details = event_words(event)
    return (
        Cell(words.when(event.time), event.time or 0, "time"),
        Cell(str(event.kind), "", "kind"),
        Cell(number if event.exact else f"<={number}", event.transaction or 0, "number minor"),
        Cell(str(event.inode), event.inode, "number minor"),
        Cell(path, "", "path"),
        Cell(details, "", "details"),
    )


def _events(case: Case) -> Listing:
    found = case.summary.activity
    headings = (("committed", "time"), ("event", ""), ("transaction", "number minor"),
                ("inode", "number minor"), ("path", "path"), ("from -> to", "details"))  # fmt: skip
    rows = [_event_row(event) for event in reversed(found.listed)]
    note = words.left_out(found.events, len(rows), "timeline IMAGE --json")
    return Listing("Events of the journal", headings, rows, note)


def _victim(one: Any) -> Sequence[str]:
    path = "(path unknown)" if one.path is None else shown(one.path)
    return words.when(one.written), str(one.inode), path, words.victim_words(one)
