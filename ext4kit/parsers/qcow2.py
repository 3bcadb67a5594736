"""QCOW2: the header of an image and the meaning of its table entries.

Source: docs/interop/qcow2.txt of QEMU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ext4kit.arrays.types import Int64s
from ext4kit.errors import CorruptError, UnsupportedError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Bytes, Int8ub, Int32ub, Int64ub, Struct

HEADER = Layout(
    "QCOW2 header",
    Struct(
        "magic" / Bytes(4),  # "QFI" and 0xfb
        "version" / Int32ub,  # 2 or 3
        "backing_file_offset" / Int64ub,
        "backing_file_size" / Int32ub,
        "cluster_bits" / Int32ub,
        "size" / Int64ub,  # of the disk, in bytes
        "crypt_method" / Int32ub,
        "l1_size" / Int32ub,  # entries
        "l1_table_offset" / Int64ub,
        "refcount_table_offset" / Int64ub,
        "refcount_table_clusters" / Int32ub,
        "nb_snapshots" / Int32ub,
        "snapshots_offset" / Int64ub,
    ),
)
MORE = Layout(
    "QCOW2 header, version 3",
    Struct(
        "incompatible_features" / Int64ub,
        "compatible_features" / Int64ub,
        "autoclear_features" / Int64ub,
        "refcount_order" / Int32ub,
        "header_length" / Int32ub,
        "compression_type" / Int8ub,  # from a header length of 105 on
    ),
)
COMPRESSED = 1 << 62
ZERO = 1
OFFSET = 0x00FFFFFFFFFFFE00
SUBCLUSTERS = 32
Entry = TypeVar("Entry", int, Int64s)

_DATA_FILE, _EXTENDED = 1 << 2, 1 << 4
_KNOWN = 0b11011  # dirty, corrupt, compression type, extended L2 entries
_CORRUPT = 1 << 1
_LONGEST_NAME = 1023
_HEADER_2 = 72
_COMPRESSION_AT = 104


@dataclass(frozen=True, slots=True)
class Qcow2Header:
    """The header values that a reader needs.

    Attributes:
        size: bytes of the disk.
        cluster_bits: a cluster is 1 << cluster_bits bytes.
        first_level: byte offset of the first-level table, and its number of entries.
        zstd: whether clusters are compressed with Zstandard; else with raw deflate.
        extended: whether second-level entries have 16 bytes, with a bitmap of 32 subclusters.
        marked_corrupt: whether QEMU found damage and set the flag.
        backing: byte offset and length of the backing file's name; (0, 0) without one.
        snapshots: number of internal snapshots, which are not read.
    """

    size: int
    cluster_bits: int
    first_level: tuple[int, int]
    zstd: bool
    extended: bool
    marked_corrupt: bool
    backing: tuple[int, int]
    snapshots: int

    @property
    def entry_size(self) -> int:
        """Size of a second-level entry in bytes."""
        return 16 if self.extended else 8


def parse_header(data: Buffer) -> Qcow2Header:
    """The header at the start of an image.

    Raises:
        CorruptError: a value contradicts the format.
        UnsupportedError: the image uses encryption, an external data file or an unknown feature.
    """
    found = HEADER.parse(data)
    if found.version not in (2, 3):
        raise UnsupportedError(f"QCOW2 of version {found.version}")
    if found.crypt_method:
        raise UnsupportedError("QCOW2 with encryption; unlock it by `qemu-img convert` first")
    more = MORE.parse(data, _HEADER_2) if found.version == 3 else None
    features = int(more.incompatible_features) if more else 0
    if features & _DATA_FILE:
        raise UnsupportedError("QCOW2 with an external data file")
    if features & ~_KNOWN:
        raise UnsupportedError(f"QCOW2 with unknown features ({features & ~_KNOWN:#x})")
    if not 9 <= found.cluster_bits <= 21 or found.size >= 1 << 62:
        raise CorruptError(HEADER.name, 0, "the size of a cluster or of the disk is out of bounds")
    if found.backing_file_size > _LONGEST_NAME:
        raise CorruptError(HEADER.name, 0, "the name of its backing file is too long")
    kind = more.compression_type if more and more.header_length > _COMPRESSION_AT else 0
    if kind > 1:
        raise UnsupportedError(f"QCOW2 with compression of type {kind}")
    backing = (int(found.backing_file_offset), int(found.backing_file_size))
    return Qcow2Header(
        size=int(found.size),
        cluster_bits=int(found.cluster_bits),
        first_level=(int(found.l1_table_offset), int(found.l1_size)),
        zstd=kind == 1,
        extended=bool(features & _EXTENDED),
        marked_corrupt=bool(features & _CORRUPT),
        backing=backing if all(backing) else (0, 0),
        snapshots=int(found.nb_snapshots),
    )


def compressed_place(entry: Entry, cluster_bits: int) -> tuple[Entry, Entry]:
    """(byte offset in the file, maximum size in bytes) of a compressed cluster, or of many."""
    shift = 62 - (cluster_bits - 8)
    offset = entry & ((1 << shift) - 1)
    sectors = ((entry & (COMPRESSED - 1)) >> shift) + 1
    return offset, sectors * 512 - (offset & 511)
