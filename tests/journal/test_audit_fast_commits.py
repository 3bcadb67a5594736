"""What the audit says of fast commits, on areas written by hand: sound, stale, damaged ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ext4kit.audit import AuditFindings, Part, Verdict, VerdictCounts, audit_log
from ext4kit.audit.fast_commits import _run_end
from ext4kit.journal import Log
from tests.journal.log_writer import BLOCK_SIZE, LOG_START, LogWriter
from tests.journal.written_fast_commits import CREAT, committed, entry, head, inode, raw_inode

TID, OLD = 4, 3
AREA, LENGTH = 80, 1200
FIRST = LENGTH - AREA + 1
LONG = inode(12, raw_inode().ljust(800, b"i"))  # one to a block
NEW = entry(CREAT, 2, 12, "new")


def fast(blocks: int = 1, tid: int = TID, *, opens: bool = False) -> bytes:
    """One fast commit of so many blocks."""
    tags = [LONG] * blocks
    data = committed([*([head(tid)] if opens else []), *tags], BLOCK_SIZE, tid)
    assert len(data) == blocks * BLOCK_SIZE
    return data


class Area:
    """Blocks behind a ring in which the last transaction is 3, and what the audit says of them."""

    def __init__(self, *commits: bytes, start: int = 1) -> None:
        self.writer = LogWriter(LENGTH)
        self.writer.end = LENGTH - AREA
        self.writer.transaction(3, (40, b"one"))
        data = b"".join(commits)
        for number in range(len(data) // BLOCK_SIZE):
            part = data[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE]
            self.writer.put(part, at=FIRST + number)
        self._start = start

    def change(self, row: int, byte: int, mask: int = 1) -> Area:
        self.writer.rows[LOG_START + FIRST + row, byte] ^= mask
        return self

    def clear(self, row: int) -> Area:
        self.writer.rows[LOG_START + FIRST + row] = 0xFF
        return self

    def log(self) -> Log:
        return self.writer.log(3, start=self._start, incompat=0x20)

    def audited(self) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Findings as (code, transaction, row, byte), and the verdicts counted."""
        findings, tally = AuditFindings(), VerdictCounts()
        audit_log(self.log(), findings, tally)
        kept = [
            (
                one.code, one.transaction, (one.log_block or 0) - FIRST,
                (one.byte_offset or 0) - (one.fs_block or 0) * BLOCK_SIZE,
            )
            for one in findings.kept
        ]  # fmt: skip
        counts = [tally.of(Part.FAST_COMMIT, verdict) for verdict in Verdict]
        assert all(one.fs_block == (one.log_block or 0) + LOG_START for one in findings.kept)
        return kept, counts[:3]


def test_a_log_without_an_area_has_no_verdict_on_one() -> None:
    writer = LogWriter(64)
    writer.transaction(3, (40, b"one"))
    tally = VerdictCounts()
    audit_log(writer.log(3, start=1), AuditFindings(), tally)
    assert Part.FAST_COMMIT not in tally.counts


def test_an_empty_area_is_sound() -> None:
    assert Area().audited() == ([], [0, 0, 0])


@pytest.mark.parametrize("start", [0, 1])
def test_sound_ones_are_ok_stale_ones_too(start: int) -> None:
    area = Area(fast(2, opens=True), fast(1), fast(3), fast(2, OLD), fast(1, OLD), start=start)
    assert area.audited() == ([], [5, 0, 0])


def test_what_newer_ones_have_left_of_an_older_one_cannot_be_checked() -> None:
    """Its first blocks are overwritten: its checksum fails, and nothing is wrong."""
    area = Area(fast(2, opens=True), fast(3, OLD)[BLOCK_SIZE:], fast(1, OLD))
    assert area.audited() == ([], [2, 0, 1])


PLACES = [(0, 0), (0, 40), (0, 700), (1, 0), (1, 50), (2, 4), (2, 700)]


@pytest.mark.parametrize(("row", "byte"), PLACES)
@pytest.mark.parametrize("mask", [1, 0x80])
def test_one_changed_bit_is_named(row: int, byte: int, mask: int) -> None:
    area = Area(fast(1, opens=True), fast(2), fast(1)).change(row, byte, mask)
    kept, counts = area.audited()
    assert ("fast-commit-checksum", TID, row, byte) in kept
    assert all(one[1] == TID for one in kept)
    assert counts == [2, 1, 0]


@pytest.mark.parametrize(("row", "tags"), [(0, len(head()) + len(LONG)), (1, len(LONG))])
@pytest.mark.parametrize("byte", range(12))
def test_one_changed_bit_of_a_tail_is_named(row: int, tags: int, byte: int) -> None:
    """The tail is 4 bytes of tag, 4 of id, 4 of checksum; its length leads to the block's end."""
    area = Area(fast(1, opens=True), fast(1), fast(2)).change(row, tags + byte)
    kept, counts = area.audited()
    assert kept == [("fast-commit-checksum", TID, row, tags + byte)]
    assert counts == [2, 1, 0]


def test_a_changed_bit_of_a_stale_one_is_found() -> None:
    area = Area(fast(1, opens=True), fast(2, OLD), fast(1, OLD)).change(1, 100)
    kept, counts = area.audited()
    assert kept == [("fast-commit-checksum", OLD, 1, 100)]
    assert counts == [2, 1, 0]


def test_more_damage_than_a_bit_is_found_where_the_beginning_is_known() -> None:
    area = Area(fast(1, opens=True), fast(1), fast(1)).change(1, 100, 0x55).change(1, 300, 0x33)
    kept, counts = area.audited()
    assert kept == [("fast-commit-missing", TID, 1, 0)]
    assert counts == [2, 1, 0]


def test_more_damage_in_the_last_one_is_found_behind_one_of_the_same_transaction() -> None:
    area = Area(fast(1, opens=True), fast(1)).change(1, 100, 0x55).change(1, 300, 0x33)
    kept, counts = area.audited()
    assert kept == [("fast-commit-checksum", TID, 1, 0)]
    assert counts == [1, 1, 0]


def test_more_damage_in_one_of_two_blocks_is_found_in_its_first() -> None:
    area = Area(fast(1, opens=True), fast(2)).change(2, 100, 0x55).change(1, 300, 0x33)
    assert area.audited() == ([("fast-commit-checksum", TID, 1, 0)], [1, 1, 0])


def test_more_damage_in_the_first_one_is_found_by_its_head() -> None:
    area = Area(fast(1, opens=True)).change(0, 100, 0x55).change(0, 300, 0x33)
    assert area.audited()[0] == [("fast-commit-checksum", TID, 0, 0)]
    other = Area(fast(1)).change(0, 100, 0x55).change(0, 300, 0x33)
    assert other.audited() == ([], [0, 0, 1])


def test_more_damage_behind_another_transactions_ones_is_no_finding() -> None:
    area = Area(fast(1, opens=True), fast(1, OLD)).change(1, 100, 0x55).change(1, 300, 0x33)
    assert area.audited() == ([], [1, 0, 1])


def test_one_that_is_wholly_gone_is_missed_between_two() -> None:
    area = Area(fast(1, opens=True), fast(2), fast(1)).clear(1).clear(2)
    kept, counts = area.audited()
    assert kept == [("fast-commit-missing", TID, 1, 0)]
    assert counts == [2, 1, 0]


def test_one_that_is_wholly_gone_is_missed_before_the_first() -> None:
    kept, counts = Area(fast(1, opens=True), fast(1)).clear(0).audited()
    assert kept == [("fast-commit-missing", TID, 0, 0)]
    assert counts == [1, 1, 0]


def test_nothing_is_missed_between_ones_of_two_transactions() -> None:
    area = Area(fast(1, opens=True), fast(1), fast(1, OLD)).clear(1)
    assert area.audited() == ([], [2, 0, 0])


def test_nothing_is_missed_where_newer_ones_were_begun_over_old_ones() -> None:
    """A crash in the first of them: its head is that of another transaction."""
    begun = (head(9) + LONG).ljust(BLOCK_SIZE, b"\0")
    assert Area(begun, fast(1, OLD), fast(1, OLD)).audited() == ([], [2, 0, 1])


def test_what_lies_behind_a_tail_belongs_to_no_fast_commit() -> None:
    assert Area(fast(1, opens=True), fast(1)).change(1, 900).audited() == ([], [2, 0, 0])


def test_a_bit_is_looked_for_in_64_blocks_and_up_to_the_next_sound_one() -> None:
    area = Area(fast(1, opens=True), fast(64)).change(30, 200)
    assert ("fast-commit-checksum", TID, 30, 200) in area.audited()[0]
    free = np.zeros(100, bool)
    assert [_run_end(free, row) for row in (0, 10, 36, 37, 99)] == [64, 74, 100, 100, 100]
    free[[20, 30]] = True
    assert [_run_end(free, row) for row in (0, 19, 20, 21, 31)] == [20, 20, 20, 30, 95]
