"""Inode states as the timeline reads them: each with the one before, and the turns of a life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Codes, Int32s, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import InodeTable

NONE = -1


class Stage(IntEnum):
    """Where an inode is in its life."""

    NOTHING = 0  # the slot is empty
    FREED = 1
    ORPHAN = 2  # no name any more, and not freed yet
    ALIVE = 3


@dataclass(frozen=True, slots=True)
class Turns(Table):
    """States at which an inode's stage, generation or link count changed, as columns.

    By (number, order). The first state that is known of an inode is a turn as well.

    Attributes:
        number, generation, order: of the state.
        stage: a `Stage`.
        links: link count.
        before: link count before, NONE where it is not known.
        fresh: the life begins with this state, proven by the log or the inode.
        freed: it was freed with this state, proven by the log or its deletion time.
        first: no earlier state of this number is known.
        exact: it happened in that very transaction.
        is_directory: by its mode.
        untouched: access, change and modification time are one and the same.
        size: in bytes.
        mode: with the type.
        tag: row of `log.tags`.
    """

    number: Int64s
    generation: Int64s
    order: Int64s
    stage: Codes
    links: Int32s
    before: Int32s
    fresh: Bools
    freed: Bools
    first: Bools
    exact: Bools
    is_directory: Bools
    untouched: Bools
    size: Int64s
    mode: npt.NDArray[np.uint16]
    tag: Int32s


@dataclass(frozen=True, slots=True)
class States(Table):
    """States by (number, order), each with the one before.

    Attributes:
        table: the inodes.
        order, tag: of each state.
        before: row of the state before, NONE for the first one that is known.
        carried: it was in the piece before already.
        stage: a `Stage`.
        exact: a change that it shows happened in its very transaction.
        known_zero: an earlier copy of its table block has nothing in its place.
    """

    table: InodeTable
    order: Int64s
    tag: Int64s
    before: Int64s
    carried: Bools
    stage: Int64s
    exact: Bools
    known_zero: Bools


def stages_of(fs: FileSystem, table: InodeTable) -> Any:
    """A `Stage` an inode. A freed one has a time in dtime, an orphan the number of the next."""
    freed = table.dtime > fs.superblock.inodes_count
    dead = np.where(freed, Stage.FREED, Stage.ORPHAN)
    stage = np.where(table.links_count > 0, int(Stage.ALIVE), dead)
    return np.where(table.mode == 0, int(Stage.NOTHING), stage)


def turns_of(states: States, fresh: Any, freed: Any) -> Turns:
    """The states of a piece that are turns."""
    table, before = states.table, np.maximum(states.before, 0)
    first = states.before < 0
    same = table.generation == table.generation[before]
    turn = first | ~same | (states.stage != states.stage[before])
    turn |= table.links_count != table.links_count[before]
    rows = np.flatnonzero(turn & ~states.carried)
    links_before = np.where(first | ~same, NONE, table.links_count[before])
    kind = table.mode & 0xF000
    return Turns(
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
        (kind == 0x4000)[rows],
        ((table.atime == table.mtime) & (table.mtime == table.ctime))[rows],
        table.size[rows],
        table.mode[rows].astype(np.uint16),
        states.tag[rows].astype(np.int32),
    )


def joined_turns(parts: list[Turns]) -> Turns:
    """Several tables as one, by (number, order)."""
    turns = Turns.concat(parts)
    return turns.take(np.lexsort((turns.order, turns.number)))
