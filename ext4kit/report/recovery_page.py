"""The `report.html` that `recover` writes: the text of README.txt, and tables of the files."""

from __future__ import annotations

from collections.abc import Iterator

from ext4kit.recovery import Grade
from ext4kit.report.pages import html_pieces
from ext4kit.report.recovery_readme import folder_place, sections
from ext4kit.report.recovery_summary import RecoverySummary

_STYLES = ("page.css", "recovery.css")


def recovery_page(summary: RecoverySummary) -> Iterator[str]:
    """The page, piece by piece; it needs no other file and links to the recovered files."""
    damaged = summary.grades[Grade.PARTIAL]
    missing = summary.lost.total() + summary.failed.total()
    nameless = summary.count(lambda name: name.startswith("carved/"))
    yield from html_pieces(
        "recovery.html",
        _STYLES,
        heading=summary.image,
        summary=summary,
        sections=list(sections(summary)),
        tables=sorted(summary.tables(), key=folder_place),
        tiles=[
            (f"{summary.whole:,}", "whole", "good"),
            (f"{damaged:,}", "damaged", "warn" * bool(damaged)),
            (f"{nameless:,}", "carved files without a name", ""),
            (f"{missing:,}", "not recovered", "bad" * bool(missing)),
        ],
    )
