"""Transactions of a log that have the same id as a newer transaction.

Ids ascend from mount to mount, but a tool that repairs a journal can set them back
(e2fsck/journal.c, `e2fsck_journal_reset_super`). Until the log has been overwritten once, it can
then hold two transactions with the same id. Copies and commit blocks of the older transaction must
not be attributed to the newer one. Without block checksums, the two are distinguished only if both
are complete, because a block with another id may be damage.
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
    from ext4kit.journal.tables import Headers

NO_COMMIT = -1


def older_twins(headers: Headers, superblock: JournalSuperblock, ring: Ring) -> Bools:
    """True for metadata blocks of a transaction that has the same id as a newer transaction.

    The newer transaction is the one that has checksums exactly if the log has them now. If both or
    neither have, it is the one that a recovery reads first, or else the one that was committed
    later.

    Args:
        headers: sound metadata blocks, by position.
        superblock: the journal superblock.
        ring: the log's ring.
    """
    if not len(headers):
        return np.zeros(0, bool)
    part = transaction_parts(headers, ring)
    count, is_commit = int(part.max()) + 1, headers.kind == BlockType.COMMIT
    seconds, fraction = np.full(count, NO_COMMIT), np.zeros(count, np.int64)
    seconds[part[is_commit]] = headers.commit_seconds[is_commit].astype(np.int64)
    fraction[part[is_commit]] = headers.commit_nanoseconds[is_commit]
    is_ended, has_copies = seconds != NO_COMMIT, np.zeros(count, bool)
    has_copies[part[headers.kind == BlockType.DESCRIPTOR]] = True
    has_checksums = np.ones(count, bool)
    has_checksums[part[~headers.has_checksum]] = False
    is_certain = (is_ended & has_copies) | has_checksums
    first = np.unique(part, return_index=True)[1]
    ids, commits = headers.order[first], np.cumsum(is_commit) - is_commit  # number before each
    last = np.zeros(count, np.int64)
    np.maximum.at(last, part, np.arange(len(headers)))
    # A part without a commit block is followed by an older lap, unless its rest is damaged or was
    # overwritten by a newer lap.
    is_apart = is_ended | (headers.order[(last + 1) % len(headers)] < ids)
    distance = (headers.position[first] - superblock.start) % (ring.end - ring.first)
    ahead = (superblock.start != 0) & (ids >= superblock.sequence)  # a recovery reads these
    later_first = [-np.where(ahead, 0, column) for column in (fraction, seconds)]
    is_former = has_checksums != superblock.features.has_block_checksums
    rank = np.lexsort((first, *later_first, np.where(ahead, distance, 0), is_former, ids))
    known, former = (is_apart & is_certain).tolist(), is_former.tolist()
    begins, before = first.tolist(), commits[first].tolist()
    newest: dict[int, int] = {}
    older = np.zeros(count, bool)
    for one, tid in zip(rank.tolist(), ids[rank].tolist(), strict=True):
        other = newest.setdefault(tid, one)
        low, high = sorted((one, other), key=begins.__getitem__)
        # two parts with no commit between them are one transaction, with damage in the middle
        apart = before[high] > before[low]
        older[one] = apart and ((known[one] and known[other]) or former[one] != former[other])
    return older[part]


def transaction_parts(headers: Headers, ring: Ring) -> Int64s:
    """Number of the transaction that each metadata block belongs to, from 0.

    The blocks of a transaction follow each other in the ring, and its commit block is the last one.
    Blocks of a newer lap can be between them.
    """
    is_commit = headers.kind == BlockType.COMMIT
    starts = starts_group(headers.order)
    starts[1:] |= is_commit[:-1]
    part = np.cumsum(starts) - 1
    following = ring.wrap(headers.position + headers.tags + 1)
    row = SortedIndex(headers.position).rows(following)
    continued = (row != NO_ROW) & ~is_commit & (headers.order[row] == headers.order)
    joined = list(range(int(part[-1]) + 1))  # disjoint sets of parts, each named by its lowest part
    for pair in zip(part[continued].tolist(), part[row[continued]].tolist(), strict=True):
        low, high = sorted(_lowest(joined, one) for one in pair)
        joined[high] = low
    lowest = np.array([_lowest(joined, one) for one in range(len(joined))])
    return np.unique(lowest[part], return_inverse=True)[1]


def _lowest(joined: list[int], one: int) -> int:
    """The lowest part of the set that contains a part; shortens the path to it (union-find)."""
    while joined[one] != one:
        joined[one] = joined[joined[one]]
        one = joined[one]
    return one
