"""Transactions of untagged copies, whose descriptor blocks are overwritten.

A transaction is written as descriptor blocks, each followed by its copies, and a commit block. The
journal is overwritten from its oldest end on, descriptor blocks before the copies that they
describe. The next jbd2 block after such a copy therefore belongs to the same transaction (kernel
Documentation/filesystems/ext4/journal.rst).
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.journal import Log

UNKNOWN = -1


def tids_of_untagged(log: Log | None, positions: Int64s) -> Int64s:
    """Tid of the transaction that wrote each journal block.

    It is the tid of the next jbd2 header after the block. Unreadable blocks in between may hide
    another header. The lower tid of the headers on both sides is then returned.

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
