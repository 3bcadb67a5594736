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
        inode, generation: of the inode.
        created: tid of the creation, TID_BEFORE_LOG where the instance is older than the journal.
        freed: tid of the deletion, TID_ON_DISK where the instance still exists.
        first_seen: tid of its first state in the journal, TID_ON_DISK for none.
        is_directory: True for directories.
        of_transition: row of the instance of each transition; -1 for the states of empty slots.
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
        """The newest instance of each number that began at or before its tid, else -1."""
        return self._index.rows(numbers, orders)

    def rows_between(self, numbers: Int64s, first: Int64s, last: Int64s) -> tuple[Rows, Rows]:
        """(row, instance) of every instance that each number had from `first` to `last`."""
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
    """Instances from transitions, and from live directories without a state in the journal.

    Args:
        transitions: status changes, by (number, order).
        directories: inode numbers and generations of these directories.
    """
    begins = _starts_instance(transitions)
    instance = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    instance[transitions.status == InodeStatus.EMPTY] = -1
    begin = np.where(transitions.created_here[first], transitions.tid[first], TID_BEFORE_LOG)
    end = np.full(len(first), TID_ON_DISK)
    freed = np.flatnonzero((transitions.status == InodeStatus.FREED) & (instance >= 0))[::-1]
    end[instance[freed]] = transitions.tid[freed]
    emptied = np.flatnonzero((transitions.status == InodeStatus.EMPTY) & ~transitions.first_seen)
    _end_emptied(end, emptied, transitions, instance)
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
        np.where(instance >= 0, place[np.maximum(instance, 0)], -1),
    )


def _starts_instance(transitions: StatusTransitions) -> Bools:
    """Per transition (bool): True where an instance begins or is first known."""
    begins = transitions.first_seen.copy()
    other = np.zeros(len(transitions), bool)
    other[1:] = transitions.generation[1:] != transitions.generation[:-1]
    begins |= other & (transitions.status > InodeStatus.EMPTY)
    after_empty = np.zeros(len(transitions), bool)
    after_empty[1:] = transitions.status[:-1] == InodeStatus.EMPTY
    return begins | (after_empty & (transitions.status > InodeStatus.EMPTY))


def _end_emptied(
    end: Int64s, emptied: Rows, transitions: StatusTransitions, instance: Int64s
) -> None:
    """Set the end of instances whose slot was emptied before they were freed."""
    former = instance[emptied - 1]
    known = (former >= 0) & (end[former] == TID_ON_DISK)
    end[former[known]] = transitions.tid[emptied[known]]
