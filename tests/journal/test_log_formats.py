"""Logs with blocks of several formats: each block is read and judged in its own."""

from __future__ import annotations

import itertools
import random
import struct

import numpy as np
import pytest

from ext4kit.audit import Audit, AuditFindings, VerdictCounts, audit_log
from ext4kit.journal import Log
from ext4kit.problems import Severity
from tests.journal.log_writer import BLOCK_SIZE, LOG_START, MAGIC, UUID, LogWriter

# (version of the tags, block numbers of 64 bits, checksums)
NOW = tuple((version, wide, version > 0) for version in (3, 2, 0) for wide in (False, True))
THEN = (*NOW, (0, False, True), (0, True, True))
PAIRS = [pair for pair in itertools.product(THEN, NOW) if pair[0] != pair[1]]
COUNTS = 3 * (1, 2, 3, 4, 5, 9, 40)  # copies of each transaction
LARGEST = (50, 900, 70_000, 1 << 22, 1 << 31)  # block number, mostly outside this file system
OF_NUMBERS = {"tag-outside", "revoke-outside"}  # findings about such numbers
Format = tuple[int, bool, bool]
Written = list[tuple[int, int, int]]  # (tid, home block, log block) of each copy


def set_format(writer: LogWriter, chosen: Format) -> None:
    writer.tag_version, writer.wide, writer.checksums = chosen


def name_of(one: Format) -> str:
    version, wide, checksums = one
    return f"v{version}{'w' if wide else 'n'}{'c' if checksums else ''}"


def write_some(writer: LogWriter, first: int, chance: random.Random) -> tuple[Written, set[int]]:
    """Transactions of 1 to 9 copies, some with a revoke block; (their copies, revoked blocks)."""
    written: Written = []
    revoked: set[int] = set()
    for sequence, count in enumerate(COUNTS, first):
        numbers = chance.sample(range(1, chance.choice(LARGEST)), count + 3)
        blocks = [number + writer.length * (number >= LOG_START) for number in numbers]
        writer.tag_uuid = chance.choice([UUID, bytes(16)])
        gone, blocks = sorted(blocks[: chance.randint(0, 3)]), blocks[3:]
        if gone:
            writer.revoke(sequence, gone)
            revoked.update(gone)
        place = writer.transaction(
            sequence, *((block, chance.randbytes(BLOCK_SIZE - 4)) for block in blocks)
        )
        written += [(sequence, block, place + 1 + n) for n, block in enumerate(blocks)]
    return written, revoked


def told(log: Log) -> Written:
    """The valid copies of a log."""
    tags = log.tags.take(log.tags.valid)
    columns = (tags.order, tags.block, tags.position)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def audited(log: Log) -> tuple[AuditFindings, Audit]:
    findings = AuditFindings()
    return findings, audit_log(log, findings, VerdictCounts())


@pytest.mark.parametrize(
    ("then", "now"), PAIRS, ids=[f"{name_of(then)}-{name_of(now)}" for then, now in PAIRS]
)
def test_every_block_is_read_in_the_format_of_its_time(then: Format, now: Format) -> None:
    writer, chance = LogWriter(1024), random.Random(f"{then}{now}")
    set_format(writer, then)
    older, revoked = write_some(writer, 3, chance)
    set_format(writer, now)
    newer, revoked_now = write_some(writer, 50, chance)
    log = writer.log(90)
    assert told(log) == sorted(older + newer)
    assert set(log.revokes.block.tolist()) == revoked | revoked_now
    assert log.tags.committed.all()
    verdicts = {each.id: each.checksum_ok for each in log.transactions}
    had = {3: then[2], 50: now[2]}
    assert verdicts == {
        first + n: True if had[first] else None for first in (3, 50) for n in range(len(COUNTS))
    }
    findings, result = audited(log)
    assert {one.code for one in findings.kept} <= OF_NUMBERS
    assert result.is_sound


def test_a_number_that_looks_like_the_last_tag_in_another_format_is_none() -> None:
    """Read as 32-bit tags, the 10 of the second tag is in the place of the flags of a last one."""
    writer = LogWriter(32)
    set_format(writer, (0, True, False))
    writer.tag_uuid = bytes(16)
    writer.transaction(3, (40, b"a"), (10, b"b"), (41, b"c"))
    writer.wide = False
    assert told(writer.log(4)) == [(3, 10, 3), (3, 40, 2), (3, 41, 4)]


def test_a_flag_that_looks_like_the_high_half_of_a_number_is_none() -> None:
    """Read as 64-bit tags, 40, 0 and 10 are a tag of 40 and a last one far beyond any block."""
    writer = LogWriter(32, checksums=False)
    writer.tag_uuid = bytes(16)
    writer.transaction(3, (40, b"a"), (0, b"b"), (10, b"c"))
    writer.wide = True
    assert told(writer.log(4)) == [(3, 0, 3), (3, 10, 4), (3, 40, 2)]


@pytest.mark.parametrize("now", NOW, ids=name_of)
def test_a_block_that_a_recovery_reads_has_the_present_format(now: Format) -> None:
    """What it cannot be in that format is damage, because the kernel takes it for damage."""
    then = (0, now[1], False) if now[2] else (3, now[1], True)
    writer, chance = LogWriter(512), random.Random(f"{now}")
    set_format(writer, then)
    written, _ = write_some(writer, 3, chance)
    set_format(writer, now)
    log = writer.log(3, start=1)
    assert told(log) != sorted(written)
    assert told(writer.log(90)) == sorted(written)


@pytest.mark.parametrize("now", [one for one in NOW if one != (3, False, True)], ids=name_of)
def test_a_changed_bit_of_an_older_block_with_a_checksum_is_found(now: Format) -> None:
    writer, chance = LogWriter(1024), random.Random(f"{now}")
    set_format(writer, (3, False, True))
    written, _ = write_some(writer, 3, chance)
    end = writer.head
    set_format(writer, now)
    write_some(writer, 50, chance)
    of_block = {place: sequence for sequence, _, place in written}
    for place in chance.sample(range(1, end), 100):
        head = writer.rows[LOG_START + place, :12].tobytes()
        magic, _, sequence = struct.unpack(">III", head)
        sequence = sequence if magic == MAGIC else of_block[place]
        first = 12 if magic == MAGIC else 0  # a changed header is another matter
        byte, bit = chance.randrange(first, BLOCK_SIZE), 1 << chance.randrange(8)
        writer.rows[LOG_START + place, byte] ^= bit
        findings, result = audited(writer.log(90))
        writer.rows[LOG_START + place, byte] ^= bit
        assert not result.is_sound, (place, byte, bit)
        wrong = [one for one in findings.kept if one.severity is not Severity.NOTE]
        assert {one.transaction for one in wrong} == {sequence}, (place, byte, bit)
        assert place in {one.log_block for one in wrong}, (place, byte, bit)


def test_checksums_that_a_recovery_does_not_check_do_not_end_it() -> None:
    """The features were cleared while the kernel wrote these; it may be without them now."""
    writer = LogWriter(64)
    set_format(writer, (0, False, True))
    writer.transaction(3, (40, b"a"))
    place = writer.transaction(4, (41, b"b"))
    writer.rows[LOG_START + place, 15] ^= 1  # the block number of its tag
    writer.checksums = False
    log = writer.log(3, start=1)
    assert (log.walk.end_order, log.walk.refusal) == (5, "")
    assert log.tags.block.tolist() == [40, 40]


@pytest.mark.parametrize("uuid", [bytes(16), UUID])
def test_a_descriptor_that_lost_its_checksum_is_damaged(uuid: bytes) -> None:
    """With zeros for its tail it looks like one that was written without checksums."""
    writer = LogWriter(64)
    writer.transaction(3, (40, b"a"))
    writer.transaction(4, (41, b"b"))
    place = LOG_START + writer.transaction(5, (42, b"c"))
    row = writer.rows[place]
    row[28:44] = np.frombuffer(uuid, np.uint8)
    row[BLOCK_SIZE - 4 :] = 0
    findings, _ = audited(writer.log(6))
    assert [one.transaction for one in findings.kept if one.severity is Severity.ERROR] == [5]
    assert [one.checksum_ok for one in writer.log(6).transactions] == [True, True, False]


def test_all_blocks_of_a_transaction_have_checksums_or_none_has() -> None:
    """The log has none now; a commit block with one proves that both descriptors had one."""
    writer = LogWriter(64)
    places = [writer.descriptor(3, [(40 + number, b"a")]) for number in range(2)]
    writer.commit(3)
    writer.checksums = False
    writer.transaction(4, (50, b"b"))
    for place in places:
        writer.rows[LOG_START + place, 15] ^= 1  # the block number of its tag
    log = writer.log(5)
    assert told(log) == [(4, 50, 7)]
    findings, _ = audited(log)
    assert {one.log_block for one in findings.kept if one.severity is Severity.ERROR} == {*places}


def test_a_commit_block_of_an_older_log_does_not_harm_a_transaction_with_its_id() -> None:
    """A file system made over another left the end of its log; ids began again."""
    writer = LogWriter(64)
    writer.transaction(2, (40, b"a"))
    writer.transaction(3, (41, b"b"), (42, b"c"))
    writer.checksums = False
    writer.commit(3, 1)
    writer.descriptor(4, [(43, b"d")])
    writer.checksums = True
    log = writer.log(4)
    findings, result = audited(log)
    assert result.is_sound, findings.kept
    assert told(log) == [(2, 40, 2), (3, 41, 5), (3, 42, 6)]
    assert [one.checksum_ok for one in log.transactions][:2] == [True, True]


def test_a_commit_block_alone_is_no_transaction_without_checksums() -> None:
    writer = LogWriter(64)
    writer.transaction(2, (40, b"a"))
    writer.head = 20
    writer.checksums = False
    writer.commit(3, 1)
    writer.checksums = True
    findings, result = audited(writer.log(5))
    assert result.is_sound, findings.kept
    assert [one.committed for one in writer.log(5).transactions] == [True, False]


def test_a_transaction_with_a_higher_id_and_an_earlier_time_is_of_another_log() -> None:
    """An unmount leaves out ids, and a transaction of an older log may have one of them."""
    writer = LogWriter(64)
    writer.transaction(2, (40, b"a"))
    writer.checksums = False
    writer.descriptor(3, [(41, b"b")])
    writer.commit(3, 1)
    writer.checksums = True
    findings, result = audited(writer.log(5))
    assert result.is_sound, findings.kept
    assert told(writer.log(5)) == [(2, 40, 2)]


def test_blocks_without_checksums_that_a_recovery_would_expect_are_not_read() -> None:
    """Nothing before a change of the features has an id that is still to come."""
    writer = LogWriter(64)
    writer.transaction(2, (40, b"a"))
    writer.checksums = False
    writer.transaction(7, (41, b"b"))
    writer.checksums = True
    assert told(writer.log(3)) == [(2, 40, 2)]


def test_copies_without_checksums_are_lost_from_where_a_newer_transaction_begins() -> None:
    """What is there now is not the older copy, even if it is not the newer one either."""
    writer = LogWriter(64, checksums=False)
    writer.transaction(3, *((40 + number, b"old %d" % number) for number in range(6)))  # 1 to 8
    writer.checksums = True
    writer.head = 3
    writer.transaction(4, (50, b"new"), (51, b"newer"))  # 3 to 6
    assert told(writer.log(5)) == [(3, 40, 2), (4, 50, 4), (4, 51, 5)]
    writer.rows[LOG_START + 4] = 0x5A  # whatever was there
    assert told(writer.log(5)) == [(3, 40, 2), (4, 51, 5)]


def test_formats_of_an_earlier_uuid_are_read_where_nothing_has_checksums_now() -> None:
    writer, chance = LogWriter(1024), random.Random(5)
    writer.seed = 0x1234_5678
    written, _ = write_some(writer, 3, chance)
    writer.checksums = False
    newer, _ = write_some(writer, 50, chance)
    log = writer.log(90)
    assert told(log) == sorted(written + newer)
    assert {one.checksum_ok for one in log.transactions} == {None}
    findings, _ = audited(log)
    assert {one.code for one in findings.kept} <= OF_NUMBERS
