"""Checkpointed journal copies of files not yet deleted that the disk contradicts.

An unmount checkpoints every copy to its home block. Other content there was written later,
without the journal but before the deletion: it is what a reader of the file got. Causes are a
mount without `data=journal` and two kernel buffers of one block.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.history.history import History
from ext4kit.recovery.journal_content import ContentCopies

BLOCKS_AT_ONCE = 4096


def are_contradicted(
    history: History,
    journaled: ContentCopies,
    death: Int64s,
    taken: tuple[Rows, Int64s, Int64s],
) -> Bools:
    """Candidates of which the disk contradicts a copy; bool (n,).

    Args:
        history: of the file system.
        journaled: per candidate: (blocks that ascend, rows of the log's tags).
        death: per candidate: the order of its deletion.
        taken: (candidate, start, length) of blocks that others had later, whose bytes say nothing.
    """
    found = np.zeros(len(death), bool)
    if not journaled or history.log is None or history.copies is None:
        return found
    blocks, tags = (np.concatenate(part) for part in zip(*journaled.values(), strict=True))
    candidate = np.repeat(list(journaled), [len(each) for each, _ in journaled.values()])
    orders = np.zeros(len(history.log.tags), np.int64)
    orders[history.copies.tag_rows] = history.copies.tids
    kept = _came_home(history, orders[tags], death[candidate])
    owner, start, length = taken
    mine, place = overlap_pairs(start, length, blocks, np.ones(len(blocks), np.int64))
    kept[place[owner[mine] == candidate[place]]] = False
    rows = np.flatnonzero(kept)
    for at in range(0, len(rows), BLOCKS_AT_ONCE):
        some = rows[at : at + BLOCKS_AT_ONCE]
        home, readable = history.fs.fetch(blocks[some])
        other = (home != history.log.read_copies(tags[some])).any(axis=1)
        other &= readable & home.any(axis=1)  # zeros: discarded since
        found[candidate[some[other]]] = True
    return found


def _came_home(history: History, order: Int64s, death: Int64s) -> Bools:
    """Whether an unmount lies between a copy and the deletion; bool (n,)."""
    breaks = history.gaps
    before, after = breaks.tid_before[breaks.unmounted], breaks.tid_after[breaks.unmounted]
    if not len(before):
        return np.zeros(len(order), bool)
    row = np.searchsorted(before, order)
    return (row < len(before)) & (after[np.minimum(row, len(before) - 1)] <= death)
