"""Random histories on kernel-mounted images: no word about a deleted file may be wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ext4kit.recovery import Grade
from sample_images.recipes import random_history
from sample_images.recipes.history_book import Book, Version
from sample_images.recipes.history_judge import Verdict, judge
from sample_images.recipes.history_layouts import LAYOUTS, Layout
from sample_images.recipes.machine import MachineError, sync
from sample_images.recipes.random_history import History, tell, told_and_judged
from tests.recovery.test_traps import BYSTANDER, Disk, commit, content, remove
from tests.writing_kernel import HERE

OPERATIONS, SEED = 250, 7
MOST_PATHS, MOST_FILES = 300, 250  # of all usual histories together: a seed tells what happens
SOME_INTACT = 10  # when the kernel writes things out decides how many
KEPT = 0.6  # of the exact contents are intact or consistent
USUAL = (
    *("default", "block_1k", "ext3", "data_journal", "nodelalloc", "bigalloc", "inline_data"),
    *("inode_128", "no_metadata_csum", "orphan_file", "small_log", "writeback"),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[History, Verdict]]:
    """Give the usual history of a layout and what is said of it, told once."""

    @cache
    def give(name: str) -> tuple[History, Verdict]:
        folder = tmp_path_factory.mktemp("told")
        return told_and_judged(LAYOUTS[name], SEED, OPERATIONS, folder)

    return give


@pytest.mark.kernel
@pytest.mark.parametrize("name", USUAL)
def test_nothing_that_is_said_of_a_random_history_is_wrong(
    name: str, told: Callable[[str], tuple[History, Verdict]]
) -> None:
    history, verdict = told(name)
    assert not verdict.is_bad, [history.breaks, *verdict.findings]
    assert verdict.files


@pytest.mark.kernel
def test_much_is_said_of_random_histories(
    told: Callable[[str], tuple[History, Verdict]],
) -> None:
    """Who says nothing says nothing wrong."""
    total = Verdict()
    for name in USUAL:
        total.add(told(name)[1])
    assert total.files >= MOST_FILES
    assert total.paths >= MOST_PATHS
    assert total.intact >= SOME_INTACT or HERE.best is not Grade.INTACT
    assert total.kept >= KEPT


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_that_is_said_of_long_histories_is_wrong(name: str, tmp_path: Path) -> None:
    for seed in range(2, 5):
        history, verdict = told_and_judged(LAYOUTS[name], seed, 400, tmp_path)
        assert not verdict.is_bad, [seed, history.breaks, *verdict.findings]
        history.image.unlink()


@pytest.mark.kernel
def test_the_judge_notices_a_wrong_word(tmp_path: Path) -> None:
    history = tell(LAYOUTS["default"], SEED, OPERATIONS, tmp_path)
    book = history.book
    for life in (*book.lives.values(), *(one for lives in book.links.values() for one in lives)):
        life.versions = [Version(0, 0, 1, "of other bytes")]
        life.paths = {b"never had it"}
    verdict = judge(history.image, book)
    assert verdict.wrong_paths + verdict.wrong_places == verdict.paths > 0
    assert verdict.wrong == verdict.intact
    assert verdict.intact or HERE.best is not Grade.INTACT
    assert not verdict.kept


def test_an_image_that_nothing_mends_is_left_out_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(layout: Layout, *_: object) -> tuple[History, Verdict]:
        if layout.name == "ext3":
            raise MachineError("e2fsck: it still has errors")
        return History(layout, 1, tmp_path / "image", Book(), ()), Verdict(images=1)

    monkeypatch.setattr(random_history, "told_and_judged", refuse)
    monkeypatch.setattr("sample_images.recipes.machine.missing_for_kernel", lambda: "")
    monkeypatch.setattr("sys.argv", ["", "ext3", "default", "--keep", str(tmp_path / "kept")])
    assert random_history.main() == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "ext3 seed 1 is left out: e2fsck: it still has errors"
    assert told[1].startswith("1 images: 0 deleted files")


# -- one at a time: what the histories taught ---------------------------------------------------


@pytest.mark.kernel
def test_a_write_of_the_last_moments_is_told_by_the_version_of_the_inode(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        for name in ("written", "left"):
            (root / name).write_bytes(name.encode() * 5000)
        sync(root)
        with (root / "written").open("r+b") as stream:
            stream.write(b"newer")
        remove(root / "written", root / "left")
    grades = {path: str(file.grade) for path, file in disk.deleted().items()}
    # before 6.13 it counts only if the clock has ticked since
    told = {"partial"} if HERE.has_fine_times else {"partial", "consistent"}
    assert grades.pop(b"/written") in told
    assert grades == {b"/left": "consistent"}


@pytest.mark.kernel
def test_a_time_set_by_hand_hides_no_write(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    old, new = random.Random(1).randbytes(40_000), random.Random(2).randbytes(40_000)
    with disk.mounted() as root:
        (root / "file").write_bytes(old)
        sync(root)
        with (root / "file").open("r+b") as stream:
            stream.write(new)
        os.utime(root / "file", ns=(0, 0))
        commit(root)  # the inode goes to the log, the bytes stay in memory
        remove(root / "file", root / BYSTANDER)
    file = disk.deleted()[b"/file"]
    assert content(file) == new or file.grade != "intact"
    assert disk.bystander_is_intact()


@pytest.mark.kernel
def test_an_unmount_brings_everything_to_the_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    old, new = random.Random(1).randbytes(40_000), random.Random(2).randbytes(40_000)
    with disk.mounted() as root:
        (root / "file").write_bytes(old)
        sync(root)
        with (root / "file").open("r+b") as stream:
            stream.write(new)
    with disk.mounted() as root:
        remove(root / "file")
    file = disk.deleted()[b"/file"]
    assert (content(file), file.grade) == (new, HERE.best)


@pytest.mark.kernel
def test_a_file_whose_bytes_still_waited_is_not_called_an_intact_empty_one(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        with (root / "file").open("wb") as stream:
            (root / "file").stat()  # the next time is a finer one, and no longer the same
            stream.write(b"never reaches the disk" * 900)
        commit(root)
        remove(root / "file", root / BYSTANDER)
    file = disk.deleted()[b"/file"]
    assert file.size == 0
    if HERE.has_fine_times:
        assert file.grade is Grade.PARTIAL
    else:  # its making and the write have the same time
        assert file.grade is not Grade.INTACT
    assert disk.bystander_is_intact()


@pytest.mark.kernel
@pytest.mark.parametrize("passes", [True, False], ids=["reused", "left alone"])
def test_blocks_that_a_passing_file_had_are_not_vouched_for(tmp_path: Path, passes: bool) -> None:
    """A file renamed over another is flushed; gone in the same transaction, no map tells."""
    disk = Disk(tmp_path, "-t", "ext4", size=16 << 20)
    old = random.Random(1).randbytes(8 << 20)
    with disk.mounted() as root:
        (root / "target").touch()
        (root / "file").write_bytes(old)
    with disk.mounted() as root:
        remove(root / "file")
        if passes:
            (root / "passing").write_bytes(random.Random(2).randbytes(5 << 20))
            (root / "passing").rename(root / "target")
        remove(root / "target")
    file = disk.deleted()[b"/file"]
    assert (content(file) != old) == passes  # it was written over, or this test tests nothing
    if passes or not HERE.log_goes_on:
        assert file.grade is not Grade.INTACT
    else:
        assert file.grade is HERE.best
