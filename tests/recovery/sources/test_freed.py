"""What bitmaps in the log tell of freed blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ext4kit.past import Past
from ext4kit.recovery.sources.freed import find_freed, sole_owners
from sample_images.recipes.machine import sync
from tests.recovery.sources.conftest import Scenes, blocks_of
from tests.recovery.test_traps import Disk

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


def test_a_file_made_in_the_transaction_in_which_it_went_gets_nothing_of_others(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        for at in range(60):  # no table block holds "old" and another inode that changes
            (root / f"in-between-{at}").touch()
            if at == 29:
                (root / "old").write_bytes(b"the blocks that are freed" * 3000)
        number = (root / "old").stat().st_ino
    disk.forget()
    with disk.mounted() as root:
        (root / "other").write_bytes(b"for a copy of the bitmap" * 3000)
        sync(root)
        (root / "old").unlink()
        (root / "passing").write_bytes(b"takes the inode")
        assert (root / "passing").stat().st_ino == number
        (root / "passing").unlink()
        sync(root)
    past = Past(disk.file_system())
    freed = find_freed(past)
    assert freed.length.sum() >= 18
    life, _ = sole_owners(past, freed, np.zeros(0, np.int64))
    assert len(life) == 0
