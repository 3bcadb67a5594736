"""Groups events of many files of one folder that were created, changed or deleted at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ext4kit.bursts import Burst, BurstItem, find_bursts
from ext4kit.timeline.build import Timeline
from ext4kit.timeline.events import Event, EventKind
from ext4kit.timeline.filters import EventFilter

MOST_GROUPED = 1_000_000  # maximum events of one happening


class Happening(StrEnum):
    """The kinds of things that happen to the files of a burst."""

    CREATED = "created"
    CHANGED = "changed"
    RENAMED = "renamed"
    DELETED = "deleted"
    ATTRIBUTES = "attributes changed"


_KINDS = {
    Happening.CREATED: (EventKind.CREATED, EventKind.DIRECTORY_MADE, EventKind.LINKED),
    Happening.CHANGED: (EventKind.SIZE, EventKind.TRUNCATED, EventKind.CONTENT, EventKind.TARGET),
    Happening.RENAMED: (EventKind.RENAMED, EventKind.MOVED),
    Happening.DELETED: (EventKind.DELETED, EventKind.DIRECTORY_REMOVED, EventKind.UNLINKED),
    Happening.ATTRIBUTES: (
        EventKind.MODE, EventKind.OWNER, EventKind.XATTR, EventKind.ACL, EventKind.FLAGS,
        EventKind.PROJECT,
    ),
}  # fmt: skip
_DIRECTORIES = (EventKind.DIRECTORY_MADE, EventKind.DIRECTORY_REMOVED)


@dataclass(frozen=True, slots=True)
class EventBurst:
    """Events in one folder that are of the same happening and close together in time.

    Attributes:
        happening: what happened.
        burst: folder, times, owner and cause; its `rows` are indices of the selected events of this
            happening.
        files: number of different files; directories: number of different directories.
    """

    happening: Happening
    burst: Burst
    files: int
    directories: int


def event_bursts(timeline: Timeline, wanted: EventFilter) -> list[EventBurst]:
    """The bursts among the events that a filter selects, oldest first."""
    found = list[EventBurst]()
    for happening, kinds in _KINDS.items():
        chosen = tuple(kind for kind in kinds if not wanted.kinds or kind in wanted.kinds)
        if chosen:
            found += _bursts(timeline, replace(wanted, kinds=chosen), happening)
    return sorted(found, key=lambda one: (one.burst.first, one.happening, one.burst.folder or b""))


def _bursts(timeline: Timeline, wanted: EventFilter, happening: Happening) -> Iterator[EventBurst]:
    items, instances = list[BurstItem](), list[tuple[int, int]]()
    for row, event in enumerate(timeline.select(wanted)):
        if row == MOST_GROUPED:
            break
        items.append(_item(row, event))
        instances.append((event.inode, event.generation))
    for burst in find_bursts(items):
        directories = {instances[row] for row in burst.rows if items[row].is_directory}
        every = {instances[row] for row in burst.rows}
        yield EventBurst(happening, burst, len(every - directories), len(directories))


def _item(row: int, event: Event) -> BurstItem:
    path, is_directory = event.path or event.old_path, event.kind in _DIRECTORIES
    return BurstItem(row, event.time or 0, path, is_directory, event.uid)
