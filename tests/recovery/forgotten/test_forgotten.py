"""What comes back when the log has forgotten, held against what the freed blocks still are.

The small variant of each recipe is for every run, the full size for the long one. The floors are
shares of what the truth of the image counts, so that the choice of the allocator does not decide.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery import Grade, find_deleted
from ext4kit.recovery.search_sources import SearchSource
from sample_images import build
from sample_images.recipes.forgotten import RECIPES
from sample_images.recipes.leftovers import Leftovers, judge_leftovers
from sample_images.recipes.score import Output, read_outputs
from sample_images.recipes.truth import FileTruth, Truth, load
from tests.conftest import Cli, Images
from tests.environment.sharing import built_once
from tests.writing_kernel import HERE, WritingKernel


@dataclass(frozen=True, slots=True)
class Floor:
    """What an image of a recipe has to hold, and what has to come of it, each as a share.

    Attributes:
        holding: files whose blocks still hold their bytes, of all deleted ones.
        names: files with an entry left, of all deleted ones.
        exact: files that come bit for bit, of those whose blocks hold them.
        wrong: outputs whose bytes no file ever had, of all outputs; the most there may be.
    """

    holding: float = 1.0
    names: float = 0.0
    exact: float = 0.95
    wrong: float = 0.02


NAMES_STAY = HERE.log_goes_on or not HERE.clears_entries
FLOORS = {
    "forgotten_documents": Floor(),
    "forgotten_no_journal": Floor(),
    # A list of blocks whose first twelve lie elsewhere takes as many others for them.
    "forgotten_ext3": Floor(exact=0.8, wrong=0.15),
    "forgotten_ext2": Floor(exact=0.9, wrong=0.1),  # many borders among few files
    "forgotten_many": Floor(),
    "forgotten_leaves": Floor(exact=0.97),
    "forgotten_leaves_plain": Floor(exact=0.97),
    "forgotten_tree": Floor(names=1.0),
    "forgotten_tree_plain": Floor(names=1.0),
    "forgotten_packages": Floor(names=1.0, wrong=0.05),  # of whatever packages this machine has
    "forgotten_unlisted": Floor(names=1.0, wrong=0.05),
    "forgotten_busy": Floor(holding=0.2, exact=0.9, wrong=0.08),  # half of the space is reused
    "forgotten_real": Floor(exact=0.8, wrong=0.1),  # of whatever files this machine has
    "forgotten_edge": Floor(names=0.25),  # the allocator decides which folders the log shows
    # The log covers the second half; one that a mount wrote over has few names.
    "forgotten_part": Floor(names=0.5 if NAMES_STAY else 0.05, exact=0.99),
}
EVERY = tuple(recipe.name for recipe in RECIPES)
LEAVES = ("forgotten_leaves", "forgotten_leaves_plain")
TREES = ("forgotten_tree", "forgotten_tree_plain")
NAMED = (*TREES, "forgotten_edge", "forgotten_part")
WITH_PATHS = ("forgotten_edge", "forgotten_part")
IN_AN_INODE = 4  # extents; with more there are leaves
JOINED = 0.5  # of a tree; it is more where the kernel wrote it in one go
MISJOINED = 0.01
A_PAIR = 2  # contents taken for each other
PATHED = 0.8  # of the contents whose path is left; at the edge of the log order has to find some
CALLED_INTACT = 0.9  # of the files whose map the log has
Scene = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Came:
    """One recovery: what was there, what was written, and the judgement on it."""

    image: Path
    truth: Truth
    outputs: list[Output]
    left: Leftovers

    @property
    def floor(self) -> Floor:
        return FLOORS[self.truth.recipe]

    @property
    def deleted(self) -> list[FileTruth]:
        return [one for one in self.truth.files if one.state == "deleted"]

    def paths_never_had(self) -> list[tuple[bytes, bytes]]:
        """(output, path) of files under a path that their inode, or their bytes, never had."""
        files = [(one.inode, one.sha256, one.path) for one in self.truth.files]
        files += [(one.inode, one.sha256, one.path) for one in self.truth.live]
        lives = {(number, path) for number, _, path in files}
        contents = {(digest, path) for _, digest, path in files}
        return [
            (one.file.encode(), one.path)
            for one in self.outputs
            if one.path is not None and one.sha256 and one.size
            if one.life is None or (one.life[0], one.path) not in lives
            if (one.sha256, one.path) not in contents
        ]


def of(*names: str) -> pytest.MarkDecorator:
    """Ask it of the recoveries of these recipes, the small ones and the full ones."""
    scenes = [
        pytest.param((name, small), id=f"{name}-{'small' if small else 'full'}",
                     marks=[] if small else [pytest.mark.slow])
        for name in names
        for small in (True, False)
    ]  # fmt: skip
    return pytest.mark.parametrize("came", scenes, indirect=True)


pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def small(needs_kernel: None) -> Images:
    """Give the image of a recipe in its small variant, made once in a run."""
    return lambda name: built_once(f"small-{name}", lambda folder: build(name, folder, small=True))


@pytest.fixture(scope="module")
def recovered(
    ext4kit: Cli, small: Images, built: Images, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Scene], Came]:
    """Recover one scene by the command line and judge it, once."""
    known: dict[Scene, Came] = {}

    def give(scene: Scene) -> Came:
        if scene not in known:
            sample = small(scene[0]) if scene[1] else built(scene[0])
            out = tmp_path_factory.mktemp("came") / "out"
            done = ext4kit("recover", sample.image, "-o", out)
            assert done.returncode in (0, 1), done.stderr
            assert "Traceback" not in done.stderr
            truth = load(sample.truth)
            left = judge_leftovers(sample.image, truth, out)
            known[scene] = Came(sample.image, truth, read_outputs(out), left)
            shutil.rmtree(out)
        return known[scene]

    return give


@pytest.fixture
def came(request: pytest.FixtureRequest, recovered: Callable[[Scene], Came]) -> Came:
    scene: Scene = request.param
    return recovered(scene)


def test_every_recipe_has_a_floor() -> None:
    assert set(FLOORS) == set(EVERY)


def needs_names(came: Came) -> None:
    """Skip where the log's head went past all of the names: its step is the kernel's choice."""
    if came.truth.recipe == "forgotten_edge" and not came.left.names:
        pytest.skip("this image's log has none of the names")


@of(*EVERY)
def test_the_image_has_what_its_recipe_is_for(came: Came) -> None:
    needs_names(came)
    assert len(came.deleted) > 5
    assert came.left.holding >= came.floor.holding * len(came.deleted)
    assert came.left.names >= came.floor.names * len(came.deleted)


@of(*EVERY)
def test_files_whose_blocks_hold_their_bytes_come_back_bit_for_bit(came: Came) -> None:
    missing = [(one.path, one.size, one.blocks[:3]) for one in came.left.missing]
    assert came.left.exact >= came.floor.exact * came.left.holding > 0, missing


@of(*EVERY)
def test_few_outputs_have_bytes_that_no_file_ever_had(came: Came) -> None:
    written = [one for one in came.outputs if one.sha256 and one.size]
    assert len(written) >= came.floor.exact * came.left.holding
    assert came.left.wrong <= came.floor.wrong * len(written)


@of(*TREES)
def test_contents_matched_by_order_stand_apart_from_those_whose_map_was_read(came: Came) -> None:
    matched = [one for one in came.outputs if one.grade == "carved" and one.life and one.file]
    assert len(matched) > JOINED * came.left.holding
    assert [one.file for one in matched if not one.file.startswith("inferred/")] == []
    others = {one.file for one in came.outputs} - {one.file for one in matched}
    assert [file for file in others if file.startswith("inferred/")] == []


@of(*LEAVES)
def test_all_files_that_had_extent_leaves_come_back(came: Came) -> None:
    leaved = [one for one in came.deleted if one.holds and len(one.blocks) > IN_AN_INODE]
    assert len(leaved) > len(came.deleted) // 2
    missing = [one for one in came.left.missing if len(one.blocks) > IN_AN_INODE]
    assert [(one.path, one.size) for one in missing] == []


def removed_names(image: Path) -> set[tuple[int | None, bytes]]:
    """(number, path) of the names that are listed beside those of the deleted files."""
    with ext4kit.open(image) as opened:
        found = find_deleted(opened.volume().filesystem(), sources=frozenset(SearchSource))
        names = found.removed_names() or ()
        return {(one.inode, one.path.lstrip(b"/")) for one in names if one.path}


@of(*NAMED)
def test_every_name_with_an_entry_left_is_given(came: Came) -> None:
    needs_names(came)
    given, left = came.left.names_given, came.left.names
    assert given == left > 0 if NAMES_STAY else given >= left / 2
    nameless = {(one.inode, one.path) for one in came.left.nameless}
    assert not nameless or not NAMES_STAY
    assert nameless <= removed_names(came.image)


@of(*WITH_PATHS)
def test_every_path_with_its_entries_left_is_given(came: Came) -> None:
    needs_names(came)
    assert came.left.paths >= came.floor.names * len(came.deleted)
    given, left = came.left.paths_given, came.left.paths
    assert given == left if NAMES_STAY else given >= left / 2


@of(*WITH_PATHS)
def test_contents_come_under_the_paths_that_are_left(came: Came) -> None:
    needs_names(came)
    holding = [one for one in came.deleted if one.holds and one.path_left]
    assert len(holding) >= came.floor.names * len(came.deleted)
    mapped = [one for one in holding if one.inode_known]  # order joins few names to the others
    assert came.left.pathed >= PATHED * len(holding if NAMES_STAY else mapped)


@of(*EVERY)
def test_no_path_is_told_that_a_file_never_had(came: Came) -> None:
    assert came.paths_never_had() == []


@of(*EVERY)
def test_nothing_graded_intact_is_another_thing(came: Came) -> None:
    assert [(one.life, one.file) for one in came.left.intact_wrong] == []


@of("forgotten_part")
def test_files_that_the_log_still_describes_are_called_intact(came: Came) -> None:
    described = {
        (one.inode, one.generation): one.sha256
        for one in came.deleted
        if one.could_be_had and one.inode_known == "log"
    }
    intact = [one for one in came.outputs if one.grade == "intact" and one.life in described]
    right = [one for one in intact if one.life and described[one.life] == one.sha256]
    assert len(right) == len(intact)
    if WritingKernel(came.truth.kernel).best is Grade.INTACT:
        assert len(described) >= len(came.deleted) // 2
        assert len(intact) >= CALLED_INTACT * len(described)


@of(*(name for name in EVERY if name not in LEAVES))
def test_what_only_its_blocks_tell_of_is_carved_and_a_file_as_a_rule(came: Came) -> None:
    lost = [
        one
        for one in came.deleted
        if one.holds and not one.inode_known and not one.inode_undescribed
    ]
    if not lost and not HERE.log_goes_on:
        pytest.skip("the journal still holds every inode")
    assert lost
    assert came.left.carved_exact >= came.floor.exact * len(lost)
    wrong = came.left.carved - came.left.carved_exact
    assert wrong <= came.floor.wrong * came.left.carved


@of(*TREES)
def test_order_joins_contents_of_a_removed_tree_to_their_own_inodes(came: Came) -> None:
    assert came.left.joined >= JOINED * came.left.holding
    assert len(came.left.misjoined) <= max(A_PAIR, MISJOINED * came.left.joined)
    assert came.left.named >= JOINED * came.left.holding


@of(*EVERY)
def test_hardly_a_content_is_under_a_name_that_it_never_had(came: Came) -> None:
    """None is, where no name is found by order."""
    wrong, joined = [(one.name, one.file) for one in came.left.misnamed], came.left.joined
    assert len(wrong) <= (joined and max(A_PAIR, MISJOINED * joined)), wrong


@of(*EVERY)
def test_no_block_is_given_back_twice(came: Came) -> None:
    assert (came.left.twice, came.left.claimed_twice) == (0, 0)


@of(*EVERY)
def test_no_living_file_comes_back(came: Came) -> None:
    assert [(one.life, one.file) for one in came.left.live] == []
