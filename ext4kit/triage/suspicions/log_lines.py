"""Sightings of the rule for lines that were removed from logs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from ext4kit.arrays.types import Rows
from ext4kit.logs import LOG_FILES, LogFindings, LogKind, find_removed_lines, find_zeroed_records
from ext4kit.logs.kinds import KINDS
from ext4kit.logs.result import How
from ext4kit.logs.zeroed import ZeroedRecords
from ext4kit.timeline import EventKind, Timeline
from ext4kit.timeline.events import CODE
from ext4kit.triage.rules.patterns import PathPatterns
from ext4kit.triage.suspicions.sighting import LINES, RemovedLines, Sighting
from ext4kit.units import ProgressStep
from ext4kit.workspace import Workspace
from ext4kit.zones import UTC, Zone

_LINES_LISTED = 20  # of a removal
# Programs rewrite logs of other forms, or empty them when they start.
_UNCERTAIN = (LogKind.OTHER, LogKind.DOCKER)
_PRINTED = b"dmesg"  # a print of the kernel's messages, made anew each time
_CHANGES = (
    EventKind.CONTENT, EventKind.TRUNCATED, EventKind.SIZE, EventKind.RENAMED, EventKind.MOVED,
)  # fmt: skip
_LOGS = [f"/**/{os.fsdecode(one)}{below}" for one in LOG_FILES.paths for below in ("", "/**")]
_REMOVALS = (EventKind.DELETED, EventKind.UNLINKED, EventKind.ORPHAN_ADDED)


def removed_lines(
    workspace: Workspace, timeline: Timeline, step: ProgressStep, zone: Zone = UTC
) -> list[Sighting]:
    """A sighting of each removal of lines from a log that programs only append to.

    Lines are searched only if an event changed a log, as each removal does.

    Args:
        workspace: of the file system.
        timeline: its events.
        step: called with a title before each long step.
        zone: of times in lines that state none.
    """
    zeroed = map(_zeroed, find_zeroed_records(workspace.fs))
    if not _has_changed_logs(timeline):
        return list(zeroed)
    return [*_removals(find_removed_lines(workspace, zone, step)), *zeroed]


def _has_changed_logs(timeline: Timeline) -> bool:
    removals = _rows(timeline, _REMOVALS)
    logs = PathPatterns([_LOGS])
    for places in (
        timeline.places_at(_rows(timeline, _CHANGES)),
        timeline.places_before(removals),
        timeline.places_at(removals[timeline.events.old_name_row[removals] < 0]),
    ):
        if any(True for _ in logs.matching(places.folders, places.folder, places.names)):
            return True
    return False


def _rows(timeline: Timeline, kinds: tuple[EventKind, ...]) -> Rows:
    return np.flatnonzero(np.isin(timeline.events.kind, [CODE[kind] for kind in kinds]))


def _removals(found: LogFindings) -> Iterator[Sighting]:
    certain = ~np.isin(found.lines.kind, [KINDS.index(kind) for kind in _UNCERTAIN])
    for place, removal in enumerate(found.removals):
        rows = np.flatnonzero(certain & (found.removal == place))
        if not len(rows):
            continue
        source = found.sources[int(found.lines.source[rows[0]])]
        is_printed = removal.path.rpartition(b"/")[2].startswith(_PRINTED)
        moments = [each for each in (removal.before, removal.after) if each is not None]
        yield Sighting(
            removal.path, source.inode, source.generation,
            next((each.time for each in moments if each.time is not None), None), [LINES],
            lines=RemovedLines(
                len(rows), removal, tuple(found.read(rows[:_LINES_LISTED])),
                is_certain=removal.how is How.CUT_OUT and not is_printed,
            ),
        )  # fmt: skip


def _zeroed(one: ZeroedRecords) -> Sighting:
    return Sighting(
        one.path, one.inode, one.generation, one.changed, [LINES],
        note=f"{one.count} records filled with zeros, from byte {one.offset}",
        lines=RemovedLines(one.count, None, ()),
    )  # fmt: skip
