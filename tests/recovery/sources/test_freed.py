"""What bitmaps in the log tell of freed blocks."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.recovery.sources.freed import find_freed, sole_owners
from tests.recovery.sources.conftest import Scenes, blocks_of

pytestmark = pytest.mark.kernel


def test_a_file_removed_alone_gets_the_blocks_that_were_freed(scene: Scenes) -> None:
    seen = scene("one_by_one")
    past = seen.past
    metadata = seen.structures.block[~seen.structures.in_log]
    life, runs = sole_owners(past, find_freed(past), metadata)
    lost = (past.last_whole < 0) & ~past.alive_now
    assert lost.sum() >= len(seen.truth.files) // 2
    assert set(life.tolist()) == set(np.flatnonzero(lost).tolist())
    files = {(one.inode, one.generation): one for one in seen.truth.files}
    for row, one in enumerate(life.tolist()):
        mine = runs.take(runs.owner == row)
        columns = (mine.logical.tolist(), mine.physical.tolist(), mine.length.tolist())
        blocks = {
            (logical + at, block + at)
            for logical, block, count in zip(*columns, strict=True)
            for at in range(count)
        }
        truth = files[int(past.number[one]), int(past.generation[one])]
        assert blocks == blocks_of(truth)


def test_several_files_in_one_transaction_get_nothing(scene: Scenes) -> None:
    seen = scene("descriptor_gone")
    freed = find_freed(seen.past)
    assert len(freed)
    life, _ = sole_owners(seen.past, freed, np.zeros(0, np.int64))
    assert len(life) == 0
