"""First instances: inodes whose number was not used before.

The kernel gives a new inode the lowest free number of its block group. Numbers above a free one
were therefore never allocated: in one group, the first instance of each number is at least as old
as the inodes with higher numbers. An inode younger than one of these has a reused number.
Source: kernel fs/ext4/ialloc.c, `__ext4_new_inode`, `find_inode_bit`.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.history.history import History


def is_first_instance(history: History, instance: Int64s) -> Bools:
    """True where the evidence does not show that the inode number was used before.

    If all inodes of a range of numbers were freed and reused, this test cannot detect it. Inodes
    of 128 bytes have no creation time and contribute nothing.

    Args:
        history: holds the instances.
        instance: int64 (n,), instances to test.
    """
    if not len(instance):  # then no inode table is read
        return np.ones(0, bool)
    superblock = history.fs.superblock
    table = history.states.table
    numbers, times = [table.number], [table.crtime]
    for chunk in history.fs.inode_batches():
        numbers.append(chunk.number)
        times.append(np.where(chunk.mode != 0, chunk.crtime, 0))
    number, time = np.concatenate(numbers), np.concatenate(times)
    known = time > 0
    number, time = number[known], time[known]
    order = np.argsort(number, kind="stable")
    number, time = number[order], time[order]
    if not len(number):
        return np.ones(len(instance), bool)
    group = (number - 1) // superblock.inodes_per_group
    ages, rank = np.unique(time, return_inverse=True)
    key = group * len(ages) + rank  # lower in each group than in later groups
    oldest = ages[np.minimum.accumulate(key[::-1])[::-1] % len(ages)]
    mine = history.number[instance]
    behind = np.searchsorted(number, mine, side="right")
    place = np.minimum(behind, len(number) - 1)
    others = (behind < len(number)) & (group[place] == (mine - 1) // superblock.inodes_per_group)
    first: Bools = ~others | (creation_times(history)[instance] <= oldest[place])
    return first


def creation_times(history: History) -> Int64s:
    """Per instance: creation time (ns); 0 if unknown."""
    return history.states.table.crtime[history.last_rows]
