"""Matches deleted files with carved contents in disk order, by a hidden Markov model.

Each step goes to the next carved content on disk. The hidden state is the file that this content
belongs to, among the searched files in creation order (`transitions`). The evidence consists of
known files nearby, file names that match the class of the content, and names that occur in the
content. Each file has at most one carved content: a file that one segment claims becomes less
likely in the other segments, and a file that no segment claims becomes more likely. Segments
exchange messages until their claims agree (belief propagation). The result is the posterior
probability of each pair of a content and a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Float32s, Float64s, Int64s, Rows
from ext4kit.matching.content_classes import ANY_NAME
from ext4kit.matching.transitions import (
    BACKWARD,
    JUMP,
    NOTHING,
    Adjacency,
    RestartModel,
    TransitionModel,
    TransitionParams,
)
from ext4kit.units import Progress

Mentions = dict[int, tuple[Int64s, Float64s]]  # content -> files, likelihood ratio of each

_MAX_ITERATIONS = 12
_CONVERGED = 0.004  # maximum change of a likely pair's probability in the last iteration
_LIKELY = 0.9
_REESTIMATE_ITERATIONS = 5  # iterations that update transition parameters and segments
_LEARN_AFTER = 2  # iteration after which the types for each name are learned from likely pairs
_LEARN_WEIGHT = 10  # weight of the expected types, as a number of pairs
_DAMPING = 0.5
_MIN_PROBABILITY = 1e-4  # less probable pairs are dropped
_DECAY_NEAREST = 0.3  # factor for each file by which the rank differs from the expected one
_FLOOR, _REACH = 0.01, 5  # minimum factor; difference in files from which on it applies
_MAX_CELLS = 20_000_000  # maximum contents * files of the problems that are solved at a time
_ALIKE = 0.6  # minimum contents of a problem, as a share of the largest one's
_P_WRONG_SIDE = 0.1  # share of files on the wrong side of a known file of another writer
_P_WRONG_SIDE_SAME_DIR = 0.002  # the same within one directory
_SEGMENT_JUMP_FORWARD, _SEGMENT_JUMP_BACK = (
    64,
    8,
)  # in files; a larger step ends a segment
_MIN_ASSIGNED = 0.3
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class FileStates(Table):
    """Searched files, in creation order.

    Attributes:
        name_class: int64 (n,), row of the likelihood table.
        p_absent: float (n,), probability that the content of the file is no longer on the disk.
        directory: int64 (n,), index of the directory of the file, NOTHING if unknown.
    """

    name_class: Int64s
    p_absent: Float64s
    directory: Int64s


@dataclass(frozen=True, slots=True)
class NeighbourFiles(Table):
    """The nearest known file on one side of each content, either before it or after it.

    Attributes:
        rank: int64 (m,), number of searched files created before the known file; NOTHING if there
            is no known file.
        contents_between: int64 (m,), number of contents between the known file and the content.
        same_group: bool (m,), True where everything from the known file to the content is
            contiguous, and all of it is small or all of it large.
        folder: int64 (m,), directory of the known file, indexed as in `FileStates`.
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
        previous, next: nearest known files before and after each content.
        known_file: int64 (m,), the file of a row that is a run of a known file; NOTHING for carved
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
        """Per content: `previous.rank` if the known file is directly before it, else NOTHING."""
        return np.where(self.previous.contents_between == 0, self.previous.rank, NOTHING)


@dataclass(frozen=True, slots=True)
class MatchingInput:
    """One matching problem: carved contents and the files that they may belong to.

    Attributes:
        observed: contents in disk order, at least one.
        files: files in creation order, at least one.
        mentions: likelihood ratios from names in the contents.
        fits: float (name classes, content classes), the likelihood table: likelihood ratio of a
            content class given a name class, relative to any name.
    """

    observed: Observations
    files: FileStates
    mentions: Mentions
    fits: Float64s

    @property
    def size(self) -> tuple[int, int]:
        """(contents, files)."""
        return len(self.observed), len(self.files)


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


@dataclass(frozen=True, slots=True)
class _Pairs(Table):
    """Probable pairs of all problems of a batch, by problem, content and file.

    Attributes:
        content: problem * largest number of contents + content.
        file: problem * largest number of files + file.
        chance: float, probability.
    """

    content: Int64s
    file: Int64s
    chance: Float64s


@dataclass(frozen=True, slots=True)
class _Behind(Table):
    """Contents directly after a known file, one row for each problem with such a content.

    Attributes:
        row: the problem; close: 1 if content and known file are in the same group, else 0.
        made: number of files created before the known one.
    """

    row: Rows
    close: Rows
    made: Int64s


@dataclass(frozen=True, slots=True)
class _Counts:
    """Expected counts of each content and problem.

    Attributes:
        ways: float (m, parts, 5), number of steps NEXT, SKIP_AHEAD, BACKWARD, JUMP, and of steps to
            the very next file.
        restarts: float (m, parts), number of steps from a known file directly before the content.
    """

    ways: Float64s
    restarts: Float64s

    @classmethod
    def zeros(cls, steps: int, parts: int) -> _Counts:
        return cls(np.zeros((steps, parts, 5)), np.zeros((steps, parts)))


@dataclass(frozen=True, slots=True)
class _Messages:
    """Messages between segments about the files.

    Attributes:
        default: float32 (parts, n), factor of each file in segments that do not claim that file.
        keys: int64, segment * all files + file, ascending; factor: factor of that file in that
            segment.
        segment: int64 (parts, m), segment of each content; no two problems share one.
    """

    default: Float32s
    keys: Int64s
    factor: Float64s
    segment: Int64s

    @classmethod
    def none(cls, parts: int, contents: int, files: int) -> _Messages:
        segment = np.repeat(np.arange(parts), contents).reshape(parts, contents)
        empty = np.zeros(0, np.int64)
        return cls(np.ones((parts, files), np.float32), empty, empty.astype(float), segment)

    def factors(self, part: int, content: int) -> Float32s:
        """float32 (n,): factor of each file of the problem `part` for one content."""
        files = self.default.size
        first = self.segment[part, content] * files
        low, high = np.searchsorted(self.keys, [first, first + files])
        found: Float32s = self.default[part].copy()
        found[self.keys[low:high] - first - part * len(found)] = self.factor[low:high]
        return found

    def of(self, pairs: _Pairs) -> Float64s:
        """float: factor of each pair according to the messages."""
        usual = self.default.reshape(-1)[pairs.file].astype(float)
        keys = self.segment.reshape(-1)[pairs.content] * self.default.size + pairs.file
        row = SortedIndex(self.keys).rows(keys)
        usual[row != NO_ROW] = self.factor[row[row != NO_ROW]]
        return usual


def posterior_pairs(
    problems: Sequence[MatchingInput], progress: Progress | None = None
) -> list[Posteriors]:
    """Posterior probabilities of the pairs of contents and files of each problem.

    The problems are solved in parallel: each step handles one content of every problem.

    Args:
        problems: independent of each other.
        progress: called with (iterations done, total iterations).
    """
    batches, found = _batches(problems), dict[int, Posteriors]()
    for number, batch in enumerate(batches):
        solver = _Batch([problems[at] for at in batch])
        for iteration in range(_MAX_ITERATIONS):
            solver.iterate(reestimates=iteration < _REESTIMATE_ITERATIONS)
            if iteration == _LEARN_AFTER:
                solver.learn_types()
            if progress:
                progress(number * _MAX_ITERATIONS + iteration + 1, len(batches) * _MAX_ITERATIONS)
            if not len(solver.active):
                break
        found |= dict(zip(batch, solver.results(), strict=True))
    if progress:
        progress(len(batches) * _MAX_ITERATIONS, len(batches) * _MAX_ITERATIONS)
    return [found[at] for at in range(len(problems))]


def _batches(problems: Sequence[MatchingInput]) -> list[list[int]]:
    """Indices of the problems to solve together, of similar numbers of contents, largest first."""
    batches: list[list[int]] = []
    contents = files = 0
    for at in sorted(range(len(problems)), key=lambda at: problems[at].size, reverse=True):
        files = max(files, problems[at].size[1])
        alike = problems[at].size[0] >= _ALIKE * contents
        if batches and alike and contents * files * (len(batches[-1]) + 1) <= _MAX_CELLS:
            batches[-1].append(at)
        else:
            batches.append([at])
            contents, files = problems[at].size
    return batches


class _Batch:
    """Problems that are solved in parallel, sorted by number of contents, largest first.

    Attributes:
        active: rows of the problems whose pairs still change.
    """

    def __init__(self, problems: Sequence[MatchingInput]) -> None:
        self._problems = problems
        self._sizes = np.array([one.size for one in problems])
        parts, (contents, files) = len(problems), self._sizes.max(axis=0).tolist()
        self.active = np.arange(parts)
        self._evidence = np.zeros((contents, parts, files), np.float32)
        for part, one in enumerate(problems):
            self._evidence[: one.size[0], part, : one.size[1]] = emission_matrix(one)
        observed, searched = [one.observed for one in problems], [one.files for one in problems]
        self._adjacency = _stack([one.adjacency for one in observed], contents, Adjacency.FAR)
        self._unassigned = _stack([one.p_unassigned for one in observed], contents, 1.0)
        self._restart = _stack([one.restart_rank for one in observed], contents, NOTHING)
        self._close = _stack([one.previous.same_group.astype(int) for one in observed], contents, 0)
        self._folder = _stack([one.directory for one in searched], files, NOTHING)
        absent = _stack([one.p_absent for one in searched], files, 0.5)
        self._odds = absent / (1 - absent)
        self._params = TransitionParams.usual(parts)
        self._messages = _Messages.none(parts, contents, files)
        self._pairs, self._turned_back = _Pairs.empty(), np.zeros(parts)
        self._solved: dict[int, Posteriors] = {}

    def results(self) -> list[Posteriors]:
        """The posterior probabilities of each problem."""
        self._finish(self.active)
        return [self._solved[part] for part in range(len(self._problems))]

    def iterate(self, reestimates: bool) -> None:
        """One forward and backward pass of the active problems, then new messages.

        Args:
            reestimates: whether transition parameters and segments are updated.
        """
        before = self._pairs
        self._pairs, counts = self._forward_backward(reestimates)
        segment = self._messages.segment
        if reestimates:
            self._reestimate(counts)
            segment = self._segments()
        self._messages = self._update_messages(segment)
        done = self._unchanged(before) if not reestimates else self.active[:0]
        if len(done):
            self._finish(done)
            kept = ~np.isin(self.active, done)
            self.active, self._evidence = self.active[kept], self._evidence[:, kept]
            contents = self._adjacency.shape[1]
            self._pairs = self._pairs.take(
                np.flatnonzero(~np.isin(self._pairs.content // contents, done))
            )

    def learn_types(self) -> None:
        """Adapt the likelihood of each content class given a name class to the likely pairs."""
        contents, files = self._adjacency.shape[1], self._folder.shape[1]
        likely = self._pairs.take(self._pairs.chance > _LIKELY)
        for row, part in enumerate(self.active.tolist()):
            problem = self._problems[part]
            low, high = np.searchsorted(likely.content, [part * contents, (part + 1) * contents])
            pairs, fits = likely.take(slice(low, high)), problem.fits
            kinds, names = problem.observed.content_class, problem.files.name_class
            unknown = problem.observed.known_file == NOTHING
            usual = np.bincount(kinds[unknown], minlength=fits.shape[1]) + 0.5
            usual /= usual.sum()
            seen = np.zeros(fits.shape)
            content = pairs.content - part * contents
            file = pairs.file - part * files
            np.add.at(seen, (names[file], kinds[content]), pairs.chance)
            share = _LEARN_WEIGHT * fits * usual + seen
            share /= share.sum(axis=1, keepdims=True)
            change = share / usual / fits
            change[ANY_NAME] = 1
            size = problem.size
            self._evidence[: size[0], row, : size[1]] *= change[names][:, kinds].T

    def _reestimate(self, counts: _Counts) -> None:
        """New transition parameters of the active problems."""
        active, links = self.active, len(Adjacency)
        parts = len(active)
        link = self._adjacency[active].T + links * np.arange(parts)
        seen = np.stack(
            [_sums(link, column, parts * links) for column in np.moveaxis(counts.ways, 2, 0)],
            axis=1,
        )
        seen = seen.reshape(parts, links, -1)
        known = self._restart[active].T != NOTHING
        close = self._close[active].T + 2 * np.arange(parts)
        steps = counts.ways[..., : JUMP + 1].sum(axis=2)
        anew = [_sums(close, column * known, 2 * parts) for column in (counts.restarts, steps)]
        found = TransitionParams.usual(parts).reestimate(
            seen[..., : JUMP + 1], seen[..., JUMP + 1], np.stack(anew, axis=1).reshape(parts, 2, 2)
        )
        self._params.weights[active] = found.weights
        self._params.skip[active] = found.skip
        self._params.restart[active] = found.restart
        self._turned_back[active] = seen[..., BACKWARD].sum(axis=1)

    def _unchanged(self, before: _Pairs) -> Rows:
        """Active problems whose likely pairs have not changed since the previous iteration."""
        old, new = (pairs.take(pairs.chance > _LIKELY) for pairs in (before, self._pairs))
        contents = self._adjacency.shape[1]
        bounds = np.stack([self.active, self.active + 1]) * contents
        done = []
        for part, (low, high), (start, stop) in zip(
            self.active.tolist(),
            np.searchsorted(old.content, bounds).T.tolist(),
            np.searchsorted(new.content, bounds).T.tolist(),
            strict=True,
        ):
            one, other = old.take(slice(low, high)), new.take(slice(start, stop))
            same = np.array_equal(one.content, other.content)
            same &= np.array_equal(one.file, other.file)
            if same and np.abs(one.chance - other.chance).max(initial=0) < _CONVERGED:
                done.append(part)
        return np.array(done, np.int64)

    def _finish(self, parts: Rows) -> None:
        """Store the results of the problems `parts`."""
        contents, files = self._adjacency.shape[1], self._folder.shape[1]
        for part in parts.tolist():
            low, high = np.searchsorted(
                self._pairs.content, [part * contents, (part + 1) * contents]
            )
            pairs, size = self._pairs.take(slice(low, high)), self._problems[part].size
            state = pairs.file - part * files
            claimed = np.asarray(np.bincount(state, pairs.chance, size[1]), np.float64)
            disorder = float(self._turned_back[part] / size[0])
            self._solved[part] = Posteriors(
                pairs.content - part * contents, state, pairs.chance, claimed, disorder
            )

    def _forward_backward(self, counts_steps: bool) -> tuple[_Pairs, _Counts]:
        """Probable pairs of the active problems, and expected counts of steps if `counts_steps`.

        A row of `likely` has the likelihood of each file for one content, from evidence and
        messages. A row of `last` first has the probability of each file of the last assigned
        content, and later that of each file of the content itself.
        """
        active = self.active
        steps, parts, files = self._evidence.shape
        count, params = self._sizes[active, 1], self._params.take(active)
        model = TransitionModel(self._folder[active], count)
        restart = RestartModel(params.skip[:, 0].astype(np.float32), files)
        rows, link = np.arange(parts), self._adjacency[active].T
        share = params.weights[rows, link].astype(np.float32)
        left_out = params.skip[rows, link].astype(np.float32)
        follows = params.restart.astype(np.float32)
        running = (self._sizes[active, 0] > np.arange(steps)[:, None]).sum(axis=1).tolist()
        unassigned = self._unassigned[active].T[..., None].astype(np.float32)
        followers = self._restarts(active)
        likely = self._likely(active)
        last = np.zeros((steps + 1, parts, files), np.float32)
        last[0] = (np.arange(files) < count[:, None]) / count[:, None]
        scale = np.ones((steps, parts, 1), np.float32)
        for at, some in enumerate(running):
            before = last[at, :some]
            own = model.forward(before, share[at, :some], left_out[at, :some])
            if at in followers:
                known = followers[at]
                part = follows[known.row, known.close][:, None]
                anew = restart.forward(before[known.row], known.row, known.made)
                own[known.row] = own[known.row] * (1 - part) + anew * part
            own *= likely[at, :some]
            own += unassigned[at, :some] * before
            total = own.sum(axis=1, keepdims=True)
            scale[at, :some] = np.where(total > 0, total, 1)  # impossible evidence: no pairs
            np.divide(own, scale[at, :some], out=last[at + 1, :some])
        counts = _Counts.zeros(steps, parts)
        ahead, passed = (np.ones((parts, files), np.float32) for _ in range(2))
        likely /= scale
        stay = unassigned / scale
        for at in range(steps - 1, -1, -1):
            some = running[at]
            before, now, stays = last[at, :some], ahead[:some], passed[:some]
            chance = last[at + 1, :some]
            np.multiply(now, stay[at, :some], out=stays)
            chance *= now
            chance -= stays * before
            now *= likely[at, :some]
            if at in followers:
                known = followers[at]
                part = follows[known.row, known.close][:, None]
                anew = part * restart.backward(now[known.row], known.row, known.made)
                counts.restarts[at, known.row] = np.einsum("pn,pn->p", anew, before[known.row])
                now[known.row] *= 1 - part
            found = model.backward(now, share[at, :some], left_out[at, :some])
            if counts_steps:
                counts.ways[at, :some] = model.expected_steps(before)
            if at in followers:
                found[known.row] += anew
            np.add(found, stays, out=now)
        return self._pairs_of(last[1:], active), counts

    def _restarts(self, active: Rows) -> dict[int, _Behind]:
        """Step -> the active problems whose content at that step is directly after a known file."""
        known = self._restart[active].T
        content, row = np.nonzero(known != NOTHING)
        close = self._close[active].T[content, row]
        every = _Behind(row, close, known[content, row])
        first = np.flatnonzero(starts_group(content))
        bounds = np.append(first, len(content)).tolist()
        return {
            int(content[low]): every.take(slice(low, high))
            for low, high in zip(bounds[:-1], bounds[1:], strict=True)
        }

    def _likely(self, active: Rows) -> Float32s:
        """float32 (m, parts, n): likelihood of each file for each content.

        It combines evidence, messages and the probability that the content belongs to a searched
        file.
        """
        likely = self._evidence * (1 - self._unassigned[active].T[..., None]).astype(np.float32)
        segment = self._messages.segment[active]
        for row, part in enumerate(active.tolist()):
            bounds = np.flatnonzero(starts_group(segment[row])).tolist()
            for low, high in zip(bounds, [*bounds[1:], segment.shape[1]], strict=True):
                likely[low:high, row] *= self._messages.factors(part, low)
        return likely

    def _pairs_of(self, chance: Float32s, active: Rows) -> _Pairs:
        """The pairs whose probability is not negligible."""
        content, row, file = np.nonzero(chance > _MIN_PROBABILITY)
        steps, _, files = chance.shape
        key = active[row] * self._adjacency.shape[1] + content
        order = np.argsort(key, kind="stable")
        probability = np.clip(chance[content, row, file].astype(float), _EPSILON, 1 - _EPSILON)
        pairs = _Pairs(key, active[row] * files + file, probability)
        return pairs.take(order)

    def _segments(self) -> Int64s:
        """int64 (parts, m): segment of each content; within a segment no file occurs twice.

        A segment ends where the probable files jump far forward or backward.
        """
        parts, contents = self._adjacency.shape
        place = np.full(parts * contents, NOTHING)
        order = np.argsort(self._pairs.chance, kind="stable")
        order = order[self._pairs.chance[order] > _MIN_ASSIGNED]
        place[self._pairs.content[order]] = self._pairs.file[order]
        known = np.flatnonzero(place != NOTHING)
        step = np.diff(place[known])
        cut = self._adjacency.reshape(-1) > Adjacency.CONTIGUOUS_LARGE
        cut[known[1:][(step > _SEGMENT_JUMP_FORWARD) | (step < -_SEGMENT_JUMP_BACK)]] = True
        cut[::contents] = True
        segment = np.cumsum(cut, dtype=np.int64)
        cut[known[_repeats(segment[known], place[known])]] = True
        return np.cumsum(cut, dtype=np.int64).reshape(parts, contents)

    def _update_messages(self, segment: Int64s) -> _Messages:
        """Messages between segments after one forward and backward pass.

        Args:
            segment: int64 (parts, m), segment of each content.
        """
        before, pairs = self._messages, self._pairs
        files, odds = before.default.size, self._odds.reshape(-1)
        keys, back = np.unique(
            segment.reshape(-1)[pairs.content] * files + pairs.file, return_inverse=True
        )
        chance = np.clip(np.bincount(back, pairs.chance), _EPSILON, 1 - _EPSILON)
        file = keys % files
        earlier = np.empty(len(keys))
        earlier[back] = before.of(pairs)
        claim = chance / (1 - chance) / earlier
        every = np.bincount(file, claim, files)
        from_others = np.maximum(every[file] - claim, 0)
        factor = (odds[file] + from_others) ** (_DAMPING - 1) * earlier**_DAMPING
        usual = (odds + every) ** (_DAMPING - 1) * before.default.reshape(-1) ** _DAMPING
        default = usual.reshape(before.default.shape).astype(np.float32)
        return _Messages(default, keys, factor, segment)


def _repeats(segment: Int64s, file: Int64s) -> Rows:
    """Rows before which a segment must end so that no file occurs in it twice."""
    found, current, seen = [], NOTHING, set[int]()
    for at, (of, one) in enumerate(zip(segment.tolist(), file.tolist(), strict=True)):
        if of != current:
            current, seen = of, set()
        elif one in seen:
            found.append(at)
            seen = set()
        seen.add(one)
    return np.array(found, np.int64)


def _sums(keys: Int64s, values: Float64s, count: int) -> Float64s:
    """Float (count,): sum of the values of each key."""
    return np.asarray(np.bincount(keys.reshape(-1), values.reshape(-1), count), np.float64)


ColumnT = TypeVar("ColumnT", Int64s, Float64s)


def _stack(columns: Sequence[ColumnT], length: int, fill: float) -> ColumnT:
    """The columns as an array (columns, length), each padded with `fill` to `length`."""
    lengths = (length - len(column) for column in columns)
    padded = zip(columns, lengths, strict=True)
    return np.stack([np.pad(one, (0, more), constant_values=fill) for one, more in padded])


def emission_matrix(problem: MatchingInput) -> Float32s:
    """float32 (m, n): likelihood ratio of each content given each file, relative to any file."""
    observed, files, fits = problem.observed, problem.files, problem.fits
    found = fits[files.name_class].astype(np.float32)[:, observed.content_class].T.copy()
    far = observed.adjacency > Adjacency.CONTIGUOUS_LARGE
    every = np.arange(len(files))
    sides = (
        (observed.previous, far, every - observed.previous.rank[:, None]),
        (observed.next, np.append(far[1:], True), observed.next.rank[:, None] - 1 - every),
    )
    for beside, alone, place in sides:
        rows = np.flatnonzero(beside.same_group)
        found[rows] *= _neighbour_likelihood(
            place[rows], beside.take(rows), alone[rows], files.directory
        )
    for content, (file, likelier) in problem.mentions.items():
        found[content, file] *= likelier
    known = np.flatnonzero(observed.known_file != NOTHING)
    found[:, observed.known_file[known]] = 0
    found[known] = 0
    found[known, observed.known_file[known]] = 1
    return found


def _neighbour_likelihood(
    place: Int64s, beside: NeighbourFiles, alone: Bools, folder: Int64s
) -> Float32s:
    """Likelihood factor of each file, given a known file on one side of a content.

    Args:
        place: int64 (k, n), distance of each file from the known file, counted in files; negative
            on the wrong side.
        beside: the known files (k,).
        alone: bool (k,), True where the content is the one of its segment that is nearest to the
            known file. For the others, contents nearer to it are stronger evidence.
        folder: directory of each file (n,).
    """
    off = np.abs(place - beside.contents_between[:, None])
    decay = np.maximum(_DECAY_NEAREST ** np.arange(_REACH), _FLOOR).astype(np.float32)
    found = np.where(alone[:, None], decay[np.minimum(off, _REACH - 1)], np.float32(1))
    same = (folder == beside.folder[:, None]) & (folder != NOTHING)
    wrong = np.where(same, np.float32(_P_WRONG_SIDE_SAME_DIR), np.float32(_P_WRONG_SIDE))
    return np.where(place < 0, found * wrong, found)
