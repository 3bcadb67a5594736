"""Builds the timeline of a file system, and converts rows of its table to events on request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ext4kit.arrays.lookup import AsOfIndex, values_at
from ext4kit.arrays.types import Int32s, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.history import TID_NONE, TID_ON_DISK, History, read_history
from ext4kit.history.directory_blocks import DirectoryBlockHistory
from ext4kit.history.entry_intervals import find_entry_intervals
from ext4kit.journal import BlockHistory, ReplayedBlocks, SharedLog
from ext4kit.memory import release_freed_memory
from ext4kit.parsers.directory import Names
from ext4kit.problems import Severity
from ext4kit.timeline.commits import CommitClock
from ext4kit.timeline.events import (
    CODE,
    KINDS,
    NO_VALUE,
    Event,
    EventKind,
    EventPool,
    EventTable,
    EventValue,
    XattrValue,
    instance_keys,
)
from ext4kit.timeline.filters import EventFilter, TimelineFiles
from ext4kit.timeline.hints import COMPARED_FIELDS, COPIED, HINT_TEXTS, HintKind
from ext4kit.timeline.inodes import scan_inode_states
from ext4kit.timeline.name_events import name_events
from ext4kit.timeline.names import PathResolver, attribute_by_overlap
from ext4kit.timeline.transitions import (
    InodeStatus,
    TimelineInstances,
    instances_from_transitions,
)
from ext4kit.timeline.wiping import with_wiping_hints
from ext4kit.timeline.xattr_changes import XattrChangeFinder
from ext4kit.units import Progress

REMOVALS = [
    CODE[kind]
    for kind in (
        EventKind.DELETED,
        EventKind.DIRECTORY_REMOVED,
        EventKind.UNLINKED,
        EventKind.ORPHAN_ADDED,
    )
]
ROWS_AT_ONCE = 1 << 18
EVENTS_AT_ONCE = 4096
BOTH_PATHS = [CODE[kind] for kind in (EventKind.RENAMED, EventKind.MOVED)]


class _EventRow(NamedTuple):
    """One row of `EventTable`; the fields are its columns."""

    kind: int
    number: int
    generation: int
    order: int
    exact: bool
    tag_row: int
    old: int
    new: int
    old_second: int
    new_second: int
    name_row: int
    old_name_row: int


@dataclass(frozen=True, slots=True)
class EventPlaces:
    """The paths of some events as columns, one row per event whose path is known.

    Attributes:
        row: row of the event.
        folder: place in `folders` of the path of its directory.
        folders: paths of directories, each once; the root is b"".
        names: the names of the files.
    """

    row: Int64s
    folder: Int64s
    folders: list[bytes]
    names: Names


@dataclass(frozen=True)
class Timeline:
    """All events, oldest first.

    Attributes:
        fs: the file system.
        history: the block copies in its journal; None without a journal.
        commits: the committed transactions of the journal.
        events: the events as columns, sorted by transaction, inode and kind.
        files: types and owners of the files of the events.
        paths: resolves the names that the events refer to.
        xattr_changes: the extended attributes that the events refer to.
    """

    fs: FileSystem
    history: BlockHistory | None
    commits: CommitClock
    events: EventTable
    files: TimelineFiles
    paths: PathResolver | None
    xattr_changes: XattrChangeFinder | None

    def __len__(self) -> int:
        return len(self.events)

    def select(self, wanted: EventFilter) -> Iterator[Event]:
        """Events that match a filter, oldest first."""
        rows = wanted.select_rows(self.events, self.commits, self.files)
        return filter(wanted.matches_path, self.events_at(rows))

    def pathless(self, wanted: EventFilter) -> int:
        """Number of events without a path that match all other conditions of a filter."""
        rows = wanted.select_rows(self.events, self.commits, self.files)
        return sum(one.path is None and one.old_path is None for one in self.events_at(rows))

    def hints_by_inode(self, wanted: EventFilter) -> Iterator[list[Event]]:
        """Hints that match a filter, one list per inode instance, in order of the first hints."""
        hints = replace(wanted, kinds=(EventKind.HINT,))
        rows = hints.select_rows(self.events, self.commits, self.files)
        instance = instance_keys(self.events.number[rows], self.events.generation[rows])
        _, first, group = np.unique(instance, return_index=True, return_inverse=True)
        rows = rows[np.argsort(first[group], kind="stable")]
        events = filter(wanted.matches_path, self.events_at(rows))
        for _, some in groupby(events, lambda event: (event.inode, event.generation)):
            yield list(some)

    def events_at(self, rows: Int64s) -> Iterator[Event]:
        """The events in the given rows (int64) of the table `events`."""
        source = lru_cache(EVENTS_AT_ONCE)(self._source)  # many events share one source
        for start in range(0, len(rows), EVENTS_AT_ONCE):
            chosen = self.events.take(rows[start : start + EVENTS_AT_ONCE])
            times = self.commits.times_of(chosen.order).tolist()
            owners = self._owners_at(chosen).tolist()
            columns = (getattr(chosen, name).tolist() for name in _EventRow._fields)
            rows_of = map(_EventRow._make, zip(*columns, strict=True))
            for row, time, uid in zip(rows_of, times, owners, strict=True):
                yield self._event(row, time, uid, source(row.tag_row))

    def places_at(self, rows: Int64s) -> EventPlaces:
        """Where the files of some events were at that time; without those that were removed."""
        return self._places(rows, self.events.name_row[rows], self.events.order[rows])

    def places_before(self, rows: Int64s) -> EventPlaces:
        """Where the files of some events were that events of removal took away."""
        name, order = self.events.old_name_row[rows], self.events.order[rows]
        if self.paths is None:
            return self._places(rows, name, order)
        removed = self.paths.names.removed[np.maximum(name, 0)] if len(self.paths.names) else order
        return self._places(rows, name, np.minimum(order, removed) - 1)

    def _places(self, rows: Int64s, name: Int32s, order: Int64s) -> EventPlaces:
        """The places of events with the given names as of the given tids."""
        known = np.flatnonzero(name >= 0)
        if self.paths is None or not len(known):
            return EventPlaces(rows[:0], rows[:0], [], Names.empty())
        when = np.minimum(order[known], TID_ON_DISK - 1)
        folder, folders = self.paths.folders_at(name[known].astype(np.int64), when)
        if None in folders:
            kept = folder != folders.index(None)
            known, folder = known[kept], folder[kept]
        names = self.paths.texts_of(name[known].astype(np.int64))
        return EventPlaces(rows[known], folder, [one or b"" for one in folders], names)

    def __iter__(self) -> Iterator[Event]:
        return self.select(EventFilter())

    def _owners_at(self, events: EventTable) -> Int64s:
        """The owner of the file after each event, NO_VALUE if no state shows the owner."""
        index, uid = self._owners
        return values_at(uid, index.rows(events.instance, events.order))

    @cached_property
    def _owners(self) -> tuple[AsOfIndex, Int64s]:
        """The known owners of each inode instance as of a tid, and the uid of each row."""
        files = self.files.take(np.flatnonzero(self.files.is_in_use))
        is_owner = self.events.kind == CODE[EventKind.OWNER]
        is_owner |= (self.events.kind == CODE[EventKind.HINT]) & (
            (self.events.order == TID_ON_DISK)
            & (self.events.new_second == COMPARED_FIELDS.index("uid"))
        )
        changes = self.events.take(np.flatnonzero(is_owner))
        instance = np.concatenate([files.instance, changes.instance])
        tid = np.concatenate([files.tid, changes.order])
        uid = np.concatenate([files.uid.astype(np.int64), changes.new])
        rows = np.lexsort((tid, instance))
        return AsOfIndex(instance[rows], tid[rows]), uid[rows]

    # -- one event ------------------------------------------------------------------------

    def _source(self, tag: int) -> str:
        """Description of the place of a journal copy, given the row of its tag; "" for none."""
        if tag < 0 or self.history is None:
            return ""
        tags = self.history.log.tags
        return f"log block {tags.position[tag]}, a copy of block {tags.block[tag]}"

    def _event(self, row: _EventRow, time: int, uid: int, source: str) -> Event:
        kind, order = KINDS[row.kind], row.order
        path, old_path = self._event_paths(row)
        old, new = self._event_values(kind, row)
        reason = field = ""
        is_copied = False
        if kind is EventKind.HINT:
            field = COMPARED_FIELDS[row.new_second]
            reason = HINT_TEXTS[HintKind(row.old_second)].format(field=field)
            is_copied = row.old_second in COPIED
        return Event(
            kind=kind,
            path=path,
            old_path=old_path,
            inode=row.number,
            generation=row.generation,
            uid=_optional(uid),
            transaction=order % (1 << 32) if order < TID_ON_DISK else None,
            time=None if time < 0 else time,
            exact=row.exact,
            old=old,
            new=new,
            reason=reason,
            source=source,
            field=field,
            is_copied=is_copied,
        )

    def _event_paths(self, row: _EventRow) -> tuple[bytes | None, bytes | None]:
        """(path, former path); a removal has the path before the removal."""
        assert self.paths is not None
        order = min(row.order, int(TID_ON_DISK) - 1)
        path = None if row.name_row < 0 else self.paths.path_at(row.name_row, order)
        if row.old_name_row < 0:
            return path, None
        before = min(order, int(self.paths.names.removed[row.old_name_row])) - 1
        old_path = self.paths.path_at(row.old_name_row, before)
        return (path, old_path) if row.kind in BOTH_PATHS else (old_path, None)

    def _event_values(self, kind: EventKind, row: _EventRow) -> tuple[EventValue, EventValue]:
        if kind is EventKind.OWNER:
            return {"uid": row.old, "gid": row.old_second}, {"uid": row.new, "gid": row.new_second}
        if kind is EventKind.TIMES:
            return (
                {"mtime": row.old, "atime": row.old_second},
                {"mtime": row.new, "atime": row.new_second},
            )
        if kind in (EventKind.XATTR, EventKind.ACL):
            assert self.xattr_changes is not None
            change = self.xattr_changes.found[row.new]
            return _xattr_value(change.name, change.old), _xattr_value(change.name, change.new)
        if kind is EventKind.HINT and COMPARED_FIELDS[row.new_second] == "i_block":
            return None, None
        return _optional(row.old), _optional(row.new)


def _optional(value: int) -> int | None:
    return None if value == NO_VALUE else value


def _xattr_value(name: bytes, value: bytes | None) -> XattrValue | None:
    return None if value is None else {"name": name, "value": value}


def build_timeline(given: FileSystem | SharedLog, progress: Progress | None = None) -> Timeline:
    """Derive the events of the period that the journal covers.

    Anything that makes the result incomplete is reported in `fs.problems`.

    Args:
        given: the file system, opened with its journal replayed, or an object that shares its log.
        progress: called with (done, total) during the work.
    """
    shared = SharedLog.of(given)
    history, fs = read_history(shared, directories_only=True, committed_only=True), shared.fs
    clock = CommitClock(history.log, fs.superblock.mkfs_time, history.gaps)
    if history.copies is None:
        fs.problems.add("timeline", "the file system has no readable journal", Severity.WARNING)
        return Timeline(fs, None, clock, EventTable.empty(), TimelineFiles.empty(), None, None)
    tags = history.copies.log.tags
    last = clock.tids.max(initial=TID_NONE)
    if (tags.valid & ~tags.committed & (tags.order > last)).any():
        what = "the newest transaction is not committed and is ignored"
        fs.problems.add("timeline", what, Severity.NOTE)
    inodes = scan_inode_states(
        fs, history.copies, clock, _disk_matches_journal(fs, history), progress
    )
    release_freed_memory()
    blocks = DirectoryBlockHistory(history)
    # live directories without an inode state in the journal
    bare, number = blocks.unlogged_directories, history.number
    inline = np.flatnonzero(history.is_allocated & ~np.isin(number, inodes.transitions.inode))
    unlogged = (
        np.concatenate([bare, number[inline]]),
        np.concatenate([np.zeros(len(bare), np.int64), history.generation[inline]]),
    )
    instances = instances_from_transitions(inodes.transitions, unlogged)
    appearances = find_entry_intervals(blocks, np.unique(instances.inode))
    names, texts = attribute_by_overlap(history, instances, appearances), appearances.name
    del appearances  # its columns can be as large as the event table
    release_freed_memory()
    names = name_events(inodes.transitions, instances, names, clock, inodes.events)
    inodes.events.add(inodes.changes.compare_blocks(clock.complete_since))
    release_freed_memory()
    events = inodes.events.build(_event_order(inodes.events, clock))
    paths = PathResolver(names, texts, instances)
    events = with_wiping_hints(_assign_names(events, instances, paths), paths, clock)
    release_freed_memory()
    known = inodes.transitions
    instance = instance_keys(known.inode, known.generation)
    is_in_use = known.status >= InodeStatus.ORPHAN
    files = TimelineFiles(instance, known.tid, known.mode, known.uid, is_in_use)
    return Timeline(fs, history.copies, clock, events, files, paths, inodes.changes)


def _disk_matches_journal(fs: FileSystem, history: History) -> bool:
    """Whether the disk, as `fs` shows it, is the state after the newest transaction."""
    if history.last_fast_commit != TID_NONE:
        fs.problems.add(
            "timeline", "the journal holds fast commits; their changes have no commit time",
            Severity.WARNING,
        )  # fmt: skip
        return False
    if history.log is None or history.log.walk.refusal:
        return False
    return not fs.superblock.needs_recovery or isinstance(fs.blocks, ReplayedBlocks)


def _event_order(pool: EventPool, clock: CommitClock) -> Int32s:
    """Rows in order of (tid, inode, kind), without `ctime` changes that another event explains."""
    kind, order, number = pool.keys()
    rows = np.lexsort((kind, number, order)).astype(np.int32)
    bare = kind == CODE[EventKind.STATUS]
    if not bare.any():
        return rows
    key = (np.searchsorted(clock.tids, order) << 32) | number
    candidates = np.unique(key[bare])
    place = np.minimum(np.searchsorted(candidates, key), len(candidates) - 1)
    explains = ~bare & (kind != CODE[EventKind.HINT]) & (kind != CODE[EventKind.READ])
    explained = np.zeros(len(candidates), bool)
    explained[place[explains & (candidates[place] == key)]] = True
    kept: Int32s = rows[~(bare & explained[place])[rows]]
    return kept


def _assign_names(
    events: EventTable, instances: TimelineInstances, paths: PathResolver
) -> EventTable:
    """The events, with the names that their inodes had at the time of each event."""
    name, old_name = events.name_row.copy(), events.old_name_row.copy()
    for start in range(0, len(events), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        order = np.minimum(events.order[rows], TID_ON_DISK - 1)
        instance = instances.rows_at(events.number[rows].astype(np.int64), order)
        removed = np.isin(events.kind[rows], REMOVALS)
        nameless = (name[rows] < 0) & (old_name[rows] < 0) & (instance >= 0)
        bare = np.flatnonzero(nameless & ~removed)
        found = paths.name_rows_at(instance[bare], order[bare])
        name[start + bare] = found
        lost = np.concatenate([bare[found < 0], np.flatnonzero(nameless & removed)])
        old_name[start + lost] = paths.last_removed_rows(instance[lost], order[lost])
    return replace(events, name_row=name, old_name_row=old_name)
