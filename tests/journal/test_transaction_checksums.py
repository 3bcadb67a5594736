"""Checksum v1: one over each transaction's descriptors and copies, in its commit block.

It is the kernel's crc32_be, from all ones; reckoned here bit by bit.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ext4kit.audit import AuditFindings, Part, Verdict, VerdictCounts, audit_log
from ext4kit.journal import Log, replay
from ext4kit.journal.transactions import TransactionState
from tests.journal.log_writer import LOG_START, MAGIC, LogWriter, MemoryBlocks

CRC32, BYTES = 1, 4  # h_chksum_type, h_chksum_size


def crc32_be(register: int, data: bytes) -> int:
    for byte in data:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1 ^ (0x04C11DB7 if register >> 31 else 0)) & 0xFFFFFFFF
    return register


class Writer(LogWriter):
    """A log with checksum v1; `parts` are the blocks of the transaction being written."""

    def __init__(self, length: int = 32) -> None:
        super().__init__(length, checksums=False)
        self.stamp: tuple[int, int] = (CRC32, BYTES)
        self.value: int | None = None

    def whole(self, sequence: int, *copies: tuple[int, bytes], descriptors: int = 1) -> None:
        """A transaction with so many descriptors of the same copies, and its commit block."""
        register = 0xFFFFFFFF
        for _ in range(descriptors):
            first = self.head
            self.descriptor(sequence, copies)
            for number in range(len(copies) + 1):
                place = first + number
                place = place if place < self.end else place - self.end + 1
                register = crc32_be(register, self.rows[LOG_START + place].tobytes())
        value = register if self.value is None else self.value
        head = struct.pack(">IIIBBH", MAGIC, 2, sequence, *self.stamp, 0)
        body = (head + struct.pack(">I", value)).ljust(48, b"\0")
        self.put(body + struct.pack(">QI", sequence, 5))

    def opened(self, sequence: int, start: int = 0, incompat: int = 0) -> Log:
        """The log with the feature of the checksum."""
        self.log(sequence, start, incompat=incompat)
        self.rows[LOG_START, 0x24:0x28] = (0, 0, 0, 1)  # s_feature_compat
        return Log(MemoryBlocks(self.rows), self.log_blocks, needs_recovery=start != 0)


def three() -> Writer:
    """Transactions 3 (1 to 3), 4 (4 to 9, two descriptors) and 5 (10 to 12)."""
    writer = Writer()
    writer.whole(3, (40, b"a"))
    writer.whole(4, (41, b"b"), (42, b"c"), descriptors=2)
    writer.whole(5, (43, b"d"))
    return writer


def fits(log: Log) -> list[bool | None]:
    return [each.checksum_ok for each in log.transactions]


def test_the_reckoning_is_that_of_a_known_value() -> None:
    assert crc32_be(0xFFFFFFFF, b"123456789") == 0x0376E6E7  # CRC-32/MPEG-2's check value


def test_sound_transactions_fit() -> None:
    log = three().opened(6)
    assert log.features.checksum_version == 1
    assert fits(log) == [True, True, True]
    assert all(each.committed for each in log.transactions)
    replayed = three().opened(3, start=1)
    assert replay(replayed).plan.blocks.tolist() == [40, 41, 42, 43]


def test_a_transaction_that_goes_round_the_ring_fits() -> None:
    writer = Writer(16)
    writer.head = 14
    writer.whole(3, (40, b"a"), (41, b"b"), (42, b"c"))
    assert fits(writer.opened(4)) == [True]
    assert replay(writer.opened(3, start=14)).plan.blocks.tolist() == [40, 41, 42]


@pytest.mark.parametrize("place", [4, 5, 6, 7, 8, 9])
def test_a_changed_block_breaks_its_transaction_alone(place: int) -> None:
    writer = three()
    writer.rows[LOG_START + place, 500] ^= 1
    log = writer.opened(6)
    assert fits(log) == [True, False, True]
    assert [each.committed for each in log.transactions] == [True, False, True]
    assert [each.state for each in log.transactions] == [
        TransactionState.CHECKPOINTED, TransactionState.TORN, TransactionState.CHECKPOINTED
    ]  # fmt: skip
    findings, tally = AuditFindings(), VerdictCounts()
    audit_log(log, findings, tally)
    (finding,) = findings.kept
    assert (finding.code, finding.transaction, finding.log_block) == ("transaction-checksum", 4, 10)
    counts = [tally.of(Part.TRANSACTION, verdict) for verdict in Verdict]
    assert counts == [2, 1, 0, 0]


def test_a_recovery_ends_before_it() -> None:
    writer = three()
    writer.rows[LOG_START + 5, 500] ^= 1
    log = writer.opened(3, start=1)
    assert (log.walk.end_order, log.walk.bad_commit) == (4, 4)
    assert log.walk.end_reason == "bad checksum in a commit block"
    assert replay(log).plan.blocks.tolist() == [40]


@pytest.mark.parametrize(
    ("stamp", "value", "good", "reason"),
    [
        ((0, 0), 0, None, ""),
        ((0, 0), 77, False, "bad checksum in a commit block"),
        ((CRC32, 3), None, False, "bad checksum in a commit block"),
        ((0, BYTES), None, False, "bad checksum in a commit block"),
        ((5, 5), 5, False,
         "a commit block's checksum is of type 5 (unknown), which cannot be verified"),
        ((2, 16), None, False,
         "a commit block's checksum is of type 2 (md5), which cannot be verified"),
        ((3, 20), None, False,
         "a commit block's checksum is of type 3 (sha1), which cannot be verified"),
        ((4, 4), None, False,
         "a commit block's checksum is of type 4 (crc32c), which cannot be verified"),
        ((9, 4), None, False,
         "a commit block's checksum is of type 9 (unknown), which cannot be verified"),
    ],
)  # fmt: skip
def test_what_the_commit_block_says_of_its_checksum_decides(
    stamp: tuple[int, int], value: int | None, good: bool | None, reason: str
) -> None:
    """All zeros: none was written."""
    writer = Writer()
    writer.whole(3, (40, b"a"))
    writer.stamp, writer.value = stamp, value
    writer.whole(4, (41, b"b"))
    log = writer.opened(3, start=1)
    assert fits(log) == [True, good]
    assert len(replay(log).plan) == (1 if reason else 2)
    if reason:
        assert log.walk.end_reason == reason


def test_a_transaction_of_which_the_start_is_gone_cannot_be_checked() -> None:
    """A newer lap took its descriptor: that its checksum fails says nothing."""
    writer: Any = Writer(16)
    writer.head = 2
    writer.whole(3, (40, b"a"))  # 2 to 4
    writer.whole(4, (41, b"b"))  # 5 to 7
    writer.head = 1
    writer.whole(9, (50, b"x"), (51, b"y"))  # 1 to 4
    assert fits(writer.opened(10)) == [True, True]
    writer.rows[LOG_START + 6, 500] ^= 1
    assert fits(writer.opened(10)) == [None, True]
    whole = Writer(16)
    whole.whole(3, (40, b"a"))
    whole.whole(4, (41, b"b"))
    whole.rows[LOG_START + 5, 500] ^= 1
    assert fits(whole.opened(10)) == [True, False]
