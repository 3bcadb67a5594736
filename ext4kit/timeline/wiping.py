"""Hints about files that a wiping program renamed before it deleted them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ext4kit.arrays.types import Int64s, Rows
from ext4kit.history.wipers import LONG, find_chain, may_end_chain
from ext4kit.history.wiping import STEP
from ext4kit.timeline.commits import CommitClock
from ext4kit.timeline.events import CODE, COLUMNS, EventKind, EventTable, event_table, instance_keys
from ext4kit.timeline.hints import COMPARED_FIELDS, HintKind
from ext4kit.timeline.names import PathResolver


def with_wiping_hints(events: EventTable, paths: PathResolver, clock: CommitClock) -> EventTable:
    """The events, with a hint after the deletion of each file that a wiping program renamed.

    The hint has the path from before the names that the program gave, and their number.

    Args:
        events: the events, in order of time.
        paths: resolves their names.
        clock: commit times.
    """
    kinds = EventKind.DELETED, EventKind.RENAMED, EventKind.TRUNCATED, EventKind.CREATED
    deletions, renames, cuts, created = (_by_instance(events, kind) for kind in kinds)
    both, places, _ = np.intersect1d(deletions.instance, renames.instance, return_indices=True)
    ends = renames.row[np.searchsorted(renames.instance, both, side="right") - 1]
    found = []
    columns = places.tolist(), events.old_name_row[ends].tolist(), events.name_row[ends].tolist()
    for row, before, name in zip(*columns, strict=True):
        if min(before, name) < 0 or not may_end_chain(paths.name_of(before), paths.name_of(name)):
            continue
        instance, last = deletions.instance[row], int(deletions.row[row])
        own = _WipingEvents(
            last, renames.of(instance), cuts.of(instance), len(created.of(instance)) > 0
        )
        hint = _hint(events, paths, clock, own)
        if hint is not None:
            found.append((last, *hint))
    if not found:
        return events
    found.sort()
    at, true_name, count = np.array(found, np.int64).T
    hints = _hints(events.take(at), true_name, count)
    parts = (np.insert(getattr(events, one), at + 1, getattr(hints, one)) for one in COLUMNS)
    return EventTable(*parts)


class _RowsByInstance(NamedTuple):
    """Rows of events of one kind, by instance and then by time."""

    instance: Int64s
    row: Rows

    def of(self, instance: np.int64) -> Rows:
        """The rows of one instance."""
        start, end = np.searchsorted(self.instance, [instance, instance + 1])
        return self.row[start:end]


def _by_instance(events: EventTable, kind: EventKind) -> _RowsByInstance:
    rows = np.flatnonzero(events.kind == CODE[kind])
    instance = instance_keys(events.number[rows], events.generation[rows])
    order = np.argsort(instance, kind="stable")
    return _RowsByInstance(instance[order], rows[order])


def _hints(deletions: EventTable, name: Int64s, count: Int64s) -> EventTable:
    return event_table(
        EventKind.HINT,
        len(deletions),
        number=deletions.number.astype(np.int64),
        generation=deletions.generation.astype(np.int64),
        order=deletions.order,
        exact=deletions.exact,
        tag_row=deletions.tag_row.astype(np.int64),
        new=count,
        old_second=int(HintKind.WIPED),
        new_second=COMPARED_FIELDS.index("links_count"),
        old_name_row=name,
    )


class _WipingEvents(NamedTuple):
    """The rows of the events of one file, and whether one shows its creation."""

    deletion: int
    renames: Rows
    cuts: Rows
    is_created: bool


def _hint(
    events: EventTable, paths: PathResolver, clock: CommitClock, own: _WipingEvents
) -> tuple[int, int] | None:
    """(row of the name before those of a wiping program, their number) of a deleted file."""
    renames, cuts = own.renames, own.cuts
    rows = [int(events.old_name_row[renames[0]]), *events.name_row[renames].tolist()]
    if events.old_name_row[renames[1:]].tolist() != rows[1:-1]:
        return None
    directory = paths.names.directory[rows].tolist()
    names = [paths.name_of(one) if one >= 0 else b"" for one in rows]
    chain = find_chain(list(zip(directory, names, strict=True)))
    if chain is None:
        return None
    is_seen = own.is_created or chain.start > 0
    begun = renames[max(chain.start - 1, 0)]
    until = () if chain.steps >= LONG else (own.deletion,)  # else it may have been stopped
    times = clock.times_of(events.order[[begun, *renames[chain.start :], *until]])
    cuts = cuts[clock.times_of(events.order[cuts]) >= times[0] - STEP]
    cut_from, left = (
        int(values[-1]) if len(values) else None for values in (events.old[cuts], events.new[cuts])
    )
    if (np.diff(times) > STEP).any() or not chain.shows_wiping(cut_from, left, is_seen):
        return None
    before = rows[chain.start - 1] if chain.follows else int(events.old_name_row[own.deletion])
    return before, chain.steps
