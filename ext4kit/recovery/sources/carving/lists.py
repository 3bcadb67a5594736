"""Files of ext2 and ext3 whose lists of block numbers are still there.

The first twelve blocks of a file stand in its inode and lie in front of the first one that its
list names; a full list is followed by a list of lists, and that by a list of those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.recovery.intervals import highest
from ext4kit.recovery.sources.carving.ground import Ground
from ext4kit.recovery.sources.carving.pointers import Pointers, spread_runs

DIRECT = 12
_LEVELS = 3


Runs = list[tuple[int, int]]  # (first position, number of positions), in the order of the content


def believed(pointers: Pointers, start: Any, length: Any, shortest: int) -> Pointers:
    """The lists of which every number is a usable block, none of it named by two of them.

    Where few numbers follow each other, all of them have to be lists themselves.

    Args:
        pointers: what looks like lists.
        start: first blocks of the usable runs, ascending.
        length: their lengths.
        shortest: lists with fewer numbers than that are not believed.
    """
    inside = _inside(pointers, start, length) & (pointers.length >= shortest)
    pointers = pointers.taken(inside)
    pointers = pointers.taken(~_content_of_others(pointers))
    pointers = pointers.taken(~_contested(pointers))
    steady = pointers.steady
    for _ in range(_LEVELS - 1):
        numbers = spread_runs(pointers.first, pointers.count)
        owner = np.repeat(np.arange(len(pointers)), pointers.length)
        strange = ~np.isin(numbers, pointers.block[steady])
        steady = steady | (np.bincount(owner[strange], minlength=len(pointers)) == 0)
    return pointers.taken(steady)


def _inside(pointers: Pointers, start: Any, length: Any) -> Any:
    """Bool: the list and all that it names are usable blocks."""
    owner = np.repeat(np.arange(len(pointers)), pointers.runs)
    good = _within(pointers.block, pointers.block + 1, start, length)
    bad = ~_within(pointers.first, pointers.first + pointers.count, start, length)
    good[owner[bad]] = False
    return good


def _content_of_others(pointers: Pointers) -> Any:
    """Bool: a list in no worse order names this one among blocks that are no lists."""
    owner = np.repeat(np.arange(len(pointers)), pointers.runs)
    low, high = np.searchsorted(pointers.block, [pointers.first, pointers.first + pointers.count])
    lists = np.bincount(owner, high - low, len(pointers))
    mixed = (lists < pointers.length)[owner]
    rank = np.unique(pointers.order, return_inverse=True)[1]
    first, top = highest(pointers.first[mixed], pointers.count[mixed], rank[owner[mixed]])
    row = np.searchsorted(first, pointers.block, side="right") - 1
    return (row >= 0) & (np.append(top, -1)[row] >= rank)


def _contested(pointers: Pointers) -> Any:
    """Bool: another list, in no worse order, names some of the same blocks.

    Of lists in the same order each is in front once: one that has all its blocks to itself both
    times is alone there, or in better order than the others.
    """
    owner = np.repeat(np.arange(len(pointers)), pointers.runs)
    found = np.zeros(len(pointers), bool)
    for turn in (1, -1):
        rank = np.empty(len(pointers), np.int64)
        rank[np.lexsort((turn * np.arange(len(pointers)), pointers.order))] = np.arange(len(rank))
        first, top = highest(pointers.first, pointers.count, rank[owner])
        low, last = np.searchsorted(first, [pointers.first, pointers.first + pointers.count])
        stretch = np.cumsum(np.diff(top, prepend=-1) != 0)
        alone = (top[low] == rank[owner]) & (stretch[low] == stretch[last - 1])
        found[owner[~alone]] = True
    return found


def _within(first: Any, end: Any, start: Any, length: Any) -> Any:
    """Bool: the half-open run lies within one of the others, which are ascending."""
    row = np.searchsorted(start, first, side="right") - 1
    return (row >= 0) & (end <= np.append(start + length, 0)[row])


def bodies(pointers: Pointers, ground: Ground) -> list[tuple[int, Runs]]:
    """What lies behind the first twelve blocks of each file whose lists are there.

    Returns:
        (row of the file's first list, runs of positions) pairs.
    """
    return _Joining(pointers, ground).bodies()


class _Joining:
    def __init__(self, pointers: Pointers, ground: Ground) -> None:
        self.pointers, self.ground = pointers, ground
        self.where = {block: row for row, block in enumerate(pointers.block.tolist())}
        self.offset = (np.cumsum(pointers.runs) - pointers.runs).tolist()
        self.content: dict[int, tuple[int, Runs]] = {}

    def bodies(self) -> list[tuple[int, Runs]]:
        for row in range(len(self.pointers)):
            self._read(row, 0)
        first = {
            runs[0][0]: row for row, (level, runs) in self.content.items() if level > 0 and runs
        }
        named = self._named()
        return [
            (row, self._whole(row, runs, first))
            for row, (level, runs) in self.content.items()
            if level == 0 and runs and row not in named
        ]

    def _named(self) -> set[int]:
        """The lists that others name."""
        numbers = spread_runs(self.pointers.first, self.pointers.count)
        known = np.isin(numbers, self.pointers.block)
        return {self.where[block] for block in numbers[known].tolist()}

    def _read(self, row: int, depth: int) -> tuple[int, Runs]:
        """(level, runs of positions) of a list, what it names read before it."""
        if row in self.content or depth > _LEVELS:
            return self.content.get(row, (0, []))
        self.content[row] = (0, [])
        at = self.offset[row]
        piece = slice(at, at + int(self.pointers.runs[row]))
        first, count = self.pointers.first[piece], self.pointers.count[piece]
        if int(first[0]) in self.where:
            blocks = spread_runs(first, count).tolist()
            rows = [self.where[block] for block in blocks if block in self.where]
            below = [self._read(one, depth + 1) for one in rows]
            runs = _joined([run for _, part in below for run in part])
            self.content[row] = (1 + max(level for level, _ in below), runs)
        else:
            places = self.ground.positions(first)
            inside = (places >= 0).all()
            runs = list(zip(places.tolist(), count.tolist(), strict=True)) if inside else []
            self.content[row] = (0, _joined(runs))
        return self.content[row]

    def _whole(self, row: int, runs: Runs, first: dict[int, int]) -> Runs:
        """What a file's first list names, and the lists of lists that go on where it ends."""
        whole, full = list(runs), bool(self.pointers.full[row])
        for _ in range(_LEVELS - 1):
            following = first.pop(whole[-1][0] + whole[-1][1], None) if full else None
            if following is None:
                break
            whole += self.content[following][1]
            full = self._ends_full(following)
        return _joined(whole)

    def _ends_full(self, row: int) -> bool:
        """The last list below this one has no room left."""
        for _ in range(_LEVELS):
            last = self.offset[row] + int(self.pointers.runs[row]) - 1
            block = int(self.pointers.first[last] + self.pointers.count[last]) - 1
            if block not in self.where:
                break
            row = self.where[block]
        return bool(self.pointers.full[row])


def _joined(runs: Runs) -> Runs:
    """Runs, those that follow each other as one."""
    found: Runs = []
    for first, count in runs:
        if found and found[-1][0] + found[-1][1] == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return found
