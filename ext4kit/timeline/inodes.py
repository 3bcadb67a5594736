"""One pass over the inode states in the journal, for the changes and status transitions.

The states are read in batches, and only columns of changes are kept. Memory use therefore depends
on the number of changes and not on the number of states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import group_and_slot
from ext4kit.filesystem.inodes import is_user_inode
from ext4kit.history import TID_ON_DISK
from ext4kit.journal import BlockHistory, InodeVersions, inode_version_batches
from ext4kit.parsers.inode import InodeTable, inode_checksums_ok, parse_inodes
from ext4kit.timeline.commits import CommitClock
from ext4kit.timeline.events import EventPool
from ext4kit.timeline.hints import disk_mismatch_hints, state_hints
from ext4kit.timeline.inode_changes import first_seen_events, inode_change_events
from ext4kit.timeline.transitions import (
    InodeStatus,
    StateBatch,
    StatusTransitions,
    status_of,
    transitions_in,
)
from ext4kit.timeline.xattr_changes import XattrChangeFinder
from ext4kit.units import NANOSECONDS, Progress


@dataclass(frozen=True, slots=True)
class InodeScan:
    """Result of the pass.

    Attributes:
        transitions: status transitions of all inodes.
        events: changes within inode instances, and hints.
        changes: the changes of extended attributes that the events refer to.
    """

    transitions: StatusTransitions
    events: EventPool
    changes: XattrChangeFinder


def scan_inode_states(
    fs: FileSystem,
    history: BlockHistory,
    clock: CommitClock,
    complete: bool,
    progress: Progress | None,
) -> InodeScan:
    """Read all inode states in the journal and derive transitions and events.

    Args:
        fs: the present file system.
        history: the block copies in the journal.
        clock: the transactions of the journal.
        complete: whether the disk as shown by `fs` is the state after the newest transaction.
        progress: called with (done, total) in inode table blocks.
    """
    reader = _StateScanner(fs, history, clock, complete)
    total = max(len(history.tag_rows), 1)
    done = 0
    for piece in inode_version_batches(fs, history, of_other_layout=False):
        reader.add_batch(piece)
        done = min(done + history.log.reader.chunk, total)
        if progress is not None:
            progress(done, total)
    if progress is not None:
        progress(total, total)
    return reader.finish()


class _StateScanner:
    def __init__(
        self, fs: FileSystem, history: BlockHistory, clock: CommitClock, complete: bool
    ) -> None:
        self.fs, self.history, self.clock, self.complete = fs, history, clock, complete
        self.changes = XattrChangeFinder(fs, history)
        self._transitions: list[StatusTransitions] = []
        self._events = EventPool()
        nothing = np.zeros((0, fs.superblock.inode_size), np.uint8)
        none = np.zeros(0, np.int64)
        self._carry = InodeVersions(none, none, none, nothing)

    def add_batch(self, piece: InodeVersions) -> None:
        """Process one batch together with the states carried over from the previous one."""
        carried = len(self._carry)
        versions = InodeVersions.concat([self._carry, piece])
        states = self._ordered_states(versions, carried)
        if not len(states):
            return
        last = ends_group(states.table.number)
        block = self.fs.inode_location(states.table.number)[0]
        unfinished = block == self.history.log.tags.block[piece.tag[-1]] if len(piece) else last
        rows = np.flatnonzero(last & unfinished)
        self._carry = InodeVersions(
            states.table.number[rows],
            states.tid[rows],
            states.tag_row[rows],
            states.table.raw[rows].copy(),
        )
        self._compare_with_disk(states, np.flatnonzero(last & ~unfinished))
        fresh, since = self._created_here(states), self.clock.changes_known_after(states.tid)
        # freed in this state, as shown by earlier states or by `dtime`
        freed = (states.previous_row >= 0) | states.slot_was_empty
        freed |= states.table.dtime * NANOSECONDS >= since
        freed &= states.status == InodeStatus.FREED
        self._transitions.append(transitions_in(states, fresh, freed))
        self._events.add(first_seen_events(states, fresh, since))
        for part in (*inode_change_events(states, self.changes), *state_hints(states, self.clock)):
            self._events.add(part)

    def finish(self) -> InodeScan:
        """Process the states carried over, which are now complete, and return the result."""
        states = self._ordered_states(self._carry, len(self._carry))
        self._compare_with_disk(states, np.arange(len(states)))
        transitions = StatusTransitions.concat(self._transitions)
        transitions = transitions.take(np.lexsort((transitions.tid, transitions.inode)))
        return InodeScan(transitions, self._events, self.changes)

    # -- states ---------------------------------------------------------------------------

    def _ordered_states(self, versions: InodeVersions, carried: int) -> StateBatch:
        superblock = self.fs.superblock
        table = parse_inodes(versions.rows, versions.number, superblock)
        empty = table.mode == 0
        kept = is_user_inode(self.fs, table) | (empty & ~versions.rows.any(axis=1))
        index = np.flatnonzero(kept)
        index = index[np.lexsort((versions.order[index], versions.number[index]))]
        # Per row of `index` (bool): True where the instance's first state has a valid checksum.
        # A slot that was never used may hold bytes that are not an inode.
        number, generation = table.number[index], table.generation[index]
        starts = starts_group(number, generation)
        sound = np.ones(int(starts.sum()), bool)
        if self.fs.superblock.has_metadata_checksums and len(index):
            firsts = table.take(index[starts])
            sound = inode_checksums_ok(firsts, self.fs.superblock) | (firsts.mode == 0)
        found: Bools = sound[np.cumsum(starts) - 1]
        index = index[found]
        number = versions.number[index]
        leading = starts_group(number)
        index = index[~(leading & empty[index])]  # an empty slot without an earlier state
        table = table.take(index)
        order, tag = versions.order[index], versions.tag[index]
        before = np.arange(len(index)) - 1
        before[1:][table.number[1:] != table.number[:-1]] = NO_ROW
        block, _ = self.fs.inode_location(table.number)
        copy = self.history.newest_copies(block, order - 1)
        copy_order = np.where(copy >= 0, self.history.log.tags.order[copy], NO_ROW)
        return StateBatch(
            table,
            order,
            tag,
            before,
            index < carried,
            status_of(self.fs, table),
            np.where(copy >= 0, copy_order, order - 1) >= self.clock.complete_since(order),
            (copy >= 0) & (before < 0),
        )

    def _compare_with_disk(self, states: StateBatch, last: Rows) -> None:
        """Add hints where the disk differs from the newest copy of an inode."""
        if not self.complete or not len(last):
            return
        block, _ = self.fs.inode_location(states.table.number[last])
        newest = self.history.newest_copies(block, int(TID_ON_DISK))
        kept = last[self.history.log.tags.order[newest] >= self.clock.complete_since_now]
        copies = states.table.take(kept)
        self._events.add(disk_mismatch_hints(self.fs, copies, states.tag_row[kept]))

    # -- creations ------------------------------------------------------------------------

    def _created_here(self, states: StateBatch) -> Bools:
        """Per state (bool): True for the first state of an instance created in the journal."""
        before = np.maximum(states.previous_row, 0)
        has_previous = states.previous_row >= 0
        recreated = has_previous & (states.status > InodeStatus.FREED)
        other = states.table.generation != states.table.generation[before]
        recreated &= other | (states.status[before] == InodeStatus.EMPTY)
        fresh: Bools = recreated | (~has_previous & states.slot_was_empty)
        unknown = np.flatnonzero(~has_previous & ~states.slot_was_empty)
        fresh[unknown] = self._created_after_baseline(states, unknown)
        fresh &= states.status > InodeStatus.EMPTY
        return fresh

    def _created_after_baseline(self, states: StateBatch, rows: Rows) -> Bools:
        """Per row (bool): True where the inode was created in the period that the journal covers.

        This is for inodes without an earlier known state. The evidence is `crtime` if the inode has
        this field, else the inode bitmap.
        """
        table = states.table
        since = self.clock.changes_known_after(states.tid[rows])
        crtime, has = table.crtime[rows], table.extra_isize[rows] >= 24
        by_time = (crtime > since) & ((crtime % NANOSECONDS != 0) | (since != self.clock.made))
        proven = np.where(has, by_time, False)
        old = np.flatnonzero(~has)
        proven[old] = self._newly_allocated(table.take(rows[old]), states.tid[rows[old]])
        return proven

    def _newly_allocated(self, table: InodeTable, order: Int64s) -> Bools:
        """Per inode (bool): True where the inode bitmap shows an allocation at that tid."""
        group, slot = group_and_slot(self.fs.superblock, table.number)
        block = self.fs.groups.inode_bitmap[group]
        tags = self.history.log.tags
        now, before = (self.history.newest_copies(block, at) for at in (order, order - 1))
        touched = (now >= 0) & (tags.order[now] == order)
        result = np.zeros(len(order), bool)
        proven = np.flatnonzero(touched & (before >= 0))
        if len(proven):
            copies, place = np.unique(before[proven], return_inverse=True)
            byte = self.history.log.read_copies(copies)[place, slot[proven] >> 3]
            result[proven] = (byte >> (slot[proven] & 7)) & 1 == 0
        oldest = np.minimum(np.minimum(table.atime, table.mtime), table.ctime)
        first = self.fs.superblock.first_usable_inode
        whole = touched & (before < 0) & self.clock.is_complete & (table.number > first)
        result |= whole & (oldest >= self.clock.made)
        return result
