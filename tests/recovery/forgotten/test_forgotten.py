"""What comes back when the log has forgotten, held against what the freed blocks still are.

The small variant of each recipe is for every run, the full size for the long one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_images import Built, build
from sample_images.recipes.forgotten import RECIPES
from sample_images.recipes.leftovers import Leftovers, judge_leftovers
from sample_images.recipes.truth import load
from tests.conftest import Cli, Images

LEAST = {
    "forgotten_part": 0.99,
    "forgotten_leaves": 0.9,
    "forgotten_leaves_plain": 0.9,
    "forgotten_real": 0.8,
}
USUAL = 0.95  # texts, logs and small files of which the log has nothing
FEW, LESS = 100, 0.05  # among few files those weigh more that were made to end at a border
EXACT_CARVED = 0.9
TREES = ("forgotten_tree", "forgotten_tree_plain")
JOINED = 0.5  # of a tree; it is more where the kernel wrote it in one go
MISJOINED = 0.01
IN_AN_INODE = 4  # extents; with more there are leaves
SCENES = [
    pytest.param((recipe.name, small), id=f"{recipe.name}-{'small' if small else 'full'}",
                 marks=[pytest.mark.kernel] + ([] if small else [pytest.mark.slow]))
    for recipe in RECIPES
    for small in (True, False)
]  # fmt: skip


@pytest.fixture(scope="module")
def small(needs_kernel: None, image_folder: Path) -> Images:
    """Give the image of a recipe in its small variant, made once."""

    def give(name: str) -> Built:
        folder = image_folder / "small"
        image = Built(folder / f"{name}.img", folder / f"{name}.truth.json")
        return image if image.truth.exists() else build(name, folder, small=True)

    return give


@pytest.fixture(scope="module", params=SCENES)
def came(
    request: pytest.FixtureRequest,
    ext4kit: Cli,
    small: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Leftovers:
    """Recover one scene by the command line and judge it."""
    name, is_small = request.param
    sample = small(name) if is_small else request.getfixturevalue("built")(name)
    out = tmp_path_factory.mktemp("came") / "out"
    done = ext4kit("recover", sample.image, "-o", out)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    return judge_leftovers(sample.image, load(sample.truth), out)


def test_files_whose_blocks_hold_their_bytes_come_back_bit_for_bit(came: Leftovers) -> None:
    assert came.holding > 0
    missing = [(one.path, one.size, one.blocks[:3]) for one in came.missing]
    least = LEAST.get(came.name, USUAL) - (LESS if came.holding < FEW else 0)
    assert came.exact >= least * came.holding, missing


def test_all_files_that_had_extent_leaves_come_back(came: Leftovers) -> None:
    if came.name in ("forgotten_leaves", "forgotten_leaves_plain"):
        missing = [one for one in came.missing if len(one.blocks) > IN_AN_INODE]
        assert [(one.path, one.size) for one in missing] == []


def test_every_name_with_an_entry_left_is_given(came: Leftovers) -> None:
    assert [(one.inode, one.path) for one in came.nameless] == []


def test_every_path_with_its_entries_left_is_given(came: Leftovers) -> None:
    assert came.paths_given == came.paths


def test_nothing_graded_intact_is_another_thing(came: Leftovers) -> None:
    assert [(one.life, one.file) for one in came.intact_wrong] == []


def test_what_is_graded_carved_is_a_file_as_a_rule(came: Leftovers) -> None:
    assert came.carved_exact >= EXACT_CARVED * came.carved


def test_order_joins_contents_to_their_own_inodes(came: Leftovers) -> None:
    assert len(came.misjoined) <= MISJOINED * came.joined
    assert len(came.misnamed) <= MISJOINED * came.exact


def test_most_files_of_a_tree_that_was_removed_whole_get_their_names(came: Leftovers) -> None:
    if came.name in TREES:
        assert came.named >= JOINED * came.holding


def test_no_block_is_given_back_twice(came: Leftovers) -> None:
    assert (came.twice, came.claimed_twice) == (0, 0)


def test_no_living_file_comes_back(came: Leftovers) -> None:
    assert [(one.life, one.file) for one in came.live] == []
