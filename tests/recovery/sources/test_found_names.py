"""Names from freed directory blocks: only right ones, and for every file that has one there."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.arrays.types import NO_ROW
from ext4kit.history import read_history
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.journal_gaps import NO_RESTART, JournalGaps
from ext4kit.history.paths import PathHistory
from ext4kit.history.places import FOREVER, Ground
from ext4kit.parsers.directory import Names
from ext4kit.recovery.found_entries import (
    FoundEntries,
    assign_entries,
    ended_by,
    find_directory_entries,
)
from ext4kit.recovery.names import FoundEntryPaths, KnownName
from ext4kit.recovery.provenance import FREED_BLOCK
from ext4kit.units import NANOSECONDS as SECOND
from sample_images.recipes.syscalls import generation
from sample_images.recipes.truth import FileTruth
from tests.recovery.made_history import NO_BREAKS, State, past_of, state
from tests.recovery.sources.conftest import Scenes, Seen
from tests.recovery.test_traps import Disk, remove
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel

NAMES = [
    "leaves_wrapped",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("no_sums_wrapped", "no_journal", "small_blocks")
    ),
]


def _named(seen: Seen) -> list[tuple[FileTruth, KnownName]]:
    every = np.ones(seen.fs.superblock.inodes_count + 1, bool)
    found = find_directory_entries(seen.space, seen.structures, seen.owners, every)
    paths = FoundEntryPaths(seen.history, PathHistory(seen.history), found)
    pairs = zip(seen.history.number.tolist(), seen.history.generation.tolist(), strict=True)
    lives = {pair: life for life, pair in enumerate(pairs)}
    named = []
    for one in seen.truth.files:
        life = lives.get((one.inode, one.generation))
        name = None if life is None else paths.name_of(life)
        if name is not None:
            named.append((one, name))
    return named


def _entry(folder: int, number: int, child: int, parent: int = 0) -> FoundEntries:
    """The entry `file` of a freed block of a directory with that number and generation."""
    numbers = folder, number, parent, child, 1, -1
    directory, life, above, bearer, kind, order = np.array(numbers)[:, None]
    return FoundEntries(directory, life, above, bearer, kind, order, Names.of([b"file"]))


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_wrong(scene: Scenes, name: str) -> None:
    named = _named(scene(name))
    assert len(named) > len(scene(name).truth.files) // 2
    for one, found in named:
        below = (found.partial_path or b"").split(b"/", 1)[-1]
        assert b"/" + one.path == found.path or one.path.endswith(b"/" + below)
        assert found.name == one.path.rsplit(b"/", 1)[-1]
        assert found.source == FREED_BLOCK


def test_every_file_whose_folder_was_removed_gets_its_name(scene: Scenes) -> None:
    """The top of the tree was wiped out of the root, where kernels do: below it all names are."""
    seen = scene("leaves_wrapped")
    named = {one.path: found for one, found in _named(seen)}
    below = [one for one in seen.truth.files if one.path.startswith(b"tree/")]
    assert below
    assert [one.path for one in below if one.path not in named] == []
    if not HERE.clears_entries:
        assert [named[one.path].path for one in below] == [b"/" + one.path for one in below]
        return
    parts = [(named[one.path].partial_path or b"").split(b"/", 1) for one in below]
    assert len({top for top, _ in parts}) == 1
    assert [b"tree/" + rest for _, rest in parts] == [one.path for one in below]


@pytest.mark.parametrize("moved", [False, True])
def test_a_directory_that_may_have_moved_since_gives_no_path(tmp_path: Path, moved: bool) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "folder").mkdir()
        (root / "folder" / "file").write_bytes(b"content")
        child = (root / "folder" / "file").stat().st_ino
        folder, number = (root / "folder").stat().st_ino, generation(root / "folder")
    with disk.mounted() as root:
        remove(root / "folder" / "file")
        if moved:
            time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
            (root / "folder").rename(root / "elsewhere")
    disk.forget()
    history = read_history(disk.file_system())
    entry = _entry(folder, number, child)
    name = FoundEntryPaths(history, PathHistory(history), entry).name_of(
        int(np.searchsorted(history.number, child))
    )
    assert name is not None
    below = b"inode-%d-%d/file" % (folder, number)
    assert (name.path, name.partial_path) == ((None, below) if moved else (b"/folder/file", None))


@pytest.mark.parametrize("is_first_block", [False, True])
def test_a_block_that_names_another_parent_gives_no_present_place(
    tmp_path: Path, is_first_block: bool
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "above" / "folder").mkdir(parents=True)
        (root / "above" / "folder" / "file").write_bytes(b"content")
        (root / "above" / "folder" / "other").touch()
        child = (root / "above" / "folder" / "file").stat().st_ino
        folder, number = (root / "above/folder").stat().st_ino, generation(root / "above/folder")
        above = (root / "above").stat().st_ino
    with disk.mounted() as root:
        remove(root / "above" / "folder" / "file")
        time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
        (root / "above" / "folder").rename(root / "elsewhere")
        (root / "elsewhere" / "other").unlink()  # as late as the last change of the entries
    disk.forget()
    history = read_history(disk.file_system())
    entry = _entry(folder, number, child, above if is_first_block else 0)
    name = FoundEntryPaths(history, PathHistory(history), entry).name_of(
        int(np.searchsorted(history.number, child))
    )
    assert name is not None
    # A removed entry that was not cleared tells as well that the directory stood elsewhere.
    is_withheld = is_first_block or not HERE.clears_entries
    assert name.path == (None if is_withheld else b"/elsewhere/file")
    assert name.ground == (None if is_withheld else Ground.PRESENT_PLACE)


def test_a_directory_whose_inode_another_file_has_names_no_later_file(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "folder").mkdir()
        (root / "folder" / "file").touch()
        folder, number = (root / "folder").stat().st_ino, generation(root / "folder")
        child = (root / "folder" / "file").stat().st_ino
        remove(root / "folder" / "file")
        (root / "folder").rmdir()
        (root / "in its place").touch()
        (root / "later").touch()
        assert (root / "in its place").stat().st_ino == folder
        assert (root / "later").stat().st_ino == child
        (root / "in its place").unlink()
        time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
        (root / "and then").mkdir()
        assert (root / "and then").stat().st_ino == folder
        remove(root / "later")
    disk.forget()
    history = read_history(disk.file_system())
    entry = _entry(folder, number, child)
    paths = FoundEntryPaths(history, PathHistory(history), entry)
    assert paths.name_of(int(np.searchsorted(history.number, child))) is None


def test_an_entry_of_a_later_copy_means_no_instance_whose_number_was_used_again() -> None:
    """One transaction can free an inode and use it again: no state has no links."""
    history = past_of(
        state(life=0, order=2),
        state(life=1, order=5, number=13),
        state(life=2, order=5),
        state(life=2, order=7, links_count=0),
        state(life=3, order=9, undescribed=True),
    )
    assert ended_by(history).tolist() == [5, FOREVER, 7, FOREVER]


@pytest.mark.parametrize(
    ("in_journal", "seen", "row"),
    [
        (None, 0, 4),
        (b"folder", SLACK_ENTRY, 4),
        (b"moved", SLACK_ENTRY, None),
        (b"folder", 7, None),
    ],
)
def test_a_directory_is_not_called_what_it_was_before_its_last_name_in_the_journal(
    in_journal: bytes | None, seen: int, row: int | None
) -> None:
    last = np.array([NO_ROW if in_journal is None else 0])
    paths = object.__new__(FoundEntryPaths)
    vars(paths).update(
        _row={9: 4},
        _names=[b""] * 4 + [b"folder"],
        _paths=SimpleNamespace(
            last_name_rows=lambda instances: last,
            names=SimpleNamespace(table=SimpleNamespace(name=[in_journal], last_seen=[seen])),
        ),
    )
    assert paths._row_of_directory(9) == row


@pytest.mark.parametrize("restarted", [False, True])
def test_where_the_journal_counted_anew_an_entry_of_a_copy_is_not_placed_by_its_transaction(
    restarted: bool,
) -> None:
    """By the ids the first instance was gone by then, and the entry means the second one."""
    history = _of_one_number(
        state(life=0, order=2),
        state(life=0, order=4, links_count=0, whole=False, dtime=2000, ctime=2000 * SECOND),
        state(life=1, order=5, crtime=2000 * SECOND),
        state(life=1, order=9, crtime=2000 * SECOND, links_count=0, whole=False, dtime=3000),
    )
    history.gaps = replace(NO_BREAKS, restarted_at=6 if restarted else NO_RESTART)
    entry = replace(_entry(99, 1, 12), tid=np.array([7]))
    instance, _ = assign_entries(history, entry)
    assert instance.tolist() == ([] if restarted else [1])


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("is_reused", [False, True])
def test_an_entry_on_disk_may_name_an_instance_of_lost_transactions(
    lost: bool, is_reused: bool
) -> None:
    """What had the number between a known instance and the next one left nothing but its name."""
    directory, gap = 0o40755, (np.array([5]), np.array([20]))
    last = {"life": 1, "crtime": 4000 * SECOND} if is_reused else {"life": 0, "mode": directory}
    history = _of_one_number(
        state(life=0, order=2, mode=directory, links_count=2),
        state(life=0, order=4, mode=directory, links_count=0, dtime=2000, ctime=2000 * SECOND),
        state(**last, order=30, links_count=0, whole=False, dtime=5000),
    )
    one = np.zeros(1, np.int64)
    history.gaps = JournalGaps(*gap, one, one > 0, one == 0) if lost else NO_BREAKS
    entry = replace(_entry(99, 1, 12), file_type=np.array([2]))
    instance, _ = assign_entries(history, entry)
    assert instance.tolist() == ([] if lost and is_reused else [0])


@pytest.mark.parametrize(("created", "named"), [(2500 * SECOND, []), (2600 * SECOND, [0])])
def test_an_instance_created_in_the_tick_of_the_commit_may_be_the_one_of_the_copy(
    created: int, named: list[int]
) -> None:
    history = _of_one_number(
        state(life=0, order=2),
        state(life=1, order=9, crtime=created),
        state(life=1, order=10, crtime=created, links_count=0, whole=False, dtime=3000),
    )
    history.gaps = NO_BREAKS
    instance, _ = assign_entries(history, replace(_entry(99, 1, 12), tid=np.array([7])))
    assert instance.tolist() == named


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("others_since", [1000, 5000])
def test_an_entry_on_disk_may_name_an_unknown_instance_before_the_known_ones(
    together: bool, others_since: int
) -> None:
    """A higher number was taken earlier, so the number was in use by then."""
    directory = {"life": 2, "number": 99, "mode": 0o40755, "crtime": 2500 * SECOND}
    freed = {"links_count": 0, "whole": False}
    history = _of_one_number(
        state(life=0, order=2, crtime=2000 * SECOND),
        state(life=0, order=4, crtime=2000 * SECOND, dtime=3000, **freed),
        state(life=1, order=2, number=20, crtime=others_since * SECOND),
        state(**directory, order=2),
        state(**directory, order=4, dtime=3010 if together else 9000, links_count=0),
    )
    history.number = np.array([12, 20, 99])
    instance, _ = assign_entries(history, _entry(99, 9, 12))
    assert instance.tolist() == ([0] if together or others_since > 2000 else [])


def _of_one_number(*states: State) -> Any:
    """A history of one inode number, 12, that is free now."""
    history: Any = past_of(*states)
    history.fs.superblock.inodes_per_group = 1000
    history.fs.inode_batches = lambda: iter(())
    columns = ("mode", "crtime", "links_count", "generation")
    now = SimpleNamespace(**{name: np.zeros(1, np.int64) for name in columns})
    history.fs.inode_table = lambda numbers: now
    instance = history.states.instance
    count = history.instance_count
    history.number, history.generation = np.full(count, 12), 7 + np.arange(count)
    history.last_rows = np.searchsorted(instance, np.arange(count), side="right") - 1
    history.is_allocated = np.zeros(count, bool)
    history.times_of = lambda tids: 2500 * SECOND + 0 * tids
    return history
