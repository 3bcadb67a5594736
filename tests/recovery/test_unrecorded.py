"""Writes of which the kernel leaves no record: a file that they may have changed is not intact.

Each scene changes what comes back of the file, which the test asserts first. Its twin leaves the
change out: there the file has the expected grade, so that caution is no more than silence.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4kit.journal import Log
from ext4kit.recovery import DeletedFile, Grade
from sample_images.recipes import syscalls
from sample_images.recipes.contents import noise
from sample_images.recipes.machine import check, loop_device, mount, run, sync, unmount
from sample_images.recipes.syscalls import Cut, Fallocate
from tests.powercut.test_cut_scenes import powered_off
from tests.recovery.test_traps import BLOCK, Disk, commit, content, log_again, remove
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel
FILE = b"/file"
OLD = noise("old", 24 * BLOCK)
# Of files of whole blocks, as OLD is one:
BEST, WITH_DOUBT = (HERE.of_whole_blocks(one) for one in (HERE.best, Grade.CONSISTENT))
SPARE, STEP = 4, 64 * BLOCK  # blocks left for the map; bytes of a write
FORMER = 12  # files that had the blocks before
STRANGER = noise("stranger", 8 << 20)  # more than all that is free


def fill_up(root: Path) -> None:
    """Leave no more free space than some small files take."""
    free = os.statvfs(root)
    (root / "filler").write_bytes(b"\1" * (free.f_bfree * free.f_frsize - (4 << 20)))
    Path(root / "grows").write_bytes(b"")


def settled(folder: Path, data: bytes = OLD, *options: str) -> Disk:
    """A small disk with a file that was unmounted since it was written."""
    disk = Disk(folder, *(options or ("-t", "ext4")), size=24 << 20)
    with disk.mounted() as root:
        fill_up(root)
        (root / "file").write_bytes(data)
    return disk


def came_back(disk: Disk) -> DeletedFile:
    return disk.deleted()[FILE]


# -- whole blocks of another file --------------------------------------------------------------


def _write_all(handle: int) -> None:
    """Fill all free blocks, past the page cache: what is written is on the disk at once."""
    device = os.fstat(handle).st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").readlink().name
    Path(f"/sys/fs/ext4/{name}/reserved_clusters").write_text("0")
    free = os.fstatvfs(handle)
    size = (free.f_bfree - SPARE) * BLOCK
    for offset in range(0, size, STEP):
        end = min(offset + STEP, size)
        syscalls.write_directly(handle, offset, STRANGER[offset:end])


def created_and_deleted(root: Path) -> None:
    handle = os.open(root / "passing", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    _write_all(handle)
    os.close(handle)
    (root / "passing").unlink()


def without_a_name(root: Path) -> None:
    handle = os.open(root, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    _write_all(handle)
    os.close(handle)


def grown_and_truncated(root: Path) -> None:
    handle = os.open(root / "grows", os.O_RDWR | os.O_DIRECT)
    _write_all(handle)
    os.ftruncate(handle, 0)
    os.close(handle)


def allocated_and_punched(root: Path) -> None:
    handle = os.open(root / "grows", os.O_RDWR | os.O_DIRECT)
    _write_all(handle)
    everything = Fallocate.PUNCH_HOLE | Fallocate.KEEP_SIZE
    syscalls.fallocate(handle, everything, 0, len(STRANGER))
    os.ftruncate(handle, 0)
    os.close(handle)


def nothing(root: Path) -> None:
    """The twin."""


WRITERS = (created_and_deleted, without_a_name, grown_and_truncated, allocated_and_punched)


@contextmanager
def cut_short(disk: Disk) -> Iterator[Path]:
    """A mount that ends with the power: what was not committed is lost."""
    with loop_device(disk.image) as device:
        mount(device, disk.where, "rw")
        try:
            log_again(disk.where)
            yield disk.where
            syscalls.shut_down(disk.where, Cut.AT_ONCE)
        finally:
            unmount(disk.where)


def nothing_is_intact(disk: Disk) -> bool:
    return Grade.INTACT not in {file.grade for file in disk.deleted().values()}


def delete_and(disk: Disk, writes: Callable[[Path], None], ends: str) -> DeletedFile | None:
    """The file is deleted and the transaction committed; then another file takes its blocks.

    None where a later mount wrote over what the log had of the file.
    """
    with disk.mounted() if ends == "unmounted" else cut_short(disk) as root:
        remove(root / "file")
        writes(root)
    if ends == "replayed":
        with disk.mounted(logs=False):
            pass
        if not HERE.log_goes_on:
            assert nothing_is_intact(disk)
            return None
    elif ends == "checked":
        check(disk.image)
    return came_back(disk)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["ext4", "ext3"])
@pytest.mark.parametrize("ends", ["unmounted", "cut", "replayed", "checked"])
@pytest.mark.parametrize("writes", WRITERS)
def test_whole_blocks_of_a_passing_file(
    tmp_path: Path, writes: Callable[[Path], None], ends: str, kind: str
) -> None:
    file = delete_and(settled(tmp_path, OLD, "-t", kind), writes, ends)
    assert file is not None or not HERE.log_goes_on
    if file is not None:
        assert content(file) != OLD  # or this scene tests nothing
        assert file.grade is not Grade.INTACT


@pytest.mark.parametrize("kind", ["ext4", "ext3"])
def test_where_no_file_was_written_later_it_is_intact(tmp_path: Path, kind: str) -> None:
    file = delete_and(settled(tmp_path, OLD, "-t", kind), nothing, "unmounted")
    assert file is not None
    assert (file.grade, content(file)) == (BEST, OLD)


@pytest.mark.parametrize("ends", ["cut", "replayed", "checked"])
def test_where_the_power_was_cut_it_is_consistent(tmp_path: Path, ends: str) -> None:
    file = delete_and(settled(tmp_path), nothing, ends)
    assert file is not None or not HERE.log_goes_on
    if file is not None:
        assert (file.grade, content(file)) == (WITH_DOUBT, OLD)


@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_power_cuts_are_told_by_how_often_it_was_mounted(tmp_path: Path, cuts: int) -> None:
    """A cut right behind a recovery leaves the transaction ids of an unmount."""
    disk = settled(tmp_path)
    with disk.mounted() as root:
        (root / "other").write_bytes(OLD)
    with cut_short(disk) if cuts else disk.mounted() as root:
        remove(root / "file")
        if cuts:
            handle = os.open(root / "grows", os.O_RDWR | os.O_DIRECT)
            _write_all(handle)
            os.close(handle)
    for _ in range(cuts - 1):
        with powered_off(disk):
            pass  # the log was recovered, and nothing committed
    with disk.mounted() as root:
        remove(root / "other")  # nothing is written any more
    if not HERE.log_goes_on:  # this mount wrote over what tells of the file
        assert nothing_is_intact(disk)
        return
    file = came_back(disk)
    assert (content(file) == OLD) == (not cuts)
    assert file.grade is (Grade.CONSISTENT if cuts else Grade.INTACT)


def test_a_file_that_waited_for_blocks_and_went_with_them(tmp_path: Path) -> None:
    """It takes its blocks and gives them back in one transaction: no state shows them."""
    most = noise("most", 768 * BLOCK)  # of what is free
    disk = settled(tmp_path, most)
    with disk.mounted() as root:
        remove(root / "file")
        with (root / "grows").open("r+b") as stream:
            stream.write(STRANGER[: 320 * BLOCK])
            stream.flush()
            commit(root)
            syscalls.flush(stream.fileno())
        (root / "grows").unlink()
    file = came_back(disk)
    assert content(file) != most
    assert file.grade is WITH_DOUBT


@pytest.mark.parametrize("named", [True, False], ids=["named", "without a name"])
def test_a_file_that_was_written_in_the_tick_in_which_it_was_made(
    tmp_path: Path, named: bool
) -> None:
    """The transactions of its making and its end can be so near that `i_version` counts nothing."""
    most = noise("most", 768 * BLOCK)  # of what is free
    disk = settled(tmp_path, most)
    with disk.mounted() as root:
        remove(root / "file")
        with mmap.mmap(-1, 320 * BLOCK) as aligned:
            aligned[:] = STRANGER[: len(aligned)]
            flags = os.O_RDWR | os.O_DIRECT | (os.O_CREAT if named else os.O_TMPFILE)
            handle = os.open(root / "passing" if named else root, flags, 0o600)
            os.fsync(handle)
            os.pwrite(handle, aligned, 0)
            os.close(handle)
        (root / "passing").unlink(missing_ok=True)
    file = came_back(disk)
    assert content(file) != most
    assert file.grade is WITH_DOUBT


def test_no_file_waits_for_blocks_behind_an_unmount(tmp_path: Path) -> None:
    """Another one was written in place last: since then it may have waited, until the unmount."""
    disk = settled(tmp_path)
    with disk.mounted() as root:
        (root / "other").write_bytes(NEWER)
        sync(root)
        with (root / "other").open("r+b") as stream:
            stream.write(NEWER[::-1])
    with disk.mounted() as root:
        remove(root / "file")
        remove(root / "other")
    file = came_back(disk)
    assert (file.grade, content(file)) == (BEST, OLD)


# -- changes in the transaction of the deletion --------------------------------------------------

NEWER = noise("newer", 2 * BLOCK)


def appends(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(NEWER)


def overwrites(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.write(NEWER)


def writes_past_the_cache(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_DIRECT)
    syscalls.write_directly(handle, 0, NEWER)
    os.close(handle)


def collapses(path: Path) -> None:
    with path.open("r+b") as stream:
        syscalls.fallocate(stream.fileno(), Fallocate.COLLAPSE_RANGE, 0, BLOCK)


def inserts(path: Path) -> None:
    with path.open("r+b") as stream:
        syscalls.fallocate(stream.fileno(), Fallocate.INSERT_RANGE, 0, BLOCK)


def zeroes(path: Path) -> None:
    with path.open("r+b") as stream:
        syscalls.fallocate(stream.fileno(), Fallocate.ZERO_RANGE, 0, BLOCK)


def truncates(path: Path) -> None:
    os.truncate(path, 5000)


def leaves(path: Path) -> None:
    """The twin."""


CHANGES = (appends, overwrites, writes_past_the_cache, collapses, inserts, zeroes, truncates)


@pytest.mark.parametrize("options", [(), ("-O", "bigalloc", "-C", "65536")], ids=["", "bigalloc"])
@pytest.mark.parametrize("change", [*CHANGES, leaves])
def test_a_change_in_the_transaction_of_its_deletion(
    tmp_path: Path, change: Callable[[Path], None], options: tuple[str, ...]
) -> None:
    """The file was created and written within one tick: its `i_version` is the first one."""
    if options and change in (collapses, inserts):
        pytest.skip("the range has to be whole clusters")
    disk = settled(tmp_path, OLD, "-t", "ext4", *options)
    with disk.mounted() as root:
        sync(root)
        change(root / "file")
        remove(root / "file")
    grade = came_back(disk).grade
    assert grade is BEST if change is leaves else grade is not Grade.INTACT


@pytest.mark.parametrize("change", [*CHANGES, leaves])
def test_a_change_where_the_inode_is_reused_in_the_same_transaction(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """The freed inode is never logged: nothing tells what it was."""
    disk = settled(tmp_path)
    with disk.mounted() as root:
        before = (root / "file").stat().st_ino
        change(root / "file")
        (root / "file").unlink()
        (root / "next").touch()
        assert (root / "next").stat().st_ino == before
    assert came_back(disk).grade in (Grade.CONSISTENT, Grade.PARTIAL)


# -- what was not yet on the disk ----------------------------------------------------------------


def test_a_write_in_the_tick_of_a_truncation(tmp_path: Path) -> None:
    """The truncation counts one step of `i_version`, the write in the same tick none."""
    disk = settled(tmp_path)
    with disk.mounted() as root:
        handle = os.open(root / "file", os.O_RDWR)
        os.ftruncate(handle, 20 * BLOCK)
        os.pwrite(handle, NEWER, 0)
        os.close(handle)
        commit(root)
        remove(root / "file")
    file = came_back(disk)
    assert content(file)[: len(NEWER)] != NEWER  # it never reached the disk
    assert file.grade is not Grade.INTACT


def test_two_writes_in_one_tick(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", size=24 << 20)
    with disk.mounted() as root:
        handle = os.open(root / "file", os.O_CREAT | os.O_RDWR)
        os.pwrite(handle, OLD, 0)
        os.fsync(handle)
        os.pwrite(handle, NEWER, 0)
        os.close(handle)
        commit(root)
        remove(root / "file")
    file = came_back(disk)
    assert content(file) == OLD
    assert file.grade is not Grade.INTACT


@pytest.mark.parametrize("kind", ["ext4", "ext3"])
def test_blocks_of_a_former_owner_where_data_are_not_ordered(tmp_path: Path, kind: str) -> None:
    """data=writeback commits the map and does not wait for the bytes."""
    disk = Disk(tmp_path, "-t", kind, size=24 << 20)
    with disk.mounted("data=writeback,nodelalloc") as root:
        fill_up(root)
        for number in range(FORMER):
            (root / f"former {number}").write_bytes(noise(f"former {number}", 50 * BLOCK - 900))
    with disk.mounted("data=writeback,nodelalloc") as root:
        remove(*(root / f"former {number}" for number in range(FORMER)))
        new = noise("new", 50 * BLOCK - 900)
        (root / "file").write_bytes(new)
        commit(root)
        remove(root / "file")
    file = came_back(disk)
    assert content(file) != new  # the bytes never left the cache
    assert file.grade is not Grade.INTACT


def test_bytes_that_were_only_in_the_cache_at_a_power_cut(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", size=24 << 20)
    with cut_short(disk) as root:
        (root / "file").write_bytes(OLD)
        commit(root)
    with disk.mounted() as root:
        assert (root / "file").stat().st_size == 0
        remove(root / "file")
    file = came_back(disk)
    assert (content(file), file.size) == (b"", 0)
    assert file.grade is not Grade.INTACT


@pytest.mark.parametrize("kind", ["ext4", "ext2"])
def test_a_half_flushed_file_where_no_journal_orders_writes(tmp_path: Path, kind: str) -> None:
    """A file is held open, deleted and half written when the power goes."""
    options = ("-t", kind, "-O", "^has_journal")
    disk = settled(tmp_path, OLD, *options)
    with cut_short(disk) as root:
        handle = os.open(root / "file", os.O_RDWR)
        (root / "file").unlink()
        os.pwrite(handle, NEWER, 0)
        syscalls.flush(handle)
        sync(root)
        os.pwrite(handle, noise("last", 12 * BLOCK), BLOCK)
        os.close(handle)
    grades = {file.grade for file in disk.deleted().values() if file.kind == "file"}
    assert Grade.INTACT not in grades


# -- what the deletion is known by ---------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_an_empty_file_that_is_open_at_a_power_cut_was_not_freed(
    tmp_path: Path, closed: bool
) -> None:
    """It is on the orphan list; of two, one names the other where a deletion time would be."""
    disk = Disk(tmp_path, "-t", "ext4", size=24 << 20)
    with disk.mounted() as root:
        for name in ("file", "second"):
            (root / name).touch()
        sync(root)
        (root / "counted").write_bytes(OLD)
    with cut_short(disk) as root:
        handles = [os.open(root / name, os.O_RDWR) for name in ("second", "file")]
        for name in ("second", "file"):
            (root / name).unlink()
        if closed:
            for handle in handles:
                os.close(handle)
        sync(root)
        if not closed:
            for handle in handles:
                os.pwrite(handle, NEWER, 0)
                os.close(handle)
    files = disk.deleted()
    for path in (FILE, b"/second"):
        assert files[path].grade is (HERE.best if closed else Grade.CONSISTENT)
        assert (files[path].dtime is not None) == closed


# -- copies of data in the log -------------------------------------------------------------------


def lose(disk: Disk, ids: range) -> None:
    """Wipe some transactions out of the log."""
    log = Log.open(disk.file_system())
    assert log is not None
    for one in log.transactions:
        assert one.commit_index is not None
        if one.id in ids:
            for place in range(one.start, one.commit_index + 1):
                home = int(run("debugfs", "-R", f"bmap <8> {place}", disk.image))
                with disk.image.open("r+b") as image:
                    image.seek(home * BLOCK)
                    image.write(bytes(BLOCK))


@pytest.mark.parametrize("how", ["lost", "not journaled", "journaled"])
def test_a_copy_of_data_may_be_older_than_what_was_written_since(tmp_path: Path, how: str) -> None:
    """It was written again, in transactions that the log lacks or past it; its time is set back."""
    disk = Disk(tmp_path, "-t", "ext4", size=24 << 20)
    with disk.mounted("data=journal") as root:
        (root / "file").write_bytes(OLD)
        os.utime(root / "file", (1e9, 1e9))
    first = _newest(disk)
    ordered = how == "not journaled"
    with disk.mounted("data=ordered" if ordered else "data=journal") as root:
        with (root / "file").open("r+b") as stream:
            stream.write(NEWER)
        sync(root)
    last = _newest(disk)
    with disk.mounted() as root:
        os.utime(root / "file", (1e9, 1e9))
    with disk.mounted() as root:
        remove(root / "file")
    if how == "lost":
        lose(disk, range(first + 1, last + 1))
    file = came_back(disk)
    is_newer = content(file) == NEWER + OLD[len(NEWER) :]
    if HERE.log_goes_on:  # else later mounts wrote over copies and the disk tells
        assert is_newer == (how == "journaled")
        assert file.grade is Grade.INTACT if is_newer else file.grade is not Grade.INTACT
    else:
        assert file.grade is not Grade.INTACT


def _newest(disk: Disk) -> int:
    """Id of the log's newest transaction."""
    log = Log.open(disk.file_system())
    assert log is not None
    return log.transactions[-1].id
