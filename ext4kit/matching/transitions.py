"""Transition probabilities between the files of neighbouring contents, for `hmm`.

Files created one after the other are usually consecutive on disk. The allocator has separate places
for small files (up to 16 blocks) and large files. In each of these places, a file is written
directly after the previous one until the place is full; then another place is chosen. Each
processor has its own place for small files (kernel Documentation/filesystems/ext4/allocators.rst).
Measured on trees written by `cp`, `tar` and a downloader: 92 to 98 % of the files are directly
after the previous small or large file. With two writers, the files of each writer are in order on
disk, but a file of one writer may be before a file that the other writer had begun earlier.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Float32s, Float64s, Int64s, Rows

NOTHING = -1
STREAM_REQUEST_BLOCKS = 16  # largest small file in blocks: `s_mb_stream_request` of the kernel
NEAR_BLOCKS = 64  # maximum blocks of directories and other files between two near files
_DOUBLINGS = 3  # a step NEXT skips up to 2 ** _DOUBLINGS - 1 files
_MAX_SKIP = 128  # a power of 2: maximum files skipped in a SKIP_AHEAD step
_MAX_BACK = 8  # maximum files by which a step goes backward
_BACK_DECAY = 0.7  # factor for each further file backward
_FAR_SHARE, _FAR_FADING = 0.15, 0.97  # share of distant files; factor for each further file
_RESTART = (
    0.7,
    0.0,
)  # share of restarts from a known file directly before a content: in another group, in its group
_PRIOR_WEIGHT = 30  # weight of the prior, as a number of steps
_LEAST_LEFT_OUT, _MOST_LEFT_OUT = 0.005, 0.97


class Adjacency(IntEnum):
    """Position of a content relative to the previous one."""

    CONTIGUOUS_SMALL = 0  # contiguous; both contents and all files between are small
    CONTIGUOUS_LARGE = 1  # contiguous; both contents and all files between are large
    CONTIGUOUS_MIXED = 2  # contiguous, small and large files
    NEAR = 3  # a short distance after the previous one
    FAR = 4


NEXT, SKIP_AHEAD, BACKWARD, JUMP = range(4)  # columns of `TransitionParams.weights`


@dataclass(frozen=True, slots=True)
class TransitionParams(Table):
    """Transition probabilities of `parts` problems; `links` is the number of `Adjacency` values.

    Attributes:
        weights: float (parts, links, 4): share of steps NEXT, SKIP_AHEAD, BACKWARD, JUMP.
        skip: float (parts, links), share of files that a step NEXT skips because their content lies
            elsewhere.
        restart: float (parts, 2), share of contents directly after a known file whose file is
            predicted from the known file instead of the previous content; first for contents
            outside the group of the known file, then for contents within it.
    """

    weights: Float64s
    skip: Float64s
    restart: Float64s

    @classmethod
    def usual(cls, parts: int) -> TransitionParams:
        """Prior parameters, estimated from typical disks."""
        rows = (
            (0.90, 0.04, 0.02, 0.04),
            (0.55, 0.30, 0.03, 0.12),
            (0.45, 0.15, 0.05, 0.35),
            (0.55, 0.15, 0.05, 0.25),
            (0.30, 0.15, 0.05, 0.50),
        )
        columns = np.array(rows), np.array((0.08, 0.6, 0.3, 0.3, 0.3)), np.array(_RESTART)
        return cls(*(np.stack([column] * parts) for column in columns))

    def reestimate(self, seen: Float64s, next_ones: Float64s, anew: Float64s) -> TransitionParams:
        """Re-estimated parameters of each problem, from expected counts.

        Args:
            seen: float (parts, links, 4), expected number of each step.
            next_ones: float (parts, links), expected number of steps to the very next file.
            anew: float (parts, 2, 2), among the contents directly after a known file: expected
                number of those whose file is predicted from the known file, and of the remaining
                ones; axis 1 as for `restart`.
        """
        prior = self.weights * _PRIOR_WEIGHT
        share = seen + prior
        first = prior[..., NEXT] * (1 - self.skip)
        left_out = 1 - (next_ones + first) / share[..., NEXT]
        share /= share.sum(axis=2, keepdims=True)
        anew = (anew[..., 0] + self.restart * _PRIOR_WEIGHT) / (anew.sum(axis=2) + _PRIOR_WEIGHT)
        return TransitionParams(share, left_out.clip(_LEAST_LEFT_OUT, _MOST_LEFT_OUT), anew)


class TransitionModel:
    """Transitions between files in creation order, computed for several problems at once.

    All arrays have a row for each problem. A row of a problem with fewer files is padded with files
    of probability 0. Each call overwrites the result of the previous one.

    Args:
        folder: int64 (parts, n), directory of each file, -1 where unknown. Two files in one
            directory usually have one writer and never change places.
        count: int64 (parts,), number of files of each problem.
    """

    def __init__(self, folder: Int64s, count: Int64s) -> None:
        parts, files = folder.shape
        self._count = count.astype(np.float32)
        # shares of steps backward: those from each file, those to each file
        self._apart = np.zeros((2, _MAX_BACK, parts, files), np.float32)
        for back in range(1, min(_MAX_BACK, files - 1) + 1):
            apart = (folder[:, back:] != folder[:, :-back]) | (folder[:, back:] == NOTHING)
            share = apart * ((1 - _BACK_DECAY) * _BACK_DECAY ** (back - 1))
            self._apart[0, back - 1, :, :-back] = share
            self._apart[1, back - 1, :, back:] = share
        self._padded = np.zeros((parts, files + 2 * _MAX_BACK), np.float32)
        row, column = self._padded.strides
        self._shifted = [
            as_strided(
                self._padded[:, _MAX_BACK + side :],
                (_MAX_BACK, parts, files),
                (side * column, row, column),
            )
            for side in (1, -1)
        ]
        self._products = np.empty((_MAX_BACK, parts, files), np.float32)
        self._work = np.empty((6, parts, files), np.float32)

    def forward(self, chance: Float32s, share: Float32s, left_out: Float32s) -> Float32s:
        """Probability of each next file.

        Args:
            chance: float (k, n), for the first k problems: probability that each file is the last
                one.
            share: float (k, 4), share of each kind of step.
            left_out: float (k,), share of files that a step NEXT skips because their content lies
                elsewhere.
        """
        rows = len(chance)
        found = self._geometric_step(chance, left_out, share[:, NEXT])
        ahead, one, other = self._work[1:4, :rows]
        ahead[:, :1], ahead[:, 1:] = 0, chance[:, :-1]
        found += self._window_sum(ahead, one, other, share[:, SKIP_AHEAD])
        found += self._turned(chance, 1, share[:, BACKWARD])
        found += (chance.sum(axis=1) * share[:, JUMP] / self._count[:rows])[:, None]
        return found

    def backward(self, ahead: Float32s, share: Float32s, left_out: Float32s) -> Float32s:
        """The backward step to `forward`: per last file, probability of all contents that follow.

        Args:
            ahead: float (k, n), per next file: probability of its content and all that follow.
            share: as in `forward`.
            left_out: as in `forward`.
        """
        rows = len(ahead)
        found = self._geometric_step(ahead[:, ::-1], left_out, share[:, NEXT])[:, ::-1]
        following, one, other = self._work[1:4, :rows]
        following[:, :1], following[:, 1:] = 0, ahead[:, :0:-1]
        skip_ahead = self._window_sum(following, one, other, share[:, SKIP_AHEAD])[:, ::-1]
        turned = self._turned(ahead, -1, share[:, BACKWARD])
        jump = ahead.sum(axis=1) * share[:, JUMP] / self._count[:rows]
        self._steps = found, skip_ahead, turned, jump, share[:, NEXT] * (1 - left_out), ahead
        result = self._work[5, :rows]
        np.add(found, skip_ahead, out=result)
        result += turned
        result += jump[:, None]
        return result

    def expected_steps(self, last: Float32s) -> Float32s:
        """Expected number of steps of each kind, and of steps to the very next file (k, 5).

        These are the steps of the last call of `backward`; its result and arguments must not have
        changed since.

        Args:
            last: float (k, n), probability that each file is the last one.
        """
        *steps, jump, to_next, ahead = self._steps
        ways = [np.einsum("pn,pn->p", step, last) for step in steps]
        ways.append(jump * last.sum(axis=1))
        ways.append(to_next * np.einsum("pn,pn->p", ahead[:, 1:], last[:, :-1]))
        return np.stack(ways, axis=1)

    def _turned(self, values: Float32s, side: int, share: Float32s) -> Float32s:
        """The part of a step BACKWARD: sums over files after each (side 1) or before it (-1)."""
        rows = len(values)
        self._padded[:rows, _MAX_BACK:-_MAX_BACK] = values
        products, here = self._products[:, :rows], 0 if side > 0 else 1
        np.multiply(self._shifted[here][:, :rows], self._apart[here, :, :rows], out=products)
        found = self._work[4, :rows]
        np.add.reduce(products, axis=0, out=found)
        found *= share[:, None]
        return found

    def _geometric_step(self, chance: Float32s, left_out: Float32s, share: Float32s) -> Float32s:
        """The part of a step NEXT: distribution over the following files, with geometric decay."""
        found, reached = self._work[0, : len(chance)], self._work[1, : len(chance)]
        found[:, :1], found[:, 1:] = 0, chance[:, :-1]
        for step in range(_DOUBLINGS):
            reach = 1 << step
            some = reached[:, reach:]
            np.multiply(found[:, :-reach], (left_out**reach)[:, None], out=some)
            found[:, reach:] += some
        found *= (share * (1 - left_out))[:, None]
        return found

    @staticmethod
    def _window_sum(values: Float32s, one: Float32s, other: Float32s, share: Float32s) -> Float32s:
        """The part of a step SKIP_AHEAD: means of `_MAX_SKIP` values; overwrites `one`, `other`."""
        reach, source = 1, values
        for target in itertools.cycle((one, other)):
            np.add(source[:, reach:], source[:, :-reach], out=target[:, reach:])
            target[:, :reach] = source[:, :reach]
            reach, source = 2 * reach, target
            if reach == _MAX_SKIP:
                break
        source *= (share / _MAX_SKIP)[:, None]
        return source


class RestartModel:
    """Distribution of the file of a content that is directly after a known file.

    Args:
        left_out: float (parts,), share of the files created next after the known one whose content
            lies elsewhere.
        files: number of files of the largest problem.
    """

    def __init__(self, left_out: Float32s, files: int) -> None:
        place = np.arange(files, dtype=np.float32)
        near = (1 - left_out[:, None]) * left_out[:, None] ** place
        far = _FAR_SHARE * (1 - _FAR_FADING) * _FAR_FADING**place
        self._by_place = (near * (1 - _FAR_SHARE) + far).astype(np.float32)

    def forward(self, chance: Float32s, rows: Rows, made: Int64s) -> Float32s:
        """Probability of each next file, created after both the last file and the known one.

        Args:
            chance: float (k, n), probability that each file is the last one.
            rows: int (k,), rows of the problems.
            made: int64 (k,), number of files created before the known one.
        """
        before = np.zeros_like(chance)
        np.cumsum(chance[:, :-1], axis=1, out=before[:, 1:])
        before *= self._distribution(rows, made)
        return before

    def backward(self, ahead: Float32s, rows: Rows, made: Int64s) -> Float32s:
        """The backward step to `forward`."""
        likely = self._distribution(rows, made) * ahead
        after = np.zeros_like(ahead)
        after[:, :-1] = np.cumsum(likely[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return after

    def _distribution(self, rows: Rows, made: Int64s) -> Float32s:
        files = self._by_place.shape[1]
        found = np.zeros((len(rows), files), np.float32)
        for at, (row, first) in enumerate(zip(rows.tolist(), made.tolist(), strict=True)):
            found[at, first:] = self._by_place[row, : max(files - first, 0)]
        return found
