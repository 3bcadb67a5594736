"""Contents in the order of the disk, each given the file that it is, as far as that can be told.

A hidden Markov model goes along the disk. A step is the next content. A state is which file it is,
of those that were made and are asked for (`transitions`). Known files around it, names that fit it
and names that it mentions say which. Each file has one content: what one row of contents claims,
no other row has, and what none claims is likelier where it may be. Rows exchange messages until
they agree (belief propagation). The answer is how likely each pair is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Float32s, Float64s, Int64s, Rows
from ext4kit.matching.transitions import (
    BACKWARD,
    NOTHING,
    Adjacency,
    TransitionModel,
    TransitionParams,
)

Mentions = dict[int, tuple[Int64s, Float64s]]  # content -> files, how much likelier each is
Progress = Callable[[int, int], None]

_MAX_ITERATIONS = 12
_CONVERGED = 0.004  # no pair changes by more in a round
_REESTIMATE_ITERATIONS = 5  # rounds in which habits and rows are looked at anew
_DAMPING = 0.5
_MIN_PROBABILITY = 1e-4  # pairs that are less likely are left out
_DECAY_NEAREST, _DECAY = (
    0.3,
    1.0,
)  # how a file is less likely, each one further from where it should be
_FLOOR = 0.01  # however far it is
_P_WRONG_SIDE = 0.1  # of files lie on the wrong side of a known one that another wrote
_P_WRONG_SIDE_SAME_DIR = 0.002  # the same of one in the same folder
_SEGMENT_JUMP_FORWARD, _SEGMENT_JUMP_BACK = (
    64,
    8,
)  # files; a row of contents ends where it goes further
_MIN_ASSIGNED = 0.3
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class FileStates(Table):
    """Files that are asked for, in the order in which they were made.

    Attributes:
        name_class: int64 (n,), row of the table of fits.
        p_absent: float (n,), how likely its content is not there.
        directory: int64 (n,), a number for each folder, NOTHING where it is not known.
    """

    name_class: Int64s
    p_absent: Float64s
    directory: Int64s


@dataclass(frozen=True, slots=True)
class NeighbourFiles(Table):
    """The nearest known file in front of each content, or behind it.

    Attributes:
        rank: int64 (m,), how many of the files asked for were made before it; NOTHING for none.
        contents_between: int64 (m,), contents from there up to this one, itself not counted.
        same_group: bool (m,), they lie in one row, and all of them are small or all large.
        folder: int64 (m,), its folder, numbered as in `FileStates`.
    """

    rank: Int64s
    contents_between: Int64s
    same_group: Bools
    folder: Int64s


@dataclass(frozen=True, slots=True)
class Observations(Table):
    """Contents in the order of the disk.

    Attributes:
        content_class: int64 (m,), column of the table of fits.
        adjacency: int64 (m,), a `Adjacency` to the content in front.
        p_unassigned: float (m,), how likely it is of no file that is asked for.
        previous, next: known files beside it.
        known_file: int64 (m,), the file that this is a run of when that is known, NOTHING for
            contents.
    """

    content_class: Int64s
    adjacency: Int64s
    p_unassigned: Float64s
    previous: NeighbourFiles
    next: NeighbourFiles
    known_file: Int64s

    @property
    def restart_rank(self) -> Int64s:
        """Files made before the known one right in front of each content, NOTHING for none."""
        return np.where(self.previous.contents_between == 0, self.previous.rank, NOTHING)


@dataclass(frozen=True, slots=True)
class Posteriors:
    """Pairs of a content and a file, the likelier ones.

    Attributes:
        observation, state: int64 (k,), rows; `observation` ascends.
        probability: float (k,), probability of the pair.
        expected_count: float (files,), how likely each file has one of the contents.
        backward_share: of all steps, those back to a file that was made before.
    """

    observation: Rows
    state: Rows
    probability: Float64s
    expected_count: Float64s
    backward_share: float


@dataclass(slots=True)
class _Messages:
    """What the rows of contents tell each other of the files.

    Attributes:
        default: float (n,), how much likelier a file is for a row that does not claim it yet.
        keys: int64, row of contents * n + file, ascending; factor: how much likelier it is there.
        segment: int64 (m,), the row of each content.
    """

    default: Float64s
    keys: Int64s
    factor: Float64s
    segment: Int64s
    _of: dict[int, Float64s] = field(default_factory=dict)

    def for_observation(self, content: int) -> Float64s:
        """How much likelier each file is for a content."""
        row, count = int(self.segment[content]), len(self.default)
        if row not in self._of:
            low, high = np.searchsorted(self.keys, [row * count, (row + 1) * count])
            every = self.default.copy()
            every[self.keys[low:high] % count] = self.factor[low:high]
            self._of = {row: every}
        return self._of[row]


@dataclass(frozen=True, slots=True)
class _ForwardBackward:
    """What one way along the disk and back gives; pairs by content."""

    content: Rows
    file: Rows
    chance: Float64s
    transition_counts: Float64s
    successor_counts: Float64s
    restart_counts: Float64s


def posterior_pairs(
    lying: Observations,
    files: FileStates,
    mentions: Mentions,
    fits: Float64s,
    progress: Progress | None = None,
) -> Posteriors:
    """How likely each content is that of each file.

    Args:
        lying: contents.
        files: files, in order; at least one, and one content.
        mentions: what the contents say themselves.
        fits: float (rows, columns), how much more likely a content like that is with a name
            like this than with any.
        progress: called with (rounds done, rounds in all).
    """
    evidence = _emission_matrix(lying, files, fits, mentions)
    laying, usual = TransitionModel(files.directory), TransitionParams.usual()
    habits, count = usual, len(files)
    odds = files.p_absent / (1 - files.p_absent)
    none = np.zeros(0, np.int64)
    told = _Messages(np.ones(count), none, none.astype(float), np.zeros(len(lying), np.int64))
    before = np.zeros(0)
    for turn in range(_MAX_ITERATIONS):
        found = _forward(lying, evidence, laying, habits, told)
        if turn < _REESTIMATE_ITERATIONS:
            habits = usual.reestimate(
                found.transition_counts, found.successor_counts, found.restart_counts
            )
            row = _segments(lying, found)
        told = _update_messages(found, row, told, odds)
        if progress:
            progress(turn + 1, _MAX_ITERATIONS)
        if len(before) == len(found.chance) and np.abs(before - found.chance).max() < _CONVERGED:
            break
        before = found.chance
    if progress:
        progress(_MAX_ITERATIONS, _MAX_ITERATIONS)
    claimed = np.asarray(np.bincount(found.file, found.chance, count), np.float64)
    disorder = float(found.transition_counts[:, BACKWARD].sum() / len(lying))
    return Posteriors(found.content, found.file, found.chance, claimed, disorder)


def _emission_matrix(
    lying: Observations, files: FileStates, fits: Float64s, mentions: Mentions
) -> Float32s:
    """float32 (m, n): how much likelier a content is that of a file than that of any."""
    count = len(files)
    found = np.empty((len(lying), count), np.float32)
    names = fits[files.name_class]  # (n, columns)
    taken = lying.known_file[lying.known_file != NOTHING]
    first = (
        np.append(lying.adjacency[1:] > Adjacency.CONTIGUOUS_LARGE, True),
        lying.adjacency > Adjacency.CONTIGUOUS_LARGE,
    )
    every = np.arange(count)
    for content in range(len(lying)):
        if lying.known_file[content] != NOTHING:
            found[content] = every == lying.known_file[content]
            continue
        one = names[:, lying.content_class[content]].copy()
        if lying.previous.same_group[content]:
            place = every - lying.previous.rank[content]
            one *= _neighbour_likelihood(
                place, lying.previous, content, bool(first[1][content]), files.directory
            )
        if lying.next.same_group[content]:
            place = lying.next.rank[content] - 1 - every
            one *= _neighbour_likelihood(
                place, lying.next, content, bool(first[0][content]), files.directory
            )
        if content in mentions:
            file, likelier = mentions[content]
            one[file] *= likelier
        one[taken] = 0
        found[content] = one
    return found


def _neighbour_likelihood(
    place: Int64s, beside: NeighbourFiles, content: int, alone: bool, folder: Int64s
) -> Float64s:
    """How well each file fits a known one beside a content.

    Args:
        place: int64 (n,), how many files it is away from the known one, below 0 on its wrong side.
        beside: known files on that side.
        content: its row.
        alone: no other content in its row lies on that side; the others tell more.
        folder: of each file.
    """
    off = np.abs(place - beside.contents_between[content])
    found = np.maximum((_DECAY_NEAREST if alone else _DECAY) ** off, _FLOOR)
    ahead = np.where(folder == beside.folder[content], _P_WRONG_SIDE_SAME_DIR, _P_WRONG_SIDE)
    ahead[folder == NOTHING] = _P_WRONG_SIDE
    likely: Float64s = np.where(place < 0, found * ahead, found)
    return likely


def _forward(
    lying: Observations,
    evidence: Float32s,
    laying: TransitionModel,
    habits: TransitionParams,
    told: _Messages,
) -> _ForwardBackward:
    """Forward and backward: how likely each pair is, and how often each way was gone."""
    count, files = evidence.shape
    last = np.empty((count + 1, files), np.float32)  # which file the last content was of
    last[0] = 1 / files
    scale = np.empty(count)
    for at in range(count):
        before, strange = last[at].astype(float), lying.p_unassigned[at]
        link, made = int(lying.adjacency[at]), int(lying.restart_rank[at])
        own = laying.forward(before, link, habits)
        if made != NOTHING:
            share = habits.restart[int(lying.previous.same_group[at])]
            own *= 1 - share
            own += share * laying.restart_forward(before, made, habits.skip[0])
        own *= evidence[at]
        own *= told.for_observation(at)
        own *= 1 - strange
        own += strange * before
        scale[at] = own.sum()
        last[at + 1] = own / scale[at]
    return _backward(lying, evidence, (laying, habits, told), last, scale)


def _backward(
    lying: Observations,
    evidence: Float32s,
    model: tuple[TransitionModel, TransitionParams, _Messages],
    last: Float32s,
    scale: Float64s,
) -> _ForwardBackward:
    laying, habits, told = model
    count, files = evidence.shape
    ahead = np.ones(files)
    pairs: list[tuple[Rows, Rows, Float64s]] = []
    seen, next_ones, anew = (
        np.zeros((len(Adjacency), 4)),
        np.zeros(len(Adjacency)),
        np.zeros((2, 2)),
    )
    for at in range(count - 1, -1, -1):
        before, strange, link = (
            last[at].astype(float),
            lying.p_unassigned[at],
            int(lying.adjacency[at]),
        )
        passed = ahead * (strange / scale[at])
        chance = last[at + 1] * ahead - passed * before
        kept = np.flatnonzero(chance > _MIN_PROBABILITY)
        pairs.append((np.full(len(kept), at), kept, chance[kept]))
        ahead *= evidence[at]
        ahead *= told.for_observation(at)
        ahead *= (1 - strange) / scale[at]
        made = int(lying.restart_rank[at])
        share, known = 0.0, np.zeros(0)
        if made != NOTHING:
            close = int(lying.previous.same_group[at])
            share = habits.restart[close]
            known = share * laying.restart_backward(ahead, made, habits.skip[0])
            anew[close] += known @ before, 0
        ahead, ways, nearest = laying.backward(ahead * (1 - share), before, link, habits)
        if made != NOTHING:
            anew[close, 1] += ways.sum()
            ahead += known
        ahead += passed
        seen[link] += ways
        next_ones[link] += nearest
    columns = [np.concatenate(column) for column in zip(*pairs[::-1], strict=True)]
    chance = np.clip(columns[2], _EPSILON, 1 - _EPSILON)
    return _ForwardBackward(columns[0], columns[1], chance, seen, next_ones, anew)


def _segments(lying: Observations, found: _ForwardBackward) -> Int64s:
    """int64 (m,): the row of contents that each is in; in one of them no file comes twice.

    A row ends where the files go far on or back, as it seems.
    """
    place = np.full(len(lying), NOTHING)
    order = np.argsort(found.chance, kind="stable")
    order = order[found.chance[order] > _MIN_ASSIGNED]
    place[found.content[order]] = found.file[order]
    known = np.flatnonzero(place != NOTHING)
    step = np.diff(place[known])
    cut = lying.adjacency > Adjacency.CONTIGUOUS_LARGE
    cut[known[1:][(step > _SEGMENT_JUMP_FORWARD) | (step < -_SEGMENT_JUMP_BACK)]] = True
    return np.cumsum(cut)


def _update_messages(
    found: _ForwardBackward, row: Int64s, before: _Messages, odds: Float64s
) -> _Messages:
    """What rows tell each other after a pass.

    Args:
        found: pairs.
        row: of each content.
        before: what they were told.
        odds: float (n,), of a file's content being absent.
    """
    count = len(odds)
    keys, back = np.unique(row[found.content] * count + found.file, return_inverse=True)
    chance = np.clip(np.bincount(back, found.chance), _EPSILON, 1 - _EPSILON)
    file = keys % count
    earlier = np.empty(len(keys))
    earlier[back] = _message_of_pairs(before, found)
    claim = chance / (1 - chance) / earlier
    every = np.bincount(file, claim, count)
    others = np.maximum(every[file] - claim, 0)
    factor = (odds[file] + others) ** (_DAMPING - 1) * earlier**_DAMPING
    usual = (odds + every) ** (_DAMPING - 1) * before.default**_DAMPING
    return _Messages(usual, keys, factor, row)


def _message_of_pairs(told: _Messages, found: _ForwardBackward) -> Float64s:
    """float: how much likelier each pair was said to be."""
    usual = told.default[found.file]
    if not len(told.keys):
        return usual
    keys = told.segment[found.content] * len(told.default) + found.file
    at = np.minimum(np.searchsorted(told.keys, keys), len(told.keys) - 1)
    return np.where(told.keys[at] == keys, told.factor[at], usual)
