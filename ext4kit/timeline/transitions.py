"""Inode states as the timeline reads them: each with the one before, and the turns of a life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Codes, Int32s, Int64s, UInt16s
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import InodeTable

NO_ROW = -1


class InodeStatus(IntEnum):
    """Where an inode is in its life."""

    EMPTY = 0  # the slot is empty
    FREED = 1
    ORPHAN = 2  # no name any more, and not freed yet
    LINKED = 3


@dataclass(frozen=True, slots=True)
class StatusTransitions(Table):
    """States at which an inode's stage, generation or link count changed, as columns.

    By (number, order). The first state that is known of an inode is a turn as well.

    Attributes:
        number, generation, order: of the state.
        status: a `InodeStatus`.
        links_count: link count.
        links_before: link count before, NO_ROW where it is not known.
        created_here: the life begins with this state, proven by the log or the inode.
        freed_here: it was freed with this state, proven by the log or its deletion time.
        first_seen: no earlier state of this number is known.
        exact: it happened in that very transaction.
        is_directory: by its mode.
        times_equal: access, change and modification time are one and the same.
        size: in bytes.
        mode: with the type.
        tag_row: row of `log.tags`.
    """

    number: Int64s
    generation: Int64s
    order: Int64s
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
    """States by (number, order), each with the one before.

    Attributes:
        table: the inodes.
        order, tag: of each state.
        previous_row: row of the state before, NO_ROW for the first one that is known.
        repeated: it was in the piece before already.
        stage: a `InodeStatus`.
        exact: a change that it shows happened in its very transaction.
        slot_was_empty: an earlier copy of its table block has nothing in its place.
    """

    table: InodeTable
    order: Int64s
    tag: Int64s
    previous_row: Int64s
    repeated: Bools
    stage: Int64s
    exact: Bools
    slot_was_empty: Bools


def status_of(fs: FileSystem, table: InodeTable) -> Int64s:
    """`InodeStatus` of each inode: a freed one's dtime is a time, an orphan's the next inode."""
    freed = table.dtime > fs.superblock.inodes_count
    dead = np.where(freed, InodeStatus.FREED, InodeStatus.ORPHAN)
    stage = np.where(table.links_count > 0, int(InodeStatus.LINKED), dead)
    return np.where(table.mode == 0, int(InodeStatus.EMPTY), stage)


def transitions_in(states: StateBatch, fresh: Bools, freed: Bools) -> StatusTransitions:
    """The states of a piece that are turns."""
    table, before = states.table, np.maximum(states.previous_row, 0)
    first = states.previous_row < 0
    same = table.generation == table.generation[before]
    turn = first | ~same | (states.stage != states.stage[before])
    turn |= table.links_count != table.links_count[before]
    rows = np.flatnonzero(turn & ~states.repeated)
    links_before = np.where(first | ~same, NO_ROW, table.links_count[before])
    return StatusTransitions(
        table.number[rows],
        table.generation[rows],
        states.order[rows],
        states.stage[rows].astype(np.int8),
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
        states.tag[rows].astype(np.int32),
    )


def joined_turns(parts: list[StatusTransitions]) -> StatusTransitions:
    """Several tables as one, by (number, order)."""
    turns = StatusTransitions.concat(parts)
    return turns.take(np.lexsort((turns.order, turns.number)))
