"""Tables of columns: rows are chosen and joined as in a list of tuples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Codes, Int64s


@dataclass(frozen=True, slots=True)
class Inner(Table):
    """Two columns."""

    number: Int64s
    code: Codes


@dataclass(frozen=True, slots=True)
class Outer(Table):
    """A column of each kind."""

    start: Int64s
    flag: Bools
    name: list[bytes]
    inner: Inner


Row = tuple[int, bool, bytes, int, int]
EXTREMES = [np.iinfo(np.int64).min, -1, 0, 1, np.iinfo(np.int64).max]


def drawn(random: np.random.Generator, count: int) -> Outer:
    """A table of so many random rows."""
    number = random.choice(EXTREMES, count)
    inner = Inner(number, random.integers(-128, 128, count, np.int8))
    names = [bytes([value]) for value in random.integers(0, 256, count).tolist()]
    return Outer(random.integers(-5, 5, count), random.random(count) < 0.5, names, inner)


def rows_of(table: Outer) -> list[Row]:
    """The table as a list of rows."""
    columns = (table.start, table.flag, table.name, table.inner.number, table.inner.code)
    lists = [column if isinstance(column, list) else column.tolist() for column in columns]
    return list(zip(*lists, strict=True))


def dtypes_of(table: Outer) -> list[np.dtype[np.generic]]:
    """The types of its arrays."""
    return [a.dtype for a in (table.start, table.flag, table.inner.number, table.inner.code)]


DTYPES = [np.dtype(kind) for kind in (np.int64, np.bool_, np.int64, np.int8)]


@pytest.mark.parametrize("seed", range(20))
def test_take_chooses_rows_by_number_mask_and_slice(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = drawn(random, int(random.integers(0, 9)))
    rows, count = rows_of(table), len(table)
    assert count == len(rows)
    chosen = random.integers(0, count, 12 if count else 0)
    assert rows_of(table.take(chosen)) == [rows[row] for row in chosen.tolist()]
    mask = random.random(count) < 0.5
    assert rows_of(table.take(mask)) == [row for row, kept in zip(rows, mask, strict=True) if kept]
    first, end = sorted(random.integers(0, count + 1, 2).tolist())
    assert rows_of(table.take(slice(first, end))) == rows[first:end]
    assert dtypes_of(table.take(mask)) == DTYPES


@pytest.mark.parametrize("seed", range(20))
def test_concat_puts_tables_after_each_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = [drawn(random, count) for count in random.integers(0, 4, seed % 5).tolist()]
    joined = Outer.concat(parts)
    assert rows_of(joined) == [row for part in parts for row in rows_of(part)]
    assert dtypes_of(joined) == DTYPES


def test_the_empty_table_has_the_annotated_types() -> None:
    assert rows_of(Outer.empty()) == []
    assert dtypes_of(Outer.empty()) == DTYPES
    joined = Outer.concat([Outer.empty(), Outer.empty()])
    assert (rows_of(joined), dtypes_of(joined)) == ([], DTYPES)


def test_a_table_without_rows_leaves_the_shape_of_others() -> None:
    wide = np.arange(6, dtype=np.int8).reshape(2, 3)
    one = Inner(np.arange(2), wide)
    joined = Inner.concat([Inner.empty(), one, Inner.empty()])
    assert joined.code.tolist() == wide.tolist()


def test_concat_gives_arrays_of_its_own() -> None:
    one = Inner(np.arange(2), np.zeros(2, np.int8))
    Inner.concat([one]).number[0] = 7
    assert one.number.tolist() == [0, 1]
