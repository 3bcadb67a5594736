"""Transactions that have the id of a newer one: ids that a tool set back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.journal.log_writer import BLOCK_SIZE, LOG_START, LogWriter

BOTH = pytest.mark.parametrize("checksums", [True, False])
EARLIER, LATER = 1_000, 2_000  # seconds since 1970


def written(writer: LogWriter, sequence: int, block: int, data: bytes, seconds: int) -> int:
    """A transaction with one copy, committed at that time; its log block."""
    place = writer.descriptor(sequence, [(block, data)])
    writer.commit(sequence, seconds)
    return place


def set_back(*, checksums: bool, newer_first: bool = True) -> LogWriter:
    """Ids 4 and 5 of later on, then 4, 5 and 6 of before; or the other way round."""
    writer = LogWriter(32, checksums=checksums)
    new = [(4, 40, b"new 4", LATER), (5, 41, b"new 5", LATER + 1)]
    old = [(at, 38 + at, b"old %d" % at, EARLIER + at) for at in (4, 5, 6)]
    for sequence, block, data, seconds in [*new, *old] if newer_first else [*old, *new]:
        written(writer, sequence, block, data, seconds)
    return writer


def copies_of(writer: LogWriter, sequence: int, start: int = 0) -> dict[int, list[tuple[int, str]]]:
    """Tid -> (block, text) of the copies that count."""
    log = writer.log(sequence, start)
    rows = np.flatnonzero(log.tags.valid & log.tags.committed)
    texts = log.read_copies(rows)
    found: dict[int, list[tuple[int, str]]] = {}
    for row, data in zip(rows.tolist(), texts, strict=True):
        text = data.tobytes().rstrip(b"\0").decode()
        found.setdefault(int(log.tags.order[row]), []).append((int(log.tags.block[row]), text))
    return found


@BOTH
@pytest.mark.parametrize("newer_first", [True, False])
def test_of_two_with_one_id_the_one_committed_later_counts(
    checksums: bool, newer_first: bool
) -> None:
    writer = set_back(checksums=checksums, newer_first=newer_first)
    copies = copies_of(writer, 6)
    assert copies == {4: [(40, "new 4")], 5: [(41, "new 5")], 6: [(44, "old 6")]}
    known = writer.log(6).transactions
    assert [one.commit_time_ns for one in known] == [
        LATER * 10**9 + 5, (LATER + 1) * 10**9 + 5, (EARLIER + 6) * 10**9 + 5,
    ]  # fmt: skip


@BOTH
def test_the_blocks_of_the_older_one_are_no_copies_of_any_and_their_contents_stay(
    checksums: bool,
) -> None:
    log = set_back(checksums=checksums).log(6)
    headers = [7, 9, 10, 12]  # of the older 4 and 5
    assert not set(headers) & {*log.headers.position.tolist(), *log.unclaimed.tolist()}
    assert {8, 11} <= set(log.unclaimed.tolist())
    assert [str(one) for one in log.problems if "older transactions with the ids of 2" in str(one)]


def test_a_newest_one_without_a_commit_takes_no_commit_of_an_older_one() -> None:
    """It was interrupted: its copies must not count as committed."""
    writer = LogWriter(32)
    written(writer, 4, 40, b"new 4", LATER)
    writer.descriptor(5, [(41, b"new 5")])
    written(writer, 3, 42, b"old 3", EARLIER)
    written(writer, 5, 43, b"old 5", EARLIER + 1)
    assert copies_of(writer, 4, start=1) == {3: [(42, "old 3")], 4: [(40, "new 4")]}
    assert writer.log(4, 1).walk.end_order == 5


def test_a_recovery_reads_the_newest_even_if_the_clock_went_back() -> None:
    writer = LogWriter(32)
    written(writer, 4, 40, b"new 4", EARLIER)
    written(writer, 5, 41, b"new 5", EARLIER + 1)
    written(writer, 4, 42, b"old 4", LATER)
    assert copies_of(writer, 4, start=1) == {4: [(40, "new 4")], 5: [(41, "new 5")]}


@BOTH
def test_one_that_goes_round_the_end_of_the_log_is_one(checksums: bool) -> None:
    writer = LogWriter(16, checksums=checksums)
    for sequence in range(3, 7):
        written(writer, sequence, 40 + sequence, b"%d" % sequence, sequence)
    writer.descriptor(7, [(50, b"a"), (51, b"b")])  # its second copy is in log block 15
    writer.descriptor(7, [(52, b"c")])
    writer.commit(7, 7)
    assert writer.head == 4
    assert copies_of(writer, 8)[7] == [(52, "c"), (50, "a"), (51, "b")]


def test_a_damaged_block_within_one_does_not_part_it() -> None:
    writer = LogWriter(32, checksums=False)
    writer.descriptor(4, [(40, b"a")])
    middle = writer.descriptor(4, [(41, b"b")])
    writer.descriptor(4, [(42, b"c")])
    writer.commit(4, LATER)
    writer.rows[LOG_START + middle, 11] = 9  # its id
    assert writer.rows.shape[1] == BLOCK_SIZE
    assert copies_of(writer, 5)[4] == [(40, "a"), (42, "c")]


def test_without_checksums_a_commit_alone_with_another_id_is_damage() -> None:
    writer = LogWriter(32, checksums=False)
    written(writer, 4, 40, b"a", LATER)
    writer.descriptor(5, [(41, b"b")])
    place = writer.commit(4, LATER + 1)
    assert place in writer.log(6).headers.position.tolist()
    assert copies_of(writer, 6)[4] == [(40, "a")]


def gone_round(checksums: bool) -> LogWriter:
    """Transactions 3 to 6; 7 begins at 13 and goes round: descriptors at 1 and 3, commit at 5."""
    writer = LogWriter(17, checksums=checksums)
    for sequence in range(3, 7):
        writer.transaction(sequence, (40 + sequence, b"x"))
    writer.descriptor(7, [(50, b"a"), (51, b"b"), (55, b"c")])
    writer.descriptor(7, [(52, b"d")])
    writer.descriptor(7, [(53, b"e")])
    writer.commit(7)
    assert writer.head == 6
    return writer


@BOTH
def test_a_restart_that_overwrote_the_middle_of_one_does_not_part_it(checksums: bool) -> None:
    """Kernels before 6.4 begin at the first block at each mount."""
    writer = gone_round(checksums)
    writer.head = 1
    writer.revoke(8, [99])
    writer.commit(8)
    blocks = {block for block, _ in copies_of(writer, 9)[7]}
    assert {50, 51, 55, 53} == blocks


def test_a_damaged_block_where_one_goes_round_does_not_part_it() -> None:
    """A recovery refuses the damage; it must not read on as if the rest were of another lap."""
    writer = gone_round(checksums=True)
    writer.rows[LOG_START + 1, 20] ^= 1
    walk = writer.log(6, start=10).walk
    assert walk.refusal == "bad checksum of the descriptor at log block 1"


def test_of_two_commits_in_one_second_the_later_one_counts() -> None:
    writer = LogWriter(32, checksums=False)
    for data, fraction in ((b"old", 5), (b"new", 9)):
        written(writer, 4, 40, data, LATER)
        writer.rows[LOG_START + writer.head - 1, 59] = fraction
    assert copies_of(writer, 6) == {4: [(40, "new")]}
