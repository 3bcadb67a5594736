"""Odds that the files in a part of a matching are all shifted by the same few places.

A run is a sequence of contiguous contents whose files were created one after the other. The order
of the contents determines the order of their files. Only the evidence for each pair (types, names
in contents, known neighbours) shows which file the first content belongs to. A large file that was
created among small ones lies elsewhere on the disk, and the order does not show which file of a run
of similar ones that is. Each such alternative changes many pairs at once, and belief propagation
gives it too little weight. These alternatives are therefore weighed here one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.types import Bools, Float32s, Float64s, Int64s
from ext4kit.matching.hmm import MatchingInput, Posteriors, emission_matrix
from ext4kit.matching.transitions import NOTHING, Adjacency

_ASSIGNED = 0.5  # probability from which on a file is the likely one of a content
_MAX_SHIFT = 8  # maximum shift, in files
_P_BREAK = 0.08  # share of files that are not next to the previous file or change places with it
_NEGLIGIBLE = math.log(1e-5)  # logarithm of the odds below which longer shifts are not examined
_SMALLEST = 1e-30  # smallest likelihood ratio


def shift_odds(problem: MatchingInput, found: Posteriors) -> Float64s:
    """Odds of alternatives that shift a part of a run, relative to the likeliest matching.

    Args:
        problem: contents and files.
        found: the posterior probabilities of this problem.

    Returns:
        float (contents,): sum of the odds of all alternatives in which the content belongs to
        another file than its likely one; 0 where it has no likely file.
    """
    contents, files = problem.size
    assigned = np.full(contents, NOTHING)
    likely = np.flatnonzero(found.probability > _ASSIGNED)
    assigned[found.observation[likely]] = found.state[likely]
    mirrored = np.where(assigned != NOTHING, files - 1 - assigned, NOTHING)[::-1]
    evidence = emission_matrix(problem)
    contiguous = problem.observed.adjacency[1:] <= Adjacency.CONTIGUOUS_MIXED
    to_later = _Runs(evidence, assigned, contiguous).shift_odds()
    to_earlier = _Runs(evidence[::-1, ::-1], mirrored, contiguous[::-1]).shift_odds()
    return to_later + to_earlier[::-1]


@dataclass(frozen=True, slots=True)
class _Shift:
    """An alternative: each content from `first` to `last` gets the file `step` places later.

    Attributes:
        displaced: (content, file) for each content that had one of these files, with the file that
            it gets instead.
    """

    first: int
    last: int
    step: int
    displaced: list[tuple[int, int]]


class _Runs:
    """The runs of a matching.

    Args:
        evidence: float32 (contents, files), likelihood ratio of each pair.
        assigned: int64 (contents,), file of each content, NOTHING for none.
        contiguous: bool (contents - 1,), True where a content is contiguous with the next one.
    """

    def __init__(self, evidence: Float32s, assigned: Int64s, contiguous: Bools) -> None:
        self._evidence = evidence
        self._file: list[int] = assigned.tolist()
        rows = np.flatnonzero(assigned != NOTHING)
        self._owner = dict(zip(assigned[rows].tolist(), rows.tolist(), strict=True))
        follows = contiguous & (assigned[:-1] != NOTHING) & (np.diff(assigned) == 1)
        # whether a content follows the previous content of its run
        self._follows: list[bool] = [False, *follows.tolist(), False]
        self._stretch: list[int] = np.cumsum(np.append(False, ~contiguous)).tolist()
        run = np.cumsum(np.append(True, ~follows))
        first, last = np.flatnonzero(starts_group(run)), np.flatnonzero(ends_group(run))
        there = assigned[first] != NOTHING
        self._runs = list(zip(first[there].tolist(), last[there].tolist(), strict=True))

    def shift_odds(self) -> Float64s:
        """Per content: odds that it belongs to a later file, or is displaced by such a shift."""
        change, others = np.zeros(len(self._file) + 1), np.zeros(len(self._file))
        for start, last in self._runs:
            for step in range(1, _MAX_SHIFT + 1):
                for shift, weight in self._shifts(start, last, step):
                    change[shift.first] += weight
                    change[shift.last + 1] -= weight
                    others[[content for content, _ in shift.displaced]] += weight
        return np.cumsum(change)[:-1] + others

    def _shifts(self, start: int, last: int, step: int) -> Iterator[tuple[_Shift, float]]:
        """Shifts of the last contents of a run, with their odds, until these become negligible."""
        beyond, own = self._file[last] + 1, 0.0
        if beyond + step > self._evidence.shape[1]:
            return
        for first in range(last, start - 1, -1):
            own += self._gain(first, self._file[first] + step)
            if own < _NEGLIGIBLE:
                return
            taken = max(beyond, self._file[first] + step)
            displaced = [
                (self._owner[taken + at], self._file[first] + at)
                for at in range(min(step, last - first + 1))
                if taken + at in self._owner
            ]
            shift = _Shift(first, last, step, displaced)
            odds = own + sum(self._gain(*pair) for pair in displaced)
            odds += math.log(_P_BREAK) * self._breaks(shift, start)
            yield shift, math.exp(min(odds, 0))

    def _gain(self, content: int, file: int) -> float:
        """Logarithm of the likelihood ratio of a file and the file that the content has."""
        other, own = self._evidence[content, [file, self._file[content]]].tolist()
        return math.log(max(other, _SMALLEST) / max(own, _SMALLEST))

    def _breaks(self, shift: _Shift, start: int) -> int:
        """Number of breaks by the shift in the order of a run or of contiguous contents."""
        moved = {content for content, _ in shift.displaced}
        breaks = shift.step if shift.first > start else 0
        for content in moved:
            breaks += self._follows[content] and content - 1 not in moved
            breaks += self._follows[content + 1] and content + 1 not in moved
        return breaks + (self._stretch[shift.last] in {self._stretch[one] for one in moved})
