"""Transition probabilities between files of neighbouring contents, for `hmm`.

Files created one after the other are usually consecutive on disk. The allocator has separate places
for small files (up to 16 blocks) and large files. The next file follows the last one until that
place is full and another one is chosen. Each processor has its own place for small files (kernel
Documentation/filesystems/ext4/allocators.rst). Measured on trees written by `cp`, `tar` and a
downloader: 92 to 98 % of the files lie directly after the previous file of their kind. With two
writers, the files of each lie in order. A file of one writer may lie in front of a file that the
other had begun earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.types import Float64s, Int64s

NOTHING = -1
STREAM_REQUEST_BLOCKS = 16  # largest small file in blocks: `s_mb_stream_request` of the kernel
NEAR_BLOCKS = 64  # blocks between two consecutive files that directories and other files may use
_DOUBLINGS = 3  # files skipped in a step that are modelled exactly: up to 2 ** _DOUBLINGS - 1
_MAX_SKIP = 128  # maximum files skipped in a SKIP_AHEAD step
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
class TransitionParams:
    """Transition probabilities by `Adjacency`.

    Attributes:
        weights: float (links, 4): share of steps NEXT, SKIP_AHEAD, BACKWARD, JUMP.
        skip: float (links,), share of files after the last one whose content lies elsewhere.
        restart: float (2,), share of contents directly after a known file that follow from it;
            first outside its group, then within it.
    """

    weights: Float64s
    skip: Float64s
    restart: Float64s

    @classmethod
    def usual(cls) -> TransitionParams:
        """Prior parameters, from typical disks."""
        rows = (
            (0.90, 0.04, 0.02, 0.04),
            (0.55, 0.30, 0.03, 0.12),
            (0.45, 0.15, 0.05, 0.35),
            (0.55, 0.15, 0.05, 0.25),
            (0.30, 0.15, 0.05, 0.50),
        )
        return cls(np.array(rows), np.array((0.08, 0.6, 0.3, 0.3, 0.3)), np.array(_RESTART))

    def reestimate(self, seen: Float64s, next_ones: Float64s, anew: Float64s) -> TransitionParams:
        """Parameters of one disk, from expected counts.

        Args:
            seen: float (links, 4), expected number of each step.
            next_ones: float (links,), expected number of steps to the very next file.
            anew: float (2, 2), expected number of contents that followed a known file, and of
                others.
        """
        prior = self.weights * _PRIOR_WEIGHT
        share = seen + prior
        first = prior[:, NEXT] * (1 - self.skip)
        left_out = 1 - (next_ones + first) / share[:, NEXT]
        share /= share.sum(axis=1, keepdims=True)
        anew = (anew[:, 0] + self.restart * _PRIOR_WEIGHT) / (anew.sum(axis=1) + _PRIOR_WEIGHT)
        return TransitionParams(share, left_out.clip(_LEAST_LEFT_OUT, _MOST_LEFT_OUT), anew)


class TransitionModel:
    """Transitions between files in creation order.

    Args:
        folder: int64 (n,), directory of each file, -1 where unknown. Two files in one directory
            usually have one writer and never change places.
    """

    def __init__(self, folder: Int64s) -> None:
        count = self._count = len(folder)
        every = np.arange(count)
        self._low = np.maximum(every - _MAX_SKIP, 0)
        self._high = np.minimum(every + 1 + _MAX_SKIP, count)
        self._apart: list[Float64s] = []
        for back in range(1, min(_MAX_BACK, count - 1) + 1):
            apart = (folder[back:] != folder[:-back]) | (folder[back:] == NOTHING)
            self._apart.append(apart * ((1 - _BACK_DECAY) * _BACK_DECAY ** (back - 1)))

    def forward(self, chance: Float64s, link: int, habits: TransitionParams) -> Float64s:
        """Probability of each next file, from the probability of each last file."""
        share = habits.weights[link]
        found: Float64s = self._geometric_step(chance, habits.skip[link]) * share[NEXT]
        sums = np.append(0.0, np.cumsum(chance))
        found += (sums[:-1] - sums[self._low]) * (share[SKIP_AHEAD] / _MAX_SKIP)
        for back, apart in enumerate(self._apart, 1):
            found[:-back] += chance[back:] * (apart * share[BACKWARD])
        found += sums[-1] * (share[JUMP] / self._count)
        return found

    def restart_forward(self, chance: Float64s, made: int, left_out: float) -> Float64s:
        """Probability of each next file, created after the last one and following a known one.

        Args:
            chance: probability of each last file.
            made: number of files created before the known one.
            left_out: share of files directly after it whose content lies elsewhere.
        """
        before: Float64s = np.append(0.0, np.cumsum(chance))[:-1]
        return self._restart_distribution(made, left_out) * before

    def restart_backward(self, ahead: Float64s, made: int, left_out: float) -> Float64s:
        """The backward pass of `restart_forward`."""
        likely = self._restart_distribution(made, left_out) * ahead
        return np.append(np.cumsum(likely[::-1])[::-1], 0.0)[1:]

    def _restart_distribution(self, made: int, left_out: float) -> Float64s:
        place = np.arange(self._count) - made
        found = (1 - left_out) * left_out ** np.maximum(place, 0)
        found *= 1 - _FAR_SHARE
        found += _FAR_SHARE * (1 - _FAR_FADING) * _FAR_FADING ** np.maximum(place, 0)
        return np.where(place < 0, 0.0, found)

    def backward(
        self, ahead: Float64s, last: Float64s, link: int, habits: TransitionParams
    ) -> tuple[Float64s, Float64s, float]:
        """The backward pass of `forward`.

        Args:
            ahead: probability of all following contents, by the next file.
            last: probability of each last file.
            link: adjacency of the next content.
            habits: transition parameters.

        Returns:
            (probability of all following contents by the last file, expected count of each step, of
            NEXT the count of steps to the very next file).
        """
        share = habits.weights[link]
        found = self._geometric_step(ahead[::-1], habits.skip[link])[::-1] * share[NEXT]
        sums = np.append(0.0, np.cumsum(ahead))
        skip_ahead = (sums[self._high] - sums[1:]) * (share[SKIP_AHEAD] / _MAX_SKIP)
        backward_step = np.zeros(self._count)
        for back, apart in enumerate(self._apart, 1):
            backward_step[back:] += ahead[:-back] * (apart * share[BACKWARD])
        jump = sums[-1] * share[JUMP] / self._count
        ways = np.array([found @ last, skip_ahead @ last, backward_step @ last, jump * last.sum()])
        nearest = share[NEXT] * (1 - habits.skip[link]) * (ahead[1:] @ last[:-1])
        found = found + skip_ahead + backward_step + jump
        return found, ways, float(nearest)

    @staticmethod
    def _geometric_step(chance: Float64s, left_out: float) -> Float64s:
        """Distribution over the next file and those after it, with geometric decay."""
        found = np.zeros_like(chance)
        found[1:] = chance[:-1]
        for step in range(_DOUBLINGS):
            reach = 1 << step
            found[reach:] += found[:-reach] * left_out**reach
        return found * (1 - left_out)
