"""Copies in the log whose descriptor is overwritten: of which transaction they are.

A transaction is written as descriptors, each followed by its copies, and a commit block. The log
is overwritten from its oldest end on, descriptors before the copies that they describe, so the
next block of the log's own behind such a copy is one of the same transaction (kernel
Documentation/filesystems/ext4/journal.rst).
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.journal import Log

UNKNOWN = -1


def tids_of_untagged(log: Log | None, positions: Int64s) -> Int64s:
    """The order of the transaction that each log block was written in.

    It is that of the next header behind it. Where what lies between cannot be read, another one
    may have been there, and the order is the lower one of those on both sides.

    Args:
        log: the log.
        positions: int64 (n,) log blocks that no descriptor names.

    Returns:
        int64 (n,); UNKNOWN for all when the log has no block of its own.
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
