"""The events of a timeline counted over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.summary.bins import HOUR, by_width, spread_out
from ext4kit.summary.facts import Activity, Sort
from ext4kit.timeline import Kind, Timeline
from ext4kit.timeline.events import CODE, KINDS

HOURS = 48
SORTS: tuple[Sort, ...] = ("made", "written", "moved", "changed", "deleted")
_SORT_OF = {
    **dict.fromkeys((Kind.CREATED, Kind.DIRECTORY_MADE, Kind.LINKED), "made"),
    **dict.fromkeys((Kind.SIZE, Kind.TRUNCATED, Kind.CONTENT, Kind.TARGET), "written"),
    **dict.fromkeys((Kind.RENAMED, Kind.MOVED), "moved"),
    **dict.fromkeys(
        (Kind.DELETED, Kind.DIRECTORY_REMOVED, Kind.UNLINKED, Kind.ORPHAN_ADDED), "deleted"
    ),
}  # the rest: something about it changed


def activity(timeline: Timeline, listed: int) -> Activity:
    """What happened, in figures.

    Args:
        timeline: all events.
        listed: how many of the newest are kept for a table.
    """
    kind = timeline.events.kind
    told = np.flatnonzero(kind != CODE[Kind.HINT])
    sort_of = np.array([SORTS.index(_SORT_OF.get(each, "changed")) for each in KINDS])
    sorts, times = sort_of[kind[told]], timeline.clock.times_of(timeline.events.order[told])
    counts = np.bincount(kind, minlength=len(KINDS)).tolist()
    hints = counts[CODE[Kind.HINT]]
    return Activity(
        events=len(told),
        hints=hints,
        kinds={str(each): n for each, n in zip(KINDS, counts, strict=True) if n},
        span=spread_out(times, sorts, SORTS),
        hours=by_width(times, sorts, SORTS, HOUR, HOURS),
        listed=tuple(timeline.at_rows(_newest(told, listed))),
    )


def _newest(rows: Any, most: int) -> Any:
    return rows[max(len(rows) - most, 0) :]
