"""Last write of each file and whether writeback had finished before the deletion.

mtime can be set by hand. ctime cannot, and since Linux 6.1 i_version counts every write whose
time differs from the previous one and every attribute change.
Source: kernel fs/inode.c, `inode_update_timestamps`; fs/ext4/inode.c, `ext4_setattr`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.writes import COMMIT_INTERVAL
from ext4kit.journal.shared_log import FIRST_TID
from ext4kit.parsers.inode import InodeFlags, InodeTable
from ext4kit.units import NANOSECONDS

MINUTE = 60 * NANOSECONDS
WRITEBACK_LIMIT = MINUTE  # dirty pages are on disk well before that
EXTRA_TIMES = 16  # bytes of an inode beyond the first 128 with the fractions of its times
EXTRA_CRTIME = 24  # the same with the time of its making
VERSION_AFTER_FIRST_WRITE = 2  # i_version after that
SAME_WRITE_WINDOW = NANOSECONDS // 20
_STATES_AT_ONCE = 1 << 16


class WriteHistory:
    """What happened between the recorded states; all columns are per state."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.states = history.states

    # -- between two states of an instance -----------------------------------------------------

    @cached_property
    def has_predecessor(self) -> Bools:
        """The state before it is of the same instance (bool)."""
        instance = self.states.instance
        return np.append(False, instance[1:] == instance[:-1])[: len(instance)]

    def _changed_since_predecessor(self, column: Int64s) -> Bools:
        changed: Bools = self.has_predecessor & (column != np.roll(column, 1))
        return changed

    @cached_property
    def version_is_counted(self) -> Bools:
        """The kernel counted this file's changes in i_version (bool)."""
        return self.states.table.version > 1

    @cached_property
    def is_counted(self) -> Bools:
        """The kernel that wrote the state counted changes of files (bool).

        The state itself or an earlier one shows counts, and no file was written without one
        between the mount and the unmount.
        """
        writes, breaks = self.history.writes, self.history.gaps
        session = breaks.first_gap_after(self.states.tid)
        first = breaks.first_gap_after(writes.counted[:1])  # none where none is known
        shown = self.version_is_counted | (session[:, None] >= first).any(axis=1)
        return shown & ~np.isin(session, breaks.first_gap_after(writes.uncounted))

    @cached_property
    def version_step(self) -> Int64s:
        """By how much i_version is ahead of the state before; 0 where it tells nothing."""
        version = self.states.table.version
        return np.where(
            self.has_predecessor & self.version_is_counted, version - np.roll(version, 1), 0
        )

    @cached_property
    def unexplained_version_steps(self) -> Int64s:
        """Steps of i_version since the state before that its attributes do not explain.

        One step each: another mode, other owners, a time set by hand. Not so a size that fell:
        a write in the same tick of the clock is not counted.
        """
        table = self.states.table
        before = {name: np.roll(getattr(table, name), 1) for name in ("ctime", "version")}
        by_hand = (table.mtime < before["ctime"]) | (table.mtime > table.ctime)
        explained = self._changed_since_predecessor(table.mode).astype(np.int64)
        owner = self._changed_since_predecessor(table.uid)
        explained += owner | self._changed_since_predecessor(table.gid)
        explained += by_hand & self._changed_since_predecessor(table.mtime)
        return np.where(self.has_predecessor, table.version - before["version"] - explained, 0)

    @cached_property
    def may_have_written(self) -> Bools:
        """Bytes may have been written since the state before (bool)."""
        by_time = self._changed_since_predecessor(self.states.table.mtime)
        counted = self.has_predecessor & np.where(
            self.version_is_counted, self.unexplained_version_steps > 0, by_time
        )
        # Its first blocks are others than in the state before (bool): it was written anew.
        table = self.states.table
        place, deep = _first_places(table)
        changed = (place != np.roll(place, 1, axis=0)).any(axis=1)
        anew: Bools = self.has_predecessor & changed & ~deep & ~np.roll(deep, 1) & (table.size > 0)
        # It grew since the state before, and not because writeback came further (bool).
        table, block_size = self.states.table, self.history.fs.superblock.block_size
        size, blocks = np.roll(table.size, 1), np.roll(table.blocks, 1)
        grew = self.has_predecessor & (table.size > size) & (size > 0)
        written: Bools = grew & ((size % block_size != 0) | (table.blocks == blocks))
        return counted | written | anew | (self.has_predecessor & self._whole_second_times)

    @property
    def _whole_second_times(self) -> Bools:
        """Its times are of whole seconds: a second write within one moves nothing (bool)."""
        return self.states.table.extra_isize < EXTRA_TIMES

    @cached_property
    def written_once(self) -> Bools:
        """Nothing was written after the first bytes: a time set by hand would be gone (bool)."""
        table = self.states.table
        by_hand = (table.mtime < table.crtime) | (table.mtime > table.ctime)
        at_once = table.mtime - table.crtime < SAME_WRITE_WINDOW
        at_once &= table.version <= VERSION_AFTER_FIRST_WRITE
        return (table.extra_isize >= EXTRA_CRTIME) & (by_hand | at_once)

    def overwritten_in_place(self, instances: Int64s) -> Bools:
        """Bytes may have been written since the state before, into blocks it had (bool).

        Args:
            instances: those that matter; nothing is said of the others.
        """
        states = self.states
        rows = np.flatnonzero(self.may_have_written & np.isin(states.instance, instances))
        rows = rows[states.describes_content[rows] & states.describes_content[rows - 1]]
        before, after = self.history.map_states(rows - 1).runs, self.history.map_states(rows).runs
        found = np.zeros(len(states), bool)
        found[rows] = owners_sharing_blocks(before, after, len(rows))
        return found

    @cached_property
    def may_await_allocation(self) -> Bools:
        """Bytes were written since the last blocks were taken (bool): more may be to come."""
        blocks = self.states.table.blocks
        row = self.last_write_row
        same = self.has_predecessor[row] & (blocks[row] == blocks[row - 1])
        waits: Bools = self.awaits_writeback | (same & (blocks == blocks[row]))
        return waits

    @cached_property
    def is_flushed(self) -> Bools:
        """The last change of bytes reached the disk before the next state (bool).

        Delayed allocation is over by then: an unmount, or a minute, gives every byte its block,
        and the inode is logged with it.
        """
        found = np.zeros(len(self.states), bool)
        for start in range(0, len(found), _STATES_AT_ONCE):
            rows = np.arange(start, min(start + _STATES_AT_ONCE, len(found)))
            found[rows] = ~self.may_not_be_flushed(rows, self.last_write_row[rows])
        return found

    @cached_property
    def may_be_same_tick(self) -> Bools:
        """What changed it in its transaction may be of the tick of the state before (bool).

        The kernel does not count a change at the time of the one before.
        """
        grain = np.where(self._whole_second_times, NANOSECONDS, 1)
        begins = self.history.started_after(self.states.tid) // grain
        return self.has_predecessor & (np.roll(self.states.table.ctime, 1) // grain >= begins)

    # -- times ----------------------------------------------------------------------------

    def _last_marked_row(self, marked: Bools) -> Rows:
        """Row of the instance's last marked state up to each, -1 for none."""
        here = np.arange(len(self.states))
        first = np.maximum.accumulate(np.where(self.has_predecessor, 0, here))
        last = np.maximum.accumulate(np.where(marked, here, NO_ROW))
        return np.where(last >= first, last, NO_ROW)

    @cached_property
    def _freed(self) -> Rows:
        """Row of the instance's first freed state, for it and those after it, else -1."""
        return self._first_row(self.history.is_freed)

    @cached_property
    def _unlinked(self) -> Rows:
        """Row of the instance's first state without links, for it and those after it, else -1."""
        return self._first_row(self.states.table.links_count == 0)

    def _first_row(self, lasting: Bools) -> Rows:
        return self._last_marked_row(lasting & ~(self.has_predecessor & np.roll(lasting, 1)))

    @cached_property
    def last_write_row(self) -> Rows:
        """Row of the state that shows the last change of bytes that is known."""
        return self._last_marked_row(self.may_have_written | ~self.has_predecessor)

    @cached_property
    def awaits_writeback(self) -> Bools:
        """It is empty, and was written to: the bytes wait for writeback, or are lost (bool)."""
        table, row = self.states.table, self.last_write_row
        empty = (table.size == 0) & (table.size[row] == 0) & (table.blocks == 0)
        written = (table.mtime[row] > table.crtime[row]) & (table.mtime[row] <= table.ctime[row])
        waits: Bools = empty & self.version_is_counted[row] & written
        return waits

    def last_in_place_write_row(self, instances: Int64s) -> Rows:
        """Row of the state that shows the last write into blocks that a file had, -1 for none.

        Args:
            instances: those that matter.
        """
        # First states of instances that began before the journal, and were written to since.
        table = self.states.table
        dated = (table.extra_isize >= EXTRA_CRTIME) & (table.crtime <= self._journal_start_time)
        written = (table.mtime != table.crtime) & ~self.written_once
        older: Bools = ~self.has_predecessor & dated & written
        return self._last_marked_row(self.overwritten_in_place(instances) | older)

    @cached_property
    def rewritten_before_first_state(self) -> Rows:
        """Row of the instance's first state, where it was written to more than once before that.

        It has its blocks already, and what was written after they were taken may have been
        under way still: of extents a commit waits for no byte that is not in a new block.
        -1 where it was not, and for instances older than the journal.
        Source: kernel fs/ext4/inode.c, `ext4_map_blocks`.
        """
        table = self.states.table
        by_hand = (table.mtime < table.crtime) | (table.mtime > table.ctime)
        again = table.version > VERSION_AFTER_FIRST_WRITE + by_hand
        by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
        known = (table.extra_isize >= EXTRA_CRTIME) & (table.crtime > self._journal_start_time)
        return self._last_marked_row(
            ~self.has_predecessor & known & again & by_extents & (table.blocks > 0)
        )

    @property
    def _journal_start_time(self) -> int:
        """Of what was made after that the log has all states (ns)."""
        log = self.history.log
        times = self._commit_times[self._commit_times >= 0]
        if log is None or not len(times):
            return 0
        oldest, made = int(times[0]), self.history.fs.superblock.mkfs_time * NANOSECONDS
        from_the_start = log.transactions.order[0] <= FIRST_TID and oldest - made < MINUTE
        return oldest - COMMIT_INTERVAL if from_the_start else oldest

    @property
    def _commit_times(self) -> Int64s:
        log = self.history.log
        return log.transactions.commit_time_ns if log else np.zeros(0, np.int64)

    @cached_property
    def _state_end_time(self) -> Int64s:
        """When a state was gone at the latest: freed, another one in its place, the log's end."""
        states, log = self.states, self.history.log
        times, far = self._commit_times, np.iinfo(np.int64).max
        stop = int(times.max(initial=0))
        dtime = np.append(states.table.dtime[1:], 0)[: len(states)]
        freed = np.append(self.has_predecessor[1:] & self.history.is_freed[1:], False)[
            : len(states)
        ]
        if log is None:
            return (states.table.dtime + 1) * NANOSECONDS
        ended = np.where(freed, (dtime + 1) * NANOSECONDS, far)
        if not len(log.transactions):
            return np.minimum(ended, stop)
        row = log.transactions.row_of(self.history.next_tid)
        known = (row >= 0) & (times[row] >= 0)
        return np.minimum(ended, np.where(known, times[row], stop))

    def may_not_be_flushed(self, rows: Int64s, changed: Int64s) -> Bools:
        """States (bool) that went before their last change was sure to be on the disk.

        An unmount of a file with a name brings everything there. A power cut stops it, also of a
        file that is open and unlinked.

        Args:
            rows: the states.
            changed: row of the state that shows each one's last change, -1 for none.
        """
        states, breaks = self.states, self.history.gaps
        ended, following = self._state_end_time[rows], self.history.next_tid[rows]
        following = np.where(following == TID_NONE, TID_ON_DISK, following)
        freed, unlinked = self._freed[rows], self._unlinked[rows]
        ended = np.where(freed >= 0, (states.table.dtime[freed] + 1) * NANOSECONDS, ended)
        following = np.where(freed >= 0, states.tid[freed], following)
        named_until = np.where(unlinked >= 0, states.tid[unlinked], following)
        if len(breaks.tid_before):
            place = breaks.first_gap_after(states.tid[changed])
            known = place < len(breaks.tid_before)
            place = np.minimum(place, len(breaks.tid_before) - 1)
            clean, after = known & breaks.unmounted[place], breaks.tid_after[place]
            cut = known & ~clean & (after <= following)
            ended = np.where(cut, np.minimum(ended, breaks.commit_time[place]), ended)
            changed = np.where(clean & (after <= named_until), NO_ROW, changed)
        return (changed >= 0) & (ended - states.table.ctime[changed] < WRITEBACK_LIMIT)


def owners_sharing_blocks(one: Runs, other: Runs, owners: int) -> Bools:
    """True per owner whose runs of both tables share a block."""
    edges = np.unique(
        np.concatenate(
            [part for runs in (one, other) for part in (runs.physical, runs.physical + runs.length)]
        )
    )
    keyed = []
    for runs in (one, other):
        start = np.searchsorted(edges, runs.physical)
        length = np.searchsorted(edges, runs.physical + runs.length) - start
        keyed += [runs.owner * (len(edges) + 1) + start, length]
    mine, _ = overlap_pairs(*keyed)
    found = np.zeros(owners, bool)
    found[one.owner[mine]] = True
    return found


def _first_places(table: InodeTable) -> tuple[Bytes2D, Bools]:
    """(the bytes of `i_block` that place the first blocks, True where they are in a tree)."""
    places, deep = [np.zeros((0, 6), np.uint8)], [np.zeros(0, bool)]
    for piece in table.pieces():
        root, by_extents = piece.i_block, (piece.flags & int(InodeFlags.EXTENTS)) != 0
        places.append(np.where(by_extents[:, None], root[:, 18:24], root[:, :6]))
        deep.append(by_extents & (root[:, 6] > 0))
    return np.concatenate(places), np.concatenate(deep)
