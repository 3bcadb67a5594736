"""What tells a copy of a mounted file system by its log: rules, on logs by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.history.live_copy import TIME_TOLERANCE, last_commit, start_is_overwritten
from ext4kit.journal import Log
from ext4kit.units import NANOSECONDS


def committed(*times: int, needs_recovery: bool = True, fast: bool = False) -> Log:
    """A log with these commit times, -1 for none."""
    known = SimpleNamespace(commit_time_ns=np.array(times, np.int64))
    return cast(
        Log,
        SimpleNamespace(transactions=known, needs_recovery=needs_recovery, has_fast_commits=fast),
    )


def test_no_inode_changes_a_second_after_the_last_commit_of_a_mounted_file_system() -> None:
    assert TIME_TOLERANCE == NANOSECONDS
    assert last_commit(committed(70, 90, 80)) == 90 + TIME_TOLERANCE
    assert last_commit(committed(0)) == TIME_TOLERANCE


@pytest.mark.parametrize(
    "log",
    [
        None,
        committed(70, needs_recovery=False),  # e2fsck may have changed inodes since
        committed(70, fast=True),  # what these change has no time
        committed(-1, -1),
        committed(),
    ],
)
def test_where_no_commit_ends_all_changes_there_is_no_such_time(log: Log | None) -> None:
    assert last_commit(log) is None


Header = tuple[int, int]  # log block, order


def log_with(
    *headers: Header,
    start: int = 30,
    sequence: int = 7,
    known: tuple[tuple[int, bool], ...] = ((7, True), (8, True)),
) -> Any:
    """A log whose superblock says that it starts at a block with a transaction.

    Args:
        headers: blocks of the log that begin as those of a transaction do.
        start: as the superblock says, 0 for an empty log.
        sequence: likewise.
        known: (order, committed) of the transactions that are there.
    """
    position, order = np.array(headers, np.int64).reshape(-1, 2).T
    ids, done = (np.array(column) for column in zip(*known, strict=True))
    return SimpleNamespace(
        superblock=SimpleNamespace(start=start, sequence=sequence),
        headers=SimpleNamespace(position=position, order=order),
        transactions=SimpleNamespace(order=ids, committed=done),
    )


@pytest.mark.parametrize(
    ("log", "overtaken"),
    [
        (log_with((30, 7), (40, 8)), False),
        (log_with((40, 8)), True),
        (log_with((30, 9), (40, 8)), True),  # another one was written over it
        (log_with((31, 7), (40, 8)), True),
        (log_with((40, 8), start=0), False),  # it was unmounted
        (log_with((40, 8), known=((7, True), (8, False))), False),  # nothing newer is committed
        (log_with((40, 8), known=((6, True), (7, True))), False),
        (log_with((30, 2**32 - 1), sequence=2**32 - 1), False),
        (None, False),
    ],
)
def test_a_log_that_went_on_over_its_own_start_was_copied_while_it_was_written(
    log: Any, overtaken: bool
) -> None:
    assert start_is_overwritten(log) is overtaken
