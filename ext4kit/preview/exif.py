"""Facts that cameras and programs write into pictures: Exif, a TIFF structure.

Sources: TIFF 6.0, section 2; Exif 2.32 (CIPA DC-008), sections 4.6.3 to 4.6.6.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ext4kit.report.safe import printable_text

Read = Callable[[int, int], bytes]
_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8)
_ASCII, _RATIONAL, _SIGNED_RATIONAL = 2, 5, 10
_NUMBERS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i"}
_MOST_ENTRIES = 512  # of a directory
_MOST_VALUE = 4096  # bytes
EXIF, GPS = 0x8769, 0x8825  # tags of the other directories
WIDTH, HEIGHT, BITS, PHOTOMETRIC = 0x100, 0x101, 0x102, 0x106
_TEXTS = {
    0x10E: "description", 0x10F: "maker", 0x110: "camera", 0x131: "software", 0x132: "changed",
    0x13B: "artist", 0x8298: "copyright",
}  # fmt: skip
_EXIF_TEXTS = {
    0x9003: "taken", 0x9011: "offset from UTC", 0x9004: "digitized", 0xA430: "owner",
    0xA431: "serial number", 0xA434: "lens",
}  # fmt: skip
_GPS_SOUTH, _GPS_LATITUDE, _GPS_WEST, _GPS_LONGITUDE = 1, 2, 3, 4
_GPS_BELOW, _GPS_ALTITUDE, _GPS_TIME, _GPS_DATE = 5, 6, 7, 29


class Value(NamedTuple):
    """A value of a directory.

    Attributes:
        text: of an ASCII value.
        numbers: of others; rationals as pairs.
    """

    text: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TiffReader:
    """Reads the directories of a TIFF structure.

    Attributes:
        read: (offset, length) -> bytes; fewer at the end.
        order: "<" or ">".
    """

    read: Read
    order: str

    @classmethod
    def open(cls, read: Read) -> tuple[TiffReader, int] | None:
        """A reader and the offset of its first directory; None if the header is of no TIFF."""
        head = read(0, 8)
        order = {b"II*\0": "<", b"MM\0*": ">"}.get(head[:4])
        if order is None or len(head) < 8:
            return None
        return cls(read, order), int(struct.unpack_from(f"{order}I", head, 4)[0])

    def directory(self, at: int) -> dict[int, Value]:
        """The values of a directory by tag; those that cannot be read are left out."""
        raw = self.read(at, 2)
        count = int(struct.unpack(f"{self.order}H", raw)[0]) if len(raw) == 2 else 0
        table = self.read(at + 2, 12 * min(count, _MOST_ENTRIES))
        found = dict[int, Value]()
        for start in range(0, len(table) // 12 * 12, 12):
            tag, kind, number = struct.unpack_from(f"{self.order}HHI", table, start)
            size = _SIZES[kind] * number if kind < len(_SIZES) else 0
            if not 0 < size <= _MOST_VALUE:
                continue
            value = table[start + 8 : start + 8 + size]
            if size > 4:
                value = self.read(struct.unpack_from(f"{self.order}I", table, start + 8)[0], size)
            if len(value) == size:
                found.setdefault(tag, self._value(kind, value))
        return found

    def _value(self, kind: int, raw: bytes) -> Value:
        if kind == _ASCII:
            return Value(raw.split(b"\0")[0].decode("utf-8", "surrogateescape").strip(), ())
        letter = {_RATIONAL: "I", _SIGNED_RATIONAL: "i"}.get(kind) or _NUMBERS.get(kind)
        if letter is None:
            return Value("", ())
        size = struct.calcsize(f"={letter}")
        numbers = struct.unpack(f"{self.order}{len(raw) // size}{letter}", raw)
        return Value("", tuple(map(int, numbers)))


def exif_facts(read: Read) -> Iterator[tuple[str, str]]:
    """(name, value) of what the Exif structure says of the camera, the time and the place."""
    opened = TiffReader.open(read)
    if opened is None:
        return
    reader, at = opened
    first = reader.directory(at)
    yield from _texts(first, _TEXTS)
    for tag, tell in ((EXIF, lambda values: _texts(values, _EXIF_TEXTS)), (GPS, _place)):
        numbers = first[tag].numbers if tag in first else ()
        if numbers:
            yield from tell(reader.directory(numbers[0]))


def _texts(values: dict[int, Value], names: dict[int, str]) -> Iterator[tuple[str, str]]:
    for tag, name in names.items():
        if tag in values and values[tag].text:
            yield name, printable_text(values[tag].text)


def _place(values: dict[int, Value]) -> Iterator[tuple[str, str]]:
    latitude = _degrees(values, _GPS_LATITUDE, _GPS_SOUTH, "S")
    longitude = _degrees(values, _GPS_LONGITUDE, _GPS_WEST, "W")
    if latitude is not None and longitude is not None:
        yield "place", f"{latitude:.6f}, {longitude:.6f}"
    height = _ratios(values.get(_GPS_ALTITUDE))
    if height:
        below = values.get(_GPS_BELOW, Value("", ())).numbers[:1] == (1,)
        yield "altitude", f"{-height[0] if below else height[0]:.1f} m"
    date, clock = values.get(_GPS_DATE), _ratios(values.get(_GPS_TIME))
    if date is not None and date.text and len(clock) == 3:
        time = ":".join(f"{int(part):02d}" for part in clock)
        yield "time of the place", printable_text(f"{date.text} {time} UTC")


def _degrees(values: dict[int, Value], tag: int, side: int, negative: str) -> float | None:
    parts = _ratios(values.get(tag))
    if len(parts) != 3:
        return None
    found = parts[0] + parts[1] / 60 + parts[2] / 3600
    sign = values.get(side, Value("", ())).text
    return -found if sign == negative else found


def _ratios(value: Value | None) -> list[float]:
    """Pairs of numbers as quotients; empty if one is divided by zero."""
    numbers = () if value is None else value.numbers
    pairs = list(zip(numbers[::2], numbers[1::2], strict=False))
    return (
        [] if any(below == 0 for _, below in pairs) else [above / below for above, below in pairs]
    )
