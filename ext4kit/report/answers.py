"""Sentences for empty or partial answers: how far back the evidence reaches and what remains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ext4kit.journal import SharedLog
from ext4kit.recovery.summary import DeletedOverview, FolderDeletions
from ext4kit.report.phrases import command_text, count_text, duration_text, kinds_text
from ext4kit.report.safe import shown
from ext4kit.report.tables import human_size
from ext4kit.report.times import time_text
from ext4kit.units import NANOSECONDS

if TYPE_CHECKING:
    from ext4kit.triage.facts import DeletionStats

MOST_FOLDERS = 8


def reach_text(shared: SharedLog) -> str:
    """How far back the journal reaches, and what that means for names."""
    lost = "Names of files that were deleted earlier are mostly lost."
    if shared.log is None:
        return "There is no journal that can be read. Names of deleted files are mostly lost."
    if shared.period is None:
        return "The journal has no transactions. Names of deleted files are mostly lost."
    first, last = shared.period
    if shared.is_complete:
        return f"The journal has all changes since the file system was made ({time_text(first)})."
    span = duration_text(shared.last_moment - first)
    return (
        f"The journal reaches back to {time_text(first)}, {span} before the last moment of the"
        f" image ({time_text(shared.last_moment)}). {lost}"
    )


def contents_text(overview: DeletedOverview | DeletionStats) -> str:
    """Counts of the content found without a name; "" for none."""
    count = sum(overview.contents.values())
    if not count and not overview.fragments:
        return ""
    text = f"{count_text(count, 'carved file')} without a name"
    text += f": {kinds_text(overview.contents)}" if count else ""
    pieces = f"{count_text(overview.fragments, 'fragment')} of files"
    return f"{text}; {pieces}" if overview.fragments else text


def folder_line(found: FolderDeletions) -> str:
    """A burst of deletions as a sentence without a full stop."""
    burst, size = found.burst, f" ({human_size(found.bytes)})" if found.bytes else ""
    what = " and ".join(
        count_text(count, name)
        for count, name in ((found.files, "file"), (found.directories, "folder"))
        if count
    )
    where = "whose path is unknown" if burst.folder is None else f"below {shown(burst.folder)}"
    when = f"deleted {time_text(burst.last)}" if burst.last else "deleted at an unknown time"
    if burst.last - burst.first >= NANOSECONDS and burst.first:
        when = f"deleted {time_text(burst.first)} to {time_text(burst.last)}"
    whole = f": {count_text(found.whole, 'file')} whole{size}" if found.files else ""
    cause = f"  [{burst.cause}]" if burst.cause else ""
    return f"{what} {where}, {when}{whole}{cause}"


def overview_lines(overview: DeletedOverview, shared: SharedLog, image: str) -> Iterator[str]:
    """Deletions by folder and time, then the reach of the journal and the content without a name.

    Args:
        overview: counts of the deleted files.
        shared: gives the period that the journal covers.
        image: the image argument of the command line.
    """
    groups = overview.by_folder()
    shown_groups, others = groups[:MOST_FOLDERS], groups[MOST_FOLDERS:]
    yield from map(folder_line, shown_groups)
    if others:
        count = sum(len(each.burst) for each in others)
        yield f"{count:,} more files in {len(others):,} other folders or at other times; --tree "
        "shows all"
    contents = contents_text(overview)
    if overview.nameless or contents:
        yield reach_text(shared)
    if contents:
        yield f"{contents}. {command_text('recover', image, '-o', 'OUT')} recovers them."
