"""Traps for undelete: images made to tempt it into a wrong word about a deleted file."""

from __future__ import annotations

import atexit
import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ext4kit
from ext4kit.filesystem import FileSystem
from ext4kit.recovery import DeletedFile, Grade, find_deleted, recover
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from sample_images.recipes.machine import (
    check,
    copy_sparse,
    loop_device,
    make_file_system,
    mount,
    mount_point,
    run,
    sync,
    unmount,
)
from tests.writing_kernel import HERE

BLOCK = 4096
BYSTANDER, STOOD_BY = "bystander", b"not concerned" * 3000


class Disk:
    """An image with a file system on it, to be mounted again and again."""

    def __init__(self, folder: Path, *options: str, size: int = 64 << 20) -> None:
        self.image = folder / "image"
        self.where = mount_point()
        atexit.register(self.where.rmdir)
        make_file_system(self.image, size, options)

    @contextmanager
    def mounted(self, options: str = "rw", logs: bool = True) -> Iterator[Path]:
        """A mount; where it writes the log anew it logs what traps ask of, unless told not to."""
        with loop_device(self.image) as device:
            mount(device, self.where, options)
            try:
                if logs:
                    log_again(self.where)
                yield self.where
                sync(self.where)
            finally:
                unmount(self.where)

    @contextmanager
    def cut_off(self) -> Iterator[Path]:
        """A mount that ends with the power, and e2fsck afterwards."""
        copy = self.image.with_suffix(".copy")
        with self.mounted() as root:
            yield root
            sync(root)
            copy_sparse(self.image, copy)
        copy.replace(self.image)
        check(self.image)

    def with_bystander(self) -> None:
        """Write the file that no trap touches, in a mount of its own: it is on the disk."""
        with self.mounted() as root:
            (root / BYSTANDER).write_bytes(STOOD_BY)

    def bystander_is_intact(self) -> bool:
        """Whether it is told from what was trapped: else caution would be no more than silence."""
        file = self.deleted()[b"/" + os.fsencode(BYSTANDER)]
        return file.grade is HERE.best and content(file) == STOOD_BY

    def forget(self) -> None:
        """Give it a new log, which knows of nothing that is there."""
        run("tune2fs", "-O", "^has_journal", self.image)
        run("tune2fs", "-J", "size=4", self.image)

    def file_system(self) -> FileSystem:
        return ext4kit.open(self.image).volume().filesystem()

    def deleted(self, versions: bool = False) -> dict[bytes | None, DeletedFile]:
        return {
            file.path: file
            for file in find_deleted(self.file_system(), versions, sources=JOURNAL_ONLY)
        }


def content(file: DeletedFile) -> bytes:
    stream = file.content()
    assert stream is not None
    return b"".join(bytes(chunk.data or bytes(chunk.length)) for chunk in stream.chunks())


def log_again(root: Path) -> None:
    """Where a mount writes the log anew: log the names in the root and the first inodes again.

    Where the kernel counts changes and times are ticks of the clock, show that it counts: a write
    in the tick of the one before is not counted, a change of attributes always is.
    """
    if not HERE.log_goes_on:
        (root / f"seen at {time.time_ns()}").touch()
        sync(root)
    if HERE.counts_changes and not HERE.has_fine_times:
        (root / "counted").touch()
        sync(root)
        (root / "counted").chmod(0o600)
        sync(root)


def remove(*paths: Path) -> None:
    """Remove in a transaction of its own."""
    for path in paths:
        path.unlink()
    sync(paths[0].parent)


def commit(root: Path) -> None:
    """End the transaction, but write neither other files' data nor metadata to its place."""
    with (root / "other").open("wb") as stream:
        os.fsync(stream.fileno())


# -- paths ------------------------------------------------------------------------------------


@pytest.mark.kernel
def test_a_name_is_gone_once_its_block_became_an_index(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-b", "1024")
    with disk.mounted() as root:
        (root / "a").mkdir()
        (root / "b").mkdir()
        (root / "a" / "moved").write_bytes(b"x" * 3000)
        sync(root)
        for number in range(200):
            (root / "a" / f"a long name that fills the block {number}").touch()
        sync(root)
        (root / "a" / "moved").rename(root / "b" / "renamed")
        sync(root)
        remove(root / "b" / "renamed")
    assert disk.deleted()[b"/b/renamed"].grade.is_whole
    assert b"/a/moved" not in disk.deleted()


@pytest.mark.kernel
@pytest.mark.parametrize("options", [(), ("-O", "inline_data")], ids=["blocks", "inline"])
def test_a_path_is_the_one_from_before_the_directory_was_moved(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-b", "1024", *options)
    with disk.mounted() as root:
        (root / "early").mkdir()
        for number in range(40):
            (root / "early" / f"an entry {number}").write_bytes(b"text" * 100)
        sync(root)
        remove(root / "early" / "an entry 7")
        (root / "new").mkdir()
        (root / "early").rename(root / "new" / "late")
        sync(root)
        for number in range(40):
            (root / "new" / f"an entry {number}").touch()
        sync(root)
    assert b"/early/an entry 7" in disk.deleted()


@pytest.mark.kernel
def test_an_inline_directory_that_grew_into_blocks_keeps_no_old_names(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-O", "inline_data")
    with disk.mounted() as root:
        (root / "a").mkdir()
        (root / "a" / "f").write_bytes(b"x" * 9000)
        sync(root)
        for number in range(30):
            (root / "a" / f"filler {number}").touch()
        sync(root)
        (root / "a" / "f").rename(root / "g")
        sync(root)
        remove(root / "g")
    assert set(disk.deleted()) == {b"/g"}


@pytest.mark.kernel
@pytest.mark.parametrize("options", [(), ("-I", "128")], ids=["fine times", "whole seconds"])
def test_a_rename_in_the_first_transaction_with_its_block_is_not_taken_for_older(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    disk = Disk(tmp_path, "-t", "ext4", *options)
    with disk.mounted() as root:
        for name in ("moved", "left"):
            (root / "p" / name / "sub").mkdir(parents=True)
            (root / "p" / name / "sub" / f"in {name}").write_bytes(b"x" * 9000)
    disk.forget()
    time.sleep(1.1)  # else a time of whole seconds cannot tell that "left" is the older one
    with disk.mounted() as root:
        for number in range(2):
            for name in ("moved", "left"):
                (root / "p" / name / "sub" / f"other {number}").touch()
            sync(root)
        for name in ("moved", "left"):
            (root / "p" / name / "sub" / f"in {name}").unlink()
        (root / "p" / "moved").rename(root / "p" / "later")
        sync(root)
    found = find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    paths = {file.name: file.path for file in found}
    assert paths == {b"in moved": None, b"in left": b"/p/left/sub/in left"}


@pytest.mark.kernel
def test_a_directory_without_a_state_in_the_log_is_below_what_its_parent_was_called(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        folder = root
        for name in ("early", "d", "e"):
            folder /= name
            folder.mkdir()
            for number in range(40):  # so that the next inode lies in another block
                (folder / f"filler {number}").touch()
        (root / "early" / "d" / "e" / "file").write_bytes(b"x" * 9000)
    disk.forget()
    with disk.mounted() as root:
        (root / "other").touch()
        (root / "early" / "d" / "e" / "other").touch()
        sync(root)
        remove(root / "early" / "d" / "e" / "file")
        (root / "early").rename(root / "late")
        sync(root)
    assert set(disk.deleted()) == {b"/early/d/e/file"}


@pytest.mark.kernel
@pytest.mark.parametrize("moves", [True, False], ids=["moved", "left"])
def test_what_lost_transactions_may_have_renamed_gives_no_path(tmp_path: Path, moves: bool) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        (root / "p" / "d").mkdir(parents=True)
        (root / "p" / "d" / "file").write_bytes(b"x" * 9000)
        (root / "busy").mkdir()
    disk.forget()
    with disk.cut_off() as root:
        for number in range(30):
            (root / "busy" / f"{number}").touch()
            sync(root)
        (root / "p" / "d" / "other").touch()
        sync(root)
        remove(root / "p" / "d" / "file")
    with disk.cut_off() as root:
        (root / "p" / "d").rename(root / "p" / "later") if moves else (root / "new").touch()
    with disk.mounted() as root:  # it writes over the log of the mount before
        for number in range(10):
            (root / "busy" / f"{number} again").touch()
            sync(root)
    assert set(disk.deleted()) == {None if moves else b"/p/d/file"}


@pytest.mark.kernel
def test_directories_a_thousand_deep_get_their_path_and_are_written(tmp_path: Path) -> None:
    disk, depth = Disk(tmp_path, "-t", "ext4", "-J", "size=16"), 1100
    home = Path.cwd()
    with disk.mounted() as root:
        try:
            os.chdir(root)
            for _ in range(depth):
                Path("d").mkdir()
                os.chdir("d")
            Path("leaf").write_bytes(b"deep" * 999)
            sync(root)
            remove(Path("leaf"))
            for _ in range(depth):
                os.chdir("..")
                Path("d").rmdir()
        finally:
            os.chdir(home)
    found = find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    assert [file.path for file in found if file.kind == "file"] == [b"/d" * depth + b"/leaf"]
    out = tmp_path / "out"
    assert recover(found, out).written == 1
    run("rm", "-r", out)  # deeper than what Python removes


# -- contents ---------------------------------------------------------------------------------


@pytest.mark.kernel
def test_a_long_symlinks_target_comes_from_the_log(tmp_path: Path) -> None:
    disk, target = Disk(tmp_path, "-t", "ext4"), "t" * 200
    with disk.mounted() as root:
        (root / "link").symlink_to(target)
        commit(root)
        remove(root / "link")
    assert disk.deleted()[b"/link"].link_target == target.encode()


@pytest.mark.kernel
@pytest.mark.parametrize("changes", [True, False], ids=["changed", "left alone"])
def test_what_a_fast_commit_changed_unseen_is_not_called_intact(
    tmp_path: Path, changes: bool
) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-O", "fast_commit")
    before, after = b"a" * 40 * BLOCK, b"a" * 35 * BLOCK + b"b" * 10 * BLOCK
    with disk.mounted() as root:
        (root / "file").write_bytes(before)
    with disk.mounted() as root:
        if changes:
            with (root / "file").open("r+b", buffering=0) as stream:
                stream.seek(35 * BLOCK)
                stream.write(after[35 * BLOCK :])
                os.fsync(stream.fileno())
        remove(root / "file")
    file = disk.deleted()[b"/file"]
    if changes:
        assert content(file) in (before, after) or file.grade != "intact"
    else:
        assert (content(file), file.grade) == (before, HERE.of_whole_blocks(HERE.best))


@pytest.mark.kernel
def test_journaled_bytes_are_not_mixed_with_later_ones_unseen(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "file").write_bytes(b"a" * 10 * BLOCK)
    with disk.mounted("data=journal") as root, (root / "file").open("r+b") as stream:
        stream.seek(BLOCK)
        stream.write(b"b" * 2 * BLOCK)
    with disk.mounted() as root:
        with (root / "file").open("r+b") as stream:
            stream.write(b"c" * 3 * BLOCK)
        sync(root)
        remove(root / "file", root / BYSTANDER)
    file = disk.deleted()[b"/file"]
    assert content(file) == b"c" * 3 * BLOCK + b"a" * 7 * BLOCK or file.grade == "partial"
    assert disk.bystander_is_intact()


@pytest.mark.kernel
def test_a_size_that_was_committed_before_its_bytes_is_not_intact(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "file").write_bytes(b"never reaches the disk" * 900)
        os.truncate(root / "file", 30000)
        commit(root)
        remove(root / "file", root / BYSTANDER)
    assert disk.deleted()[b"/file"].grade != "intact"
    assert disk.bystander_is_intact()


@pytest.mark.kernel
@pytest.mark.parametrize("passes", [True, False], ids=["reused", "left alone"])
def test_blocks_reused_within_one_transaction_show_at_the_files_end(
    tmp_path: Path, passes: bool
) -> None:
    disk = Disk(tmp_path, "-t", "ext4", size=16 << 20)
    with disk.mounted() as root:
        free = os.statvfs(root).f_bavail * BLOCK
        (root / "file").write_bytes((b"mine" * (free // 4))[: free // 4 * 3 + 5])
    with disk.mounted() as root:
        remove(root / "file")
        if passes:
            _write_and_remove(root / "passing", free // BLOCK // 16 - 8)
    raw = disk.image.read_bytes()
    # It was written, and no transaction says where.
    assert (raw.count(b"\xff" * 16 * BLOCK) > 8) == passes
    assert disk.deleted()[b"/file"].grade is (Grade.PARTIAL if passes else HERE.best)


def _write_and_remove(path: Path, pieces: int) -> None:
    """A file that no transaction tells of, though its bytes reach the disk."""
    with path.open("wb", buffering=0) as stream:
        for _ in range(pieces):
            stream.write(b"\xff" * 16 * BLOCK)
        everything = ctypes.c_long(0)
        ctypes.CDLL(None).sync_file_range(stream.fileno(), everything, everything, 7)
    remove(path)


@pytest.mark.kernel
def test_an_earlier_state_that_shares_blocks_with_a_later_one_is_not_intact(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    disk.with_bystander()
    with disk.mounted() as root:
        (root / "file").write_bytes(b"a" * 20 * BLOCK)
        sync(root)
        os.truncate(root / "file", 10 * BLOCK)
        with (root / "file").open("r+b") as stream:
            stream.write(b"b" * 5 * BLOCK)
        sync(root)
        remove(root / "file", root / BYSTANDER)
    found = find_deleted(disk.file_system(), versions=True, sources=JOURNAL_ONLY).files
    earlier = [file for file in found if file.superseded and file.size == 20 * BLOCK]
    assert [str(file.grade) for file in earlier] == ["partial"]
    assert disk.bystander_is_intact()


# -- images that no kernel makes --------------------------------------------------------------


def written(tmp_path: Path, *commands: str) -> Disk:
    """A disk that debugfs filled; it leaves the maps of what it removes."""
    disk = Disk(tmp_path, "-t", "ext2", size=8 << 20)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(name.encode() * 9 * BLOCK)
    for command in commands:
        run("debugfs", "-w", "-R", command, disk.image)
    return disk


def test_two_freed_inodes_with_the_same_blocks_are_not_both_intact(tmp_path: Path) -> None:
    disk = written(
        tmp_path,
        f"write {tmp_path}/a a",
        f"write {tmp_path}/c c",
        "rm a",
        "seti <12>",  # so that the next file gets another inode and the same blocks
        f"write {tmp_path}/b b",
        "rm b",
        "rm c",
        "freei <12>",
        *(f"sif <{number}> dtime 1700000000" for number in (12, 13, 14)),
    )
    found = {file.number: file for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)}
    assert found.keys() == {12, 13, 14}
    assert found[12].grade != "intact"  # b has its blocks now, whoever has the name
    assert found[14].grade != "intact" or content(found[14]) == b"b" * 9 * BLOCK
    assert (content(found[13]), str(found[13].grade)) == (b"c" * 9 * BLOCK, "consistent")


def test_a_map_that_lacks_blocks_the_inode_counts_is_not_intact(tmp_path: Path) -> None:
    writes = (f"write {tmp_path}/{name} {name}" for name in "ab")
    disk = written(tmp_path, *writes, "sif a blocks 200", "rm a", "rm b")
    grades = {
        file.number: str(file.grade)
        for file in find_deleted(disk.file_system(), sources=JOURNAL_ONLY)
    }
    assert grades == {12: "partial", 13: "consistent"}  # no journal tells of later writes


def test_a_superblock_that_counts_without_end_takes_no_memory(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-O", "^metadata_csum,64bit", size=8 << 20)
    with disk.image.open("r+b") as image:
        image.seek(1024 + 0x150)  # s_blocks_count_hi
        image.write(b"\xff\xff\xff\x7f")
    assert len(disk.file_system().groups) == 1


@pytest.mark.kernel
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a moment"])
def test_inline_data_is_not_the_whole_of_a_file_that_outgrew_it(
    tmp_path: Path, waits: bool
) -> None:
    """The inode has the old bytes and the old size until writeback takes blocks."""
    disk = Disk(tmp_path, "-t", "ext4", "-O", "inline_data")
    names, old = ("grows", "stays"), b"in the inode"
    with disk.mounted() as root:
        for name in names:
            (root / name).write_bytes(old)
    with disk.mounted() as root:
        (root / "new").touch()
        sync(root)
        with (root / "grows").open("ab") as stream:
            stream.write(b"too much for it" * 200)
        if waits:
            time.sleep(0.1)
        remove(*(root / name for name in names))
    found = disk.deleted()
    assert found[b"/grows"].grade == "partial"
    assert (found[b"/stays"].grade, content(found[b"/stays"])) == (HERE.best, old)
