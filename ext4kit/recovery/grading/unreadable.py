"""Files with unreadable blocks, or with possibly newer copies in damaged transactions."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import Bools
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader, unreadable_blocks
from ext4kit.history.history import History
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.journal_content import ContentCopies


def on_unreadable_media(blocks: BlockReader, runs: Runs, count: int) -> Bools:
    """Per owner of runs (bool): some of its written blocks are unreadable.

    Args:
        blocks: of the file system.
        runs: `owner` is below `count`.
        count: number of owners.
    """
    table, doubtful = unreadable_blocks(blocks), np.zeros(count, bool)
    if len(table):
        start, length = table[:, 0], table[:, 1] - table[:, 0]
        mine, _ = overlap_pairs(runs.physical, runs.length, start, length)
        doubtful[runs.owner[mine[~runs.unwritten[mine]]]] = True
    return doubtful


def may_have_newer_copies(history: History, found: Candidates, journaled: ContentCopies) -> Bools:
    """Per candidate (bool): a transaction between its oldest copy and its state is damaged.

    Args:
        history: of the file system.
        found: the candidates.
        journaled: (blocks, journal copies) of candidates whose content was journaled.
    """
    newer = np.zeros(len(found), bool)
    if history.log is None or not journaled:
        return newer
    places = np.fromiter(journaled, np.int64)
    order = history.log.tags.order
    oldest = np.array([order[copies].min() for _, copies in journaled.values()], np.int64)
    newer[places] = history.gaps.any_damaged(oldest, history.states.tid[found.state_row[places]])
    return newer
