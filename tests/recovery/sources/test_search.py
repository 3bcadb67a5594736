"""The whole search for blocks that name their owner: no map and no name of it is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ext4kit.history.paths import PathHistory
from ext4kit.recovery.artifacts import Artifacts, derive_artifacts, scan_unallocated
from ext4kit.recovery.maps.rebuilt import RebuiltMaps, owners_without_overlap
from ext4kit.recovery.names import FoundEntryPaths
from ext4kit.recovery.provenance import OLD_COPY
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.unallocated.metadata import DIRECTORY
from sample_images import packed_names, unpack
from sample_images.recipes.truth import Truth
from tests.recovery.sources.conftest import Block, Scenes, Seen, blocks_of, look_at

NAMES = [
    "leaves_wrapped",
    "descriptor_gone",
    "one_by_one",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("roots_taken", "no_sums_wrapped", "no_journal", "small_blocks")
    ),
]


def _found(seen: Seen) -> Artifacts:
    sources = {SearchSource.BLOCKS}
    return derive_artifacts(seen.history, scan_unallocated(seen.history, sources), sources)


def _paths(seen: Seen) -> FoundEntryPaths:
    found = _found(seen)
    return FoundEntryPaths(found.history, PathHistory(found.history), found.entries)


def _blocks(maps: RebuiltMaps, row: int) -> set[Block]:
    runs = maps.runs.take(maps.runs.owner == row)
    columns = (runs.logical.tolist(), runs.physical.tolist(), runs.length.tolist())
    return {
        (logical + at, block + at)
        for logical, block, count in zip(*columns, strict=True)
        for at in range(count)
    }


@pytest.mark.kernel
@pytest.mark.parametrize("name", NAMES)
def test_maps_are_right_and_what_still_holds_is_free(scene: Scenes, name: str) -> None:
    seen = scene(name)
    found = _found(seen)
    maps, history = found.maps, found.history
    assert len(maps)
    assert owners_without_overlap(maps.runs, len(maps)).all()
    first = seen.by_first_block()
    doubtful = np.any([part for part, _ in maps.reasons], axis=0)
    assert not doubtful.all()
    # Where others took the inodes, what is left of most lives is a map without a number.
    assert (maps.instance >= 0).sum() > (0 if name == "roots_taken" else len(maps) // 2)
    for row in range(len(maps)):
        blocks = _blocks(maps, row)
        whose = first[min(blocks)[1]]
        assert blocks <= blocks_of(whose)
        assert doubtful[row] or blocks == blocks_of(whose)
        used = seen.fs.bitmaps.blocks_in_use(np.array(sorted(blocks))[:, 1])
        assert not used.any() or not whose.blocks_hold
        if maps.instance[row] >= 0:
            life = maps.instance[row]
            assert (history.number[life], history.generation[life]) == (
                whose.inode,
                whose.generation,
            )


@pytest.mark.kernel
def test_states_without_a_descriptor_make_the_past_wider(scene: Scenes) -> None:
    seen = scene("descriptor_gone")
    history = _found(seen).history
    whole = history.last_content_row >= 0
    described = set(
        zip(history.number[whole].tolist(), history.generation[whole].tolist(), strict=True)
    )
    shown = [one for one in seen.truth.files if one.inode_undescribed or one.inode_known == "log"]
    assert [one.path for one in shown if (one.inode, one.generation) not in described] == []
    living = {(one.inode, one.generation) for one in seen.truth.live}
    alive = history.is_allocated
    assert living >= set(
        pair
        for pair, kind in zip(
            zip(history.number[alive].tolist(), history.generation[alive].tolist(), strict=True),
            history.states.table.mode[history.last_content_row[alive]] >> 12,
            strict=True,
        )
        if kind == 8
    )


@pytest.mark.kernel
def test_directory_blocks_in_undescribed_log_blocks_give_the_same_names(
    scene: Scenes, tmp_path: Path
) -> None:
    """The freed blocks are overwritten; the log has their bytes without a descriptor."""
    seen = scene("leaves_wrapped")
    before = _paths(seen)
    folders = seen.structures.of_kind(DIRECTORY)
    assert seen.history.log is not None
    places = seen.history.log.reader.log_blocks[seen.space.untagged_positions]
    count = min(len(folders), len(places))
    image, size = tmp_path / "moved.img", seen.fs.superblock.block_size
    shutil.copyfile(seen.image, image)
    with image.open("r+b") as opened:
        for block, place in zip(folders.block[:count].tolist(), places.tolist(), strict=False):
            opened.seek(block * size)
            data = opened.read(size)
            opened.seek(block * size)
            opened.write(bytes(size))
            opened.seek(place * size)
            opened.write(data)
    again = look_at(image, seen.truth)
    after = _paths(again)
    lives = range(seen.history.instance_count)
    both = [
        (one, after.name_of(life)) for life in lives if (one := before.name_of(life)) is not None
    ]
    assert both
    assert all(
        two and (one.name, one.partial_path) == (two.name, two.partial_path) for one, two in both
    )
    assert any(two and two.source == OLD_COPY for _, two in both)


@pytest.mark.parametrize("name", packed_names())
def test_nothing_is_found_where_the_log_has_it_all(name: str, tmp_path: Path) -> None:
    """Each file of these images has a whole state in the log."""
    seen = look_at(unpack(name, tmp_path).image, Truth(name))
    maps = _found(seen).maps
    assert not (maps.instance >= 0).any()
