"""Transactions in which regular files were written, and whether `i_version` counted the changes.

Since Linux 6.1 ext4 counts changes of a file in `i_version`. Source: kernel fs/ext4/super.c,
`SB_I_VERSION`; fs/inode.c, `inode_update_timestamps`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.journal.transactions import Transactions
from ext4kit.parsers.inode import InodeTable
from ext4kit.units import NANOSECONDS

_TICK = NANOSECONDS  # ns; writes in one tick are counted once; small inodes store seconds
COMMIT_INTERVAL = 5 * NANOSECONDS  # default maximum age of a transaction


@dataclass(frozen=True, slots=True)
class Writes:
    """Sets of tids (int64, ascending, distinct).

    Attributes:
        written: transactions in which a linked regular file was created or written.
        counted: transactions in which `i_version` of a linked regular file increased.
        uncounted: transactions in which a linked regular file was written without an increase of
            its `i_version`.
    """

    written: Int64s
    counted: Int64s
    uncounted: Int64s

    @classmethod
    def joined(cls, parts: list[Writes]) -> Writes:
        """The union of the sets of several batches."""
        none = np.zeros(0, np.int64)
        parts = [cls(none, none, none), *parts]
        names = ("written", "counted", "uncounted")
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
        return cls(*map(np.unique, columns))


def find_writes(table: InodeTable, tid: Int64s, known: Transactions) -> Writes:
    """The writes shown by the inode states of one batch of the log.

    Args:
        table: distinct states; all states of one inode are in one batch.
        tid: int64, first transaction with each state.
        known: the transactions of the log.
    """
    rows = np.flatnonzero(table.is_regular & (table.links_count > 0))
    rows = rows[np.lexsort((tid[rows], table.number[rows]))]
    if not len(rows):
        return Writes(rows, rows, rows)
    tid, table = tid[rows], table.take(rows)
    row = known.row_of(tid)
    own, before = known.commit_time_ns[row], known.commit_time_ns[np.maximum(row - 1, 0)]
    earliest = np.where((row > 0) & (before >= 0), before, own)
    earliest = np.where((row >= 0) & (earliest >= 0), earliest, 0) - COMMIT_INTERVAL
    follows = (table.number == np.roll(table.number, 1)) & (
        table.generation == np.roll(table.generation, 1)
    )
    follows[0] = False
    steps = table.version - np.roll(table.version, 1)
    later = table.mtime - np.roll(table.mtime, 1) > _TICK
    changed = (steps > 1) | (table.mtime != np.roll(table.mtime, 1))
    for column in (table.size, table.blocks):
        changed |= column != np.roll(column, 1)
    made = (table.version > 1) & (table.crtime >= earliest)
    chosen = (
        np.where(follows, changed, table.ctime >= earliest),
        np.where(follows, steps > 0, made),
        follows & later & (steps == 0),
    )
    return Writes(*(np.unique(tid[rows]) for rows in chosen))
