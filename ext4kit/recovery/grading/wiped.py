"""Candidates whose bytes a wiping program may have written."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.history.wiping import STEP, Wiping
from ext4kit.reasons import Reason
from ext4kit.recovery.attribution import BlockAttribution


def wiping_checks(
    blocks: BlockAttribution, wiped: Mapping[int, Wiping], is_certain: bool
) -> tuple[Bools, Reason]:
    """(True for each candidate whose bytes may be those of a wiping program, the reason).

    Args:
        blocks: block attribution of the candidates.
        wiped: the wiping of candidates of wiped files.
        is_certain: which of these to check.
    """
    found = np.zeros(len(blocks.candidates), bool)
    for candidate, wiping in wiped.items():
        if wiping.is_certain == is_certain:
            found[candidate] = _may_be_wiped(blocks, candidate)
    return found, reasons.CONTENT_WIPED if is_certain else reasons.MAYBE_WIPED


def _may_be_wiped(blocks: BlockAttribution, candidate: int) -> bool:
    """Whether a candidate is the wiped file, one of its states then, or has its blocks."""
    candidates, states = blocks.candidates, blocks.history.states
    if not candidates.superseded[candidate]:
        return True
    row = int(candidates.state_row[candidate])
    first, end = np.searchsorted(states.instance, states.instance[row] + np.arange(2)).tolist()
    linked = np.arange(first, end)[states.is_linked[first:end]]
    by_program = linked[_last_writes(states.table.mtime[linked]) :]
    if row in by_program:
        return True
    copies = blocks.tagged.get(candidate, ((), ()))[0]
    if len(copies) == blocks.block_counts[candidate]:
        return False  # read from the journal alone
    own, runs = blocks.runs_of(candidate), blocks.history.map_states(by_program).runs
    return bool(len(overlap_pairs(own.physical, own.length, runs.physical, runs.length)[0]))


def _last_writes(mtime: Int64s) -> int:
    """Index of the first of the states at the end that follow each other within a short time.

    A program overwrites a file several times, also with its own size.
    """
    pauses = np.flatnonzero(np.diff(mtime) > STEP)
    return int(pauses[-1]) + 1 if len(pauses) else 0
