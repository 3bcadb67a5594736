"""One declaration, two readers.

An on-disk structure is declared once as a construct `Struct`. `Layout` reads one of them
with construct and a table of them as a NumPy structured view whose dtype is derived from
that same declaration. The few that each command begins with are read as a table of one, as
loading construct takes longer than all the rest of it (see `words`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.errors import CorruptError
from ext4kit.parsers.words import Word

# Anything that memoryview takes; typing has a name for that only since Python 3.12.
Buffer = bytes | bytearray | memoryview | Any


class Layout:
    """A fixed-size on-disk structure with its two readers.

    Args:
        name: the structure's name in the field's terms, used in errors.
        struct: its declaration, kernel field names, fixed-size fields only.
    """

    def __init__(self, name: str, struct: Word) -> None:
        self.name = name
        self.struct = struct
        self.size = struct.size

    @cached_property
    def construct(self) -> Any:
        """The declaration as construct has it."""
        return self.struct.spoken

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The structured dtype; its itemsize equals `size`."""
        return self.struct.dtype

    def offset_of(self, field: str) -> int:
        """Byte offset of a field within the structure."""
        fields = self.dtype.fields
        assert fields is not None
        return fields[field][1]

    def parse(self, data: Buffer, offset: int = 0) -> Any:
        """Read one structure with construct.

        Returns:
            A construct Container with the kernel's field names; it stays inside `parsers`.

        Raises:
            CorruptError: fewer than `size` bytes are left at `offset`.
        """
        return self.construct.parse(self._piece(data, offset))

    def first(self, data: Buffer, offset: int = 0) -> Row:
        """Read one structure as a table of one.

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

    def build(self, values: dict[str, Any]) -> bytes:
        """The structure's bytes for the given field values."""
        return bytes(self.construct.build(values))

    def table(self, data: Buffer, count: int = -1, offset: int = 0) -> Any:
        """Read `count` structures that lie back to back, as a structured array view.

        Raises:
            CorruptError: the data ends before `count` structures.
        """
        have = (memoryview(data).nbytes - offset) // self.size
        if have < max(count, 0):
            raise CorruptError(self.name, offset, f"{count} entries wanted, room for {have}")
        return np.frombuffer(data, self.dtype, have if count < 0 else count, offset)

    def columns(self, rows: np.ndarray[Any, Any], offset: int = 0) -> Any:
        """Read one structure from each row of a (n, row_size) uint8 array, at `offset`.

        Returns:
            A structured array of shape (n,); a view where each row's bytes are contiguous.
        """
        piece = rows[:, offset : offset + self.size]
        if piece.strides[1] != 1:
            piece = np.ascontiguousarray(piece)
        return piece.view(self.dtype)[:, 0]


class Row:
    """One row of a table with plain values, named as a construct Container has them."""

    def __init__(self, row: Any) -> None:
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
