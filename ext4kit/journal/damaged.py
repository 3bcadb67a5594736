"""Transactions of which a part cannot be had: what they did is only known in part.

A copy that cannot be read is told by the tag that names it. Of other log blocks only their place
is known: they follow what stands before them, and may have begun or ended a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ext4kit.parsers.journal import BlockType

if TYPE_CHECKING:
    from ext4kit.journal.log import Log


def find_damaged(log: Log) -> Any:
    """Orders (int64, ascending) of transactions with blocks that are unreadable or damaged.

    One that stood where the log cannot be read at all may be among them; one that a power cut
    left without its commit block is not, as long as all of it can be read.
    """
    tags, headers, known = log.tags, log.headers, log.transactions
    newest = np.full(log.ring.end, np.iinfo(np.int64).min)  # per log block: who was there last
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


def _around_unreadable(log: Log) -> list[Any]:
    """Orders of the transactions that unreadable log blocks without a tag may have belonged to."""
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
    # What was written next stands right behind, unless a block there can be read and is another's.
    following = ring.wrap(headers.position[before] + headers.tags[before] + 1)
    next_to = log.reader.unreadable[following]
    order = headers.order[before[next_to]]
    ended = headers.kind[before[next_to]] == BlockType.COMMIT
    return [headers.order[after], order, order[ended] + 1]
