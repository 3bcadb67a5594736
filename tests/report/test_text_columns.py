"""Columns of text: the same characters as Python's own formatting, for a whole column at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from ext4kit.arrays.types import Bytes2D
from ext4kit.report.text_columns import by_value, decimals, joined, replaced, times

RANDOM = np.random.default_rng(20261124)


def cells(column: Bytes2D) -> list[str]:
    """The text of each row."""
    return [bytes(row).decode("ascii") for row in column]


def test_numbers_are_padded_to_the_longest() -> None:
    values = np.append(RANDOM.integers(0, 1 << 62, 500), [0, 7, 10, 100, 1 << 62])
    width = len(str(values.max()))
    assert cells(decimals(values)) == [f"{value:>{width}}" for value in values.tolist()]
    assert cells(decimals(np.zeros(2, np.int64))) == ["0", "0"]
    assert decimals(np.zeros(0, np.int64)).shape[0] == 0


def test_times_from_1901_to_2446() -> None:
    limits = [-(1 << 31), -1, 0, 86_399, 86_400, 951_782_400, (1 << 34) - (1 << 31) - 1]
    seconds = np.append(RANDOM.integers(limits[0], limits[-1], 2000), limits)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [
        (start + timedelta(seconds=value)).strftime("%Y-%m-%d %H:%M:%SZ")
        for value in seconds.tolist()
    ]
    assert cells(times(seconds)) == expected


def test_some_rows_with_other_and_longer_texts() -> None:
    column = decimals(np.array([5, 6, 7]))
    assert cells(replaced(column, np.array([1]), ["8,12"])) == ["   5", "8,12", "   7"]
    assert cells(replaced(decimals(np.array([500, 600])), np.array([0]), ["?"])) == ["  ?", "600"]
    assert replaced(column, np.zeros(0, np.intp), []) is column


def test_lines_have_the_cells_and_the_tail_of_their_row() -> None:
    columns = [by_value(np.array([2, 1, 2]), {1: "one", 2: "three"}.__getitem__)]
    columns.append(decimals(np.array([1, 22, 333])))
    tails = [b"a", b"", "\u00e4 b".encode()]
    expected = "three   1 a\n  one  22 \nthree 333 \u00e4 b\n"
    assert joined(columns, tails).decode() == expected
    assert joined([], []) == b""
