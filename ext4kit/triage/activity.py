"""The events of a timeline counted over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.timeline import EventKind, Timeline
from ext4kit.timeline.events import CODE, KINDS
from ext4kit.triage.bins import HOUR, histogram_of_last, histogram_over_span
from ext4kit.triage.facts import ActivityStats, Sort

HOURS = 48
CATEGORIES: tuple[Sort, ...] = ("made", "written", "moved", "changed", "deleted")
_SORT_OF = {
    **dict.fromkeys((EventKind.CREATED, EventKind.DIRECTORY_MADE, EventKind.LINKED), "made"),
    **dict.fromkeys(
        (EventKind.SIZE, EventKind.TRUNCATED, EventKind.CONTENT, EventKind.TARGET), "written"
    ),
    **dict.fromkeys((EventKind.RENAMED, EventKind.MOVED), "moved"),
    **dict.fromkeys(
        (
            EventKind.DELETED,
            EventKind.DIRECTORY_REMOVED,
            EventKind.UNLINKED,
            EventKind.ORPHAN_ADDED,
        ),
        "deleted",
    ),
}  # all other kinds: something else changed


def activity_stats(timeline: Timeline, listed: int) -> ActivityStats:
    """Numbers of events over time.

    Args:
        timeline: all events.
        listed: number of newest events to keep for a table.
    """
    kind = timeline.events.kind
    rows = np.flatnonzero(kind != CODE[EventKind.HINT])
    sort_of = np.array([CATEGORIES.index(_SORT_OF.get(each, "changed")) for each in KINDS])
    sorts, times = sort_of[kind[rows]], timeline.commits.times_of(timeline.events.order[rows])
    counts = np.bincount(kind, minlength=len(KINDS)).tolist()
    hints = counts[CODE[EventKind.HINT]]
    return ActivityStats(
        events=len(rows),
        hints=hints,
        kinds={str(each): n for each, n in zip(KINDS, counts, strict=True) if n},
        span=histogram_over_span(times, sorts, CATEGORIES),
        hours=histogram_of_last(times, sorts, CATEGORIES, HOUR, HOURS),
        listed=tuple(timeline.events_at(_newest(rows, listed))),
    )


def _newest(rows: Any, most: int) -> Any:
    return rows[max(len(rows) - most, 0) :]
