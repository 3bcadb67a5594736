"""Inode instances of the timeline: each from creation to deletion, and which one a number meant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.lookup import AsOfIndex
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.history import TID_ON_DISK
from ext4kit.timeline.transitions import InodeStatus, StatusTransitions

TID_BEFORE_LOG = -1  # begin of an instance that is older than the journal


@dataclass(frozen=True)
class TimelineInstances:
    """Inode instances as columns, by (number, begin).

    Attributes:
        number, generation: of the inode.
        begin: tid of the creation, TID_BEFORE_LOG where the instance is older than the journal.
        end: tid of the deletion, TID_ON_DISK where the instance still exists.
        known: tid of its first state in the journal, TID_ON_DISK for none.
        is_directory: True for directories.
        turn: row of the instance of each transition; -1 for the states of empty slots.
    """

    number: Int64s
    generation: Int64s
    begin: Int64s
    end: Int64s
    known: Int64s
    is_directory: Bools
    turn: Int64s

    def __len__(self) -> int:
        return len(self.number)

    @cached_property
    def _index(self) -> AsOfIndex:
        return AsOfIndex(self.number, self.begin)

    def at(self, numbers: Int64s, orders: Int64s) -> Rows:
        """The newest instance of each number that began at or before its tid, else -1."""
        return self._index.rows(numbers, orders)

    def during(self, numbers: Int64s, first: Int64s, last: Int64s) -> tuple[Rows, Rows]:
        """(row, instance) of every instance that each number had from `first` to `last`."""
        low, high = self.at(numbers, first), self.at(numbers, last)
        starts = np.searchsorted(self.number, numbers)
        exists = starts < len(self)
        exists[exists] = self.number[starts[exists]] == numbers[exists]
        low = np.where(low < 0, starts, low)
        count = np.where(exists & (high >= 0), np.maximum(high - low + 1, 0), 0)
        row, step = expand(count)
        life = low[row] + step
        end = self.end[life]
        existed = (end > first[row]) | (end == TID_ON_DISK) | (self.begin[life] > first[row])
        return row[existed], life[existed]


def instances_from_transitions(
    turns: StatusTransitions, directories: tuple[Int64s, Int64s]
) -> TimelineInstances:
    """Instances from transitions, and from live directories without a state in the journal.

    Args:
        turns: transitions, by (number, order).
        directories: inode numbers and generations of these directories.
    """
    begins = _starts_instance(turns)
    life = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    life[turns.status == InodeStatus.EMPTY] = -1
    begin = np.where(turns.created_here[first], turns.order[first], TID_BEFORE_LOG)
    end = np.full(len(first), TID_ON_DISK)
    freed = np.flatnonzero((turns.status == InodeStatus.FREED) & (life >= 0))[::-1]
    end[life[freed]] = turns.order[freed]
    emptied = np.flatnonzero((turns.status == InodeStatus.EMPTY) & ~turns.first_seen)
    _end_emptied(end, emptied, turns, life)
    following = np.flatnonzero(~turns.first_seen[first])
    end[following - 1] = np.minimum(end[following - 1], turns.order[first[following]])
    extra = len(directories[0])
    number = np.concatenate([turns.number[first], directories[0]])
    sort = np.argsort(number, kind="stable")
    place = np.empty(len(sort), np.int64)
    place[sort] = np.arange(len(sort))
    full = np.full(extra, TID_ON_DISK)
    return TimelineInstances(
        number[sort],
        np.concatenate([turns.generation[first], directories[1]])[sort],
        np.concatenate([begin, np.full(extra, TID_BEFORE_LOG)])[sort],
        np.concatenate([end, full])[sort],
        np.concatenate([turns.order[first], full])[sort],
        np.concatenate([turns.is_directory[first], np.ones(extra, bool)])[sort],
        np.where(life >= 0, place[np.maximum(life, 0)], -1),
    )


def _starts_instance(turns: StatusTransitions) -> Bools:
    """Per transition (bool): True where an instance begins or is first known."""
    begins = turns.first_seen.copy()
    other = np.zeros(len(turns), bool)
    other[1:] = turns.generation[1:] != turns.generation[:-1]
    begins |= other & (turns.status > InodeStatus.EMPTY)
    after_empty = np.zeros(len(turns), bool)
    after_empty[1:] = turns.status[:-1] == InodeStatus.EMPTY
    return begins | (after_empty & (turns.status > InodeStatus.EMPTY))


def _end_emptied(end: Int64s, emptied: Rows, turns: StatusTransitions, life: Int64s) -> None:
    """Set the end of instances whose slot was emptied before they were freed."""
    former = life[emptied - 1]
    known = (former >= 0) & (end[former] == TID_ON_DISK)
    end[former[known]] = turns.order[emptied[known]]
