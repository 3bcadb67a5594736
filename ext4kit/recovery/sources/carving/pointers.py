"""Blocks of block numbers (the indirect blocks of ext2 and ext3), found among free blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from ext4kit.filesystem.maps import spread

_MOST_BREAKS = 16  # one in so many numbers may begin a new run, and a few anyway
_FEW_BREAKS = 4
_NEAR = 1 << 15  # blocks between two numbers of a list: as many as are in a group


@dataclass(frozen=True, slots=True)
class Pointers:
    """Lists of block numbers, as runs of consecutive numbers.

    Attributes:
        block: int64 (k,), the blocks that hold a list each, ascending.
        runs: int64 (k,), runs in each list.
        first: int64, first numbers of the runs, list after list.
        count: int64, their lengths.
        full: bool (k,), the list fills its block.
        letters: bool (k,), one number that may as well be a few letters.
    """

    block: Any
    runs: Any
    first: Any
    count: Any
    full: Any
    letters: Any

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Several as one."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def __len__(self) -> int:
        return len(self.block)

    @property
    def length(self) -> Any:
        """Int64 (k,): numbers in each list."""
        owner = np.repeat(np.arange(len(self)), self.runs)
        return np.bincount(owner, self.count, len(self)).astype(np.int64)

    @property
    def order(self) -> Any:
        """Float64 (k,): numbers in a run, on average; tables of other things have few."""
        return self.length / np.maximum(self.runs, 1)

    @property
    def steady(self) -> Any:
        """Bool (k,): most numbers are one more than the one before, as those of data are."""
        return self.runs <= _FEW_BREAKS + self.length // _MOST_BREAKS

    def taken(self, good: Any) -> Self:
        """The lists for which `good` (bool) holds."""
        kept = np.repeat(good, self.runs)
        return type(self)(
            self.block[good],
            self.runs[good],
            self.first[kept],
            self.count[kept],
            self.full[good],
            self.letters[good],
        )


def find_pointers(data: Any, rows: Any, blocks: Any, tail: Any) -> Pointers:
    """The blocks that look like lists of block numbers.

    Args:
        data: uint8 (n, block size).
        rows: rows of `data` that are not all zero.
        blocks: int64, block numbers of these rows.
        tail: int64, zero bytes at the end of each.
    """
    head = np.ascontiguousarray(data[:, :8]).view("<u4")
    head = (head if len(rows) == len(data) else head[rows]).astype(np.int64)
    one, two = head[:, 0], head[:, 1]
    alone = (two == 0) & (tail >= data.shape[1] - 4) & (np.abs(one - blocks) <= _NEAR)
    wanted = (one > 0) & (alone | (two > 0) & (np.abs(two - one) <= _NEAR))
    found = np.flatnonzero(wanted)
    words = data[rows[found]].view("<u4").astype(np.int64)
    return _judged(words, blocks[found])


def _judged(words: Any, blocks: Any) -> Pointers:
    """Those of the blocks that hold numbers close to each other, and zeros behind."""
    filled = words > 0
    length = filled.sum(axis=1)
    inside = np.arange(words.shape[1]) < length[:, None]
    steps = np.diff(words, axis=1, prepend=words[:, :1])
    near = (np.abs(steps) <= _NEAR) | ~inside
    near[:, 1:] &= (steps[:, 1:] != 0) | ~inside[:, 1:]
    begins = inside & (steps != 1)
    runs = begins.sum(axis=1)
    kept = np.flatnonzero((filled == inside).all(axis=1) & near.all(axis=1))
    row, at = np.nonzero(begins[kept])
    ends = np.append(at[1:], 0)[: len(row)]
    last = np.append(row[1:] != row[:-1], True)[: len(row)]
    ends = np.where(last, length[kept][row], ends)
    return Pointers(
        blocks[kept],
        runs[kept],
        words[kept][row, at],
        ends - at,
        length[kept] == words.shape[1],
        (length[kept] == 1) & _letters(words[kept, 0]),
    )


def _letters(number: Any) -> Any:
    """Bool: the bytes of a number, up to the zeros at its end, are ASCII text."""
    found = np.ones(len(number), bool)
    for shift in (0, 8, 16, 24):
        byte = number >> shift & 255
        found &= (byte >= 32) & (byte < 127) | (byte == 10) | (number >> shift == 0)
    return found


def spread_runs(first: Any, count: Any) -> Any:
    """All numbers of runs, run after run."""
    row, position = spread(count)
    return first[row] + position
