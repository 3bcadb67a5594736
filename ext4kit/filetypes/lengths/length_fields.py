"""Formats of which one field of the header is the length."""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.filetypes.lengths.reader import Stated, Window


@dataclass(frozen=True, slots=True)
class Field:
    """Where a length stands.

    Attributes:
        at: byte offset of the field.
        width: its bytes.
        order: "<" or ">".
        plus: what the field leaves out.
        align: the file is padded to a multiple of it.
    """

    at: int
    width: int
    order: str
    plus: int = 0
    align: int = 1

    def __call__(self, window: Window) -> Stated | None:
        """The length that the field states."""
        size = window.number(self.at, self.width, self.order)
        return Stated(-(-(size + self.plus) // self.align) * self.align) if size > 0 else None


SIZED = {
    "woff": Field(8, 4, ">"),
    "woff2": Field(8, 4, ">"),
    "gdbm": Field(32, 8, "<"),
    "typelib": Field(40, 4, "<"),
    "icc": Field(0, 4, ">"),
    "dex": Field(32, 4, "<"),
    "cab": Field(8, 4, "<"),
    "hwdb": Field(16, 8, "<"),
    "device-tree": Field(4, 4, ">"),
    "squashfs": Field(40, 8, "<", align=4096),
}
