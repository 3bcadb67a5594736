"""How the next file comes to lie: the steps of the model behind `alignment`.

Files made one after the other lie one after the other, as far as the kernel's allocator goes:
small ones (up to 16 blocks) and large ones each have a place of their own where the next one
goes, behind the last one, until that place is full and another one is taken (kernel
Documentation/filesystems/ext4/allocators.rst). Measured on trees that `cp`, `tar` and a
downloader made, with delayed allocation and without, with a journal and without, in one block
group and in eight: 92 to 98 of 100 files, in order of creation time and inode number over all
groups, lie right behind the one before of their kind; with two writers at a time 89.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

NOTHING = -1
LARGE = 16  # blocks up to which a file is a small one: s_mb_stream_request of the kernel
NEAR = 64  # blocks between two files in a row, taken by directories and others' files
_FURTHEST = 3  # contents left out in front of a known file
_POOLS = 2
_BEGINNINGS = 400  # runs of contents where a file may come to lie out of all order
_WITHIN = 200  # contents within the runs where it may as well, from one end to the other
_PIECE = 0.3  # of the contents that are pieces, as it seems, are what no file begins with
_SWAPPED = 0.3  # of those left out come right after the one that was taken instead
_BEGINNING = 0.7  # of what is out of order is at the beginning of a run of contents
_FAR = np.iinfo(np.int64).max


class Way(IntEnum):
    """How a file lies, seen from those before it."""

    ABSENT = 0  # its content is not there
    BEHIND = 1  # right behind the one before
    NEAR = 2  # not far behind, with what others have in between
    SKIP = 3  # one content further on, or two
    BACK = 4  # at the one that was left out just before
    ACROSS = 5  # right behind the last file of the other kind
    JUMP = 6  # anywhere else


@dataclass(frozen=True, slots=True)
class Ground:
    """Contents, ascending by first block.

    Attributes:
        first: int64 (n,), first block; end: one past the last one.
        large: bool (n,), more than `LARGE` blocks.
        like: int64 (n,), column of the table of fits.
        piece: bool (n,), rather a piece of a file than a whole one.
    """

    first: Any
    end: Any
    large: Any
    like: Any
    piece: Any

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Steps:
    """Files by the time when they were made.

    Attributes:
        first: int64 (n,), first block, NOTHING where it is asked for; end: one past the last.
        large: bool (n,), more than `LARGE` blocks, of those that are known.
        called: int64 (n,), row of the table of fits.
        absent: float (n,), how likely its content is not there, when more than usual.
        skip: float (n,), how likely a stranger's content lies in front, when more than usual.
    """

    first: Any
    end: Any
    large: Any
    called: Any
    absent: Any
    skip: Any

    def __len__(self) -> int:
        return len(self.first)

    def part(self, start: int, stop: int) -> Steps:
        """Some of them."""
        columns = (self.first, self.end, self.large, self.called, self.absent, self.skip)
        return Steps(*(column[start:stop] for column in columns))


@dataclass(frozen=True, slots=True)
class Habits:
    """How likely each way is; they need not add up to one.

    Attributes:
        absent, skip, jump: what is usual on a disk.
        behind, near, across: as `Way` says.
    """

    absent: float = 0.02
    skip: float = 0.005
    jump: float = 0.02
    behind: float = 0.92
    near: float = 0.02
    across: float = 0.01


@dataclass(frozen=True, slots=True)
class Arcs:
    """Ways from the states before a step to those behind it, one row each.

    Attributes:
        start: row of the state before, of a JUMP that of a pool of them.
        end: key of the state behind.
        weight: how likely; content: the one that is taken, NOTHING for none.
        way: a `Way`.
    """

    start: Any
    end: Any
    weight: Any
    content: Any
    way: Any

    def take(self, rows: Any) -> Arcs:
        """Some of them."""
        columns = (self.start, self.end, self.weight, self.content, self.way)
        return Arcs(*(column[rows] for column in columns))

    @classmethod
    def joined(cls, parts: list[Arcs]) -> Arcs:
        """Several as one."""
        columns = zip(
            *((part.start, part.end, part.weight, part.content, part.way) for part in parts),
            strict=True,
        )
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True, slots=True)
class Pools:
    """States from which a jump leads to the same ones.

    Attributes:
        of: int64 (2, states), pool of each state for small and for large files.
        mass: float, probability of each pool.
    """

    of: Any
    mass: Any

    def back(self, value: Any) -> Any:
        """What a value of each pool is to its states."""
        return value[self.of].sum(axis=0) if len(value) else np.zeros(self.of.shape[1])


@dataclass(frozen=True, slots=True)
class _Kind:
    """Contents of one kind, small or large, as seen from each head.

    Attributes:
        rows: the contents; share: how many of all files are of the kind.
        rank: how many of `rows` begin before the head's end.
        following: the content behind the head, `len(ground)` for none; gap: blocks up to it.
        weight: how likely it is the next one.
        previous: the content in front of a head that is one itself.
        targets: (contents, how likely a jump goes there).
    """

    rows: Any
    share: float
    rank: Any
    following: Any
    gap: Any
    weight: Any
    previous: Any
    targets: tuple[Any, Any]


class Laying:
    """The states of the model, and the ways from one to the next.

    A state is where the last small and the last large file lie, its heads: contents, then known
    files, then nothing. A third part says of which kind a content was left out just before.

    Args:
        ground: contents.
        steps: files.
        fits: float (rows, columns), how much more likely a content like that is with a name
            like this than with any.
        habits: how files follow each other.
    """

    def __init__(self, ground: Ground, steps: Steps, fits: Any, habits: Habits) -> None:
        self._ground, self._steps, self._fits, self._habits = ground, steps, fits, habits
        known = np.flatnonzero(steps.first != NOTHING)
        self._head = np.full(len(steps), NOTHING)
        self._head[known] = len(ground) + np.arange(len(known))
        self._none = len(ground) + len(known)
        self._end = np.concatenate([ground.end, steps.end[known], [_FAR]])
        self._kinds = [self._kind(np.flatnonzero(ground.large == kind)) for kind in (False, True)]

    @property
    def beginning(self) -> Any:
        """Key of the state in which nothing lies anywhere."""
        return self._key(*(np.array([one]) for one in (self._none, self._none, 0)))

    def _kind(self, rows: Any) -> _Kind:
        ground, habits = self._ground, self._habits
        rank = np.searchsorted(ground.first[rows], self._end)
        following = np.append(rows, len(ground))[rank]
        gap = np.append(ground.first, _FAR)[following] - self._end
        weight = np.where(gap == 0, habits.behind, np.where(gap <= NEAR, habits.near, 0.0))
        weight[self._none] = 0
        previous = np.full(self._none + 1, len(ground))
        previous[rows[1:]] = rows[:-1]
        share = (len(rows) + 1) / (len(ground) + 2)
        return _Kind(rows, share, rank, following, gap, weight, previous, self._targets(rows))

    def _targets(self, rows: Any) -> tuple[Any, Any]:
        """(contents of a kind, how likely a jump goes to each): beginnings of runs first."""
        begins = np.ones(len(rows), bool)
        begins[1:] = self._ground.first[rows[1:]] != self._ground.end[rows[:-1]]
        places = np.flatnonzero(begins)
        length = np.diff(np.append(places, len(rows)))
        places = places[np.argsort(-length, kind="stable")[:_BEGINNINGS]]
        within = np.arange(0, len(rows), -(-len(rows) // _WITHIN) or 1)
        weight = np.zeros(len(rows))
        weight[places] += _BEGINNING / max(1, len(places))
        weight[within] += (1 - _BEGINNING) / max(1, len(within))
        kept = np.flatnonzero(weight)
        return rows[kept], weight[kept] * self._habits.jump

    def _key(self, small: Any, large: Any, hole: Any) -> Any:
        return (small * (self._none + 1) + large) * 3 + hole

    def _heads(self, key: Any) -> tuple[Any, Any, Any]:
        pair, hole = np.divmod(key, 3)
        small, large = np.divmod(pair, self._none + 1)
        return small, large, hole

    # -- one step -------------------------------------------------------------------------

    def ways(self, step: int, key: Any, chance: Any) -> tuple[Arcs, Pools]:
        """All ways that a step can go.

        Args:
            step: its row.
            key: of the states before it.
            chance: how likely each is.
        """
        heads = self._heads(key)
        if self._head[step] != NOTHING:
            return self._pinned(step, heads), Pools(np.zeros((2, len(key)), np.int64), np.zeros(0))
        fit = np.append(self._fits[self._steps.called[step]][self._ground.like], 0.0)
        rows = np.arange(len(key))
        absent = max(self._habits.absent, self._steps.absent[step])
        parts = [_arcs(rows, key, np.full(len(key), absent), np.full(len(key), NOTHING), 0)]
        for kind in (0, 1):
            parts += self._onward(step, kind, heads, fit)
            parts += self._beside(kind, heads, fit)
        jumps, pools = self._jumping(heads, chance, fit)
        arcs = Arcs.joined([*parts, *jumps])
        return arcs.take(arcs.weight > 0), pools

    def _onward(self, step: int, kind: int, heads: Any, fit: Any) -> list[Arcs]:
        """To the next content of a kind, or past one or two."""
        mine, own = self._kinds[kind], heads[kind]
        none, rows = len(self._ground), np.arange(len(own))
        skip = max(self._habits.skip, self._steps.skip[step])
        to, weight = mine.following[own], mine.share * mine.weight[own]
        close = mine.gap[own] == 0
        clear = np.zeros(len(own), np.int64)
        parts = []
        for close_enough, way in ((close, Way.BEHIND), (~close, Way.NEAR)):
            at = np.flatnonzero(close_enough)
            parts.append(
                self._to(kind, heads, rows[at], to[at], (weight * fit[to])[at], clear[at], way)
            )
        passing = mine.share * (weight > 0)
        for left_out in (1, 2):
            past = np.minimum(to, none - 1)
            passing = passing * np.where(self._ground.piece[past], max(skip, _PIECE), skip)
            to = np.where(to == none, none, mine.following[past])
            likely = passing * fit[to]
            hole = clear + (kind + 1 if left_out == 1 else 0)
            parts.append(self._to(kind, heads, rows, to, likely, hole, Way.SKIP))
        return parts

    def _beside(self, kind: int, heads: Any, fit: Any) -> list[Arcs]:
        """To what was left out, and to what lies behind the last file of the other kind."""
        mine, own, other = self._kinds[kind], heads[kind], heads[1 - kind]
        rows, clear = np.arange(len(own)), np.zeros(len(own), np.int64)
        before = mine.previous[own]
        likely = mine.share * _SWAPPED * (heads[2] == kind + 1) * fit[before]
        back = _arcs(rows, self._key(heads[0], heads[1], clear), likely, before, Way.BACK)
        across = mine.following[other]
        good = (mine.gap[other] == 0) & (across != mine.following[own])
        likely = mine.share * self._habits.across * good * fit[across]
        return [back, self._to(kind, heads, rows, across, likely, clear, Way.ACROSS)]

    def _to(
        self, kind: int, heads: Any, rows: Any, to: Any, weight: Any, hole: Any, way: int
    ) -> Arcs:
        """Arcs that move the head of a kind."""
        other = heads[1 - kind][rows]
        small, large = (to, other) if kind == 0 else (other, to)
        return _arcs(rows, self._key(small, large, hole), weight, to, way)

    def _jumping(self, heads: Any, chance: Any, fit: Any) -> tuple[list[Arcs], Pools]:
        """Jumps leave the other kind's head as it is: states with the same one are a pool."""
        pools, masses, parts, count = [], [], [], 0
        for kind in (0, 1):
            other, pool = self._pooled(heads[1 - kind], chance)
            to, weight = self._kinds[kind].targets
            weight = weight * self._kinds[kind].share * fit[to]
            row, target = np.repeat(np.arange(len(other)), len(to)), np.tile(to, len(other))
            small, large = (target, other[row]) if kind == 0 else (other[row], target)
            key = self._key(small, large, np.zeros(len(row), np.int64))
            parts.append(_arcs(row + count, key, np.tile(weight, len(other)), target, Way.JUMP))
            pools.append(pool + count)
            masses.append(np.bincount(pool, chance, len(other)))
            count += len(other)
        return parts, Pools(np.array(pools), np.concatenate(masses))

    def _pooled(self, head: Any, chance: Any) -> tuple[Any, Any]:
        """(heads, row of each state's): the likeliest ones, and nothing for all others."""
        heads, pool = np.unique(head, return_inverse=True)
        if len(heads) <= _POOLS:
            return heads, pool
        kept = np.argsort(np.bincount(pool, chance, len(heads)))[-_POOLS:]
        place = np.full(len(heads), _POOLS)
        place[kept] = np.arange(_POOLS)
        return np.append(heads[kept], self._none), place[pool]

    def _pinned(self, step: int, heads: Any) -> Arcs:
        """To where a known file is; how likely tells which states were right."""
        habits, kind = self._habits, int(self._steps.large[step])
        mine, own, other = self._kinds[kind], heads[kind], heads[1 - kind]
        first, skip = self._steps.first[step], max(habits.skip, self._steps.skip[step])
        gap = first - self._end[own]
        left = np.searchsorted(self._ground.first[mine.rows], first) - mine.rank[own]
        weight = np.full(len(own), habits.jump / (self._none + 1))
        next_one = np.where(gap == 0, habits.behind, habits.near)
        near = (gap >= 0) & (gap <= NEAR * (1 + left)) & (left >= 0) & (left <= _FURTHEST)
        past = skip ** np.clip(left, 0, _FURTHEST)
        weight[near] = np.where(left > 0, past, next_one)[near]
        weight = np.maximum(weight, habits.across * (first == self._end[other]))
        rows = np.arange(len(own))
        to, clear = np.full(len(own), self._head[step]), np.zeros(len(own), np.int64)
        small, large = (to, other) if kind == 0 else (other, to)
        key, none = self._key(small, large, clear), np.full(len(own), NOTHING)
        return _arcs(rows, key, weight, none, Way.BEHIND)


def _arcs(start: Any, end: Any, weight: Any, content: Any, way: int) -> Arcs:
    return Arcs(start, end, weight, content, np.full(len(start), way, np.int8))
