"""Assigns files to contents in disk order, by a hidden Markov model.

A step is the next content on disk. A hidden state is the file of that content, among the searched
files in creation order (`transitions`). The evidence is known files nearby, names that match the
content and names in the content. Each file has at most one content: a file that one segment claims
is less likely in the others, and a file that none claims is more likely. Segments exchange messages
until they agree (belief propagation). The result is the posterior probability of each pair.
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

Mentions = dict[int, tuple[Int64s, Float64s]]  # content -> files, likelihood ratio of each
Progress = Callable[[int, int], None]

_MAX_ITERATIONS = 12
_CONVERGED = 0.004  # maximum change of a pair in an iteration
_REESTIMATE_ITERATIONS = 5  # iterations that update transition parameters and segments
_DAMPING = 0.5
_MIN_PROBABILITY = 1e-4  # less probable pairs are dropped
_DECAY_NEAREST, _DECAY = (
    0.3,
    1.0,
)  # factor for each file of distance from the expected rank
_FLOOR = 0.01  # minimum factor at any distance
_P_WRONG_SIDE = 0.1  # share of files on the wrong side of a known file of another writer
_P_WRONG_SIDE_SAME_DIR = 0.002  # the same within one directory
_SEGMENT_JUMP_FORWARD, _SEGMENT_JUMP_BACK = (
    64,
    8,
)  # files; a larger step ends a segment
_MIN_ASSIGNED = 0.3
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class FileStates(Table):
    """Searched files, in creation order.

    Attributes:
        name_class: int64 (n,), row of the likelihood table.
        p_absent: float (n,), probability that the content of the file is not there.
        directory: int64 (n,), index of the directory, NOTHING where it is unknown.
    """

    name_class: Int64s
    p_absent: Float64s
    directory: Int64s


@dataclass(frozen=True, slots=True)
class NeighbourFiles(Table):
    """The nearest known file before each content, or after it.

    Attributes:
        rank: int64 (m,), number of searched files created before it; NOTHING for no known file.
        contents_between: int64 (m,), contents between it and this one, excluding both.
        same_group: bool (m,), True where they are contiguous, and all of them are small or all
            large.
        folder: int64 (m,), its directory, indexed as in `FileStates`.
    """

    rank: Int64s
    contents_between: Int64s
    same_group: Bools
    folder: Int64s


@dataclass(frozen=True, slots=True)
class Observations(Table):
    """Contents in disk order.

    Attributes:
        content_class: int64 (m,), column of the likelihood table.
        adjacency: int64 (m,), an `Adjacency` to the previous content.
        p_unassigned: float (m,), probability that the content belongs to no searched file.
        previous, next: nearest known files.
        known_file: int64 (m,), the file of a run whose file is known, NOTHING for contents.
    """

    content_class: Int64s
    adjacency: Int64s
    p_unassigned: Float64s
    previous: NeighbourFiles
    next: NeighbourFiles
    known_file: Int64s

    @property
    def restart_rank(self) -> Int64s:
        """Number of files created before the known file directly in front, NOTHING for none."""
        return np.where(self.previous.contents_between == 0, self.previous.rank, NOTHING)


@dataclass(frozen=True, slots=True)
class Posteriors:
    """Pairs of a content and a file with sufficient probability.

    Attributes:
        observation, state: int64 (k,), rows; `observation` ascends.
        probability: float (k,), posterior probability of the pair.
        expected_count: float (files,), expected number of contents of each file.
        backward_share: share of steps to a file that was created earlier.
    """

    observation: Rows
    state: Rows
    probability: Float64s
    expected_count: Float64s
    backward_share: float


@dataclass(slots=True)
class _Messages:
    """Messages between segments about the files.

    Attributes:
        default: float (n,), factor of a file in a segment that does not claim it.
        keys: int64, segment * n + file, ascending; factor: factor of the file in that segment.
        segment: int64 (m,), segment of each content.
    """

    default: Float64s
    keys: Int64s
    factor: Float64s
    segment: Int64s
    _of: dict[int, Float64s] = field(default_factory=dict)

    def for_observation(self, content: int) -> Float64s:
        """Float (n,): factor of each file for a content."""
        row, count = int(self.segment[content]), len(self.default)
        if row not in self._of:
            low, high = np.searchsorted(self.keys, [row * count, (row + 1) * count])
            every = self.default.copy()
            every[self.keys[low:high] % count] = self.factor[low:high]
            self._of = {row: every}
        return self._of[row]


@dataclass(frozen=True, slots=True)
class _ForwardBackward:
    """Result of one forward and backward pass; pairs by content."""

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
    """Posterior probabilities of contents and files.

    Args:
        lying: contents in disk order, at least one.
        files: files in creation order, at least one.
        mentions: likelihood ratios from names in the contents.
        fits: float (rows, columns), likelihood ratio of a content class given a name class,
            relative to any name.
        progress: called with (iterations done, total iterations).
    """
    evidence = _emission_matrix(lying, files, fits, mentions)
    laying, usual = TransitionModel(files.directory), TransitionParams.usual()
    habits, count = usual, len(files)
    odds = files.p_absent / (1 - files.p_absent)
    none = np.zeros(0, np.int64)
    messages = _Messages(np.ones(count), none, none.astype(float), np.zeros(len(lying), np.int64))
    before = np.zeros(0)
    for iteration in range(_MAX_ITERATIONS):
        found = _forward(lying, evidence, laying, habits, messages)
        if iteration < _REESTIMATE_ITERATIONS:
            habits = usual.reestimate(
                found.transition_counts, found.successor_counts, found.restart_counts
            )
            row = _segments(lying, found)
        messages = _update_messages(found, row, messages, odds)
        if progress:
            progress(iteration + 1, _MAX_ITERATIONS)
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
    """float32 (m, n): likelihood ratio of each content given each file, relative to any file."""
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
    """Likelihood factor of each file, given a known file on one side of a content.

    Args:
        place: int64 (n,), distance from the known file in files, below 0 on its wrong side.
        beside: known files on that side.
        content: row of the content.
        alone: whether no other content of the segment is on that side; contents closer to the
            known file give stronger evidence.
        folder: directory of each file.
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
    messages: _Messages,
) -> _ForwardBackward:
    """Forward and backward pass: probability of each pair, and expected counts of transitions."""
    count, files = evidence.shape
    last = np.empty((count + 1, files), np.float32)  # file of the last assigned content
    last[0] = 1 / files
    scale = np.empty(count)
    for at in range(count):
        before, p_unassigned = last[at].astype(float), lying.p_unassigned[at]
        link, made = int(lying.adjacency[at]), int(lying.restart_rank[at])
        own = laying.forward(before, link, habits)
        if made != NOTHING:
            share = habits.restart[int(lying.previous.same_group[at])]
            own *= 1 - share
            own += share * laying.restart_forward(before, made, habits.skip[0])
        own *= evidence[at]
        own *= messages.for_observation(at)
        own *= 1 - p_unassigned
        own += p_unassigned * before
        scale[at] = own.sum()
        last[at + 1] = own / scale[at]
    return _backward(lying, evidence, (laying, habits, messages), last, scale)


def _backward(
    lying: Observations,
    evidence: Float32s,
    model: tuple[TransitionModel, TransitionParams, _Messages],
    last: Float32s,
    scale: Float64s,
) -> _ForwardBackward:
    laying, habits, messages = model
    count, files = evidence.shape
    ahead = np.ones(files)
    pairs: list[tuple[Rows, Rows, Float64s]] = []
    transition_counts, successor_counts, restart_counts = (
        np.zeros((len(Adjacency), 4)),
        np.zeros(len(Adjacency)),
        np.zeros((2, 2)),
    )
    for at in range(count - 1, -1, -1):
        before, p_unassigned, link = (
            last[at].astype(float),
            lying.p_unassigned[at],
            int(lying.adjacency[at]),
        )
        passed = ahead * (p_unassigned / scale[at])
        chance = last[at + 1] * ahead - passed * before
        kept = np.flatnonzero(chance > _MIN_PROBABILITY)
        pairs.append((np.full(len(kept), at), kept, chance[kept]))
        ahead *= evidence[at]
        ahead *= messages.for_observation(at)
        ahead *= (1 - p_unassigned) / scale[at]
        made = int(lying.restart_rank[at])
        share, known = 0.0, np.zeros(0)
        if made != NOTHING:
            close = int(lying.previous.same_group[at])
            share = habits.restart[close]
            known = share * laying.restart_backward(ahead, made, habits.skip[0])
            restart_counts[close] += known @ before, 0
        ahead, ways, nearest = laying.backward(ahead * (1 - share), before, link, habits)
        if made != NOTHING:
            restart_counts[close, 1] += ways.sum()
            ahead += known
        ahead += passed
        transition_counts[link] += ways
        successor_counts[link] += nearest
    columns = [np.concatenate(column) for column in zip(*pairs[::-1], strict=True)]
    chance = np.clip(columns[2], _EPSILON, 1 - _EPSILON)
    return _ForwardBackward(
        columns[0], columns[1], chance, transition_counts, successor_counts, restart_counts
    )


def _segments(lying: Observations, found: _ForwardBackward) -> Int64s:
    """int64 (m,): segment of each content; within a segment no file occurs twice.

    A segment ends where the probable files jump far forward or backward.
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
    """Messages between segments after one forward/backward pass.

    Args:
        found: pairs.
        row: segment of each content.
        before: previous messages.
        odds: float (n,), odds that the content of a file is absent.
    """
    count = len(odds)
    keys, back = np.unique(row[found.content] * count + found.file, return_inverse=True)
    chance = np.clip(np.bincount(back, found.chance), _EPSILON, 1 - _EPSILON)
    file = keys % count
    earlier = np.empty(len(keys))
    earlier[back] = _message_of_pairs(before, found)
    claim = chance / (1 - chance) / earlier
    every = np.bincount(file, claim, count)
    from_others = np.maximum(every[file] - claim, 0)
    factor = (odds[file] + from_others) ** (_DAMPING - 1) * earlier**_DAMPING
    usual = (odds + every) ** (_DAMPING - 1) * before.default**_DAMPING
    return _Messages(usual, keys, factor, row)


def _message_of_pairs(messages: _Messages, found: _ForwardBackward) -> Float64s:
    """float: factor that the messages gave each pair."""
    usual = messages.default[found.file]
    if not len(messages.keys):
        return usual
    keys = messages.segment[found.content] * len(messages.default) + found.file
    at = np.minimum(np.searchsorted(messages.keys, keys), len(messages.keys) - 1)
    return np.where(messages.keys[at] == keys, messages.factor[at], usual)
