"""Status transitions of inodes, and the inode instances that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Unpack

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.lookup import AsOfIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Codes, Int32s, Int64s, Rows, UInt16s, UInt32s
from ext4kit.filesystem import FileSystem
from ext4kit.history import TID_ON_DISK
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.parsers.inode import InodeTable
from ext4kit.timeline.events import EventKind, EventTable, EventValues, event_table


class InodeStatus(IntEnum):
    """The status of an inode slot according to its fields."""

    EMPTY = 0  # the slot is empty
    FREED = 1
    ORPHAN = 2  # has no name but is not yet freed
    LINKED = 3


@dataclass(frozen=True, slots=True)
class StatusTransitions(Table):
    """States that change the status, generation or link count of an inode, as columns.

    They are sorted by (number, tid). The first known state of an inode counts as a transition.

    Attributes:
        inode, generation: inode number and generation.
        tid: tid of the state.
        status: an `InodeStatus`.
        links_count: link count.
        links_before: previous link count, NO_ROW if unknown.
        created_here: True where the journal or the inode proves that the instance was created in
            this state.
        freed_here: True where the journal or `dtime` proves that the inode was freed in this state.
        first_seen: True where no earlier state of this number is known.
        exact: True where the change certainly happened in this transaction.
        is_directory: True where the mode is that of a directory.
        times_equal: True where the times of access, change and modification are equal.
        size: bytes.
        mode: mode with the file type.
        uid: owner.
        tag_row: row of `log.tags`.
    """

    inode: Int64s
    generation: Int64s
    tid: Int64s
    status: Codes
    links_count: Int32s
    links_before: Int32s
    created_here: Bools
    freed_here: Bools
    first_seen: Bools
    exact: Bools
    is_directory: Bools
    times_equal: Bools
    size: Int64s
    mode: UInt16s
    uid: UInt32s
    tag_row: Int32s


@dataclass(frozen=True, slots=True)
class StateBatch(Table):
    """States sorted by (number, tid), each with the row of the previous one.

    Attributes:
        table: the inodes.
        tid: tid of each state.
        tag_row: row of `log.tags` of each state.
        previous_row: row of the previous state, NO_ROW for the first known one.
        repeated: True where the state was also in the previous batch.
        status: an `InodeStatus`.
        exact: True where the changes that the state shows certainly happened in this transaction.
        slot_was_empty: True where the slot is empty in an earlier copy of the table block.
    """

    table: InodeTable
    tid: Int64s
    tag_row: Int64s
    previous_row: Int64s
    repeated: Bools
    status: Int64s
    exact: Bools
    slot_was_empty: Bools


def status_of(fs: FileSystem, table: InodeTable) -> Int64s:
    """The `InodeStatus` of each inode.

    The `i_dtime` of a freed inode is a time; that of an orphan is the number of the next orphan.
    """
    freed = table.dtime > fs.superblock.inodes_count
    unlinked = np.where(freed, InodeStatus.FREED, InodeStatus.ORPHAN)
    stage = np.where(table.links_count > 0, int(InodeStatus.LINKED), unlinked)
    return np.where(table.mode == 0, int(InodeStatus.EMPTY), stage)


def state_events(
    kind: EventKind, states: StateBatch, rows: Rows, **columns: Unpack[EventValues]
) -> EventTable:
    """Events of one kind, one for each of the given states."""
    return event_table(
        kind,
        len(rows),
        number=states.table.number[rows],
        generation=states.table.generation[rows],
        order=states.tid[rows],
        exact=states.exact[rows],
        tag_row=states.tag_row[rows],
        **columns,
    )


def transitions_in(states: StateBatch, fresh: Bools, freed: Bools) -> StatusTransitions:
    """The states of a batch that are transitions."""
    table, before = states.table, np.maximum(states.previous_row, 0)
    first = states.previous_row < 0
    same = table.generation == table.generation[before]
    changed = first | ~same | (states.status != states.status[before])
    changed |= table.links_count != table.links_count[before]
    rows = np.flatnonzero(changed & ~states.repeated)
    links_before = np.where(first | ~same, NO_ROW, table.links_count[before])
    return StatusTransitions(
        table.number[rows],
        table.generation[rows],
        states.tid[rows],
        states.status[rows].astype(np.int8),
        table.links_count[rows].astype(np.int32),
        links_before[rows].astype(np.int32),
        fresh[rows],
        freed[rows],
        first[rows],
        states.exact[rows],
        table.is_dir[rows],
        ((table.atime == table.mtime) & (table.mtime == table.ctime))[rows],
        table.size[rows],
        table.mode[rows].astype(np.uint16),
        table.uid[rows].astype(np.uint32),
        states.tag_row[rows].astype(np.int32),
    )


@dataclass(frozen=True)
class TimelineInstances:
    """Inode instances as columns, sorted by (number, tid of creation).

    Attributes:
        inode, generation: inode number and generation.
        created: tid of the creation, TID_BEFORE_LOG where the instance is older than the journal.
        freed: tid of the deletion, TID_ON_DISK where the instance still exists.
        first_seen: tid of the first state of the instance in the journal, TID_ON_DISK for none.
        is_directory: True for directories.
        of_transition: per transition, row of its instance; -1 for states of empty slots.
    """

    inode: Int64s
    generation: Int64s
    created: Int64s
    freed: Int64s
    first_seen: Int64s
    is_directory: Bools
    of_transition: Int64s

    def __len__(self) -> int:
        return len(self.inode)

    @cached_property
    def _index(self) -> AsOfIndex:
        return AsOfIndex(self.inode, self.created)

    def rows_at(self, numbers: Int64s, orders: Int64s) -> Rows:
        """Per number: row of the newest instance created at or before the tid, else -1."""
        return self._index.rows(numbers, orders)

    def rows_between(self, numbers: Int64s, first: Int64s, last: Int64s) -> tuple[Rows, Rows]:
        """(row in `numbers`, instance) of each instance of a number from `first` to `last`."""
        low, high = self.rows_at(numbers, first), self.rows_at(numbers, last)
        starts = np.searchsorted(self.inode, numbers)
        exists = starts < len(self)
        exists[exists] = self.inode[starts[exists]] == numbers[exists]
        low = np.where(low < 0, starts, low)
        count = np.where(exists & (high >= 0), np.maximum(high - low + 1, 0), 0)
        row, step = expand(count)
        instance = low[row] + step
        end = self.freed[instance]
        existed = (end > first[row]) | (end == TID_ON_DISK) | (self.created[instance] > first[row])
        return row[existed], instance[existed]


def instances_from_transitions(
    transitions: StatusTransitions, directories: tuple[Int64s, Int64s]
) -> TimelineInstances:
    """Derive instances from transitions, and add live directories without a state in the journal.

    Args:
        transitions: status changes, sorted by (number, tid).
        directories: inode numbers and generations of live directories without a state.
    """
    begins = transitions.first_seen.copy()
    other = np.zeros(len(transitions), bool)
    other[1:] = transitions.generation[1:] != transitions.generation[:-1]
    begins |= other & (transitions.status > InodeStatus.EMPTY)
    after_empty = np.zeros(len(transitions), bool)
    after_empty[1:] = transitions.status[:-1] == InodeStatus.EMPTY
    begins = begins | (after_empty & (transitions.status > InodeStatus.EMPTY))
    instance = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    instance[transitions.status == InodeStatus.EMPTY] = NO_ROW
    begin = np.where(transitions.created_here[first], transitions.tid[first], TID_BEFORE_LOG)
    end = np.full(len(first), TID_ON_DISK)
    freed = np.flatnonzero((transitions.status == InodeStatus.FREED) & (instance >= 0))[::-1]
    end[instance[freed]] = transitions.tid[freed]
    emptied = np.flatnonzero((transitions.status == InodeStatus.EMPTY) & ~transitions.first_seen)
    # Set the end of instances whose slot was emptied before they were freed.
    former = instance[emptied - 1]
    known = (former >= 0) & (end[former] == TID_ON_DISK)
    end[former[known]] = transitions.tid[emptied[known]]
    following = np.flatnonzero(~transitions.first_seen[first])
    end[following - 1] = np.minimum(end[following - 1], transitions.tid[first[following]])
    extra = len(directories[0])
    number = np.concatenate([transitions.inode[first], directories[0]])
    sort = np.argsort(number, kind="stable")
    place = np.empty(len(sort), np.int64)
    place[sort] = np.arange(len(sort))
    full = np.full(extra, TID_ON_DISK)
    return TimelineInstances(
        number[sort],
        np.concatenate([transitions.generation[first], directories[1]])[sort],
        np.concatenate([begin, np.full(extra, TID_BEFORE_LOG)])[sort],
        np.concatenate([end, full])[sort],
        np.concatenate([transitions.tid[first], full])[sort],
        np.concatenate([transitions.is_directory[first], np.ones(extra, bool)])[sort],
        np.where(instance >= 0, place[np.maximum(instance, 0)], NO_ROW),
    )
