"""Declarations of on-disk structures, each with two readers.

Each structure is declared once as a construct `Struct`. `Layout` reads one structure with
construct. It reads a table of them as a NumPy structured view with a dtype derived from the same
declaration. Structures that every command reads at its start are read as tables of one row, because
loading construct takes longer than the rest of the start (see `words`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.types import Bytes2D, Int64s, Rows
from ext4kit.errors import CorruptError
from ext4kit.parsers.words import Word
from ext4kit.units import join

# Any valid argument of memoryview; `typing` has a name for this only since Python 3.12.
Buffer = bytes | bytearray | memoryview | Any
Structures = npt.NDArray[np.void]  # structured; a field of it is a column


class Layout:
    """A fixed-size on-disk structure with its two readers.

    Args:
        name: name of the structure in the terms of the kernel, used in errors.
        struct: its declaration, with kernel field names and fields of fixed size only.
    """

    def __init__(self, name: str, struct: Word) -> None:
        self.name = name
        self.struct = struct
        self.size = struct.size

    @cached_property
    def construct(self) -> Any:
        """The declaration as a construct object."""
        return self.struct.spoken

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The structured dtype; its itemsize equals `size`."""
        return self.struct.dtype

    def offset_of(self, field: str) -> int:
        """Byte offset of a field within the structure."""
        return self.span(field).start

    def span(self, field: str, base: int = 0) -> slice[int, int, None]:
        """The bytes of a field, if the structure begins at byte `base`."""
        fields = self.dtype.fields
        assert fields is not None
        dtype, offset = fields[field][:2]
        return slice(base + offset, base + offset + dtype.itemsize)

    def parse(self, data: Buffer, offset: int = 0) -> Any:
        """Read one structure with construct.

        Returns:
            A construct Container with the kernel's field names; it stays inside `parsers`.

        Raises:
            CorruptError: fewer than `size` bytes are left at `offset`.
        """
        return self.construct.parse(self._piece(data, offset))

    def first(self, data: Buffer, offset: int = 0) -> Row:
        """Read one structure as a table of one row.

        Raises:
            CorruptError: fewer than `size` bytes are left at `offset`.
        """
        return Row(np.frombuffer(self._piece(data, offset), self.dtype)[0])

    def _piece(self, data: Buffer, offset: int) -> bytes:
        piece = bytes(memoryview(data)[offset : offset + self.size])
        if len(piece) < self.size:
            lacking = f"needs {self.size} bytes, {len(piece)} are there"
            raise CorruptError(self.name, offset, lacking)
        return piece

    def build(self, values: dict[str, int]) -> bytes:
        """The structure's bytes for the given field values."""
        return bytes(self.construct.build(values))

    def table(self, data: Buffer, count: int = -1, offset: int = 0) -> Structures:
        """Read `count` consecutive structures as a structured array view.

        Raises:
            CorruptError: the data ends before `count` structures.
        """
        have = (memoryview(data).nbytes - offset) // self.size
        if have < max(count, 0):
            raise CorruptError(self.name, offset, f"{count} entries wanted, room for {have}")
        return np.frombuffer(data, self.dtype, have if count < 0 else count, offset)

    def columns(self, rows: Bytes2D, offset: int = 0) -> Structures:
        """Read one structure from each row of a (n, row_size) uint8 array, at `offset`.

        Returns:
            A structured array of shape (n,); a view if the bytes of each row are contiguous.
        """
        piece = rows[:, offset : offset + self.size]
        if piece.strides[1] != 1:
            piece = np.ascontiguousarray(piece)
        return piece.view(self.dtype)[:, 0]

    def at(self, rows: Bytes2D, row: Rows, offset: Int64s) -> Structures:
        """Read one structure from each of the rows `row`, at `offset` of that row."""
        return self.columns(rows[row[:, None], offset[:, None] + np.arange(self.size)])


class Text(str):
    """Name of a stored field whose value is a text that ends before the first NUL."""


def stored_values(kind: type, layout: Layout, row: Row) -> dict[str, Any]:
    """The values of a dataclass by field.

    `Annotated` names the stored field of each value, or the stored fields of its lower and upper
    half. Fields without it are omitted. The module of the class must not use postponed annotations.
    """
    values = {}
    for name, hint in kind.__annotations__.items():
        stored = getattr(hint, "__metadata__", ())
        if not stored:
            continue
        value = row[stored[0]]
        if len(stored) == 2:
            value = join(row[stored[1]], value, 8 * layout.dtype[stored[0]].itemsize)
        elif isinstance(stored[0], Text):
            value = value.split(b"\0", 1)[0]
        values[name] = tuple(value) if isinstance(value, list) else value
    return values


class Row:
    """One row of a table with plain values, named as in a construct Container."""

    def __init__(self, row: np.void) -> None:
        self._row = row

    def __getitem__(self, name: str) -> Any:
        value = self._row[name]
        if value.dtype.names:
            return [Row(each) for each in value] if value.ndim else Row(value)
        return value.tobytes() if value.ndim and value.dtype == np.uint8 else value.tolist()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except ValueError as error:
            raise AttributeError(name) from error
