"""Which kernels wrote: the running one, one of before, and one after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.history.writer import (
    CLEARS_ENTRIES,
    CONTINUES_LOG,
    COUNTS_CHANGES,
    Sign,
    Version,
    Writer,
    find_writer,
    last_writer,
)
from ext4kit.journal import Log
from sample_images.recipes import machine
from sample_images.recipes.truth import running_kernel
from tests.conftest import Images
from tests.writing_kernel import HERE

OLD, NEW = (5, 13), (6, 4)
# A log that starts again at each mount may overwrite all that shows it.
LOG_SIGN = {CONTINUES_LOG} if HERE.log_goes_on else set[Version]()


def writer_of(image: Path) -> Writer:
    with ext4kit.open(image) as evidence:
        fs = evidence.volume().filesystem()
        return find_writer(fs, Log.open(fs))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three mounts of the running kernel: files are made, some go, others are written again."""
    path = tmp_path_factory.mktemp("writer") / "disk.img"
    machine.make_file_system(path, 32 << 20, ("-t", "ext4"))
    for turn in range(3):
        with machine.mounted(path, "noatime") as root:
            (root / "folder").mkdir(exist_ok=True)
            for number in range(20):
                with (root / "folder" / str(number)).open("ab") as file:
                    file.write(b"x" * 5000)
            machine.sync(root)
            for number in range(1, 20, 2 + turn):
                (root / "folder" / str(number)).unlink()
    return path


@pytest.mark.kernel
def test_the_running_kernel_is_within_what_is_told(image: Path) -> None:
    found = writer_of(image)
    kernel = running_kernel()
    assert found.since is not None and found.since <= kernel
    assert found.before is None or kernel < found.before
    assert not found.several
    bounds = {sign.since or sign.before for sign in found.signs}
    assert bounds >= {CLEARS_ENTRIES, *LOG_SIGN}


@pytest.mark.kernel
def test_a_removal_by_debugfs_looks_like_one_of_an_old_kernel(image: Path, tmp_path: Path) -> None:
    if running_kernel() < CLEARS_ENTRIES:
        pytest.skip("this kernel leaves removed entries itself")
    copy = tmp_path / "copy.img"
    shutil.copyfile(image, copy)
    before = [sign for sign in writer_of(copy).signs if sign.before == CLEARS_ENTRIES]
    machine.run("debugfs", "-w", "-R", "unlink /folder/12", copy)
    after = [sign for sign in writer_of(copy).signs if sign.before == CLEARS_ENTRIES]
    assert (len(before), len(after)) == (0, 1)
    assert after[0].ground.startswith("1 removed")


def test_a_disk_of_linux_5_10(unpacked: Images) -> None:
    found = writer_of(unpacked("removed_on_5_10").image)
    assert found.before == CLEARS_ENTRIES
    assert found.since is not None and found.since < (5, 10)
    assert {sign.before for sign in found.signs} >= {CLEARS_ENTRIES, CONTINUES_LOG}
    assert "remain in their directories" in " ".join(found.effects)
    assert "overwrote the journal from its first block" in " ".join(found.effects)


def test_a_disk_of_linux_6_18(unpacked: Images) -> None:
    found = writer_of(unpacked("removed_after_remount").image)
    assert (found.since, found.before, found.several) == (CONTINUES_LOG, None, False)
    assert {sign.since for sign in found.signs} >= {CLEARS_ENTRIES, CONTINUES_LOG, COUNTS_CHANGES}
    assert "are cleared" in " ".join(found.effects)


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        ([], (None, None, False)),
        ([(NEW, None, 1)], (NEW, None, False)),
        ([(None, OLD, 1)], (None, OLD, False)),
        ([(OLD, None, 1), (None, NEW, 2)], (OLD, NEW, False)),
        ([(NEW, None, 1), (None, OLD, 2)], (None, OLD, True)),  # the old kernel was the last
        ([(NEW, None, 2), (None, OLD, 1)], (NEW, None, True)),  # the new one was
        ([(NEW, None, None), (None, NEW, 1)], (None, NEW, True)),  # without a time: earlier
        ([(OLD, None, 1), (NEW, None, 2), (None, (6, 13), 3)], (NEW, (6, 13), False)),
    ],
)
def test_of_two_that_contradict_the_later_one_wrote_last(
    signs: list[tuple[Version | None, Version | None, int | None]],
    expected: tuple[Version | None, Version | None, bool],
) -> None:
    assert last_writer([Sign("", *each) for each in signs]) == expected


@pytest.mark.kernel
def test_without_files_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "empty.img"
    machine.make_file_system(path, 8 << 20, ("-t", "ext2"))
    found = writer_of(path)
    assert (found.since, found.before, found.effects) == (None, None, ())
    assert found.family == "unknown"


@pytest.mark.kernel
def test_damaged_directories_end_nothing(image: Path, tmp_path: Path) -> None:
    """Random bytes where directories were: the rest is told all the same."""
    copy = tmp_path / "copy.img"
    shutil.copyfile(image, copy)
    block = int(machine.run("debugfs", "-R", "bmap /folder 0", copy))
    with copy.open("r+b") as file:
        file.seek(block * 4096)
        file.write(np.random.default_rng(1).bytes(4096))
    bounds = {sign.since or sign.before for sign in writer_of(copy).signs}
    assert bounds >= {COUNTS_CHANGES, *LOG_SIGN}
