"""What is found does not depend on how much of the log is read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ext4kit
import ext4kit.history.directory_blocks
import ext4kit.history.entry_intervals
import ext4kit.journal.ring
from ext4kit.history import read_history
from ext4kit.history.directory_blocks import DirectoryBlockHistory
from ext4kit.history.entry_intervals import EntryIntervals, find_entry_intervals
from ext4kit.timeline import Event, EventKind, build_timeline
from tests.conftest import Images
from tests.recovery.test_traps import Disk, remove

SAMPLES = ("rm_rf_tree", "ext3", "removed_after_remount")


@pytest.fixture(params=SAMPLES)
def image(request: pytest.FixtureRequest, unpacked: Images) -> Path:
    return unpacked(request.param).image


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ext4kit.journal.ring, "CHUNK_BYTES", 3 * 4096)
    monkeypatch.setattr(ext4kit.history.directory_blocks, "BATCH_BYTES", 2 * 4096)


def rows(found: EntryIntervals) -> list[tuple[object, ...]]:
    columns = (
        found.inode,
        found.directory,
        found.block,
        found.valid_from,
        found.first_seen,
        found.removed,
        found.last_seen,
        found.last_absent,
        found.first_source,
        found.removal_source,
    )
    plain = [column.tolist() for column in columns]
    return sorted(zip(*plain, found.name, strict=True))


def appearances(path: Path) -> list[tuple[object, ...]]:
    with ext4kit.open(path) as image:
        history = read_history(
            image.volume().filesystem(), directories_only=True, committed_only=True
        )
        return rows(find_entry_intervals(DirectoryBlockHistory(history)))


def events(path: Path) -> list[Event]:
    with ext4kit.open(path) as image:
        return list(build_timeline(image.volume().filesystem()))


@pytest.mark.heavy
def test_entries_stand_as_long_in_small_pieces(image: Path, request: pytest.FixtureRequest) -> None:
    whole = appearances(image)
    request.getfixturevalue("small_pieces")
    assert whole
    assert appearances(image) == whole


@pytest.mark.heavy
def test_the_same_events_come_out_of_small_pieces(
    image: Path, request: pytest.FixtureRequest
) -> None:
    whole = events(image)
    request.getfixturevalue("small_pieces")
    assert whole
    assert events(image) == whole


@pytest.mark.kernel
def test_the_order_of_events_is_the_same_in_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are compared by keys that are drawn anew in each run."""
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "file").touch()
        for number in range(12):
            (root / f"{number}").hardlink_to(root / "file")
    with disk.mounted() as root:
        remove(*(root / f"{number}" for number in range(9)))
    weights = ext4kit.history.entry_intervals._HASH_WEIGHTS
    every = []
    for run in range(3):
        monkeypatch.setattr(
            ext4kit.history.entry_intervals, "_HASH_WEIGHTS", np.roll(weights, 2 * run + 1)
        )
        found = [(event.kind, event.path) for event in events(disk.image)]
        every.append([each for each in found if each[1] != b"/counted"])  # of some kernels
    assert every[0][0] == ("created", b"/file")
    assert [kind for kind, _ in every[0]].count(EventKind.UNLINKED) == 9
    assert every[1:] == every[:1] * 2
