"""Traps for paths: each asks that no path is told that the file never had."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from ext4kit.history.places import Ground
from ext4kit.recovery import find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES, JOURNAL_ONLY
from sample_images.recipes.machine import check, copy_sparse, run, sync, truncate
from tests.recovery.test_traps import BYSTANDER, Disk, commit, content, remove

pytestmark = pytest.mark.kernel
PLAIN = BYSTANDER.encode()  # in the root, which no trap moves: its path is always known


def paths(disk: Disk) -> dict[bytes | None, bytes | None]:
    """Name to path of every deleted file that has a name, by all sources.

    Not where its directory stands now: that says itself that it may have stood elsewhere then.
    """
    named = [file for file in find_deleted(disk.file_system(), sources=ALL_SOURCES) if file.name]
    sure = {file.name: file.path for file in named if file.path_ground != Ground.PRESENT_PLACE}
    return {file.name: sure.get(file.name) for file in named}


def remove_bystander(root: Path) -> None:
    """Its name goes to the log first."""
    (root / "beside it").touch()
    sync(root)
    remove(root / BYSTANDER)


def wait_for_a_new_second() -> None:
    """Until all that follows at once has the same time in whole seconds."""
    time.sleep(1.0 - time.time() % 1.0)


def test_a_name_from_before_lost_transactions_is_not_put_below_a_later_one(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "p" / "d").mkdir(parents=True)
        (root / "q").mkdir()
        (root / "p" / "d" / "file").write_bytes(b"x" * 9000)
        (root / "busy").mkdir()
    disk.forget()
    with disk.cut_off() as root:
        (root / "p" / "d" / "other").touch()
        (root / "p" / "d" / "file").chmod(0o600)
        sync(root)
        for number in range(30):
            (root / "busy" / f"{number}").touch()
            sync(root)
        (root / "p" / "d" / "other").unlink()
        sync(root)
    with disk.cut_off() as root:
        (root / "p" / "d" / "file").rename(root / "q" / "another")
        (root / "p" / "d").rename(root / "p" / "later")
    with disk.mounted() as root:  # it writes over the log of the mount before
        (root / "p" / "later" / "new").touch()
        sync(root)
        remove(root / "q" / "another")
        for number in range(10):
            (root / "busy" / f"{number} again").touch()
            sync(root)
        remove_bystander(root)
    found = paths(disk)
    assert found.get(b"file") in (None, b"/p/d/file")
    assert found.get(b"another") in (None, b"/q/another")
    assert found[PLAIN] == b"/" + PLAIN


def test_a_directory_had_no_name_that_came_after_another_one(tmp_path: Path) -> None:
    """With times in whole seconds nothing but the names' own order tells which came first."""
    disk = Disk(tmp_path, "-t", "ext4", "-I", "128")
    disk.with_bystander()
    with disk.mounted() as root:
        for name in ("a", "b", "c"):
            (root / name).mkdir()
        (root / "a" / "early").mkdir()
        (root / "a" / "early" / "file").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        wait_for_a_new_second()
        (root / "a" / "early" / "other").touch()
        sync(root)
        remove(root / "a" / "early" / "file")
        (root / "a" / "early").rename(root / "b" / "later")
        sync(root)
        (root / "b" / "later").rename(root / "c" / "last")
        sync(root)
        remove_bystander(root)
    found = paths(disk)
    assert found[b"file"] in (None, b"/a/early/file")
    assert found[PLAIN] == b"/" + PLAIN


def test_a_copy_without_a_descriptor_is_put_where_its_directory_was_then(tmp_path: Path) -> None:
    disk, many = Disk(tmp_path, "-t", "ext4"), 230
    moved = range(165, many, 5)  # one of them is copied where the log is just written over
    disk.with_bystander()
    with disk.mounted() as root:
        for number in range(many):
            (root / f"{number}").mkdir()
        for number in moved:
            (root / f"{number}" / f"in {number}").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        for number in range(many):
            (root / f"{number}" / "a").touch()
        sync(root)
        for number in moved:
            (root / f"{number}" / f"in {number}").unlink()
            (root / f"{number}").rename(root / f"later {number}")
        sync(root)
        for turn in range(8):  # until the log's first descriptor is written over
            for number in range(60, 160):
                (root / f"{number}" / f"{turn}").hardlink_to(root / "0" / "a")
            sync(root)
        remove_bystander(root)
    found = paths(disk)
    right = {b"in %d" % number: b"/%d/in %d" % (number, number) for number in moved}
    assert {name: path for name in right if (path := found.get(name))}.items() <= right.items()
    assert found[PLAIN] == b"/" + PLAIN


def test_a_deleted_directory_is_where_it_was_then_and_not_where_it_was_moved_later(
    tmp_path: Path,
) -> None:
    """The journal shows the directory above the file's own one only after the file was removed."""
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "b").mkdir()
        (root / "a" / "p" / "d").mkdir(parents=True)
        (root / "a" / "p" / "d" / "file").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        (root / "a" / "p" / "d" / "other").touch()
        sync(root)
        remove(root / "a" / "p" / "d" / "file")
        (root / "a" / "p" / "new").touch()
        (root / "a" / "new").touch()
        sync(root)
        (root / "a" / "p").rename(root / "b" / "w")
        sync(root)
        shutil.rmtree(root / "b" / "w")
        sync(root)
    found = {
        file.name: file.path for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    }
    assert found[b"new"] == b"/b/w/new"
    assert found[b"file"] in (None, b"/a/p/d/file")


def test_a_directory_without_subdirectories_did_not_hold_the_one_moved_in_later(
    tmp_path: Path,
) -> None:
    """The first copy of the directory above is that of the move: the name before it is lost."""
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "q").mkdir()
        (root / "a" / "d").mkdir(parents=True)
        (root / "a" / "d" / "file").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        (root / "a" / "d" / "other").touch()
        sync(root)
        remove(root / "a" / "d" / "file")
        time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
        (root / "a" / "d").rename(root / "q" / "e")
        (root / "q" / "e" / "new").touch()
        remove_bystander(root)
    found = {
        file.name: file.path for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    }
    assert found[b"file"] in (None, b"/a/d/file")
    assert found[PLAIN] == b"/" + PLAIN


def test_a_deleted_directory_did_not_stand_where_its_only_known_name_was_added_later(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "q").mkdir()
        (root / "a" / "d").mkdir(parents=True)
        (root / "a" / "d" / "file").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        (root / "a" / "d" / "other").touch()
        (root / "q" / "beside").touch()
        sync(root)
        remove(root / "a" / "d" / "file")
        sync(root)
        time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
        (root / "a" / "d").rename(root / "q" / "e")
        sync(root)
        time.sleep(0.05)
        shutil.rmtree(root / "q" / "e")
        remove_bystander(root)
    found = {
        file.name: file.path for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    }
    assert found[b"file"] in (None, b"/a/d/file")
    assert found[b"other"] == b"/q/e/other"
    assert found[PLAIN] == b"/" + PLAIN


@pytest.mark.parametrize("logged", [True, False])
def test_a_directory_that_a_check_connected_did_not_stand_there_before(
    tmp_path: Path, logged: bool
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "a" / "p" / "d").mkdir(parents=True)
        (root / "a" / "p" / "d" / "file").write_bytes(b"x" * 9000)
        (root / "last").touch()  # a check does not read inodes after the last one in use
    time.sleep(1.1)  # a check tells whole seconds
    if logged:
        with disk.mounted() as root:
            (root / "a" / "p" / "d" / "other").touch()
            sync(root)
            remove(root / "a" / "p" / "d" / "file")
    else:
        run("debugfs", "-w", "-R", "rm /a/p/d/file", disk.image)  # leaves the entry in its place
        disk.forget()
    run("debugfs", "-w", "-R", "unlink /a/p", disk.image)
    check(disk.image)
    files = find_deleted(disk.file_system(), sources=ALL_SOURCES)
    found = {file.name: file.path for file in files}
    assert found[b"file"] in (None, b"/a/p/d/file")


def test_a_directory_that_a_check_made_had_no_files_of_one_before_it(tmp_path: Path) -> None:
    """The new lost+found has the number of a directory that went; no checksum tells them apart."""
    disk = Disk(tmp_path, "-t", "ext3")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "gap").write_bytes(b"x" * 90_000)  # room that the check takes first
        sync(root)
        (root / "d").mkdir()
        for number in range(3):
            (root / "d" / f"file {number}").write_bytes(b"x" * 9000)
    with disk.mounted() as root:
        truncate(root / "gap", 0)
        (root / "lost+found").rename(root / "kept")
        wait_for_a_new_second()
        for number in range(3):
            (root / "d" / f"file {number}").unlink()
        (root / "d").rmdir()
    run("tune2fs", "-O", "^has_journal", disk.image)
    check(disk.image)
    run("tune2fs", "-J", "size=4", disk.image)
    with disk.mounted() as root:
        (root / "new").touch()
        remove_bystander(root)
    found = paths(disk)
    for number in range(3):
        name = b"file %d" % number
        assert found.get(name) in (None, b"/d/" + name)
    assert found[PLAIN] == b"/" + PLAIN


def test_bytes_written_after_the_blocks_were_taken_are_not_vouched_for(tmp_path: Path) -> None:
    """A rename over a file takes the blocks; what is written then waits, and no commit for it."""
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "file").touch()
        sync(root)
        (root / "file~").write_bytes(b"older" * 9000)
        (root / "file~").rename(root / "file")
        (root / "file").stat()  # the next time is a finer one, and no longer the same
        with (root / "file").open("r+b") as stream:
            os.fstat(stream.fileno())
            stream.write(b"newer" * 9000)
        commit(root)
        remove(root / "file", root / BYSTANDER)
    written = [
        one
        for one in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
        if one.name == b"file" and one.size
    ]
    assert [one.size for one in written] == [len(b"newer" * 9000)]
    assert content(written[0]) == b"newer" * 9000 or written[0].grade != "intact"
    assert disk.bystander_is_intact()


def test_a_name_in_a_fast_commit_means_the_file_that_has_the_inode_then(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-O", "fast_commit")
    copy = disk.image.with_suffix(".copy")
    with disk.mounted() as root:
        (root / "first").write_bytes(b"x" * 9000)
        (root / "second").write_bytes(b"z" * 9000)
        sync(root)
        number = (root / "first").stat().st_ino
        (root / "first").unlink()
        (root / "second").chmod(0o600)
        with (root / "second~").open("wb") as stream:
            stream.write(b"y" * 5000)
            os.fsync(stream.fileno())  # a fast commit
            assert os.fstat(stream.fileno()).st_ino == number
            (root / "second~").rename(root / "second")
            os.fsync(stream.fileno())
        copy_sparse(disk.image, copy)
    copy.replace(disk.image)
    deleted = find_deleted(disk.file_system(), sources=ALL_SOURCES)
    assert {file.path for file in deleted if file.number == number} == {b"/first"}


def test_a_directory_had_another_place_before_the_log_shows_its_name_as_new(
    tmp_path: Path,
) -> None:
    """The count of links does not tell: a directory went from there as the other one came."""
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "q" / "x").mkdir(parents=True)
        (root / "a" / "d").mkdir(parents=True)
        (root / "a" / "d" / "file").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        (root / "a" / "d" / "other").touch()
        (root / "q" / "beside").touch()
        sync(root)
        remove(root / "a" / "d" / "file")
        time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
        (root / "a" / "d").rename(root / "q" / "e")
        (root / "q" / "x").rmdir()
        (root / "q" / "e" / "new").touch()
        remove_bystander(root)
    found = {
        file.name: file.path for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    }
    assert found[b"file"] in (None, b"/a/d/file")
    assert found[PLAIN] == b"/" + PLAIN


def test_a_directory_whose_entry_came_to_another_block_has_had_no_other_place(
    tmp_path: Path,
) -> None:
    """A directory of one block gets an index, which moves all of its entries."""
    disk = Disk(tmp_path, "-t", "ext4", "-b", "1024")
    disk.with_bystander()
    folders = [f"d{number}" for number in range(8)]
    with disk.mounted() as root:
        for name in folders:
            (root / "a" / name).mkdir(parents=True)
            (root / "a" / name / f"in {name}").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        for name in folders:
            (root / "a" / name / "other").touch()
        sync(root)
        for name in folders:
            remove(root / "a" / name / f"in {name}")
        (root / "a" / "first").touch()
        sync(root)
        time.sleep(0.05)  # the kernel's clock for times of files moves in ticks
        for number in range(60):
            (root / "a" / f"a name that fills the block {number}").touch()
        remove_bystander(root)
    found = {
        file.name: file.path for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    }
    assert {found[f"in {name}".encode()] for name in folders} == {
        f"/a/{name}/in {name}".encode() for name in folders
    }
