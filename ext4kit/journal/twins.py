"""Transactions of a log that have the id of a newer one.

Ids ascend from mount to mount. A tool that repairs a journal can set them back (e2fsck/journal.c,
`e2fsck_journal_reset_super`). Until the log has gone round, it then has two transactions with one
id. A copy must not be taken for one of the newer transaction, nor must a commit of the older one
count for the newer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import NO_ROW, Bools, Int64s
from ext4kit.journal.ring import Ring
from ext4kit.parsers.journal import BlockType, JournalSuperblock

if TYPE_CHECKING:
    from ext4kit.journal.scan import Headers

NO_COMMIT = -1


def older_twins(headers: Headers, superblock: JournalSuperblock, ring: Ring) -> Bools:
    """True for the metadata blocks of a transaction whose id a newer one has.

    The newer transaction is the one that a recovery reads, else the one that was committed later.

    Args:
        headers: sound metadata blocks, by position.
        superblock: the journal superblock.
        ring: the log's ring.
    """
    older = np.zeros(len(headers), bool)
    if not len(headers):
        return older
    part = _transactions(headers, ring)
    count, is_commit = int(part.max()) + 1, headers.kind == BlockType.COMMIT
    time = np.full(count, NO_COMMIT)
    time[part[is_commit]] = headers.commit_seconds[is_commit].astype(np.int64)
    is_whole = np.zeros(count, bool)
    is_whole[part[headers.kind == BlockType.DESCRIPTOR]] = True
    is_whole &= time != NO_COMMIT
    first = np.unique(part, return_index=True)[1]
    ids, commits = headers.order[first], np.cumsum(is_commit) - is_commit
    distance = (headers.position[first] - superblock.start) % (ring.end - ring.first)
    ahead = (superblock.start != 0) & (ids >= superblock.sequence)  # a recovery reads it
    rank = np.lexsort((first, -np.where(ahead, 0, time), np.where(ahead, distance, 0), ids))
    newest: dict[int, int] = {}
    for one in rank.tolist():
        other = newest.setdefault(int(ids[one]), one)
        low, high = sorted((first[one], first[other]))
        if commits[high] > commits[low]:  # else damage lies between two parts of one
            certain = superblock.features.has_block_checksums
            older[part == one] = certain or bool(is_whole[one] and is_whole[other])
    return older


def _transactions(headers: Headers, ring: Ring) -> Int64s:
    """A number of the transaction of each metadata block, from 0.

    The blocks of a transaction follow each other in the ring, and its commit block is the last.
    What a newer lap overwrote of it can lie between them.
    """
    is_commit = headers.kind == BlockType.COMMIT
    starts = starts_group(headers.order)
    starts[1:] |= is_commit[:-1]
    part = np.cumsum(starts) - 1
    following = ring.wrap(headers.position + headers.tags + 1)
    row = SortedIndex(headers.position).rows(following)
    continued = (row != NO_ROW) & ~is_commit & (headers.order[row] == headers.order)
    joined = list(range(int(part[-1]) + 1))  # disjoint sets, by their lowest part
    for pair in zip(part[continued].tolist(), part[row[continued]].tolist(), strict=True):
        low, high = sorted(_lowest(joined, one) for one in pair)
        joined[high] = low
    lowest = np.array([_lowest(joined, one) for one in range(len(joined))])
    return np.unique(lowest[part], return_inverse=True)[1]


def _lowest(joined: list[int], one: int) -> int:
    """The lowest part of the set of a part; shortens the way to it."""
    while joined[one] != one:
        joined[one] = joined[joined[one]]
        one = joined[one]
    return one
