"""VHD: the footer of a virtual hard disk, its header, and the names of a parent.

Source: Microsoft's Virtual Hard Disk Image Format Specification, 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.errors import CorruptError, UnsupportedError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Array, Bytes, Int32ub, Int64ub, Struct
from ext4kit.units import SECTOR

MAGIC = b"conectix"
FOOTER = Layout(
    "VHD footer",
    Struct(
        "cookie" / Bytes(8),
        "features" / Int32ub,
        "file_format_version" / Int32ub,
        "data_offset" / Int64ub,  # byte offset of the header
        "time_stamp" / Int32ub,
        "creator_application" / Bytes(4),
        "creator_version" / Int32ub,
        "creator_host_os" / Bytes(4),
        "original_size" / Int64ub,
        "current_size" / Int64ub,  # of the disk, in bytes
        "disk_geometry" / Int32ub,
        "disk_type" / Int32ub,
        "checksum" / Int32ub,
        "unique_id" / Bytes(16),
        "rest" / Bytes(428),
    ),
)
HEADER = Layout(
    "VHD dynamic disk header",
    Struct(
        "cookie" / Bytes(8),
        "data_offset" / Int64ub,
        "table_offset" / Int64ub,  # of the block allocation table, in bytes
        "header_version" / Int32ub,
        "max_table_entries" / Int32ub,
        "block_size" / Int32ub,  # bytes
        "checksum" / Int32ub,
        "parent_unique_id" / Bytes(16),
        "parent_time_stamp" / Int32ub,
        "reserved" / Int32ub,
        "parent_unicode_name" / Bytes(512),  # UTF-16, big endian
        "parent_locators"
        / Array(
            8,
            Struct(
                "platform_code" / Bytes(4),
                "platform_data_space" / Int32ub,
                "platform_data_length" / Int32ub,
                "reserved" / Int32ub,
                "platform_data_offset" / Int64ub,
            ),
        ),
        "reserved2" / Bytes(256),
    ),
)
ABSENT = 0xFFFFFFFF  # table entry of a block that is not in the file
FIXED, DYNAMIC, DIFFERENCING = 2, 3, 4
_HEADER_COOKIE = b"cxsparse"
_MOST_BLOCK = 1 << 30
_MOST_NAME = 4096
_PATHS = (b"W2ru", b"W2ku")  # relative to the child, absolute; both UTF-16, little endian


@dataclass(frozen=True, slots=True)
class VhdFooter:
    """The type, size and identifier of a disk.

    Attributes:
        kind: FIXED, DYNAMIC or DIFFERENCING.
        size: bytes of the disk.
        header: byte offset of the header, if the disk is not fixed.
        identifier: unique identifier of 16 bytes.
        is_sound: whether the checksum is right.
    """

    kind: int
    size: int
    header: int
    identifier: bytes
    is_sound: bool


@dataclass(frozen=True, slots=True)
class VhdHeader:
    """The table of blocks and the parent of a dynamic or differencing disk.

    Attributes:
        table: byte offset of the table of blocks, and its number of entries.
        block: bytes per block.
        parent: identifier of the parent.
        name: the parent's name in the header.
        locators: (byte offset, bytes) of other names of the parent, the relative one first.
        is_sound: whether the checksum is right.
    """

    table: tuple[int, int]
    block: int
    parent: bytes
    name: str
    locators: tuple[tuple[int, int], ...]
    is_sound: bool


def parse_footer(data: Buffer) -> VhdFooter:
    """A footer, or its copy at the start of the file.

    Raises:
        CorruptError: there is no footer, or its values are not valid.
        UnsupportedError: the type of disk is not supported.
    """
    found = FOOTER.parse(data)
    if found.cookie != MAGIC:
        raise CorruptError(FOOTER.name, None, "is none")
    kind, size = int(found.disk_type), int(found.current_size)
    if kind not in (FIXED, DYNAMIC, DIFFERENCING):
        raise UnsupportedError(f"VHD: a disk of type {kind}")
    if not 0 < size < 1 << 62:
        raise CorruptError(FOOTER.name, None, f"a disk of {size:,} bytes")
    is_sound = _fits(data[: FOOTER.size], 64, int(found.checksum))
    return VhdFooter(kind, size, int(found.data_offset), bytes(found.unique_id), is_sound)


def parse_header(data: Buffer, offset: int) -> VhdHeader:
    """The header of a dynamic or differencing disk.

    Args:
        data: bytes of the header.
        offset: byte offset of the header in the file.

    Raises:
        CorruptError: there is no header, or its values are not valid.
    """
    found = HEADER.parse(data)
    if found.cookie != _HEADER_COOKIE:
        raise CorruptError(HEADER.name, offset, "is none")
    block = int(found.block_size)
    if not SECTOR <= block <= _MOST_BLOCK or block & (block - 1):
        raise CorruptError(HEADER.name, offset, f"blocks of {block:,} bytes")
    places = {
        bytes(each.platform_code): (int(each.platform_data_offset), int(each.platform_data_length))
        for each in reversed(found.parent_locators)
    }
    name = bytes(found.parent_unicode_name).decode("utf-16-be", "replace").split("\0", 1)[0]
    locators = [places[code] for code in _PATHS if code in places]
    return VhdHeader(
        (int(found.table_offset), int(found.max_table_entries)),
        block,
        bytes(found.parent_unique_id),
        name,
        tuple(place for place in locators if place[1] <= _MOST_NAME),
        _fits(data[: HEADER.size], 36, int(found.checksum)),
    )


def _fits(data: Buffer, field: int, stored: int) -> bool:
    """Whether the stored checksum is the complement of the sum of all bytes outside its field."""
    raw = bytes(data)
    return ~(sum(raw) - sum(raw[field : field + 4])) & 0xFFFFFFFF == stored
