"""Images: chunks, blocks and markers up to their end."""

from __future__ import annotations

import re

from ext4kit.filetypes.lengths.reader import ContentReader, Stated

_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_BITMAP_HEADERS = frozenset({12, 40, 52, 56, 64, 108, 124})
_TIFF_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4)
_MOST_DIRECTORIES = 1000
_MOST_STRIPS = 1 << 16


def png(window: ContentReader) -> Stated | None:
    """Chunks up to IEND (RFC 2083, section 3.2)."""
    at = 8
    while True:
        head = window.read(at, 8)
        if len(head) < 8 or not head[4:].isalpha():
            return None
        at += 12 + int.from_bytes(head[:4], "big")
        if head[4:] == b"IEND":
            return Stated(at, proven=True)


def gif(window: ContentReader) -> Stated | None:
    """Blocks up to the trailer (GIF89a, appendix A)."""
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
    """Segments, and entropy-coded data up to the next marker, up to EOI (ITU T.81, annex B)."""
    at = 2
    while True:
        head = window.read(at, 4)
        if len(head) < 2 or head[0] != 0xFF:
            return None
        if head[1] == 0xD9:
            return Stated(at + 2, proven=True)
        if head[1] == 0xFF or head[1] in _ALONE:
            at += 1 if head[1] == 0xFF else 2
            continue
        at += 2 + max(int.from_bytes(head[2:], "big"), 2)
        if head[1] == 0xDA:
            at = _next_marker(window, at)


def _next_marker(window: ContentReader, at: int) -> int:
    kept = b""
    for piece in window.chunks(at):
        text = kept + piece
        if found := _MARKER.search(text):
            return at - len(kept) + found.start()
        at += len(piece)
        kept = text[-1:]
    return window.size


def bmp(window: ContentReader) -> Stated | None:
    """The size in the file header, if the next header is plausible."""
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
    """The furthest end of directories, their values, strips and tiles (TIFF 6.0, section 2)."""
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
    """End of the values of an entry; values of strips and tiles are added to `wanted`."""
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
