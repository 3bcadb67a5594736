"""Combine all checks into the grade of each candidate and its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW, Bools
from ext4kit.filesystem.inodes import INODES_AT_ONCE
from ext4kit.filesystem.xattrs import lacks_inline_data
from ext4kit.history.inode_states import TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.history.wiping import Wiping
from ext4kit.memory import release_freed_memory
from ext4kit.parsers.inode import InodeFlags
from ext4kit.reasons import Reason
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.candidates import NO_MAP
from ext4kit.recovery.content import total_blocks
from ext4kit.recovery.grading.checks import are_contradicted, run_checks
from ext4kit.recovery.grading.wiped import wiping_checks
from ext4kit.recovery.losses import CandidateLosses, Losses
from ext4kit.recovery.maps.rebuilt import RebuiltMaps
from ext4kit.recovery.maps.stale_entries import stale_extent_starts
from ext4kit.recovery.model import Grade


@dataclass(frozen=True, slots=True)
class Grading:
    """Grade per candidate, and its reasons in the order of the checks."""

    grades: list[Grade]
    reasons: list[tuple[Reason, ...]]


@dataclass(frozen=True, slots=True)
class CheckResults:
    """Reasons by candidate, where there are any.

    Attributes:
        partial: why the content may be wrong or incomplete: partial at best.
        consistent: what would leave no record: consistent at best.
    """

    partial: Mapping[int, list[Reason]]
    consistent: Mapping[int, list[Reason]]


def grade_candidates(
    blocks: BlockAttribution, losses: Losses, maps: RebuiltMaps, wiped: Mapping[int, Wiping]
) -> Grading:
    """Grade all candidates.

    Args:
        blocks: block attribution.
        losses: their lost content.
        maps: rebuilt maps that some of them use.
        wiped: the wiping of candidates of wiped files.
    """
    checks = check_candidates(blocks, losses, maps, wiped)
    release_freed_memory()  # of columns of all states
    extents = _stale_extents(blocks)
    block_size = blocks.history.fs.superblock.block_size
    flags = blocks.history.states.table.flags[blocks.candidates.state_row]
    encrypted = ((flags & int(InodeFlags.ENCRYPT)) != 0).tolist()
    grades: list[Grade] = []
    why: list[tuple[Reason, ...]] = []
    known: dict[tuple[Reason, ...], tuple[Reason, ...]] = {}  # most candidates have the same ones
    columns = blocks.candidates.map_source.tolist(), blocks.block_counts.tolist(), encrypted
    for candidate, (source, count, is_encrypted) in enumerate(zip(*columns, strict=True)):
        lost = losses.of(candidate)
        against = []
        if lost.from_untagged:
            against.append(reasons.CONTENT_FROM_UNTAGGED_COPIES.filled(n=f"{lost.from_untagged:,}"))
        if lost.discarded:
            against.append(reasons.BLOCKS_DISCARDED.filled(n=f"{lost.discarded:,}"))
        if source == NO_MAP:
            against += _without_map(extents.get(candidate), block_size)
            grade = Grade.OVERWRITTEN
        else:
            grade = _grade(checks, candidate, count, lost, against)
            if is_encrypted:
                against.append(reasons.ENCRYPTED)
            if lost.from_tagged:
                against.insert(0, reasons.CONTENT_FROM_JOURNAL.filled(n=f"{lost.from_tagged:,}"))
        grades.append(grade)
        every = tuple(against)
        why.append(known.setdefault(every, every))
    return Grading(grades, why)


def check_candidates(
    blocks: BlockAttribution,
    losses: Losses,
    maps: RebuiltMaps,
    wiped: Mapping[int, Wiping] = MappingProxyType({}),
) -> CheckResults:
    """Run all checks."""
    history, candidates = blocks.history, blocks.candidates
    partial, consistent = run_checks(
        history, candidates, blocks.runs, blocks.uses, blocks.tagged, blocks.reuse
    )
    rebuilt = np.flatnonzero(candidates.rebuilt_row != NO_ROW)
    for doubtful, reason in maps.reasons:
        every = np.zeros(len(candidates), bool)
        every[rebuilt] = doubtful[candidates.rebuilt_row[rebuilt]]
        partial.append((every, reason))
    reuse, competing = blocks.reuse, blocks.competing
    taken = (
        np.concatenate([reuse.candidate, competing.candidate]),
        np.concatenate([reuse.start, competing.start]),
        np.concatenate([reuse.length, competing.length]),
    )
    contradicted = are_contradicted(history, blocks.tagged, blocks.freed_tid, taken)
    partial += [
        (contradicted, reasons.UNMOUNT_DISK_CONFLICT),
        (_inline_data_incomplete(blocks), reasons.INLINE_DATA_INCOMPLETE),
        (blocks.tree_block_reused, reasons.MAP_BLOCK_REUSED),
        (_changed_later(blocks), reasons.CHANGED_AFTER_LAST_STATE),
        wiping_checks(blocks, wiped, True),
    ]
    consistent = [
        *consistent,
        wiping_checks(blocks, wiped, False),
        (losses.may_be_discarded, reasons.ZEROS_POSSIBLY_DISCARDED),
    ]
    return CheckResults(_by_candidate(partial), _by_candidate(consistent))


def _by_candidate(pairs: list[tuple[Bools, Reason]]) -> dict[int, list[Reason]]:
    found: dict[int, list[Reason]] = {}
    for doubtful, reason in pairs:
        for candidate in np.flatnonzero(doubtful).tolist():
            found.setdefault(candidate, []).append(reason)
    return found


def _stale_extents(blocks: BlockAttribution) -> dict[int, tuple[int, int]]:
    """(extents, logical start of the last) of candidates without a map, if several."""
    candidates, table = blocks.candidates, blocks.history.states.table
    places = np.flatnonzero(candidates.map_source == NO_MAP)
    found: dict[int, tuple[int, int]] = {}
    for at in range(0, len(places), INODES_AT_ONCE):
        some = places[at : at + INODES_AT_ONCE]
        starts, count = stale_extent_starts(table.take(candidates.state_row[some]))
        several = np.flatnonzero(count > 1)
        last = starts[several, count[several] - 1]
        rows = np.stack([some[several], count[several], last], axis=1).tolist()
        found |= {candidate: (extents, begin) for candidate, extents, begin in rows}
    return found


def _without_map(extents: tuple[int, int] | None, block_size: int) -> list[Reason]:
    """Reasons of a candidate without a map, with the extents that its inode shows."""
    found = [reasons.NO_BLOCK_MAP]
    if extents is not None:
        count, last = extents
        found.append(reasons.EXTENT_COUNT.filled(n=count, size=f"{last * block_size:,}"))
    return found


def _grade(
    checks: CheckResults, candidate: int, count: int, lost: CandidateLosses, against: list[Reason]
) -> Grade:
    """Grade of a candidate with a map of `count` blocks; appends to the reasons against it."""
    against += checks.partial.get(candidate, ())
    missing = total_blocks(lost.pieces)
    if count and missing >= count:
        return Grade.OVERWRITTEN
    if against or missing:
        return Grade.PARTIAL
    against += checks.consistent.get(candidate, ())
    return Grade.CONSISTENT if against or lost.from_tagged else Grade.INTACT


def _inline_data_incomplete(blocks: BlockAttribution) -> Bools:
    """Inline data without the part that the inode's attributes held."""
    row, table = blocks.candidates.state_row, blocks.history.states.table
    found: Bools = (table.flags[row] & int(InodeFlags.INLINE_DATA)) != 0
    for candidate in np.flatnonzero(found).tolist():
        found[candidate] = lacks_inline_data(table.one(row[candidate]))
    return found


def _changed_later(blocks: BlockAttribution) -> Bools:
    """Files that may have got blocks between their last, empty state and their deletion.

    Freeing blocks sets mtime. Assumed true for states and deletions from fast commits.
    """
    history, row = blocks.history, blocks.candidates.state_row
    table, tid = history.states.table, blocks.deletion.tid
    inline = (table.flags[row] & int(InodeFlags.INLINE_DATA)) != 0
    empty = table.is_regular[row] & ~inline & (blocks.block_counts == 0)
    by_fast_commit = (tid >= TID_PRE_FAST_COMMIT) & (tid < TID_ON_DISK)
    by_fast_commit |= np.isin(table.number[row], history.stages.freed)
    changed: Bools = empty & (by_fast_commit | blocks.deletion.mtime_changed)
    return changed
