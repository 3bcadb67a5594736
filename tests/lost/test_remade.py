"""A lost file system comes back: made anew over, or without its superblocks; the kernel made it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sample_images.recipes import machine
from sample_images.recipes.remade import REMADE, build_remade
from sample_images.recipes.score import Output, Score, read_outputs, score
from sample_images.recipes.truth import Built, FileTruth, Truth, load
from tests.conftest import Cli
from tests.environment.sharing import built_once
from tests.writing_kernel import HERE

RECIPES = [
    pytest.param(
        name, id=name, marks=[pytest.mark.kernel] + ([pytest.mark.slow] if recipe.slow else [])
    )
    for name, recipe in REMADE.items()
]
Images = Callable[[str], Built]
LEFT = 0.1  # of all files at least, where anything is left; how many is the allocator's choice
WHOLE = ("superblocks_gone", "remade_1k")  # what is left lies as the last unmount left it
CALLED_INTACT = 0.6  # the allocator decides which of them a later file could have had


@dataclass(frozen=True)
class Recovery:
    """One recovery of one image: its truth, what was written, its score."""

    truth: Truth
    outputs: list[Output]
    score: Score


@pytest.fixture(scope="session")
def remade(needs_kernel: None) -> Images:
    """Give the image of a recipe, made once in a run."""
    return lambda name: built_once(f"remade-{name}", lambda folder: build_remade(name, folder))


@pytest.fixture(scope="module", params=RECIPES)
def recovery(
    request: pytest.FixtureRequest,
    ext4kit: Cli,
    remade: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recovery:
    """Recover one lost file system by the command line."""
    sample = remade(request.param)
    out = tmp_path_factory.mktemp("lost") / "out"
    done = ext4kit("recover", sample.image, "--lost", "-o", out)
    assert "Traceback" not in done.stderr
    if done.returncode == 2:  # nothing is left: the truth has to say so as well
        truth = load(sample.truth)
        return Recovery(truth, [], score(truth, []))
    assert done.returncode in (0, 1), done.stderr
    truth, outputs = load(sample.truth), read_outputs(out)
    return Recovery(truth, outputs, score(truth, outputs))


def test_every_file_whose_inode_and_blocks_stand_is_written_bit_for_bit(
    recovery: Recovery,
) -> None:
    if not recovery.outputs and not HERE.log_goes_on:
        pytest.skip("its directories are in the old journal alone, and nothing proves whose it is")
    least = LEFT * len(recovery.truth.files) if recovery.outputs else 0
    assert recovery.score.could >= least
    assert [(one.path, one.inode) for one in recovery.score.missing] == []


def test_files_of_which_nothing_was_written_over_are_called_intact(recovery: Recovery) -> None:
    if recovery.truth.recipe not in WHOLE:
        pytest.skip("what came later, or a cut, may have changed any of them")
    grades = {(one.life, one.sha256): one.grade for one in recovery.outputs if one.file}
    left = [one for one in recovery.truth.files if one.could_be_had]
    lives = [((one.inode, one.generation), one.sha256) for one in left]
    assert len([one for one in lives if grades[one] == "intact"]) >= CALLED_INTACT * len(left)


def test_every_path_whose_names_are_left_anywhere_is_told(recovery: Recovery) -> None:
    """Where mounts write the log anew, names are left where nothing tells whose they are."""
    paths = {one.life: one.path for one in recovery.outputs}
    if not paths and not HERE.log_goes_on:
        pytest.skip("nothing of it is found")
    untold = [one for one in recovery.score.wrong_path if not HERE.log_goes_on]
    assert [one.path for one in untold if paths[one.inode, one.generation] is not None] == []
    assert [(one.path, one.inode) for one in recovery.score.wrong_path if one not in untold] == []


def test_below_a_directory_without_a_name_the_rest_of_the_path_is_kept(recovery: Recovery) -> None:
    written = {one.life: one.file for one in recovery.outputs if one.file}
    wrong = [
        (one.path, written.get((one.inode, one.generation)))
        for one in recovery.truth.files
        if one.could_be_had and not one.path_in_log and not _ends_alike(one, written)
    ]
    assert wrong == []


def _ends_alike(one: FileTruth, written: dict[tuple[int, int] | None, str]) -> bool:
    """Whether it lies below `unnamed/inode-N-G`, and there where the directories' names say."""
    file = written.get((one.inode, one.generation), "").removeprefix("partial/")
    top, number, *rest = file.split("/")
    plain = all(
        part.isascii() and part.replace("-", "").replace(".", "").isalnum() for part in rest
    )
    whole = one.path.decode("utf-8", "replace").split("/")
    if top != "unnamed" or not number.startswith("inode-"):
        return False
    return not plain or not rest or whole[-len(rest) :] == rest


def test_nothing_graded_intact_has_bytes_that_its_life_never_had(recovery: Recovery) -> None:
    assert [(one.life, one.file) for one in recovery.score.intact_wrong] == []


def test_no_file_of_the_new_file_system_is_in_the_output(recovery: Recovery) -> None:
    assert [(one.life, one.file) for one in recovery.score.live] == []
    known = {one.sha256 for one in recovery.truth.files}
    new = {one.sha256 for one in recovery.truth.live} - known
    assert [one.file for one in recovery.outputs if one.sha256 in new] == []


@pytest.mark.kernel
def test_the_seed_is_that_of_the_old_uuid(ext4kit: Cli, remade: Images) -> None:
    done = ext4kit("info", remade("remade_same").image, "--lost", "--json")
    facts = json.loads(done.stdout.splitlines()[0])
    uuid = bytes.fromhex(machine.UUID.replace("-", ""))
    assert facts["checksum_seed"] == _crc32c(uuid)
    assert (facts["block_size"], facts["inode_size"]) == (4096, 256)


def _crc32c(data: bytes) -> int:
    """Bit by bit, from all ones, without the final inversion."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register


@pytest.mark.kernel
def test_deleted_hints_at_an_earlier_file_system_and_ls_shows_it(
    ext4kit: Cli, remade: Images
) -> None:
    sample = remade("remade_1k")
    assert "--lost" in ext4kit("deleted", sample.image).stderr
    listed = ext4kit("ls", sample.image, "--lost", "-r").stdout.splitlines()
    paths = [one.path for one in load(sample.truth).files if one.could_be_had]
    plain = [f"/{path.decode()}" for path in paths if path.isascii() and b"odd" not in path]
    assert len(plain) > 10
    assert set(plain) <= set(listed)


@pytest.mark.kernel
def test_a_file_system_on_new_ground_has_no_lost_one(
    ext4kit: Cli, needs_kernel: None, tmp_path: Path
) -> None:
    image = tmp_path / "new.img"
    machine.make_file_system(image, 16 << 20, ("-t", "ext4"))
    assert "--lost" not in ext4kit("deleted", image).stderr
    done = ext4kit("ls", image, "--lost")
    assert done.returncode == 2
    assert "no traces" in done.stderr
