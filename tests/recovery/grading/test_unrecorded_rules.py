"""What keeps a file from intact although all records agree: each condition, on pasts by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.history import History
from ext4kit.history.inode_states import TID_ON_DISK
from ext4kit.history.writes import Writes
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.grading.unrecorded import emptied_state, find_unrecorded, freed_state
from ext4kit.recovery.grading.writes import WriteHistory
from ext4kit.units import NANOSECONDS
from tests.recovery.made_history import MADE, Sized, State, past_of, state

MINUTE = 60
END = MADE // NANOSECONDS  # seconds
NOTHING: Any = np.zeros(0, np.int64)
FREED = {"order": 9, "links_count": 0, "whole": False, "size": 0, "blocks": 0, "dtime": END + 99}
OPEN = FREED | {"dtime": 0}  # unlinked, and held by a process
INLINE = int(InodeFlags.INLINE_DATA)
FILE, DIRECTORY, SYMLINK = 0o100755, 0o040755, 0o120777


def candidates(*rows: int, superseded: bool = False) -> Any:
    """Candidates of these states."""
    every = np.array(rows)
    return SimpleNamespace(state_row=every, superseded=np.full(len(rows), superseded))


def reasons(
    *states: State, superseded: bool = False, from_disk: bool = True, writes: Writes | None = None
) -> list[str]:
    """Codes for the file of the first state, which is gone with the second one."""
    commits = [(5, MADE), (9, MADE + 2 * MINUTE * NANOSECONDS)]
    following = [*(one["order"] for one in states[1:]), int(TID_ON_DISK)]
    changes: dict[str, Any] = {} if writes is None else {"writes": writes}
    history = past_of(*states, commits=commits, following=following, **changes)
    found = find_unrecorded(
        history, candidates(0, superseded=superseded), WriteHistory(history), np.array([from_disk])
    )
    assert all(doubtful.shape == (1,) for doubtful, _ in found)
    return [reason.code for doubtful, reason in found if doubtful[0]]


def test_a_file_whose_deletion_is_recorded_a_minute_after_its_last_change_has_nothing() -> None:
    assert reasons(state(), state(**FREED)) == []


@pytest.mark.parametrize(("mode", "told"), [(FILE, ["no-journal"]), (DIRECTORY, []), (SYMLINK, [])])
def test_without_a_journal_nothing_tells_of_later_writes_to_a_file(
    mode: int, told: list[str]
) -> None:
    history = past_of(state(mode=mode))
    empty = past_of(state(mode=mode))
    cast(Any, empty).log = SimpleNamespace(transactions=Sized(order=NOTHING))
    for one in (history, empty):
        found = find_unrecorded(one, candidates(0), WriteHistory(history), np.array([mode == FILE]))
        assert [reason.code for doubtful, reason in found if doubtful[0]] == told


def test_an_earlier_version_may_have_changed_before_its_blocks_were_dropped() -> None:
    assert reasons(state(), state(**FREED), superseded=True) == ["earlier-version"]
    assert reasons(state(), state(order=9, place=900), superseded=True) == ["earlier-version"]
    assert reasons(state(mode=SYMLINK), state(**FREED, mode=SYMLINK), superseded=True) == []


@pytest.mark.parametrize(
    "after",
    [OPEN, {"order": 9, "life": 1}, {**FREED, "life": 1}, {"order": 9, "place": 900}],
    ids=["open", "another file", "another file's end", "another content"],
)
def test_a_file_whose_end_no_record_shows_may_have_changed_before_it(after: State) -> None:
    assert reasons(state(), state(**after)) == ["deletion-not-recorded"]
    assert reasons(state(mode=SYMLINK), state(**{**after, "mode": SYMLINK})) == []


def test_where_the_kernel_counts_no_changes_the_last_one_is_not_known() -> None:
    uncounted = Writes(NOTHING, NOTHING, NOTHING)
    old = state(version=1), state(**FREED, version=1)
    assert reasons(*old, writes=uncounted) == ["changes-not-counted"]
    assert reasons(*old) == []  # others of its time are counted
    assert reasons(state(), state(**FREED), writes=uncounted) == []
    assert reasons(state(version=1), state(**OPEN, version=1), writes=uncounted) == [
        "deletion-not-recorded"
    ]
    link = state(version=1, mode=SYMLINK), state(**FREED, version=1, mode=SYMLINK)
    assert reasons(*link, writes=uncounted) == []
    assert reasons(*old, writes=uncounted, superseded=True) == ["earlier-version"]


@pytest.mark.parametrize(
    ("mode", "from_disk", "told"),
    [
        (FILE, True, ["recent-change"]),
        (FILE, False, ["second-change-possible"]),
        (SYMLINK, False, []),
    ],
)
def test_a_file_that_went_within_a_minute_of_its_last_change_may_have_another(
    mode: int, from_disk: bool, told: list[str]
) -> None:
    """From the disk its bytes may be missing; in the log they may be those before the last."""
    for seconds, soon in ((1, True), (MINUTE - 2, True), (MINUTE - 1, False)):
        freed = state(**{**FREED, "dtime": END + seconds}, mode=mode)
        found = reasons(state(mode=mode), freed, from_disk=from_disk)
        assert found == told * soon


# --- which state shows the end --------------------------------------------------------------------


def life(*rows: State) -> History:
    """A past with states of one file, or of those that they say."""
    return past_of(*(state(order=5 + at, **row) for at, row in enumerate(rows)))


CONTENT: State = {}
GONE: State = {name: value for name, value in FREED.items() if name != "order"}
HELD: State = GONE | {"dtime": 0}
INLINE_CONTENT = {"flags": INLINE, "blocks": 0}
INLINE_GONE = INLINE_CONTENT | {"links_count": 0, "dtime": END + 99}  # its bytes stay in the inode


@pytest.mark.parametrize(
    ("rows", "freed", "emptied"),
    [
        ([CONTENT, GONE], [1, -1], [1, -1]),
        ([CONTENT, GONE, GONE], [1, 2, -1], [2, 2, -1]),
        ([CONTENT, HELD, GONE], [2, 2, -1], [2, 2, -1]),
        ([CONTENT, HELD], [-1, -1], [1, -1]),  # held by a process until the end
        ([CONTENT, CONTENT, GONE], [-1, 2, -1], [-1, 2, -1]),
        ([CONTENT, GONE, CONTENT, GONE], [1, -1, 3, -1], [-1, -1, 3, -1]),
        ([CONTENT, {"whole": False}], [-1, -1], [-1, -1]),  # linked, and it tells no content
        ([CONTENT, CONTENT], [-1, -1], [-1, -1]),
        ([CONTENT, {"life": 1, **GONE}], [-1, -1], [-1, -1]),
        ([CONTENT, {"life": 1}, {"life": 1, **GONE}], [-1, 2, -1], [-1, 2, -1]),
        ([CONTENT, GONE, {"life": 1}, {"life": 1, **GONE}], [1, -1, 3, -1], [1, -1, 3, -1]),
    ],
)
def test_the_end_of_a_content_is_shown_by_the_state_that_frees_it(
    rows: list[State], freed: list[int], emptied: list[int]
) -> None:
    history = life(*rows)
    every = candidates(*range(len(rows)))
    assert freed_state(history, every).tolist() == freed
    assert emptied_state(history, every).tolist() == emptied


@pytest.mark.parametrize(
    ("rows", "freed"),
    [
        ([INLINE_CONTENT, INLINE_GONE], [-1, 1]),
        ([INLINE_CONTENT, INLINE_CONTENT], [-1, -1]),
        ([INLINE_CONTENT, INLINE_GONE, INLINE_GONE], [-1, 1, 2]),
        ([INLINE_CONTENT, INLINE_GONE, INLINE_GONE | {"whole": False}], [-1, 2, 2]),
        ([CONTENT, INLINE_GONE, GONE], [-1, 2, -1]),
        ([INLINE_GONE], [-1]),  # nothing shows what it was before
        ([CONTENT, {"life": 1, **INLINE_GONE}], [-1, -1]),
        ([CONTENT, INLINE_GONE | {"flags": 0}], [-1, -1]),
        ([CONTENT, INLINE_GONE | {"dtime": 0}], [-1, -1]),
    ],
)
def test_bytes_in_the_inode_are_shown_freed_by_their_own_state(
    rows: list[State], freed: list[int]
) -> None:
    assert freed_state(life(*rows), candidates(*range(len(rows)))).tolist() == freed
