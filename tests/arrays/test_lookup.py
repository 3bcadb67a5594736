"""Exact and as-of joins give what a loop over all rows finds."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.arrays.lookup import AsOfIndex, SortedIndex, is_member, values_at
from ext4kit.arrays.types import NO_ROW, Int64s

LOW, HIGH = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
POOL = np.array([LOW, LOW + 1, -7, -1, 0, 1, 2, 5, 6, 1 << 62, HIGH - 1, HIGH])


def drawn(random: np.random.Generator, count: int) -> Int64s:
    """So many of a few values, the extremes among them."""
    return random.choice(POOL, count)


@pytest.mark.parametrize("seed", range(40))
def test_the_first_row_with_a_key_is_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = np.sort(drawn(random, seed % 9))
    known = keys.tolist()
    index = SortedIndex(keys)
    expected = [known.index(key) if key in known else NO_ROW for key in POOL.tolist()]
    assert index.rows(POOL).tolist() == expected
    assert is_member(POOL, keys).tolist() == [key in known for key in POOL.tolist()]
    first, end = index.bounds(POOL)
    for key, low, high in zip(POOL.tolist(), first.tolist(), end.tolist(), strict=True):
        assert list(range(low, high)) == [row for row, one in enumerate(known) if one == key]


@pytest.mark.parametrize("seed", range(60))
def test_the_newest_row_at_or_before_a_time_is_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = seed % 15
    keys, times = drawn(random, count), drawn(random, count)
    order = np.lexsort((times, keys))
    keys, times = keys[order], times[order]
    wanted, at = drawn(random, 50), drawn(random, 50)
    index = AsOfIndex(keys, times)
    rows = list(zip(keys.tolist(), times.tolist(), strict=True))

    def newest(key: int, time: int) -> int:
        fits = [row for row, (one, when) in enumerate(rows) if one == key and when <= time]
        return fits[-1] if fits else NO_ROW

    pairs = zip(wanted.tolist(), at.tolist(), strict=True)
    assert index.rows(wanted, at).tolist() == [newest(*pair) for pair in pairs]
    one = int(at[0])
    assert index.rows(wanted, one).tolist() == [newest(key, one) for key in wanted.tolist()]


@pytest.mark.parametrize("count", range(4))
def test_rows_give_their_values(count: int) -> None:
    values = POOL[:count]
    rows = np.array([NO_ROW, *range(count), NO_ROW])
    assert values_at(values, rows).tolist() == [-1, *values.tolist(), -1]


def test_nothing_is_looked_up() -> None:
    none = np.zeros(0, np.int64)
    assert SortedIndex(np.array([1, 2])).rows(none).tolist() == []
    assert AsOfIndex(np.array([1, 2]), np.array([1, 1])).rows(none, none).tolist() == []
