"""Findings about blocks whose bytes changed after they were written."""

from __future__ import annotations

from typing import Any

import numpy as np

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
from ext4kit.parsers.journal import HEADER, BlockType, copies_checksums, copy_seeds
from ext4kit.problems import Severity
from ext4kit.units import TransactionId, widen

PARTS_OF_KINDS = {
    BlockType.DESCRIPTOR: Part.DESCRIPTOR,
    BlockType.COMMIT: Part.COMMIT,
    BlockType.REVOKE: Part.REVOKE,
}
HEADER_FAULTS = (Fault.MAGIC, Fault.TYPE, Fault.SEQUENCE)


class FindingBuilder:
    """Builds findings, with log blocks converted to offsets in the image.

    Args:
        log: the log.
        findings: collects them.
    """

    def __init__(self, log: Log, findings: AuditFindings) -> None:
        self.log = log
        self.findings = findings

    def add(
        self,
        code: str,
        order: int,
        position: int,
        *,
        meaning: str,
        byte: int = NOWHERE,
        target: int | None = None,
        read: str = "",
        expected: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Add one finding about a log block; `byte` is an offset in it."""
        block = int(self.log.reader.log_blocks[position])
        offset = block * self.log.reader.blocks.block_size + max(byte, 0)
        transaction = TransactionId(order % (1 << 32))
        self.findings.add(
            AuditFinding(
                code,
                severity,
                transaction,
                position,
                block,
                offset,
                target,
                read,
                expected,
                meaning,
            )  # fmt: skip
        )

    def some(self, code: str, index: Any, severity: Severity = Severity.ERROR) -> list[int]:
        """The rows whose findings are kept; the rest is counted."""
        kept: list[int] = index[: self.findings.room].tolist()
        if len(index) > len(kept):
            self.findings.count(code, severity, len(index) - len(kept))
        return kept


def changed_bit(data: Any, byte: int, mask: int) -> tuple[str, str]:
    """(value read, value expected) of a byte with one changed bit."""
    value = int(data[byte])
    return f"byte 0x{value:02x}", f"byte 0x{value ^ mask:02x}"


def judge_metadata(log: Log, found: Survey) -> Any:
    """Verdict on each metadata block, int64 (n,)."""
    fine = OK if log.features.has_block_checksums else UNCHECKED
    verdict = np.where(found.fault == Fault.NONE, fine, BAD)
    verdict[found.fault == Fault.STRANGER] = UNCHECKED
    return verdict


def tell_metadata(
    places: FindingBuilder, found: Survey, verdict: Any, tally: VerdictCounts
) -> None:
    """Report damaged descriptor, revoke and commit blocks."""
    for kind, part in PARTS_OF_KINDS.items():
        tally.add(part, verdict[found.kind == kind])
    damaged = (found.fault != Fault.NONE) & (found.fault != Fault.STRANGER)
    for row in places.some("metadata", np.flatnonzero(damaged)):
        _tell_block(places, found, row)


def _tell_block(places: FindingBuilder, found: Survey, row: int) -> None:
    position, order = int(found.position[row]), int(found.order[row])
    kind, fault, byte = int(found.kind[row]), int(found.fault[row]), int(found.byte[row])
    name = messages.kind_name(kind)
    data = places.log.reader.read(found.position[row : row + 1])[0]
    if fault in HEADER_FAULTS:
        place = 4 * HEADER_FAULTS.index(Fault(fault))
        value = int.from_bytes(data[place : place + 4].tobytes(), "big")
        read = f"{value:,}" if place else f"0x{value:08X}"
        expected = messages.header_words(fault, kind, order % (1 << 32))
        byte, meaning = place if byte == NOWHERE else byte, messages.HEADER
    elif byte != NOWHERE:
        read, expected = changed_bit(data, byte, int(found.mask[row]))
        meaning = messages.MEANINGS[name]
    else:
        read = f"checksum 0x{int(found.computed[row]):08x}"
        expected = f"checksum 0x{int(found.stored[row]):08x}"
        meaning = messages.MEANINGS[name]
    severity = Severity.ERROR
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
    free = ~np.isin(breaks.position, found.position[np.isin(found.fault, UNUSABLE)])
    rows = np.flatnonzero(free)
    tally.add(Part.COMMIT, np.full(int(breaks.commit[rows].sum()), BAD))
    tally.add(Part.DESCRIPTOR, np.full(int((~breaks.commit[rows]).sum()), BAD))
    for row in places.some("block-missing", rows):
        is_commit = bool(breaks.commit[row])
        places.add(
            "commit-missing" if is_commit else "block-missing",
            int(breaks.order[row]),
            int(breaks.position[row]),
            read=_actual_content(places.log, int(breaks.position[row])),
            expected="a commit block" if is_commit else "a descriptor, revoke or commit block",
            meaning=messages.NO_COMMIT if is_commit else messages.BREAK,
        )


def _actual_content(log: Log, position: int) -> str:
    data = log.reader.read(np.array([position]))[0]
    if not data.any():
        return "zeros"
    first = " ".join(f"{int(word):08x}" for word in _words(data))
    return f"a block that starts with {first}"


def _words(data: Any) -> list[int]:
    raw = HEADER.columns(data[None, :])
    return [int(widen(raw[name])[0]) for name in raw.dtype.names]


def tell_copies(places: FindingBuilder, verdict: Any, tally: VerdictCounts) -> None:
    """Report copies that differ from their tag."""
    tally.add(Part.COPY, verdict)
    log, tags = places.log, places.log.tags
    bad = np.flatnonzero(verdict == BAD)
    if not len(bad):
        return
    older = _holds_older(log, bad)
    torn = np.unique(tags.order[bad[older]])
    step = log.reader.chunk
    kept = np.array(places.some("copy-checksum", bad), np.int64)
    for start in range(0, len(kept), step):
        _tell_copies(places, kept[start : start + step], older[start : start + step])
    for order in places.some("write-cache", torn):
        commit = log.transactions.commit[log.transactions.row_of(np.array([order]))][0]
        places.add("write-cache", order, max(int(commit), 0), meaning=messages.WRITE_CACHE)


def _holds_older(log: Log, index: Any) -> Any:
    """True where the position of a lost copy still holds its earlier content, or zeros."""
    tags, headers = log.tags, log.headers
    positions = tags.position[index]
    held = np.isin(positions, headers.position)  # of an older transaction; a newer one is no loss
    if log.features.checksum_version == 3:
        sure = np.flatnonzero(tags.matches)
        newest = np.full(log.ring.end, np.iinfo(np.int64).max)
        np.minimum.at(newest, tags.position[sure], tags.order[sure])
        held |= newest[positions] < tags.order[index]
    for start in range(0, len(index), log.reader.chunk):
        piece = slice(start, start + log.reader.chunk)
        held[piece] |= ~log.reader.read(positions[piece]).any(axis=1)
    return held


def _tell_copies(places: FindingBuilder, index: Any, older: Any) -> None:
    log, tags = places.log, places.log.tags
    rows = log.reader.read(tags.position[index])
    byte, mask, computed = _located(log, rows, index)
    for row, tag in enumerate(index.tolist()):
        stored, place = int(tags.checksum[tag]), int(byte[row])
        width = 4 if log.features.checksum_version == 2 else 8
        read = f"checksum 0x{int(computed[row]):0{width}x}"
        expected = f"checksum 0x{stored:0{width}x}"
        if place != NOWHERE:
            read, expected = changed_bit(rows[row], place, int(mask[row]))
        not_written = bool(older[row])
        places.add(
            "copy-not-written" if not_written else "copy-checksum",
            int(tags.order[tag]),
            int(tags.position[tag]),
            byte=place,
            target=int(tags.block[tag]),
            read=read if not not_written else "an earlier block",
            expected=expected if not not_written else "the tagged copy",
            meaning=messages.NOT_WRITTEN if not_written else messages.COPY,
        )


def _located(log: Log, rows: Any, index: Any) -> tuple[Any, Any, Any]:
    """(byte, bit, computed checksum) of each lost copy; byte -1 where it is not known."""
    tags, none = log.tags, np.full(len(index), NOWHERE)
    if not log.features.has_block_checksums:
        return none, none, none
    seeds = copy_seeds(log.superblock.seed, tags.order[index] % (1 << 32))
    computed = copies_checksums(seeds, rows, log.features)
    if log.features.checksum_version != 3:
        return none, none, computed
    difference = computed ^ tags.checksum[index]
    mends = find_bit_repairs(np.where(difference == 0, 1, difference), rows.shape[1], -1)
    return np.where(difference == 0, NOWHERE, mends.byte), mends.mask, computed
