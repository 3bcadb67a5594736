"""Result of an export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypedDict

from ext4kit.export.exporting import Export, Target
from ext4kit.recovery import Grade
from ext4kit.report.deleted import counts_line
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import table_lines

_COUNTED = ("live", "deleted", "earlier", "events", "hints", "findings", "signs")


def export_lines(export: Export, targets: Sequence[Target]) -> Iterator[str]:
    """A table of the outputs, and the number of records of each kind."""
    rows = [(each.format, _path(each), f"{_count(export, each):,}") for each in targets]
    yield from table_lines(("format", "file", "records"), rows, right={2})
    counts = export.counts
    parts = [f"{counts[name]:,} {name}" for name in _COUNTED if counts[name]]
    yield ""
    yield ", ".join(parts) or "nothing there"
    if counts["deleted"]:  # as in the output of `deleted`
        yield counts_line(_grades(export), contents=export.contents)
    if counts["undated"]:
        yield f"{counts['undated']:,} events have no time: Timesketch does not get them"


class OutputRecord(TypedDict):
    """A file that an export wrote."""

    format: str
    output: Annotated[str, "The file; - is standard output."]
    records: int


class ExportRecord(TypedDict):
    """Result of `export`."""

    record: Literal["export"]
    outputs: list[OutputRecord]
    live: int
    deleted: Annotated[int, "Deleted files, without earlier versions."]
    grades: Annotated[dict[Grade, int], "Deleted files by grade, without earlier versions."]
    earlier: Annotated[int, "Earlier versions of files; with --versions only."]
    events: int
    hints: int
    findings: int
    signs: Annotated[int, "Places where a rule for signs of tampering or intrusion matched."]
    undated: int


def export_record(export: Export, targets: Sequence[Target]) -> ExportRecord:
    """Result of an export, as a record."""
    return {
        "record": "export",
        "outputs": [
            {"format": each.format, "output": _path(each), "records": _count(export, each)}
            for each in targets
        ],
        "live": export.counts["live"],
        "deleted": export.counts["deleted"],
        "grades": _grades(export),
        "earlier": export.counts["earlier"],
        "events": export.counts["events"],
        "hints": export.counts["hints"],
        "findings": export.counts["findings"],
        "signs": export.counts["signs"],
        "undated": export.counts["undated"],
    }


def _grades(export: Export) -> dict[Grade, int]:
    return {grade: export.grades[grade] for grade in Grade}


def _path(target: Target) -> str:
    return "-" if target.path is None else printable_text(str(target.path))


def _count(export: Export, target: Target) -> int:
    return export.formats[target.format].count
