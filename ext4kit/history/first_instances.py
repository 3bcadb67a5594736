"""First instances: inodes whose number was not used before.

The kernel gives a new inode the lowest free number of its block group. A number is therefore used
for the first time only when all lower numbers of the group are in use. Within a group, the first
instance of each number is at least as old as every inode with a higher number. An inode that is
younger than an inode with a higher number has a reused number. Source: kernel fs/ext4/ialloc.c,
`__ext4_new_inode`, `find_inode_bit`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.history.history import History


def is_first_instance(history: History, instance: Int64s) -> Bools:
    """True where the evidence does not show that the inode number was used before.

    The test cannot detect that all inodes of a range of numbers were freed and reused. Inodes of
    128 bytes have no creation time and are not used as evidence.

    Args:
        history: history with the instances.
        instance: int64 (n,), instances to test.
    """
    if not len(instance):  # without creation times, no inode table is read
        return np.ones(0, bool)
    per_group = history.fs.superblock.inodes_per_group
    logged, mine = history.states.table, history.number[instance]
    order = np.argsort(logged.number, kind="stable")
    in_log = _oldest_behind(logged.number[order], logged.crtime[order], per_group, mine)
    on_disk = _oldest_behind(*_creations_on_disk(history), per_group, mine)
    first: Bools = creation_times(history)[instance] <= np.minimum(in_log, on_disk)
    return first


def _creations_on_disk(history: History) -> tuple[Int64s, Int64s]:
    """(inode number, creation time in ns) of the inodes on disk, by number."""
    numbers, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for chunk in history.fs.inode_batches():
        used = chunk.mode != 0
        numbers.append(chunk.number[used])
        times.append(chunk.crtime[used])
    return np.concatenate(numbers), np.concatenate(times)


def _oldest_behind(number: Int64s, time: Int64s, per_group: int, mine: Int64s) -> Int64s:
    """Per number in `mine`: earliest creation time of the higher numbers of its block group.

    The maximum of int64 if there is none.

    Args:
        number: int64 (n,), sorted.
        time: int64 (n,), 0 if unknown.
        per_group: inodes per block group.
        mine: int64 (m,).
    """
    known = time > 0
    number, oldest = number[known], time[known]
    group = (number - 1) // per_group
    for first, end in pairwise([*np.flatnonzero(starts_group(group)).tolist(), len(group)]):
        oldest[first:end] = np.minimum.accumulate(oldest[first:end][::-1])[::-1]
    place = np.searchsorted(number, mine, side="right")
    found = np.full(len(mine), np.iinfo(np.int64).max)
    others = np.flatnonzero(place < len(number))
    others = others[group[place[others]] == (mine[others] - 1) // per_group]
    found[others] = oldest[place[others]]
    return found


def creation_times(history: History) -> Int64s:
    """Per instance: creation time (ns); 0 if unknown."""
    return history.states.table.crtime[history.last_rows]
