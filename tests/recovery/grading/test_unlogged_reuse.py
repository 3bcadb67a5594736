"""Others who may have used a file's blocks and left no claim: each circumstance, told by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.filesystem.block_maps import Runs
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.history.writes import Writes
from ext4kit.recovery.candidates import INODE_TABLE, JOURNAL, STALE_INDEX, Candidates
from ext4kit.recovery.grading.unlogged_reuse import (
    check_unlogged_reuse,
    journal_gap_before_deletion,
)
from ext4kit.recovery.grading.writes import WriteHistory
from ext4kit.units import NANOSECONDS
from tests.recovery.made_history import MADE, NO_BREAKS, Sized, State, log_of, past_of, state

MINUTE = 60 * NANOSECONDS
STATE, DEATH = 5, 9  # the file's transactions
COMMITS = ((4, MADE - MINUTE), (5, MADE), *((tid, MADE + tid * MINUTE) for tid in range(6, 21)))
LAST = 20
NEWEST = COMMITS[-1][1] // NANOSECONDS  # seconds
PER_GROUP, FIRST = 100, 1  # blocks of a group; the first block of the first one
BITMAPS = (70, 50, 60)  # blocks of the bitmaps of the groups
NONE: Any = np.zeros(0, np.int64)
COUNTED = np.array([1])  # a transaction that shows counts: the kernel counted from then on


@dataclass
class Case:
    """A deleted file with one block in the second group, and what the log tells of others.

    Attributes:
        mode: of the file; order: of its state.
        runs: (first block, blocks) of each.
        death, source: of the candidate.
        others: states of another file.
        written: tids in which files were written.
        bitmaps: (group, tid) of each copy of a bitmap in the log.
        breaks: in the log; sequence: the next one, by its superblock.
        mounts: (tid, mount count) of each copy of the superblock, None where none is read.
    """

    mode: int = 0o100755
    order: int = STATE
    runs: tuple[tuple[int, int], ...] = ((FIRST + PER_GROUP + 5, 1),)
    death: int = DEATH
    source: str = JOURNAL
    others: tuple[State, ...] = ()
    written: tuple[int, ...] = ()
    counted: Any = field(default_factory=lambda: COUNTED)
    bitmaps: tuple[tuple[int, int], ...] = ()
    has_log: bool = True
    has_history: bool = True
    needs_recovery: bool = False
    breaks: JournalGaps = NO_BREAKS
    sequence: int = LAST + 2
    mounts: tuple[tuple[int, int], ...] | None = None
    mount_count: int = 0
    mount_time: int = 0
    mkfs_time: int = 0
    check_time: int = 0

    def history(self) -> History:
        freed = state(
            order=DEATH, links_count=0, whole=False, size=0, blocks=0, mode=self.mode, dtime=2000,
            ctime=MADE + 9 * MINUTE, mtime=MADE + 9 * MINUTE,
        )  # fmt: skip
        states = [state(order=self.order, mode=self.mode), freed, *self.others]
        following = [
            after["order"] if after["life"] == one["life"] else int(TID_ON_DISK)
            for one, after in zip(states, [*states[1:], state(life=-1)], strict=True)
        ]
        history: Any = past_of(
            *states, commits=COMMITS, following=following, breaks=self.breaks,
            writes=Writes(np.array(self.written, np.int64), self.counted, NONE),
        )  # fmt: skip
        history.log = log_of(COMMITS) if self.has_log else None
        if history.log is not None:
            history.log.needs_recovery = self.needs_recovery
            history.log.superblock = SimpleNamespace(sequence=self.sequence)
        history.live_copy, history.mounts = "", None
        if self.mounts is not None:
            tid, count = np.array(self.mounts, np.int64).reshape(-1, 2).T
            history.mounts = Sized(tid=tid, counts=lambda rows: count[rows])
        vars(history.fs.superblock).update(
            first_data_block=FIRST, blocks_per_group=PER_GROUP, mount_count=self.mount_count,
            mount_time=self.mount_time, mkfs_time=self.mkfs_time, check_time=self.check_time,
        )  # fmt: skip
        history.fs.groups = Sized(order=np.arange(3), block_bitmap=np.array(BITMAPS))
        blocks = sorted((BITMAPS[group], tid) for group, tid in self.bitmaps)
        block, orders = np.array([(10, LAST), *blocks], np.int64).T  # and one that is no bitmap
        history.copies = SimpleNamespace(blocks=block, tids=orders) if self.has_history else None
        return cast(History, history)

    def reasons(self) -> list[str]:
        """Codes of why it is consistent at most."""
        history = self.history()
        start, length = np.array(self.runs, np.int64).reshape(-1, 2).T
        zeros = start * 0
        found = cast(Candidates, Sized(
            state_row=np.array([0]), freed_tid=np.array([self.death]),
            map_source=np.array([self.source]),
        ))  # fmt: skip
        runs = Runs(zeros, zeros, length, start, zeros > 0)
        files = np.array([self.mode & 0xF000 == 0x8000])
        told = check_unlogged_reuse(history, found, runs, WriteHistory(history), files)
        return [reason.code for doubtful, reason in told if doubtful[0]]


def test_a_file_after_which_nothing_was_written_has_no_unseen_users() -> None:
    assert Case().reasons() == []
    assert Case(bitmaps=((0, 12), (1, 12), (2, 12))).reasons() == []


# --- files that were written later ----------------------------------------------------------------

TAKEN = 12  # the transaction in which the bitmap of its group is logged


def written(**changes: Any) -> bool:
    """Whether a file that was written in a later transaction may have had the file's blocks."""
    given: Any = {"written": (TAKEN,), "bitmaps": ((1, TAKEN),), **changes}
    found = Case(**given).reasons()
    assert set(found) <= {"unlogged-reuse"}
    return bool(found)


def test_blocks_may_have_been_taken_where_a_later_write_changed_the_bitmap_of_their_group() -> None:
    assert written()
    assert not written(bitmaps=((0, TAKEN), (2, TAKEN)))  # of other groups
    assert not written(bitmaps=())
    assert not written(written=())
    assert not written(has_history=False)


@pytest.mark.parametrize(("tid", "later"), [(DEATH - 1, False), (DEATH, False), (DEATH + 1, True)])
def test_only_what_was_written_after_its_end_may_have_its_blocks(tid: int, later: bool) -> None:
    changes: Any = {"written": (tid,), "bitmaps": ((1, tid),)}
    assert written(**changes) == later
    assert written(**changes, death=int(TID_ON_DISK))  # it is not seen dead: after its state
    assert not written(**changes, death=TID_NONE)  # it is open, and holds them
    assert not written(written=(STATE,), bitmaps=((1, STATE),), death=int(TID_ON_DISK))


def test_the_newest_bitmap_of_a_group_counts() -> None:
    assert written(written=(8, TAKEN, 14), bitmaps=((1, 8), (1, TAKEN)))
    assert written(written=(8, TAKEN), bitmaps=((1, 8), (1, TAKEN), (2, 8)))


@pytest.mark.parametrize(
    ("tid", "told"), [(TAKEN - 1, False), (TAKEN, True), (TAKEN + 1, True), (TAKEN + 2, False)]
)
def test_blocks_may_be_given_back_in_the_transaction_behind_the_write(tid: int, told: bool) -> None:
    assert written(bitmaps=((1, tid),)) == told


@pytest.mark.parametrize(
    ("start", "length", "groups"),
    [
        (FIRST + PER_GROUP, 1, {1}),
        (FIRST + PER_GROUP - 1, 1, {0}),
        (FIRST + 2 * PER_GROUP - 1, 1, {1}),
        (FIRST + 2 * PER_GROUP - 1, 2, {1, 2}),
        (FIRST + 10, 250, {0, 1, 2}),
        (FIRST, 1, {0}),
        (FIRST + 50, 50, {0}),
        (FIRST + 50, 51, {0, 1}),
    ],
)
def test_each_group_that_a_file_has_blocks_in_counts(
    start: int, length: int, groups: set[int]
) -> None:
    found = {at for at in range(3) if written(runs=((start, length),), bitmaps=((at, TAKEN),))}
    assert found == groups
    two = {
        at for at in range(3) if written(runs=((FIRST, 1), (start, length)), bitmaps=((at, TAKEN),))
    }
    assert two == groups | {0}


def test_a_map_that_names_blocks_outside_all_groups_is_counted_to_the_nearest() -> None:
    for block, group in ((0, 0), (FIRST + 3 * PER_GROUP, 2), (FIRST + 90 * PER_GROUP, 2)):
        runs = ((block, 1),)
        found = {at for at in range(3) if written(runs=runs, bitmaps=((at, TAKEN),))}
        assert found == {group}


def test_contents_of_files_and_links_are_meant() -> None:
    assert written(mode=0o120777)
    assert not written(mode=0o040755)
    assert not written(runs=())


# --- deletions of files that had blocks which no state maps ---------------------------------------

OTHER = {"life": 1, "number": 13, "order": 6, "ctime": MADE, "mtime": MADE}
AT_END = MADE + TAKEN * MINUTE
ENDS = {
    "life": 1, "number": 13, "order": TAKEN, "links_count": 0, "whole": False, "size": 0,
    "blocks": 0, "dtime": AT_END // NANOSECONDS, "ctime": AT_END, "mtime": MADE,
}  # fmt: skip


def passed(*others: State, **changes: Any) -> bool:
    """Whether a file of these states may have had blocks that nothing tells of."""
    return written(written=(), others=tuple(state(**one) for one in others), **changes)


def test_a_deleted_file_whose_last_content_is_known_took_no_more_blocks() -> None:
    assert not passed(OTHER, ENDS)


def test_a_file_that_went_on_after_its_last_state_may_have_taken_blocks() -> None:
    assert passed(OTHER, ENDS | {"version": 3})
    for mode in (0o120777, 0o040755):
        assert not passed(OTHER, ENDS | {"version": 3, "mode": mode})
    assert not passed(OTHER, ENDS | {"version": 3, "links_count": 1})
    assert not passed(OTHER, ENDS | {"version": 3, "whole": True})
    assert not passed(OTHER, ENDS | {"version": 3, "order": TAKEN + 1})
    assert not passed(
        OTHER,
        ENDS | {"version": 3, "order": TID_PRE_FAST_COMMIT},
        bitmaps=((1, TID_PRE_FAST_COMMIT),),
    )


def test_a_file_that_is_only_seen_freed_had_blocks_where_freeing_them_set_its_time() -> None:
    alone = ENDS | {"version": 1}
    assert passed(alone | {"mtime": AT_END})
    assert not passed(alone)
    assert passed(alone | {"version": 2})  # it was written to


def test_a_file_may_take_blocks_where_no_change_is_counted() -> None:
    old = {"version": 1}
    assert passed(OTHER | old, ENDS | old, counted=NONE)
    assert not passed(OTHER | old, ENDS | old)


def test_a_file_that_was_written_in_the_tick_of_its_last_state_may_have_taken_blocks() -> None:
    """Transaction 12 begins after the commit of 10."""
    for ctime, told in ((MADE + 10 * MINUTE, True), (MADE + 10 * MINUTE - 1, False)):
        assert passed(OTHER | {"ctime": ctime}, ENDS) == told


def test_a_file_whose_bytes_waited_for_blocks_may_have_got_them() -> None:
    """It was written again in transaction 10 and has no more blocks than before."""
    end = MADE + 10 * MINUTE
    for seconds, told in ((30, True), (90, False)):
        again = {"order": 10, "version": 3, "ctime": end - seconds * NANOSECONDS}
        dtime = {"dtime": end // NANOSECONDS, "version": 3}
        assert passed(OTHER, OTHER | again, ENDS | dtime) == told
        assert not passed(OTHER, OTHER | again | {"blocks": 16}, ENDS | dtime)


# --- lost transactions ----------------------------------------------------------------------------


def one_break(before: int, after: int, *, clean: bool = False, lost: bool = False) -> JournalGaps:
    return JournalGaps(*(cast(Any, np.array([one])) for one in (before, after, MADE, clean, lost)))


@pytest.mark.parametrize(
    "changes", [{"source": INODE_TABLE}, {"source": STALE_INDEX}, {"order": TID_PRE_FAST_COMMIT}]
)
def test_what_is_on_the_disk_came_after_all_lost_transactions(changes: dict[str, Any]) -> None:
    lost = one_break(LAST, LAST + 9, clean=True, lost=True)
    assert len(Case(breaks=lost).reasons()) == 1
    assert Case(breaks=lost, **changes).reasons() == []
    anew = replace(NO_BREAKS, restarted_at=STATE)
    assert len(Case(breaks=anew).reasons()) == 1
    assert Case(breaks=anew, **changes).reasons() == []


def test_lost_transactions_count_from_the_asked_one_to_the_next_state() -> None:
    """Of copies of data the oldest is asked: it may stand long before the state."""
    for before, told in ((2, False), (3, True), (STATE, True), (DEATH - 1, True), (DEATH, False)):
        history = Case(breaks=one_break(before, 30, lost=True)).history()
        found = SimpleNamespace(state_row=np.array([0]), map_source=np.array([JOURNAL]))
        assert journal_gap_before_deletion(history, cast(Any, found), np.array([3])).tolist() == [
            told
        ]
        cast(Any, history).next_tid[0] = TID_NONE
        until_now = journal_gap_before_deletion(history, cast(Any, found), np.array([3]))
        assert until_now.tolist() == [before >= 3]


# --- power cuts -----------------------------------------------------------------------------------


def cut(**changes: Any) -> bool:
    found = Case(**changes).reasons()
    assert set(found) <= {"unclean-shutdown"}
    return bool(found)


def test_a_log_that_is_not_replayed_was_cut_off() -> None:
    assert not cut()
    assert cut(needs_recovery=True)
    assert not cut(has_log=False)  # another reason tells that


def test_a_file_that_went_before_the_last_power_cut_lay_free_at_it() -> None:
    two: Sequence[Sequence[Any]] = ((7, 11), (9, 14), (MADE, MADE), (False, False), (False, False))
    breaks = JournalGaps(*(cast(Any, np.array(column)) for column in two))
    assert cut(breaks=breaks)
    assert cut(breaks=breaks, death=11)
    assert not cut(breaks=breaks, death=14)
    clean = replace(breaks, unmounted=np.array([False, True]))
    assert not cut(breaks=clean)
    assert cut(breaks=clean, death=7)


def test_the_check_that_mke2fs_notes_is_none() -> None:
    late = NEWEST + 100
    assert cut(check_time=late)
    assert not cut(check_time=late, mkfs_time=late)


@pytest.mark.parametrize(
    ("mounts", "count", "by_time"),
    [
        (((3, 4),), 4, False),  # the last copy is of the newest mount
        (((3, 4),), 5, True),
        (((3, 4), (12, 5)), 5, False),
        (((3, 4), (12, 5)), 4, True),
        (((3, 4), (12, 5)), 6, True),
    ],
)
def test_a_mount_that_left_no_transaction_is_told_by_the_count_of_mounts(
    mounts: tuple[tuple[int, int], ...], count: int, by_time: bool
) -> None:
    """The time of the last mount, long ago or not, says nothing then."""
    for time in (0, NEWEST + 100):
        assert cut(mounts=mounts, mount_count=count, mount_time=time) == by_time


@pytest.mark.parametrize("mounts", [None, (), ((3, 4),), ((3, 4), (11, 4))])
def test_without_a_copy_of_the_last_mount_the_time_of_mounting_tells(
    mounts: tuple[tuple[int, int], ...] | None,
) -> None:
    """There was an unmount; the mount behind it has no copy of the superblock in the log."""
    unmounted = one_break(10, 13, clean=True)
    known: Any = {"breaks": unmounted, "mounts": mounts, "mount_count": 4}
    assert cut(**known, mount_time=NEWEST + 1)
    assert not cut(**known, mount_time=NEWEST)
    behind: Any = known | {"mounts": ((3, 4), (13, 4)), "mount_time": NEWEST + 1}
    assert not cut(**behind)
