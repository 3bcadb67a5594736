"""Combine all checks into the grade of each candidate and its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW, Bools
from ext4kit.filesystem.xattrs import lacks_inline_data
from ext4kit.history.history import TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.parsers.inode import Inode
from ext4kit.reasons import Reason
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.candidates import NO_MAP
from ext4kit.recovery.content import total_blocks
from ext4kit.recovery.grading.checks import are_contradicted, run_checks
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


def grade_candidates(blocks: BlockAttribution, losses: Losses, maps: RebuiltMaps) -> Grading:
    """Grade all candidates.

    Args:
        blocks: block attribution.
        losses: their lost content.
        maps: rebuilt maps that some of them use.
    """
    checks = check_candidates(blocks, losses, maps)
    extents = _stale_extents(blocks)
    block_size = blocks.history.fs.superblock.block_size
    found: list[tuple[Grade, list[Reason]]] = []
    sources = blocks.candidates.map_source.tolist()
    for candidate, source in enumerate(sources):
        lost = losses.of(candidate)
        against = []
        if lost.from_untagged:
            against.append(reasons.CONTENT_FROM_UNTAGGED_COPIES.filled(n=f"{lost.from_untagged:,}"))
        if lost.discarded:
            against.append(reasons.BLOCKS_DISCARDED.filled(n=f"{lost.discarded:,}"))
        if source == NO_MAP:
            against += _without_map(extents.get(candidate), block_size)
            found.append((Grade.OVERWRITTEN, against))
        else:
            found.append(_grade(blocks, checks, candidate, lost, against))
    return Grading([grade for grade, _ in found], [tuple(why) for _, why in found])


def check_candidates(blocks: BlockAttribution, losses: Losses, maps: RebuiltMaps) -> CheckResults:
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
    partial.append((contradicted, reasons.UNMOUNT_DISK_CONFLICT))
    consistent = [*consistent, (losses.may_be_discarded, reasons.ZEROS_POSSIBLY_DISCARDED)]
    return CheckResults(_by_candidate(partial), _by_candidate(consistent))


def _by_candidate(pairs: list[tuple[Bools, Reason]]) -> dict[int, list[Reason]]:
    found: dict[int, list[Reason]] = {}
    for doubtful, reason in pairs:
        for candidate in np.flatnonzero(doubtful).tolist():
            found.setdefault(candidate, []).append(reason)
    return found


def _stale_extents(blocks: BlockAttribution) -> dict[int, tuple[int, int]]:
    """(extents, logical start of the last) of candidates without a map, if several."""
    candidates = blocks.candidates
    places = np.flatnonzero(candidates.map_source == NO_MAP)
    starts, count = stale_extent_starts(
        blocks.history.states.table.take(candidates.state_row[places])
    )
    several = np.flatnonzero(count > 1)
    last = starts[several, count[several] - 1]
    rows = np.stack([places[several], count[several], last], axis=1).tolist()
    return {candidate: (extents, begin) for candidate, extents, begin in rows}


def _without_map(extents: tuple[int, int] | None, block_size: int) -> list[Reason]:
    """Reasons of a candidate without a map, with the extents that its inode shows."""
    found = [reasons.NO_BLOCK_MAP]
    if extents is not None:
        count, last = extents
        found.append(reasons.EXTENT_COUNT.filled(n=count, size=f"{last * block_size:,}"))
    return found


def _grade(
    blocks: BlockAttribution,
    checks: CheckResults,
    candidate: int,
    lost: CandidateLosses,
    against: list[Reason],
) -> tuple[Grade, list[Reason]]:
    """Grade and reasons of a candidate with a map."""
    inode, count = blocks.deletion.inode[candidate], blocks.block_counts[candidate]
    against += checks.partial.get(candidate, ())
    if inode.is_inline and lacks_inline_data(inode):
        against.append(reasons.INLINE_DATA_INCOMPLETE)
    if blocks.tree_block_reused[candidate]:
        against.append(reasons.MAP_BLOCK_REUSED)
    if not count and _changed_later(blocks, candidate, inode):
        against.append(reasons.CHANGED_AFTER_LAST_STATE)
    missing = total_blocks(lost.pieces)
    grade = Grade.PARTIAL if against or missing else Grade.INTACT
    if grade is Grade.INTACT and candidate in checks.consistent:
        against += checks.consistent[candidate]
        grade = Grade.CONSISTENT
    if count and missing >= count:
        grade = Grade.OVERWRITTEN
    if inode.is_encrypted:
        against.append(reasons.ENCRYPTED)
    if lost.from_tagged:
        against.insert(0, reasons.CONTENT_FROM_JOURNAL.filled(n=f"{lost.from_tagged:,}"))
        grade = Grade.CONSISTENT if grade is Grade.INTACT else grade
    return grade, against


def _changed_later(blocks: BlockAttribution, candidate: int, inode: Inode) -> bool:
    """Whether a file may have got blocks between its last, empty state and its deletion.

    Freeing blocks sets mtime. Assumed true for states and deletions from fast commits.
    """
    deletion = blocks.deletion
    if inode.kind != "file" or inode.is_inline:
        return False
    tid = deletion.tid[candidate]
    if (
        TID_PRE_FAST_COMMIT <= tid < TID_ON_DISK
        or inode.number in blocks.history.freed_by_fast_commits
    ):
        return True
    freed = deletion.freed_mtime[candidate]
    return freed is not None and freed != inode.mtime
