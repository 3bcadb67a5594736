"""How the file of the next content follows from that of the one in front: steps of `hmm`.

Files made one after the other lie one after the other, as far as the kernel's allocator goes:
small ones (up to 16 blocks) and large ones each have a place of their own where the next one
goes, behind the last one, until that place is full and another one is taken; each processor has
its own place for small ones (kernel Documentation/filesystems/ext4/allocators.rst). Measured on
trees that `cp`, `tar` and a downloader made: 92 to 98 of 100 files lie right behind the one made
before of their kind. Of two writers at a time each one's files lie in order, but a file of the
one may come to lie in front of one that the other had begun before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ext4kit.arrays.types import Float64s, Int64s

NOTHING = -1
STREAM_REQUEST_BLOCKS = (
    16  # blocks up to which a file is a small one: s_mb_stream_request of the kernel
)
NEAR_BLOCKS = 64  # blocks between two files in a row, taken by directories and others' files
_DOUBLINGS = 3  # files left out in a step that are counted one by one: up to 2 ** _DOUBLINGS - 1
_MAX_SKIP = 128  # files a step goes on where it is no usual one
_MAX_BACK = 8  # files that were begun later and lie in front
_BACK_DECAY = 0.7  # of those, each further one
_FAR_SHARE, _FAR_FADING = 0.15, 0.97  # of files behind a known one, those further on
_RESTART = (
    0.7,
    0.0,
)  # of contents right behind a known file, in another row and in one row with it
_PRIOR_WEIGHT = 30  # steps that the habits of other disks count for
_LEAST_LEFT_OUT, _MOST_LEFT_OUT = 0.005, 0.97


class Adjacency(IntEnum):
    """How a content lies behind the one in front of it."""

    CONTIGUOUS_SMALL = 0  # in one row with it, as all between, all of them small
    CONTIGUOUS_LARGE = 1  # the same, all of them large
    CONTIGUOUS_MIXED = 2  # in one row, small ones and large ones
    NEAR = 3  # not far behind
    FAR = 4


NEXT, SKIP_AHEAD, BACKWARD, JUMP = range(4)  # columns of `TransitionParams.share`


@dataclass(frozen=True, slots=True)
class TransitionParams:
    """How likely each way on is, by `Adjacency`.

    Attributes:
        weights: float (links, 4): soon after, further on, made before, anywhere.
        skip: float (links,), of the files right after the last one, those that lie elsewhere.
        restart: float (2,), of contents right behind a known file, those that follow from that;
            first where it is not in one row with it, then where it is.
    """

    weights: Float64s
    skip: Float64s
    restart: Float64s

    @classmethod
    def usual(cls) -> TransitionParams:
        """What is usual on disks."""
        rows = (
            (0.90, 0.04, 0.02, 0.04),
            (0.55, 0.30, 0.03, 0.12),
            (0.45, 0.15, 0.05, 0.35),
            (0.55, 0.15, 0.05, 0.25),
            (0.30, 0.15, 0.05, 0.50),
        )
        return cls(np.array(rows), np.array((0.08, 0.6, 0.3, 0.3, 0.3)), np.array(_RESTART))

    def reestimate(self, seen: Float64s, next_ones: Float64s, anew: Float64s) -> TransitionParams:
        """Those of a disk.

        Args:
            seen: float (links, 4), how often each way was gone, as it seems.
            next_ones: float (links,), of the first, those to the very next file.
            anew: float (2, 2), how often a content followed from a known file, and how often not.
        """
        prior = self.weights * _PRIOR_WEIGHT
        share = seen + prior
        first = prior[:, NEXT] * (1 - self.skip)
        left_out = 1 - (next_ones + first) / share[:, NEXT]
        share /= share.sum(axis=1, keepdims=True)
        anew = (anew[:, 0] + self.restart * _PRIOR_WEIGHT) / (anew.sum(axis=1) + _PRIOR_WEIGHT)
        return TransitionParams(share, left_out.clip(_LEAST_LEFT_OUT, _MOST_LEFT_OUT), anew)


class TransitionModel:
    """Steps between files, in the order in which they were made.

    Args:
        folder: int64 (n,), folder of each file, -1 where it is not known; two files in one folder
            are of one writer, as a rule, and never change places.
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
        """How likely each file is next, from how likely each is the last one."""
        share = habits.weights[link]
        found: Float64s = self._geometric_step(chance, habits.skip[link]) * share[NEXT]
        sums = np.append(0.0, np.cumsum(chance))
        found += (sums[:-1] - sums[self._low]) * (share[SKIP_AHEAD] / _MAX_SKIP)
        for back, apart in enumerate(self._apart, 1):
            found[:-back] += chance[back:] * (apart * share[BACKWARD])
        found += sums[-1] * (share[JUMP] / self._count)
        return found

    def restart_forward(self, chance: Float64s, made: int, left_out: float) -> Float64s:
        """How likely each file is next, made after the last one and behind a known one.

        Args:
            chance: how likely each file is the last one.
            made: files made before the known one.
            left_out: of those right after it, those that lie elsewhere.
        """
        before: Float64s = np.append(0.0, np.cumsum(chance))[:-1]
        return self._restart_distribution(made, left_out) * before

    def restart_backward(self, ahead: Float64s, made: int, left_out: float) -> Float64s:
        """The same backwards."""
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
        """The same backwards.

        Args:
            ahead: how likely all that follows is, by the next file.
            last: how likely each file is the last one.
            link: from that to the next one.
            habits: as they are.

        Returns:
            (how likely all that follows is by the last file, how likely each way was gone, of the
            first way the step to the very next file).
        """
        share = habits.weights[link]
        found = self._geometric_step(ahead[::-1], habits.skip[link])[::-1] * share[NEXT]
        sums = np.append(0.0, np.cumsum(ahead))
        further = (sums[self._high] - sums[1:]) * (share[SKIP_AHEAD] / _MAX_SKIP)
        earlier = np.zeros(self._count)
        for back, apart in enumerate(self._apart, 1):
            earlier[back:] += ahead[:-back] * (apart * share[BACKWARD])
        anywhere = sums[-1] * share[JUMP] / self._count
        ways = np.array([found @ last, further @ last, earlier @ last, anywhere * last.sum()])
        nearest = share[NEXT] * (1 - habits.skip[link]) * (ahead[1:] @ last[:-1])
        found = found + further + earlier + anywhere
        return found, ways, float(nearest)

    @staticmethod
    def _geometric_step(chance: Float64s, left_out: float) -> Float64s:
        """The next file, and those behind it, each less likely than the one before."""
        found = np.zeros_like(chance)
        found[1:] = chance[:-1]
        for step in range(_DOUBLINGS):
            reach = 1 << step
            found[reach:] += found[:-reach] * left_out**reach
        return found * (1 - left_out)
