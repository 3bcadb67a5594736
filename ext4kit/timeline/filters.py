"""Selection of events by inode, time, kind and path."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s, Rows, UInt16s, UInt32s
from ext4kit.filesystem.selected import are_of_types
from ext4kit.selection import Selection
from ext4kit.timeline.commits import CommitClock
from ext4kit.timeline.events import CODE, Event, EventKind, EventTable


@dataclass(frozen=True, slots=True)
class TimelineFiles(Table):
    """Types and owners of the files of a timeline, as columns (n,).

    A file has a row for each status transition, such as its creation, a new link or its deletion.

    Attributes:
        instance: key of the inode instance, as in `EventTable.instance`.
        tid: tid of the state.
        mode: mode with the file type.
        uid: owner.
        is_in_use: False for a freed inode, of which the kernel has cleared the upper half of the
            owner.
    """

    instance: Int64s
    tid: Int64s
    mode: UInt16s
    uid: UInt32s
    is_in_use: Bools


@dataclass(frozen=True)
class EventFilter:
    """Conditions that an event must meet; a condition that is not given always holds.

    Attributes:
        selection: paths and names (old or new), inode numbers, file types, and owners that the file
            had in the period that the journal covers.
        path: glob pattern for the whole path, old or new; `*` also matches slashes.
        since, until: first and last commit time, ns, both included.
        kinds: kinds of events; empty for all.
    """

    selection: Selection = field(default_factory=Selection)
    path: str | None = None
    since: int | None = None
    until: int | None = None
    kinds: tuple[EventKind, ...] = ()

    def select_rows(self, events: EventTable, clock: CommitClock, files: TimelineFiles) -> Rows:
        """Rows of the events whose columns match; the path is checked by `matches_path`."""
        kept = np.ones(len(events), bool)
        if self.selection.numbers:
            kept &= np.isin(events.number, self.selection.numbers)
        if self.selection.types:
            of_type = files.instance[are_of_types(files.mode, self.selection.types)]
            kept &= np.isin(events.instance, of_type)
        if self.selection.owners:
            kept &= self._had_owner(events, files)
        if self.kinds:
            kept &= np.isin(events.kind, [CODE[kind] for kind in self.kinds])
        if self.since is not None or self.until is not None:
            times = clock.times_of(events.order)
            kept &= times >= 0
            kept &= times >= (self.since if self.since is not None else 0)
            if self.until is not None:
                kept &= times <= self.until
        return np.flatnonzero(kept)

    def _had_owner(self, events: EventTable, files: TimelineFiles) -> Bools:
        """True for each event of a file that one of the owners had before or after the event."""
        owners = self.selection.owners
        changes = events.take(np.flatnonzero(events.kind == CODE[EventKind.OWNER]))
        changes = changes.take(np.isin(changes.old, owners) | np.isin(changes.new, owners))
        in_use = files.instance[files.is_in_use]
        shows_owner = files.is_in_use | ~np.isin(files.instance, in_use)
        had = files.instance[np.isin(files.uid, owners) & shows_owner]
        found: Bools = np.isin(events.instance, np.concatenate([had, changes.instance]))
        return found

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(translate(self.path or "*"))

    @cached_property
    def _takes_any_path(self) -> bool:
        return self.path is None and not (self.selection.by_path or self.selection.names)

    def matches_path(self, event: Event) -> bool:
        """Whether the path of an event, or its former path, matches."""
        return self.matches_paths(event.path, event.old_path)

    def matches_paths(self, *given: bytes | None) -> bool:
        """Whether one of these paths matches; None for an unknown one."""
        if self._takes_any_path:
            return True
        paths = [path for path in given if path is not None]
        if self.path is not None:
            texts = (path.decode("utf-8", "surrogateescape") for path in paths)
            if not any(map(self._pattern.match, texts)):
                return False
        return any(
            self.selection.matches_path(path, None)
            and self.selection.matches_name(path.rpartition(b"/")[2])
            for path in paths
        )
