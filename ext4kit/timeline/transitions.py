"""Inode states of the timeline, each with the previous one, and their status transitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Codes, Int32s, Int64s, UInt16s
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import InodeTable


class InodeStatus(IntEnum):
    """Status of an inode slot, from its fields."""

    EMPTY = 0  # the slot is empty
    FREED = 1
    ORPHAN = 2  # without a name, not yet freed
    LINKED = 3


@dataclass(frozen=True, slots=True)
class StatusTransitions(Table):
    """States that change the status, generation or link count of an inode, as columns.

    By (number, order). The first known state of an inode is a transition as well.

    Attributes:
        inode, generation: of the inode.
        tid: tid of the state.
        status: an `InodeStatus`.
        links_count: link count.
        links_before: link count before, NO_ROW where it is unknown.
        created_here: True where the journal or the inode proves that the instance begins here.
        freed_here: True where the journal or `dtime` proves that the inode was freed here.
        first_seen: True where no earlier state of this number is known.
        exact: True where the change happened in this very transaction.
        is_directory: True where the mode is that of a directory.
        times_equal: True where access, change and modification time are equal.
        size: bytes.
        mode: mode with the file type.
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
    tag_row: Int32s


@dataclass(frozen=True, slots=True)
class StateBatch(Table):
    """States by (number, order), each with the previous one.

    Attributes:
        table: the inodes.
        tid: tid of each state.
        tag_row: row of `log.tags` of each state.
        previous_row: row of the previous state, NO_ROW for the first known one.
        repeated: True where the previous batch had the state already.
        status: an `InodeStatus`.
        exact: True where a change that the state shows happened in this very transaction.
        slot_was_empty: True where an earlier copy of the table block has an empty slot there.
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
    """`InodeStatus` of each inode; `i_dtime` is a time if freed, else the next orphan's number."""
    freed = table.dtime > fs.superblock.inodes_count
    unlinked = np.where(freed, InodeStatus.FREED, InodeStatus.ORPHAN)
    stage = np.where(table.links_count > 0, int(InodeStatus.LINKED), unlinked)
    return np.where(table.mode == 0, int(InodeStatus.EMPTY), stage)


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
        states.tag_row[rows].astype(np.int32),
    )


def join_transitions(parts: list[StatusTransitions]) -> StatusTransitions:
    """One table from several, by (number, order)."""
    transitions = StatusTransitions.concat(parts)
    return transitions.take(np.lexsort((transitions.tid, transitions.inode)))
