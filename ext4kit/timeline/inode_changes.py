"""Changes within an inode instance, such as those of mode, owner, size, content and times."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.parsers.inode import InodeFlags, InodeTable, is_fast_symlink
from ext4kit.timeline.events import EventKind, EventTable
from ext4kit.timeline.transitions import InodeStatus, StateBatch, state_events
from ext4kit.timeline.xattr_changes import XattrChangeFinder

PERMISSIONS = 0o7777
SET_IDS = 0o6000
# Flags that a user sets; the kernel derives the other flags from how the file is stored.
SET_FLAGS = int(
    InodeFlags.SECRM | InodeFlags.UNRM | InodeFlags.COMPR | InodeFlags.SYNC | InodeFlags.IMMUTABLE
    | InodeFlags.APPEND | InodeFlags.NODUMP | InodeFlags.NOATIME | InodeFlags.ENCRYPT
    | InodeFlags.JOURNAL_DATA | InodeFlags.NOTAIL | InodeFlags.DIRSYNC | InodeFlags.TOPDIR
    | InodeFlags.VERITY | InodeFlags.DAX | InodeFlags.PROJINHERIT | InodeFlags.CASEFOLD
)  # fmt: skip


def inode_change_events(states: StateBatch, changes: XattrChangeFinder) -> list[EventTable]:
    """Events shown by states that follow another state of the same instance."""
    before = np.maximum(states.previous_row, 0)
    table = states.table
    continues = (states.previous_row >= 0) & ~states.repeated
    continues &= table.generation == table.generation[before]
    continues &= (states.status >= InodeStatus.ORPHAN) & (
        states.status[before] >= InodeStatus.ORPHAN
    )
    rows = np.flatnonzero(continues)
    pairs = _StatePairs(states, rows, before[rows])
    attributes = changes.compare_states(states, rows, before[rows])
    events = [
        *pairs.mode_owner_events(),
        *pairs.size_time_events(),
        *pairs.orphan_events(),
        pairs.link_target_events(),
        attributes,
    ]
    number = np.concatenate([event.number for event in events]).astype(np.int64)
    order = np.concatenate([event.order for event in events])
    keys: Int64s = number * _tid_base(states) + order
    explained = np.concatenate([keys, pairs.link_change_keys()])
    return [*events, pairs.unexplained_ctime_events(explained)]


def first_seen_events(states: StateBatch, fresh: Bools, since: Int64s) -> EventTable:
    """Events of older inodes whose first known state shows a change in the known period.

    Args:
        states: the states.
        fresh: True where the inode was created with that state.
        since: time after which all changes up to each state are in the journal, ns.
    """
    table = states.table
    chosen = (
        (states.previous_row < 0)
        & ~states.repeated
        & ~fresh
        & (states.status == InodeStatus.LINKED)
    )
    chosen &= (table.ctime > since) & (~table.is_dir | (table.mtime <= since))
    rows = np.flatnonzero(chosen)
    return state_events(EventKind.STATUS, states, rows, new=table.ctime[rows])


def _tid_base(states: StateBatch) -> int:
    return int(states.tid.max(initial=0)) + 1


class _StatePairs:
    """Rows of states that continue an instance, each paired with the row of its previous state."""

    def __init__(self, states: StateBatch, rows: Rows, before: Int64s) -> None:
        self.states, self.rows = states, rows
        self.new: InodeTable = states.table.take(rows)
        self.old: InodeTable = states.table.take(before)
        self.is_file: Bools = self.new.is_regular

    def _differs(self, name: str) -> Bools:
        differs: Bools = getattr(self.new, name) != getattr(self.old, name)
        return differs

    def _events(self, kind: EventKind, chosen: Bools, **columns: Int64s) -> EventTable:
        chosen_columns = {name: column[chosen] for name, column in columns.items()}
        return state_events(kind, self.states, self.rows[chosen], **chosen_columns)

    def _change(self, kind: EventKind, chosen: Bools, name: str) -> EventTable:
        return self._events(kind, chosen, old=getattr(self.old, name), new=getattr(self.new, name))

    def mode_owner_events(self) -> list[EventTable]:
        """Events for changes of mode, owner, flags and project."""
        old, new = self.old, self.new
        owner = self._differs("uid") | self._differs("gid")
        by_owner = owner & ((old.mode & ~SET_IDS) == new.mode)  # chown clears setuid and setgid
        mode = (((old.mode ^ new.mode) & PERMISSIONS) != 0) & ~by_owner
        flags = ((old.flags ^ new.flags) & SET_FLAGS) != 0
        ids = {"old": old.uid, "new": new.uid, "old_second": old.gid, "new_second": new.gid}
        return [
            self._change(EventKind.MODE, mode, "mode"),
            self._events(EventKind.OWNER, owner, **ids),
            self._change(EventKind.FLAGS, flags, "flags"),
            self._change(EventKind.PROJECT, self._differs("project_id"), "project_id"),
        ]

    def size_time_events(self) -> list[EventTable]:
        """Events for changes of size and content, and for times that were set explicitly."""
        old, new, is_file = self.old, self.new, self.is_file
        by_hand = self._times_set_explicitly()
        same_size = ~self._differs("size")
        written = is_file & same_size & ~by_hand & self._differs("mtime")
        times = {"old": old.mtime, "new": new.mtime}
        times |= {"old_second": old.atime, "new_second": new.atime}
        read = self._differs("atime") & ~by_hand
        return [
            self._change(EventKind.SIZE, is_file & (new.size > old.size), "size"),
            self._change(EventKind.TRUNCATED, is_file & (new.size < old.size), "size"),
            self._change(EventKind.CONTENT, written, "mtime"),
            self._events(EventKind.TIMES, by_hand, **times),
            self._change(EventKind.READ, read, "atime"),
        ]

    def _times_set_explicitly(self) -> Bools:
        """Per pair (bool): True where a time has a value that no other operation would have set.

        A write sets `mtime` and `ctime` to the same time. A read only advances `atime`. A time that
        lies between the previous change of the inode and this one may come from another operation
        in the same transaction.
        """
        old, new = self.old, self.new
        changed = self._differs("ctime") & (new.ctime >= old.ctime)
        mtime = self._differs("mtime") & (new.mtime != new.ctime)
        mtime &= ~_between(old.ctime, new.mtime, new.ctime)
        atime = self._differs("atime") & ~_between(old.ctime, new.atime, new.ctime)
        atime &= self._differs("ctime") | (new.atime < old.atime)
        touched = self._differs("atime") & self._differs("mtime") & (new.atime == new.mtime)
        touched &= ~self._differs("size")
        access = self._differs("atime") & ~self._differs("mtime") & (new.atime == new.ctime)
        access &= changed & ~self._differs("size") & ~self._differs("mode")
        found: Bools = mtime | atime | touched | access
        return found

    def orphan_events(self) -> list[EventTable]:
        """Events for linked files on the orphan list, truncated in several transactions."""
        linked = (self.old.links_count > 0) & (self.new.links_count > 0)
        added = linked & (self.old.dtime == 0) & (self.new.dtime != 0)
        removed = linked & (self.old.dtime != 0) & (self.new.dtime == 0)
        return [
            self._events(EventKind.ORPHAN_ADDED, added),
            self._events(EventKind.ORPHAN_REMOVED, removed),
        ]

    def link_target_events(self) -> EventTable:
        """Events for symlinks whose target changed."""
        fast = is_fast_symlink(self.new.mode, self.new.size, self.new.flags)
        other = (self.new.i_block != self.old.i_block).any(axis=1) | self._differs("size")
        return self._events(EventKind.TARGET, fast & other)

    def link_change_keys(self) -> Int64s:
        """(inode number, tid) as one integer, for each pair with a changed link count."""
        states, rows = self.states, self.rows
        moved = self._differs("links_count")
        keys: Int64s = self.new.number[moved] * _tid_base(states) + states.tid[rows[moved]]
        return keys

    def unexplained_ctime_events(self, explained: Int64s) -> EventTable:
        """Events for inodes whose `ctime` advanced and that have no other event."""
        keys = self.new.number * _tid_base(self.states) + self.states.tid[self.rows]
        bare = self._differs("ctime") & ~np.isin(keys, explained)
        bare &= self.is_file | ~self._differs("mtime")
        return self._change(EventKind.STATUS, bare, "ctime")


def _between(first: Int64s, time: Int64s, last: Int64s) -> Bools:
    return (first <= time) & (time <= last)
