"""Maps out of extent leaves: right to the block, and attributed to the inode that had them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from ext4kit.filesystem.content import Content
from ext4kit.recovery.maps.extent_leaves import ExtentMaps, rebuild_extent_maps
from ext4kit.unallocated.metadata import EXTENTS
from tests.recovery.sources.conftest import Block, Scenes, Seen, blocks_of, look_at

pytestmark = pytest.mark.kernel

NAMES = [
    "leaves_wrapped",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("roots_taken", "no_sums_wrapped", "no_journal", "small_blocks")
    ),
]
ROOT_ENTRIES = 4  # a file with more extents had a leaf


def _blocks(found: ExtentMaps, row: int) -> set[Block]:
    runs = found.runs.take(found.runs.owner == row)
    columns = (runs.logical.tolist(), runs.physical.tolist(), runs.length.tolist())
    return {
        (logical + at, block + at)
        for logical, block, count in zip(*columns, strict=True)
        for at in range(count)
    }


def _digest(seen: Seen, found: ExtentMaps, row: int) -> str:
    runs, size = found.runs.take(found.runs.owner == row), int(found.size[row])
    return hashlib.sha256(Content(seen.fs.blocks, size, runs).read(0, size)).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_no_map_has_a_block_that_its_file_had_not(scene: Scenes, name: str) -> None:
    seen = scene(name)
    found = rebuild_extent_maps(seen.space, seen.structures, seen.owners)
    assert len(found)
    first = seen.by_first_block()
    for row in range(len(found)):
        blocks = _blocks(found, row)
        whose = first[min(blocks)[1]]
        assert blocks <= blocks_of(whose)
        if not found.damaged[row] and not found.earlier[row]:
            assert blocks == blocks_of(whose)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_with_leaves_comes_back_whole(scene: Scenes, name: str) -> None:
    seen = scene(name)
    found = rebuild_extent_maps(seen.space, seen.structures, seen.owners)
    digests = {_digest(seen, found, row) for row in range(len(found))}
    leaved = [
        one
        for one in seen.truth.files
        if len(one.blocks) > ROOT_ENTRIES and one.blocks_hold and not one.ends_in_zero
    ]
    assert leaved
    assert [one.path for one in leaved if one.sha256 not in digests] == []


def test_every_leaf_names_its_inode(scene: Scenes) -> None:
    seen = scene("leaves_wrapped")
    found = rebuild_extent_maps(seen.space, seen.structures, seen.owners)
    first = seen.by_first_block()
    whose = [first[min(_blocks(found, row))[1]] for row in range(len(found))]
    pairs = zip(found.inode.tolist(), found.generation.tolist(), strict=True)
    assert list(pairs) == [(one.inode, one.generation) for one in whose]
    assert not found.is_linked.any()


def test_a_leaf_that_only_an_old_log_copy_has_gives_the_map_too(
    scene: Scenes, tmp_path: Path
) -> None:
    """Its block was overwritten: the bytes are moved to log blocks that no descriptor names."""
    seen = scene("leaves_wrapped")
    before = rebuild_extent_maps(seen.space, seen.structures, seen.owners)
    leaves = seen.structures.of_kind(EXTENTS)
    count = min(len(leaves), len(seen.space.untagged_positions))
    image = tmp_path / "moved.img"
    shutil.copyfile(seen.image, image)
    assert seen.history.log is not None
    places = seen.history.log.reader.log_blocks[seen.space.untagged_positions[:count]]
    size = seen.fs.superblock.block_size
    with image.open("r+b") as opened:
        for block, place in zip(leaves.block[:count].tolist(), places.tolist(), strict=True):
            opened.seek(block * size)
            leaf = opened.read(size)
            opened.seek(block * size)
            opened.write(bytes(size))
            opened.seek(place * size)
            opened.write(leaf)
    again = look_at(image, seen.truth)
    after = rebuild_extent_maps(again.space, again.structures, again.owners)
    assert after.logged.any()
    for name in ("seed", "inode", "size"):
        assert np.array_equal(getattr(before, name), getattr(after, name))
    assert np.array_equal(before.runs.physical, after.runs.physical)
