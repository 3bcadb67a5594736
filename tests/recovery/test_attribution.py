"""Blocks of all candidates: whose they are, whose those became, what has copies, what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.reasons import Reason
from ext4kit.recovery import attribution, losses
from ext4kit.recovery.attribution import BlockAttribution, attribute_blocks
from ext4kit.recovery.block_uses import BlockUses, RecordedUses
from ext4kit.recovery.candidates import (
    INODE_TABLE,
    JOURNAL,
    NO_MAP,
    STALE_INDEX,
    Candidates,
)
from ext4kit.recovery.deletion import transaction_times
from ext4kit.recovery.grading import grade
from ext4kit.recovery.grading.grade import CheckResults, check_candidates
from ext4kit.recovery.losses import find_losses
from ext4kit.recovery.maps.rebuilt import RebuiltMaps
from ext4kit.recovery.untagged_content import UntaggedBlocks, _whole_files
from ext4kit.units import NANOSECONDS
from tests.recovery.made_history import BLOCK, EXTENTS, Sized, State, past_of, state

Row = tuple[int, ...]
STATE, DEATH = 5, 9  # orders of a file's state, and of when it is seen dead
AT = 700  # a block
ON_DISK = int(TID_ON_DISK)


def table(*rows: Row, width: int) -> Any:
    return np.array(rows, np.int64).reshape(-1, width).T


def runs(*rows: Row, unwritten: Sequence[int] = ()) -> Runs:
    """(candidate, first file block, blocks, first block) of each; rows that are not written."""
    owner, logical, length, physical = table(*rows, width=4)
    return Runs(owner, logical, length, physical, np.isin(np.arange(len(rows)), unwritten))


def claims(*rows: tuple[int, int, int, int], tree: Sequence[int] = ()) -> BlockUses:
    """(first block, blocks, life, order) of each; rows that are tree blocks."""
    start, length, life, order = table(*rows, width=4)
    number = np.where(life < 0, 0, life + 12)
    return BlockUses(start, length, life, number, order, ~np.isin(np.arange(len(rows)), tree))


def copies(*rows: tuple[int, int]) -> Any:
    """A history: (block, order) of the log's copies, by both; the tags are 100, 101 ..."""
    blocks, orders = table(*rows, width=2)

    def latest(wanted: Any, at: Any) -> Any:
        held = [
            [100 + row for row in range(len(rows)) if rows[row][0] == one and rows[row][1] <= until]
            for one, until in zip(wanted.tolist(), np.broadcast_to(at, len(wanted)), strict=True)
        ]
        return np.array([row[-1] if row else -1 for row in held], np.int64)

    return SimpleNamespace(
        blocks=blocks, tids=orders, tag_rows=100 + np.arange(len(rows)), newest_copies=latest
    )


def blocks_of(
    *files: State,
    blocks: Runs | None = None,
    states: Sequence[State] | None = None,
    disk: dict[int, bytes] | None = None,
    logged: BlockUses | None = None,
    journaled: BlockUses | None = None,
    in_use: Sequence[int] = (),
    copies: Any = None,
    nodes: Sequence[tuple[int, int]] = (),
    maps: RebuiltMaps | None = None,
    loose: UntaggedBlocks | None = None,
    checksums: bool = True,
) -> BlockAttribution:
    """The blocks of candidates that are seen in transaction 5 and dead in 9.

    Args:
        files: what differs of each candidate.
        blocks: what they had.
        states: by default one of one life for each.
        disk: bytes at the beginning of blocks.
        logged: who had which blocks.
        journaled: which of them went through the log.
        in_use: blocks that the bitmaps show so.
        copies: of blocks in the log.
        nodes: (candidate, tree block).
        maps: found elsewhere.
        loose: log blocks that no descriptor names.
        checksums: whether the file system has those of metadata.
    """
    history: Any = past_of(
        *(states or [state(life=at, number=12 + at) for at in range(len(files))])
    )
    history.copies, held = copies, disk or {}

    def fetch(numbers: Any) -> tuple[Any, Any]:
        rows = [held.get(number, b"").ljust(BLOCK, b"\0") for number in numbers.tolist()]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, BLOCK), numbers >= 0

    history.fs.fetch = fetch
    history.fs.superblock.has_metadata_checksums = checksums
    history.fs.allocated_maps = lambda: []
    history.fs.bitmaps = SimpleNamespace(
        blocks_in_use=lambda at: np.isin(at, in_use), blocks_unknown=lambda at: at < 0
    )
    history.last_valid_tid = lambda rows: np.full(len(rows), DEATH - 1)
    history.tree_block_copies = lambda rows, at, asked: (
        np.full(len(asked), NO_ROW) if copies is None else copies.newest_copies(asked, at)
    )
    none = np.zeros(0, np.int64)
    findings = SimpleNamespace(
        history=history, maps=maps or RebuiltMaps.empty(), block_features=None,
        untagged=loose or UntaggedBlocks(none, none, none, none.astype(bool)),
    )  # fmt: skip
    usual = [
        {
            "state_row": at,
            "map_source": JOURNAL,
            "freed_tid": DEATH,
            "superseded": False,
            "rebuilt_row": NO_ROW,
        }  # fmt: skip
        | one
        for at, one in enumerate(files)
    ]
    column = {name: np.array([one[name] for one in usual]) for name in usual[0]}
    owner, node = table(*nodes, width=2)
    found = Candidates(
        **column,
        runs=blocks or runs(),
        map_damaged=column["state_row"] < 0,
        tree_blocks=(owner, node),
    )
    uses = RecordedUses(logged or claims(), journaled or claims(), claims())
    history.stages = SimpleNamespace(freed=none)
    deletion = SimpleNamespace(
        tid=np.full(len(found), STATE), mtime_changed=np.zeros(len(found), bool)
    )
    with (
        patch.object(attribution, "recorded_uses", lambda *_: uses),
        patch.object(attribution, "find_deletion_facts", lambda *_: deletion),
    ):
        return attribute_blocks(found, cast(Any, findings))


def rows_of(found: Runs) -> list[Row]:
    parts = (found.owner, found.logical, found.length, found.physical)
    return list(zip(*(part.tolist() for part in parts), strict=True))


# --- blocks and sizes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        (0, []),
        (1, [(0, 0, 1, 100)]),
        (BLOCK, [(0, 0, 1, 100)]),
        (BLOCK + 1, [(0, 0, 1, 100), (0, 1, 1, 200)]),
        (3 * BLOCK, [(0, 0, 1, 100), (0, 1, 2, 200)]),
        (9 * BLOCK, [(0, 0, 1, 100), (0, 1, 2, 200), (0, 5, 4, 300)]),
    ],
)
def test_the_blocks_of_a_content_are_those_up_to_its_size(size: int, kept: list[Row]) -> None:
    had = runs((0, 0, 1, 100), (0, 1, 2, 200), (0, 5, 4, 300))
    assert rows_of(blocks_of({}, blocks=had, states=[state(size=size)]).runs) == kept


def test_where_no_inode_tells_the_size_all_blocks_are_of_the_content() -> None:
    had = runs((0, 0, 1, 100), (0, 1, 2, 200), unwritten=[1])
    found = blocks_of({"map_source": STALE_INDEX}, blocks=had, states=[state(size=0)]).runs
    assert rows_of(found) == rows_of(had)
    assert found.unwritten.tolist() == [False, True]


def test_blocks_are_counted_for_each_file() -> None:
    had = runs((0, 0, 1, 100), (0, 1, 2, 200), (2, 0, 4, 300))
    found = blocks_of({}, {}, {}, blocks=had, states=[
        state(life=at, size=9 * BLOCK) for at in range(3)
    ])  # fmt: skip
    assert found.bounds.tolist() == [0, 2, 2, 3]
    assert found.block_counts.tolist() == [3, 0, 4]


def test_a_size_is_that_of_the_inode_or_of_the_bytes_that_are_left() -> None:
    none = np.zeros(0, np.int64)
    maps = RebuiltMaps(
        np.array([8, 2]), np.array(["leaves", "leaves"]), runs(), (none, none),
        np.array([70, 7000]), [],
    )  # fmt: skip
    found = blocks_of(
        {}, {"map_source": STALE_INDEX}, {"rebuilt_row": 1, "map_source": "leaves"},
        {"map_source": STALE_INDEX},
        blocks=runs((0, 0, 1, 100), (1, 0, 2, 200), (2, 0, 2, 300), (3, 0, 1, 400)), maps=maps,
        disk={100: b"\1" * 9, 201: b"\1" * 30, 301: b"\1" * 50, 400: b"\1" * 60},
    )  # fmt: skip
    assert found.sizes.tolist() == [100, BLOCK + 30, 7000, 60]


def freed_root(*starts: int) -> Any:
    """The root of an extent tree of which a deletion left the first file blocks."""
    header = b"".join(word.to_bytes(2, "little") for word in (0xF30A, 0, 4, 0, 0, 0))
    entries = b"".join(start.to_bytes(4, "little") + bytes(8) for start in starts)
    return np.frombuffer((header + entries).ljust(60, b"\0"), np.uint8)


def test_a_freed_root_tells_how_many_extents_there_were_and_where_the_last_began() -> None:
    nothing = {"map_source": NO_MAP}
    found = blocks_of(nothing, {}, nothing, nothing, nothing, states=[
        state(life=at, links_count=0) for at in range(5)
    ])  # fmt: skip
    first = freed_root(0, 5, 9)
    roots = (first, first, freed_root(0), freed_root(0, 8), np.zeros(60, np.uint8))
    found.history.states.table.i_block = np.stack(roots)
    assert grade._stale_extents(found) == {0: (3, 9), 3: (2, 8)}


# --- later owners -----------------------------------------------------------------------------


def is_taken(file: State, order: int, by: str, at: int = STATE) -> bool:
    """Whether a file's block counts as another's: of a state of that order, or of a copy."""
    other = claims((AT, 1, 1, order))
    made: Any = {"logged": None, "journaled": None, by: other}
    found = blocks_of(file, blocks=runs((0, 0, 1, AT)), states=[state(order=at)], **made)
    return bool(len(found.reuse.candidate))


@pytest.mark.parametrize("by", ["logged", "journaled"])
def test_another_owner_is_later_after_the_state_and_a_copy_after_the_end(by: str) -> None:
    first = {"logged": STATE, "journaled": DEATH}[by]
    assert not is_taken({}, first, by)
    assert is_taken({}, first + 1, by)


@pytest.mark.parametrize("by", ["logged", "journaled"])
def test_of_a_file_that_no_transaction_shows_dead_all_after_its_state_are_later(by: str) -> None:
    unseen = {"freed_tid": ON_DISK}
    assert not is_taken(unseen, STATE, by)
    assert is_taken(unseen, STATE + 1, by)
    on_disk = {"freed_tid": ON_DISK, "map_source": INODE_TABLE}
    assert not is_taken(on_disk, ON_DISK - 1, by, at=ON_DISK)


@pytest.mark.parametrize("by", ["logged", "journaled"])
def test_of_a_file_that_the_disk_tells_those_after_its_end_are_later(by: str) -> None:
    assert not is_taken({"map_source": STALE_INDEX}, DEATH, by, at=ON_DISK)
    assert is_taken({"map_source": STALE_INDEX}, DEATH + 1, by, at=ON_DISK)


def test_an_earlier_version_may_be_written_over_in_the_transaction_that_ended_it() -> None:
    for order, taken in ((DEATH - 1, False), (DEATH, True)):
        assert is_taken({"superseded": True}, order, "journaled") == taken
    assert not is_taken({"superseded": True, "freed_tid": STATE}, STATE, "journaled")


Rivals = list[tuple[int, int, int, int]]


def rivals(first: State, second: State, dtimes: tuple[int, int] = (50, 60), **lives: int) -> Rivals:
    """(candidate, first block, blocks, inode number) that files of common blocks have lost.

    Args:
        first: a candidate, of blocks 700 to 709.
        second: the other one, of blocks 705 to 714.
        dtimes: of both, seconds.
        lives: the life of the second one.
    """
    states = []
    for life, number, dtime in zip((0, lives.get("life", 1)), (12, 13), dtimes, strict=True):
        states.append(state(life=life, number=number, size=10 * BLOCK))
        states.append(
            state(life=life, number=number, order=DEATH, dtime=dtime, ctime=55 * NANOSECONDS)
        )
    found = blocks_of(
        {"state_row": 0, **first}, {"state_row": 2, **second}, states=states,
        blocks=runs((0, 0, 10, AT), (1, 0, 10, AT + 5)),
    )  # fmt: skip
    made = found.competing
    columns = (made.candidate, made.start, made.length, made.inode)
    return list(zip(*(part.tolist() for part in columns), strict=True))


OF_FIRST, OF_SECOND = (0, AT + 5, 5, 13), (1, AT + 5, 5, 12)


@pytest.mark.parametrize("source", [INODE_TABLE, STALE_INDEX])
def test_a_file_freed_later_may_have_had_the_blocks_last(source: str) -> None:
    told = {"map_source": source}
    assert rivals({}, told) == [OF_FIRST]
    assert rivals(told, {}, (60, 50)) == [OF_SECOND]
    assert rivals(told, told) == [OF_FIRST]
    assert rivals(told, told, (60, 50)) == [OF_SECOND]
    assert rivals({}, told, (60, 50)) == []
    assert rivals(told, told, (60, 60)) == [OF_FIRST, OF_SECOND]  # in the same second: either


def test_where_the_log_tells_of_the_blocks_no_deletion_time_is_asked() -> None:
    assert rivals({}, {}) == []


def test_a_file_freed_before_the_other_one_had_the_blocks_is_no_rival() -> None:
    told = {"map_source": STALE_INDEX}
    assert rivals({}, {**told, "freed_tid": STATE - 1}, (60, 60)) == []
    assert rivals({}, {**told, "freed_tid": STATE}, (60, 60)) == [OF_FIRST]


def test_without_a_deletion_time_the_last_change_tells() -> None:
    assert rivals({}, {"map_source": INODE_TABLE}, (54, 0)) == [OF_FIRST]
    assert rivals({}, {"map_source": INODE_TABLE}, (56, 0)) == []
    assert rivals({}, {"map_source": INODE_TABLE}, (0, 54)) == []
    assert rivals({}, {"map_source": INODE_TABLE}, (0, 55)) == [OF_FIRST]


def test_neither_a_file_that_holds_its_blocks_nor_the_same_file_is_a_rival() -> None:
    assert rivals({}, {"map_source": INODE_TABLE, "freed_tid": TID_NONE}) == []
    assert rivals({"freed_tid": TID_NONE}, {"map_source": INODE_TABLE}) == []
    assert rivals({}, {"map_source": INODE_TABLE}, life=0) == []


# --- tree blocks ------------------------------------------------------------------------------

NODE = 800


def mistrusted(flags: int = EXTENTS, **changes: Any) -> set[int]:
    """Which of two files may have a map of others; a tree block of the second was taken."""
    made: Any = {
        "checksums": True, "logged": claims((NODE, 1, 5, DEATH + 1)),
        "nodes": [(0, NODE + 1), (1, NODE)], **changes,
    }  # fmt: skip
    found = blocks_of({}, {}, states=[state(life=at, flags=flags) for at in (0, 1)], **made)
    return set(np.flatnonzero(found.tree_block_reused).tolist())


def test_a_tree_block_that_was_taken_is_not_believed_where_no_checksum_vouches_for_it() -> None:
    assert mistrusted() == set()  # checksums prove it
    assert mistrusted(checksums=False) == {1}
    assert mistrusted(flags=0) == {1}  # blocks of pointers have none


def test_a_tree_block_that_nobody_took_is_believed() -> None:
    for order in (STATE, STATE + 1):
        logged = claims((NODE, 1, 5, order))
        assert mistrusted(checksums=False, logged=logged) == {1} - {STATE + 1 - order}
    assert mistrusted(checksums=False, logged=claims()) == set()


def test_a_tree_block_is_believed_as_the_log_has_it() -> None:
    for order, told in ((DEATH - 1, set()), (DEATH, {1})):  # while the file had it, and later
        assert mistrusted(checksums=False, copies=copies((NODE, order))) == told
    assert mistrusted(checksums=False, copies=copies((NODE + 5, 1))) == {1}


# --- copies of content in the log -------------------------------------------------------------


def copied(file: State, *held: tuple[int, int], owned: BlockUses | None = None) -> list[list[int]]:
    """[block, order] of the copies that count as content of a file of blocks 700 and 701."""
    first = claims((AT, 2, 0, STATE - 2), (AT, 2, 0, STATE))
    logged = copies(*held)
    found = blocks_of(
        file, blocks=runs((0, 0, 1, AT + 1), (0, 1, 1, AT)), copies=logged,
        states=[state(size=2 * BLOCK)], logged=owned or first,
    ).tagged  # fmt: skip
    if not found:
        return []
    ((blocks, tags),) = found.values()
    assert blocks.tolist() == logged.blocks[tags - 100].tolist()
    return [[block, int(logged.tids[tag - 100])] for block, tag in zip(blocks, tags, strict=True)]


def test_the_newest_copy_of_each_block_from_while_the_file_had_it_is_its_content() -> None:
    assert copied({}, (AT, 2), (AT, 3), (AT, 4), (AT + 1, 9), (AT + 1, 10)) == [
        [AT, 4], [AT + 1, 9]
    ]  # fmt: skip
    assert copied({}, (AT, 2), (AT + 1, 10), (AT + 2, 5)) == []


def test_an_open_file_has_copies_of_any_time_and_one_not_seen_dead_those_up_to_its_state() -> None:
    held = ((AT, STATE), (AT, STATE + 1), (AT, 99))
    assert copied({"freed_tid": TID_NONE}, *held) == [[AT, 99]]
    assert copied({"freed_tid": ON_DISK}, *held) == [[AT, STATE]]


@pytest.mark.parametrize(
    ("between", "first"),
    [
        (claims((AT, 2, 0, 2), (AT, 2, 1, 3), (AT, 2, 0, 4)), 4),  # another file had it
        (claims((AT, 2, 0, 2), (AT, 2, 0, 3), (AT, 2, 0, 4), tree=[1]), 4),  # its own tree
        (claims((AT, 2, 0, 2), (AT, 2, 1, 6), (AT, 2, 0, 4)), 2),  # later than the state
        (claims((AT, 2, 0, 2), (AT, 2, 0, 3), (AT, 2, 1, 5)), None),  # as of the state's order
        (claims((AT, 2, 1, 2)), None),  # it never had it
    ],
)
def test_a_copy_from_before_somebody_else_had_the_block_is_none_of_its_content(
    between: BlockUses, first: int | None
) -> None:
    for order in range(1, 6):
        expected = [[AT, order]] * (first is not None and order >= first)
        assert copied({}, (AT, order), owned=between) == expected


def test_what_a_file_on_disk_has_now_it_had_when_the_log_was_written() -> None:
    """Claims of what the disk shows stand one before `TID_ON_DISK`."""
    for own, held in ((claims((AT, 1, 0, ON_DISK - 1)), True), (claims((AT, 1, 1, 9)), False)):
        found = blocks_of(
            {"freed_tid": TID_NONE}, blocks=runs((0, 0, 1, AT)), states=[state(order=ON_DISK)],
            copies=copies((AT, ON_DISK - 1)), logged=own,
        )  # fmt: skip
        assert bool(found.tagged) == held


def test_each_file_has_its_own_copies() -> None:
    found = blocks_of(
        {}, {}, {}, blocks=runs((0, 0, 1, AT), (2, 0, 1, AT + 1)),
        copies=copies((AT, 6), (AT + 1, 7)),
        logged=claims((AT, 1, 0, STATE), (AT + 1, 1, 2, STATE)),
    ).tagged  # fmt: skip
    told = {at: (blocks.tolist(), tags.tolist()) for at, (blocks, tags) in found.items()}
    assert told == {0: ([AT], [100]), 2: ([AT + 1], [101])}
    assert blocks_of({}, blocks=runs((0, 0, 1, AT))).tagged == {}


# --- copies that no descriptor names ----------------------------------------------------------

Copy = tuple[int, int, int]  # log block, order, bytes up to the last one that is not zero
TWO = BLOCK + 10  # size of a file of two blocks


def loosely(*rows: Copy, of_group: Sequence[int] = ()) -> UntaggedBlocks:
    position, tid, end = table(*rows, width=3)
    return UntaggedBlocks(position, tid, end, np.isin(position, of_group))


def with_loose(
    *changes: State,
    held: Sequence[Copy] = (),
    had: Runs | None = None,
    in_use: Sequence[int] = (AT, 900),
    **file: Any,
) -> BlockAttribution:
    """Two files, of two blocks that lie turned round and of one; both are used again."""
    first: State = {"life": 0, "size": TWO, "crtime": 1, **(changes[0] if changes else {})}
    usual = [(30, STATE, BLOCK), (31, STATE, 10), (32, STATE, 20)]
    return blocks_of(
        file, {}, blocks=had or runs((0, 0, 1, AT + 1), (0, 1, 1, AT), (1, 0, 1, 900)),
        states=[state(**first), state(life=1, number=13, size=20, crtime=2)],
        in_use=in_use, loose=loosely(*usual, *held),
    )  # fmt: skip


def whole_files(found: BlockAttribution) -> list[int]:
    """Those of which copies are looked for."""
    rows = _whole_files(found.history, found.candidates, found.runs, BLOCK)
    return list(rows.tolist())


def told_loose(found: BlockAttribution) -> dict[int, tuple[list[int], list[int]]]:
    return {at: (blocks.tolist(), log.tolist()) for at, (blocks, log) in found.untagged.items()}


def test_a_file_that_was_written_over_is_read_from_copies_that_only_its_size_finds() -> None:
    assert told_loose(with_loose()) == {0: ([AT, AT + 1], [31, 30]), 1: ([900], [32])}
    in_one_run = with_loose(had=runs((0, 0, 2, AT), (1, 0, 1, 900)))
    assert told_loose(in_one_run) == {0: ([AT, AT + 1], [30, 31]), 1: ([900], [32])}


@pytest.mark.parametrize(("of_group", "told"), [((), [0]), ((31,), []), ((30,), [0])])
def test_metadata_of_groups_in_front_of_the_rest_of_a_file_is_not_its_first_block(
    of_group: Sequence[int], told: list[int]
) -> None:
    """A commit ends while a file is written: its blocks before and after have metadata between."""
    rows = [(30, STATE, 60), (31, STATE, BLOCK), (32, STATE, 10)]
    found = blocks_of(
        {}, blocks=runs((0, 0, 2, AT)), states=[state(size=TWO)], in_use=[AT],
        loose=loosely(*rows, of_group=of_group),
    )  # fmt: skip
    assert list(told_loose(found)) == told


def test_a_file_that_nobody_wrote_over_is_read_from_the_disk() -> None:
    assert list(told_loose(with_loose(in_use=(900,)))) == [1]


@pytest.mark.parametrize(
    ("changes", "file"),
    [
        ({"mode": 0o120777}, {}),
        ({}, {"superseded": True}),
        ({}, {"map_source": STALE_INDEX}),
        ({"size": 2 * BLOCK + 10}, {}),  # not all of its blocks are mapped
        ({"size": 0}, {}),
    ],
)
def test_only_the_last_state_of_a_whole_file_is_looked_for(changes: State, file: State) -> None:
    assert 0 not in whole_files(with_loose(changes, **file))


def test_blocks_that_were_never_written_have_no_copies() -> None:
    had = runs((0, 0, 2, AT), unwritten=[0])
    found = blocks_of({}, blocks=had, states=[state(size=TWO)], loose=loosely((30, STATE, 10)))
    assert whole_files(found) == []
    assert blocks_of({}, blocks=runs((0, 0, 1, AT))).untagged == {}


def test_copies_of_nobody_are_contents_where_their_transaction_has_those_of_files() -> None:
    more = [(33, STATE, 33), (40, STATE + 1, 44)]
    assert with_loose(held=more).unassigned.tolist() == [33]
    third = blocks_of(
        {}, {}, {}, blocks=runs((0, 0, 2, AT), (1, 0, 1, 900), (2, 0, 1, 950)),
        states=[state(size=TWO), state(life=1, size=BLOCK), state(life=2, size=20)],
        loose=loosely((30, STATE, BLOCK), (31, STATE, 10), (32, STATE, 20), (33, STATE, 33)),
    )  # fmt: skip
    assert third.unassigned.tolist() == [33]  # a file of whole blocks is found nowhere
    assert with_loose().unassigned.tolist() == []


# --- what speaks against them -----------------------------------------------------------------


def checked(
    found: BlockAttribution, zeros: Runs | None = None, maps: RebuiltMaps | None = None
) -> CheckResults:
    """What the checks that compare candidates find, without those of `run_checks`."""
    with (
        patch.object(grade, "run_checks", lambda *_: ([], [])),
        patch.object(losses, "find_discarded", lambda *_: (runs(), zeros or runs())),
    ):
        lost = find_losses(found, None)
        assert not len(lost.discarded)
        return check_candidates(found, lost, maps or RebuiltMaps.empty())


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ((), [0, 1]),
        ((AT, AT + 1, AT + 2), [0]),
        ((AT, AT + 1), [0, 1]),
        ((AT + 1, AT + 2, AT + 3), [0, 1]),
        ((AT - 1, AT, AT + 1, AT + 3), [0, 1]),
        ((AT - 1, AT, AT + 1, AT + 2, AT + 3), [0]),
    ],
)
def test_zeros_that_a_discard_may_have_made_are_the_files_own_where_the_log_has_all_of_them(
    held: Sequence[int], told: list[int]
) -> None:
    zeros = runs((0, 0, 1, 100), (1, 3, 3, AT), (2, 0, 1, 900))
    tagged = {1: (np.array(held), np.arange(len(held)))} if held else {}
    made = checked(replace(blocks_of({}, {}, {}), tagged=tagged), zeros)
    assert made.consistent == {place: [reasons.ZEROS_POSSIBLY_DISCARDED] for place in (*told, 2)}


def test_what_was_discarded_is_told_for_each_file() -> None:
    gone = runs((0, 0, 1, AT), (2, 0, 3, 900))
    with patch.object(losses, "find_discarded", lambda *_: (gone, runs())):
        made = find_losses(blocks_of({}, {}, {}), None)
    assert rows_of(made.discarded) == rows_of(gone)
    assert [made.of(one).discarded for one in range(3)] == [1, 0, 3]
    assert made.of(2).pieces == [(900, 3, losses.DISCARDED)]


def test_two_pieces_of_zeros_both_need_copies() -> None:
    zeros = runs((0, 0, 1, AT), (0, 3, 1, AT + 5))
    for held, told in (((AT,), True), ((AT + 5,), True), ((AT, AT + 5), False)):
        tagged = {0: (np.array(held), np.array(held))}
        assert bool(checked(replace(blocks_of({}), tagged=tagged), zeros).consistent) == told


def test_what_speaks_against_a_found_map_speaks_against_its_file() -> None:
    none = np.zeros(0, np.int64)
    first, both = reasons.REBUILT_MAP_OLDER, reasons.REBUILT_MAP_INCOMPLETE
    partial = [(np.array([True, False]), first), (np.array([True, True]), both)]
    maps = RebuiltMaps(
        np.array([0, 1]), np.array(["x", "x"]), runs(), (none, none), np.array([1, 1]), partial
    )
    made = blocks_of({}, {"rebuilt_row": 1}, {"rebuilt_row": 0}, maps=maps)
    found = checked(made, maps=maps)
    assert (found.partial, found.consistent) == ({1: [both], 2: [first, both]}, {})


def test_a_copy_that_the_disk_contradicts_speaks_against_the_file_unless_the_block_went() -> None:
    def contradicted(*files: State, **changes: Any) -> Mapping[int, list[Reason]]:
        made = blocks_of(
            *files, blocks=runs((0, 0, 1, AT), (1, 0, 1, AT)), copies=copies((AT, STATE)),
            logged=claims((AT, 1, 0, STATE)), disk={AT: b"\1"},
            states=[state(), state(life=1, number=13, order=ON_DISK, dtime=2000)], **changes,
        )  # fmt: skip
        history: Any = made.history
        history.gaps = JournalGaps(*(cast(Any, np.array([one])) for one in (6, 8, 0, True, False)))
        history.log = SimpleNamespace(
            tags=Sized(order=np.full(101, STATE)),
            read_copies=lambda tags: np.full((len(tags), BLOCK), 2, np.uint8),
        )
        return checked(made).partial

    orphan = {"freed_tid": TID_NONE, "map_source": INODE_TABLE}
    assert contradicted({}, orphan) == {0: [reasons.UNMOUNT_DISK_CONFLICT]}
    assert contradicted({}, orphan, in_use=(AT,)) == {}
    assert (
        contradicted({}, {"map_source": INODE_TABLE, "freed_tid": ON_DISK}) == {}
    )  # freed later, it may have it


# --- for the records --------------------------------------------------------------------------


def test_transactions_are_told_by_id_and_commit_time() -> None:
    made = blocks_of({})
    assert transaction_times(made.history.log) == {}
    rows = [SimpleNamespace(order=2**32 + 7, id=7, commit_time_ns=70)]
    cast(Any, made.history).log = SimpleNamespace(transactions=rows)
    ((order, moment),) = transaction_times(made.history.log).items()
    assert (order, moment.transaction, moment.time) == (2**32 + 7, 7, 70)


def test_the_paths_of_those_who_took_blocks_are_told() -> None:
    later = claims((AT, 1, 5, DEATH + 1), (AT + 1, 1, 6, ON_DISK))
    made = blocks_of({}, blocks=runs((0, 0, 2, AT)), states=[state(size=2 * BLOCK)], logged=later)
    tree = SimpleNamespace(
        inode=np.array([2, 17, 18]), paths_of=lambda rows: [b"/%d" % row for row in rows]
    )
    cast(Any, made.history.fs).tree = lambda only: tree
    with patch.object(losses, "find_discarded", lambda *_: (runs(), runs())):
        lost = find_losses(made, None).of(0)
    assert [piece.owner for piece in lost.pieces] == [
        "inode 17",
        "inode 18 /2",
    ]
