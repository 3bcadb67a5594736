"""Names for contents on a disk on which two wrote at a time."""

from __future__ import annotations

import random
import threading

import pytest

import ext4kit
from ext4kit.recovery import DeletedFile, Grade, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from sample_images.recipes.documents import SUFFIXES, document
from sample_images.recipes.making import make
from sample_images.recipes.recipe import MIB, Recipe
from sample_images.recipes.stage import Stage
from sample_images.recipes.truth import Truth, load

FILES = 150  # of each writer
MOST_WRONG = 0.05  # the scheduler decides how the two take turns; 3 of 146 has been seen
LEAST = 0.3  # of the files; more where the writers did not get in each other's way


def _write(stage: Stage, top: str) -> None:
    chance = random.Random(top)
    stage.mkdir(top)
    for number in range(FILES):
        path = stage.path(f"{top}/{number:03d}-{chance.getrandbits(20):x}{chance.choice(SUFFIXES)}")
        path.write_bytes(document(path.name, chance.randint(1, 30_000)))


def _two_writers(stage: Stage) -> None:
    writers = [threading.Thread(target=_write, args=(stage, top)) for top in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stage.remount()
    stage.remove_tree("one")


@pytest.fixture(scope="module")
def told(
    needs_kernel: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[DeletedFile], Truth]:
    """What is found on such a disk without a journal, and the truth."""
    options = ("-t", "ext4", "-O", "^has_journal", "-N", "1024")
    recipe = Recipe("two_writers", "two at a time", _two_writers, options, 48 * MIB)
    built = make(recipe, tmp_path_factory.mktemp("two"))
    fs = ext4kit.open(built.image).volume().filesystem()
    found = [one for one in find_deleted(fs, sources=ALL_SOURCES) if one.grade is Grade.CARVED]
    return [one for one in found if one.inode is not None], load(built.truth)


@pytest.mark.kernel
def test_of_two_writers_files_get_their_own_names(told: tuple[list[DeletedFile], Truth]) -> None:
    found, truth = told
    places = {one.inode: one.blocks[0][1] for one in truth.files if one.blocks}
    right = [one for one in found if one.inode and places.get(one.inode.number) == one.first_block]
    assert len(found) - len(right) <= MOST_WRONG * len(found)
    assert len(right) >= LEAST * FILES


@pytest.mark.kernel
def test_a_record_says_what_speaks_for_it(told: tuple[list[DeletedFile], Truth]) -> None:
    maps = [one.sources["map"] for one in told[0]]
    assert all("position" in basis for basis in maps)
    assert any("name matches content type" in basis for basis in maps)
