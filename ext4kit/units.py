"""Unit types, and the function that joins the high and low halves of all split fields.

`join` works on Python integers and on NumPy columns. Therefore the same code joins a split field of
a single structure and of a whole table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType, TypeAlias, overload

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
Integers: TypeAlias = "npt.NDArray[np.integer]"  # a column of integers of any width
InodeNumber = NewType("InodeNumber", int)
TransactionId = NewType("TransactionId", int)  # jbd2 sequence number, 32 bits, wraps

NANOSECONDS = 1_000_000_000  # in a second
SECTOR = 512  # bytes; the unit of `i_blocks` and of partition tables
Progress = Callable[[int, int], None]  # (done, total), in the unit that the function names
# called with the title of a step; returns a context manager that gives the progress callback
ProgressStep = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time (ns since 1970), as opposed to a transaction id."""

    time: int


@overload
def widen(value: int) -> int: ...
@overload
def widen(value: Integers) -> npt.NDArray[np.int64]: ...
def widen(value: int | Integers) -> int | npt.NDArray[np.int64]:
    """A column as int64 (NumPy would keep u16 sums in 16 bits), or an integer unchanged."""
    if isinstance(value, int):
        return value
    column: npt.NDArray[np.int64] = value.astype("int64")
    return column if value.ndim else int(column)


@overload
def join(high: int, low: int, low_bits: int) -> int: ...
@overload
def join(high: Integers, low: Integers, low_bits: int) -> npt.NDArray[np.int64]: ...
def join(high: int | Integers, low: int | Integers, low_bits: int) -> int | npt.NDArray[np.int64]:
    """`high << low_bits | low` for integers or columns (int64).

    A column value of 2**63 or more becomes negative. Readers then treat it as out of range, which
    is right for such a block number or size.
    """
    return (widen(high) << low_bits) | widen(low)


def part_of(count: int, part: int, parts: int) -> range:
    """The numbers of one of several equal parts of a list.

    Args:
        count: length of the list.
        part: from 1.
        parts: number of parts.
    """
    return range(count * (part - 1) // parts, count * part // parts)
