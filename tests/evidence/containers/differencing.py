"""Differencing VHDs, which qemu-img does not make: a dynamic one of its making turned into one.

Source: Microsoft's Virtual Hard Disk Image Format Specification, 1.0.
"""

from __future__ import annotations

import struct
from pathlib import Path

SECTOR = 512
_DIFFERENCING = 4
_HEADER = 1024  # bytes of the dynamic disk header
_ABSENT = 0xFFFFFFFF
_FILLER = b"\xee" * SECTOR


def make_differencing(child: Path, parent: Path, content: bytes, below: bytes) -> None:
    """Leave in a dynamic VHD only what differs from its parent, and name that in it.

    What is not its own is filled with bytes that are nobody's.

    Args:
        child: a dynamic VHD of `content`; changed in its place.
        parent: a VHD of `below`.
        content: the disk.
        below: the parent's disk, of the same size.
    """
    image = bytearray(child.read_bytes())
    (at,) = struct.unpack_from(">Q", image, 16)
    table, _, entries, size = struct.unpack_from(">QIII", image, at + 16)
    for number in range(entries):
        (place,) = struct.unpack_from(">I", image, table + 4 * number)
        if place != _ABSENT:
            block = range(number * size, (number + 1) * size)
            kept = _thinned(image, place * SECTOR, content, below, block)
            struct.pack_into(">I", image, table + 4 * number, place if kept else _ABSENT)
    identifier = parent.read_bytes()[68:84]
    name = parent.name.encode("utf-16-be")
    image[at + 40 : at + 56] = identifier
    image[at + 64 : at + 64 + len(name)] = name
    _name_parent(image, at, parent.name)
    _check(image, at, _HEADER, 36)
    for footer in (0, len(image) - SECTOR):
        struct.pack_into(">I", image, footer + 60, _DIFFERENCING)
        _check(image, footer, SECTOR, 64)
    child.write_bytes(image)


def _thinned(image: bytearray, at: int, content: bytes, below: bytes, block: range) -> bool:
    """Keep the sectors of a block that differ; False when none does."""
    count = len(block) // SECTOR
    bitmap = bytearray(-(-count // (8 * SECTOR)) * SECTOR)
    for sector in range(count):
        start = block.start + sector * SECTOR
        own = slice(at + len(bitmap) + sector * SECTOR, at + len(bitmap) + (sector + 1) * SECTOR)
        if content[start : start + SECTOR] != below[start : start + SECTOR]:
            bitmap[sector // 8] |= 0x80 >> sector % 8
        else:
            image[own] = _FILLER
    image[at : at + len(bitmap)] = bitmap
    return any(bitmap)


def _name_parent(image: bytearray, at: int, name: str) -> None:
    """A relative locator of the parent, its text in front of the last footer."""
    text = f".\\{name}".encode("utf-16-le")
    place = len(image) - SECTOR
    image[place:place] = text + bytes(-len(text) % SECTOR)
    struct.pack_into(">4sIIIQ", image, at + 576, b"W2ru", SECTOR, len(text), 0, place)


def _check(image: bytearray, at: int, length: int, field: int) -> None:
    """The checksum of a header: the complement of the sum of its bytes."""
    image[at + field : at + field + 4] = bytes(4)
    total = ~sum(image[at : at + length]) & 0xFFFFFFFF
    struct.pack_into(">I", image, at + field, total)
