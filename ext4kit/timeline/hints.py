"""Hints: contradictions in the evidence, each with its possible reason and without a verdict."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ext4kit.arrays.types import NO_ROW, Bools, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.history import TID_ON_DISK
from ext4kit.parsers.inode import CRTIME_END, InodeTable
from ext4kit.timeline.commits import CommitClock
from ext4kit.timeline.events import EventKind, EventTable, event_table
from ext4kit.timeline.transitions import InodeStatus, StateBatch, state_events
from ext4kit.units import NANOSECONDS

MILLISECOND = 1_000_000
TOLERANCE = NANOSECONDS  # the kernel takes commit times from a coarse clock
TIMES = ("atime", "mtime", "ctime", "crtime")
COMPARED_FIELDS = (
    "mode", "uid", "gid", "size", "links_count", "blocks", "flags", "generation", "file_acl",
    "atime", "mtime", "ctime", "crtime", "dtime", "version", "project_id", "extra_isize", "i_block",
)  # fmt: skip


class HintKind(IntEnum):
    """Kinds of hints, as stored in `EventTable.old_second` of a hint."""

    BEFORE_CREATION = 0
    AFTER_COMMIT = 1
    ROUND = 2
    CTIME_BACK = 3
    CRTIME_CHANGED = 4
    NOT_IN_LOG = 5
    COPIED_EARLY = 6  # BEFORE_CREATION, where the times may have been set when the file was created
    COPIED_ROUND = 7  # ROUND, where the times may have been set when the file was created
    WIPED = 8

    @property
    def code(self) -> str:
        """Its name in rules, such as "not-in-log"."""
        return self.name.lower().replace("_", "-")


COPIED = (HintKind.COPIED_EARLY, HintKind.COPIED_ROUND)  # times as set by copying and unpacking
COPIED_WITHIN = 60 * NANOSECONDS  # from the creation of a file to the setting of its times
HINT_TEXTS = {
    HintKind.BEFORE_CREATION: "{field} is earlier than the creation of the inode; copying and "
    "unpacking tools do this too",
    HintKind.AFTER_COMMIT: "{field} is later than the commit that wrote it",
    HintKind.ROUND: "{field} has round nanoseconds and the other times have not; tools that set "
    "times to the second do this",
    HintKind.CTIME_BACK: "ctime decreased; the clock was set back or the disk was edited",
    HintKind.CRTIME_CHANGED: "the creation time changed, which no system call does",
    HintKind.NOT_IN_LOG: "{field} on disk differs from the newest copy in a complete journal",
    HintKind.WIPED: "the file was cut and renamed before the deletion as wiping programs do; names"
    " that it got",
}
HINT_TEXTS[HintKind.COPIED_EARLY] = HINT_TEXTS[HintKind.BEFORE_CREATION]
HINT_TEXTS[HintKind.COPIED_ROUND] = HINT_TEXTS[HintKind.ROUND]


def state_hints(states: StateBatch, clock: CommitClock) -> list[EventTable]:
    """Hints from single states, and from states compared with their previous states."""
    table, commit = states.table, clock.times_of(states.tid)
    born = table.extra_isize >= CRTIME_END
    fine = born & (table.ctime % MILLISECOND != 0) & (table.crtime % MILLISECOND != 0)
    copied = _times_set_at_creation(states)
    events, rounded = [], []
    for name in TIMES:
        stored, new = getattr(table, name), _newly_set(states, name)
        if name != "crtime":
            early = new & born & (stored < table.crtime - TOLERANCE)
            for chosen, hint in (
                (early & copied, HintKind.COPIED_EARLY),
                (early & ~copied, HintKind.BEFORE_CREATION),
            ):
                events.append(_hint_events(states, chosen, hint, name, table.crtime))
        late = new & (commit >= 0) & (stored > commit + TOLERANCE)
        events.append(_hint_events(states, late, HintKind.AFTER_COMMIT, name, commit))
        if name in ("atime", "mtime"):  # whole milliseconds, though ctime and crtime are finer
            whole = new & fine & (stored % MILLISECOND == 0)
            rounded.append(_hint_events(states, whole & copied, HintKind.COPIED_ROUND, name))
            rounded.append(_hint_events(states, whole & ~copied, HintKind.ROUND, name))
    events += rounded
    before = np.maximum(states.previous_row, 0)
    same = (states.previous_row >= 0) & ~states.repeated & (states.status > InodeStatus.FREED)
    same &= table.generation == table.generation[before]
    ctime, crtime = table.ctime[before], table.crtime[before]
    back = same & (table.ctime < ctime)
    events.append(_hint_events(states, back, HintKind.CTIME_BACK, "ctime", ctime))
    other = same & born & born[before] & (table.crtime != crtime)
    events.append(_hint_events(states, other, HintKind.CRTIME_CHANGED, "crtime", crtime))
    return events


def _times_set_at_creation(states: StateBatch) -> Bools:
    """Per state (bool): True where its times may have been set when the file was created.

    This is so if no earlier state is known, or if the file was created a short time before. A
    program that copies or unpacks sets the times of a file after it has written the content, which
    can be in a later transaction than the creation.
    """
    table, before = states.table, np.maximum(states.previous_row, 0)
    same = table.generation == table.generation[before]
    is_first = (states.previous_row < 0) | ~same
    is_first |= states.status[before] <= InodeStatus.FREED
    found: Bools = is_first | (table.ctime - table.crtime <= COPIED_WITHIN)
    return found


def _newly_set(states: StateBatch, name: str) -> Bools:
    """Per state (bool): True where no earlier state shows the field with the same value."""
    column, before = getattr(states.table, name), np.maximum(states.previous_row, 0)
    same = states.table.generation == states.table.generation[before]
    kept = (states.previous_row >= 0) & same & (column == column[before])
    found: Bools = ~kept & ~states.repeated & (states.status > InodeStatus.EMPTY)
    return found


def _hint_events(
    states: StateBatch, chosen: Bools, hint: HintKind, field: str, old: Int64s | None = None
) -> EventTable:
    rows = np.flatnonzero(chosen)
    return state_events(
        EventKind.HINT,
        states,
        rows,
        old=NO_ROW if old is None else old[rows],
        new=getattr(states.table, field)[rows],
        old_second=int(hint),
        new_second=COMPARED_FIELDS.index(field),
    )


def disk_mismatch_hints(fs: FileSystem, newest: InodeTable, tags: Int64s) -> EventTable:
    """Hints about differences between inodes on disk and their newest copies in the journal.

    Each differing field gives one hint. Checksums are left out because they follow from the other
    fields.
    """
    disk = fs.inode_table(newest.number)
    parts = []
    for place, name in enumerate(COMPARED_FIELDS):
        old, new = getattr(newest, name), getattr(disk, name)
        plain = old.ndim == 1
        rows = np.flatnonzero(old != new if plain else (old != new).any(axis=1))
        parts.append(
            event_table(
                EventKind.HINT,
                len(rows),
                number=newest.number[rows],
                generation=newest.generation[rows],
                order=int(TID_ON_DISK),
                tag_row=tags[rows],
                old=old[rows] if plain else NO_ROW,
                new=new[rows] if plain else NO_ROW,
                old_second=int(HintKind.NOT_IN_LOG),
                new_second=place,
            )
        )
    return EventTable.concat(parts)
