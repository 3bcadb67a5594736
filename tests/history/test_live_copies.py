"""Copies of a file system that is mounted and written: they are told, and no power cut is."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from ext4kit.history import read_history
from ext4kit.recovery import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from sample_images.recipes.contents import noise
from sample_images.recipes.machine import copy_sparse, run, sync
from tests.recovery.test_traps import Disk, content

pytestmark = pytest.mark.kernel
BLOCK = 4096
LATE = 1.2  # seconds between two parts of a copy: more than the clocks of a kernel differ


def journal_blocks(image: Path) -> list[int]:
    """The blocks of the journal, in order."""
    return [int(word) for word in run("debugfs", "-R", "blocks <8>", image).split()]


def put_together(target: Path, log: Path, rest: Path, superblock: Path | None = None) -> None:
    """An image of which the log is of one moment and all the rest of another."""
    shutil.copyfile(rest, target)
    blocks = journal_blocks(rest)
    with target.open("r+b") as stream:
        for source, wanted in ((log, blocks), (superblock or log, blocks[:1])):
            with source.open("rb") as part:
                for block in wanted:
                    data = os.pread(part.fileno(), BLOCK, block * BLOCK)
                    os.pwrite(stream.fileno(), data, block * BLOCK)


def in_use(disk: Disk, moments: list[Path]) -> dict[bytes, bytes]:
    """Files go and others take their blocks, and the image is copied now and then."""
    held = {}
    with disk.mounted("commit=1") as root:
        for number in range(200):
            held[b"/%d" % number] = noise(str(number), 3 * BLOCK)
            (root / str(number)).write_bytes(held[b"/%d" % number])
        sync(root)
        for turn, moment in enumerate(moments):
            for number in range(turn * 20, turn * 20 + 20):
                (root / str(number)).unlink()
                sync(root)
                (root / f"new {number}").write_bytes(noise(f"new {number}", 3 * BLOCK))
            sync(root)
            copy_sparse(disk.image, moment)
            time.sleep(LATE / len(moments))
    return held


def test_inodes_that_are_newer_than_the_log_tell_a_live_copy(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-b", "4096", "-J", "size=4", size=48 << 20)
    moments = [tmp_path / str(number) for number in range(10)]
    held = in_use(disk, moments)
    put_together(disk.image, moments[0], moments[-1])
    fs = disk.file_system()
    found = list(find_deleted(fs, sources=JOURNAL_ONLY))
    assert "copied while it was mounted" in " ".join(one.what for one in fs.problems)
    assert not [
        one for one in found if one.grade == "intact" and content(one) != held[one.path or b""]
    ]


def test_a_log_that_went_on_behind_its_superblock_tells_a_live_copy(tmp_path: Path) -> None:
    """The superblock of the log is of an earlier moment: its start was overwritten since."""
    disk = Disk(tmp_path, "-t", "ext4", "-b", "4096", "-J", "size=4", size=48 << 20)
    moments = [tmp_path / str(number) for number in range(10)]
    in_use(disk, moments)
    put_together(disk.image, moments[-1], moments[-1], superblock=moments[0])
    assert "where the journal superblock starts" in read_history(disk.file_system()).live_copy


def test_a_power_cut_is_no_live_copy(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-b", "4096", "-J", "size=4", size=48 << 20)
    moments = [tmp_path / str(number) for number in range(3)]
    in_use(disk, moments)
    for moment in moments:
        moment.replace(disk.image)
        history = read_history(disk.file_system())
        assert history.log is not None
        assert history.log.needs_recovery
        assert not history.live_copy
