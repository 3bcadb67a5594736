"""The transactions of untagged copies, whose descriptor blocks have been overwritten.

A transaction is written as descriptor blocks, each followed by its copies, and a commit block. The
oldest part of the journal is overwritten first, so that a descriptor block is overwritten before
the copies that it describes. The next jbd2 block after an untagged copy therefore belongs to the
same transaction (kernel Documentation/filesystems/ext4/journal.rst).
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.journal import Log

UNKNOWN = -1


def tids_of_untagged(log: Log | None, positions: Int64s) -> Int64s:
    """Tid of the transaction that wrote each journal block.

    It is the tid of the next jbd2 header after the block. If unreadable blocks in between may hide
    another header, the lower tid of the headers before and after is returned.

    Args:
        log: the journal.
        positions: int64 (n,), journal blocks that no descriptor block names.

    Returns:
        int64 (n,); UNKNOWN for all if the journal has no header.
    """
    if log is None or not len(log.headers):
        return np.full(len(positions), UNKNOWN)
    headers = log.headers
    following = np.searchsorted(headers.position, positions)
    order = headers.order[following % len(headers)]
    unread = np.flatnonzero(log.reader.unreadable)
    end = np.append(headers.position, log.ring.end)[following]
    hidden = np.searchsorted(unread, end) > np.searchsorted(unread, positions)
    return np.where(hidden, np.minimum(order, headers.order[following - 1]), order)
