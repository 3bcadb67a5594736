"""Columns of text as matrices of ASCII bytes, one row per line of a listing, without loops.

All cells of a column have the same width; shorter texts are padded on the left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s, Rows
from ext4kit.units import Integers
from ext4kit.zones import UTC, current_zone, offset_text

_BLANK, _ZERO = ord(" "), ord("0")
_DAY = 86_400


def decimals(values: Integers) -> Bytes2D:
    """Non-negative numbers as decimal text.

    Args:
        values: the numbers, shape (n,).

    Returns:
        The text, shape (n, number of digits of the largest value).
    """
    text = _digits(values, len(str(values.max(initial=0))))
    if text.shape[1] > 1:
        text[:, :-1][np.logical_and.accumulate(text[:, :-1] == _ZERO, axis=1)] = _BLANK
    return text


def times(seconds: Int64s) -> Bytes2D:
    """Seconds since 1970, years 0 to 9999, as `2026-11-23 12:34:56Z`; shape (n, 20).

    In a zone other than UTC, the offset of the zone replaces the `Z`.
    """
    zone = current_zone()
    if zone is UTC:
        return _clock(seconds)
    offsets = zone.offsets_at(seconds)
    text = _clock(seconds + offsets)[:, :-1]
    return np.hstack([text, by_value(offsets, offset_text)])


def _clock(seconds: Int64s) -> Bytes2D:
    """Seconds since 1970 as date and time in UTC, with a `Z`."""
    day, second = np.divmod(seconds, _DAY)
    text = np.full((len(seconds), 20), _BLANK, np.uint8)
    text[:, :10] = by_value(day, lambda value: str(np.datetime64(value, "D")))
    for place, part in ((11, second // 3600), (14, second // 60 % 60), (17, second % 60)):
        text[:, place : place + 2] = _digits(part, 2)
    text[:, [13, 16, 19]] = np.frombuffer(b"::Z", np.uint8)
    return text


def by_value(values: Integers, text: Callable[[int], str]) -> Bytes2D:
    """The text of each value, computed once per distinct value; shape (n, width)."""
    distinct, row = np.unique(values, return_inverse=True)
    return _from_texts([text(value) for value in distinct.tolist()])[row]


def replaced(column: Bytes2D, rows: Rows, texts: list[str]) -> Bytes2D:
    """A column with the texts of some rows replaced, widened if the new texts need it."""
    if not texts:
        return column
    cells = _from_texts(texts)
    width = max(cells.shape[1], column.shape[1])
    column, cells = (
        np.pad(each, ((0, 0), (width - each.shape[1], 0)), constant_values=_BLANK)
        for each in (column, cells)
    )
    column[rows] = cells
    return column


def joined(columns: list[Bytes2D], tails: list[bytes]) -> bytes:
    """All lines as bytes: the cells of each row, then its tail, separated by blanks."""
    if not tails:
        return b""
    blank = np.full((len(tails), 1), _BLANK, np.uint8)
    heads = np.hstack([part for column in columns for part in (column, blank)])
    pieces = [b"\n"] * (3 * len(tails))
    pieces[0::3] = heads.view(f"S{heads.shape[1]}").ravel().tolist()
    pieces[1::3] = tails
    return b"".join(pieces)


def _digits(values: Integers, width: int) -> Bytes2D:
    """The last `width` decimal digits of each value."""
    text = np.empty((len(values), width), np.uint8)
    rest = values
    for place in range(width - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        text[:, place] = digit + _ZERO
    return text


def _from_texts(texts: list[str]) -> Bytes2D:
    width = max(map(len, texts), default=1)
    blob = "".join(text.rjust(width) for text in texts).encode("ascii")
    return np.frombuffer(blob, np.uint8).reshape(len(texts), width)
