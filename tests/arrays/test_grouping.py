"""Groups of equal rows are those that itertools finds."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from ext4kit.arrays import grouping
from ext4kit.arrays.types import Int64s

LOW, HIGH = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
SEEDS = pytest.mark.parametrize("seed", range(30))


def drawn(seed: int) -> tuple[Int64s, Int64s]:
    """Two columns of a few values, the extremes among them, none to many rows."""
    random = np.random.default_rng(seed)
    count = (0, 1, 2, 30)[seed % 4]
    one, other = random.choice([LOW, 0, HIGH], (2, count))
    return one, other


@SEEDS
def test_groups_are_of_neighbours_with_equal_keys(seed: int) -> None:
    one, other = drawn(seed)
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    groups = [list(group) for _, group in groupby(pairs)]
    sizes = [len(group) for group in groups]
    first = [place == 0 for size in sizes for place in range(size)]
    last = [place == size - 1 for size in sizes for place in range(size)]
    starts = grouping.starts_group(one, other)
    assert starts.tolist() == first
    assert grouping.ends_group(one, other).tolist() == last
    assert grouping.group_sizes(starts).tolist() == sizes
    positions = [place for size in sizes for place in range(size)]
    assert grouping.rank_within(starts).tolist() == positions


@SEEDS
def test_rows_are_expanded_by_their_counts(seed: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, seed % 7)
    row, position = grouping.expand(counts)
    expected = [(at, step) for at, count in enumerate(counts.tolist()) for step in range(count)]
    assert list(zip(row.tolist(), position.tolist(), strict=True)) == expected


@SEEDS
def test_bounds_hold_the_rows_of_each_owner(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = seed % 6
    owners = np.sort(random.integers(0, count, 8 if count else 0))
    bounds = grouping.row_bounds(owners, count)
    assert len(bounds) == count + 1
    for owner in range(count):
        rows = list(range(*bounds[owner : owner + 2].tolist()))
        assert rows == np.flatnonzero(owners == owner).tolist()


@SEEDS
def test_the_first_occurrence_of_each_value_is_told(seed: int) -> None:
    values = drawn(seed)[0]
    seen: set[int] = set()
    expected = []
    for value in values.tolist():
        expected.append(value not in seen)
        seen.add(value)
    assert grouping.first_occurrence(values).tolist() == expected


@SEEDS
@pytest.mark.parametrize("spread", [1, 10, 1000, HIGH])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_distinct_values_ascend_and_every_value_has_its_place(
    seed: int, spread: int, is_sorted: bool
) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-spread, spread, (0, 1, 2, 40)[seed % 4], endpoint=True)
    values = np.sort(values) if is_sorted else values
    found, place = grouping.distinct(values)
    assert found.tolist() == sorted(set(values.tolist()))
    assert found[place].tolist() == values.tolist()
    assert found.dtype == np.int64
