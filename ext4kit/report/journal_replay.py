"""Recovery of the journal, computed or written to a copy, as text and as records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, TypedDict

import numpy as np

from ext4kit import fields
from ext4kit.fields import Record
from ext4kit.filesystem import FileSystem
from ext4kit.journal import ReplayedBlocks
from ext4kit.journal.transactions import Transaction
from ext4kit.output import Written
from ext4kit.report.journal_list import transaction_record
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import human_size, table_lines
from ext4kit.report.times import time_text

IDS = 1 << 32
_HEADINGS = ("transaction", "committed", "log block", "blocks", "revokes")


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """Effect of a recovery."""

    journal: str  # location from which the journal was read
    is_due: bool  # the file system needs a recovery and the journal is not empty
    reason: str  # why the recovery stops after `last`, or why nothing is replayed
    refused: str  # why a due recovery is not performed, or ""
    first: int | None  # stored tid of the first replayed transaction
    last: int | None  # stored tid of the last replayed transaction
    transactions: int  # number of replayed transactions
    blocks: int  # number of blocks that are written
    revoked: int  # number of copies that a revoke record excludes
    damaged: int  # number of copies that are omitted because they are damaged or unreadable
    bad_transaction: int | None  # stored tid of the transaction with a bad commit block
    fast_commit_blocks: int  # number of blocks that fast commits change


def replay_facts(fs: FileSystem, replayed: ReplayedBlocks) -> ReplayFacts:
    """The effect of one replay on the file system as it is on disk."""
    log, plan = replayed.log, replayed.plan
    walk, changed = plan.walk, replayed.changed.blocks
    count = 0 if walk.refusal else walk.end_order - walk.first_order
    location = f"inode {fs.superblock.journal_inode}"
    if log.reader.blocks is not fs.blocks and fs.journal_device is not None:
        location = f"{'device' if log.is_shared_device else 'file'} {fs.journal_device.name}"
    return ReplayFacts(
        journal=location,
        is_due=log.needs_recovery and log.superblock.start != 0,
        reason=walk.end_reason,
        refused=walk.refusal,
        first=walk.first_order % IDS if count else None,
        last=(walk.end_order - 1) % IDS if count else None,
        transactions=count,
        blocks=len(np.union1d(plan.blocks, changed)),
        revoked=plan.revoked,
        damaged=plan.damaged,
        bad_transaction=None if walk.bad_commit is None else walk.bad_commit % IDS,
        fast_commit_blocks=len(changed),
    )


def replayed_transactions(replayed: ReplayedBlocks) -> Iterator[Transaction]:
    """The transactions that a recovery replays, oldest first."""
    return (each for each in replayed.log.transactions if each.to_replay)


def replay_lines(facts: ReplayFacts, replayed: ReplayedBlocks) -> Iterator[str]:
    """The recovery as text, and a table of its transactions."""
    yield _line("Journal", printable_text(facts.journal))
    yield _line("Recovery", _verdict(facts))
    if not facts.is_due or facts.refused:
        return
    yield _line("End reason", facts.reason)
    yield _line("Blocks", f"{facts.blocks:,} to write")
    for label, count, meaning in (
        ("Revoked", facts.revoked, "copies skipped: revoked by a later transaction"),
        ("Damaged", facts.damaged, "copies skipped: bad checksum or unreadable"),
        ("Fast commits", facts.fast_commit_blocks, "blocks changed by fast commits"),
    ):
        if count:
            yield _line(label, f"{count:,} {meaning}")
    if facts.transactions:
        rows = []
        for each in replayed_transactions(replayed):
            time = "unknown" if each.commit_time_ns is None else time_text(each.commit_time_ns)
            counts = (f"{each.blocks:,}", f"{each.revokes:,}")
            rows.append((str(each.id), time, str(each.start), *counts))
        yield ""
        yield from table_lines(_HEADINGS, rows, {0, 2, 3, 4})


def _line(label: str, text: str) -> str:
    return f"{label + ':':15}{text}"


def _verdict(facts: ReplayFacts) -> str:
    if not facts.is_due:
        return f"none: {facts.reason}"
    if facts.refused:
        return f"impossible: {facts.refused}"
    if not facts.transactions:
        return "due, without a complete transaction in the journal"
    if facts.first == facts.last:
        return f"due: transaction {facts.first}"
    return f"due: {facts.transactions:,} transactions, {facts.first} to {facts.last}"


def replay_records(facts: ReplayFacts, replayed: ReplayedBlocks) -> Iterator[Record]:
    """A record of the recovery, then one for each transaction that it replays."""
    yield {"record": "replay", **asdict(facts)}
    yield from map(transaction_record, replayed_transactions(replayed))


def copy_line(copy: Written, what: str) -> str:
    """A sentence that says where the copy was written."""
    return f"{printable_text(str(copy.path))}: {what} ({human_size(copy.size)})"


class CopyRecord(TypedDict):
    """A replayed copy that was written (`journal replay -o`)."""

    record: Literal["copy"]
    path: Annotated[str, "The file that was written."]
    of: str
    size: fields.Size
    lost: Annotated[list[fields.Unread], "Ranges that are missing."]


def copy_record(copy: Written, what: str) -> CopyRecord:
    """The written copy as a record."""
    lost: list[fields.Unread] = [
        {"offset": place, "length": size, "reason": why} for place, size, why in copy.lost
    ]
    return {"record": "copy", "path": str(copy.path), "of": what, "size": copy.size, "lost": lost}
