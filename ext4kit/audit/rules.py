"""Findings about the values in blocks whose checksums are good."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.lookup import is_member
from ext4kit.arrays.types import Int64s
from ext4kit.audit import messages
from ext4kit.audit.claims import plausible_tags
from ext4kit.audit.damage import FindingBuilder
from ext4kit.audit.result import BAD, OK, UNCHECKED, Part, TidGap, VerdictCounts
from ext4kit.audit.survey import Fault, Survey
from ext4kit.journal.transactions import Transactions
from ext4kit.parsers.journal import BlockType
from ext4kit.problems import Severity
from ext4kit.units import TransactionId


def tell_tags(places: FindingBuilder, found: Survey) -> None:
    """Report tags whose home block is outside the file system or is a block of the log."""
    log, tags = places.log, places.log.tags
    believed = plausible_tags(log, found)
    outside = believed & ((tags.block < 0) | (tags.block >= log.home.blocks_count))
    due = log.transactions.to_replay[log.transactions.row_of(tags.order)]
    own = np.zeros(len(tags), bool)
    if log.home is log.reader.blocks:
        mapped = log.reader.log_blocks[log.reader.log_blocks > 0]
        own = believed & ~outside & is_member(tags.block, np.sort(mapped))
    for code, wrong, meaning, severity in (
        ("tag-outside", outside & due, messages.OUTSIDE, Severity.ERROR),
        ("tag-outside", outside & ~due, messages.OUTSIDE_STALE, Severity.NOTE),
        ("tag-own-log", own, messages.OWN_LOG, Severity.ERROR),
    ):
        places.add_rows(
            code, np.flatnonzero(wrong), tags.order, tags.descriptor, target=tags.block,
            read=lambda tag: f"tag {tags.ordinal[tag]} names block {tags.block[tag]:,}",
            expected=f"a block below {log.home.blocks_count:,} outside the journal",
            meaning=meaning, severity=severity,
        )  # fmt: skip


def tell_escapes(places: FindingBuilder, found: Survey, verdict: Int64s) -> None:
    """Report copies marked as escaped that do not begin with zeros."""
    log, tags = places.log, places.log.tags
    readable = tags.valid & plausible_tags(log, found) & np.isin(verdict, (OK, UNCHECKED))
    index = np.flatnonzero(tags.escaped & readable)
    index = index[np.isin(tags.order[index], log.transactions.order[log.transactions.committed])]
    for start in range(0, len(index), log.reader.chunk):
        piece = index[start : start + log.reader.chunk]
        begins = log.reader.read(tags.position[piece])[:, :4]
        places.add_rows(
            "copy-escape", piece[begins.any(axis=1)], tags.order, tags.position,
            target=tags.block, expected="four zero bytes", meaning=messages.ESCAPE,
        )  # fmt: skip


def tell_revokes(places: FindingBuilder, found: Survey) -> None:
    """Report revoke blocks with too large a count, and records that name too high a block."""
    log, headers, revokes = places.log, places.log.headers, places.log.revokes
    sound = found.position[(found.kind == BlockType.REVOKE) & (found.fault == Fault.NONE)]
    over = np.flatnonzero(headers.overflow & np.isin(headers.position, sound))
    places.add_rows(
        "revoke-overflow", over, headers.order, headers.position, meaning=messages.REVOKE_OVERFLOW
    )
    outside = (revokes.block < 0) | (revokes.block >= log.home.blocks_count)
    outside &= np.isin(revokes.position, sound)
    due = log.transactions.to_replay[log.transactions.row_of(revokes.order)]
    for severity, wrong in ((Severity.WARNING, outside & due), (Severity.NOTE, outside & ~due)):
        places.add_rows(
            "revoke-outside", np.flatnonzero(wrong), revokes.order, revokes.position,
            target=revokes.block, read=lambda row: f"block {revokes.block[row]:,} is revoked",
            expected=f"a block below {log.home.blocks_count:,}", severity=severity,
            meaning=messages.OUTSIDE_STALE,
        )  # fmt: skip


def tell_times(places: FindingBuilder, transactions: Transactions) -> None:
    """Report commit times that decrease; 0 means no time (kernels before 2.6.28)."""
    known = np.flatnonzero(transactions.committed & (transactions.commit_time_ns > 0))
    time = transactions.commit_time_ns[known]
    places.add_rows(
        "commit-time", np.flatnonzero(np.diff(time) < 0) + 1,
        transactions.order[known], transactions.commit[known],
        read=lambda row: f"{time[row]} ns", expected=lambda row: f"{time[row - 1]} ns or later",
        meaning=messages.BACKWARDS, severity=Severity.WARNING,
    )  # fmt: skip


def tell_transactions(
    places: FindingBuilder, transactions: Transactions, tally: VerdictCounts
) -> None:
    """Judge the checksums over whole transactions (checksum v1), and report those that fail."""
    if places.log.features.checksum_version != 1:
        return
    verdict = np.select(
        [transactions.checksum == 1, transactions.checksum == 0], [OK, BAD], UNCHECKED
    )
    tally.add(Part.TRANSACTION, verdict)
    places.add_rows(
        "transaction-checksum", np.flatnonzero(verdict == BAD), transactions.order,
        transactions.commit, meaning=messages.TRANSACTION,
    )  # fmt: skip


def find_gaps(found: Survey) -> tuple[TidGap, ...]:
    """Gaps between the ids of consecutive transactions."""
    fine = found.take(found.fault != Fault.BODY)
    orders, first = np.unique(fine.order, return_index=True)
    stored, position = (orders % (1 << 32)).tolist(), fine.position[first].tolist()
    return tuple(
        TidGap(TransactionId(stored[row]), TransactionId(stored[row + 1]), position[row + 1])
        for row in np.flatnonzero(np.diff(orders) > 1).tolist()
    )
