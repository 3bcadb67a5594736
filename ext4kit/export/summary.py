"""Result of an export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypedDict

from ext4kit.export.exporting import Export, Target
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import table_lines

_COUNTED = ("live", "deleted", "earlier", "events", "hints", "findings")


def export_lines(export: Export, targets: Sequence[Target]) -> Iterator[str]:
    """A table of the outputs, and the number of records of each kind."""
    rows = [(each.format, _path(each), f"{_count(export, each):,}") for each in targets]
    yield from table_lines(("format", "file", "records"), rows, right={2})
    counts = export.counts
    parts = [f"{counts[name]:,} {name}" for name in _COUNTED if counts[name]]
    yield ""
    yield ", ".join(parts) or "nothing there"
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
    deleted: int
    earlier: int
    events: int
    hints: int
    findings: int
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
        "earlier": export.counts["earlier"],
        "events": export.counts["events"],
        "hints": export.counts["hints"],
        "findings": export.counts["findings"],
        "undated": export.counts["undated"],
    }


def _path(target: Target) -> str:
    return "-" if target.path is None else printable_text(str(target.path))


def _count(export: Export, target: Target) -> int:
    return export.formats[target.format].count
