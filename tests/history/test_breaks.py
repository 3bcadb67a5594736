"""What the ids of transactions tell: unmounts, power cuts, lost transactions, a log begun anew.

Source of the steps: kernel fs/jbd2/journal.c, `jbd2_journal_destroy`, and fs/jbd2/recovery.c,
`jbd2_journal_recover`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.history.journal_gaps import NO_RESTART, JournalGaps, MountCounts, find_journal_gaps
from ext4kit.journal import Log
from ext4kit.journal.ring import Ring

FIRST, END = 1, 1024  # of the ring
Row = tuple[int, int, int, int]  # order, first block, commit block or -1, commit time or -1


def breaks_of(*rows: Row, damaged: tuple[int, ...] = ()) -> JournalGaps:
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    order, start, commit, time = columns
    known = SimpleNamespace(order=order, start=start, commit=commit, commit_time_ns=time)
    known = cast(Any, _Sized(known, len(order)))
    log = SimpleNamespace(
        transactions=known, ring=Ring(FIRST, END), damaged_orders=np.array(damaged, np.int64)
    )
    return find_journal_gaps(cast(Log, log))


class _Sized:
    """Columns with a length, as the transactions of a log are."""

    def __init__(self, columns: SimpleNamespace, length: int) -> None:
        self.__dict__.update(vars(columns))
        self._length = length

    def __len__(self) -> int:
        return self._length


def kinds(found: JournalGaps) -> list[tuple[bool, bool]]:
    """(unmounted, transactions were lost) of each break."""
    return list(zip(found.unmounted.tolist(), found.transactions_lost.tolist(), strict=True))


def test_ids_that_follow_each_other_are_no_break() -> None:
    found = breaks_of((7, 1, 9, 100), (8, 10, 19, 200), (9, 20, 29, 300))
    assert (len(found.tid_before), found.restarted_at) == (0, NO_RESTART)
    assert len(breaks_of().tid_before) == len(breaks_of((7, 1, 9, 100)).tid_before) == 0
    assert len(find_journal_gaps(None).tid_before) == 0


def test_a_transaction_that_cannot_be_read_is_as_one_that_is_lost_to_what_came_before_it() -> None:
    found = breaks_of((7, 1, 9, 100), (8, 10, 19, 200), (9, 20, 29, 300), damaged=(8,))
    assert len(found.tid_before) == 0
    assert [bool(found.any_lost_between(at, 9)) for at in (6, 7, 8, 9)] == [
        True,
        True,
        False,
        False,
    ]
    assert [bool(found.any_lost_between(7, until)) for until in (7, 8, 9)] == [False, True, True]
    assert bool(breaks_of((7, 1, 9, 100), damaged=(8,)).any_lost_between(7, 8))


@pytest.mark.parametrize(
    ("step", "start", "expected"),
    [
        (3, 20, (True, False)),  # an unmount takes one id, the next mount another
        (3, FIRST, (False, False)),  # e2fsck has recovered it: the log starts again
        (3, 21, (False, False)),
        (2, 20, (False, False)),  # the kernel has recovered it: one id is left out
        (4, 20, (False, True)),
        (90, FIRST, (False, True)),
    ],
)
def test_a_step_of_ids_tells_what_came_between(
    step: int, start: int, expected: tuple[bool, bool]
) -> None:
    found = breaks_of((6, 1, 9, 100), (7, 10, 19, 200), (7 + step, start, start + 9, 300))
    assert kinds(found) == [expected]
    assert (found.tid_before.tolist(), found.tid_after.tolist()) == ([7], [7 + step])
    assert found.commit_time.tolist() == [200]


def test_an_unmount_at_the_end_of_the_ring_goes_on_at_its_start() -> None:
    assert kinds(breaks_of((7, 1000, END - 1, 100), (10, FIRST, 9, 200))) == [(True, False)]


def test_nothing_is_known_to_be_unmounted_without_the_commit_before() -> None:
    for start in (0, END - 1):
        assert kinds(breaks_of((7, 1, -1, -1), (10, start, 9, 200))) == [(False, False)]


def test_the_next_break_is_the_first_behind_a_transaction() -> None:
    found = breaks_of(
        (5, 1, 9, 1), (6, 10, 19, 2), (9, 20, 29, 3), (19, 30, 39, 4), (20, 40, 49, 5)
    )
    assert found.tid_before.tolist() == [6, 9]
    assert found.first_gap_after(np.array([5, 6, 7, 9, 10])).tolist() == [0, 0, 1, 1, 2]


def test_lost_transactions_count_between_two_orders_only() -> None:
    found = breaks_of((6, 1, 9, 1), (9, 10, 19, 2), (19, 30, 39, 4), (20, 40, 49, 5))
    spans = np.array([(6, 9), (6, 19), (9, 10), (9, 19), (19, 20), (20, 20), (20, 6)]).T
    assert found.any_lost_between(*spans).tolist() == [False, True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("times", "anew"),
    [
        ((100, 200, 300), NO_RESTART),
        ((100, 100, 100), NO_RESTART),
        ((300, 100, 200), 8),
        ((100, 300, 200), 9),
        ((-1, -1, 300), NO_RESTART),  # not known
        ((300, -1, 200), 9),
        ((0, 1, 2), NO_RESTART),
    ],
)
def test_the_log_counts_anew_from_where_times_go_back(times: tuple[int, ...], anew: int) -> None:
    rows = [(7 + at, 1 + 10 * at, 9 + 10 * at, time) for at, time in enumerate(times)]
    assert breaks_of(*rows).restarted_at == anew


def test_an_unknown_event_lies_between_a_transaction_and_the_next_one() -> None:
    breaks = breaks_of((1, 1, 5, 10), (2, 6, 9, 20), (3, 10, 14, 30), (4, 15, 19, 40))
    order = np.array([1, 2, 3, 4])
    lost = breaks.with_lost(order, np.array([1]))
    assert (lost.tid_before.tolist(), lost.tid_after.tolist()) == ([2], [3])
    assert (
        lost.commit_time.tolist(),
        lost.unmounted.tolist(),
        lost.transactions_lost.tolist(),
    ) == ([-1], [False], [True])
    again = lost.with_lost(order, np.array([0, 1]))
    assert (again.tid_before.tolist(), again.tid_after.tolist()) == ([1, 2], [2, 3])
    assert (again.unmounted.tolist(), again.transactions_lost.tolist()) == (
        [False, False],
        [True, True],
    )


# --- how often it was mounted ---------------------------------------------------------------------


class _Counts(_Sized):
    """Copies of the superblock as (order, mount count)."""

    def __init__(self, *rows: tuple[int, int]) -> None:
        tid, count = np.array(rows, np.int64).reshape(-1, 2).T
        super().__init__(SimpleNamespace(tid=tid, counts=lambda at: count[at]), len(rows))


def unmounts(now: int, *copies: tuple[int, int]) -> list[bool]:
    """Which of two breaks are unmounts for certain: between 10 and 13, between 20 and 23."""
    breaks = JournalGaps(
        np.array([10, 20]), np.array([13, 23]), np.array([20, 40]), np.array([True, True]),
        np.array([False, False]),
    )  # fmt: skip
    counted = breaks.with_mounts(cast(Any, _Counts(*copies)), now)
    assert (counted.tid_before.tolist(), counted.tid_after.tolist()) == ([10, 20], [13, 23])
    clean: list[bool] = counted.unmounted.tolist()
    return clean


@pytest.mark.parametrize(
    ("copies", "now", "clean"),
    [
        ((), 3, [False, False]),  # nothing tells how often it was mounted before
        (((9, 4), (14, 5), (24, 6)), 6, [True, True]),
        (((9, 4), (14, 6), (24, 7)), 7, [False, True]),  # a mount in between left no transaction
        (((9, 4), (14, 5), (24, 7)), 7, [True, False]),
        (((9, 4), (14, 4), (24, 6)), 6, [False, False]),
        (((10, 4), (13, 6), (20, 6), (23, 8)), 8, [False, False]),  # of transactions beside it
        (((9, 3), (10, 4), (13, 5), (14, 9), (20, 9), (23, 10)), 10, [True, True]),
        (((9, 4), (13, 5), (24, 7)), 7, [True, False]),
        (((9, 4), (20, 6), (24, 7)), 7, [False, True]),
        (((9, 4), (24, 6)), 6, [True, True]),  # none of the mount in between: two mounts in all
        (((9, 4), (24, 9)), 9, [False, False]),  # one of the two was none
        (((9, 4),), 6, [True, True]),  # the disk tells the last one
        (((9, 4),), 7, [False, False]),
        (((9, 4), (14, 5)), 6, [True, True]),
        (((9, 4), (14, 5)), 7, [True, False]),  # maybe a later mount that left no transaction
        (((9, 4), (14, 5)), 0, [True, False]),  # the count was reset
        (((14, 4), (24, 5)), 5, [False, True]),
        (((14, 4),), 5, [False, True]),
    ],
)
def test_an_unmount_is_one_only_where_the_next_mount_is_the_next_by_number(
    copies: tuple[tuple[int, int], ...], now: int, clean: list[bool]
) -> None:
    assert unmounts(now, *copies) == clean


def test_what_ids_tell_to_be_no_unmount_stays_none() -> None:
    breaks = breaks_of((7, 1, 9, 100), (9, 10, 19, 200))
    counted = breaks.with_mounts(cast(Any, _Counts((7, 4), (9, 5))), 5)
    assert counted.unmounted.tolist() == [False]
    assert len(breaks_of().with_mounts(cast(Any, _Counts((7, 4))), 4).tid_before) == 0


@pytest.mark.parametrize(("block_size", "block", "start"), [(1024, 1, 0), (4096, 0, 1024)])
def test_mounts_are_counted_in_the_superblock(block_size: int, block: int, start: int) -> None:
    """`s_mnt_count` is a little-endian 16-bit number at byte 52. Source: kernel fs/ext4/ext4.h."""
    rows = np.full((5, block_size), 0xEE, np.uint8)
    rows[1, start + 52 : start + 54] = 4, 1
    rows[3, start + 52 : start + 54] = 0xFF, 0xFF
    log = SimpleNamespace(
        tags=SimpleNamespace(order=np.array([5, 6, 7, 8, 9])), read_copies=lambda tags: rows[tags]
    )
    history = SimpleNamespace(
        log=log, copies_of_block=lambda one: np.array([1, 3] if one == block else [0])
    )
    found = MountCounts(cast(Any, history), block_size)
    assert (len(found), found.tid.tolist()) == (2, [6, 8])
    assert found.counts(np.array([1, 0])).tolist() == [0xFFFF, 0x0104]
