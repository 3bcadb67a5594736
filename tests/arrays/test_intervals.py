"""Joins of runs give what sets of the single numbers give."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.arrays import intervals
from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import NO_ROW, Int64s

HIGH = int(np.iinfo(np.int64).max)
SEEDS = pytest.mark.parametrize("seed", range(60))
Columns = tuple[Int64s, Int64s]


def runs(random: np.random.Generator, base: int, least: int = 1) -> Columns:
    """Random runs within 40 numbers from `base` on, in any order, over each other and alike."""
    count = int(random.integers(0, 9))
    start = random.integers(0, 34, count)
    return start + base, random.integers(least, 7, count)


def base_of(seed: int) -> int:
    """Where the numbers of a test lie: around 0, or up to the highest that there is."""
    return (0, -20, HIGH - 41)[seed % 3]


def members(start: Int64s, length: Int64s) -> list[set[int]]:
    """The numbers of each run."""
    pairs = zip(start.tolist(), length.tolist(), strict=True)
    return [set(range(first, first + count)) for first, count in pairs]


def within(table: Columns) -> set[int]:
    """The numbers of all runs."""
    return set().union(*members(*table))


def numbers(table: Intervals) -> set[int]:
    """The numbers of all intervals, which ascend, and of which no two have a number."""
    sets = members(table.start, table.length)
    assert all(sets) and table.start.tolist() == sorted(table.start.tolist())
    found = within((table.start, table.length))
    assert sum(map(len, sets)) == len(found)
    return found


def are_apart(table: Intervals) -> bool:
    """Whether no interval touches the next one."""
    return bool((table.start[1:] > table.end[:-1]).all())


def touching(random: np.random.Generator, base: int) -> Intervals:
    """Random intervals of which some touch."""
    edges = np.unique(random.integers(0, 40, int(random.integers(0, 12)))) + base
    kept = np.flatnonzero(random.random(max(len(edges) - 1, 0)) < 0.7)
    return Intervals(edges[kept], np.diff(edges)[kept])


@SEEDS
def test_the_union_has_the_numbers_of_all_runs(seed: int) -> None:
    table = runs(np.random.default_rng(seed), base_of(seed), least=-1)
    found = Intervals.union(*table)
    assert numbers(found) == within(table)
    assert are_apart(found)


@SEEDS
def test_numbers_and_masks_become_intervals(seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = random.random(seed % 12) < random.random()
    chosen = np.flatnonzero(mask)
    for found in (Intervals.of_mask(mask), Intervals.of_mask(mask.astype(np.uint8))):
        assert numbers(found) == set(chosen.tolist())
        assert are_apart(found)
    base = base_of(seed)
    found = Intervals.of_numbers(chosen + base)
    assert numbers(found) == set((chosen + base).tolist())
    assert are_apart(found)


@SEEDS
def test_the_interval_of_a_number_is_found(seed: int) -> None:
    random, base = np.random.default_rng(seed), base_of(seed)
    table = touching(random, base)
    sets = members(table.start, table.length)
    wanted = np.arange(40) + base
    expected = [
        next((row for row, held in enumerate(sets) if number in held), NO_ROW)
        for number in wanted.tolist()
    ]
    assert table.rows_at(wanted).tolist() == expected
    start, length = runs(random, base)
    inside = [any(run <= held for held in sets) for run in members(start, length)]
    assert table.contains(start, length).tolist() == inside


@SEEDS
def test_intervals_are_cut_out_of_others(seed: int) -> None:
    random, base = np.random.default_rng(seed), base_of(seed)
    mine, other = touching(random, base), touching(random, base)
    assert numbers(mine.subtract(other)) == numbers(mine) - numbers(other)
    assert numbers(mine.intersect(other)) == numbers(mine) & numbers(other)
    assert mine.subtract(Intervals.empty()).start.tolist() == mine.start.tolist()


@SEEDS
def test_long_runs_are_split(seed: int) -> None:
    random = np.random.default_rng(seed)
    length, most = random.integers(1, 20, seed % 5), seed % 7 + 1
    row, position, count = intervals.split(length, most)
    expected = [
        (at, first, min(most, size - first))
        for at, size in enumerate(length.tolist())
        for first in range(0, size, most)
    ]
    assert list(zip(row.tolist(), position.tolist(), count.tolist(), strict=True)) == expected


@SEEDS
def test_overlaps_are_all_pairs_with_a_common_number(seed: int) -> None:
    random, base = np.random.default_rng(seed), base_of(seed)
    one, other = runs(random, base), runs(random, base)
    mine, theirs = members(*one), members(*other)
    pairs = [(a, b) for a in range(len(mine)) for b in range(len(theirs)) if mine[a] & theirs[b]]
    row, other_row = intervals.overlap_pairs(*one, *other)
    found = list(zip(row.tolist(), other_row.tolist(), strict=True))
    pairs.sort(key=lambda pair: (pair[0], int(other[0][pair[1]]), pair[1]))
    assert found == pairs
    row, start, length = intervals.common_parts(*one, *other)
    assert members(start, length) == [mine[a] & theirs[b] for a, b in pairs]
    assert row.tolist() == [a for a, _ in pairs]


@SEEDS
def test_parts_are_cut_out_of_their_own_run(seed: int) -> None:
    random, base = np.random.default_rng(seed), base_of(seed)
    start, length = runs(random, base)
    cut = touching(random, base)
    row, first, count = intervals.common_parts(start, length, cut.start, cut.length)
    mixed = random.permutation(len(row))
    row, first, count = row[mixed], first[mixed], count[mixed]
    owner, left, size = intervals.cut_out(start, length, row, first, count)
    found: list[set[int]] = [set() for _ in range(len(start))]
    for at, part in zip(owner.tolist(), members(left, size), strict=True):
        assert part and not found[at] & part
        found[at] |= part
    assert found == [run - numbers(cut) for run in members(start, length)]
    assert np.lexsort((left, owner)).tolist() == list(range(len(left)))


@SEEDS
def test_of_runs_over_each_other_the_best_are_kept(seed: int) -> None:
    random, base = np.random.default_rng(seed), base_of(seed)
    start, length = runs(random, base)
    rank = random.permutation(len(start))
    kept, over = intervals.select_disjoint(start, start + length, rank)
    sets = members(start, length)
    # the rounds give what one choice after the other gives: a run goes when a better one is kept
    chosen: list[int] = []
    for row in np.argsort(rank).tolist():
        if not any(sets[row] & sets[other] for other in chosen):
            chosen.append(row)
    assert np.flatnonzero(kept).tolist() == sorted(chosen)
    for row, other in enumerate(over.tolist()):
        assert (other == NO_ROW) == bool(kept[row])
        assert other == NO_ROW or (kept[other] and sets[row] & sets[other])
