"""What the states of an inode tell of its bytes: written or not, and come to the disk or not.

Since Linux 6.1 i_version goes up by one with each write whose time differs from the one before and
with each change of attributes; ctime cannot be set, mtime can. Source: kernel fs/inode.c,
`inode_update_timestamps`; fs/ext4/inode.c, `ext4_setattr`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.history.writes import Writes
from ext4kit.recovery.grading.writes import WriteHistory
from ext4kit.units import NANOSECONDS
from tests.recovery.made_history import (
    BLOCK,
    EXTENTS,
    INODES,
    LATER,
    MADE,
    NO_BREAKS,
    State,
    past_of,
    state,
)

SECOND = NANOSECONDS
FINE_TIMES, DATED = 16, 24  # i_extra_isize with i_atime_extra, with i_crtime_extra
A_MOMENT = SECOND // 20
LATE = MADE + 100_000 * SECOND


def second_of(first: State, **changes: Any) -> WriteHistory:
    """The write history of two states of an instance, the second one with these changes."""
    return WriteHistory(past_of(first, state(**{**first, "order": 6, **changes})))


def unflushed(history: History, row: int, changed: int) -> list[bool]:
    """Whether writeback of the change shown in a row may be missing at the end of a state."""
    found = WriteHistory(history).may_not_be_flushed(np.array([row]), np.array([changed]))
    return [bool(one) for one in found]


# --- between two states -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mode": 0o100600},
        {"uid": 7},
        {"gid": 7},
        {"uid": 7, "gid": 7},  # one chown
        {"mtime": MADE - 1},  # a time set by hand to one before the last change ...
        {"mtime": LATER + 1},  # ... or to one that has not come yet
    ],
)
def test_one_step_of_i_version_is_what_a_change_of_attributes_takes(changes: State) -> None:
    explained = bool(changes)
    for steps in (0, 1, 2):
        writes = second_of(state(), version=2 + steps, ctime=LATER, **changes)
        assert writes.version_step.tolist() == [0, steps]
        assert writes.unexplained_version_steps.tolist() == [0, steps - explained]
        assert writes.may_have_written.tolist() == [False, steps > explained]


def test_a_truncation_may_hide_a_write_in_the_same_tick() -> None:
    for steps in (1, 2):
        writes = second_of(state(), version=2 + steps, ctime=LATER, mtime=LATER, size=50)
        assert writes.unexplained_version_steps.tolist() == [0, steps]
        assert writes.may_have_written.tolist() == [False, True]


def test_the_states_of_another_file_say_nothing_of_this_one() -> None:
    writes = second_of(state(), life=1, version=9, size=5000, mtime=LATER, place=900)
    assert writes.has_predecessor.tolist() == writes.may_have_written.tolist() == [False, False]
    assert writes.version_step.tolist() == writes.unexplained_version_steps.tolist() == [0, 0]


def test_a_life_without_states_has_none_that_follow() -> None:
    assert WriteHistory(past_of(state())).has_predecessor.tolist() == [False]


@pytest.mark.parametrize(("version", "counts"), [(0, False), (1, False), (2, True)])
def test_where_a_kernel_does_not_count_mtime_tells(version: int, counts: bool) -> None:
    same = second_of(state(version=version))
    assert same.version_is_counted.tolist() == [counts] * 2
    assert not same.may_have_written.any()
    moved = second_of(state(version=version), mtime=LATER, ctime=LATER)
    assert moved.may_have_written.tolist() == [False, not counts]
    assert second_of(state(version=1), version=9).version_step.tolist() == [0, 8]


@pytest.mark.parametrize("extra", [0, FINE_TIMES - 4, FINE_TIMES - 1, FINE_TIMES, 32])
def test_times_of_whole_seconds_hide_a_second_write(extra: int) -> None:
    writes = second_of(state(extra_isize=extra))
    assert writes.may_have_written.tolist() == [False, extra < FINE_TIMES]


@pytest.mark.parametrize(
    ("before", "after", "appended"),
    [
        ({"size": 100}, {"size": 101}, True),  # within its block
        ({"size": 100}, {"size": 100}, False),
        ({"size": 100}, {"size": 99}, False),
        ({"size": 0, "blocks": 0}, {"size": 101, "blocks": 8}, False),  # came from writeback
        (
            {"size": 0, "blocks": 8},
            {"size": 101, "blocks": 8},
            False,
        ),  # into what it had been given
        ({"size": BLOCK}, {"size": 2 * BLOCK, "blocks": 16}, False),  # so may this
        ({"size": BLOCK, "blocks": 16}, {"size": 2 * BLOCK, "blocks": 16}, True),
        ({"size": BLOCK + 1, "blocks": 16}, {"size": 2 * BLOCK + 1, "blocks": 24}, True),
    ],
)
def test_a_file_that_grew_was_written_to_unless_writeback_came_further(
    before: State, after: State, appended: bool
) -> None:
    writes = second_of(state(**before), **after)
    assert writes.may_have_written.tolist() == [False, appended]


@pytest.mark.parametrize(
    ("flags", "depth", "size", "told"),
    [
        (EXTENTS, 0, 100, True),
        (0, 0, 100, True),
        (EXTENTS, 1, 100, False),
        (EXTENTS, 0, 0, False),
        (EXTENTS, 0, 1, True),
    ],
)
def test_a_file_whose_first_block_is_another_was_written_anew(
    flags: int, depth: int, size: int, told: bool
) -> None:
    before = state(flags=flags, depth=depth, size=size)
    assert second_of(before, place=900).may_have_written.tolist() == [False, told]
    assert second_of(before).may_have_written.tolist() == [False, False]
    assert not second_of(state(depth=1), depth=0, place=900).may_have_written.any()


@pytest.mark.parametrize(("flags", "place"), [(EXTENTS, range(18, 24)), (0, range(6))])
def test_where_the_content_begins_is_told_by_the_first_entry_of_the_map(
    flags: int, place: range
) -> None:
    """48 bits of the first extent; of pointers the first one, and a half of the second."""
    for at in range(60):
        history = past_of(state(flags=flags), state(flags=flags, order=6))
        history.states.table.i_block[1, at] ^= 0x81
        assert WriteHistory(history).may_have_written.tolist() == [False, at in place], at


def test_a_write_in_place_is_one_into_blocks_that_the_file_had() -> None:
    in_place = second_of(state(), version=3)
    assert in_place.overwritten_in_place(np.array([0])).tolist() == [False, True]
    assert in_place.overwritten_in_place(np.array([1])).tolist() == [False, False]
    anew = second_of(state(), version=3, place=900)
    assert anew.may_have_written.tolist() == [False, True]
    assert not anew.overwritten_in_place(np.array([0])).any()
    for broken in (0, 1):
        states = [state(), state(order=6, version=3)]
        states[broken]["whole"] = False
        assert not WriteHistory(past_of(*states)).overwritten_in_place(np.array([0])).any()


# --- one state ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "once"),
    [
        ({}, True),
        ({"version": 3}, False),
        ({"mtime": MADE + A_MOMENT - 1, "ctime": LATER}, True),
        ({"mtime": MADE + A_MOMENT, "ctime": LATER}, False),
        ({"version": 9, "mtime": MADE - 1}, True),  # a time set by hand: gone by a later write
        ({"version": 9, "mtime": MADE + 1}, True),
        ({"version": 9, "mtime": MADE, "ctime": MADE}, False),
        ({"extra_isize": DATED - 1}, False),
        ({"extra_isize": DATED}, True),
    ],
)
def test_a_file_was_written_in_one_go_where_its_times_and_version_say_so(
    changes: State, once: bool
) -> None:
    assert WriteHistory(past_of(state(**changes))).written_once.tolist() == [once]


EMPTY = {"size": 0, "blocks": 0, "mtime": LATER, "ctime": LATER}


@pytest.mark.parametrize(
    ("changes", "awaits"),
    [
        (EMPTY, True),
        ({**EMPTY, "ctime": LATER + 1}, True),
        ({**EMPTY, "mtime": MADE}, False),  # was never written to
        ({**EMPTY, "mtime": MADE - 1}, False),
        ({**EMPTY, "mtime": LATER + 1}, False),  # set by hand
        ({**EMPTY, "size": 1}, False),
        ({**EMPTY, "blocks": 8}, False),
        ({**EMPTY, "version": 1}, False),  # a kernel that does not count
    ],
)
def test_an_empty_file_that_was_written_to_awaits_its_bytes(changes: State, awaits: bool) -> None:
    assert WriteHistory(past_of(state(**changes))).awaits_writeback.tolist() == [awaits]


def test_a_file_awaits_blocks_when_it_was_written_and_got_none_since() -> None:
    assert second_of(state(), version=3).may_await_allocation.tolist() == [False, True]
    assert second_of(state(), version=3, blocks=16).may_await_allocation.tolist() == [False, False]
    empty = second_of(state(size=0, blocks=0), version=3, mtime=LATER, ctime=LATER)
    assert empty.may_await_allocation.tolist() == [False, True]
    waits = [state(), state(order=6, version=3), state(order=7, version=3, blocks=16)]
    assert WriteHistory(past_of(*waits)).may_await_allocation.tolist() == [False, True, False]


def test_the_last_change_is_that_of_the_same_life() -> None:
    writes = WriteHistory(past_of(
        state(), state(order=6, version=3), state(order=7, version=3),
        state(life=1), state(life=1, order=6), state(life=1, order=7, version=3),
    ))  # fmt: skip
    assert writes.last_write_row.tolist() == [0, 1, 1, 3, 3, 5]
    assert writes.last_in_place_write_row(np.array([0, 1])).tolist() == [-1, 1, 1, -1, -1, 5]


def flushed(*states: State, breaks: JournalGaps = NO_BREAKS) -> list[bool]:
    """Per state whether its bytes had blocks before the next one; the last is gone at once."""
    commits = [(one["order"], one["ctime"]) for one in states]
    following = [*(one["order"] for one in states[1:]), int(TID_ON_DISK)]
    history = past_of(*states, commits=commits, following=following, breaks=breaks)
    found: list[bool] = WriteHistory(history).is_flushed.tolist()
    return found


def test_delayed_allocation_is_over_at_an_unmount_and_after_a_minute() -> None:
    first, second = state(), state(order=9, ctime=MADE + SECOND)
    assert flushed(first, second)[0] is False
    assert flushed(first, second, breaks=breaks(8, MADE, clean=True))[0] is True
    assert flushed(first, second, breaks=breaks(8, MADE, clean=False))[0] is False
    late = state(order=9, ctime=MADE + MINUTE)
    assert flushed(first, late)[0] is True
    written_again = [first, state(order=6, version=3, ctime=MADE + MINUTE - 1), late]
    assert flushed(*written_again)[1] is False


def test_a_transaction_begins_behind_what_is_known_of_those_before() -> None:
    commits = ((5, MADE), (6, MADE + SECOND), (7, MADE + 2 * SECOND), (12, MADE + 9 * SECOND))
    orders = np.array([5, 6, 7, 12, 3])
    told = past_of(state(ctime=MADE - SECOND), commits=commits)
    begins = [0, MADE - SECOND, MADE, MADE + 2 * SECOND, 0]  # 6 behind the change that 5 shows
    assert told.started_after(orders).tolist() == begins
    later = past_of(state(ctime=MADE - 1), state(order=6, ctime=MADE + 5), commits=commits)
    begins[1:3] = MADE - 1, MADE + 5
    assert later.started_after(orders).tolist() == begins
    assert past_of(state()).started_after(orders).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("commits", "changes", "hidden"),
    [
        (((5, LATER), (6, LATER)), {}, True),
        (((4, MADE), (5, LATER), (6, LATER)), {}, True),  # it begins in the tick at the earliest
        (((4, MADE + 1), (5, LATER), (6, LATER)), {}, False),
        (((5, LATER), (9, LATER)), {"order": 9}, False),  # behind an unmount
        (((5, MADE), (9, LATER)), {"order": 9}, True),
        (((4, MADE + 1), (5, LATER), (6, LATER)), {"extra_isize": 0}, True),  # whole seconds
        (((4, MADE + SECOND), (5, LATER), (6, LATER)), {"extra_isize": 0}, False),
    ],
)
def test_a_change_in_the_tick_of_the_one_before_is_not_counted(
    commits: tuple[tuple[int, int], ...], changes: State, hidden: bool
) -> None:
    freed = state(**{"order": 6, "links_count": 0, "dtime": 1010, "ctime": LATER, **changes})
    writes = WriteHistory(past_of(state(), freed, commits=commits))
    assert writes.may_be_same_tick.tolist() == [False, hidden]


# --- when the log begins ------------------------------------------------------------------------

OLD_LOG = ((40, MADE), (41, LATER))


@pytest.mark.parametrize(
    ("made", "known"), [(MADE - 1, False), (MADE, False), (MADE + 1, True), (LATER, True)]
)
def test_of_a_file_older_than_the_log_earlier_writes_are_not_known(made: int, known: bool) -> None:
    written = state(crtime=made, mtime=LATER + 1, ctime=LATER + 1, version=5)
    writes = WriteHistory(past_of(written, commits=OLD_LOG))
    assert writes.last_in_place_write_row(np.array([0])).tolist() == [-1 if known else 0]
    assert writes.rewritten_before_first_state.tolist() == [0 if known else -1]


@pytest.mark.parametrize(
    ("first", "mkfs", "oldest"),
    [
        (1, 990, MADE - 5 * SECOND),  # the log's first transaction, soon after mke2fs
        (2, 941, MADE - 5 * SECOND),
        (3, 990, MADE),
        (1, 940, MADE),  # a new log in an old file system
    ],
)
def test_a_log_that_was_never_begun_anew_has_what_its_first_transaction_was_open_for(
    first: int, mkfs: int, oldest: int
) -> None:
    for made, known in ((oldest, False), (oldest + 1, True)):
        one = state(crtime=made, mtime=LATER, ctime=LATER, version=5)
        writes = WriteHistory(past_of(one, commits=((first, MADE), (9, LATER)), mkfs_time=mkfs))
        assert writes.rewritten_before_first_state.tolist() == [0 if known else -1]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"version": 3}, True),
        ({"version": 2}, False),
        ({"version": 3, "mtime": LATER - 1}, False),  # one step is that of the time set by hand
        ({"version": 4, "mtime": LATER - 1}, True),
        ({"version": 3, "mtime": LATER + SECOND}, False),
        ({"version": 3, "flags": 0}, False),
        ({"version": 3, "blocks": 0}, False),
        ({"version": 3, "extra_isize": DATED - 4}, False),
    ],
)
def test_a_file_that_is_first_seen_with_blocks_may_have_been_rewritten_since_it_had_them(
    changes: State, again: bool
) -> None:
    made = {"crtime": LATER, "mtime": LATER, "ctime": LATER, **changes}
    writes = WriteHistory(past_of(state(**made), commits=OLD_LOG))
    assert writes.rewritten_before_first_state.tolist() == [0 if again else -1]


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({}, True),
        ({"mtime": MADE - 5, "ctime": MADE, "version": 2}, False),  # all of it in one go
        ({"mtime": MADE - 10, "version": 9}, False),  # nothing since it was made, as both times say
        ({"mtime": MADE - 11, "version": 9}, False),  # a time set by hand stands
        ({"extra_isize": DATED - 4}, False),  # it has no time of its making
    ],
)
def test_what_an_old_file_was_written_before_the_log_begins_may_be_in_place(
    changes: State, unknown: bool
) -> None:
    old = {"crtime": MADE - 10, "mtime": MADE, "ctime": MADE, "version": 5, **changes}
    states = [state(**old), state(**old, order=6)]
    writes = WriteHistory(past_of(*states, commits=OLD_LOG))
    assert writes.last_in_place_write_row(np.array([0])).tolist() == [0 if unknown else -1] * 2


def test_a_log_begins_with_the_first_commit_that_has_a_time() -> None:
    for made, known in ((MADE, False), (MADE + 1, True)):
        one = state(crtime=made, mtime=LATER, ctime=LATER, version=5)
        writes = WriteHistory(past_of(one, commits=((40, -1), (41, MADE), (42, LATER))))
        assert writes.rewritten_before_first_state.tolist() == [0 if known else -1]
    untimed = WriteHistory(past_of(state(crtime=1, version=5), commits=((40, -1),)))
    assert untimed.rewritten_before_first_state.tolist() == [0]
    assert WriteHistory(
        past_of(state(crtime=0, version=5))
    ).rewritten_before_first_state.tolist() == [-1]


# --- come to the disk ---------------------------------------------------------------------------

MINUTE = 60 * SECOND


def unsettled(
    gone: int, breaks: JournalGaps = NO_BREAKS, following: int = 9, **changes: Any
) -> bool:
    """Whether a file that was changed at MADE in transaction 5 may not have come to the disk.

    Args:
        gone: when the transaction was committed in which it is gone.
        breaks: in the log.
        following: the order of that transaction.
        changes: of the state.
    """
    history = past_of(
        state(**changes), commits=((5, MADE), (following, gone)), following=[following],
        breaks=breaks,
    )  # fmt: skip
    return bool(WriteHistory(history).may_not_be_flushed(np.array([0]), np.array([0]))[0])


def test_a_minute_brings_bytes_to_the_disk() -> None:
    assert unsettled(MADE + MINUTE - 1)
    assert not unsettled(MADE + MINUTE)
    nothing = WriteHistory(past_of(state(), commits=((5, MADE), (9, MADE)), following=[9]))
    assert not nothing.may_not_be_flushed(np.array([0]), np.array([-1])).any()


def test_a_deletion_time_ends_it_within_its_second() -> None:
    states = [state(), state(order=9, links_count=0, dtime=1059, whole=False)]
    for second, expected in ((1058, True), (1059, False), (0, False), (INODES, False)):
        states[1]["dtime"] = second
        history = past_of(
            *states, commits=((5, MADE), (9, MADE + 2 * MINUTE)), following=[9, int(TID_ON_DISK)]
        )
        assert unflushed(history, 0, 0) == [expected]


def test_without_a_log_the_deletion_time_alone_tells() -> None:
    for second, expected in ((1058, True), (1059, False)):
        writes = WriteHistory(past_of(state(dtime=second)))
        assert writes.may_not_be_flushed(np.array([0]), np.array([0])).tolist() == [expected]


def breaks(after: int, time: int, clean: bool, before: int = 5) -> JournalGaps:
    """One break, between two transactions."""
    columns: Any = (np.array([one]) for one in (before, after, time, clean, False))
    return JournalGaps(*columns)


def test_an_unmount_brings_everything_to_the_disk() -> None:
    soon = MADE + SECOND
    assert not unsettled(soon, breaks(8, MADE, clean=True))
    assert not unsettled(soon, breaks(9, MADE, clean=True))
    assert unsettled(soon, breaks(10, MADE, clean=True))  # it was gone before that


def test_a_power_cut_stops_what_was_on_its_way() -> None:
    late = MADE + 2 * MINUTE
    assert not unsettled(late)
    assert unsettled(late, breaks(8, MADE + SECOND, clean=False))
    assert not unsettled(late, breaks(8, MADE + MINUTE, clean=False))
    assert not unsettled(late, breaks(10, MADE + SECOND, clean=False))


# --- which kernel counted -----------------------------------------------------------------------


def counted(orders: tuple[int, ...], counted: tuple[int, ...], uncounted: tuple[int, ...] = (),
            version: int = 1) -> list[bool]:  # fmt: skip
    """Of states of these transactions: the kernel counted. There was an unmount behind 10 and 20.

    Args:
        orders: of the states.
        counted: transactions in which i_version of a file rose.
        uncounted: those in which a file was written and it did not rise.
        version: i_version of the states.
    """
    columns: Any = (
        np.array(column)
        for column in ((10, 20), (13, 23), (MADE, MADE), (True, True), (False, False))
    )
    writes = Writes(np.array([], int), np.array(counted, int), np.array(uncounted, int))
    states = [state(order=order, version=version) for order in orders]
    found: list[bool] = WriteHistory(
        past_of(*states, breaks=JournalGaps(*columns), writes=writes)
    ).is_counted.tolist()
    return found


def test_a_kernel_counts_from_the_mount_on_in_which_a_count_is_seen() -> None:
    every = (9, 10, 13, 20, 23, 30)
    assert counted(every, ()) == [False] * 6
    assert counted(every, (), version=2) == [True] * 6  # each shows it itself
    assert counted(every, (5,)) == [True] * 6
    assert counted(every, (10,)) == [True] * 6
    assert counted(every, (13,)) == [False] * 2 + [True] * 4
    assert counted(every, (15, 29)) == [False] * 2 + [True] * 4
    assert counted(every, (29,)) == [False] * 4 + [True] * 2


def test_in_a_mount_with_a_write_that_is_not_counted_none_is() -> None:
    """An older kernel may have written in between; it leaves the versions as they were."""
    every = (9, 10, 13, 20, 23, 30)
    for version in (1, 2):
        found = counted(every, (5,), (14,), version=version)
        assert found == [True, True, False, False, True, True]
    assert counted(every, (5,), (9, 29)) == [False, False, True, True, False, False]


# --- when a state was gone ----------------------------------------------------------------------


def test_of_a_state_that_shows_it_freed_the_deletion_time_ends_it_too() -> None:
    freed = {"links_count": 0, "whole": False, "version": 2}
    for second, soon in ((1058, True), (1059, False)):
        states = [
            state(),
            state(order=9, dtime=second, **freed),
            state(order=12, dtime=second, **freed),
        ]
        commits = ((5, MADE), (9, MADE + 3 * MINUTE), (12, MADE + 9 * MINUTE))
        history = past_of(*states, commits=commits, following=[9, 12, int(TID_ON_DISK)])
        for row in range(3):
            assert WriteHistory(history).may_not_be_flushed(
                np.array([row]), np.array([0])
            ).tolist() == [soon]


def test_a_state_was_gone_with_the_next_one_whatever_the_log_has_later() -> None:
    for gone, soon in ((MADE + SECOND, True), (MADE + MINUTE, False)):
        commits = ((5, MADE), (9, gone), (12, MADE + 9 * MINUTE))
        history = past_of(state(), commits=commits, following=[9])
        assert unflushed(history, 0, 0) == [soon]


def test_an_unmount_before_a_file_was_unlinked_brought_its_bytes_to_the_disk() -> None:
    """It is open still: its state is that of an orphan."""
    orphan = state(order=9, links_count=0, version=2)
    for after, clean, soon in (
        (8, True, False),
        (9, True, False),
        (10, True, True),
        (8, False, True),
    ):
        history = past_of(
            state(),
            orphan,
            following=[9, int(TID_ON_DISK)],
            breaks=breaks(after, MADE, clean=clean),
            commits=((5, MADE), (9, MADE + SECOND), (12, MADE + 2 * SECOND)),
        )
        assert unflushed(history, 1, 0) == [soon]


def test_a_power_cut_also_stops_the_bytes_of_an_open_file_without_a_name() -> None:
    """The next mount frees it, days later: its bytes had a second."""
    orphan = state(order=7, links_count=0, version=2)
    freed = state(order=13, links_count=0, version=2, dtime=LATE // SECOND)
    for time, soon in ((MADE + SECOND, True), (MADE + MINUTE, False)):
        history = past_of(
            state(),
            orphan,
            freed,
            following=[7, 13, int(TID_ON_DISK)],
            breaks=breaks(9, time, clean=False, before=7),
            commits=((5, MADE), (7, MADE), (13, LATE)),
        )
        assert [unflushed(history, row, 0) for row in (1, 2)] == [[soon], [soon]]


def test_where_a_transaction_has_no_commit_time_the_end_of_the_log_is_the_latest_moment() -> None:
    for last, soon in ((MADE + SECOND, True), (MADE + MINUTE, False)):
        history = past_of(state(), commits=((5, MADE), (9, -1), (12, last)), following=[9])
        assert unflushed(history, 0, 0) == [soon]
        history = past_of(state(), commits=((5, MADE), (12, last)), following=[int(TID_ON_DISK)])
        assert unflushed(history, 0, 0) == [soon]
