"""Images, which consist of chunks, blocks or markers up to an end mark."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np

from ext4kit.filetypes.formats.checks import proven_by_length
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import CHUNK, ContentReader, Stated

_MARKER = re.compile(rb"\xff[^\x00\xff]", re.DOTALL)
_BETWEEN_SCANS = frozenset(
    {0xC4, 0xCC, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, *range(0xE0, 0xF0), 0xFE, 0xFF}
)
_SEGMENTS = frozenset(range(1, 256))
_PSD_CHANNELS, _PSD_SIDE = 56, 300_000  # maximum values
_LONGEST_INTERVAL = 1 << 20  # maximum bytes between restarts
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_BITMAP_HEADERS = frozenset({12, 40, 52, 56, 64, 108, 124})
_TIFF_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4)
_MOST_DIRECTORIES = 1000
_MOST_STRIPS = 1 << 16


def png(window: ContentReader) -> Stated | None:
    """The end of the IEND chunk, with the checksums of all chunks (RFC 2083, section 3.2)."""
    at = 8
    while True:
        head = window.read(at, 8)
        length = int.from_bytes(head[:4], "big")
        if len(head) < 8 or not head[4:].isalpha() or length >= window.size:
            window.fell_short |= head[4:].isalpha()
            return None
        if _crc32(window, at + 4, 4 + length) != window.number(at + 8 + length, 4, ">"):
            return None
        at += 12 + length
        if head[4:] == b"IEND":
            return Stated(at, proven=True)


def _crc32(window: ContentReader, at: int, length: int) -> int:
    """CRC of a part, which may be long; an impossible value if the part is not all there."""
    crc, end = 0, at + length
    while at < end and (piece := window.read(at, min(CHUNK, end - at))):
        crc = zlib.crc32(piece, crc)
        at += len(piece)
    return crc if at == end else -2


def photoshop(window: ContentReader) -> Stated | None:
    """The length of four sections and the picture (Adobe Photoshop file format)."""
    head = window.read(0, 26)
    if len(head) < 26 or head[4:6] not in (b"\0\1", b"\0\2"):
        return None
    channels, height, width, depth = struct.unpack(">HIIH", head[12:24])
    if channels > _PSD_CHANNELS or max(height, width) > _PSD_SIDE:
        return None
    at = 26
    for length in (4, 4, 8 if head[5] == 2 else 4):
        size = window.number(at, length, ">")
        if size < 0:
            return None
        at += length + size
    packed = window.number(at, 2, ">")
    if packed == 1:  # the lengths of all rows come first, then the rows
        each = 4 if head[5] == 2 else 2
        table = window.read(at + 2, channels * height * each)
        rows = np.frombuffer(table[: len(table) // each * each], f">u{each}").astype(np.int64)
        return Stated(at + 2 + len(table) + int(rows.sum()))
    return Stated(at + 2 + channels * height * (width * depth + 7 >> 3)) if packed == 0 else None


def gif(window: ContentReader) -> Stated | None:
    """The end of the trailer after the blocks (GIF89a, appendix A)."""
    flags = window.number(10, 1)
    if flags < 0:
        return None
    at = 13 + _palette(flags)
    while True:
        label = window.number(at, 1)
        if label == 0x3B:
            return Stated(at + 1, proven=True)
        if label == 0x21:
            at = _sub_blocks(window, at + 2)
        elif label == 0x2C:
            at = _sub_blocks(window, at + 11 + _palette(max(window.number(at + 9, 1), 0)))
        else:
            return None


def _palette(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _sub_blocks(window: ContentReader, at: int) -> int:
    while (length := window.number(at, 1)) > 0:
        at += 1 + length
    return at + 1


def jpeg(window: ContentReader) -> Stated | None:
    """The end of the EOI marker after segments and entropy-coded data (ITU T.81, annex B)."""
    at, interval, allowed = 2, 0, _SEGMENTS
    while (head := window.read(at, 6))[:1] == b"\xff" and len(head) > 1:
        marker, length = head[1], max(int.from_bytes(head[2:4], "big"), 2)
        if marker == 0xD9:
            return Stated(at + 2, proven=True)
        if marker not in allowed:
            return None
        at += 1 if marker == 0xFF else 2 if marker in _ALONE else 2 + length
        interval = int.from_bytes(head[4:], "big") if marker == 0xDD else interval
        if marker == 0xDA:
            at, allowed = _next_marker(window, at, interval > 0), _BETWEEN_SCANS
    return None


def _next_marker(window: ContentReader, at: int, restarts: bool) -> int:
    """Offset of the marker after entropy-coded data; -1 if a restart is out of order."""
    kept, expected, last = b"", 0xD0, at
    for piece in window.chunks(at):
        text = kept + piece
        for found in _MARKER.finditer(text):
            place, marker = at - len(kept) + found.start(), found[0][1]
            if restarts and place - last > _LONGEST_INTERVAL:
                return -1
            if marker & 0xF8 != 0xD0:
                return place
            if not restarts or marker != expected:
                return -1
            last, expected = place, 0xD0 + (expected + 1) % 8
        at += len(piece)
        kept = text[-1:] if text[-1:] == b"\xff" else b""
    return window.size


def bmp(window: ContentReader) -> Stated | None:
    """The size in the file header, if the header after it is plausible."""
    if window.number(14, 4) not in _BITMAP_HEADERS or window.number(6, 4) != 0:
        return None
    size = window.number(2, 4)
    return Stated(size) if 0 < window.number(10, 4) <= size else None


def ico(window: ContentReader) -> Stated | None:
    """The furthest end of the images in the directory."""
    count = window.number(4, 2)
    end = 6 + 16 * count
    if not 0 < count <= 256 or end > window.size:
        return None
    for at in range(6, end, 16):
        length, offset = window.number(at + 8, 4), window.number(at + 12, 4)
        if length == 0 or offset < 6 + 16 * count or window.number(at + 3, 1) != 0:
            return None
        end = max(end, offset + length)
    return Stated(end)


def tiff(window: ContentReader) -> Stated | None:
    """The furthest end of directories, values, strips and tiles (TIFF 6.0, section 2)."""
    order = "<" if window.read(0, 2) == b"II" else ">"
    at, end, seen = window.number(4, 4, order), 8, 0
    while at > 0 and seen < _MOST_DIRECTORIES:
        count = window.number(at, 2, order)
        if not 0 < count <= 4096:
            return None
        end = max(end, at + 6 + 12 * count)
        wanted: dict[int, list[int]] = {}
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            end = max(end, _tiff_entry(window, entry, order, wanted))
        for offsets, sizes in ((273, 279), (324, 325)):
            pairs = zip(wanted.get(offsets, ()), wanted.get(sizes, ()), strict=False)
            end = max([end, *(place + size for place, size in pairs)])
        at, seen = window.number(at + 2 + 12 * count, 4, order), seen + 1
    return Stated(end) if seen and at == 0 else None


def _tiff_entry(window: ContentReader, at: int, order: str, wanted: dict[int, list[int]]) -> int:
    """End of the values of an entry; the values for strips and tiles are added to `wanted`."""
    tag, kind = window.number(at, 2, order), window.number(at + 2, 2, order)
    count = max(window.number(at + 4, 4, order), 0)
    each = _TIFF_SIZES[kind] if 0 <= kind < len(_TIFF_SIZES) else 1
    place = at + 8 if count * each <= 4 else window.number(at + 8, 4, order)
    if tag in (273, 279, 324, 325) and each in (2, 4) and count <= _MOST_STRIPS:
        raw = window.read(place, count * each)
        wanted[tag] = [
            int.from_bytes(raw[one : one + each], "little" if order == "<" else "big")
            for one in range(0, len(raw), each)
        ]
    return place + count * each


FORMATS = (
    FileFormat(
        "png",
        starts=(b"\x89PNG\r\n\x1a\n",),
        length=png,
        check=proven_by_length,
        kind=(".png", "image/png"),
        names="png",
    ),
    FileFormat(
        "jpeg",
        starts=(b"\xff\xd8\xff",),
        length=jpeg,
        kind=(".jpg", "image/jpeg"),
        names="jpg jpeg jpe",
    ),
    FileFormat("gif", starts=(b"GIF8",), length=gif, kind=(".gif", "image/gif"), names="gif"),
    FileFormat("bmp", starts=(b"BM",), length=bmp, kind=(".bmp", "image/bmp"), names="bmp"),
    FileFormat(
        "ico",
        starts=(b"\x00\x00\x01\x00", b"\x00\x00\x02\x00"),
        length=ico,
        kind=(".ico", "image/vnd.microsoft.icon"),
        names="ico",
    ),
    FileFormat(
        "tiff",
        starts=(b"II*\x00", b"MM\x00*"),
        length=tiff,
        kind=(".tiff", "image/tiff"),
        names="tif tiff dng nef",
    ),
    FileFormat(
        "psd", starts=(b"8BPS\x00",), length=photoshop, kind=(".psd", "image/vnd.adobe.photoshop")
    ),
    FileFormat(
        "icc",
        inside=(((36, b"acsp"),),),
        length=LengthField(0, 4, ">"),
        kind=(".icc", "application/vnd.iccprofile"),
    ),
)
