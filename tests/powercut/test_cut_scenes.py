"""Scenes that random histories with power cuts led to, each as small as it gets."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4kit.recovery import DeletedFile, find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from sample_images.recipes import machine, syscalls
from sample_images.recipes.syscalls import Fallocate
from tests.recovery.test_traps import Disk, commit, content

BLOCK = 4096
LATER = 2_000_000_000 * 10**9


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@contextmanager
def powered_off(disk: Disk) -> Iterator[Path]:
    """A mount that ends at once: what was sent to the disk is there, no transaction is ended."""
    copy = disk.image.with_suffix(".copy")
    with machine.loop_device(disk.image) as device:
        machine.mount(device, disk.where, "noatime,commit=600")
        try:
            yield disk.where
            machine.copy_sparse(disk.image, copy)
        finally:
            machine.unmount(disk.where)
    copy.replace(disk.image)


def put(path: Path, *pieces: tuple[int, bytes]) -> None:
    """Write (offset, bytes) into a file that may be new; they wait in memory."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        for offset, piece in pieces:
            os.pwrite(handle, piece, offset)
    finally:
        os.close(handle)


def flush(path: Path) -> None:
    """Send a file's bytes to the disk, and end no transaction."""
    handle = os.open(path, os.O_RDWR)
    try:
        syscalls.flush(handle)
    finally:
        os.close(handle)


def judged(disk: Disk, path: bytes, *allowed: bytes) -> DeletedFile:
    """A deleted file; when it is called intact it holds one of these contents."""
    file = disk.deleted()[path]
    if file.grade == "intact":
        held = content(file)
        assert held in allowed, [len(held), *(_same(held, each) for each in allowed)]
    return file


def _same(left: bytes, right: bytes) -> int:
    """How many blocks agree."""
    pairs = zip(range(0, len(left), BLOCK), range(0, len(right), BLOCK), strict=False)
    return sum(left[a : a + BLOCK] == right[b : b + BLOCK] for a, b in pairs)


def deleted_then_written(
    disk: Disk, old: bytes, new: bytes, before: Callable[[Path], None]
) -> None:
    """A file goes in one mount; in the next another one is sent to its blocks, uncommitted."""
    with disk.mounted() as root:
        put(root / "old", (0, old))
        machine.sync(root)
        (root / "old").unlink()
    with powered_off(disk) as root:
        before(root)
        put(root / "new", (0, new))
        flush(root / "new")


# -- bytes of a transaction that was never committed ----------------------------------------------


@pytest.mark.kernel
def test_others_that_end_in_an_inner_block_are_noticed(tmp_path: Path) -> None:
    disk, old = Disk(tmp_path, "-t", "ext4"), noise(1, 9 * BLOCK + 3000)
    deleted_then_written(disk, old, noise(2, 5 * BLOCK + 1000), commit)
    assert judged(disk, b"/old", old).grade != "intact"


@pytest.mark.kernel
def test_a_mount_that_committed_nothing_may_have_written_all_the_same(tmp_path: Path) -> None:
    disk, old = Disk(tmp_path, "-t", "ext4"), noise(1, 9 * BLOCK + 3000)
    deleted_then_written(disk, old, noise(2, 5 * BLOCK + 1000), lambda _: None)
    assert judged(disk, b"/old", old).grade != "intact"


@pytest.mark.kernel
def test_others_that_end_in_the_last_block_are_noticed(tmp_path: Path) -> None:
    disk, old = Disk(tmp_path, "-t", "ext4"), noise(1, 9 * BLOCK + 3000)
    deleted_then_written(disk, old, noise(2, 9 * BLOCK + 1000), commit)
    assert judged(disk, b"/old", old).grade != "intact"


@pytest.mark.kernel
@pytest.mark.parametrize("cuts", [1, 2])
def test_a_cut_is_seen_when_the_file_system_was_used_again(tmp_path: Path, cuts: int) -> None:
    disk, old = Disk(tmp_path, "-t", "ext4"), noise(1, 9 * BLOCK + 3000)
    deleted_then_written(disk, old, noise(2, 5 * BLOCK + 1000), commit)
    for _ in range(cuts - 1):
        with powered_off(disk):
            pass  # the log was recovered, and nothing committed
    with disk.mounted() as root:
        commit(root)
    assert judged(disk, b"/old", old).grade != "intact"


# -- bytes that were still in memory --------------------------------------------------------------


@pytest.mark.kernel
def test_a_later_time_set_by_hand_hides_no_waiting_bytes(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        put(root / "file")
        (root / "file").stat()
        put(root / "file", (0, noise(1, 20_000)))
        os.utime(root / "file", ns=(LATER, LATER))
        commit(root)
        (root / "file").unlink()
    judged(disk, b"/file", noise(1, 20_000))


@pytest.mark.kernel
def test_bytes_that_waited_for_blocks_taken_beforehand_are_missed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    with disk.mounted() as root:
        put(root / "file")
        machine.sync(root)
        handle = os.open(root / "file", os.O_RDWR)
        syscalls.fallocate(handle, Fallocate.KEEP_SIZE, 0, 20_000)
        os.fstat(handle)
        os.pwrite(handle, noise(1, 20_000), 0)
        os.close(handle)
        commit(root)
        (root / "file").unlink()
        put(root / "next")  # which has its inode now
    judged(disk, b"/file", noise(1, 20_000))


def _written_twice(disk: Disk, first: Callable[[Path], None]) -> tuple[bytes, bytes]:
    """Blocks are taken and written, and written again in memory, all in one transaction."""
    old, new = noise(1, 20_000), noise(2, 20_000)
    with disk.mounted("commit=600") as root:
        first(root / "file")
        (root / "file").stat()
        put(root / "file", (0, old))
        flush(root / "file")
        (root / "file").stat()
        put(root / "file", (0, new))
        commit(root)
        (root / "file").unlink()
    return old, new


@pytest.mark.kernel
@pytest.mark.parametrize("before", ["empty", "other bytes"])
def test_a_write_over_blocks_just_taken_is_told_of_a_known_file(
    tmp_path: Path, before: str
) -> None:
    disk = Disk(tmp_path, "-t", "ext4")

    def first(path: Path) -> None:
        put(path, *([(0, noise(3, 30_000))] if before == "other bytes" else []))
        machine.sync(path.parent)
        os.truncate(path, 0)

    _, new = _written_twice(disk, first)
    judged(disk, b"/file", new)


@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["ext4", "ext3"])
def test_a_write_over_blocks_just_taken_is_told_of_a_new_file(tmp_path: Path, kind: str) -> None:
    disk = Disk(tmp_path, "-t", kind)
    _, new = _written_twice(disk, put)
    judged(disk, b"/file", new)


@pytest.mark.kernel
def test_an_earlier_version_may_have_been_cut_before_it_was_emptied(tmp_path: Path) -> None:
    disk, old = Disk(tmp_path, "-t", "ext4"), noise(1, 19_000)
    with disk.mounted("commit=600") as root:
        put(root / "file")
        (root / "file").stat()
        put(root / "file", (0, old))
        machine.sync(root)
        for size in (9000, 0):
            (root / "file").stat()
            os.truncate(root / "file", size)
            flush(root / "file")
    found = [
        file
        for file in find_deleted(disk.file_system(), True, sources=JOURNAL_ONLY)
        if file.size == len(old)
    ]
    assert [file.superseded for file in found] == [True]
    assert all(file.grade != "intact" or content(file) == old for file in found)


@pytest.mark.kernel
def test_changes_of_a_file_that_was_made_in_one_tick_are_told_by_its_freed_inode(
    tmp_path: Path,
) -> None:
    disk, old, new = Disk(tmp_path, "-t", "ext4"), noise(1, 20_000), noise(2, 8192)
    with disk.mounted("commit=600") as root:
        put(root / "file", (0, old))
        machine.sync(root)
        (root / "file").stat()
        put(root / "file", (0, new[:4096]))
        flush(root / "file")
        put(root / "file", (4096, new[4096:]))
        (root / "file").unlink()
    judged(disk, b"/file", old, new + old[8192:])


# -- traces that a later user of the inode took away ----------------------------------------------


@pytest.mark.kernel
def test_a_file_whose_inode_was_used_again_at_once_may_have_changed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4")
    old, new = noise(1, 20_000), noise(2, 8192)
    with disk.mounted("commit=600") as root:
        put(root / "file", (0, old))
        machine.sync(root)
        (root / "file").stat()
        put(root / "file", (4096, new))
        flush(root / "file")
        put(root / "file", (0, noise(3, 4096)))
        (root / "file").unlink()
        put(root / "next")
    judged(disk, b"/file", old)


@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["ext4", "ext3"])
def test_a_file_that_was_open_at_the_cut_may_have_been_written_since(
    tmp_path: Path, kind: str
) -> None:
    disk, old = Disk(tmp_path, "-t", kind), noise(1, 20_000)
    with powered_off(disk) as root:
        put(root / "file", (0, old))
        machine.sync(root)
        with (root / "file").open("r+b", buffering=0) as held:
            (root / "file").unlink()
            commit(root)
            held.truncate(6000)  # zeros behind that are sent, the size is not
            syscalls.flush(held.fileno())
            machine.copy_sparse(disk.image, tmp_path / "cut")
    (tmp_path / "cut").replace(disk.image)
    files = [file for file in disk.deleted().values() if file.size == len(old)]
    assert files
    assert all(file.grade != "intact" or content(file) in (old, old[:6000]) for file in files)


@pytest.mark.kernel
def test_a_file_in_its_inode_may_have_grown_within_the_same_tick(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-O", "inline_data")
    with disk.mounted() as root:
        put(root / "other file", (0, b"x"))
        machine.sync(root)
        put(root / "file", (0, b"short"), (5, noise(1, 45_000)))
        (root / "file").unlink()
    found = [file for file in disk.deleted().values() if file.size == 5]
    assert all(file.grade != "intact" for file in found)
