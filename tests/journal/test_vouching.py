"""Which contents and names are certain as of a step of debugfs, by times and maps set by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ext4kit.as_of import AsOfFileSystem, UnknownStateError, file_system_as_of
from ext4kit.as_of.content_certainty import _same_runs
from ext4kit.errors import RequestError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.grades import Grade
from ext4kit.parsers.inode import InodeTable
from tests.journal.debugfs_session import FIRST, NOW, SIZE, Session, content
from tests.journal.kernel_log import opened

CHANGED, RECENT = "as-of-inode-changed", "as-of-recent-change"
ONE = content("one", 3)


def as_of(session: Session, transaction: int) -> AsOfFileSystem:
    return file_system_as_of(opened(session.image), transaction)


def doubt(fs: AsOfFileSystem, path: bytes) -> str:
    """The code of why the content is uncertain, or ""."""
    found = fs.content_uncertainty(fs.inode(fs.lookup(path)))
    return found.code if found else ""


@pytest.mark.parametrize(
    ("inode_size", "seconds", "settled"),
    [
        (256, 4, True), (256, 5, True), (256, 6, False),
        (128, 4, True), (128, 5, False), (128, 6, False),
    ],
)  # fmt: skip
def test_a_last_change_has_to_lie_before_the_commit_in_front(
    inode_size: int, seconds: int, settled: bool, tmp_path: Path
) -> None:
    """Transaction 11 is committed 5 seconds and 5 ns after NOW; 128 bytes hold whole seconds."""
    made = Session(tmp_path, f"-I {inode_size}")
    one = made.file("1", ONE)
    made.step("mkdir dir")
    made.step(f"write {one} file", f"sif file ctime @{NOW + seconds}")
    made.step("mkdir other")
    made.finish()
    assert doubt(as_of(made, FIRST + 1), b"/file") == ("" if settled else RECENT)
    assert doubt(as_of(made, FIRST + 2), b"/file") == ""


def test_a_later_change_of_another_inode_shows_that_the_transaction_was_open(
    tmp_path: Path,
) -> None:
    """A time after the commit is none of the transaction: the clock was set back."""
    for seconds, settled in ((9, True), (8, False), (7, False), (900, False)):
        folder = tmp_path / str(seconds)
        folder.mkdir()
        made = Session(folder)
        one = made.file("1", ONE)
        made.step("mkdir dir")
        later = f"sif dir ctime @{NOW + seconds}"
        made.step(f"write {one} file", f"sif file ctime @{NOW + 8}", later)
        made.step("mkdir other")
        made.finish()
        assert doubt(as_of(made, FIRST + 1), b"/file") == ("" if settled else RECENT)


def test_in_the_last_transaction_of_a_mount_all_is_settled(tmp_path: Path) -> None:
    for skipped in (0, 2, 3):
        folder = tmp_path / str(skipped)
        folder.mkdir()
        made = Session(folder)
        one = made.file("1", ONE)
        made.step(f"write {one} file", f"sif file ctime @{NOW + 900}", "mkdir dir")
        made.newest += skipped  # an unmount passes over two ids; the third one was lost
        made.step("mkdir other")
        made.finish()
        assert doubt(as_of(made, FIRST), b"/file") == ("" if skipped == 2 else RECENT)


def _given(content: Content, table: InodeTable) -> list[GradedContent | None]:
    return [GradedContent(content, Grade.INTACT)] * len(table)


def test_a_file_deleted_later_is_certain_by_its_own_blocks_alone(tmp_path: Path) -> None:
    made = Session(tmp_path)
    one = made.file("1", ONE)
    made.step(f"write {one} file", "mkdir dir")
    made.step("mkdir other")
    (block, *_) = made.blocks("/file")
    made.step("rm file", "mkdir another")  # with its inode
    made.finish()
    for first, count, code in (
        (block, 3, ""), (block + 1, 3, "as-of-overwritten"), (block, 2, "as-of-map-changed"),
        (block, 4, ""),
    ):  # fmt: skip
        then = as_of(made, FIRST + 1)
        kept = Content(then.blocks, 3 * SIZE, runs((0, 0, count, first, 0)))
        then.vouch_by(partial(_given, kept), lambda: False)
        assert doubt(then, b"/file") == code, (first - block, count)
    recent = as_of(made, FIRST)  # a write right behind it leaves no record
    kept = Content(recent.blocks, 3 * SIZE, runs((0, 0, 3, block, 0)))
    recent.vouch_by(partial(_given, kept), lambda: False)
    assert doubt(recent, b"/file") == RECENT


@pytest.mark.parametrize(("is_unclean", "code"), [(False, ""), (True, "as-of-unclean")])
def test_no_content_in_place_is_certain_from_before_a_power_cut(
    tmp_path: Path, is_unclean: bool, code: str
) -> None:
    """A write into blocks of a file can have come to the disk, and its inode not to the log."""
    made = Session(tmp_path)
    one = made.file("1", ONE)
    made.step(f"write {one} file")
    made.step("mkdir other")
    made.step("mkdir another")
    made.finish()
    then = as_of(made, FIRST + 1)
    then.vouch_by(lambda table: [None] * len(table), lambda: is_unclean)
    assert doubt(then, b"/file") == code


def test_in_the_newest_transaction_all_is_settled(tmp_path: Path) -> None:
    made = Session(tmp_path)
    one = made.file("1", ONE)
    made.step("mkdir dir")
    made.step(f"write {one} file", f"sif file ctime @{NOW + 900}")
    made.finish()
    assert doubt(as_of(made, FIRST + 1), b"/file") == ""
    torn = Session(tmp_path)
    torn.step("mkdir dir")
    torn.step(f"write {one} file", f"sif file ctime @{NOW + 900}")
    torn.step("ln dir other", commit=False)
    torn.newest -= 1  # the id goes on behind the last committed one
    torn.finish()
    assert doubt(as_of(torn, FIRST + 1), b"/file") == RECENT


def test_a_file_without_a_written_block_is_certain(tmp_path: Path) -> None:
    made = Session(tmp_path)
    one = made.file("1", ONE)
    made.step(f"write {one} file", "fallocate file 10 12", "mkdir dir")
    made.step("punch file 0 2")
    made.step("rm file")
    made.finish()
    then = as_of(made, FIRST + 1)
    assert doubt(then, b"/file") == ""
    file = then.inode(then.lookup(b"/file"))
    assert not any(then.content(file).read(0, file.size))
    assert doubt(as_of(made, FIRST), b"/file") != ""


def test_a_journaled_file_counts_while_its_inode_is_that_of_its_newest_copy(tmp_path: Path) -> None:
    made = Session(tmp_path, journaled=True)
    one = made.file("1", ONE)
    made.step(f"write {one} file", "mkdir dir")
    made.step("sif file uid 7")  # none of what tells that the content is the same
    made.step(f"sif file mtime @{NOW + 7}")
    made.step(f"sif file ctime @{NOW + 300}")
    made.finish()
    doubts = [doubt(as_of(made, FIRST + step), b"/file") for step in range(3)]
    assert [bool(one) for one in doubts] == [False, False, True]
    then = as_of(made, FIRST + 1)
    file = then.inode(then.lookup(b"/file"))
    assert (file.uid, bytes(then.content(file).read(0, file.size))) == (7, ONE)


def test_a_name_in_a_directory_that_is_not_all_known_is_not_called_missing(tmp_path: Path) -> None:
    """The block of `lost+found` is in the log for the first time with the third transaction."""
    made = Session(tmp_path)
    made.step("mkdir dir")
    made.step("mkdir other")
    made.step("ln dir lost+found/late")
    made.finish()
    then = as_of(made, FIRST)
    with pytest.raises(UnknownStateError, match="a part of directory inode 11 is not known as of"):
        then.lookup(b"/lost+found/late")
    with pytest.raises(RequestError):
        then.lookup(b"/dir/late")
    assert as_of(made, FIRST + 2).lookup(b"/lost+found/late") == made.number("/dir")
    (block, *_) = made.blocks("/lost+found")
    rows, known = then.fetch(np.array([block, 1, 4000, block]))
    assert known.tolist()[0] is known.tolist()[3] is False
    assert known.tolist()[1] is True
    assert not rows[0].any()
    assert rows[1].any()
    assert then.fetch(np.zeros(0, np.int64))[0].shape == (0, SIZE)


def test_inodes_whose_table_block_is_not_known(tmp_path: Path) -> None:
    made = Session(tmp_path)
    made.step("mkdir a")  # 12: with 9 to 11 in one block
    made.step("mkdir b", "mkdir c")  # 13 and 14
    made.step("sif <30> mode 0100644")
    made.finish()
    known = as_of(made, FIRST).inodes_known(np.array([2, 9, 12, 13, 16, 30, 40, 0, 9999]))
    assert known.tolist()[1:3] == [True, True]
    assert known.tolist()[3:6] == [False, False, False]
    assert known.tolist()[7:] == [True, True]
    assert as_of(made, FIRST + 1).inodes_known(np.array([13, 30])).tolist() == [True, False]


def runs(*rows: tuple[int, int, int, int, int]) -> Runs:
    return Runs(*np.array(rows, np.int64).reshape(-1, 5).T)


A, B, C = (0, 0, 2, 50, 0), (1, 0, 3, 60, 0), (1, 3, 1, 70, 0)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ((A, B, C), [True, True, True]),
        ((A, B), [True, False, True]),
        ((B, C), [False, True, True]),
        ((A, B, (1, 3, 1, 71, 0)), [True, False, True]),
        ((A, B, (1, 4, 1, 70, 0)), [True, False, True]),
        ((A, B, (1, 3, 2, 70, 0)), [True, False, True]),
        ((A, B, (1, 3, 1, 70, 1)), [True, False, True]),
        ((A, B, C, (2, 0, 1, 5, 0)), [True, True, False]),
    ],
)
def test_maps_are_the_same_owner_by_owner(
    other: tuple[tuple[int, int, int, int, int], ...], same: list[bool]
) -> None:
    assert _same_runs(runs(A, B, C), runs(*other), 3).tolist() == same
    assert _same_runs(runs(*other), runs(A, B, C), 3).tolist() == same
