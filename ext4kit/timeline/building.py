"""The timeline of a file system: everything put together, and events as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.findings import Severity
from ext4kit.journal import History, ReplayedBlocks
from ext4kit.past import NEVER, NOW, Past
from ext4kit.past.appearances import find_appearances
from ext4kit.past.directories import DirectoryBlocks
from ext4kit.timeline.clock import Clock
from ext4kit.timeline.events import (
    CODE,
    COLUMNS,
    KINDS,
    NO_VALUE,
    Event,
    Events,
    Kind,
    Pool,
)
from ext4kit.timeline.filters import Filter
from ext4kit.timeline.hints import COMPARED, REASONS, Hint
from ext4kit.timeline.inodes import Progress, read_inodes
from ext4kit.timeline.links import name_events
from ext4kit.timeline.lives import Lives, find_lives
from ext4kit.timeline.names import Paths, find_names
from ext4kit.timeline.states import Turns
from ext4kit.timeline.xattrs import AttributeChanges

REMOVALS = [
    CODE[kind] for kind in (Kind.DELETED, Kind.DIRECTORY_REMOVED, Kind.UNLINKED, Kind.ORPHAN_ADDED)
]
ROWS_AT_ONCE = 1 << 18
EVENTS_AT_ONCE = 4096
BOTH_PATHS = [CODE[kind] for kind in (Kind.RENAMED, Kind.MOVED)]


class _Row(NamedTuple):
    """One row of `Events`, its columns in order."""

    kind: int
    number: int
    generation: int
    order: int
    exact: bool
    tag: int
    old: int
    new: int
    old_more: int
    new_more: int
    name: int
    old_name: int


@dataclass(frozen=True)
class Timeline:
    """All events, oldest first.

    Attributes:
        fs: the file system.
        history: the copies in its log; None without a log.
        clock: the log's transactions.
        events: as columns, in order of transaction, inode and kind.
        paths: of the names that the events point at.
        changes: the extended attributes that the events point at.
    """

    fs: FileSystem
    history: History | None
    clock: Clock
    events: Events
    paths: Paths | None
    changes: AttributeChanges | None

    def __len__(self) -> int:
        return len(self.events)

    def select(self, wanted: Filter) -> Iterator[Event]:
        """The events that a filter lets through, oldest first."""
        return filter(wanted.fits, self.at_rows(wanted.rows(self.events, self.clock)))

    def at_rows(self, rows: Any) -> Iterator[Event]:
        """The events at some rows of `events` (int64), ascending."""
        for start in range(0, len(rows), EVENTS_AT_ONCE):
            chosen = self.events.take(rows[start : start + EVENTS_AT_ONCE])
            times = self.clock.times_of(chosen.order).tolist()
            columns = (getattr(chosen, name).tolist() for name in COLUMNS)
            for time, values in zip(times, zip(*columns, strict=True), strict=True):
                yield self._event(_Row(*values), time)

    def paths_at(self, rows: Any) -> Iterator[bytes | None]:
        """The path that each event at some rows leads to; None when it is not known, or gone."""
        for start in range(0, len(rows), EVENTS_AT_ONCE):
            chosen = rows[start : start + EVENTS_AT_ONCE]
            orders = np.minimum(self.events.order[chosen], NOW - 1).tolist()
            for name, order in zip(self.events.name[chosen].tolist(), orders, strict=True):
                yield None if name < 0 or self.paths is None else self.paths.path(name, order)

    def __iter__(self) -> Iterator[Event]:
        return self.select(Filter())

    # -- one event ------------------------------------------------------------------------

    def _event(self, row: _Row, time: int) -> Event:
        kind, order = KINDS[row.kind], row.order
        path, old_path = self._both_paths(row)
        old, new = self._values(kind, row)
        return Event(
            kind=kind,
            path=path,
            old_path=old_path,
            inode=row.number,
            generation=row.generation,
            transaction=order % (1 << 32) if order < NOW else None,
            time=None if time < 0 else time,
            exact=row.exact,
            old=old,
            new=new,
            reason=_reason(row) if kind is Kind.HINT else "",
            seen=self._seen(row.tag),
        )

    def _both_paths(self, row: _Row) -> tuple[bytes | None, bytes | None]:
        """(path, former path); the path of what went away is the one that it had."""
        assert self.paths is not None
        order = min(row.order, int(NOW) - 1)
        path = None if row.name < 0 else self.paths.path(row.name, order)
        if row.old_name < 0:
            return path, None
        before = min(order, int(self.paths.names.gone[row.old_name])) - 1
        old_path = self.paths.path(row.old_name, before)
        return (path, old_path) if row.kind in BOTH_PATHS else (old_path, None)

    def _values(self, kind: Kind, row: _Row) -> tuple[Any, Any]:
        if kind is Kind.OWNER:
            return {"uid": row.old, "gid": row.old_more}, {"uid": row.new, "gid": row.new_more}
        if kind is Kind.TIMES:
            return (
                {"mtime": row.old, "atime": row.old_more},
                {"mtime": row.new, "atime": row.new_more},
            )
        if kind in (Kind.XATTR, Kind.ACL):
            assert self.changes is not None
            change = self.changes.found[row.new]
            return _attribute(change.name, change.old), _attribute(change.name, change.new)
        if kind is Kind.HINT and COMPARED[row.new_more] == "i_block":
            return None, None
        return _given(row.old), _given(row.new)

    def _seen(self, tag: int) -> str:
        if tag < 0 or self.history is None:
            return ""
        tags = self.history.log.tags
        return f"log block {tags.position[tag]}, a copy of block {tags.block[tag]}"


def _reason(row: _Row) -> str:
    return REASONS[Hint(row.old_more)].format(field=COMPARED[row.new_more])


def _given(value: int) -> int | None:
    return None if value == NO_VALUE else value


def _attribute(name: bytes, value: bytes | None) -> dict[str, bytes] | None:
    return None if value is None else {"name": name, "value": value}


def build_timeline(fs: FileSystem, progress: Progress | None = None) -> Timeline:
    """Work out what happened while the log was written.

    What stands in the way of a complete result becomes a problem of `fs`.

    Args:
        fs: the file system; open it with its journal replayed.
        progress: told (done, total) now and then.
    """
    past = Past(fs, directories_only=True, committed_only=True)
    clock = Clock(past.log, fs.superblock.mkfs_time, past.breaks)
    if past.history is None:
        fs.problems.add("timeline", "there is no log to read it from", Severity.WARNING)
        return Timeline(fs, None, clock, Events.empty(), None, None)
    _tell_uncommitted(fs, past, clock)
    inodes = read_inodes(fs, past.history, clock, _is_complete(fs, past), progress)
    blocks = DirectoryBlocks(past)
    lives = find_lives(inodes.turns, _unlogged(blocks, inodes.turns))
    appearances = find_appearances(blocks, np.unique(lives.number))
    names, texts = find_names(past, lives, appearances), appearances.name
    del appearances  # its columns are as large as the events of a log that is all directories
    events, names = name_events(inodes.turns, lives, names, clock)
    changed = inodes.changes.in_blocks(clock.baseline)
    for part in (events, changed):
        inodes.events.add(part)
    events = inodes.events.events(_order(inodes.events, clock))
    paths = Paths(names, texts, lives)
    return Timeline(fs, past.history, clock, _named(events, lives, paths), paths, inodes.changes)


def _is_complete(fs: FileSystem, past: Past) -> bool:
    """Whether the disk as `fs` shows it is what the log's newest transaction left."""
    if past.last_fast_commit != NEVER:
        fs.problems.add(
            "timeline", "the log holds fast commits: what they changed is not dated",
            Severity.WARNING,
        )  # fmt: skip
        return False
    if past.log is None or past.log.walk.refused:
        return False
    return not fs.superblock.needs_recovery or isinstance(fs.blocks, ReplayedBlocks)


def _tell_uncommitted(fs: FileSystem, past: Past, clock: Clock) -> None:
    """Say so when the log ends in a transaction that was not committed."""
    if past.log is None:
        return
    tags = past.log.tags
    last = clock.orders.max(initial=NEVER)
    if (tags.valid & ~tags.committed & (tags.order > last)).any():
        what = "the newest transaction was not committed: what it holds is left out"
        fs.problems.add("timeline", what, Severity.NOTE)


def _unlogged(blocks: DirectoryBlocks, turns: Turns) -> tuple[Any, Any]:
    """(number, generation) of live directories that the log shows no state of."""
    past, bare = blocks.past, blocks.unlogged
    inline = np.flatnonzero(past.alive_now & ~np.isin(past.number, turns.number))
    numbers = np.concatenate([bare, past.number[inline]])
    return numbers, np.concatenate([np.zeros(len(bare), np.int64), past.generation[inline]])


def _order(pool: Pool, clock: Clock) -> Any:
    """Rows by (transaction, inode, kind), without changes of ctime that another event explains."""
    kind, order, number = (pool.column(name) for name in ("kind", "order", "number"))
    rows = np.lexsort((kind, number, order)).astype(np.int32)
    bare = kind == CODE[Kind.STATUS]
    if not bare.any():
        return rows
    key = (np.searchsorted(clock.orders, order) << 32) | number
    alone = np.unique(key[bare])
    place = np.minimum(np.searchsorted(alone, key), len(alone) - 1)
    telling = ~bare & (kind != CODE[Kind.HINT]) & (kind != CODE[Kind.READ])
    explained = np.zeros(len(alone), bool)
    explained[place[telling & (alone[place] == key)]] = True
    return rows[~(bare & explained[place])[rows]]


def _named(events: Events, lives: Lives, paths: Paths) -> Events:
    """The events with the names that their inodes had at the time."""
    name, old_name = events.name.copy(), events.old_name.copy()
    for start in range(0, len(events), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        order = np.minimum(events.order[rows], NOW - 1)
        life = lives.at(events.number[rows].astype(np.int64), order)
        removed = np.isin(events.kind[rows], REMOVALS)
        nameless = (name[rows] < 0) & (old_name[rows] < 0) & (life >= 0)
        bare = np.flatnonzero(nameless & ~removed)
        found = paths.in_force(life[bare], order[bare])
        name[start + bare] = found
        lost = np.concatenate([bare[found < 0], np.flatnonzero(nameless & removed)])
        old_name[start + lost] = paths.last(life[lost], order[lost])
    return replace(events, name=name, old_name=old_name)
