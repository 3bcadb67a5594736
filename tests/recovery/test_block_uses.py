"""Whose a deleted file's blocks are: claims before and after its end, and what bitmaps show."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.arrays.intervals import Intervals
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.stable_inodes import OwnedRuns
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.recovery import block_uses as module
from ext4kit.recovery.block_uses import BlockUses, RecordedUses, find_reuse

BLOCKS = 2000
OWN, OTHER = 3, 4  # lives
STATE, DEATH = 10, 20  # orders of the candidate's state, and of when it is seen dead
Known = tuple[History, RecordedUses]
Taken = list[tuple[int, int, int, int, int]]  # candidate, start, length, inode number, order


def table(*rows: tuple[int, ...], columns: int) -> Any:
    return np.array(rows, np.int64).reshape(-1, columns).T


def runs(*rows: tuple[int, int, int]) -> Runs:
    """(candidate, first block, blocks) of each."""
    owner, start, length = table(*rows, columns=3)
    return Runs(owner, owner * 0, length, start, owner < 0)


def claims(*rows: tuple[int, int, int, int, int]) -> BlockUses:
    """(first block, blocks, life, inode number, order) of each."""
    start, length, life, number, order = table(*rows, columns=5)
    return BlockUses(start, length, life, number, order, np.ones(len(rows), bool))


def ownership(
    logged: BlockUses | None = None,
    journaled: BlockUses | None = None,
    unreplayed: BlockUses | None = None,
    in_use: tuple[int, ...] = (),
    unknown: tuple[int, ...] = (),
    live: tuple[tuple[int, int, int], ...] = (),
    nodes: tuple[tuple[int, int], ...] = (),
    states: tuple[int, ...] = (),
) -> Known:
    """Who had what, told by hand.

    Args:
        logged: by states.
        journaled: blocks that went through the log.
        unreplayed: by fast commits.
        in_use: blocks that the bitmaps show so.
        unknown: blocks of bitmaps that cannot be read; they count as in use.
        live: (inode number, first block, blocks) of live files.
        nodes: (inode number, block) of their tree blocks.
        states: orders of the states of OWN, which then lives and has the inode number 12.
    """
    marks, dark = np.zeros(BLOCKS, bool), np.zeros(BLOCKS, bool)
    dark[list(unknown)] = True
    marks[list(in_use + unknown)] = True

    def live_maps() -> list[tuple[Any, Any]]:
        number, start, length = table(*live, columns=3)
        node_number, node = table(*nodes, columns=2)
        every = SimpleNamespace(number=np.concatenate([number, node_number]))
        first = np.arange(len(number))
        data = SimpleNamespace(owner=first, physical=start, length=length)
        return [
            (
                every,
                SimpleNamespace(runs=data, tree_blocks=(len(first) + np.arange(len(node)), node)),
            )
        ]

    bitmaps = SimpleNamespace(
        blocks_in_use=lambda at: marks[at], blocks_unknown=lambda at: dark[at]
    )
    fs = SimpleNamespace(bitmaps=bitmaps, allocated_maps=live_maps, overwritten=None)
    order = np.array(states, np.int64)
    known = SimpleNamespace(instance=np.full(len(order), OWN), tid=order)
    number, lives = np.full(OTHER + 1, 12), np.full(OTHER + 1, bool(states))
    history = cast(History, SimpleNamespace(fs=fs, states=known, number=number, is_allocated=lives))
    parts = [part or claims() for part in (logged, journaled, unreplayed)]
    return history, RecordedUses(*parts)


def taken(known: Known, *blocks: tuple[int, int, int], death: int = DEATH) -> Taken:
    """What others took of candidates of the one life."""
    count = 1 + max(row[0] for row in blocks)
    every = np.ones(count, np.int64)
    found = find_reuse(*known, runs(*blocks), every * OWN, every * STATE, every * death)
    columns = (found.candidate, found.start, found.length, found.inode, found.tid)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("order", "by_states", "by_log"),
    [
        (STATE, False, False),
        (STATE + 1, True, False),
        (DEATH, True, False),
        (DEATH + 1, True, True),
    ],
)
def test_a_later_owner_is_one_seen_after_the_state_or_a_copy_after_its_end(
    order: int, by_states: bool, by_log: bool
) -> None:
    other = claims((105, 2, OTHER, 77, order))
    expected = [(0, 105, 2, 77, order)]
    mine = (0, 100, 10)
    assert taken(ownership(logged=other), mine) == expected * by_states
    assert taken(ownership(unreplayed=other), mine) == expected * by_states
    assert taken(ownership(journaled=other), mine) == expected * by_log


def test_what_it_had_itself_later_is_not_taken_from_it() -> None:
    own = claims((100, 10, OWN, 12, DEATH + 5))
    assert taken(ownership(logged=own, unreplayed=own, journaled=own), (0, 100, 10)) == []


def test_an_orphan_holds_its_blocks_still() -> None:
    other = claims((100, 10, OTHER, 77, DEATH + 5))
    known = ownership(other, other, other, in_use=tuple(range(100, 110)))
    assert taken(known, (0, 100, 10), death=TID_NONE) == []


@pytest.mark.parametrize(
    ("start", "length", "shared"),
    [
        (90, 10, None), (90, 11, (100, 1)), (90, 30, (100, 10)), (103, 4, (103, 4)),
        (109, 9, (109, 1)), (110, 9, None),
    ],
)  # fmt: skip
def test_only_the_blocks_that_both_had_are_taken(
    start: int, length: int, shared: tuple[int, int] | None
) -> None:
    known = ownership(logged=claims((start, length, OTHER, 77, DEATH)))
    expected = [(0, *shared, 77, DEATH)] if shared else []
    assert taken(known, (0, 100, 10)) == expected


def test_blocks_in_use_now_are_taken_by_the_live_file_that_has_them() -> None:
    known = ownership(
        in_use=(100, 101, 102, 105, 200, 201), live=((77, 99, 4), (78, 200, 1)), nodes=((79, 201),)
    )
    now = int(TID_ON_DISK)
    assert taken(known, (0, 100, 10)) == [(0, 100, 3, 77, now), (0, 105, 1, 0, now)]
    assert taken(known, (0, 201, 1)) == [(0, 201, 1, 79, now)]
    assert taken(known, (0, 106, 5)) == []
    two = taken(known, (0, 102, 1), (1, 105, 1))
    assert two == [(0, 102, 1, 77, now), (1, 105, 1, 0, now)]
    apart = taken(known, (0, 102, 1), (0, 105, 1))  # one behind the other in the file, not on disk
    assert apart == [(0, 102, 1, 77, now), (0, 105, 1, 0, now)]
    assert len(taken(known, (0, 100, 1), (1, 101, 1))) == 2


def test_a_bitmap_that_cannot_be_read_takes_nothing_by_itself() -> None:
    known = ownership(in_use=(100, 101), unknown=(102, 103, 104), live=((77, 104, 1),))
    (first,) = taken(known, (0, 100, 4))
    assert first == (0, 100, 2, 0, int(TID_ON_DISK))
    assert taken(known, (0, 102, 2)) == []
    assert taken(known, (0, 104, 1)) == [(0, 104, 1, 77, int(TID_ON_DISK))]


def test_a_candidate_without_blocks_has_none_taken() -> None:
    found = find_reuse(*ownership(), runs(), np.array([OWN]), np.array([STATE]), np.array([DEATH]))
    assert len(found.candidate) == 0


def test_what_was_taken_comes_by_candidate_and_place_the_newest_first() -> None:
    known = ownership(
        logged=claims((208, 1, OTHER, 5, 30), (100, 1, OTHER, 6, 31), (100, 1, OTHER, 7, 33)),
        journaled=claims((100, 1, -1, 0, 32)),
        in_use=(205,),
    )
    found = taken(known, (0, 200, 10), (1, 100, 10))
    assert found == [
        (0, 205, 1, 0, int(TID_ON_DISK)), (0, 208, 1, 5, 30),
        (1, 100, 1, 7, 33), (1, 100, 1, 0, 32), (1, 100, 1, 6, 31),
    ]  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 2, 3, 4])
def test_more_runs_than_are_looked_at_together_are_all_looked_at(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUNS_AT_ONCE", at_once)
    mine = [(0, 100, 2), (0, 104, 2), (1, 110, 2)]
    found = taken(ownership(in_use=(100, 101, 104, 105, 111)), *mine)
    assert [row[:3] for row in found] == [(0, 100, 2), (0, 104, 2), (1, 111, 1)]


# --- where claims come from -----------------------------------------------------------------------

Claim = tuple[int, int, int, int, int, bool]  # first block, blocks, life, inode number, order


def told(found: BlockUses) -> list[Claim]:
    names = ("start", "length", "instance", "inode", "tid", "is_content")
    return list(zip(*(getattr(found, name).tolist() for name in names), strict=True))


def of_past(**parts: Any) -> History:
    return cast(History, SimpleNamespace(**parts))


def test_states_that_tell_a_content_claim_its_blocks_and_their_tree() -> None:
    """Of four states the second tells none; the last one is on the disk."""
    asked: list[list[int]] = []

    def map_states(rows: Any) -> Any:
        asked.append(rows.tolist())
        return SimpleNamespace(
            runs=runs((0, 100, 4), (1, 200, 2), (2, 300, 1)),
            tree_blocks=tuple(table((1, 250), (2, 350), columns=2)),
        )

    states = SimpleNamespace(
        describes_content=np.array([True, False, True, True]),
        tid=np.array([5, 6, 7, int(TID_ON_DISK)]),
        instance=np.array([0, 0, 1, 2]), table=SimpleNamespace(number=np.array([12, 12, 13, 14])),
    )  # fmt: skip
    number, start, length = table((20, 900, 8), (21, 950, 9), columns=3)
    past = of_past(
        states=states, map_states=map_states, stable_runs=[OwnedRuns(start, length, number)]
    )
    found = module._uses_by_inodes(past, Intervals(np.array([0]), np.array([1000])))
    disk = int(TID_ON_DISK) - 1  # before what bitmaps show now
    assert asked == [[0, 2, 3]]
    assert told(found) == [
        (100, 4, 0, 12, 5, True), (200, 2, 1, 13, 7, True), (300, 1, 2, 14, disk, True),
        (250, 1, 1, 13, 7, False), (350, 1, 2, 14, disk, False),
        (900, 8, -1, 20, disk, False), (950, 9, -1, 21, disk, False),
    ]  # fmt: skip
    some = Intervals(np.array([90, 201, 908]), np.array([10, 49, 42]))  # beside most, in one
    assert told(module._uses_by_inodes(past, some)) == [(200, 2, 1, 13, 7, True)]


def test_each_copy_in_the_log_claims_its_block_for_nobody_known() -> None:
    copies = SimpleNamespace(blocks=np.array([70, 70, 71]), tids=np.array([5, 9, 6]))
    found = told(module._uses_by_journal(of_past(copies=copies)))
    assert found == [(70, 1, -1, 0, 5, False), (70, 1, -1, 0, 9, False), (71, 1, -1, 0, 6, False)]
    assert told(module._uses_by_journal(of_past(copies=None))) == []


def test_fast_commits_claim_ranges_for_the_lives_that_they_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a generation, or with one that is not known, it is nobody's that is known."""
    rows = ((100, 4, 12, 7), (200, 5, 12, 8), (300, 6, 12, -1), (400, 1, 13, 7), (500, 1, 99, 7),
            (600, 2, 11, 7))  # fmt: skip
    given = tuple(table(*rows, columns=4))
    monkeypatch.setattr(module, "added_ranges", lambda log: given if log == "log" else None)
    blocks: Any = ReplayedBlocks.__new__(ReplayedBlocks)
    blocks.log, blocks.changed = "log", [1]
    lives = {"number": np.array([12, 12, 13]), "generation": np.array([7, 9, 7])}

    def used() -> Sequence[tuple[int, ...]]:
        history = of_past(fs=SimpleNamespace(blocks=blocks), **lives)
        return told(module._uses_by_fast_commits(history))

    now = int(TID_ON_DISK)
    assert used() == [
        (100, 4, 0, 12, now, True), (200, 5, -1, 12, now, True), (300, 6, -1, 12, now, True),
        (400, 1, 2, 13, now, True), (500, 1, -1, 99, now, True), (600, 2, -1, 11, now, True),
    ]  # fmt: skip
    blocks.changed = []
    assert used() == []
    blocks = None
    assert used() == []


@pytest.mark.parametrize(("between", "lost"), [(True, []), (False, [(0, 100, 2, 12, TID_ON_DISK)])])
def test_an_earlier_version_shares_what_its_file_never_gave_away(
    between: bool, lost: Taken
) -> None:
    logged = [(100, 10, OWN, 12, STATE), (100, 2, OWN, 12, 30)]
    logged += [(100, 4, OWN, 12, 25)] if between else []
    known = ownership(
        claims(*logged), in_use=(100, 101), live=((12, 100, 2),), states=(STATE, 25, 30)
    )
    assert taken(known, (0, 100, 10)) == lost
