"""Disks with bad sectors: what cannot be read is no reason to say what is not so."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit import reasons
from ext4kit.journal import Log
from ext4kit.parsers.journal import BlockType
from ext4kit.recovery import DeletedFiles, Grade, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES, JOURNAL_ONLY, SearchSource
from sample_images.recipes import machine
from sample_images.recipes.history_judge import living_files
from sample_images.recipes.history_layouts import LAYOUTS
from sample_images.recipes.machine import sync
from sample_images.recipes.random_history import tell
from tests.evidence.failing_disk import failing_disk, missing
from tests.recovery.bad_sectors import PAGE, Places, Ranges, Tally, judge_disk, judge_history
from tests.recovery.test_traps import BLOCK, Disk, commit, content, remove
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel
JUDGED = ("default", "block_1k", "ext3", "data_journal", "inode_128", "fast_commit")
OPERATIONS, DISKS, SEED = 250, 4, 7
SOME_FILES, SOME_INTACT = 100, 10
TICK = 0.05  # seconds, more than two clocks of the kernel differ
Fail = Callable[..., DeletedFiles]


@pytest.fixture
def fail(tmp_path: Path) -> Iterator[Fail]:
    """Give what is deleted on an image of which some bytes cannot be read."""
    if reason := missing():
        pytest.skip(reason)
    with ExitStack() as stack:

        def give(
            image: Path,
            bad: Ranges,
            sources: frozenset[SearchSource] = JOURNAL_ONLY,
        ) -> DeletedFiles:
            disk = stack.enter_context(failing_disk(image, tmp_path / "failing", bad))
            opened = stack.enter_context(ext4kit.open(disk))
            return find_deleted(opened.volume().filesystem(), sources=sources)

        yield give


@dataclass(frozen=True)
class Parts:
    """Where the parts of a log lie in an image, bytes by (place of its transaction, oldest first).

    Attributes:
        heads: descriptors; commits: commit blocks; copies: those of blocks, by the block.
    """

    heads: list[list[int]]
    commits: list[int]
    copies: list[dict[int, int]]

    def all_of(self, number: int) -> Ranges:
        """All blocks of a transaction."""
        starts = [*self.heads[number], self.commits[number], *self.copies[number].values()]
        return [(start, start + BLOCK) for start in starts]


def _parts(image: Path) -> Parts:
    """The parts of a sound image's log."""
    with ext4kit.open(image) as opened:
        log = Log.open(opened.volume().filesystem())
        assert log is not None
        headers, tags, known = log.headers, log.tags, log.transactions
        place = log.reader.log_blocks * BLOCK
        heads, commits, copies = [], place[known.commit].tolist(), []
        for order in known.order:
            mine = (headers.order == order) & (headers.kind == BlockType.DESCRIPTOR)
            heads.append(place[headers.position[mine]].tolist())
            mine = (tags.order == order) & tags.valid
            pairs = zip(tags.block[mine].tolist(), place[tags.position[mine]].tolist(), strict=True)
            copies.append(dict(pairs))
        return Parts(heads, commits, copies)


def _folder_block(disk: Disk) -> int:
    """The block of the directory /folder."""
    fs = disk.file_system()
    return int(fs.block_map(fs.inode(fs.lookup("/folder"))).physical[0])


def _table_block(disk: Disk, number: int) -> int:
    """The block that holds an inode."""
    fs = disk.file_system()
    return int(fs.inode_location(np.array([number]))[0][0])


# -- random histories -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tally]:
    """What is said of the disks of a history of some layouts."""
    if reason := missing():
        pytest.skip(reason)
    found = {}
    for name in JUDGED:
        folder = tmp_path_factory.mktemp(name)
        history = tell(LAYOUTS[name], SEED, OPERATIONS, folder)
        found[name] = judge_history(history, DISKS, folder / "wrong")
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", JUDGED)
def test_nothing_that_is_said_of_disks_with_bad_sectors_is_wrong(
    name: str, judged: dict[str, Tally]
) -> None:
    tally = judged[name]
    assert not tally.is_bad, tally.findings
    assert tally.counts["disks"] == DISKS


def test_much_is_said_of_disks_with_bad_sectors(judged: dict[str, Tally]) -> None:
    """Who says nothing says nothing wrong."""
    assert sum(tally.counts["files"] for tally in judged.values()) >= SOME_FILES
    intact = sum(tally.counts["intact"] for tally in judged.values())
    assert intact >= SOME_INTACT or HERE.best is not Grade.INTACT


def test_the_judge_of_bad_sectors_notices_a_wrong_word(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    history = tell(LAYOUTS["default"], SEED, OPERATIONS, tmp_path)
    head, book = Places(history.image).head, history.book
    for life in book.lives.values():
        life.paths = {b"never had it"}
    everyone = set(book.lives)
    bad = [(history.image.stat().st_size - PAGE, history.image.stat().st_size)]
    tally = judge_disk(history.image, book, everyone, bad, head, tmp_path / "disk")
    assert tally.counts["wrong paths"] > 0
    assert tally.counts["living"] > 0
    assert tally.counts["refused"] == 0


# -- inode tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sources", [ALL_SOURCES, JOURNAL_ONLY], ids=["all", "log"])
def test_living_files_whose_inodes_cannot_be_read_are_not_called_deleted(
    tmp_path: Path, fail: Fail, sources: frozenset[SearchSource]
) -> None:
    """The log shows them linked, and one of them removed."""
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        for name in ("first", "second", "gone"):
            (root / name).write_bytes(name.encode() * 3000)
            sync(root)
        block = _table_block(disk, (root / "first").stat().st_ino)
        remove(root / "gone")
    with disk.mounted("ro", logs=False) as root:
        numbers = {one.stat().st_ino for one in (root / "first", root / "second")}
    found = fail(disk.image, [(block * BLOCK, (block + 1) * BLOCK)], sources)
    files = {file.number: file for file in found if file.number is not None}
    assert not numbers & set(files)
    assert [file.path for file in files.values()] == [b"/gone"]
    assert any("table block cannot be read" in one.what for one in found.problems)


def test_a_living_file_of_which_one_copy_is_left_is_not_called_deleted(
    tmp_path: Path, fail: Fail
) -> None:
    """Nothing describes the copy, and where it lies it looks older than the file before it."""
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "first").touch()
        number = (root / "first").stat().st_ino
        commit(root)
        remove(root / "first")
        (root / "second").write_bytes(b"lives" * 1000)
        assert (root / "second").stat().st_ino == number  # or this test tests nothing
    table, parts = _table_block(disk, number), _parts(disk.image)
    living = living_files(disk.image)
    removed = 1 + max(at for at, copies in enumerate(parts.copies[:-1]) if table in copies)
    starts = [table * BLOCK]
    for at in range(removed, len(parts.commits)):
        starts += [*parts.heads[at], parts.commits[at]]
    found = fail(disk.image, [(start, start + BLOCK) for start in starts], ALL_SOURCES)
    numbers = {(file.number, file.generation) for file in found}
    assert number in {one for one, _ in numbers}  # the first one is told of
    assert not numbers & living


# -- the log --------------------------------------------------------------------------------------


def test_a_log_that_cannot_be_replayed_to_its_end_calls_no_living_file_deleted(
    tmp_path: Path, fail: Fail
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    copy = tmp_path / "copy"
    with disk.mounted() as root:
        for number in range(6):
            (root / f"file {number}").write_bytes(b"%d" % number * 9000)
            commit(root)
        machine.copy_sparse(disk.image, copy)
    copy.replace(disk.image)
    parts, living = _parts(disk.image), living_files(disk.image)
    assert len(living) == 7  # another one is what the log is flushed by
    found = fail(disk.image, parts.all_of(1)[:1])
    assert not {(file.number, file.generation) for file in found} & living


def test_what_the_log_tells_behind_a_transaction_that_cannot_be_read_is_newer_than_the_disk(
    tmp_path: Path, fail: Fail
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    copy = tmp_path / "copy"
    with disk.mounted() as root:
        (root / "file").write_bytes(b"gone" * 3000)
    with disk.mounted() as root:
        (root / "before").touch()
        commit(root)
        (root / "file").unlink()
        commit(root)
        machine.copy_sparse(disk.image, copy)
    copy.replace(disk.image)
    parts = _parts(disk.image)
    start = parts.heads[-2][0]
    found = fail(disk.image, [(start, start + BLOCK)])
    assert [file.path for file in found if file.kind == "file"] == [b"/file"]


@pytest.mark.parametrize("groups", ["groups unreadable", "groups readable"])
def test_an_inode_that_is_newer_than_its_bitmap_is_not_called_deleted(
    tmp_path: Path, fail: Fail, groups: str
) -> None:
    """Of the last transaction, which has to be replayed, the inode alone can be read."""
    disk = Disk(tmp_path, "-t", "ext4")
    copy = tmp_path / "copy"
    with disk.mounted() as root:
        (root / "before").touch()
        sync(root)
        (root / "file").touch()
        number = (root / "file").stat().st_ino
        commit(root)
        machine.copy_sparse(disk.image, copy)
    copy.replace(disk.image)
    parts, living = _parts(disk.image), living_files(disk.image)
    kept = {_table_block(disk, number)} | ({1} if groups == "groups readable" else set())
    bad = [(at, at + BLOCK) for block, at in parts.copies[-1].items() if block not in kept]
    found = fail(disk.image, bad)
    assert number in {one for one, _ in living}
    assert not {(file.number, file.generation) for file in found} & living


def test_a_file_is_not_intact_when_a_later_transaction_cannot_be_read(
    tmp_path: Path, fail: Fail
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    data = random.Random(1).randbytes(50_000)
    with disk.mounted() as root:
        (root / "file").write_bytes(data)
        (root / "folder").mkdir()
        (root / "another").mkdir()
    with disk.mounted() as root:
        remove(root / "file")
        for name in ("folder", "another"):
            (root / name).chmod(0o700)
            sync(root)
    assert disk.deleted()[b"/file"].grade is HERE.best
    parts = _parts(disk.image)
    (file,) = fail(disk.image, parts.all_of(len(parts.commits) - 2))
    assert content(file) == data
    assert file.grade == "consistent"
    assert reasons.JOURNAL_GAP_AFTER in file.reasons


def test_bytes_of_the_journal_are_not_vouched_for_when_newer_ones_cannot_be_read(
    tmp_path: Path, fail: Fail
) -> None:
    """One of the two blocks of the last write is left, the other one has a copy of before."""
    disk = Disk(tmp_path, "-t", "ext4", "-J", "size=16")
    old, new = (random.Random(seed).randbytes(2 * BLOCK - 100) for seed in (1, 2))
    copy = tmp_path / "copy"
    with disk.mounted("data=journal") as root:
        for data in (old, new):
            with (root / "file").open("r+b" if data is new else "wb") as stream:
                stream.write(data)
                os.fsync(stream.fileno())
        (root / "file").unlink()
        commit(root)
        machine.copy_sparse(disk.image, copy)
    copy.replace(disk.image)
    parts, sound = _parts(disk.image), disk.deleted()[b"/file"]
    assert content(sound) == new
    (_, block, _), *_ = sound.extents  # the kernel may choose two
    _, last = (found[block] for found in parts.copies if block in found)
    (file,) = (one for one in fail(disk.image, [(last, last + BLOCK)]) if one.path == b"/file")
    assert content(file) != new  # or this test tests nothing
    assert file.grade != "intact"
    assert reasons.JOURNAL_UNREADABLE in file.reasons


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["copies", "descriptor"])
def test_a_name_is_not_given_to_a_later_file_whose_inode_had_it_before(
    tmp_path: Path, fail: Fail, lost: str
) -> None:
    """What tells the two apart cannot be read: the inode of the first, and when it was committed.

    Where the descriptor cannot be read, the copy of the directory is one that nothing describes.
    """
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "folder").mkdir()
    with disk.mounted() as root:
        (root / "folder" / "first").touch()
        number = (root / "folder" / "first").stat().st_ino
        commit(root)
        (root / "folder" / "first").unlink()
        (root / "second").touch()
        assert (root / "second").stat().st_ino == number  # or this test tests nothing
        time.sleep(TICK)
        commit(root)
        (root / "second").chmod(0o600)
        commit(root)
        remove(root / "second")
    table, parts = _table_block(disk, number), _parts(disk.image)
    folder = _folder_block(disk)
    _, made, unlinked = (at for at, copies in enumerate(parts.copies) if folder in copies)
    assert unlinked == made + 1
    starts = [parts.copies[made][table], parts.commits[made]]
    starts += parts.heads[made] if lost == "descriptor" else []
    bad = [(start, start + BLOCK) for start in starts] + parts.all_of(made + 1)
    found = fail(disk.image, bad, ALL_SOURCES)
    (file,) = (one for one in found if one.number == number)
    assert file.path in (None, b"/second")


def test_a_name_is_not_given_to_a_file_that_had_gone_before(tmp_path: Path, fail: Fail) -> None:
    """Nothing that can be read tells of the file that had its inode, and the name, afterwards."""
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "folder").mkdir()
    with disk.mounted() as root:
        (root / "folder" / "first").touch()
        number = (root / "folder" / "first").stat().st_ino
        commit(root)
        (root / "folder" / "first").unlink()
        commit(root)
        (root / "folder" / "second").touch()
        assert (root / "folder" / "second").stat().st_ino == number  # or this test tests nothing
        commit(root)
    table, parts = _table_block(disk, number), _parts(disk.image)
    folder = _folder_block(disk)
    _, made, unlinked, named = (at for at, copies in enumerate(parts.copies) if folder in copies)
    starts = [table * BLOCK, folder * BLOCK, *parts.heads[named]]
    starts += [copies[table] for copies in parts.copies[named:] if table in copies]
    starts += [parts.copies[at][folder] for at in (made, unlinked)]
    found = fail(disk.image, [(start, start + BLOCK) for start in starts], ALL_SOURCES)
    (file,) = (one for one in found if one.number == number)
    assert file.path in (None, b"/folder/first")
