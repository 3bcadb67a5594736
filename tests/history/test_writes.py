"""In which transactions files were written, and in which the kernel counted that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ext4kit.history.writes import Writes, find_writes
from ext4kit.units import NANOSECONDS
from tests.recovery.made_history import ToldInodes, log_of

SECOND = NANOSECONDS
COMMIT_INTERVAL = 5 * SECOND  # of a mount without the option commit=
START = 1000 * SECOND
COMMITS = [(tid, START + tid * 10 * SECOND) for tid in range(1, 8)]  # ten seconds apart
OLD = START - 60 * SECOND


def state(tid: int, **changes: Any) -> dict[str, Any]:
    """A file of long ago, as a neighbour's change shows it."""
    usual = {
        "tid": tid, "number": 12, "generation": 7, "mode": 0o100755, "links_count": 1, "size": 9,
        "blocks": 8, "version": 3, "mtime": OLD, "ctime": OLD, "crtime": OLD,
    }  # fmt: skip
    return usual | changes


def told(*states: dict[str, Any]) -> Writes:
    columns = {name: np.array([one[name] for one in states]) for name in states[0]}
    tid = columns.pop("tid")
    return find_writes(ToldInodes(**columns), tid, log_of(COMMITS).transactions)


def of(writes: Writes) -> tuple[list[int], list[int], list[int]]:
    return writes.written.tolist(), writes.counted.tolist(), writes.uncounted.tolist()


def test_a_file_that_is_only_a_neighbour_was_not_written() -> None:
    assert of(told(state(3))) == ([], [], [])
    assert of(told(state(3), state(5, ctime=OLD + SECOND))) == ([], [], [])  # renamed


@pytest.mark.parametrize(
    "change",
    [{"mtime": OLD + SECOND // 2}, {"size": 10}, {"blocks": 16}, {"version": 5}],
    ids=str,
)
def test_any_of_these_may_be_a_write(change: dict[str, Any]) -> None:
    assert told(state(3), state(5, **change)).written.tolist() == [5]


def test_one_step_of_the_version_alone_is_a_change_of_attributes() -> None:
    assert of(told(state(3), state(5, version=4))) == ([], [5], [])


def test_another_file_under_the_number_is_not_compared() -> None:
    assert of(told(state(3), state(5, generation=8, size=10))) == ([], [], [])
    assert of(told(state(3), state(5, number=13, size=10))) == ([], [], [])


def test_what_the_log_shows_first_was_written_where_it_changed_after_the_commit_before() -> None:
    before = COMMITS[1][1]  # of transaction 2
    begun = before - COMMIT_INTERVAL
    for ctime, written in ((before, True), (begun, True), (begun - 1, False)):
        assert told(state(3, ctime=ctime)).written.tolist() == [3] * written
    made = state(3, ctime=before + SECOND, crtime=before + SECOND, version=2)
    assert told(made).counted.tolist() == [3]
    assert told(made | {"version": 1}).counted.tolist() == []
    assert told(made | {"crtime": OLD}).counted.tolist() == []


def test_what_a_transaction_that_is_not_listed_shows_first_may_have_been_written_in_it() -> None:
    assert told(state(99)).written.tolist() == [99]


def test_a_kernel_that_does_not_count_is_told_by_a_later_time_without_a_step() -> None:
    later = OLD + 5 * SECOND
    assert of(told(state(3), state(5, mtime=later))) == ([5], [], [5])
    assert of(told(state(3), state(5, mtime=later, version=4))) == ([5], [5], [])
    assert told(state(3), state(5, mtime=OLD + SECOND)).uncounted.tolist() == []  # one tick
    assert told(state(3), state(5, mtime=OLD - 5 * SECOND)).uncounted.tolist() == []  # by hand


@pytest.mark.parametrize("change", [{"mode": 0o040755}, {"links_count": 0}], ids=str)
def test_only_linked_regular_files_count(change: dict[str, Any]) -> None:
    assert of(told(state(3, **change), state(5, size=10, version=9, **change))) == ([], [], [])


def test_pieces_are_joined() -> None:
    parts = [told(state(3), state(5, size=10)), told(state(2), state(4, version=4))]
    assert of(Writes.joined(parts)) == ([5], [4], [])
    assert of(Writes.joined([])) == ([], [], [])
