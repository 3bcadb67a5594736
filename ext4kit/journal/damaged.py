"""Transactions with an unreadable or damaged block; their changes are only partly known.

The tag of an unreadable copy names its transaction. Of other unreadable log blocks only the
position is known: they follow the block before them, and may have begun or ended a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.parsers.journal import BlockType

if TYPE_CHECKING:
    from ext4kit.journal.log import Log


def find_damaged(log: Log) -> Int64s:
    """Tids (int64, ascending) of transactions with unreadable or damaged blocks.

    A transaction that was in an unreadable part of the log may be included. One that an unclean
    shutdown left without its commit block is not, if all of its blocks are readable.
    """
    tags, headers, known = log.tags, log.headers, log.transactions
    newest = np.full(log.ring.end, np.iinfo(np.int64).min)  # last tid in each log block
    np.maximum.at(newest, tags.position, tags.order)
    np.maximum.at(newest, headers.position, headers.order)
    held = np.zeros(log.ring.end, bool)
    held[tags.position[tags.valid]] = held[headers.position] = True
    row = known.row_of(tags.order)
    unread = log.reader.unreadable[tags.position]
    changed = ~tags.matches & ~held[tags.position] & known.committed[row]
    changed &= known.checksum[row] == 1
    bad = (newest[tags.position] == tags.order) & (unread | changed)
    ended = known.order <= known.order[known.committed].max(initial=-1)
    parts = [tags.order[bad], known.order[ended & (known.checksum == 0)], *_around_unreadable(log)]
    return np.unique(np.concatenate(parts))


def _around_unreadable(log: Log) -> list[Int64s]:
    """Tids of the transactions that unreadable log blocks without a tag may belong to."""
    headers, ring = log.headers, log.ring
    unread = np.flatnonzero(log.reader.unreadable[: ring.end])
    unread = unread[unread >= ring.first]
    if not len(unread) or not len(headers):
        return []
    size = ring.end - ring.first
    row = np.searchsorted(headers.position, unread)
    before, after = (row - 1) % len(headers), row % len(headers)
    distance = (unread - headers.position[before]) % size
    is_copy = (distance > 0) & (distance <= headers.tags[before])
    before, after = before[~is_copy], after[~is_copy]
    distance, unread = distance[~is_copy], unread[~is_copy]
    # The next block written is the following one, unless that is readable and of another tid.
    following = ring.wrap(headers.position[before] + headers.tags[before] + 1)
    next_to = log.reader.unreadable[following]
    order = headers.order[before[next_to]]
    ended = headers.kind[before[next_to]] == BlockType.COMMIT
    return [headers.order[after], order, order[ended] + 1]
