"""Which zeros in deleted files a discard made, and which it may have made: rules, disks by hand."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.filesystem.block_maps import Runs
from ext4kit.recovery import discarded as module
from ext4kit.recovery.discarded import find_discarded
from tests.recovery.made_history import Sized, ToldInodes

BLOCK = 4096
MOUNTED_WITH_DISCARD = 0x0400  # EXT4_DEFM_DISCARD, kernel fs/ext4/ext4.h
UNIT = 16  # blocks
Found = list[tuple[int, int, int]]  # candidate, first block, blocks
MODE = 0o100755


@dataclass
class Case:
    """Deleted files on a small disk.

    Attributes:
        disk: a letter a block: x data, . zeros, ? unreadable; in use now: X data, o zeros.
        runs: (candidate, first block, blocks) of each.
        others: runs of data besides, of candidate 1.
        mode, unsized: of candidate 0.
        unwritten: its blocks are.
        options: the mount options of the superblock.
        seen: (first block, blocks) of free space that is known to hold data.
        base: the byte of the disk at which the file system begins, None for not known.
    """

    disk: str
    runs: tuple[tuple[int, int, int], ...]
    others: int = 30
    mode: int = MODE
    unsized: bool = False
    unwritten: bool = False
    options: int = 0
    seen: tuple[tuple[int, int], ...] | None = None
    base: int | None = None
    block_size: int = BLOCK

    def find(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Found, Found]:
        """What was discarded, and what may have been."""
        letters = np.array(list(self.disk + ".x"))  # behind it, and before its first block
        at = self.disk.index("x")

        def fetch(blocks: Any) -> tuple[Any, Any]:
            there = np.isin(letters[blocks], ["x", "X", ".", "o"])
            return np.isin(letters[blocks], ["x", "X"])[:, None].astype(np.uint8), there

        fs = SimpleNamespace(
            superblock=SimpleNamespace(
                block_size=self.block_size, default_mount_options=self.options
            ),
            blocks=SimpleNamespace(blocks_count=len(self.disk)),
            bitmaps=SimpleNamespace(blocks_in_use=lambda some: np.isin(letters[some], ["X", "o"])),
            fetch=fetch,
        )
        monkeypatch.setattr(module, "first_byte", lambda _: self.base)
        states = SimpleNamespace(table=ToldInodes(mode=np.array([self.mode, MODE])))
        found = Sized(state_row=np.arange(2), size_unknown=np.array([self.unsized, False]))
        rows = self.runs + ((1, at, 1),) * self.others
        owner, start, length = np.array(rows, np.int64).T
        runs = Runs(owner, start + 5, length, start, (owner == 0) & self.unwritten)
        marks = None
        if self.seen is not None:
            first, count = np.array(self.seen, np.int64).reshape(-1, 2).T
            marks = SimpleNamespace(start=first, length=count)
        history = SimpleNamespace(fs=fs, states=states)
        parts = find_discarded(cast(Any, history), cast(Any, found), runs, cast(Any, marks))
        for part in parts:
            assert (part.logical == part.physical + 5).all()
            assert not part.unwritten.any()
        certain, possible = (
            list(
                zip(part.owner.tolist(), part.physical.tolist(), part.length.tolist(), strict=True)
            )
            for part in parts
        )
        return certain, possible


def data(count: int) -> str:
    return "x" * count


def zeros(count: int) -> str:
    return "." * count


# --- certain --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [MODE, 0o120777])
def test_a_whole_run_of_zeros_was_discarded(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("xx..xx", ((0, 2, 2),), mode=mode)
    assert case.find(monkeypatch) == ([(0, 2, 2)], [])
    assert Case("xx..xx", ((0, 1, 2),), mode=mode).find(monkeypatch) == ([], [])


@pytest.mark.parametrize(
    "case",
    [
        Case("xx..xx", ((0, 2, 2),), mode=0o040755),  # a directory
        Case("xx..xx", ((0, 2, 2),), unsized=True),
        Case("xx..xx", ((0, 2, 2),), unwritten=True),  # reads as zeros anyway
        Case("xxooxx", ((0, 2, 2),)),  # zeros of who has them now
        Case("xx??xx", ((0, 2, 2),)),
        Case("xx..xx", ((0, 2, 2),), seen=((1, 3),)),  # free space that was seen to hold data
    ],
)
def test_what_is_no_zeros_of_a_files_own_was_not_discarded(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert case.find(monkeypatch) == ([], [])


def test_only_what_was_not_seen_to_hold_data_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("xx....xx", ((0, 2, 4),), seen=((0, 2), (6, 2)), others=0)
    assert case.find(monkeypatch) == ([(0, 2, 4)], [])
    case.seen = ((3, 1),)
    assert case.find(monkeypatch) == ([], [])  # it is no whole run any more


@pytest.mark.parametrize(("others", "many"), [(0, True), (8, True), (9, False)])
def test_where_a_tenth_of_all_runs_is_zeros_each_block_of_zeros_counts(
    others: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is zeros alone, one in part; then others of data."""
    found = Case("x..xx.xx", ((0, 1, 2), (0, 4, 2)), others=others).find(monkeypatch)
    assert found == ([(0, 1, 2), (0, 5, 1)] if many else [(0, 1, 2)], [])


def test_a_file_system_mounted_with_discard_by_default_has_no_zeros_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case("xx.xx", ((0, 1, 3),))
    assert case.find(monkeypatch) == ([], [])
    for options in (MOUNTED_WITH_DISCARD, 0xFFFF):
        case.options = options
        assert case.find(monkeypatch) == ([(0, 2, 1)], [])
    case.options = 0xFFFF & ~MOUNTED_WITH_DISCARD
    assert case.find(monkeypatch) == ([], [])


@pytest.mark.parametrize(
    ("disk", "run", "certain"),
    [
        ("xxxx" "xxxx" + zeros(17) + "x", (4, 20), (8, 16)),
        ("xxxx" "xxxx" + zeros(16) + "xx", (4, 20), None),  # what lies behind is data
        ("xxxx" "xxxx" + zeros(16) + "?x", (4, 20), None),
        ("xxxx" "xxxxx" + zeros(16) + "x", (4, 20), None),  # fewer than 64 KiB
        ("xxxx" "xxx" + zeros(16) + "x..x", (4, 20), None),  # not up to the edge
        ("xxx." + zeros(16) + "xxxx", (4, 20), (4, 16)),
        ("xxxx" + zeros(16) + "xxxx", (4, 20), None),
        ("xxx." "x" + zeros(16) + "xxxx", (4, 20), None),
        ("." + zeros(16) + "xxxx", (1, 20), (1, 16)),  # up to the first block
    ],
)  # fmt: skip
def test_many_zeros_at_an_edge_that_go_on_behind_it_were_discarded(
    disk: str,
    run: tuple[int, int],
    certain: tuple[int, int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, possible = Case(disk, ((0, *run),), base=BLOCK).find(monkeypatch)
    assert found == ([(0, *certain)] if certain else [])
    assert possible == []


@pytest.mark.parametrize("size", [1024, 4096, 65536, 131072])
def test_zeros_are_many_by_their_bytes(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    least = max(64 * 1024 // size, 1)
    for count in {least, max(least - 1, 1)}:
        disk = "xx" + zeros(count + 1) + "xxx"
        certain, _ = Case(disk, ((0, 1, count + 1),), block_size=size).find(monkeypatch)
        assert certain == [(0, 2, count)] * (count == least)


def test_the_end_of_the_file_system_is_no_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    for disk in ("xxxx" + zeros(16), zeros(16) + "xxxx"):
        assert Case(disk, ((0, 0, 20),)).find(monkeypatch)[0] == []


# --- possible -------------------------------------------------------------------------------------


def possible(
    monkeypatch: pytest.MonkeyPatch, disk: str, *runs: tuple[int, int], **changes: Any
) -> list[tuple[int, int]]:
    """(first block, blocks) of the zeros that a discard may have made, none being certain."""
    certain, found = Case(disk, tuple((0, *run) for run in runs), **changes).find(monkeypatch)
    assert certain == []
    return [(start, length) for _, start, length in found]


@pytest.mark.parametrize(
    ("first", "end", "whole"),
    [
        (16, 32, True), (17, 32, False), (16, 31, False), (8, 32, True), (16, 40, True),
        (9, 31, False), (17, 40, False), (15, 33, True), (16, 48, True), (8, 56, True),
        (24, 40, False), (1, 15, False), (40, 64, True), (24, 64, True), (41, 63, False),
    ],
)  # fmt: skip
def test_zeros_inside_a_run_that_fill_a_unit_of_the_disk_may_have_been_discarded(
    first: int, end: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = data(first) + zeros(end - first) + data(80 - end)
    for base in (None, 0, 64 * 1024):
        found = possible(monkeypatch, disk, (0, 80), base=base)
        assert found == [(first, end - first)] * whole


@pytest.mark.parametrize(
    ("base", "first", "end"),
    [(2 * BLOCK, 14, 30), (63 * 512, 9, 24), (64 * 1024 + 512, 16, 31), (1 << 20, 16, 32)],
)
def test_a_unit_is_one_of_the_disk(
    base: int, first: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a unit begins or ends within a block, that block is in none of the two."""
    for start, stop, whole in (
        (first, end, True),
        (first + 1, end, False),
        (first, end - 1, False),
    ):
        disk = data(start) + zeros(stop - start) + data(60 - stop)
        found = possible(monkeypatch, disk, (1, 50), base=base)
        assert found == [(start, stop - start)] * whole


@pytest.mark.parametrize("size", [1024, 4096, 65536, 131072])
def test_a_unit_is_64_kib_and_no_less_than_a_block(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = max(64 * 1024 // size, 1)
    disk = data(count) + zeros(count) + data(count)
    found = possible(monkeypatch, disk, (0, 3 * count), block_size=size)
    assert found == [(count, count)]


@pytest.mark.parametrize(
    ("outside", "clear"),
    [("....", True), ("x...", False), ("...x", False), ("XX..", True), ("o..X", True),
     ("?...", False)],
)  # fmt: skip
def test_a_unit_at_an_edge_of_a_run_is_zeros_or_used_again_beside_it(
    outside: str, clear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data(16) + outside + zeros(12) + data(20)
    assert possible(monkeypatch, before, (20, 30)) == [(20, 12)] * clear
    end = data(16) + zeros(12) + outside[::-1] + data(20)
    assert possible(monkeypatch, end, (4, 24)) == [(16, 12)] * clear


def test_where_zeros_do_not_reach_the_edge_of_a_run_the_file_has_bytes_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert possible(monkeypatch, data(16) + zeros(4) + "X" + zeros(11) + data(20), (20, 30)) == []
    assert possible(monkeypatch, data(16) + zeros(11) + "X" + zeros(4) + data(20), (4, 24)) == []


def test_the_unit_behind_a_run_is_none_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert possible(monkeypatch, data(17) + zeros(40) + data(9), (4, 28)) == []
    assert possible(monkeypatch, data(9) + zeros(38) + data(9), (32, 20)) == []


def test_two_pieces_in_one_unit_are_judged_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = data(16) + zeros(16) + data(8) + zeros(8) + data(32)
    found = possible(monkeypatch, disk, (8, 16), (24, 12), (36, 12), (50, 4))
    assert found == [(16, 8), (24, 8)]


def test_beyond_the_ends_of_the_file_system_is_nothing_that_speaks_against_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert possible(monkeypatch, data(32) + zeros(8), (20, 20)) == [(32, 8)]
    assert possible(monkeypatch, zeros(14) + data(20), (0, 20), base=2 * BLOCK) == [(0, 14)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 8])
def test_more_blocks_than_are_read_at_once_are_all_looked_at(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCKS_AT_ONCE", at_once)
    disk = "x.x..x...xx" + zeros(21) + "x" + zeros(16) + "xx"
    whole = ((0, 1, 1), (0, 3, 2), (0, 6, 3), (1, 11, 21))
    assert Case(disk, whole).find(monkeypatch) == (list(whole), [])
    assert Case(disk, ((0, 9, 24),), others=0, options=MOUNTED_WITH_DISCARD).find(monkeypatch) == (
        [(0, 11, 21)], []
    )  # fmt: skip
    assert possible(monkeypatch, disk, (10, 23), (32, 18)) == [(11, 21)]
