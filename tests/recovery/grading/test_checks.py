"""Reasons against the grade intact: a sound file has none, and each circumstance gives its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.filesystem.block_maps import Runs
from ext4kit.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.history.journal_gaps import NO_RESTART, JournalGaps
from ext4kit.history.writes import Writes
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.block_uses import BlockReuse, BlockUses
from ext4kit.recovery.candidates import INODE_TABLE, JOURNAL, Candidates
from ext4kit.recovery.grading import checks
from ext4kit.recovery.grading.checks import run_checks
from ext4kit.units import NANOSECONDS
from tests.recovery.made_history import (
    BLOCK,
    COUNTED,
    EXTENTS,
    INODES,
    LATER,
    MADE,
    NO_BREAKS,
    Sized,
    State,
    log_of,
    past_of,
    state,
)

SECOND, MINUTE = NANOSECONDS, 60 * NANOSECONDS
GONE, OLD = MADE + 5 * MINUTE, MADE - MINUTE
FIRST, LAST = 4, 40  # transactions of the log
AT, BESIDE = 700, 600  # the file's block, and that of another one
SIZE = 100
SOON: dict[str, Any] = {"gone": MADE + SECOND}  # it went a second after its last change
WITHOUT = Writes(*(np.zeros(0, np.int64) for _ in range(3)))  # none that is known


@dataclass
class Case:
    """A deleted file, of 100 bytes in one block, seen in transaction 5 and gone in 9.

    Others of another block are candidates as well: sound ones, gone in the last transaction.

    Attributes:
        before, freed: its two states.
        disk: what its blocks hold.
        gone: when it was.
        found: changes of the candidate.
        history: changes of the past; `fs` and `superblock`: of those.
        copies: (block, order, bytes) of its data in the log, by block; earlier: states before.
        taken: (first block, blocks) that others had later.
        to_replay: transactions that were not written out.
        others: how many; copied: how many of them have a copy of their block in the log.
    """

    before: State = field(default_factory=state)
    freed: State = field(default_factory=dict)
    runs: tuple[tuple[int, int, int, bool], ...] = ((0, 1, AT, False),)  # logical, length, physical
    disk: Mapping[int, bytes] = field(default_factory=lambda: {AT: b"\1" * SIZE})
    gone: int = GONE
    following: int = 9
    found: Mapping[str, Any] = field(default_factory=dict)
    breaks: JournalGaps = NO_BREAKS
    sequence: int = LAST + 2  # of the log's superblock: as an unmount leaves it
    writes: Writes = COUNTED
    check_time: int = 0
    mount_time: int = 0
    live_copy: str = ""
    cluster_ratio: int = 1
    features: tuple[Incompat, ...] = ()
    blocks_count: int = 10_000
    unknown: tuple[int, ...] = ()
    open_ones: tuple[int, ...] = ()
    last_fast_commit: int = TID_NONE
    logged: BlockUses | None = None
    lost: tuple[tuple[int, int], ...] = ()
    copies: tuple[tuple[int, int, bytes], ...] = ()
    earlier: tuple[State, ...] = ()
    taken: tuple[tuple[int, int], ...] = ()
    to_replay: tuple[int, ...] = ()
    checksums: bool = False
    others: int = 1
    copied: int = 0

    def history(self) -> History:
        freed = state(**{
            **self.before, "order": 9, "links_count": 0, "whole": False, "size": 0, "blocks": 0,
            "dtime": self.gone // SECOND, "mtime": self.gone, "ctime": self.gone, **self.freed,
        })  # fmt: skip
        commits = [(FIRST, OLD), (5, MADE), (9, self.gone), (LAST, self.gone + MINUTE)]
        beside = {"life": -9, "number": 11, "place": BESIDE}
        ended = state(**beside, order=LAST, links_count=0, whole=False, size=0, blocks=0,
                      dtime=GONE // SECOND, mtime=GONE, ctime=GONE)  # fmt: skip
        history: Any = past_of(
            state(**beside),
            ended,
            *self.earlier,
            self.before,
            freed,
            commits=commits,
            following=[
                LAST,
                int(TID_ON_DISK),
                *(one["order"] for one in (*self.earlier, self.before)[1:]),
                self.following,
                int(TID_ON_DISK),
            ],
            breaks=self.breaks,
            writes=self.writes,
        )
        history.log = self._log(commits)
        history.live_copy = self.live_copy
        history.copies, history.mounts, history.last_fast_commit = None, None, self.last_fast_commit
        vars(history.fs.superblock).update(
            cluster_ratio=self.cluster_ratio, features=self.features, check_time=self.check_time,
            mount_time=self.mount_time,
            has_metadata_checksums=self.checksums,
        )  # fmt: skip
        history.states.table.take = lambda rows: rows
        history.fs.bitmaps = SimpleNamespace(
            blocks_unknown=lambda start, length: np.isin(start, self.unknown)
        )
        history.fs.blocks = _Blocks(self.blocks_count, self.lost)
        history.fs.fetch = self._fetch
        return cast(History, history)

    def _log(self, commits: list[tuple[int, int]]) -> Any:
        log = log_of(commits)
        rows = [
            SimpleNamespace(order=one, committed=one not in self.open_ones) for one, _ in commits
        ]
        log.transactions = _Listed(rows, **vars(log.transactions))
        log.superblock = SimpleNamespace(sequence=self.sequence)
        log.transactions.to_replay = np.isin(log.transactions.order, self.to_replay)
        copies = [*self.copies, (BESIDE, 5, b"\1" * SIZE)]
        log.tags = SimpleNamespace(order=np.array([order for _, order, _ in copies], int))
        held = [data.ljust(BLOCK, b"\0") for _, _, data in copies]
        log.read_copies = lambda tags: np.frombuffer(
            b"".join(held[tag] for tag in tags.tolist()), np.uint8
        ).reshape(-1, BLOCK)
        return log

    def _fetch(self, numbers: Any) -> tuple[Any, Any]:
        held = {**self.disk, BESIDE: b"\1" * SIZE}
        rows = [held.get(number, b"").ljust(BLOCK, b"\0") for number in numbers.tolist()]
        data = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, BLOCK)
        return data, np.array([number in held for number in numbers.tolist()], bool)

    def reasons(self) -> list[str]:
        """Codes of what speaks against it."""
        return self.both()[1]

    def both(self) -> tuple[list[str], list[str]]:
        """Codes of what speaks against the first of the others, and against it."""
        history, none = self.history(), np.zeros(0, np.int64)
        rows = ((0, 1, BESIDE, False),) * self.others + self.runs
        logical, length, first = np.array([row[:3] for row in rows], np.int64).T
        owner = np.minimum(np.arange(len(rows)), self.others)
        runs = Runs(owner, logical, length, first, np.array([row[3] for row in rows], bool))
        given = dict(self.found)
        owners, blocks = given.pop("tree_blocks", (none, none))
        usual: Mapping[str, Any] = {
            "state_row": 2 + len(self.earlier), "freed_tid": 9, "map_source": JOURNAL,
            "map_damaged": False, "size_unknown": False, "superseded": False,
        }  # fmt: skip
        beside = {**usual, "state_row": 0, "freed_tid": LAST}
        columns = {
            name: np.concatenate([[beside[name]] * self.others, given.get(name, [value])])
            for name, value in usual.items()
        }
        nodes = owners + self.others, blocks
        sized = Sized(**columns, runs=runs, tree_blocks=nodes)
        found = cast(Candidates, sized)
        uses = self.logged or _claims()
        against, possible = run_checks(history, found, runs, uses, self._journaled(), self._reuse())
        first, second = (
            [reason.code for doubtful, reason in against + possible if doubtful[at]]
            for at in (0, self.others)
        )
        return first, second

    def _journaled(self) -> dict[int, tuple[Any, Any]]:
        blocks = np.array([block for block, _, _ in self.copies], np.int64)
        beside = np.array([BESIDE]), np.array([len(blocks)])
        found = dict.fromkeys(range(self.copied), beside)
        return found | ({self.others: (blocks, np.arange(len(blocks)))} if self.copies else {})

    def _reuse(self) -> BlockReuse:
        start, length = np.array(self.taken, np.int64).reshape(-1, 2).T
        return BlockReuse(start * 0 + self.others, start, length, start * 0, start * 0 + LAST)


class _Listed(Sized):
    """Transactions that can be gone through one by one."""

    def __init__(self, rows: list[Any], **columns: Any) -> None:
        super().__init__(**columns)
        self._rows = rows

    def __iter__(self) -> Any:
        return iter(self._rows)


class _Blocks:
    """As many of the evidence as there are, and those that are known to be lost."""

    def __init__(self, count: int, lost: tuple[tuple[int, int], ...]) -> None:
        self.blocks_count = count
        self._lost = lost

    def lost_blocks(self) -> Any:
        return np.array(self._lost, np.int64).reshape(-1, 2)


def _claims(*rows: tuple[int, int, int, int, int]) -> BlockUses:
    """(first block, blocks, life, inode number, order) of each."""
    start, length, life, number, order = np.array(rows, np.int64).reshape(-1, 5).T
    return BlockUses(start, length, life, number, order, np.ones(len(rows), bool))


def with_state(**changes: Any) -> Case:
    """The case with a changed state."""
    return Case(before=state(**changes))


def candidate(**changes: Any) -> Case:
    """The case with a changed candidate."""
    return Case(found={name: np.array([value]) for name, value in changes.items()})


def test_a_file_that_was_written_logged_and_left_alone_has_nothing_against_it() -> None:
    assert Case().both() == ([], [])


def test_an_inode_whose_checksum_does_not_fit_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "inode_checksums_ok", lambda rows, superblock: rows == 0)
    assert Case(checksums=True).both() == ([], ["inode-checksum"])
    assert Case().reasons() == []  # there are none


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (candidate(map_damaged=True), "map-unreadable"),
        (with_state(undescribed=True), "untagged-inode-copy"),
        (with_state(blocks=16), "map-incomplete"),
        (with_state(blocks=15), None),  # 7.5 KiB: sectors that are no whole block
        (with_state(blocks=16, file_acl=900), None),  # the block of its attributes
        (with_state(blocks=24, file_acl=900), "map-incomplete"),
        (Case(before=state(blocks=16), cluster_ratio=16), None),
        (Case(before=state(blocks=16), cluster_ratio=2), None),
        (Case(before=state(blocks=16), features=(Incompat.EA_INODE,)), None),
        (with_state(blocks=0), None),
        (Case(blocks_count=AT + 1), None),
        (Case(blocks_count=AT), "beyond-evidence"),
        (Case(lost=((AT, AT + 1),)), "unreadable-media"),
        (Case(lost=((AT - 5, AT), (AT + 1, AT + 9))), None),
        (Case(unknown=(AT,)), "bitmap-unreadable"),
        (Case(open_ones=(5,)), "uncommitted-state"),
        (Case(open_ones=(FIRST, 9)), None),
        (Case(last_fast_commit=6), "later-fast-commit"),
        (Case(last_fast_commit=5), None),
        (Case(last_fast_commit=6, found={"map_source": np.array([INODE_TABLE])}), None),
    ],
)
def test_what_is_wrong_with_its_description_is_told(case: Case, reason: str | None) -> None:
    assert case.reasons() == [reason] * bool(reason)


def test_lost_bytes_that_were_never_written_are_zeros_anyway() -> None:
    runs = ((0, 1, AT, False), (1, 1, AT + 1, True))
    given: Any = {"before": state(size=2 * BLOCK, blocks=16), "runs": runs}
    reason = "unreadable-media"
    for block, told in ((AT, True), (AT + 1, False)):
        assert (reason in Case(**given, lost=((block, block + 1),)).reasons()) == told


def test_blocks_of_its_tree_count_as_well() -> None:
    for blocks, whole in ((16, True), (24, True), (32, False)):
        case = with_state(blocks=blocks)
        case.found = {"tree_blocks": (np.array([0, 0]), np.array([800, 801]))}
        assert (case.reasons() == []) == whole
    directory = Case(before=state(blocks=16, mode=0o040755))  # its map is judged by its entries
    assert directory.reasons() == []
    link = state(blocks=16, mode=0o120777)
    assert "map-incomplete" in Case(before=link).reasons()


# --- the block with its end -------------------------------------------------------------------

ZEROS_END = b"\1" * (SIZE - 4)
ZEROS, STRANGE = "unwritten-tail", "foreign-data-in-slack"
AGAIN = {"version": 9, "mtime": LATER, "ctime": LATER}  # it was not written in one go


def holding(data: bytes, gone: int = LATER + SECOND, **changes: Any) -> list[str]:
    """The reasons against a file that is gone soon and whose block holds these bytes."""
    before = state(**{**AGAIN, **changes})
    case = Case(before=before, disk={AT: data}, gone=gone, freed={"version": before["version"]})
    return [one for one in case.reasons() if one in (ZEROS, STRANGE)]


def test_last_bytes_that_are_zeros_may_never_have_been_written() -> None:
    assert holding(ZEROS_END) == [ZEROS]
    assert holding(ZEROS_END + b"\1") == []
    assert holding(b"\1" * (SIZE - 3)) == []  # so few come by chance
    assert len(holding(b"", size=1)) == len(holding(b"\1" * BLOCK, size=BLOCK + 1, blocks=16)) == 1
    assert holding(b"\1", size=1) == holding(b"\1", size=3) == []
    assert holding(b"\1" * SIZE) == []
    assert holding(b"\0" * (SIZE - 1) + b"\1") == []
    assert holding(ZEROS_END, gone=LATER + 2 * MINUTE) == []
    assert holding(b"", mode=0o120777) == []
    assert holding(ZEROS_END, flags=EXTENTS | int(InodeFlags.ENCRYPT)) == []


def test_what_was_written_in_one_go_has_all_of_its_last_block_or_nothing() -> None:
    once = {"version": 2, "mtime": LATER, "ctime": LATER, "crtime": LATER}
    assert holding(ZEROS_END, **once) == []
    assert holding(b"\1", **once) == []
    assert len(holding(b"", **once)) == 1
    for flags in (0, int(InodeFlags.NOATIME)):  # without extents each block is taken by itself
        assert len(holding(ZEROS_END, **once, flags=flags)) == 1


@pytest.mark.parametrize("at", [SIZE, SIZE + 1, BLOCK - 1])
def test_bytes_behind_the_end_are_of_others(at: int) -> None:
    data = b"\1" * SIZE + b"\0" * (at - SIZE) + b"\1"
    assert holding(data) == holding(data, gone=LATER + 9 * MINUTE) == [STRANGE]


def test_an_end_in_no_written_block_is_blank() -> None:
    soon: dict[str, Any] = {"gone": LATER + SECOND, "freed": {"version": 9}}
    for runs in (((0, 1, AT, True),), ((1, 1, AT, False),)):
        case = Case(before=state(**AGAIN), runs=runs, **soon)
        assert ZEROS in case.reasons()
    second = Case(
        before=state(**AGAIN, size=BLOCK + SIZE, blocks=16), runs=((0, 2, AT, False),), **soon,
        disk={AT: b"\1" * BLOCK, AT + 1: b"\1" * SIZE},
    )  # fmt: skip
    assert ZEROS not in second.reasons()
    second.disk = {AT: b"\1" * BLOCK, AT + 1: ZEROS_END}
    assert ZEROS in second.reasons()
    second.runs = ((0, 1, AT + 7, False), (1, 1, AT + 1, False))
    assert ZEROS in second.reasons()


# --- written again ----------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [EXTENTS, EXTENTS | int(InodeFlags.ENCRYPT)])
@pytest.mark.parametrize(("step", "told"), [(-1, False), (0, False), (1, True), (7, True)])
def test_i_version_of_the_freed_inode_tells_of_changes_after_the_state(
    step: int, told: bool, flags: int
) -> None:
    case = Case(before=state(flags=flags), freed={"version": 2 + step})
    assert case.reasons() == ["changed-after-last-state"] * told


@pytest.mark.parametrize("dtime", [0, INODES])
def test_an_empty_file_that_is_open_still_is_not_freed(dtime: int) -> None:
    """The field of its deletion time holds 0, or the next inode of the orphan list."""
    empty = state(size=0, blocks=0)
    still_open = Case(before=empty, runs=(), freed={"dtime": dtime})
    assert still_open.reasons() == ["deletion-not-recorded"]
    assert Case(before=empty, runs=()).reasons() == []
    written = Case(before=empty, runs=(), freed={"dtime": dtime, "version": 3})
    assert written.reasons() == ["changed-after-last-state", "deletion-not-recorded"]


def test_what_went_on_counts_only_where_a_kernel_counts() -> None:
    uncounted = Case(before=state(version=1), freed={"version": 1}, writes=WITHOUT)
    assert uncounted.reasons() == ["changes-not-counted"]
    uncounted.writes = COUNTED
    assert uncounted.reasons() == []
    directory = Case(before=state(mode=0o040755), freed={"version": 9})
    assert "changed-after-last-state" not in directory.reasons()


def superseded(steps: int, claim: tuple[int, int]) -> list[str]:
    """Reasons against an earlier state, whose block somebody (life, order) has later."""
    life, order = claim
    case = Case(
        freed={"order": 9, "links_count": 1, "whole": True, "version": 2 + steps, "size": SIZE,
               "blocks": 8, "place": 900, "dtime": 0},
        found={"superseded": np.array([True])}, logged=_claims((AT, 1, life, 12, order)),
    )  # fmt: skip
    return case.reasons()


def test_an_earlier_state_whose_blocks_the_file_went_on_using_may_hold_newer_bytes() -> None:
    assert superseded(1, (0, 5)) == ["earlier-version"]
    assert superseded(1, (0, 6)) == ["kept-by-later-version", "earlier-version"]
    assert superseded(1, (1, 6)) == superseded(1, (-9, 6)) == ["earlier-version"]
    assert superseded(1, (0, 4)) == ["earlier-version"]


def test_what_was_written_in_place_and_went_soon_may_be_older() -> None:
    older = state(crtime=OLD - MINUTE, mtime=MADE, version=9)  # than the log
    soon = Case(before=older, gone=MADE + SECOND, freed={"version": 9})
    assert "in-place-write-not-flushed" in soon.reasons()
    for size, told in ((0, False), (1, True)):
        shorter = state(crtime=OLD - MINUTE, mtime=MADE, version=9, size=size)
        short = Case(before=shorter, gone=MADE + SECOND, freed={"version": 9})
        assert ("in-place-write-not-flushed" in short.reasons()) == told
    late = Case(before=older, gone=MADE + 2 * MINUTE, freed={"version": 9})
    assert late.reasons() == []
    inline = state(crtime=OLD - MINUTE, version=9, flags=int(InodeFlags.INLINE_DATA), blocks=0)
    case = Case(before=inline, runs=(), gone=MADE + SECOND, freed={"version": 9})
    assert "in-place-write-not-flushed" not in case.reasons()


def test_a_file_first_seen_after_a_second_write_may_hold_the_first() -> None:
    case = Case(before=state(version=3), gone=MADE + SECOND, freed={"version": 3})
    assert "early-rewrite-not-flushed" in case.reasons()
    case.gone = MADE + 2 * MINUTE
    assert case.reasons() == []


def test_a_file_whose_bytes_waited_for_writeback_may_have_lost_them_all() -> None:
    reason = "data-never-flushed"
    waits = {"size": 0, "blocks": 0, "mtime": LATER, "ctime": LATER}
    given: Any = {"runs": (), "gone": LATER + SECOND}
    assert reason in Case(before=state(**waits), **given).reasons()
    late = Case(before=state(**waits), runs=(), gone=LATER + 2 * MINUTE)
    assert late.reasons() == ["write-without-data"]  # on a full disk they do not come at all
    assert reason not in Case(before=state(**waits, mode=0o040755), **given).reasons()
    never = state(**waits | {"mtime": MADE, "ctime": MADE})  # and it was never written to
    assert Case(before=never, runs=(), gone=MADE + SECOND).reasons() == ["recent-change"]


@pytest.mark.parametrize("cluster_ratio", [1, 16])
def test_an_empty_file_on_bigalloc_may_have_lost_a_write_in_the_tick_of_its_creation(
    cluster_ratio: int,
) -> None:
    empty = state(size=0, blocks=0, version=1)
    case = Case(before=empty, runs=(), gone=MADE + 2 * MINUTE, cluster_ratio=cluster_ratio)
    assert case.reasons() == (["empty-on-bigalloc"] if cluster_ratio > 1 else [])


def test_bytes_in_an_inode_may_have_grown_out_of_it_unseen() -> None:
    reason = "inline-data-moved"
    inline = {"flags": int(InodeFlags.INLINE_DATA), "blocks": 0}
    again = inline | AGAIN
    soon: Any = {"runs": (), "gone": LATER + SECOND, "freed": {"version": 9}}
    assert reason in Case(before=state(**again), **soon).reasons()
    late = soon | {"gone": LATER + 2 * MINUTE}
    assert reason not in Case(before=state(**again), **late).reasons()
    assert reason not in Case(before=state(**AGAIN), **soon).reasons()  # it has blocks
    assert reason not in Case(before=state(**again, mode=0o120777), **soon).reasons()
    once = Case(before=state(**inline), runs=(), gone=MADE + SECOND)
    assert reason not in once.reasons()


@pytest.mark.parametrize(
    ("size", "following", "told"),
    [
        (BLOCK, 6, True),  # the next transaction may show more of it
        (BLOCK, 9, False),  # it stood still meanwhile
        (BLOCK - 1, 6, False),  # no whole blocks: this is its end
        (4 << 20, 9, True),  # of huge files writeback takes a part
        ((4 << 20) - BLOCK, 9, False),
    ],
)
def test_a_size_of_whole_blocks_may_be_as_far_as_writeback_had_come(
    size: int, following: int, told: bool
) -> None:
    count = -(-size // BLOCK)
    case = Case(
        before=state(size=size, blocks=8 * count), runs=((0, count, AT, False),),
        disk={AT + at: b"\1" * min(BLOCK, size - at * BLOCK) for at in range(count)},
        gone=MADE + SECOND, following=following,
    )  # fmt: skip
    assert ("writeback-in-progress" in case.reasons()) == told


def test_nothing_shows_how_a_file_of_the_last_transaction_went_on() -> None:
    reason = "writeback-in-progress"
    on_disk: Any = {"freed": {"order": int(TID_ON_DISK)}, "following": int(TID_ON_DISK), **SOON}
    whole = {"size": BLOCK, "blocks": 8}
    for order, told in ((LAST, True), (5, False)):
        assert (reason in Case(before=state(**whole, order=order), **on_disk).reasons()) == told
    empty = state(size=0, blocks=0, order=LAST)
    assert reason not in Case(before=empty, runs=(), **on_disk).reasons()


# --- unseen users -----------------------------------------------------------------------------


def breaks(
    after: int, clean: bool, lost: bool, before: int = 9, anew: int = NO_RESTART
) -> JournalGaps:
    """One break."""
    row = JournalGaps(*(cast(Any, np.array([one])) for one in (before, after, GONE, clean, lost)))
    return replace(row, restarted_at=anew)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (5, ["journal-gap-before-deletion", "journal-gap-after"]),
        (8, ["journal-gap-before-deletion", "journal-gap-after"]),
        (9, ["journal-gap-after"]),
        (LAST, ["journal-gap-after"]),
        (4, []),
    ],
)
def test_lost_transactions_may_have_changed_it_or_used_its_blocks(
    before: int, told: list[str]
) -> None:
    found = Case(breaks=breaks(before + 9, False, True, before)).reasons()
    assert [one for one in found if one != CUT] == told
    assert Case(breaks=breaks(12, True, False)).reasons() == []


def test_a_file_without_blocks_loses_none_to_transactions_that_were_lost() -> None:
    empty = state(size=0, blocks=0, whole=True)
    case = Case(before=empty, runs=(), breaks=breaks(20, False, True, LAST))
    assert case.reasons() == []


@pytest.mark.parametrize(("anew", "told"), [(5, True), (4, True), (6, False), (NO_RESTART, False)])
def test_a_state_from_before_the_log_counted_anew_has_no_sure_order(anew: int, told: bool) -> None:
    found = Case(breaks=replace(NO_BREAKS, restarted_at=anew)).reasons()
    assert found == ["journal-restarted"] * told


CUT = "unclean-shutdown"


def cut(**changes: Any) -> bool:
    """Whether a power cut counts against a file."""
    case = Case(**{"sequence": LAST + 2, **changes})
    return CUT in case.reasons()


def test_what_was_free_at_a_power_cut_may_have_been_written_to() -> None:
    assert not cut()  # as an unmount leaves the log
    assert cut(sequence=LAST + 1)
    assert cut(sequence=LAST + 3)
    assert cut(breaks=breaks(11, clean=False, lost=False))
    assert not cut(breaks=breaks(12, clean=True, lost=False))
    assert not cut(breaks=breaks(8, clean=False, lost=False, before=6))  # before it went
    assert not cut(sequence=LAST + 1, found={"freed_tid": np.array([TID_NONE])})


def test_a_copy_of_a_mounted_file_system_counts_as_cut() -> None:
    assert cut(live_copy="1 inode changed")


def test_e2fsck_leaves_a_log_as_an_unmount_does() -> None:
    newest = (GONE + MINUTE) // SECOND  # the last commit
    assert cut(check_time=newest)
    assert cut(check_time=newest + 100)
    assert not cut(check_time=newest - 1)


def test_a_later_mount_without_a_transaction_may_have_followed_a_power_cut() -> None:
    newest = (GONE + MINUTE) // SECOND
    assert cut(mount_time=newest + 1)
    assert not cut(mount_time=newest)


def test_a_power_cut_counts_against_contents_on_the_disk_alone() -> None:
    assert Case(sequence=LAST + 1).reasons() == [CUT]
    empty = state(size=0, blocks=0, whole=True)
    assert Case(before=empty, runs=(), sequence=LAST + 1).reasons() == []


def test_what_is_on_disk_comes_after_all_that_was_lost() -> None:
    for order in (int(TID_ON_DISK), TID_PRE_FAST_COMMIT):
        before = state(order=order)
        case = Case(before=before, breaks=breaks(20, False, True, LAST))
        assert not any(one.startswith("journal-gap") for one in case.reasons())


# --- content that went through the log --------------------------------------------------------

DATA, OTHERS = b"\1" * SIZE, b"\2" * SIZE
TWO: dict[str, Any] = {
    "before": state(size=2 * BLOCK, blocks=16), "runs": ((0, 2, AT, False),),
    "disk": {AT: DATA, AT + 1: DATA},
}  # fmt: skip


def copied(*copies: tuple[int, int, bytes], **changes: Any) -> list[str]:
    """The reasons against a file of which the log has copies of data."""
    return Case(copies=copies or ((AT, 5, DATA),), **changes).reasons()


def test_a_file_whose_bytes_the_log_has_needs_no_disk() -> None:
    assert copied() == []
    assert copied(**SOON) == ["second-change-possible"]
    assert Case(**SOON).reasons() == ["recent-change"]
    assert copied(disk={}) == []
    assert copied(sequence=LAST + 1) == []  # a power cut
    link = copied(before=state(mode=0o120777), **SOON)  # its target is read from the log
    assert link == []
    assert CUT in copied(**TWO, sequence=LAST + 1)  # one block of two is on the disk alone


def test_the_end_of_a_content_is_judged_where_its_bytes_are() -> None:
    """What the log has is read from there: zeros on the disk, or others' bytes, say nothing."""
    again: Any = {"before": state(**AGAIN), "gone": LATER + SECOND, "freed": {"version": 9}}
    for data in (ZEROS_END, b"\1" * BLOCK):
        found = copied((AT, 5, DATA), disk={AT: data}, **again, taken=((AT, 1),))
        assert not {ZEROS, STRANGE} & set(found)


def test_a_write_that_did_not_go_through_the_log_is_newer_than_the_copies() -> None:
    """It is told by mtime: the first state that has the last one is when it was written."""
    reason = "journal-copy-outdated"
    old = (AT, 4, DATA)
    assert reason not in copied((AT, 5, DATA))
    assert reason in copied(old)
    assert reason not in copied(old, earlier=(state(order=4),))
    assert reason in copied(old, earlier=(state(order=4, mtime=OLD),))
    assert reason not in copied(old, (AT + 1, 5, DATA), **TWO)  # the newest one tells
    assert reason in copied(old, earlier=(state(life=-1, order=4),))  # of another file


DIFFER = "journal-disk-conflict"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"disk": {AT: DATA}}, False),
        ({"disk": {AT: DATA + b"\1"}}, True),
        ({"disk": {}}, False),  # it cannot be read
        ({"taken": ((AT, 1),)}, False),  # these are the bytes of who took it
        ({"taken": ((AT - 1, 1), (AT + 1, 5))}, True),
        ({"to_replay": (5,)}, False),  # nothing was written to the disk yet
        ({"to_replay": (9,)}, True),
        ({"gone": GONE}, False),  # by then what the log has is on the disk, or something newer
        ({"gone": GONE, "before": state(version=3, order=6), "earlier": (state(),)}, True),
    ],
)
def test_where_log_and_disk_differ_soon_after_a_write_either_may_be_right(
    changes: dict[str, Any], told: bool
) -> None:
    given: Any = {**SOON, "disk": {AT: OTHERS}, **changes}
    assert (DIFFER in copied((AT, 5, DATA), **given)) == told


@pytest.mark.parametrize("at_once", [1, 2, 3, 99])
def test_each_copy_is_held_against_its_own_block(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "BLOCKS_AT_ONCE", at_once)
    count = 5
    size = (count - 1) * BLOCK + SIZE
    given: Any = {"before": state(size=size, blocks=8 * count), "runs": ((0, count, AT, False),)}
    copies = tuple((AT + at, 5, b"%d" % at) for at in range(count))
    disk = {AT + at: b"%d" % at for at in range(count)}
    assert DIFFER not in copied(*copies, disk=disk, **SOON, **given)
    for at in range(count):
        assert DIFFER in copied(*copies, disk=disk | {AT + at: b"9"}, **SOON, **given)


def test_what_the_log_lacks_of_journaled_bytes_may_not_have_come_to_the_disk() -> None:
    reason = "journal-data-incomplete"
    one = (AT, 5, DATA)
    assert reason in copied(one, **TWO, **SOON)
    assert reason not in copied(one, **TWO)  # a minute brought them there
    assert reason not in copied(one, (AT + 1, 5, DATA), **TWO, **SOON)
    for others, with_copies, told in (
        (1, 0, False), (2, 1, False), (2, 2, True), (3, 2, False), (4, 3, True)
    ):  # fmt: skip
        case = Case(**SOON, others=others, copied=with_copies)
        assert (reason in case.reasons()) == told  # where most files' data are journaled
    holes = TWO | {"runs": ((0, 1, AT, False), (1, 1, AT + 1, True))}  # one reads as zeros anyway
    assert reason not in copied(one, **holes, **SOON)


def test_copies_from_before_the_last_write_may_be_older_where_transactions_were_lost() -> None:
    reason = "journal-gap-after-copies"
    again: Any = {"earlier": (state(order=4),), "before": state(version=3)}
    for before, told in ((3, False), (4, True), (8, True), (9, False)):
        lost = breaks(30, False, True, before)
        assert (reason in copied((AT, 4, DATA), **again, breaks=lost)) == told
    assert reason not in copied((AT, 5, DATA), breaks=breaks(30, False, True, 5))


@pytest.mark.parametrize(
    ("damaged", "told"), [((4,), False), ((5,), True), ((6,), False), ((3, 5), True), ((), False)]
)
def test_a_damaged_transaction_behind_a_copy_may_have_a_newer_one(
    damaged: tuple[int, ...], told: bool
) -> None:
    bad = replace(NO_BREAKS, damaged=np.array(damaged, np.int64))
    assert (
        "journal-unreadable" in copied((AT, 4, DATA), earlier=(state(order=4),), breaks=bad)
    ) == told


def test_blocks_that_a_later_state_has_too_are_read_from_the_log() -> None:
    reason = "kept-by-later-version"
    given: Any = {
        "freed": {"links_count": 1, "whole": True, "version": 3, "size": SIZE, "blocks": 8,
                  "place": 900, "dtime": 0},
        "found": {"superseded": np.array([True])}, "logged": _claims((AT, 1, 0, 12, 6)),
    }  # fmt: skip
    assert reason in Case(**given).reasons()
    assert reason not in copied((AT, 5, DATA), **given)


@pytest.mark.parametrize(
    "case",
    [
        candidate(map_damaged=True),
        with_state(undescribed=True),
        with_state(blocks=16),
        Case(unknown=(AT,)),
        Case(lost=((AT, AT + 1),)),
        Case(disk={AT: b"\1" * BLOCK}),
        Case(before=state(**AGAIN), disk={AT: ZEROS_END}, gone=LATER + SECOND),
        Case(freed={"version": 3}),
        Case(**SOON),
        Case(**SOON, copies=((AT, 5, OTHERS),)),
        Case(copies=((AT, 4, DATA),)),
        Case(**TWO, **SOON, copies=((AT, 5, DATA),)),
        Case(before=state(size=BLOCK), disk={AT: b"\1" * BLOCK}, following=6, **SOON),
        candidate(freed_tid=TID_NONE, map_source=INODE_TABLE),
    ],
)
def test_what_speaks_against_one_file_says_nothing_of_the_one_beside_it(case: Case) -> None:
    beside, _ = case.both()
    assert beside == []
