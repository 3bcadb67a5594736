"""Lengths of files whose header has a length field."""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.filetypes.formats.reader import ContentReader, Stated


@dataclass(frozen=True, slots=True)
class LengthField:
    """Position and encoding of a length field.

    Attributes:
        at: byte offset of the field.
        width: bytes of the field.
        order: byte order, "<" or ">".
        plus: bytes that the field does not count.
        align: the file is padded to a multiple of this number of bytes.
    """

    at: int
    width: int
    order: str
    plus: int = 0
    align: int = 1

    def __call__(self, window: ContentReader) -> Stated | None:
        """The length according to the field."""
        size = window.number(self.at, self.width, self.order)
        return Stated(-(-(size + self.plus) // self.align) * self.align) if size > 0 else None
