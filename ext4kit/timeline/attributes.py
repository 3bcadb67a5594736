"""What changed in an inode that went on living: mode, owner, size, content, times and the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.parsers.inode import InodeFlags, InodeTable, is_fast_symlink
from ext4kit.timeline.events import Events, Kind, make_events
from ext4kit.timeline.states import Stage, States
from ext4kit.timeline.xattrs import AttributeChanges

PERMISSIONS = 0o7777
SET_IDS = 0o6000
# Flags that someone sets; the others follow from how the file is stored.
SET_FLAGS = int(
    InodeFlags.SECRM | InodeFlags.UNRM | InodeFlags.COMPR | InodeFlags.SYNC | InodeFlags.IMMUTABLE
    | InodeFlags.APPEND | InodeFlags.NODUMP | InodeFlags.NOATIME | InodeFlags.ENCRYPT
    | InodeFlags.JOURNAL_DATA | InodeFlags.NOTAIL | InodeFlags.DIRSYNC | InodeFlags.TOPDIR
    | InodeFlags.VERITY | InodeFlags.DAX | InodeFlags.PROJINHERIT | InodeFlags.CASEFOLD
)  # fmt: skip


def attribute_events(states: States, changes: AttributeChanges) -> list[Events]:
    """The events of the states that go on from one of the same life."""
    before = np.maximum(states.before, 0)
    table = states.table
    goes_on = (states.before >= 0) & ~states.carried
    goes_on &= table.generation == table.generation[before]
    goes_on &= (states.stage >= Stage.ORPHAN) & (states.stage[before] >= Stage.ORPHAN)
    rows = np.flatnonzero(goes_on)
    pairs = _Pairs(states, rows, before[rows])
    attributes = changes.compare(states, rows, before[rows])
    events = [
        *pairs.owners_and_modes(),
        *pairs.sizes_and_times(),
        *pairs.orphans(),
        pairs.targets(),
        attributes,
    ]
    told = np.concatenate([_keys(events, states), pairs.link_keys()])
    return [*events, pairs.unexplained(told)]


def first_sights(states: States, fresh: Any, since: Any) -> Events:
    """Inodes that were there before, of which the first known state shows a later change.

    Args:
        states: the states.
        fresh: bool, the inode was created with that state.
        since: time after which all changes up to each state are in the log, ns.
    """
    table = states.table
    chosen = (states.before < 0) & ~states.carried & ~fresh & (states.stage == Stage.ALIVE)
    chosen &= (table.ctime > since) & (((table.mode & 0xF000) != 0x4000) | (table.mtime <= since))
    rows = np.flatnonzero(chosen)
    return make_events(
        Kind.STATUS,
        len(rows),
        number=table.number[rows],
        generation=table.generation[rows],
        order=states.order[rows],
        exact=states.exact[rows],
        tag=states.tag[rows],
        new=table.ctime[rows],
    )


def _keys(events: list[Events], states: States) -> Any:
    """(number, order) of events as one number."""
    number = np.concatenate([event.number for event in events]).astype(np.int64)
    order = np.concatenate([event.order for event in events])
    return number * _width(states) + order


def _width(states: States) -> Any:
    return states.order.max(initial=0) + 1


class _Pairs:
    """Rows of states that go on, with those they go on from."""

    def __init__(self, states: States, rows: Any, before: Any) -> None:
        self.states, self.rows = states, rows
        self.new: InodeTable = states.table.take(rows)
        self.old: InodeTable = states.table.take(before)
        self.is_file = (self.new.mode & 0xF000) == 0x8000

    def _differs(self, name: str) -> Any:
        return getattr(self.new, name) != getattr(self.old, name)

    def _events(self, kind: Kind, chosen: Any, **columns: Any) -> Events:
        rows = self.rows[chosen]
        states = self.states
        return make_events(
            kind,
            len(rows),
            number=states.table.number[rows],
            generation=states.table.generation[rows],
            order=states.order[rows],
            exact=states.exact[rows],
            tag=states.tag[rows],
            **{name: column[chosen] for name, column in columns.items()},
        )

    def _change(self, kind: Kind, chosen: Any, name: str) -> Events:
        return self._events(kind, chosen, old=getattr(self.old, name), new=getattr(self.new, name))

    def owners_and_modes(self) -> list[Events]:
        """Mode, owner, flags and project."""
        old, new = self.old, self.new
        owner = self._differs("uid") | self._differs("gid")
        by_owner = owner & ((old.mode & ~SET_IDS) == new.mode)  # chown clears them
        mode = (((old.mode ^ new.mode) & PERMISSIONS) != 0) & ~by_owner
        flags = ((old.flags ^ new.flags) & SET_FLAGS) != 0
        return [
            self._change(Kind.MODE, mode, "mode"),
            self._events(
                Kind.OWNER, owner, old=old.uid, new=new.uid, old_more=old.gid, new_more=new.gid
            ),
            self._change(Kind.FLAGS, flags, "flags"),
            self._change(Kind.PROJECT, self._differs("project_id"), "project_id"),
        ]

    def sizes_and_times(self) -> list[Events]:
        """Size and content of files, and times set by hand."""
        old, new, is_file = self.old, self.new, self.is_file
        by_hand = self._set_by_hand()
        same_size = ~self._differs("size")
        written = is_file & same_size & ~by_hand & self._differs("mtime")
        times = {"old": old.mtime, "new": new.mtime, "old_more": old.atime, "new_more": new.atime}
        read = self._differs("atime") & ~by_hand
        return [
            self._change(Kind.SIZE, is_file & (new.size > old.size), "size"),
            self._change(Kind.TRUNCATED, is_file & (new.size < old.size), "size"),
            self._change(Kind.CONTENT, written, "mtime"),
            self._events(Kind.TIMES, by_hand, **times),
            self._change(Kind.READ, read, "atime"),
        ]

    def _set_by_hand(self) -> Any:
        """Per pair (bool): a time that no other operation would have set.

        Writing sets mtime and ctime alike, reading sets atime alone and forward. A time that
        lies between the inode's last change and this one can have been set by another
        operation of the same transaction.
        """
        old, new = self.old, self.new
        changed = self._differs("ctime") & (new.ctime >= old.ctime)
        mtime = self._differs("mtime") & (new.mtime != new.ctime)
        mtime &= ~_within(old.ctime, new.mtime, new.ctime)
        atime = self._differs("atime") & ~_within(old.ctime, new.atime, new.ctime)
        atime &= self._differs("ctime") | (new.atime < old.atime)
        touched = self._differs("atime") & self._differs("mtime") & (new.atime == new.mtime)
        touched &= ~self._differs("size")
        access = self._differs("atime") & ~self._differs("mtime") & (new.atime == new.ctime)
        access &= changed & ~self._differs("size") & ~self._differs("mode")
        return mtime | atime | touched | access

    def orphans(self) -> list[Events]:
        """Files with names that were on the orphan list: a truncation in more than one step."""
        linked = (self.old.links_count > 0) & (self.new.links_count > 0)
        added = linked & (self.old.dtime == 0) & (self.new.dtime != 0)
        removed = linked & (self.old.dtime != 0) & (self.new.dtime == 0)
        return [self._events(Kind.ORPHAN_ADDED, added), self._events(Kind.ORPHAN_REMOVED, removed)]

    def targets(self) -> Events:
        """Symlinks whose target is another one."""
        fast = is_fast_symlink(self.new.mode, self.new.size, self.new.flags)
        other = (self.new.i_block != self.old.i_block).any(axis=1) | self._differs("size")
        return self._events(Kind.TARGET, fast & other)

    def link_keys(self) -> Any:
        """(number, order) as one number, where the link count or the stage changed."""
        states, rows = self.states, self.rows
        moved = self._differs("links_count")
        return self.new.number[moved] * _width(states) + states.order[rows[moved]]

    def unexplained(self, told: Any) -> Events:
        """Inodes whose ctime went on and nothing else did."""
        keys = self.new.number * _width(self.states) + self.states.order[self.rows]
        bare = self._differs("ctime") & ~np.isin(keys, told)
        bare &= self.is_file | ~self._differs("mtime")
        return self._change(Kind.STATUS, bare, "ctime")


def _within(first: Any, moment: Any, last: Any) -> Any:
    return (first <= moment) & (moment <= last)
