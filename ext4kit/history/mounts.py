"""The mount count during each transaction of a journal."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.history.journal_gaps import MountCounts, find_journal_gaps
from ext4kit.journal import BlockHistory

UNKNOWN = -1


def find_mounts(history: BlockHistory, block_size: int) -> Int64s:
    """`s_mnt_count` during each transaction of a journal.

    It is read from the copies of the superblock and does not change between two journal gaps. For a
    session without a copy it follows from the sessions before and after it, if each gap between
    these covers exactly one mount.

    Args:
        history: block copies of the journal.
        block_size: block size of the file system, bytes.

    Returns:
        int64, one per row of `log.transactions`; UNKNOWN where the evidence does not show it.
    """
    known = history.log.transactions
    if not len(known):
        return np.zeros(0, np.int64)
    session = known.session_of(known.order)
    mounts = MountCounts(history, block_size)
    row = known.row_of(mounts.tid)
    of_copy, counts = session[row[row >= 0]], mounts.counts(np.flatnonzero(row >= 0))
    least = np.full(session[-1] + 1, np.iinfo(np.int64).max)
    most = np.full(session[-1] + 1, UNKNOWN)
    np.minimum.at(least, of_copy, counts)
    np.maximum.at(most, of_copy, counts)
    count = np.where(least == most, most, UNKNOWN)
    known_sessions = np.flatnonzero(count != UNKNOWN)
    lost = np.cumsum(np.append(0, find_journal_gaps(history.log).transactions_lost))
    for first, end in pairwise(known_sessions.tolist()):
        if lost[first] == lost[end] and count[end] - count[first] == end - first:
            count[first:end] = count[first] + np.arange(end - first)
    mount: Int64s = count[session]
    return mount
