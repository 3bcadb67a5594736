"""States of inodes in log blocks whose descriptor is overwritten."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.parsers.inode import inode_checksums_ok
from ext4kit.recovery.older_states import find_older_states
from tests.recovery.sources.conftest import Scenes, blocks_of

pytestmark = pytest.mark.kernel


def test_every_inode_that_an_undescribed_block_shows_is_found_with_its_map(scene: Scenes) -> None:
    seen = scene("descriptor_gone")
    wanted = {(one.inode, one.generation): one for one in seen.truth.files if one.inode_undescribed}
    assert len(wanted) > len(seen.truth.files) // 2
    missing = dict(wanted)
    for table, _ in find_older_states(seen.space, seen.structures):
        assert inode_checksums_ok(table, seen.fs.superblock).all()
        runs = seen.fs.map_table_silently(table).runs
        pairs = zip(table.number.tolist(), table.generation.tolist(), strict=True)
        for row, pair in enumerate(pairs):
            one = wanted.get(pair)
            if one is None or not table.links_count[row]:
                continue
            missing.pop(pair, None)
            assert table.size[row] == one.size
            assert table.uid[row] == one.uid
            mine = runs.take(runs.owner == row)
            columns = (mine.logical.tolist(), mine.physical.tolist(), mine.length.tolist())
            assert blocks_of(one) == {
                (logical + at, block + at)
                for logical, block, count in zip(*columns, strict=True)
                for at in range(count)
            }
    assert [one.path for one in missing.values()] == []


def test_they_are_older_than_what_the_log_describes(scene: Scenes) -> None:
    seen = scene("descriptor_gone")
    orders = np.concatenate([order for _, order in find_older_states(seen.space, seen.structures)])
    assert seen.history.log is not None
    assert (orders <= seen.history.log.tags.order.min()).all()
    assert np.isin(orders, list(seen.history.commit_times)).all()


@pytest.mark.slow
def test_without_checksums_the_generations_on_disk_tell_the_numbers(scene: Scenes) -> None:
    seen = scene("no_sums_wrapped")
    states = find_older_states(seen.space, seen.structures)
    assert states
    for table, _ in states:
        disk = seen.fs.inode_table(table.number)
        assert (disk.generation == table.generation).all()
