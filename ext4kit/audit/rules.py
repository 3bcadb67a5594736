"""Findings about the values in blocks whose checksums are good."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.arrays.lookup import is_member
from ext4kit.audit import messages
from ext4kit.audit.claims import plausible_tags
from ext4kit.audit.damage import FindingBuilder
from ext4kit.audit.result import BAD, OK, UNCHECKED, Part, TidGap, VerdictCounts
from ext4kit.audit.survey import Fault, Survey
from ext4kit.journal.log import Log
from ext4kit.journal.transactions import Transactions
from ext4kit.parsers.journal import BlockType
from ext4kit.problems import Severity
from ext4kit.units import TransactionId


def tell_tags(places: FindingBuilder, found: Survey) -> None:
    """Report tags that name a block outside the file system, or a block of the log."""
    log, tags = places.log, places.log.tags
    believed = plausible_tags(log, found)
    outside = believed & ((tags.block < 0) | (tags.block >= log.home.blocks_count))
    due = log.transactions.to_replay[log.transactions.row_of(tags.order)]
    _tell(places, "tag-outside", np.flatnonzero(outside & due), messages.OUTSIDE)
    stale = np.flatnonzero(outside & ~due)
    _tell(places, "tag-outside", stale, messages.OUTSIDE_STALE, Severity.NOTE)
    if log.home is log.reader.blocks:
        own = believed & ~outside & _is_own(log)
        _tell(places, "tag-own-log", np.flatnonzero(own), messages.OWN_LOG)


def _is_own(log: Log) -> Any:
    """True where a tag names a block of the log itself."""
    own = np.sort(log.reader.log_blocks[log.reader.log_blocks > 0])
    return is_member(log.tags.block, own)


def _tell(
    places: FindingBuilder, code: str, index: Any, meaning: str, severity: Severity = Severity.ERROR
) -> None:
    tags = places.log.tags
    for tag in places.some(code, index, severity):
        block = int(tags.block[tag])
        places.add(
            code,
            int(tags.order[tag]),
            int(tags.descriptor[tag]),
            target=block,
            read=f"tag {int(tags.ordinal[tag])} names block {block:,}",
            expected=f"a block below {places.log.home.blocks_count:,} outside the journal",
            meaning=meaning,
            severity=severity,
        )


def tell_escapes(places: FindingBuilder, found: Survey, verdict: Any) -> None:
    """Report copies marked as escaped that do not begin with zeros."""
    log, tags = places.log, places.log.tags
    readable = tags.valid & plausible_tags(log, found) & np.isin(verdict, (OK, UNCHECKED))
    index = np.flatnonzero(tags.escaped & readable)
    index = index[np.isin(tags.order[index], log.transactions.order[log.transactions.committed])]
    for start in range(0, len(index), log.reader.chunk):
        piece = index[start : start + log.reader.chunk]
        begins = log.reader.read(tags.position[piece])[:, :4]
        for tag in places.some("copy-escape", piece[begins.any(axis=1)]):
            places.add(
                "copy-escape", int(tags.order[tag]), int(tags.position[tag]),
                target=int(tags.block[tag]), expected="four zero bytes", meaning=messages.ESCAPE,
            )  # fmt: skip


def tell_revokes(places: FindingBuilder, found: Survey) -> None:
    """Report revoke blocks with too large a count, and records of blocks outside the volume."""
    log, headers, revokes = places.log, places.log.headers, places.log.revokes
    sound = found.position[(found.kind == BlockType.REVOKE) & (found.fault == Fault.NONE)]
    over = np.flatnonzero(headers.overflow & np.isin(headers.position, sound))
    for row in places.some("revoke-overflow", over):
        places.add(
            "revoke-overflow", int(headers.order[row]), int(headers.position[row]),
            meaning=messages.REVOKE_OVERFLOW,
        )  # fmt: skip
    outside = (revokes.block < 0) | (revokes.block >= log.home.blocks_count)
    outside &= np.isin(revokes.position, sound)
    due = log.transactions.to_replay[log.transactions.row_of(revokes.order)]
    for severity, index in (
        (Severity.WARNING, np.flatnonzero(outside & due)),
        (Severity.NOTE, np.flatnonzero(outside & ~due)),
    ):
        for row in places.some("revoke-outside", index, severity):
            block = int(revokes.block[row])
            places.add(
                "revoke-outside", int(revokes.order[row]), int(revokes.position[row]),
                target=block, read=f"block {block:,} is revoked",
                expected=f"a block below {log.home.blocks_count:,}", severity=severity,
                meaning=messages.OUTSIDE_STALE,
            )  # fmt: skip


def tell_times(places: FindingBuilder, transactions: Transactions) -> None:
    """Report commit times that decrease; 0 means no time (kernels before 2.6.28)."""
    known = np.flatnonzero(transactions.committed & (transactions.commit_time_ns > 0))
    time = transactions.commit_time_ns[known]
    for place in places.some("commit-time", np.flatnonzero(np.diff(time) < 0), Severity.WARNING):
        row = int(known[place + 1])
        places.add(
            "commit-time",
            int(transactions.order[row]),
            int(transactions.commit[row]),
            read=f"{int(time[place + 1])} ns",
            expected=f"{int(time[place])} ns or later",
            meaning=messages.BACKWARDS,
            severity=Severity.WARNING,
        )


def tell_transactions(
    places: FindingBuilder, transactions: Transactions, tally: VerdictCounts
) -> None:
    """Report checksums over whole transactions (checksum v1)."""
    if places.log.features.checksum_version != 1:
        return
    verdict = np.select(
        [transactions.checksum == 1, transactions.checksum == 0], [OK, BAD], UNCHECKED
    )
    tally.add(Part.TRANSACTION, verdict)
    for row in places.some("transaction-checksum", np.flatnonzero(verdict == BAD)):
        places.add(
            "transaction-checksum",
            int(transactions.order[row]),
            int(transactions.commit[row]),
            meaning=messages.TRANSACTION,
        )


def find_gaps(found: Survey) -> tuple[TidGap, ...]:
    """Gaps between the ids of consecutive transactions."""
    fine = found.take(np.flatnonzero(found.fault != Fault.BODY))
    orders, first = np.unique(fine.order, return_index=True)
    index = np.flatnonzero(np.diff(orders) > 1)
    return tuple(
        TidGap(
            TransactionId(int(orders[place]) % (1 << 32)),
            TransactionId(int(orders[place + 1]) % (1 << 32)),
            int(fine.position[first[place + 1]]),
        )
        for place in index.tolist()
    )
