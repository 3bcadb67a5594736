"""Transition probabilities between files of neighbouring contents, for `hmm`.

Files created one after the other are usually consecutive on disk. The allocator has separate places
for small files (up to 16 blocks) and large files. The next file follows the last one until that
place is full and another one is chosen. Each processor has its own place for small files (kernel
Documentation/filesystems/ext4/allocators.rst). Measured on trees written by `cp`, `tar` and a
downloader: 92 to 98 % of the files lie directly after the previous file of their kind. With two
writers, the files of each lie in order. A file of one writer may lie before a file that the
other had begun earlier.
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
NEAR_BLOCKS = 64  # blocks between two consecutive files that directories and other files may use
_DOUBLINGS = 3  # files skipped in a step that are modelled exactly: up to 2 ** _DOUBLINGS - 1
_MAX_SKIP = 128  # a power of 2: maximum files skipped in a SKIP_AHEAD step
_MAX_BACK = 8  # maximum files by which a step goes backward
_BACK_DECAY = 0.7  # factor for each further file backward
_FAR_SHARE, _FAR_FADING = 0.15, 0.97  # share and decay of distant files after a known one
_RESTART = (
    0.7,
    0.0,
)  # share of contents that follow a known file directly, in another group and in its group
_PRIOR_WEIGHT = 30  # weight of the prior, in steps
_LEAST_LEFT_OUT, _MOST_LEFT_OUT = 0.005, 0.97


class Adjacency(IntEnum):
    """Position of a content relative to the previous one."""

    CONTIGUOUS_SMALL = 0  # contiguous, all files between are small
    CONTIGUOUS_LARGE = 1  # contiguous, all files between are large
    CONTIGUOUS_MIXED = 2  # contiguous, small and large files
    NEAR = 3  # a short distance after it
    FAR = 4


NEXT, SKIP_AHEAD, BACKWARD, JUMP = range(4)  # columns of `TransitionParams.weights`


@dataclass(frozen=True, slots=True)
class TransitionParams(Table):
    """Transition probabilities by `Adjacency`, of `parts` problems each.

    Attributes:
        weights: float (parts, links, 4): share of steps NEXT, SKIP_AHEAD, BACKWARD, JUMP.
        skip: float (parts, links), share of files after the last one whose content lies elsewhere.
        restart: float (parts, 2), share of contents directly after a known file that follow from
            it; first outside its group, then within it.
    """

    weights: Float64s
    skip: Float64s
    restart: Float64s

    @classmethod
    def usual(cls, parts: int) -> TransitionParams:
        """Prior parameters, from typical disks."""
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
        """Parameters of each problem, from expected counts.

        Args:
            seen: float (parts, links, 4), expected number of each step.
            next_ones: float (parts, links), expected number of steps to the very next file.
            anew: float (parts, 2, 2), expected number of contents that followed a known file, and
                of others.
        """
        prior = self.weights * _PRIOR_WEIGHT
        share = seen + prior
        first = prior[..., NEXT] * (1 - self.skip)
        left_out = 1 - (next_ones + first) / share[..., NEXT]
        share /= share.sum(axis=2, keepdims=True)
        anew = (anew[..., 0] + self.restart * _PRIOR_WEIGHT) / (anew.sum(axis=2) + _PRIOR_WEIGHT)
        return TransitionParams(share, left_out.clip(_LEAST_LEFT_OUT, _MOST_LEFT_OUT), anew)


class TransitionModel:
    """Transitions between files in creation order, of several problems at a time.

    All arrays have a row for each problem. Rows of fewer files than others end with files of
    probability 0. The results are overwritten by the next call.

    Args:
        folder: int64 (parts, n), directory of each file, -1 where unknown. Two files in one
            directory usually have one writer and never change places.
        count: int64 (parts,), files of each problem.
    """

    def __init__(self, folder: Int64s, count: Int64s) -> None:
        parts, files = folder.shape
        self._count = count.astype(np.float32)
        self._apart = np.zeros((2, _MAX_BACK, parts, files), np.float32)  # from here, to here
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
            chance: float (k, n), probability of each last file of the first k problems.
            share: float (k, 4), of the steps.
            left_out: float (k,), share of files after the last one whose content lies elsewhere.
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
        """The backward pass of `forward`: probability of all following contents, by the last file.

        Args:
            ahead: float (k, n), the same by the next file.
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
        """Expected count of each step, and of those to the very next file (k, 5).

        Of the last call of `backward`, whose result and arguments are as they were.

        Args:
            last: float (k, n), probability of each last file.
        """
        *steps, jump, to_next, ahead = self._steps
        ways = [np.einsum("pn,pn->p", step, last) for step in steps]
        ways.append(jump * last.sum(axis=1))
        ways.append(to_next * np.einsum("pn,pn->p", ahead[:, 1:], last[:, :-1]))
        return np.stack(ways, axis=1)

    def _turned(self, values: Float32s, side: int, share: Float32s) -> Float32s:
        """Share of the step BACKWARD, of the files after each (side 1) or before it (side -1)."""
        rows = len(values)
        self._padded[:rows, _MAX_BACK:-_MAX_BACK] = values
        products, here = self._products[:, :rows], 0 if side > 0 else 1
        np.multiply(self._shifted[here][:, :rows], self._apart[here, :, :rows], out=products)
        found = self._work[4, :rows]
        np.add.reduce(products, axis=0, out=found)
        found *= share[:, None]
        return found

    def _geometric_step(self, chance: Float32s, left_out: Float32s, share: Float32s) -> Float32s:
        """Distribution over the next file and those after it, with geometric decay."""
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
        """Share of the step SKIP_AHEAD: of the last `_MAX_SKIP` values each; writes to all."""
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
    """The next file where a known one lies directly before a content.

    Args:
        left_out: float (parts,), share of files directly after it whose content lies elsewhere.
        files: number of files of the largest problem.
    """

    def __init__(self, left_out: Float32s, files: int) -> None:
        place = np.arange(files, dtype=np.float32)
        near = (1 - left_out[:, None]) * left_out[:, None] ** place
        far = _FAR_SHARE * (1 - _FAR_FADING) * _FAR_FADING**place
        self._by_place = (near * (1 - _FAR_SHARE) + far).astype(np.float32)

    def forward(self, chance: Float32s, rows: Rows, made: Int64s) -> Float32s:
        """Probability of each next file, created after the last one and following a known one.

        Args:
            chance: float (k, n), probability of each last file.
            rows: int (k,), the problems.
            made: int64 (k,), number of files created before the known one.
        """
        before = np.zeros_like(chance)
        np.cumsum(chance[:, :-1], axis=1, out=before[:, 1:])
        before *= self._distribution(rows, made)
        return before

    def backward(self, ahead: Float32s, rows: Rows, made: Int64s) -> Float32s:
        """The backward pass of `forward`."""
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
