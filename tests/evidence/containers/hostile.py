"""Containers that someone made to hurt their reader: headers are right, what they claim is not."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

EWF_MAGIC = b"EVF\x09\x0d\x0a\xff\x00"
EWF_START = 13  # bytes in front of the first section
EWF_HEADER = 76  # of a section


def ewf_section(kind: bytes, following: int, size: int) -> bytes:
    """The header of a section of an E01.

    Args:
        kind: "volume", "table" ...
        following: byte offset of the next section.
        size: bytes that the section claims to have, its header included.
    """
    head = kind.ljust(16, b"\0") + struct.pack("<QQ", following, size) + bytes(40)
    return head + struct.pack("<I", zlib.adler32(head))


def ewf(path: Path, sections: list[tuple[bytes, bytes]], claims: int = 0) -> Path:
    """An E01 of sections (kind, body); with `claims` each says that it has so many bytes."""
    data = EWF_MAGIC + b"\x01\x01\x00\x00\x00"
    for kind, body in sections:
        end = len(data) + EWF_HEADER + len(body)
        is_last = kind == b"done"
        following = len(data) if is_last else end
        data += ewf_section(kind, following, claims or EWF_HEADER + len(body)) + body
    path.write_bytes(data)
    return path


def ewf_volume(sectors: int, per_chunk: int = 64, sector: int = 512) -> tuple[bytes, bytes]:
    """The section that gives an E01 its geometry."""
    chunks = -(-sectors // per_chunk)
    body = struct.pack("<IIIIQ", 1, chunks & 0xFFFFFFFF, per_chunk, sector, sectors)
    body = body.ljust(1048, b"\0")
    return b"volume", body + struct.pack("<I", zlib.adler32(body))


def ewf_table(starts: list[int]) -> tuple[bytes, bytes]:
    """A table of chunks at byte offsets; the highest bit marks a compressed one."""
    head = struct.pack("<IIQI", len(starts), 0, 0, 0)
    head += struct.pack("<I", zlib.adler32(head))
    entries = struct.pack(f"<{len(starts)}I", *starts)
    return b"table", head + entries + struct.pack("<I", zlib.adler32(entries))


def qcow2_header(
    size: int, table: int, entries: int, cluster_bits: int = 16, version: int = 2
) -> bytes:
    """The header of a QCOW2 image with its first-level table at byte `table`."""
    return struct.pack(
        ">4sIQIIQIIQQIIQ", b"QFI\xfb", version, 0, 0, cluster_bits, size, 0, entries, table,
        0, 0, 0, 0,
    )  # fmt: skip


def vmdk_descriptor(extents: list[str]) -> bytes:
    """A VMDK of extents: `RW 2048 FLAT "disk-flat.vmdk" 0` ..."""
    lines = [
        "# Disk DescriptorFile", "version=1", "CID=fffffffe", "parentCID=ffffffff",
        'createType="twoGbMaxExtentFlat"', "", "# Extent description", *extents, "",
        "# The Disk Data Base", "#DDB", "", 'ddb.adapterType = "ide"',
    ]  # fmt: skip
    return "\n".join(lines).encode() + b"\n"
