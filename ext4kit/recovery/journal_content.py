"""Journaled data (data=journal): the tagged copies that hold the content of candidates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.journal import Log
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.recovery.block_uses import BlockUses
from ext4kit.recovery.candidates import Candidates

ContentCopies = Mapping[int, tuple[Int64s, Int64s]]
"""Per candidate that has any: (blocks that ascend, where in the log the copy of each is)."""


class TaggedContentBlocks(JournalOverlay):
    """The blocks of one file, of which journaled data are read from the journal.

    Args:
        base: reader of the other blocks.
        log: the journal.
        blocks: (n,), ascending; copies: (n,), the journal copy of each block.
    """

    def __init__(self, base: BlockReader, log: Log, blocks: Int64s, copies: Int64s) -> None:
        super().__init__(base, log)
        self._blocks, self._copies = blocks, copies

    def copies_of(self, blocks: Int64s) -> Int64s:
        """The journal copy of each block, -1 for none."""
        return values_at(self._copies, SortedIndex(self._blocks).rows(blocks))


def find_tagged_copies(
    history: History, candidates: Candidates, runs: Runs, uses: BlockUses, freed_tid: Int64s
) -> ContentCopies:
    """Find the newest journal copy of each content block.

    A copy belongs to the file if the file owned the block in that transaction. Data are journaled
    beginning with the transaction that allocates the block.

    Args:
        history: the history with the copies.
        candidates: the candidates.
        runs: blocks of the candidates up to their sizes.
        uses: recorded block uses.
        freed_tid: per candidate, tid after which its blocks may be reused.

    Returns:
        Candidate -> (blocks, rows of the tags of the journal).
    """
    copies = history.copies
    if copies is None or not len(runs):
        return {}
    states = history.states
    ones = np.ones(len(copies.blocks), np.int64)
    mine, tag = overlap_pairs(runs.physical, runs.length, copies.blocks, ones)
    candidate = runs.owner[mine]
    tid, freed = copies.tids[tag], freed_tid[candidate]
    row = candidates.state_row[candidate]
    fits = (freed == TID_NONE) | (tid <= np.where(freed == TID_ON_DISK, states.tid[row], freed))
    fits &= tid >= _owned_since(history, uses, row, copies.blocks[tag])
    candidate, tag = candidate[fits], tag[fits]
    order = np.lexsort((tag, candidate))  # tags ascend by block and then by age, but runs may not
    candidate, tag = candidate[order], tag[order]
    found: dict[int, tuple[Int64s, Int64s]] = {}
    places, starts = np.unique(candidate, return_index=True)  # sorted by candidate
    for place, tags in zip(places.tolist(), np.split(tag, starts[1:]), strict=False):
        blocks = copies.blocks[tags]
        last = ends_group(blocks)
        found[place] = (blocks[last], copies.tag_rows[tags[last]])
    return found


def _owned_since(history: History, uses: BlockUses, row: Rows, block: Int64s) -> Int64s:
    """Per (state, block): tid since which only this instance has the block as content.

    TID_ON_DISK if there is no such tid. A truncated block can return to the file as a tree block,
    or after use by other files.
    """
    states = history.states
    mine, other = overlap_pairs(block, np.ones_like(block), uses.start, uses.length)
    earlier = uses.tid[other] <= states.tid[row[mine]]
    mine, other = mine[earlier], other[earlier]
    own = uses.is_content[other] & (uses.instance[other] == states.instance[row[mine]])
    lent, since = np.full(len(row), TID_NONE), np.full(len(row), TID_ON_DISK)
    np.maximum.at(lent, mine[~own], uses.tid[other[~own]])
    own &= uses.tid[other] > lent[mine]
    np.minimum.at(since, mine[own], uses.tid[other[own]])
    return since
