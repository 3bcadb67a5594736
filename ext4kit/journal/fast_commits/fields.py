"""Access to single fields of on-disk structures by their declared names."""

from __future__ import annotations

from ext4kit.parsers.layout import Buffer, Layout


def set_fields(layout: Layout, data: Buffer, at: int = 0, **values: int) -> None:
    """Write little-endian fields of one structure.

    Args:
        layout: the structure.
        data: bytearray or uint8 array, changed in place.
        at: byte offset of the structure.
        values: field name -> number; bits that do not fit the field are dropped.
    """
    view = memoryview(data)
    for name, value in values.items():
        place, size = at + layout.offset_of(name), layout.dtype[name].itemsize
        view[place : place + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def get_field(layout: Layout, data: Buffer, name: str, at: int = 0) -> int:
    """One little-endian field of the structure at byte `at`."""
    place = at + layout.offset_of(name)
    return int.from_bytes(memoryview(data)[place : place + layout.dtype[name].itemsize], "little")
