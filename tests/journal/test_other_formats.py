"""Logs that were written in another format before, and laps over them: the audit's silence."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.audit import Audit, AuditFindings, VerdictCounts, audit_log
from ext4kit.audit.claims import NOBODY, claims, find_breaks, plausible_tags
from ext4kit.audit.survey import Fault, Survey, survey
from tests.journal.log_writer import LOG_START, LogWriter


def audited(writer: LogWriter, sequence: int) -> tuple[AuditFindings, Audit]:
    findings = AuditFindings()
    return findings, audit_log(writer.log(sequence), findings, VerdictCounts())


@pytest.mark.parametrize("count", [2, 3])
def test_checksums_of_another_seed_count_when_three_share_it(count: int) -> None:
    """In a log without checksums they show who wrote the blocks."""
    writer = LogWriter(48)
    writer.seed = 0x1234_5678
    writer.transaction(3, (40, b"a"))
    if count == 3:
        writer.revoke(4, [50])
    writer.checksums = False
    writer.transaction(9, (42, b"c"))
    found = survey(writer.log(10))
    strangers = int(np.count_nonzero(found.fault == Fault.STRANGER))
    assert strangers == (3 if count == 3 else 0)


def test_checksums_of_the_logs_own_seed_are_verified() -> None:
    writer = LogWriter(48)
    writer.transaction(3, (40, b"a"))
    writer.checksums = False
    writer.transaction(9, (42, b"c"))
    found = survey(writer.log(10))
    assert (found.fault == Fault.NONE).all()
    assert found.has_checksum.tolist() == [True, True, False, False]
    assert found.tags.tolist() == [1, 0, 1, 0]


def test_rows_are_found_by_position_and_orders_by_commits() -> None:
    writer = LogWriter(32)
    writer.transaction(3, (40, b"a"))
    writer.descriptor(4, [(41, b"b")])
    found = survey(writer.log(5))
    assert found.row_at(np.array([1, 3, 4, 2, 0, 31])).tolist() == [0, 1, 2, -1, -1, -1]
    assert found.committed_orders.tolist() == [3]
    assert len(found) == 3
    part = found.take(np.array([2, 0]))
    assert (part.position.tolist(), part.order.tolist()) == ([4, 1], [4, 3])
    empty = survey(LogWriter(32).log(5))
    assert empty.row_at(np.array([1, 2])).tolist() == [-1, -1]
    assert isinstance(empty, Survey)


# --- claims ---------------------------------------------------------------------------------


def test_the_newest_claim_on_every_block() -> None:
    writer = LogWriter(16)
    writer.head = 13
    writer.transaction(5, *((40 + number, b"old") for number in range(5)))  # 13 to 15, 1 to 4
    writer.head = 1
    writer.transaction(9, (60, b"new"))  # 1 to 3
    log = writer.log(10)
    found = survey(log)
    claimed = claims(log, found)
    newest = claimed.newest.tolist()
    assert newest[13:16] == [5, 5, 5]
    assert newest[1:5] == [9, 9, 9, 5]
    assert set(newest[5:13]) == {NOBODY}
    assert not claimed.taken.any()
    assert plausible_tags(log, found).all()


def test_a_damaged_block_takes_its_place_and_its_tags_are_not_believed() -> None:
    writer = LogWriter(16)
    writer.transaction(3, (40, b"a"), (41, b"b"))  # 1 to 4
    writer.transaction(4, (42, b"c"))  # 5 to 7
    writer.rows[LOG_START + 1, 900] ^= 1
    log = writer.log(5)
    found = survey(log)
    claimed = claims(log, found)
    assert np.flatnonzero(claimed.taken).tolist() == [1]
    assert plausible_tags(log, found).tolist() == [False, False, True]
    # its tags are not known: all up to the next block of metadata is its own
    assert claimed.newest[1:8].tolist() == [3, 3, 3, 3, 4, 4, 4]


def test_breaks_are_where_a_block_of_metadata_has_to_be() -> None:
    writer = LogWriter(32)
    for number in (3, 4, 5):
        writer.transaction(number, (40, b"a"), (41, b"b"))  # 1 to 4, 5 to 8, 9 to 12
    log = writer.log(6)
    none = find_breaks(log, survey(log))
    assert (none.position.tolist(), none.order.tolist(), none.commit.tolist()) == ([], [], [])
    for place, order, commit in ((4, 3, True), (8, 4, True), (5, 4, False), (9, 5, False)):
        before = writer.rows[LOG_START + place].copy()
        writer.rows[LOG_START + place] = 0
        log = writer.log(6)
        found = find_breaks(log, survey(log))
        assert (found.position.tolist(), found.order.tolist()) == ([place], [order])
        assert found.commit.tolist() == [commit]
        writer.rows[LOG_START + place] = before


def test_where_less_than_two_blocks_of_metadata_are_left_there_is_no_break() -> None:
    writer = LogWriter(32)
    writer.descriptor(3, [(40, b"a")])
    for log in (writer.log(4), LogWriter(32).log(4)):
        assert len(find_breaks(log, survey(log)).position) == 0


@pytest.mark.parametrize("hurt", [(2,), (3,), (2, 3)])
def test_lost_copies_in_front_of_sound_ones_are_damage_alone_and_undecided_together(
    hurt: tuple[int, ...],
) -> None:
    """Transaction 5 has copies at 14, 15 and 1 to 4; 9 overwrote 1, and lost its descriptor."""
    writer = LogWriter(16)
    writer.head = 13
    writer.transaction(5, *((40 + number, b"old") for number in range(6)))  # 13 to 15, 1 to 5
    writer.rows[LOG_START + 1] = 0
    writer.head = 1
    writer.commit(9)
    for place in hurt:
        writer.rows[LOG_START + place] = 0x5A
    findings, result = audited(writer, 10)
    assert result.verdicts is not None
    lost = [each.log_block for each in findings.kept if each.code.startswith("copy")]
    verdicts = dict(
        zip(result.verdicts.position.tolist(), result.verdicts.verdict.tolist(), strict=True)
    )
    assert lost == (list(hurt) if len(hurt) == 1 else [])
    assert [verdicts[place] for place in hurt] == ([1] if len(hurt) == 1 else [2, 2])
