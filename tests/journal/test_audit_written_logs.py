"""What the audit says of single damages, on logs written by hand whose bytes are known."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ext4kit.audit import Audit, AuditFinding, AuditFindings, Part, VerdictCounts, audit_log
from ext4kit.audit.bit_repair import NOWHERE
from ext4kit.audit.result import VERDICTS
from ext4kit.audit.survey import Fault, _plausible, survey
from ext4kit.journal import Log
from ext4kit.problems import Severity
from tests.journal.log_writer import BLOCK_SIZE, LOG_START, MAGIC, LogWriter, MemoryBlocks

BOTH = pytest.mark.parametrize("checksums", [True, False])
DESCRIPTOR, COMMIT, REVOKE, COPY = "descriptor", "commit", "revoke", "copy"
PARTS = (Part.DESCRIPTOR, Part.COMMIT, Part.REVOKE, Part.COPY)
TYPES = {DESCRIPTOR: 1, COMMIT: 2, REVOKE: 5}
# log block -> (kind, transaction) of the log that `written` makes
BLOCKS = {
    1: (DESCRIPTOR, 3), 2: (COPY, 3), 3: (COPY, 3), 4: (COMMIT, 3), 5: (REVOKE, 4),
    6: (DESCRIPTOR, 4), 7: (COPY, 4), 8: (COMMIT, 4), 9: (DESCRIPTOR, 5), 10: (COPY, 5),
    11: (COMMIT, 5),
}  # fmt: skip
TARGETS = {2: 40, 3: 41, 7: 42, 10: 43}
SOUND = [3, 3, 1, 4]  # blocks of each part


def written(length: int = 32, *, checksums: bool = True) -> LogWriter:
    writer = LogWriter(length, checksums=checksums)
    writer.transaction(3, (40, b"a"), (41, b"b"))
    writer.revoke(4, [50, 51])
    writer.transaction(4, (42, b"c"))
    writer.transaction(5, (43, b"d"))
    return writer


def audited(
    writer: LogWriter, limit: int = 1000, **of_log: int
) -> tuple[AuditFindings, VerdictCounts, Audit]:
    findings, tally = AuditFindings(limit), VerdictCounts()
    return (
        findings,
        tally,
        audit_log(writer.log(of_log.pop("sequence", 6), **of_log), findings, tally),
    )


def byte_of(finding: AuditFinding) -> int:
    assert finding.byte_offset is not None
    assert finding.fs_block is not None
    assert finding.fs_block == LOG_START + (finding.log_block or 0)
    return finding.byte_offset - finding.fs_block * BLOCK_SIZE


def counted(tally: VerdictCounts, verdict: int) -> list[int]:
    return [tally.of(part, VERDICTS[verdict]) for part in PARTS]


OK, BAD, UNCHECKED, OVERWRITTEN = range(4)


@BOTH
@pytest.mark.parametrize("start", [0, 1])
def test_a_sound_log_has_no_finding(checksums: bool, start: int) -> None:
    findings, tally, result = audited(
        written(checksums=checksums), start=start, sequence=3 if start else 6
    )
    assert (findings.kept, findings.counts, findings.wrong) == ([], {}, 0)
    assert counted(tally, OK if checksums else UNCHECKED) == SOUND
    assert result.is_sound
    assert result.gaps == ()
    verdicts = result.verdicts
    assert verdicts is not None
    assert len(verdicts) == 11
    assert sorted(verdicts.position.tolist()) == list(range(1, 12))
    by_position = dict(zip(verdicts.position.tolist(), verdicts.target.tolist(), strict=True))
    assert {place: by_position[place] for place in TARGETS} == TARGETS
    assert {by_position[place] for place in BLOCKS.keys() - TARGETS.keys()} == {-1}
    orders = dict(zip(verdicts.position.tolist(), verdicts.order.tolist(), strict=True))
    assert orders == {place: order for place, (_, order) in BLOCKS.items()}


def expected_code(kind: str, byte: int) -> str:
    if kind == COPY or byte >= 12:
        return f"{kind}-rest" if kind == COMMIT and byte >= 64 else f"{kind}-checksum"
    return f"{kind}-{('magic', 'type', 'sequence')[byte // 4]}"


FLIPS = [0, 1, 3, 4, 6, 7, 8, 10, 11, 12, 15, 16, 19, 20, 59, 63, 64, 500, 1019, 1020, 1023]


@pytest.mark.heavy
@pytest.mark.parametrize("place", BLOCKS)
@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_every_changed_bit_is_one_finding(place: int, mask: int) -> None:
    kind, transaction = BLOCKS[place]
    part = (DESCRIPTOR, COMMIT, REVOKE, COPY).index(kind)
    for byte in FLIPS:
        writer = written()
        before = int(writer.rows[LOG_START + place, byte])
        word = writer.rows[LOG_START + place, byte // 4 * 4 : byte // 4 * 4 + 4].tobytes()
        writer.rows[LOG_START + place, byte] ^= mask
        changed = writer.rows[LOG_START + place, byte // 4 * 4 : byte // 4 * 4 + 4].tobytes()
        findings, tally, result = audited(writer)
        (finding,) = findings.kept
        code = expected_code(kind, byte)
        assert (finding.code, finding.transaction, finding.log_block) == (code, transaction, place)
        assert byte_of(finding) == byte
        severity = Severity.WARNING if code == "commit-rest" else Severity.ERROR
        assert finding.severity is severity
        assert finding.target == TARGETS.get(place)
        number = int.from_bytes(changed, "big")
        told = (finding.read, finding.expected)
        if code.endswith("magic"):
            assert told == (f"0x{number:08X}", "magic 0xC03B3998")
        elif code.endswith("type"):
            assert told == (f"{number:,}", f"block type {TYPES[kind]}")
        elif code.endswith("sequence"):
            assert told == (f"{number:,}", f"transaction {int.from_bytes(word, 'big')}")
        else:
            assert told == (f"byte 0x{before ^ mask:02x}", f"byte 0x{before:02x}")
        assert counted(tally, BAD) == [int(number == part) for number in range(4)]
        assert not result.is_sound


@pytest.mark.parametrize("place", BLOCKS)
def test_larger_damage_is_named_by_its_checksums(place: int) -> None:
    kind, transaction = BLOCKS[place]
    writer = written()
    writer.rows[LOG_START + place, 40:48] ^= 0x5A
    findings, tally, _ = audited(writer)
    (finding,) = findings.kept
    assert (finding.code, finding.transaction) == (f"{kind}-checksum", transaction)
    assert byte_of(finding) == 0
    assert finding.read != finding.expected
    assert all(text.startswith("checksum 0x") for text in (finding.read, finding.expected))
    assert len(finding.read) == len("checksum 0x00000000")
    assert sum(counted(tally, BAD)) == 1


def test_the_stored_checksum_is_what_is_expected_of_a_block_and_of_a_copy() -> None:
    writer = written()
    (stored,) = struct.unpack_from(">I", writer.rows[LOG_START + 1].tobytes(), BLOCK_SIZE - 4)
    writer.rows[LOG_START + 1, 40:48] ^= 0x5A
    assert audited(writer)[0].kept[0].expected == f"checksum 0x{stored:08x}"
    writer = written()
    (stored,) = struct.unpack_from(">I", writer.rows[LOG_START + 1].tobytes(), 12 + 12)
    writer.rows[LOG_START + 2, 40:48] ^= 0x5A
    assert audited(writer)[0].kept[0].expected.endswith(f"{stored:08x}")


def place_of(writer: LogWriter, position: int) -> int:
    """Row of a log block in the survey."""
    row = survey(writer.log(6)).row_at(np.array([position, 0, 31]))
    assert row[1:].tolist() == [-1, -1]
    return int(row[0])


@pytest.mark.parametrize("place", [1, 4, 5, 6, 8])
def test_without_checksums_a_wrong_magic_is_found_near_it(place: int) -> None:
    kind, transaction = BLOCKS[place]
    for byte in range(4):
        for mask in (0x01, 0x80, 0x12):
            writer = written(checksums=False)
            writer.rows[LOG_START + place, byte] ^= mask
            (finding,) = audited(writer)[0].kept
            assert (finding.code, finding.transaction) == (f"{kind}-magic", transaction)
            assert byte_of(finding) == (byte if mask != 0x12 else 0)
            assert finding.log_block == place
            found = survey(writer.log(6)).take(np.array([place_of(writer, place)]))
            bit = (byte, mask) if mask != 0x12 else (NOWHERE, 0)
            assert (found.byte[0], found.mask[0]) == bit
            assert (found.order[0], found.fault[0]) == (transaction, Fault.MAGIC)


@pytest.mark.parametrize(("bits", "found"), [(0x0F, True), (0x1F, False)])
def test_a_magic_with_up_to_four_wrong_bits_is_near(bits: int, found: bool) -> None:
    writer = written(checksums=False)
    writer.rows[LOG_START + 4, 2] ^= bits
    codes = [finding.code for finding in audited(writer)[0].kept]
    assert ("commit-magic" in codes) is found


@pytest.mark.parametrize("far", [False, True])
def test_a_nearly_right_magic_counts_near_the_logs_ids_alone(far: bool) -> None:
    writer = written(checksums=False)
    body = struct.pack(">III", MAGIC ^ 1, 2, 100 if far else 7)
    writer.put(body, at=20)
    codes = [finding.code for finding in audited(writer)[0].kept]
    assert codes == ([] if far else ["commit-magic"])


@pytest.mark.parametrize("byte", [4, 7])
def test_without_checksums_an_unknown_type_is_all_that_is_known(byte: int) -> None:
    writer = written(checksums=False)
    writer.rows[LOG_START + 4, byte] ^= 4
    (finding,) = audited(writer)[0].kept
    assert (finding.code, finding.transaction, byte_of(finding)) == ("metadata-type", 3, 4)
    assert finding.expected == "block type 1, 2 or 5"


# --- what is gone ---------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("place", [4, 8])
def test_a_commit_block_that_is_gone_is_missed(place: int, checksums: bool) -> None:
    writer = written(checksums=checksums)
    writer.rows[LOG_START + place] = 0
    findings, tally, _ = audited(writer)
    (finding,) = findings.kept
    assert (finding.code, finding.log_block) == ("commit-missing", place)
    assert finding.transaction == BLOCKS[place][1]
    assert (finding.read, finding.expected) == ("zeros", "a commit block")
    assert counted(tally, BAD) == [0, 1, 0, 0]


@BOTH
@pytest.mark.parametrize("place", [6, 9])
def test_a_descriptor_that_is_gone_is_missed(place: int, checksums: bool) -> None:
    writer = written(checksums=checksums)
    writer.rows[LOG_START + place] = 0
    writer.rows[LOG_START + place, :12] = list(bytes(range(1, 13)))
    findings, tally, _ = audited(writer)
    (finding,) = findings.kept
    assert (finding.code, finding.log_block) == ("block-missing", place)
    assert finding.transaction == BLOCKS[place][1]
    assert finding.read == "a block that starts with 01020304 05060708 090a0b0c"
    assert finding.expected == "a descriptor, revoke or commit block"
    assert counted(tally, BAD) == [1, 0, 0, 0]


@BOTH
def test_a_revoke_block_that_is_gone_is_missed(checksums: bool) -> None:
    writer = written(checksums=checksums)
    writer.rows[LOG_START + 5] = 0
    (finding,) = audited(writer)[0].kept
    assert (finding.code, finding.transaction, finding.log_block) == ("block-missing", 4, 5)


@BOTH
def test_the_end_of_the_newest_transaction_is_not_missed(checksums: bool) -> None:
    writer = written(checksums=checksums)
    writer.rows[LOG_START + 11] = 0
    assert audited(writer)[0].kept == []


@pytest.mark.parametrize("content", ["zeros", "older", "noise"])
def test_a_copy_that_never_reached_the_disk(content: str) -> None:
    """Zeros or a block of an earlier lap in its place say so; other bytes are damage."""
    writer = LogWriter(16)
    writer.transaction(3, (40, b"old"), (41, b"old two"))
    writer.head = 1
    older = writer.rows[LOG_START + 2].copy()
    writer.transaction(9, (60, b"new"), (61, b"new two"))
    writer.rows[LOG_START + 2] = {"zeros": 0, "older": older, "noise": 0x77}[content]
    findings, tally, _ = audited(writer, sequence=10)
    codes = [finding.code for finding in findings.kept]
    if content == "zeros":
        assert codes == ["copy-not-written", "write-cache"]
        assert [finding.log_block for finding in findings.kept] == [2, 4]
        assert (findings.kept[0].read, findings.kept[0].expected) == (
            "an earlier block", "the tagged copy"
        )  # fmt: skip
    else:
        assert codes == ["copy-checksum"]
    assert findings.kept[0].target == 60
    assert counted(tally, BAD)[3] == 1
    assert all(finding.transaction == 9 for finding in findings.kept)


def test_checksums_are_told_with_all_their_digits() -> None:
    """One in sixteen begins with a zero."""
    lengths, first = set(), set()
    for value in range(1, 40):
        writer = written()
        writer.rows[LOG_START + 2, 40:48] ^= value
        writer.rows[LOG_START + 2, 48] ^= 0xFF - value
        (finding,) = audited(writer)[0].kept
        lengths.add(len(finding.read))
        first.add(finding.read[len("checksum 0x")])
    assert lengths == {len("checksum 0x00000000")}
    assert "0" in first


def test_copies_whose_places_hold_a_whole_older_transaction_were_not_written() -> None:
    """A write cache lost all but descriptor and commit block."""
    writer = LogWriter(16)
    writer.head = 2
    writer.transaction(3, (40, b"old"), (41, b"old two"))  # 2 to 5
    before = writer.rows[LOG_START + 2 : LOG_START + 6].copy()
    writer.head = 1
    writer.transaction(9, *((60 + number, b"new") for number in range(4)))  # 1 to 6
    writer.rows[LOG_START + 2 : LOG_START + 6] = before
    findings, tally, _ = audited(writer, sequence=10)
    assert [(each.code, each.log_block) for each in findings.kept] == [
        ("copy-not-written", 2), ("copy-not-written", 3), ("copy-not-written", 4),
        ("copy-not-written", 5), ("write-cache", 6),
    ]  # fmt: skip
    assert [each.target for each in findings.kept] == [60, 61, 62, 63, None]
    assert counted(tally, BAD) == [0, 0, 0, 4]


def test_a_copy_whose_place_holds_metadata_of_before_was_not_written() -> None:
    writer = LogWriter(16)
    writer.transaction(9, (60, b"new"), (61, b"new two"))
    writer.commit(3)
    writer.rows[LOG_START + 3] = writer.rows[LOG_START + 5]
    writer.rows[LOG_START + 5] = 0
    findings, _, _ = audited(writer, sequence=10)
    assert [finding.code for finding in findings.kept] == ["copy-not-written", "write-cache"]


def lap_over(checksums: bool, copies: int) -> LogWriter:
    """A lap that overwrites transaction 5 from the ring's start on; 5's commit block is at 4."""
    writer = LogWriter(16, checksums=checksums)
    writer.head = 13
    writer.transaction(5, *((40 + number, b"old") for number in range(5)))  # 13 to 15, 1 to 4
    writer.head = 1
    writer.transaction(9, *((60 + number, b"new") for number in range(copies)))
    return writer


@BOTH
def test_what_a_newer_lap_overwrote_is_no_finding(checksums: bool) -> None:
    findings, tally, _ = audited(lap_over(checksums, 1), sequence=10)  # 1 to 3
    assert findings.kept == []
    assert counted(tally, OVERWRITTEN) == [0, 0, 0, 3]
    assert counted(tally, OK if checksums else UNCHECKED) == [2, 2, 0, 3]


def test_copies_between_two_laps_are_not_called_bad() -> None:
    """The overwriting lap lost its descriptor: what lies behind its commit is not certain."""
    writer = lap_over(True, 2)  # 1 to 4
    writer.rows[LOG_START + 1] = 0x33
    findings, tally, _ = audited(writer, sequence=10)
    assert "copy-checksum" not in [finding.code for finding in findings.kept]
    assert counted(tally, BAD)[3] == 0


# --- what blocks say ------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "severity"), [(0, Severity.NOTE), (1, Severity.ERROR)])
@pytest.mark.parametrize(("block", "outside"), [(1031, False), (1032, True)])
def test_tags_of_blocks_outside_are_told(
    block: int, outside: bool, start: int, severity: Severity
) -> None:
    """The file system has 1,032 blocks; the last 32 are the log's."""
    writer = LogWriter(32)
    writer.transaction(3, (40, b"a"), (block, b"b"))
    findings = audited(writer, start=start, sequence=3)[0]
    (finding,) = findings.kept
    code = "tag-outside" if outside else "tag-own-log"
    assert (finding.code, finding.transaction, finding.log_block) == (code, 3, 1)
    assert finding.severity is (severity if outside else Severity.ERROR)
    assert finding.target == block
    assert finding.read == f"tag 1 names block {block:,}"
    assert finding.expected == "a block below 1,032 outside the journal"


def test_a_tag_of_the_logs_first_block_is_told_and_one_before_is_not() -> None:
    for block, codes in ((LOG_START, ["tag-own-log"]), (LOG_START - 1, []), (0, [])):
        writer = LogWriter(32)
        writer.transaction(3, (block, b"a"))
        assert [each.code for each in audited(writer)[0].kept] == codes


@BOTH
def test_an_escaped_copy_has_to_begin_with_zeros(checksums: bool) -> None:
    writer = LogWriter(32, checksums=checksums)
    writer.transaction(3, (40, MAGIC.to_bytes(4, "big") + b"data"), (41, b"\0\0\0\0zeros"))
    assert audited(writer)[0].kept == []
    if checksums:
        return
    writer.rows[LOG_START + 2, 2] = 7
    (finding,) = audited(writer)[0].kept
    assert (finding.code, finding.log_block, finding.target) == ("copy-escape", 2, 40)
    assert finding.expected == "four zero bytes"


@pytest.mark.parametrize(("start", "severity"), [(0, Severity.NOTE), (1, Severity.WARNING)])
def test_revokes_of_blocks_outside_are_told(start: int, severity: Severity) -> None:
    writer = LogWriter(32)
    writer.revoke(3, [1031, 1032, 0])
    writer.transaction(3, (40, b"a"))
    (finding,) = audited(writer, start=start, sequence=3)[0].kept
    assert (finding.code, finding.severity, finding.target) == (
        "revoke-outside", severity, 1032
    )  # fmt: skip
    assert (finding.log_block, finding.transaction) == (1, 3)


@pytest.mark.parametrize(("count", "over"), [(1020, False), (1024, True)])
def test_a_revoke_block_that_counts_too_far_is_told(count: int, over: bool) -> None:
    writer = LogWriter(32)
    body = struct.pack(">IIII", MAGIC, 5, 3, count)
    writer.put(writer._with_checksum(body, BLOCK_SIZE - 4))
    writer.transaction(3, (40, b"a"))
    codes = [finding.code for finding in audited(writer)[0].kept]
    assert ("revoke-overflow" in codes) is over


@BOTH
def test_ids_that_are_missing_are_gaps(checksums: bool) -> None:
    writer = LogWriter(32, checksums=checksums)
    for number in (3, 4, 6, 9):
        writer.transaction(number, (40, b"x"))
    findings, _, result = audited(writer, sequence=10)
    assert findings.kept == []
    assert [(gap.after, gap.before, gap.log_block) for gap in result.gaps] == [
        (4, 6, 7), (6, 9, 10)
    ]  # fmt: skip


def test_times_that_stand_still_or_are_unknown_are_no_finding() -> None:
    writer = LogWriter(32)
    for number, seconds in ((3, 50), (4, 50), (5, 51), (6, 49)):
        writer.descriptor(number, [(40, b"x")])
        writer.commit(number, seconds)
    (finding,) = audited(writer, sequence=7)[0].kept
    assert (finding.code, finding.transaction, finding.log_block) == ("commit-time", 6, 12)
    assert (finding.read, finding.expected) == ("49000000005 ns", "51000000005 ns or later")
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(("before", "after", "told"), [(5, 5, 0), (5, 4, 1), (5, 6, 0), (9, 2, 1)])
def test_a_nanosecond_is_enough_to_run_backwards(before: int, after: int, told: int) -> None:
    writer = LogWriter(32, checksums=False)
    for number, nanoseconds in ((3, before), (4, after)):
        writer.descriptor(number, [(40, b"x")])
        place = writer.commit(number, 50)
        writer.rows[LOG_START + place, 56:60] = (0, 0, 0, nanoseconds)
    assert len(audited(writer, sequence=5)[0].kept) == told


def test_findings_name_ids_of_32_bits() -> None:
    first = 0xFFFFFFFF
    writer = LogWriter(32)
    writer.transaction(first, (40, b"a"))
    writer.transaction(0, (41, b"b"))
    for place in (2, 5):
        writer.rows[LOG_START + place, 100] ^= 1
    kept = audited(writer, sequence=1)[0].kept
    assert [each.transaction for each in kept if each.code == "copy-checksum"] == [first, 0]


def test_without_a_sound_block_ids_around_the_next_one_are_plausible() -> None:
    """As many as the ring has blocks, here 31."""
    log = LogWriter(32).log(100)
    assert _plausible(log, np.zeros(0, np.int64)) == (69, 131)
    assert _plausible(log, np.array([7, 5, 9])) == (3, 11)


# --- of another format ----------------------------------------------------------------------


def test_transactions_without_checksums_in_a_log_that_has_them_are_not_judged() -> None:
    """They were written before the feature was set."""
    writer = LogWriter(32, checksums=False)
    writer.transaction(3, (40, b"a"))
    writer.transaction(4, (41, b"b"))
    writer.checksums = True
    writer.transaction(7, (42, b"c"))
    findings, tally, _ = audited(writer, sequence=8)
    assert findings.kept == []
    assert counted(tally, UNCHECKED)[:2] == [2, 2]
    assert counted(tally, OK) == [1, 1, 0, 1]


def test_transactions_with_checksums_in_a_log_that_has_none_are_not_judged() -> None:
    writer = LogWriter(32)
    writer.transaction(3, (40, b"a"))
    writer.transaction(4, (41, b"b"))
    writer.checksums = False
    writer.transaction(7, (42, b"c"))
    findings, _, _ = audited(writer, sequence=8)
    assert findings.kept == []


def test_blocks_of_another_logs_uuid_are_not_judged() -> None:
    writer = LogWriter(48)
    seed, writer.seed = writer.seed, 0x1357_9BDF
    writer.transaction(3, (40, b"a"))
    writer.transaction(4, (41, b"b"))
    writer.seed = seed
    writer.transaction(9, (42, b"c"))
    log = writer.log(10)
    found = survey(log)
    assert found.fault.tolist() == [Fault.STRANGER] * 4 + [Fault.NONE] * 2
    assert audited(writer, sequence=10)[0].kept == []


# --- many of them ---------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_what_does_not_fit_is_counted(limit: int, kept: int) -> None:
    writer = written()
    for place in TARGETS:
        writer.rows[LOG_START + place, 100] ^= 1
    findings, tally, _ = audited(writer, limit)
    assert len(findings.kept) == kept
    assert findings.counts == {"copy-checksum": 4}
    assert findings.wrong == 4
    assert findings.room == limit - kept
    assert counted(tally, BAD)[3] == 4


def test_metadata_that_does_not_fit_is_counted_under_one_code() -> None:
    writer = written()
    for place in (1, 4, 5):
        writer.rows[LOG_START + place, 30] ^= 1
    findings, _, _ = audited(writer, 1)
    assert [finding.code for finding in findings.kept] == ["descriptor-checksum"]
    assert findings.counts == {"descriptor-checksum": 1, "metadata": 2}


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_findings_do_not_depend_on_the_size_of_a_chunk(chunk: int) -> None:
    writer = written()
    damaged = [place for place, (kind, _) in BLOCKS.items() if kind != DESCRIPTOR]
    for place in damaged:
        writer.rows[LOG_START + place, 200 + place] ^= 2
    whole = audited(writer)[0].kept
    assert sorted(finding.log_block or 0 for finding in whole) == damaged
    log = writer.log(6)
    log.reader.chunk = chunk
    findings = AuditFindings()
    audit_log(log, findings, VerdictCounts())
    assert findings.kept == whole


def test_blocks_that_cannot_be_read_are_no_damage() -> None:
    writer = written()
    writer.log(6)
    blocks = MemoryBlocks(writer.rows)
    blocks.broken = {LOG_START + 2, LOG_START + 8}
    findings = AuditFindings()
    audit_log(Log(blocks, writer.log_blocks), findings, VerdictCounts())
    assert findings.kept == []
