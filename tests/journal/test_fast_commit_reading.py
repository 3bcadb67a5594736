"""Which fast commits a recovery applies, on areas written by hand.

As in the kernel's `ext4_fc_replay_scan`: the area opens with a HEAD of the transaction that the log
ends before; each TAIL of that transaction with a good checksum closes one more to apply.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ext4kit.journal import Log
from ext4kit.journal.fast_commits import scan
from ext4kit.journal.fast_commits.scan import (
    NONE,
    added_ranges,
    fast_commit_positions,
    scan_fast_commits,
)
from ext4kit.problems import Severity
from tests.journal.log_writer import BLOCK_SIZE, LOG_START, LogWriter
from tests.journal.written_fast_commits import (
    ADD_RANGE,
    CREAT,
    HEAD,
    INODE,
    PAD,
    TAIL,
    add_range,
    committed,
    del_range,
    entry,
    head,
    inode,
    raw_inode,
    sealed,
    tag,
)

TID = 4  # the transaction that is open: 3 is the last one in the ring
AREA, LENGTH = 16, 1100  # a ring of fewer than 1,024 blocks leaves no room for an area
FIRST = LENGTH - AREA + 1
NEW = entry(CREAT, 2, 12, "new")
STALE = "stale: written for transaction 9"
BEHIND = "after the last fast commit to apply"
TORN = "no TAIL: interrupted, or replaced by a full commit"


def log_of(*blocks: bytes, start: int = 1, at: int = FIRST, last: int = 3) -> Log:
    """A log with one transaction in its ring and these blocks in its area."""
    writer = LogWriter(LENGTH)
    writer.end = LENGTH - AREA
    writer.transaction(last, (40, b"one"))
    data = b"".join(blocks)
    for number in range(len(data) // BLOCK_SIZE):
        writer.put(data[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE], at=at + number)
    return writer.log(last, start=start, incompat=0x20)


def one(*tags: bytes, tid: int = TID, opens: bool = True) -> bytes:
    """One fast commit that fits into a block."""
    return committed([*([head(tid)] if opens else []), *tags], BLOCK_SIZE, tid)


def more(*tags: bytes, tid: int = TID) -> bytes:
    return one(*tags, tid=tid, opens=False)


def why(log: Log) -> list[str]:
    return [each.reason for each in scan_fast_commits(log).commits]


def told(log: Log) -> list[tuple[Severity, str]]:
    scan_fast_commits(log)
    return [(each.severity, each.what) for each in log.problems]


def test_a_log_without_an_area_has_none() -> None:
    writer = LogWriter(LENGTH)
    writer.transaction(3, (40, b"one"))
    log = writer.log(3, start=1)
    assert fast_commit_positions(log).tolist() == []
    found = scan_fast_commits(log)
    assert (found.commits, found.to_replay, found.newest_tid, len(found.tags)) == ((), (), NONE, 0)


def test_the_area_is_what_lies_behind_one_unused_block() -> None:
    log = log_of()
    assert fast_commit_positions(log).tolist() == list(range(FIRST, LENGTH))
    found = scan_fast_commits(log)
    assert found.positions.tolist() == list(range(FIRST, LENGTH))
    assert (found.commits, found.newest_tid, found.expected_tid) == ((), NONE, TID)
    assert told(log) == []


def test_an_area_that_leaves_no_ring_is_none() -> None:
    writer = LogWriter(LENGTH)
    writer.end = 1
    log = writer.log(3, start=1, incompat=0x20)
    assert fast_commit_positions(log).tolist() == []


def test_each_tail_closes_a_fast_commit() -> None:
    log = log_of(one(NEW), more(del_range(12, 0, 1)), more(NEW, NEW))
    found = scan_fast_commits(log)
    assert [(each.first, each.end, each.position) for each in found.commits] == [
        (0, 3, FIRST), (3, 5, FIRST + 1), (5, 8, FIRST + 2)
    ]  # fmt: skip
    assert [each.head_tid for each in found.commits] == [TID, NONE, NONE]
    assert [each.tid for each in found.commits] == [TID] * 3
    assert [each.crc_ok for each in found.commits] == [True] * 3
    assert found.to_replay == found.commits
    assert found.commit.tolist()[:8] == [0, 0, 0, 1, 1, 2, 2, 2]
    assert set(found.commit.tolist()[8:]) == {NONE}  # a block of zeros begins with no tag
    assert (found.newest_tid, found.expected_tid, found.refusal) == (TID, TID, "")
    assert told(log) == []


def test_values_come_with_the_block_they_stand_in() -> None:
    long = inode(12, raw_inode().ljust(600, b"i"))
    log = log_of(one(NEW, long, long, add_range(12, 0, 1, 50)), more(NEW))
    found = scan_fast_commits(log)
    assert [(each.position, each.end - each.first) for each in found.commits] == [
        (FIRST, 7), (FIRST + 2, 2)
    ]  # fmt: skip
    values = list(found.tag_values(log, found.commits[:1]))
    assert [(position - FIRST, kind) for position, kind, _ in values] == [
        (0, HEAD), (0, CREAT), (0, INODE), (0, PAD), (1, INODE), (1, ADD_RANGE), (1, TAIL)
    ]  # fmt: skip
    assert values[1][2] == NEW[4:]
    assert [value for _, kind, value in values if kind == INODE] == [long[4:]] * 2
    assert [place for place, _, _ in found.tag_values(log, found.commits[1:])] == [FIRST + 2] * 2


def test_a_second_head_of_the_same_transaction_begins_another() -> None:
    log = log_of(one(NEW), one(NEW))
    assert [each.head_tid for each in scan_fast_commits(log).to_replay] == [TID, TID]


@pytest.mark.parametrize(
    ("blocks", "reasons", "due"),
    [
        ((one(NEW), more(NEW), more(NEW, tid=9), more(NEW)), ["", "", STALE, BEHIND], 2),
        ((one(NEW), one(NEW, tid=9), more(NEW, tid=9)), ["", STALE, BEHIND], 1),
        ((one(NEW, tid=9), more(NEW, tid=9)), [STALE, BEHIND], 0),
        ((one(NEW), (head(TID) + NEW).ljust(BLOCK_SIZE, b"\0")), ["", TORN], 1),
        ((one(NEW), NEW.ljust(BLOCK_SIZE, b"\0"), more(NEW)), ["", TORN, BEHIND], 1),
    ],
)
def test_a_sound_area_ends_where_the_newest_ones_end(
    blocks: tuple[bytes, ...], reasons: list[str], due: int
) -> None:
    log = log_of(*blocks)
    assert why(log) == reasons
    found = scan_fast_commits(log)
    assert found.to_replay == found.commits[:due]
    assert found.refusal == ""
    assert {severity for severity, _ in told(log)} <= {Severity.NOTE}


def spoiled(block: bytes, at: int = 12) -> bytes:
    return block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]


def test_a_bad_checksum_ends_them_and_is_an_error() -> None:
    log = log_of(one(NEW), spoiled(more(NEW), 6), more(NEW))
    assert why(log) == ["", "bad checksum", BEHIND]
    assert told(log) == [(Severity.ERROR, "bad checksum; it and later ones were not applied")]
    assert scan_fast_commits(log).refusal == ""


def test_a_bad_first_one_makes_a_recovery_refuse_the_log() -> None:
    log = log_of(spoiled(one(NEW), 20), more(NEW))
    found = scan_fast_commits(log)
    assert [each.reason for each in found.commits] == ["bad checksum", BEHIND]
    assert found.refusal == f"fast commits, log block {FIRST:,}: bad checksum"
    assert told(log)[0] == (Severity.ERROR, "bad checksum; none was applied")
    assert found.to_replay == ()


def test_a_first_one_without_an_end_is_a_warning_and_no_refusal() -> None:
    log = log_of((head(TID) + NEW).ljust(BLOCK_SIZE, b"\0"))
    assert told(log) == [(Severity.WARNING, f"{TORN}; none was applied")]
    assert scan_fast_commits(log).refusal == ""


@pytest.mark.parametrize(("first", "reason"), [(more(NEW), "no HEAD at the start of the area")])
def test_without_a_head_nothing_is_applied(first: bytes, reason: str) -> None:
    log = log_of(first, one(NEW))
    assert why(log) == [reason, reason]
    assert told(log) == []
    assert scan_fast_commits(log).newest_tid == NONE


def test_a_head_behind_the_areas_first_block_opens_nothing() -> None:
    log = log_of(one(NEW), at=FIRST + 1)
    assert why(log) == ["no HEAD at the start of the area"]
    assert scan_fast_commits(log).newest_tid == NONE


def test_features_that_nobody_knows_end_them() -> None:
    body = head(TID, 4) + NEW
    log = log_of(sealed(body, BLOCK_SIZE, TID))
    assert why(log) == ["unknown features 0x4"]
    assert scan_fast_commits(log).refusal.endswith("unknown features 0x4")


def test_a_tail_of_another_transaction_under_a_head_was_given_up() -> None:
    log = log_of(sealed(head(TID) + NEW, BLOCK_SIZE, 9))
    assert why(log) == [TORN]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (tag(77, b"1234"), "unknown or invalid tag 0x4D"),
        (tag(1, b"1234"), "unknown or invalid tag ADD_RANGE"),
        (struct.pack("<HH", 6, 2000), "unknown or invalid tag INODE"),
        (bytes(4), TORN),
    ],
)
def test_what_is_no_tag_ends_a_fast_commit(bad: bytes, reason: str) -> None:
    log = log_of(one(NEW), (NEW + bad).ljust(BLOCK_SIZE, b"\0"))
    assert why(log) == ["", reason]


def test_an_unknown_tag_in_the_next_block_is_not_of_a_fast_commit_without_an_end() -> None:
    whole = NEW + tag(PAD, bytes(BLOCK_SIZE - len(NEW) - 4))
    log = log_of(one(NEW), whole, tag(77, b"12").ljust(BLOCK_SIZE, b"\0"))
    assert why(log) == ["", TORN]


def test_an_area_can_be_full_to_its_last_block() -> None:
    whole = NEW + tag(PAD, bytes(BLOCK_SIZE - len(NEW) - 4))
    log = log_of(one(NEW), *[more(NEW)] * (AREA - 3), whole)
    assert why(log) == [""] * (AREA - 2) + [TORN]


def test_an_unknown_tag_right_behind_the_last_one_is_a_note() -> None:
    log = log_of(one(NEW), tag(77, b"12").ljust(BLOCK_SIZE, b"\0"))
    assert why(log) == [""]
    assert told(log) == [(Severity.NOTE, "unknown tag 0x4D after the last one; they end there")]
    assert told(log_of(one(NEW), bytes(BLOCK_SIZE))) == []
    far = log_of(one(NEW), bytes(BLOCK_SIZE), tag(77, b"12").ljust(BLOCK_SIZE, b"\0"))
    assert told(far) == []


def test_without_a_recovery_none_is_due() -> None:
    log = log_of(one(NEW), more(NEW), start=0)
    found = scan_fast_commits(log)
    assert (found.expected_tid, found.to_replay, found.newest_tid) == (NONE, (), TID)
    assert {each.reason for each in found.commits} == {"no recovery is due"}
    assert told(log) == []


def test_a_first_block_that_is_no_fast_commit_hides_none_behind_it() -> None:
    log = log_of(b"\xff" * BLOCK_SIZE, one(NEW))
    found = scan_fast_commits(log)
    assert [each.position for each in found.commits] == [FIRST + 1]
    assert found.commit.tolist()[0] == NONE
    assert found.newest_tid == NONE


def test_the_transaction_that_follows_the_last_id_is_0() -> None:
    log = log_of(one(NEW, tid=0), last=0xFFFFFFFF)
    assert scan_fast_commits(log).expected_tid == 0
    assert len(scan_fast_commits(log).to_replay) == 1


@pytest.mark.heavy
def test_areas_are_read_alike_in_pieces_of_any_size() -> None:
    long = inode(12, raw_inode().ljust(600, b"i"))
    blocks = one(NEW, long, long), more(NEW), spoiled(more(NEW, long), 6)
    whole = scan_fast_commits(log_of(*blocks))
    for size in (1, 2, 3):
        log = log_of(*blocks)
        log.reader.chunk = size
        found = scan_fast_commits(log)
        assert found.commits == whole.commits
        assert found.tags.row.tolist() == whole.tags.row.tolist()
        assert found.tags.offset.tolist() == whole.tags.offset.tolist()
    assert len(whole.to_replay) == 2


def test_ranges_that_files_get_are_given_with_number_and_generation() -> None:
    log = log_of(
        one(inode(12, raw_inode(generation=77)), add_range(12, 5, 3, 900), del_range(12, 1, 1)),
        more(add_range(13, 0, 1, 950, unwritten=True)),
        more(add_range(12, 9, 1, 990)),
    )
    columns = [column.tolist() for column in added_ranges(log)]
    assert columns == [[900, 950, 990], [3, 1, 1], [12, 13, 12], [77, NONE, NONE]]
    nothing = [column.tolist() for column in added_ranges(log_of())]
    assert nothing == [[], [], [], []]


def test_runs_of_equal_values() -> None:
    values = np.array([4, 4, 4, 7, 9, 9])
    assert list(scan._runs(values)) == [(0, 3, 4), (3, 4, 7), (4, 6, 9)]
    assert list(scan._runs(np.array([5]))) == [(0, 1, 5)]


def test_blocks_of_the_log_are_where_they_are_read() -> None:
    log = log_of(one(NEW))
    assert int(log.reader.log_blocks[FIRST]) == LOG_START + FIRST
