"""Files that a crash left empty are told from files that were made empty."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from sample_images.recipes import machine
from tests.report.scenes import acting, fresh, put
from tests.report.test_suspicions import summary_of

pytestmark = pytest.mark.kernel


def size_in(image: Path, path: str) -> str:
    """What debugfs says of a file's size, after a recovery."""
    subprocess.run(["e2fsck", "-fy", image], capture_output=True, check=False)
    said = subprocess.run(
        ["debugfs", "-R", f"stat {path}", image], capture_output=True, text=True, check=True
    ).stdout
    return said.partition("Size: ")[2].split()[0]


def crashed(folder: Path, synced: bool) -> Path:
    """An image of a moment at which all metadata is committed, and content only if synced."""
    image, cut = fresh(folder / "disk.img"), folder / "cut.img"
    with acting(image) as root:
        put(root / "old.conf", b"settings\n")
        put(root / "lock", b"")
        emptied = put(root / "emptied.log")
        machine.sync(root)
        machine.truncate(emptied, 0)
        machine.sync(root)
        number = emptied.stat().st_ino
        emptied.unlink()
        machine.sync(root)
        (root / "reuses.txt").write_bytes(b"")
        assert (root / "reuses.txt").stat().st_ino == number  # as the kernel allocates
        for place, name in (("run", "daemon.pid"), ("spool", ".lock")):
            (root / place).mkdir()
            (root / place / name).write_bytes(b"")
            time.sleep(0.05)
            (root / place / name).write_bytes(b"")  # as a shell opens it each time
        handle = os.open(root / "notes.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        time.sleep(0.05)  # the clock of inodes moves on in ticks
        os.write(handle, b"nobody synced this\n" * 400)
        os.close(handle)
        put(root / "empty.txt", b"")
        if synced:
            machine.sync(root)
        marker = os.open(root / "marker", os.O_WRONLY | os.O_CREAT)
        os.fsync(marker)
        os.close(marker)
        machine.copy_sparse(image, cut)
    return cut


def test_content_that_never_came_to_the_disk_is_missed(tmp_path: Path) -> None:
    cut = crashed(tmp_path, synced=False)
    count, victims = summary_of(cut).victims
    assert [victim.path for victim in victims] == [b"/notes.txt"]
    assert count == 1
    assert victims[0].was_new
    assert size_in(cut, "/notes.txt") == "0"


def test_files_that_were_never_written_have_lost_nothing(tmp_path: Path) -> None:
    """Locks, process ids, and an empty file with the inode number of a file that was emptied."""
    cut = crashed(tmp_path, synced=False)
    assert [victim.path for victim in summary_of(cut).victims[1]] == [b"/notes.txt"]
    for path in ("/reuses.txt", "/run/daemon.pid", "/spool/.lock", "/empty.txt"):
        assert size_in(cut, path) == "0"


def test_what_was_synced_is_no_victim(tmp_path: Path) -> None:
    cut = crashed(tmp_path, synced=True)
    assert summary_of(cut).victims == (0, ())
    assert size_in(cut, "/notes.txt") == "7600"
