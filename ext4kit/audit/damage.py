"""Findings about blocks whose bytes changed after they were written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s
from ext4kit.audit import messages
from ext4kit.audit.bit_repair import NOWHERE, find_bit_repairs
from ext4kit.audit.claims import UNUSABLE, TransactionBreaks
from ext4kit.audit.result import (
    BAD,
    OK,
    UNCHECKED,
    AuditFinding,
    AuditFindings,
    Part,
    VerdictCounts,
)
from ext4kit.audit.survey import Fault, Survey
from ext4kit.journal.log import Log
from ext4kit.parsers.journal import BlockType, copies_checksums, copy_seeds
from ext4kit.problems import Severity
from ext4kit.units import TransactionId

PARTS_OF_KINDS = {
    BlockType.DESCRIPTOR: Part.DESCRIPTOR,
    BlockType.COMMIT: Part.COMMIT,
    BlockType.REVOKE: Part.REVOKE,
}
HEADER_FAULTS = (Fault.MAGIC, Fault.TYPE, Fault.SEQUENCE)
Words = str | Callable[[int], str]  # one text for all rows, or a text per row


class FindingBuilder:
    """Builds findings, with log blocks converted to offsets in the image.

    Args:
        log: the log that the findings are about.
        findings: collects the findings.
    """

    def __init__(self, log: Log, findings: AuditFindings) -> None:
        self.log = log
        self.findings = findings

    def add(
        self, code: str, order: int, position: int, *, meaning: str, byte: int = NOWHERE,
        target: int | None = None, read: str = "", expected: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:  # fmt: skip
        """Add one finding about a log block; `byte` is an offset in it."""
        block = int(self.log.reader.log_blocks[position])
        offset = block * self.log.reader.blocks.block_size + max(byte, 0)
        transaction = TransactionId(order % (1 << 32))
        self.findings.add(
            AuditFinding(
                code, severity, transaction, position, block, offset, target, read, expected,
                meaning,
            )
        )  # fmt: skip

    def add_rows(
        self, code: str, rows: Rows, orders: Int64s, positions: Int64s, *, meaning: str,
        target: Int64s | None = None, read: Words = "", expected: Words = "",
        severity: Severity = Severity.ERROR,
    ) -> None:  # fmt: skip
        """Add a finding for each of `rows`; findings beyond the limit are only counted."""
        for row in self.some(code, rows, severity):
            self.add(
                code, int(orders[row]), int(positions[row]), meaning=meaning, severity=severity,
                target=None if target is None else int(target[row]),
                read=read if isinstance(read, str) else read(row),
                expected=expected if isinstance(expected, str) else expected(row),
            )  # fmt: skip

    def some(self, code: str, index: Rows, severity: Severity = Severity.ERROR) -> list[int]:
        """The rows whose findings are kept; the other rows are only counted."""
        kept: list[int] = index[: self.findings.room].tolist()
        if len(index) > len(kept):
            self.findings.count(code, severity, len(index) - len(kept))
        return kept


def changed_bit(data: UInt8s | bytes, byte: int, mask: int) -> tuple[str, str]:
    """(value read, expected value) of a byte with one changed bit."""
    value = int(data[byte])
    return f"byte 0x{value:02x}", f"byte 0x{value ^ mask:02x}"


def tell_metadata(places: FindingBuilder, found: Survey, tally: VerdictCounts) -> Int64s:
    """Report damaged descriptor, revoke and commit blocks; return the verdict on each block."""
    fine = np.where(found.has_checksum, OK, UNCHECKED)
    verdict = np.where(found.fault == Fault.NONE, fine, BAD)
    verdict[found.fault == Fault.STRANGER] = UNCHECKED
    for kind, part in PARTS_OF_KINDS.items():
        tally.add(part, verdict[found.kind == kind])
    damaged = (found.fault != Fault.NONE) & (found.fault != Fault.STRANGER)
    for row in places.some("metadata", np.flatnonzero(damaged)):
        _tell_block(places, found, row)
    return verdict


def _tell_block(places: FindingBuilder, found: Survey, row: int) -> None:
    position, order = int(found.position[row]), int(found.order[row])
    kind, fault, byte = int(found.kind[row]), int(found.fault[row]), int(found.byte[row])
    name = messages.kind_name(kind)
    meaning, severity = messages.MEANINGS[name], Severity.ERROR
    data = places.log.reader.read(found.position[row : row + 1])[0]
    if fault in HEADER_FAULTS:
        place = 4 * HEADER_FAULTS.index(Fault(fault))
        value = int.from_bytes(data[place : place + 4].tobytes(), "big")
        read = f"{value:,}" if place else f"0x{value:08X}"
        expected = messages.header_words(fault, kind, order % (1 << 32))
        byte, meaning = place if byte == NOWHERE else byte, messages.HEADER
    elif byte != NOWHERE:
        read, expected = changed_bit(data, byte, int(found.mask[row]))
    else:
        read = f"checksum 0x{found.computed[row]:08x}"
        expected = f"checksum 0x{found.stored[row]:08x}"
    if fault == Fault.REST:
        severity, meaning = Severity.WARNING, messages.REST
    places.add(
        f"{name}-{messages.FAULT_CODES[fault]}", order, position, byte=byte, read=read,
        expected=expected, meaning=meaning, severity=severity,
    )  # fmt: skip


def tell_breaks(
    places: FindingBuilder, found: Survey, breaks: TransactionBreaks, tally: VerdictCounts
) -> None:
    """Report missing blocks of transactions, and the blocks found at their positions."""
    damaged = found.position[np.isin(found.fault, UNUSABLE)]
    breaks = breaks.take(~np.isin(breaks.position, damaged))
    tally.add(Part.COMMIT, np.full(int(breaks.commit.sum()), BAD))
    tally.add(Part.DESCRIPTOR, np.full(int((~breaks.commit).sum()), BAD))
    for row in places.some("block-missing", np.arange(len(breaks))):
        is_commit = bool(breaks.commit[row])
        data = places.log.reader.read(breaks.position[row : row + 1])[0]
        start = data[:12].tobytes().hex(" ", 4)
        places.add(
            "commit-missing" if is_commit else "block-missing",
            int(breaks.order[row]), int(breaks.position[row]),
            read=f"a block that starts with {start}" if data.any() else "zeros",
            expected="a commit block" if is_commit else "a descriptor, revoke or commit block",
            meaning=messages.NO_COMMIT if is_commit else messages.BREAK,
        )  # fmt: skip


def tell_copies(places: FindingBuilder, verdict: Int64s, tally: VerdictCounts) -> None:
    """Report copies that differ from their tag."""
    tally.add(Part.COPY, verdict)
    log, tags = places.log, places.log.tags
    bad = np.flatnonzero(verdict == BAD)
    if not len(bad):
        return
    older = _holds_older(log, bad)
    step = log.reader.chunk
    kept = np.array(places.some("copy-checksum", bad), np.int64)
    for start in range(0, len(kept), step):
        _tell_copies(places, kept[start : start + step], older[start : start + step])
    torn = log.transactions.row_of(np.unique(tags.order[bad[older]]))
    places.add_rows(
        "write-cache", torn, log.transactions.order, np.maximum(log.transactions.commit, 0),
        meaning=messages.WRITE_CACHE,
    )  # fmt: skip


def _holds_older(log: Log, index: Rows) -> Bools:
    """True where the position of a lost copy still holds its earlier content, or zeros."""
    tags, headers = log.tags, log.headers
    positions = tags.position[index]
    held = np.isin(positions, headers.position)  # those of newer ones are no loss
    sure = np.flatnonzero(tags.matches & (tags.checksum_bits == 32))
    newest = np.full(log.ring.end, np.iinfo(np.int64).max)
    np.minimum.at(newest, tags.position[sure], tags.order[sure])
    held |= newest[positions] < tags.order[index]
    for start in range(0, len(index), log.reader.chunk):
        piece = slice(start, start + log.reader.chunk)
        held[piece] |= ~log.reader.read(positions[piece]).any(axis=1)
    return held


def _tell_copies(places: FindingBuilder, index: Rows, older: Bools) -> None:
    log, tags = places.log, places.log.tags
    rows = log.reader.read(tags.position[index])
    byte, mask, computed = _located(log, rows, index)
    for row, tag in enumerate(index.tolist()):
        place = int(byte[row])
        code, meaning = "copy-checksum", messages.COPY
        width = int(tags.checksum_bits[tag]) // 4
        read = f"checksum 0x{computed[row]:0{width}x}"
        expected = f"checksum 0x{tags.checksum[tag]:0{width}x}"
        if older[row]:
            code, meaning = "copy-not-written", messages.NOT_WRITTEN
            read, expected = "an earlier block", "the tagged copy"
        elif place != NOWHERE:
            read, expected = changed_bit(rows[row], place, int(mask[row]))
        places.add(
            code, int(tags.order[tag]), int(tags.position[tag]), byte=place, read=read,
            target=int(tags.block[tag]), expected=expected, meaning=meaning,
        )  # fmt: skip


def _located(log: Log, rows: Bytes2D, index: Rows) -> tuple[Int64s, Int64s, Int64s]:
    """(byte, bit, computed checksum) of each lost copy; byte -1 where it is not known."""
    tags = log.tags
    seeds = copy_seeds(log.superblock.seed, tags.order[index] % (1 << 32))
    computed = copies_checksums(seeds, rows, tags.checksum_bits[index])
    difference = computed ^ tags.checksum[index]
    mends = find_bit_repairs(np.where(difference == 0, 1, difference), rows.shape[1], NOWHERE)
    is_located = (difference != 0) & (tags.checksum_bits[index] == 32)
    return np.where(is_located, mends.byte, NOWHERE), mends.mask, computed
