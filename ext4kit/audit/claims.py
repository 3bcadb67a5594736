"""The last writer of each log block, and the copies that must still be in the log.

A lap overwrites the log without a gap, and each transaction ends with its commit block. Therefore
a block of a committed transaction can only be missing where a newer lap overwrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.audit.result import BAD, OK, OVERWRITTEN, UNCHECKED
from ext4kit.audit.survey import UNKNOWN_TAGS, Fault, Survey
from ext4kit.journal.log import Log
from ext4kit.parsers.journal import BlockType

NOBODY = np.iinfo(np.int64).min
UNUSABLE = (Fault.BODY, Fault.MAGIC, Fault.TYPE, Fault.SEQUENCE, Fault.STRANGER)


@dataclass(frozen=True, slots=True)
class LogBlockClaims:
    """The content of each log block, from the metadata blocks of the log.

    Attributes:
        newest: int64, tid of the newest transaction known to have written the block.
        taken: bool, True where a metadata block is damaged or cannot be judged.
    """

    newest: Any
    taken: Any


def claims(log: Log, found: Survey) -> LogBlockClaims:
    """The newest claim on every log block."""
    newest = np.full(log.ring.end, NOBODY)
    np.maximum.at(newest, found.position, found.order)
    tags = log.tags
    believed = np.flatnonzero(plausible_tags(log, found))
    np.maximum.at(newest, tags.position[believed], tags.order[believed])
    _claim_up_to_the_next(log, found, newest)
    taken = np.zeros(log.ring.end, bool)
    taken[found.position[np.isin(found.fault, UNUSABLE)]] = True
    return LogBlockClaims(newest, taken)


def plausible_tags(log: Log, found: Survey) -> Any:
    """True where a tag is in a descriptor whose tags are plausible."""
    row = found.row_at(log.tags.descriptor)
    return (row >= 0) & (found.fault[row] == Fault.NONE) & (found.tags[row] != UNKNOWN_TAGS)


def _claim_up_to_the_next(log: Log, found: Survey, newest: Any) -> None:
    """Assign to a descriptor with unknown tags all blocks up to the next header."""
    for row in np.flatnonzero(found.tags == UNKNOWN_TAGS).tolist():
        start = int(found.position[row]) + 1
        last = row + 1 == len(found)
        end = log.ring.end if last else int(found.position[row + 1])
        np.maximum(newest[start:end], found.order[row], out=newest[start:end])


def judge_copies(log: Log, found: Survey, claimed: LogBlockClaims) -> Any:
    """Verdict on the copy of each tag, int64 (n,)."""
    tags = log.tags
    overwritten = (claimed.newest[tags.position] > tags.order) | claimed.taken[tags.position]
    present = tags.matches & (found.row_at(tags.position) < 0)
    verdict = np.where(present, OK, UNCHECKED)
    believed = plausible_tags(log, found)
    verdict[overwritten & believed] = OVERWRITTEN
    if not log.features.has_block_checksums:
        verdict[verdict == OK] = UNCHECKED
    due = believed & np.isin(tags.order, found.committed_orders)
    missing = ~overwritten & ~present & due & ~log.reader.unreadable[tags.position]
    verdict[missing] = BAD
    _mark_overwritten(log, found, verdict, missing)
    return verdict


def _mark_overwritten(log: Log, found: Survey, verdict: Any, missing: Any) -> None:
    """Mark lost copies between overwritten ones and a newer lap as overwritten too.

    The transaction that overwrote them has lost its own descriptor. It cannot have written there
    if undamaged copies follow: a single lost copy is damage then, several are left undecided.
    """
    tags = log.tags
    index = np.flatnonzero(missing)
    if not len(index):
        return
    same = np.diff(index) == 1
    same &= tags.descriptor[index[1:]] == tags.descriptor[index[:-1]]
    first = index[np.concatenate([[True], ~same])]
    last = index[np.concatenate([~same, [True]])]
    before = np.maximum(first - 1, 0)
    entered = (tags.ordinal[first] > 0) & (verdict[before] == OVERWRITTEN)
    after = np.minimum(last + 1, len(tags) - 1)
    inside = (after > last) & (tags.descriptor[after] == tags.descriptor[last])
    behind = found.row_at(log.ring.wrap(tags.position[last] + 1))
    foreign = (behind < 0) | (found.order[behind] != tags.order[last])
    left = np.where(inside, verdict[after] == OVERWRITTEN, foreign)
    for start, end, overwritten in zip(
        first[entered].tolist(), last[entered].tolist(), left[entered].tolist(), strict=True
    ):
        if overwritten or end > start:
            verdict[start : end + 1] = OVERWRITTEN if overwritten else UNCHECKED


@dataclass(frozen=True, slots=True)
class TransactionBreaks:
    """Positions where a transaction lacks a metadata block that it must have.

    Attributes:
        position: int64, log block where a metadata block is missing.
        order: int64, tid of the transaction that it belongs to.
        commit: bool, True where the commit block is missing.
    """

    position: Any
    order: Any
    commit: Any


def find_breaks(log: Log, found: Survey) -> TransactionBreaks:
    """Metadata blocks that must have existed and are not recognisable any more."""
    usable = np.flatnonzero(found.tags != UNKNOWN_TAGS)
    if len(found) < 2 or not len(usable):
        none = np.zeros(0, np.int64)
        return TransactionBreaks(none, none, none.astype(bool))
    behind = (usable + 1) % len(found)
    size = log.ring.end - log.ring.first
    distance = (found.position[behind] - found.position[usable]) % size
    due = 1 + found.tags[usable]
    order, next_order = found.order[usable], found.order[behind]
    is_commit = found.kind[usable] == BlockType.COMMIT
    is_ended = np.isin(order, found.committed_orders)
    goes_on = np.isin(next_order, found.committed_orders)
    forward = found.position[behind] > found.position[usable]
    hole = distance > due
    begins = hole & is_commit & (next_order == order + 1) & goes_on & forward
    lost = hole & ~is_commit & (next_order == order) & is_ended
    open_end = (distance >= due) & ~is_commit & ~is_ended & (next_order == order + 1) & forward
    fine = found.fault[usable] == Fault.NONE
    judged = fine & (found.fault[behind] != Fault.STRANGER)
    rows = np.flatnonzero((begins | lost | open_end) & judged)
    place = log.ring.wrap(found.position[usable[rows]] + due[rows])
    readable = ~log.reader.unreadable[place]
    rows, place = rows[readable], place[readable]
    return TransactionBreaks(place, np.where(begins, order + 1, order)[rows], open_end[rows])
