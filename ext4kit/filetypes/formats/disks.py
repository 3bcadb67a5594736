"""Disk images, which end at the end of the last used part of the file."""

from __future__ import annotations

import struct

import numpy as np

from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import ContentReader, Stated
from ext4kit.units import SECTOR

_MOST_ENTRIES = 1 << 20  # maximum entries of one table
_QCOW2_OFFSET = 0x00FFFFFFFFFFFE00
_VMDK_COMPRESSED = 1 << 16
_VMDK_AT_END = (1 << 64) - 1
_ISO_START = 16 * 2048


def qcow2(window: ContentReader) -> Stated | None:
    """The end of the last cluster that the tables name (QEMU docs/interop/qcow2.txt)."""
    head = window.read(0, 72)
    if len(head) < 72:
        return None
    bits = int.from_bytes(head[20:24], "big")
    count, table, refcounts, clusters = struct.unpack(">IQQI", head[36:60])
    if not 9 <= bits <= 21:
        return None
    size = 1 << bits
    parts = [table + count * 8, refcounts + clusters * size, size]
    parts += [int(one) + size for one in _offsets(window, refcounts, clusters * size >> 3)]
    for second in _offsets(window, table, count):
        if window.budget.left < 0:
            return None
        raw = _numbers(window, int(second), size >> 3)
        packed = raw >> np.uint64(62) & np.uint64(1) == 1
        parts.append(int(second) + size)
        width = 62 - (bits - 8)
        at = raw[packed] & np.uint64((1 << width) - 1)
        sectors = (raw[packed] >> np.uint64(width) & np.uint64((1 << bits - 8) - 1)).astype(
            np.int64
        )
        ends = (at.astype(np.int64) // SECTOR + sectors + 1) * SECTOR
        plain = (raw[~packed] & np.uint64(_QCOW2_OFFSET)).astype(np.int64)
        parts += [int(ends.max(initial=0)), int(plain.max(initial=-size)) + size]
    end = -(-max(parts) // size) * size
    return Stated(end)


def _offsets(window: ContentReader, at: int, count: int) -> list[int]:
    found = _numbers(window, at, count) & np.uint64(_QCOW2_OFFSET)
    return [int(one) for one in found[found > 0]]


def _numbers(
    window: ContentReader, at: int, count: int
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    raw = window.read(at, min(count, _MOST_ENTRIES) * 8)
    return np.frombuffer(raw[: len(raw) // 8 * 8], ">u8").astype(np.uint64)


def vmdk(window: ContentReader) -> Stated | None:
    """The end of the last grain that a sparse extent names (VMware Virtual Disk Format 1.1)."""
    head = window.read(0, SECTOR)
    if len(head) < SECTOR:
        return None
    told = struct.unpack("<IQQQQIQQQ", head[8:72])
    flags, capacity, grain, _, _, per_table, _, tables, overhead = told
    if flags & _VMDK_COMPRESSED or tables == _VMDK_AT_END:
        return None  # nothing shows where the last grain of a stream ends
    if not 0 < grain <= 1 << 16 or not 0 < per_table <= 1 << 16:
        return None
    count = -(-capacity // (grain * per_table))
    raw = window.read(tables * SECTOR, min(count, _MOST_ENTRIES) * 4)
    last = overhead - grain
    for table in np.frombuffer(raw[: len(raw) // 4 * 4], "<u4").tolist():
        if window.budget.left < 0:
            return None
        grains = np.frombuffer(window.read(table * SECTOR, per_table * 4), "u1")
        places = grains[: len(grains) // 4 * 4].view("<u4")
        if table and places.max(initial=0) > 1:
            last = max(last, int(places.max()))
    return Stated((last + grain) * SECTOR)


def vdi(window: ContentReader) -> Stated | None:
    """The end of the allocated blocks, which follow the map (VirtualBox, VDICore.h)."""
    head = window.read(0, 0x188)
    if len(head) < 0x188 or head[64:68] != b"\x7f\x10\xda\xbe":
        return None
    data, block, used = (
        int.from_bytes(head[at : at + 4], "little") for at in (0x158, 0x178, 0x184)
    )
    return Stated(data + block * used) if block else None


def iso(window: ContentReader) -> Stated | None:
    """The volume size in the primary volume descriptor (ECMA-119, section 8.4)."""
    head = window.read(_ISO_START, 136)
    if len(head) < 136 or head[:7] != b"\x01CD001\x01":
        return None
    blocks, size = int.from_bytes(head[80:84], "little"), int.from_bytes(head[128:130], "little")
    return Stated(blocks * size) if blocks * size > _ISO_START else None


FORMATS = (
    FileFormat(
        "squashfs",
        starts=(b"hsqs",),
        length=LengthField(40, 8, "<", align=4096),
        kind=(".squashfs", "application/vnd.squashfs"),
    ),
    FileFormat("luks", starts=(b"LUKS\xba\xbe",), kind=(".luks", "application/x-luks")),
    FileFormat(
        "qcow2", starts=(b"QFI\xfb",), length=qcow2, kind=(".qcow2", "application/x-qemu-disk")
    ),
    FileFormat("vmdk", starts=(b"KDMV",), length=vmdk, kind=(".vmdk", "application/x-vmdk")),
    FileFormat(
        "vdi",
        inside=(((64, b"\x7f\x10\xda\xbe"),),),
        length=vdi,
        kind=(".vdi", "application/x-virtualbox-vdi"),
    ),
    FileFormat(
        "iso",
        inside=(((0, b"\x01CD001\x01"),),),
        magic_at=32768,
        length=iso,
        kind=(".iso", "application/vnd.efi.iso"),
    ),
)
