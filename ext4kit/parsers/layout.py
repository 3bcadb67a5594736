"""One declaration, two readers.

An on-disk structure is declared once as a construct `Struct`. `Layout` reads one of them
with construct and a table of them as a NumPy structured view whose dtype is derived from
that same declaration.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import construct
import numpy as np

from ext4kit.errors import CorruptError

# Anything that memoryview takes; typing has a name for that only since Python 3.12.
Buffer = bytes | bytearray | memoryview | Any


def _dtype_of(field: Any) -> np.dtype[Any]:
    """The NumPy dtype with the same bytes as a construct field.

    Sizes come from construct and not from the format letter: construct spells u32 `L`,
    which NumPy reads as 8 bytes on 64-bit Linux.
    """
    if isinstance(field, construct.Renamed):
        return _dtype_of(field.subcon)
    if isinstance(field, construct.FormatField):
        order, letter = field.fmtstr
        return np.dtype(f"{order}{'u' if letter.isupper() else 'i'}{field.length}")
    if isinstance(field, construct.Bytes):
        return np.dtype((np.uint8, (field.length,)))
    if isinstance(field, construct.Array):
        return np.dtype((_dtype_of(field.subcon), (field.count,)))
    if isinstance(field, construct.Struct):
        return np.dtype([(part.name, _dtype_of(part)) for part in field.subcons])
    raise TypeError(f"no NumPy equivalent for {field!r}")


class Layout:
    """A fixed-size on-disk structure with its two readers.

    Args:
        name: the structure's name in the field's terms, used in errors.
        struct: its declaration, kernel field names, fixed-size fields only.
    """

    def __init__(self, name: str, struct: construct.Struct) -> None:
        self.name = name
        self.struct = struct
        self.size: int = struct.sizeof()

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The structured dtype; its itemsize equals `size`."""
        return _dtype_of(self.struct)

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
        piece = bytes(memoryview(data)[offset : offset + self.size])
        try:
            return self.struct.parse(piece)
        except construct.ConstructError as error:
            raise CorruptError(
                self.name, offset, f"needs {self.size} bytes, {len(piece)} are there"
            ) from error

    def build(self, values: dict[str, Any]) -> bytes:
        """The structure's bytes for the given field values."""
        return bytes(self.struct.build(values))

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
