"""Compiled Python: a header and one marshalled object, which is parsed but not created."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ext4kit.filetypes.formats.declaration import FileFormat, Start
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import ContentReader, Stated

_HEADER = 16  # magic, flags, and time and size or a hash (PEP 552)
_LARGEST = 16 << 20
_FLAG_REF = 0x80
_PLAIN = {  # type -> number of bytes that follow
    **dict.fromkeys(b"0NSTF.", 0),
    **dict.fromkeys(b"ir", 4),
    **dict.fromkeys(b"Ig", 8),
    ord("y"): 16,
}
_LONG = frozenset(b"sutaA")  # types with a length of 4 bytes and that number of bytes
_SHORT = frozenset(b"zZ")  # the same with a length of 1 byte
_MANY = frozenset(b"([<>")  # types with a count of 4 bytes and that number of objects
_CODE_COUNTS = {  # parts of a code object in turn: bytes of integers, number of objects
    "3.8-3.10": (24, 8, 4, 1),
    "3.11-": (20, 8, 4, 2),
}


class _Walk:
    """The objects that remain to be parsed, as a stack of counts."""

    def __init__(self, data: bytes, code: tuple[int, int, int, int]) -> None:
        self.data, self.at, self.code = data, 0, code
        self.pending: list[int | Callable[[], None]] = [1]

    def skip(self, size: int) -> None:
        self.at += size

    def end(self) -> int | None:
        while self.pending:
            top = self.pending.pop()
            if callable(top):
                top()
                continue
            if top > 1:
                self.pending.append(top - 1)
            if top and not self.one():
                return None
        return self.at if self.at <= len(self.data) else None

    def number(self, letter: str) -> int:
        value: int = struct.unpack_from(letter, self.data, self.at)[0]
        self.at += struct.calcsize(letter)
        return value

    def one(self) -> bool:
        kind = self.number("B") & ~_FLAG_REF
        if kind in _PLAIN:
            self.skip(_PLAIN[kind])
        elif kind in _LONG:
            self.skip(self.number("<I"))
        elif kind in _SHORT:
            self.skip(self.number("B"))
        elif kind == ord("l"):
            self.skip(2 * abs(self.number("<i")))
        else:
            return self.several(kind)
        return self.at <= len(self.data)

    def several(self, kind: int) -> bool:
        if kind == ord("c"):
            self.code_object()
        elif kind in _MANY:
            self.pending.append(self.number("<I"))
        elif kind == ord(")"):
            self.pending.append(self.number("B"))
        elif kind == ord(":"):
            self.pending.append(3)
        else:
            return False
        return True

    def code_object(self) -> None:
        integers, objects, middle, last = self.code
        self.skip(integers)
        self.pending += [last, lambda: self.skip(middle), objects]


def pyc(window: ContentReader) -> Stated | None:
    """The end of the code object after the header (CPython, Python/marshal.c)."""
    data = window.read(_HEADER, _LARGEST)
    version = window.number(0, 2)
    layout = "3.11-" if version >= 3450 else "3.8-3.10"
    try:
        end = _Walk(data, _CODE_COUNTS[layout]).end()
    except struct.error:
        return None
    return None if end is None else Stated(_HEADER + end, proven=True)


FORMATS = (
    FileFormat(
        "class",
        starts=(b"\xca\xfe\xba\xbe\x00\x00\x00",),
        kind=(".class", "application/java-vm"),
        names="class",
    ),
    FileFormat(
        "pyc",
        starts=(
            Start(b"\xa7\r\r\n\x00\x00\x00\x00", any_at=(0, 4)),
            Start(b"+\x0e\r\n\x00\x00\x00\x00", any_at=(0, 4)),
        ),
        length=pyc,
        kind=(".pyc", "application/x-python-code"),
        names="pyc pyo",
    ),
    FileFormat(
        "dex",
        starts=(b"dex\n03",),
        length=LengthField(32, 4, "<"),
        kind=(".dex", "application/x-dex"),
    ),
)
