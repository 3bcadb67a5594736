"""The message that tells of discarded blocks, without an image."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.errors import RequestError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.problems import Severity
from ext4kit.recovery.discarded import report_discarded

PER_GROUP, FIRST = 100, 1
MOUNTED_WITH_DISCARD = 0x0400  # EXT4_DEFM_DISCARD, kernel fs/ext4/ext4.h
STAMP = "/var/lib/systemd/timers/stamp-fstrim.timer"


def told(
    blocks: list[int], options: int = 0, owners: list[int] | None = None, ran: int | None = None
) -> list[Any]:
    """What is reported of runs of two blocks that begin at these; `ran`: when fstrim did, ns."""
    said: list[Any] = []

    def lookup(path: str) -> int:
        if ran is None or path != STAMP:
            raise RequestError("no such path")
        return 77

    def inode(_: int) -> Any:
        return SimpleNamespace(mtime=ran)

    superblock = SimpleNamespace(
        first_data_block=FIRST, blocks_per_group=PER_GROUP, default_mount_options=options
    )
    problems = SimpleNamespace(add=lambda *what: said.append(what))
    fs = SimpleNamespace(superblock=superblock, problems=problems, lookup=lookup, inode=inode)
    start = np.array(blocks, np.int64)
    two, none = np.full(len(start), 2), np.zeros(len(start), bool)
    owner = np.array(owners or list(range(len(start))), np.int64)
    report_discarded(cast(Any, fs), Runs(owner, start * 0, two, start, none))
    return said


def test_blocks_and_files_are_counted_once_and_told_as_a_warning() -> None:
    ((where, what, severity),) = told([1, 50, 120], owners=[4, 4, 9])
    assert (where, severity) == ("unallocated space", Severity.WARNING)
    assert what.startswith("6 blocks of 2 deleted files read as zeros")
    assert "discard by default" not in what
    assert not told([])


def test_a_mount_option_of_the_superblock_is_told() -> None:
    assert "mounted with discard by default" in told([1], MOUNTED_WITH_DISCARD)[0][1]


def test_when_fstrim_ran_last_is_told_by_its_stamp() -> None:
    assert "fstrim" not in told([1])[0][1]
    what = told([1], ran=1_700_000_000_999_999_999)[0][1]
    assert what.endswith("; fstrim ran last at 2023-11-14 22:13:20Z")


def test_a_group_ends_before_the_first_block_of_the_next_one() -> None:
    for block, group in ((FIRST, 0), (PER_GROUP, 0), (PER_GROUP + FIRST, 1)):
        assert f"in block groups {group};" in told([block])[0][1]


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        ([0], "0"),
        ([0, 1, 2], "0-2"),
        ([0, 2], "0, 2"),
        ([3, 4, 7, 9, 10], "3-4, 7, 9-10"),
        (list(range(0, 16, 2)), "0, 2, 4, 6, 8, 10, 12, 14"),
        (list(range(0, 20, 2)), "0, 2, 4, 6, 8, 10, 12, 14 and 2 ranges more"),
    ],
)
def test_groups_are_named_as_ranges(groups: list[int], shown: str) -> None:
    what = told([FIRST + PER_GROUP * group for group in groups])[0][1]
    assert f"in block groups {shown};" in what
