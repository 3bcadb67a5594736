"""Tables: frozen dataclasses whose fields are columns of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Annotated, Protocol, Self, get_args, get_origin, get_type_hints

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, RowSlice


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length, one per field; row `i` is element `i` of every column.

    A column is a NumPy array whose first axis counts rows, a list, or an object with its own
    `take`, `concat` and `empty`, such as a table. The annotation of an array is an alias of
    `ext4kit.arrays.types`, which states its dtype.
    """

    def __len__(self) -> int:
        return len(getattr(self, _column_names(type(self))[0]))

    def take(self, rows: Rows | Int64s | Bools | RowSlice) -> Self:
        """Some of the rows.

        Args:
            rows: row numbers in the wanted order, a mask (bool, one per row), or a slice.
        """
        columns = [_selected(self, name, rows) for name in _column_names(type(self))]
        return type(self)(*columns)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of several tables in order; the empty table for no tables."""
        filled = [part for part in parts if len(part)] or parts[:1]
        if not filled:
            return cls.empty()
        return cls(*(_joined(filled, name) for name in _column_names(cls)))

    @classmethod
    def empty(cls) -> Self:
        """The table without rows; its arrays have one axis and the dtypes of the annotations."""
        hints = _HINTS.get(cls) or _HINTS.setdefault(cls, get_type_hints(cls, include_extras=True))
        return cls(*(_blank(hints[name]) for name in _column_names(cls)))


class _Nested(Protocol):
    """A column that is itself a table, or behaves like one."""

    @classmethod
    def empty(cls) -> Self: ...


_HINTS: dict[type[Table], dict[str, type[_Nested]]] = {}  # cached, because they are slow to compute
_NAMES: dict[type[Table], tuple[str, ...]] = {}  # likewise


def _column_names(table: type[Table]) -> tuple[str, ...]:
    return _NAMES.get(table) or _NAMES.setdefault(table, tuple(one.name for one in fields(table)))


def _selected(table: Table, name: str, rows: Rows | Int64s | Bools | RowSlice) -> object:
    column = getattr(table, name)
    if isinstance(column, np.ndarray):
        return column[rows]
    if not isinstance(column, list):
        return column.take(rows)
    if isinstance(rows, slice):
        return column[rows]
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    return [column[row] for row in rows.tolist()]


def _joined(parts: Sequence[Table], name: str) -> object:
    columns = [getattr(part, name) for part in parts]
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    if isinstance(columns[0], list):
        return list(chain.from_iterable(columns))
    return type(columns[0]).concat(columns)


def _blank(hint: type[_Nested]) -> object:
    kind = get_origin(hint)
    if kind is Annotated:
        dtype = get_args(hint)[1]
        return np.zeros(0, dtype)
    return [] if kind is list else hint.empty()
