"""Files with bytes, or newer copies of bytes, that the evidence is known to have lost."""

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
    """Per owner of runs (bool): some of its written blocks are known to be lost.

    Args:
        blocks: of the file system.
        runs: their `owner` is below `count`.
        count: of the owners.
    """
    table, doubtful = unreadable_blocks(blocks), np.zeros(count, bool)
    if len(table):
        start, length = table[:, 0], table[:, 1] - table[:, 0]
        mine, _ = overlap_pairs(runs.physical, runs.length, start, length)
        doubtful[runs.owner[mine[~runs.unwritten[mine]]]] = True
    return doubtful


def may_have_newer_copies(history: History, found: Candidates, journaled: ContentCopies) -> Bools:
    """Per candidate (bool): transactions behind its journaled bytes are damaged, up to its state.

    Args:
        history: what is known over time.
        found: the candidates.
        journaled: (blocks, log copies) of candidates whose content went through the log.
    """
    newer = np.zeros(len(found), bool)
    if history.log is None or not journaled:
        return newer
    places = np.fromiter(journaled, np.int64)
    order = history.log.tags.order
    oldest = np.array([order[copies].min() for _, copies in journaled.values()], np.int64)
    newer[places] = history.gaps.any_damaged(oldest, history.states.tid[found.state_row[places]])
    return newer
