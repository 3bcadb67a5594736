"""Hints: what does not fit in the evidence, each with its reason and never a verdict."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import InodeTable
from ext4kit.past import NOW
from ext4kit.timeline.clock import Clock
from ext4kit.timeline.events import Events, Kind, make_events
from ext4kit.timeline.states import NONE, Stage, States
from ext4kit.units import NANOSECONDS

MILLISECOND = 1_000_000
TOLERANCE = NANOSECONDS  # a commit is dated by a coarse clock
TIMES = ("atime", "mtime", "ctime", "crtime")
COMPARED = (
    "mode", "uid", "gid", "size", "links_count", "blocks", "flags", "generation", "file_acl",
    "atime", "mtime", "ctime", "crtime", "dtime", "version", "project_id", "extra_isize", "i_block",
)  # fmt: skip


class Hint(IntEnum):
    """What a hint is about; `Events.old_more` of a hint."""

    BEFORE_CREATION = 0
    AFTER_COMMIT = 1
    ROUND = 2
    CTIME_BACK = 3
    CRTIME_CHANGED = 4
    NOT_IN_LOG = 5


REASONS = {
    Hint.BEFORE_CREATION: "{field} is earlier than the creation of the inode; copying and "
    "unpacking tools do this too",
    Hint.AFTER_COMMIT: "{field} is later than the commit that wrote it",
    Hint.ROUND: "{field} has round nanoseconds and the other times have not; tools that set "
    "times to the second do this",
    Hint.CTIME_BACK: "ctime went backwards: the clock was set back, or the disk edited",
    Hint.CRTIME_CHANGED: "the creation time changed, which no system call does",
    Hint.NOT_IN_LOG: "{field} on disk is not that of the newest copy in a complete log",
}


def state_hints(states: States, clock: Clock) -> list[Events]:
    """Hints from single states and from a state and the one before."""
    return [
        *_clock_hints(states, clock),
        *_round_hints(states),
        _ctime_back(states),
        _crtime_changed(states),
    ]


def _new(states: States, name: str) -> Any:
    """Per state (bool): the field was set by this state, as far as it is known."""
    column, before = getattr(states.table, name), np.maximum(states.before, 0)
    same = states.table.generation == states.table.generation[before]
    kept = (states.before >= 0) & same & (column == column[before])
    return ~kept & ~states.carried & (states.stage > Stage.NOTHING)


def _hints(states: States, chosen: Any, hint: Hint, field: str, old: Any = None) -> Events:
    rows = np.flatnonzero(chosen)
    return make_events(
        Kind.HINT,
        len(rows),
        number=states.table.number[rows],
        generation=states.table.generation[rows],
        order=states.order[rows],
        exact=states.exact[rows],
        tag=states.tag[rows],
        old=NONE if old is None else old[rows],
        new=getattr(states.table, field)[rows],
        old_more=int(hint),
        new_more=COMPARED.index(field),
    )


def _clock_hints(states: States, clock: Clock) -> list[Events]:
    """Times before the inode was created, and after they were committed."""
    table, commit = states.table, clock.times_of(states.order)
    born = table.extra_isize >= 24
    events = []
    for name in TIMES:
        moment, new = getattr(table, name), _new(states, name)
        if name != "crtime":
            early = new & born & (moment < table.crtime - TOLERANCE)
            events.append(_hints(states, early, Hint.BEFORE_CREATION, name, table.crtime))
        late = new & (commit >= 0) & (moment > commit + TOLERANCE)
        events.append(_hints(states, late, Hint.AFTER_COMMIT, name, commit))
    return events


def _round_hints(states: States) -> list[Events]:
    """Round nanoseconds in an inode whose ctime has others."""
    table = states.table
    fine = (table.extra_isize >= 24) & (table.ctime % MILLISECOND != 0)
    fine &= table.crtime % MILLISECOND != 0
    events = []
    for name in ("atime", "mtime"):
        moment = getattr(table, name)
        chosen = _new(states, name) & fine & (moment % MILLISECOND == 0)
        events.append(_hints(states, chosen, Hint.ROUND, name))
    return events


def _same_life(states: States) -> tuple[Any, Any]:
    """(per state (bool): it goes on from one of the same life, that one's row)."""
    before = np.maximum(states.before, 0)
    same = (states.before >= 0) & ~states.carried
    same &= states.table.generation == states.table.generation[before]
    return same & (states.stage > Stage.FREED), before


def _ctime_back(states: States) -> Events:
    same, before = _same_life(states)
    ctime = states.table.ctime
    return _hints(states, same & (ctime < ctime[before]), Hint.CTIME_BACK, "ctime", ctime[before])


def _crtime_changed(states: States) -> Events:
    same, before = _same_life(states)
    table = states.table
    same &= (table.extra_isize >= 24) & (table.extra_isize[before] >= 24)
    other = same & (table.crtime != table.crtime[before])
    return _hints(states, other, Hint.CRTIME_CHANGED, "crtime", table.crtime[before])


def disk_hints(fs: FileSystem, newest: InodeTable, tags: Any) -> Events:
    """Inodes that the disk shows otherwise than their newest copies in the log.

    One hint a field; checksums are left out, they follow from the rest.
    """
    disk = fs.inode_table(newest.number)
    parts = []
    for place, name in enumerate(COMPARED):
        old, new = getattr(newest, name), getattr(disk, name)
        plain = old.ndim == 1
        rows = np.flatnonzero(old != new if plain else (old != new).any(axis=1))
        parts.append(
            make_events(
                Kind.HINT,
                len(rows),
                number=newest.number[rows],
                generation=newest.generation[rows],
                order=NOW,
                tag=tags[rows],
                old=old[rows] if plain else NONE,
                new=new[rows] if plain else NONE,
                old_more=int(Hint.NOT_IN_LOG),
                new_more=place,
            )
        )
    return Events.concat(parts)
