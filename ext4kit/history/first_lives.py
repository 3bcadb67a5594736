"""First lives: whose inode number nobody can have had before.

The kernel gives a new inode the lowest free number of its block group. A number behind one that
was free was therefore never given away: of inodes in one group, each first bearer is at least as
old as those behind it. An inode younger than one behind it has a number that was in use before.
Source: kernel fs/ext4/ialloc.c, `__ext4_new_inode`, `find_inode_bit`.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.history.history import History


def are_first(history: History, life: Int64s) -> Bools:
    """Per life (bool): nothing shows that its number was in use before.

    That all numbers of a stretch were freed and given away anew leaves no trace here; inodes of
    128 bytes have no time of creation and show nothing.

    Args:
        history: the lives.
        life: int64 (n,), lives.
    """
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
        return np.ones(len(life), bool)
    group = (number - 1) // superblock.inodes_per_group
    ages, rank = np.unique(time, return_inverse=True)
    key = group * len(ages) + rank  # lower in each group than in those behind it
    oldest = ages[np.minimum.accumulate(key[::-1])[::-1] % len(ages)]
    mine = history.number[life]
    behind = np.searchsorted(number, mine, side="right")
    place = np.minimum(behind, len(number) - 1)
    others = (behind < len(number)) & (group[place] == (mine - 1) // superblock.inodes_per_group)
    first: Bools = ~others | (created(history)[life] <= oldest[place])
    return first


def created(history: History) -> Int64s:
    """Per life: when it was created (ns), 0 where no state tells."""
    return history.states.table.crtime[history.last_rows]
