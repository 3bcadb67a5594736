"""Of which moments log and disk are, told by a log alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.history.live_copy import TIME_TOLERANCE, last_commit, start_is_overwritten

START, SEQUENCE = 7, 40  # where the log starts, and the transaction there


def log_with(
    commits: tuple[int, ...] = (5, 9),
    headers: tuple[tuple[int, int], ...] = (),
    committed: tuple[tuple[int, bool], ...] = (),
    start: int = START,
    **changes: bool,
) -> Any:
    """A log with commit times, headers (position, order) and transactions (order, committed)."""
    position, order = np.array(headers, np.int64).reshape(-1, 2).T
    known, done = np.array(committed, np.int64).reshape(-1, 2).T
    return SimpleNamespace(
        needs_recovery=changes.get("needs_recovery", True),
        has_fast_commits=changes.get("has_fast_commits", False),
        superblock=SimpleNamespace(start=start, sequence=SEQUENCE),
        headers=SimpleNamespace(position=position, order=order),
        transactions=SimpleNamespace(
            commit_time_ns=np.array(commits, np.int64), order=known, committed=done.astype(bool)
        ),
    )


def test_the_newest_commit_bounds_the_times_of_a_mounted_file_system() -> None:
    assert last_commit(log_with()) == 9 + TIME_TOLERANCE
    assert last_commit(log_with(commits=(0,))) == TIME_TOLERANCE
    assert last_commit(None) is None
    assert last_commit(log_with(commits=())) is None
    assert last_commit(log_with(needs_recovery=False)) is None
    assert last_commit(log_with(has_fast_commits=True)) is None


NEWER = ((SEQUENCE, True), (SEQUENCE + 1, True))


@pytest.mark.parametrize(
    ("headers", "committed", "overtaken"),
    [
        (((START, SEQUENCE),), NEWER, False),  # it begins where the superblock says
        (((START + 1, SEQUENCE),), NEWER, True),  # another block has that transaction
        (((START, SEQUENCE + 1),), NEWER, True),
        ((), NEWER, True),
        ((), ((SEQUENCE, True),), False),  # nothing newer
        ((), ((SEQUENCE + 1, False),), False),  # not committed
    ],
)
def test_a_log_is_overtaken_when_its_start_is_gone_and_newer_ones_are_there(
    headers: tuple[tuple[int, int], ...], committed: tuple[tuple[int, bool], ...], overtaken: bool
) -> None:
    assert start_is_overwritten(log_with(headers=headers, committed=committed)) is overtaken
    assert not start_is_overwritten(log_with(headers=headers, committed=committed, start=0))
    assert not start_is_overwritten(None)
