"""What bitmaps in the log tell of freed blocks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ext4kit.history import read_history
from ext4kit.recovery.maps.freed_blocks import find_freed_runs, runs_of_sole_freed_inode
from sample_images.recipes import syscalls
from sample_images.recipes.machine import sync
from sample_images.recipes.truth import FileTruth
from tests.recovery.sources.conftest import Scenes, Seen, blocks_of
from tests.recovery.test_traps import BLOCK, Disk, remove
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel


# Of the files, those whose blocks nobody took since. 5.10 gives out freed blocks at once: 5 of 19.
LEAST_FREE = 1.0 if HERE.log_goes_on else 0.2


def is_free(seen: Seen, one: FileTruth) -> bool:
    """Whether nobody has any block of a deleted file now."""
    blocks = np.array([block for _, block in blocks_of(one)])
    return not seen.fs.bitmaps.blocks_in_use(blocks).any()


def test_a_file_removed_alone_gets_the_blocks_that_were_freed(scene: Scenes) -> None:
    seen = scene("one_by_one")
    history = seen.history
    metadata = seen.structures.block[~seen.structures.in_journal]
    life, runs = runs_of_sole_freed_inode(history, find_freed_runs(history), metadata)
    lost = (history.last_content_row < 0) & ~history.is_allocated
    assert lost.sum() >= len(seen.truth.files) // 2
    files = {(one.inode, one.generation): one for one in seen.truth.files}
    lives = np.flatnonzero(lost).tolist()
    truths = [files[int(history.number[one]), int(history.generation[one])] for one in lives]
    # Where the kernel gave blocks of a file away again, the file gets nothing.
    free = [one for one, truth in zip(lives, truths, strict=True) if is_free(seen, truth)]
    assert len(free) >= LEAST_FREE * len(lives)
    assert life.tolist() == free
    for row, one in enumerate(life.tolist()):
        mine = runs.take(runs.owner == row)
        columns = (mine.logical.tolist(), mine.physical.tolist(), mine.length.tolist())
        blocks = {
            (logical + at, block + at)
            for logical, block, count in zip(*columns, strict=True)
            for at in range(count)
        }
        truth = files[int(history.number[one]), int(history.generation[one])]
        assert blocks == blocks_of(truth)


def test_several_files_in_one_transaction_get_nothing(scene: Scenes) -> None:
    seen = scene("descriptor_gone")
    freed = find_freed_runs(seen.history)
    assert len(freed)
    life, _ = runs_of_sole_freed_inode(seen.history, freed, np.zeros(0, np.int64))
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
    history = read_history(disk.file_system())
    freed = find_freed_runs(history)
    assert freed.length.sum() >= 18
    life, _ = runs_of_sole_freed_inode(history, freed, np.zeros(0, np.int64))
    assert len(life) == 0


@pytest.mark.parametrize("removed", [False, True], ids=["kept", "removed"])
def test_a_file_that_lost_blocks_to_a_later_one_gets_no_shorter_map(
    tmp_path: Path, removed: bool
) -> None:
    """The later one has them in the log: nothing of that says that the freed file had them not."""
    disk = Disk(tmp_path, "-t", "ext4", size=24 << 20)
    with disk.mounted() as root:
        for at in range(60):  # no table block holds "old" and another inode that changes
            (root / f"in-between-{at}").touch()
            if at == 29:
                (root / "old").write_bytes(b"\1" * 5 * BLOCK)
        number = (root / "old").stat().st_ino
    disk.forget()
    with disk.mounted() as root:
        take_all_blocks(root / "in-between-59")
        remove(root / "old")
        (root / "in-between-0").write_bytes(b"\2" * 2 * BLOCK)
        sync(root)
        if removed:
            remove(root / "in-between-0")
    history = read_history(disk.file_system())
    freed = find_freed_runs(history)
    life, runs = runs_of_sole_freed_inode(history, freed, np.zeros(0, np.int64))
    lost = np.flatnonzero((history.number == number) & (history.last_content_row < 0))
    assert len(lost) == 1
    if removed:
        assert life.tolist() == lost.tolist()
        assert runs.length.sum() == 5
    else:
        assert life.tolist() == []


def take_all_blocks(path: Path) -> None:
    """Write to a file until no block is free."""
    device = path.stat().st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").readlink().name
    Path(f"/sys/fs/ext4/{name}/reserved_clusters").write_text("0")
    handle = os.open(path, os.O_WRONLY)
    try:
        free = os.fstatvfs(handle)
        syscalls.fallocate(handle, 0, 0, free.f_bfree * free.f_frsize)
    finally:
        os.close(handle)
    sync(path.parent)
    assert os.statvfs(path).f_bfree == 0
