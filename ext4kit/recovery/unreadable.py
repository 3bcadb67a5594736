"""Files with blocks in bytes of the evidence that are known to be lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.filesystem.blocks import BlockReader, lost_blocks
from ext4kit.filesystem.maps import Runs
from ext4kit.recovery.intervals import overlaps

UNREADABLE = "a part of it lies in bytes that the image has lost"


def on_lost_bytes(blocks: BlockReader, runs: Runs, count: int) -> Any:
    """Per owner of runs (bool): some of its written blocks are known to be lost.

    Args:
        blocks: of the file system.
        runs: their `owner` is below `count`.
        count: of the owners.
    """
    table, doubtful = lost_blocks(blocks), np.zeros(count, bool)
    if len(table):
        start, length = table[:, 0], table[:, 1] - table[:, 0]
        mine, _ = overlaps(runs.physical, runs.length, start, length)
        doubtful[runs.owner[mine[~runs.unwritten[mine]]]] = True
    return doubtful
