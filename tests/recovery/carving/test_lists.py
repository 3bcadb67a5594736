"""Lists of block numbers that name each other or the same blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ext4kit.recovery.sources.carving.lists import believed
from ext4kit.recovery.sources.carving.pointers import Pointers

BLOCKS = 60
USABLE = np.array([0]), np.array([1000])


def _lists(chance: np.random.Generator, most: int) -> Pointers:
    """Lists of a few runs each, without an order."""
    block = np.sort(chance.choice(BLOCKS, int(chance.integers(most)), replace=False))
    runs = chance.integers(1, 5, len(block))
    first = chance.integers(0, BLOCKS, int(runs.sum()))
    count = chance.integers(1, chance.integers(2, 15), len(first))
    flags = np.zeros(len(block), bool)
    return Pointers(block, runs, first, count, flags, flags)


def _numbers(pointers: Pointers) -> list[list[int]]:
    """What each list names, number by number."""
    edges = np.cumsum(pointers.runs).tolist()
    pairs = list(zip(pointers.first.tolist(), pointers.count.tolist(), strict=True))
    parts = [pairs[end - runs : end] for runs, end in zip(pointers.runs, edges, strict=True)]
    return [[first + n for first, count in part for n in range(count)] for part in parts]


def _left(blocks: list[int], named: list[list[int]], order: list[float]) -> set[int]:
    """The rule in words of its own, block by block: what is left in the end."""
    mixed = [not set(numbers) <= set(blocks) for numbers in named]
    rows = range(len(blocks))
    stay = [
        row
        for row in rows
        if not any(mixed[o] and order[o] >= order[row] and blocks[row] in named[o] for o in rows)
    ]
    return {
        blocks[row]
        for row in stay
        if not any(
            other != row and order[other] >= order[row] and set(named[other]) & set(named[row])
            for other in stay
        )
    }


@pytest.mark.parametrize("most", [3, 6, 12])
def test_what_is_believed_is_contested_by_no_list_in_better_order(most: int) -> None:
    chance, kept = np.random.default_rng(most), 0
    for _ in range(150):
        pointers = _lists(chance, most)
        named = _numbers(pointers)
        order = [
            len(numbers) / int(runs) for numbers, runs in zip(named, pointers.runs, strict=True)
        ]
        left = _left(pointers.block.tolist(), named, order)
        assert pointers.steady.all()  # so that nothing else is sorted out
        assert set(believed(pointers, *USABLE, 1).block.tolist()) == left
        kept += len(left)
    assert kept > 20


def test_lists_that_all_name_the_same_blocks_are_compared_in_little_memory() -> None:
    size = 60_000
    column: Any = np.full(size, 256)
    flags = np.zeros(size, bool)
    ones, first = np.ones(size, np.int64), np.full(size, size)
    pointers = Pointers(np.arange(size), ones, first, column, flags, flags)
    assert not len(believed(pointers, np.array([0]), np.array([2 * size]), 1))
