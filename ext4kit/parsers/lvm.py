"""LVM2: the label of a physical volume and the text that describes its volume group.

Source: lib/format_text/layout.h of LVM2, and lvm.conf(5) for the grammar of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Bytes, Int32ul, Int64ul, Struct
from ext4kit.units import SECTOR

LABEL = Layout(
    "LVM label",
    Struct(
        "id" / Bytes(8),  # LABELONE
        "sector" / Int64ul,
        "crc" / Int32ul,
        "offset" / Int32ul,  # of the header that follows, from the label's start
        "type" / Bytes(8),  # "LVM2 001"
        "pv_uuid" / Bytes(32),
        "device_size" / Int64ul,
    ),
)
AREA = Layout("LVM disk location", Struct("offset" / Int64ul, "size" / Int64ul))
METADATA = Layout(
    "LVM metadata area",
    Struct(
        "checksum" / Int32ul,
        "magic" / Bytes(16),
        "version" / Int32ul,
        "start" / Int64ul,  # of this area in the physical volume
        "size" / Int64ul,
        "text_offset" / Int64ul,  # from the start of the area
        "text_size" / Int64ul,
        "text_checksum" / Int32ul,
        "text_flags" / Int32ul,
    ),
)
METADATA_MAGIC = b" LVM2 x[5A%r0N*>"
_MOST_AREAS = 32
_MOST_DEPTH = 16
_TOKENS = re.compile(r'\s+|#[^\n]*|("(?:[^"\\]|\\.)*"|[{}\[\],=]|[^\s{}\[\],="#]+)')

Value = str | int | list[Any] | dict[str, Any]
Group = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PhysicalLabel:
    """The label of a physical volume.

    Attributes:
        uuid: 32 characters.
        metadata: (byte offset, bytes) of each metadata area.
    """

    uuid: str
    metadata: tuple[tuple[int, int], ...]


def parse_label(data: Buffer) -> PhysicalLabel | None:
    """The label in the first four sectors of a physical volume, or None."""
    for start in range(0, min(4 * SECTOR, len(data)), SECTOR):
        if bytes(data[start : start + 8]) == b"LABELONE":
            found = LABEL.parse(data, start)
            at = start + int(found.offset) + 40  # after the UUID and the size
            areas = list(_areas(data, at))
            after = at + (len(areas) + 1) * AREA.size
            places = tuple(_areas(data, after))
            return PhysicalLabel(found.pv_uuid.decode("ascii", "backslashreplace"), places)
    return None


def _areas(data: Buffer, at: int) -> Iterator[tuple[int, int]]:
    """(byte offset, bytes) of each area in a list that ends with an empty entry."""
    for number in range(_MOST_AREAS):
        if at + (number + 1) * AREA.size > len(data):
            return
        found = AREA.parse(data, at + number * AREA.size)
        if not found.offset:
            return
        yield int(found.offset), int(found.size)


def text_place(data: Buffer) -> tuple[int, int, int]:
    """(byte offset, bytes, size of the area) of the current text, from the area's first sector.

    Raises:
        CorruptError: the sector does not begin a metadata area.
    """
    found = METADATA.parse(data)
    if found.magic != METADATA_MAGIC:
        raise CorruptError(METADATA.name, None, "wrong magic")
    if not SECTOR <= found.text_offset < found.size or found.text_size > found.size:
        raise CorruptError(METADATA.name, None, "its text is not in it")
    return int(found.text_offset), int(found.text_size), int(found.size)


def parse_text(text: str) -> Group:
    """LVM's configuration text as nested dictionaries, lists, strings and integers.

    Raises:
        CorruptError: the text does not follow the grammar.
    """
    tokens = [match[1] for match in _TOKENS.finditer(text.rstrip("\0")) if match[1]]
    found, _ = _section(tokens, 0, 0)
    return found


def _section(tokens: list[str], at: int, depth: int) -> tuple[Group, int]:
    """(entries up to the closing brace, index of the token after it)."""
    found: Group = {}
    if depth > _MOST_DEPTH:
        raise CorruptError("LVM text", None, "its sections are nested too deep")
    while at < len(tokens) and tokens[at] != "}":
        name, sign = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        if sign == "{":
            found[name], at = _section(tokens, at + 2, depth + 1)
        elif sign == "=":
            found[name], at = _value(tokens, at + 2)
        else:
            raise CorruptError("LVM text", None, f"{sign or 'its end'!r} follows {name!r}")
    return found, at + 1


def _value(tokens: list[str], at: int) -> tuple[Value, int]:
    if at >= len(tokens):
        raise CorruptError("LVM text", None, "it ends before a value")
    if tokens[at] != "[":
        return _scalar(tokens[at]), at + 1
    end = at
    while end < len(tokens) and tokens[end] != "]":
        end += 1
    return [_scalar(token) for token in tokens[at + 1 : end] if token != ","], end + 1


def _scalar(token: str) -> str | int:
    if token.startswith('"'):
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return int(token) if re.fullmatch(r"-?\d{1,19}", token) else token
