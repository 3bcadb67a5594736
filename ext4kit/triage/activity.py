"""The events of a timeline counted over time."""

from __future__ import annotations

import numpy as np

from ext4kit.timeline import EventKind, Timeline
from ext4kit.timeline.events import CODE, KINDS
from ext4kit.triage.bins import HOUR, histogram
from ext4kit.triage.facts import ActivityStats, Sort

HOURS = 48
CATEGORIES: tuple[Sort, ...] = ("made", "written", "moved", "changed", "deleted")
_SORT_OF = {
    EventKind.CREATED: "made", EventKind.DIRECTORY_MADE: "made", EventKind.LINKED: "made",
    EventKind.SIZE: "written", EventKind.TRUNCATED: "written", EventKind.CONTENT: "written",
    EventKind.TARGET: "written",
    EventKind.RENAMED: "moved", EventKind.MOVED: "moved",
    EventKind.DELETED: "deleted", EventKind.DIRECTORY_REMOVED: "deleted",
    EventKind.UNLINKED: "deleted", EventKind.ORPHAN_ADDED: "deleted",
}  # fmt: skip  # events of other kinds count as changes


def activity_stats(timeline: Timeline, listed: int) -> ActivityStats:
    """Counts of events over time, and the newest events for a table."""
    kind = timeline.events.kind
    rows = np.flatnonzero(kind != CODE[EventKind.HINT])
    sort_of = np.array([CATEGORIES.index(_SORT_OF.get(each, "changed")) for each in KINDS])
    sorts, times = sort_of[kind[rows]], timeline.commits.times_of(timeline.events.order[rows])
    counts = np.bincount(kind, minlength=len(KINDS)).tolist()
    return ActivityStats(
        events=len(rows),
        hints=counts[CODE[EventKind.HINT]],
        kinds={str(each): n for each, n in zip(KINDS, counts, strict=True) if n},
        span=histogram(times, sorts, CATEGORIES),
        hours=histogram(times, sorts, CATEGORIES, HOURS, HOUR),
        listed=tuple(timeline.events_at(rows[max(len(rows) - listed, 0) :])),
    )
