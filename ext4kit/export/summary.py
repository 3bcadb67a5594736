"""What an export came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ext4kit.export.exporting import Export, Target
from ext4kit.report.safe import shown_text
from ext4kit.report.tables import table_lines

_COUNTED = ("live", "deleted", "earlier", "events", "hints", "findings")


def export_lines(export: Export, targets: Sequence[Target]) -> Iterator[str]:
    """A table of the outputs, and how much there was of what."""
    rows = [(each.format, _path(each) or "-", f"{_count(export, each):,}") for each in targets]
    yield from table_lines(("format", "file", "records"), rows, right={2})
    counts = export.counts
    parts = [f"{counts[name]:,} {name}" for name in _COUNTED if counts[name]]
    yield ""
    yield ", ".join(parts) or "nothing there"
    if counts["undated"]:
        yield f"{counts['undated']:,} events have no time: Timesketch does not get them"


def export_record(export: Export, targets: Sequence[Target]) -> dict[str, Any]:
    """The same with plain JSON values."""
    return {
        "record": "export",
        "outputs": [
            {"format": each.format, "output": _path(each), "records": _count(export, each)}
            for each in targets
        ],
        **{name: export.counts[name] for name in (*_COUNTED, "undated")},
    }


def _path(target: Target) -> str | None:
    return None if target.path is None else shown_text(str(target.path))


def _count(export: Export, target: Target) -> int:
    return export.formats[target.format].count
