"""Which of a directory's names was in force as of a transaction, from made rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.history.paths import PathHistory
from ext4kit.history.transaction_starts import TransactionStarts

PARENT, OTHER_PARENT = 0, 5


def history_of(*rows: tuple[int, bytes, int, int, int, int], there_since: int = 17) -> PathHistory:
    """One directory with names: (parent, name, first tid, last tid without, removed, last seen)."""
    parent, name, valid_from, last_absent, removed, last_seen = zip(*rows, strict=True)
    made: Any = object.__new__(PathHistory)
    made.names = SimpleNamespace(
        table=SimpleNamespace(
            instance=np.zeros(len(rows), np.int64),
            directory=np.array(parent),
            name=list(name),
            valid_from=np.array(valid_from),
            last_absent=np.array(last_absent),
            removed=np.array(removed),
            last_seen=np.array(last_seen),
        )
    )
    made._row_ends = np.array([len(rows)])
    made.history = SimpleNamespace(linked_tids=(np.array([there_since]), None))
    paths: PathHistory = made
    return paths


def slack(name: bytes, parent: int = PARENT) -> tuple[int, bytes, int, int, int, int]:
    """A removed entry that was not cleared."""
    return parent, name, TID_BEFORE_LOG, TID_BEFORE_LOG, int(TID_ON_DISK), SLACK_ENTRY


OLD = (PARENT, b"old", 18, TID_BEFORE_LOG, 19, 18)
NEW = (PARENT, b"new", 19, 18, 27, 19)


@pytest.mark.parametrize(("when", "name"), [(17, b"old"), (18, b"old"), (19, b"new")])
def test_a_removed_entry_has_its_start_in_the_journal(when: int, name: bytes) -> None:
    paths = history_of(slack(b"new"), OLD, NEW)
    assert paths.names.table.name[paths._name_row_at(0, when)] == name


@pytest.mark.parametrize(
    "logged",
    [
        (PARENT, b"new", 19, TID_BEFORE_LOG, 27, 19),  # it may have stood there before the log
        (OTHER_PARENT, b"new", 19, 18, 27, 19),
        (PARENT, b"newer", 19, 18, 27, 19),
    ],
)
def test_a_removed_entry_that_the_journal_does_not_show_added_may_be_older(
    logged: tuple[int, bytes, int, int, int, int],
) -> None:
    paths = history_of(slack(b"new"), OLD, logged)
    assert paths._name_row_at(0, 17) == 0


def test_a_directory_that_the_journal_shows_made_had_no_other_name_before() -> None:
    """The times of files in it can be of a tick of the clock before that transaction."""
    paths = history_of(slack(b"new"), NEW, there_since=19)
    assert paths._name_row_at(0, 17) == 0


@pytest.mark.parametrize(
    ("before", "stood"),
    [
        ((PARENT, b"new", 8, TID_BEFORE_LOG, 19, 18), True),
        ((PARENT, b"new", 8, TID_BEFORE_LOG, int(TID_ON_DISK), 18), True),
        ((PARENT, b"new", 8, TID_BEFORE_LOG, 12, 11), False),  # it was away in between
        ((OTHER_PARENT, b"new", 8, TID_BEFORE_LOG, 19, 18), False),
        ((PARENT, b"old", 8, TID_BEFORE_LOG, 19, 18), False),
    ],
)
def test_a_name_that_came_to_another_block_was_not_added(
    before: tuple[int, bytes, int, int, int, int], stood: bool
) -> None:
    assert history_of(before, NEW)._has_stood_there(1) == stood


ABOVE = -2  # a directory with one name
KNOWN = (ABOVE, b"old", 8, TID_BEFORE_LOG, 19, 18)  # removed with transaction 19
COMMITS = {at: at * 10**9 for at in range(7, 21)}
WITHIN_19 = 18 * 10**9 + 10**8


def moved_with(paths: PathHistory, made: int, removed: int) -> bool:
    """Whether the directory may have moved with a file removed in the tick of 18."""
    states: Any = SimpleNamespace(tid=np.zeros(0, np.int64))
    history: Any = paths.history
    history.transaction_starts = TransactionStarts(COMMITS, states)
    history.gaps = SimpleNamespace(restarted_at=NO_RESTART)
    known: Any = paths
    above = {0: (ABOVE, b"old"), ABOVE: (-5, b"live"), -5: None}
    known._parent_of = lambda instance, _: above[instance]
    return paths._moved_with(0, WITHIN_19 + 10**8, made, removed)


@pytest.mark.parametrize(
    ("others", "made", "moved"),
    [
        ([(OTHER_PARENT, b"new", 19, 18, int(TID_ON_DISK), 19)], WITHIN_19, True),
        ([(OTHER_PARENT, b"new", 19, 18, 20, SLACK_ENTRY)], WITHIN_19, True),
        ([slack(b"new", OTHER_PARENT)], WITHIN_19, True),
        ([slack(b"old", ABOVE)], WITHIN_19, False),  # its only name
        ([(OTHER_PARENT, b"new", 8, TID_BEFORE_LOG, 12, 11)], WITHIN_19, False),  # before
        ([(OTHER_PARENT, b"new", 20, 19, int(TID_ON_DISK), 20)], WITHIN_19, False),  # later
        ([(OTHER_PARENT, b"new", 19, 18, int(TID_ON_DISK), 19)], 12 * 10**9, False),
        ([(OTHER_PARENT, b"new", 19, 18, int(TID_ON_DISK), 19)], 0, False),
    ],
)
def test_the_path_before_a_transaction_is_not_that_of_a_file_made_in_it(
    others: list[tuple[int, bytes, int, int, int, int]], made: int, moved: bool
) -> None:
    """The directory may have moved in the transaction, before the file was made."""
    for removed in (19, int(TID_ON_DISK)):
        assert moved_with(history_of(KNOWN, *others), made, removed) == moved


def test_a_removal_in_the_tick_of_the_commit_before_it_is_of_its_own_transaction() -> None:
    """Times of the tick of transaction 18 can be of 19, whose copies show the removal."""
    known = (ABOVE, b"old", 8, TID_BEFORE_LOG, 20, 19)
    paths = history_of(known, (OTHER_PARENT, b"new", 20, 19, int(TID_ON_DISK), 20))
    assert moved_with(paths, WITHIN_19, removed=20)
    assert not moved_with(paths, WITHIN_19, removed=19)
