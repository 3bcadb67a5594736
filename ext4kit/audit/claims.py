"""The last writer of each log block, and the copies that must still be in the log.

A lap overwrites the log without a gap, and each transaction ends with its commit block. Therefore
a block of a committed transaction can only be missing where a newer lap overwrote it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.audit.result import BAD, OK, OVERWRITTEN, UNCHECKED
from ext4kit.audit.survey import UNKNOWN_TAGS, Fault, Survey
from ext4kit.journal.log import Log
from ext4kit.parsers.journal import BlockType

NOBODY = np.iinfo(np.int64).min
UNUSABLE = (Fault.BODY, Fault.MAGIC, Fault.TYPE, Fault.SEQUENCE, Fault.STRANGER)


@dataclass(frozen=True, slots=True)
class LogBlockClaims:
    """The last known writer of each log block, from the metadata blocks of the log.

    Attributes:
        newest: tid of the newest transaction known to have written the block.
        taken: True where the block is a metadata block that is damaged or cannot be judged.
    """

    newest: Int64s
    taken: Bools


def claims(log: Log, found: Survey) -> LogBlockClaims:
    """The newest claim on every log block."""
    newest = np.full(log.ring.end, NOBODY)
    np.maximum.at(newest, found.position, found.order)
    tags = log.tags
    believed = np.flatnonzero(plausible_tags(log, found))
    np.maximum.at(newest, tags.position[believed], tags.order[believed])
    for row in np.flatnonzero(found.tags == UNKNOWN_TAGS).tolist():  # all up to the next header
        start = int(found.position[row]) + 1
        end = int(found.position[row + 1]) if row + 1 < len(found) else log.ring.end
        np.maximum(newest[start:end], found.order[row], out=newest[start:end])
    taken = np.zeros(log.ring.end, bool)
    taken[found.position[np.isin(found.fault, UNUSABLE)]] = True
    return LogBlockClaims(newest, taken)


def plausible_tags(log: Log, found: Survey) -> Bools:
    """True where a tag is in a descriptor whose tags are plausible."""
    row = found.row_at(log.tags.descriptor)
    fine: Bools = (found.fault[row] == Fault.NONE) & (found.tags[row] != UNKNOWN_TAGS)
    return (row >= 0) & fine


def judge_copies(log: Log, found: Survey, claimed: LogBlockClaims) -> Int64s:
    """Verdict on the copy of each tag."""
    tags = log.tags
    overwritten = (claimed.newest[tags.position] > tags.order) | claimed.taken[tags.position]
    present = tags.matches & (found.row_at(tags.position) < 0)
    verdict = np.where(present, OK, UNCHECKED)
    believed = plausible_tags(log, found)
    verdict[overwritten & believed] = OVERWRITTEN
    verdict[(verdict == OK) & (tags.checksum_bits == 0)] = UNCHECKED
    due = believed & np.isin(tags.order, found.committed_orders)
    missing = ~overwritten & ~present & due & ~log.reader.unreadable[tags.position]
    verdict[missing] = BAD
    _mark_overwritten(log, found, verdict, missing)
    return verdict


def _mark_overwritten(log: Log, found: Survey, verdict: Int64s, missing: Bools) -> None:
    """Mark lost copies between overwritten ones and a newer lap as overwritten too.

    The transaction that overwrote them has lost its own descriptor. If undamaged copies follow, no
    such transaction wrote there: a single lost copy is then damage, and several are left undecided.
    """
    tags = log.tags
    index = np.flatnonzero(missing)
    if not len(index):
        return
    run = index - np.arange(len(index)), tags.descriptor[index]
    first, last = index[starts_group(*run)], index[ends_group(*run)]
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
class TransactionBreaks(Table):
    """Positions where a transaction lacks a metadata block that it must have.

    Attributes:
        position: log block where a metadata block is missing.
        order: tid of the transaction that lacks it.
        commit: True where the commit block is missing.
    """

    position: Int64s
    order: Int64s
    commit: Bools


def find_breaks(log: Log, found: Survey) -> TransactionBreaks:
    """Metadata blocks that must have existed and are not recognisable any more."""
    usable = np.flatnonzero(found.tags != UNKNOWN_TAGS)
    if not len(usable):
        return TransactionBreaks.empty()
    behind = (usable + 1) % len(found)
    size = log.ring.end - log.ring.first
    distance = (found.position[behind] - found.position[usable]) % size
    due = 1 + found.tags[usable]
    order, next_order = found.order[usable], found.order[behind]
    is_commit = found.kind[usable] == BlockType.COMMIT
    is_ended = np.isin(order, found.committed_orders)
    goes_on = np.isin(next_order, found.committed_orders)
    follows = (next_order == order + 1) & (found.position[behind] > found.position[usable])
    hole = distance > due
    begins = hole & is_commit & goes_on & follows
    lost = hole & ~is_commit & (next_order == order) & is_ended
    open_end = (distance >= due) & ~is_commit & ~is_ended & follows
    judged = (found.fault[usable] == Fault.NONE) & (found.fault[behind] != Fault.STRANGER)
    rows = np.flatnonzero((begins | lost | open_end) & judged)
    place = log.ring.wrap(found.position[usable[rows]] + due[rows])
    readable = ~log.reader.unreadable[place]
    rows, place = rows[readable], place[readable]
    return TransactionBreaks(place, np.where(begins, order + 1, order)[rows], open_end[rows])
