"""Facts about pictures, from their headers.

Sources: RFC 2083 (PNG), ITU T.81 (JPEG), GIF89a, TIFF 6.0, the WebP container specification, the
Adobe Photoshop file format, and Microsoft's documentation of bitmaps and icons.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ext4kit.filetypes.formats import BY_NAME
from ext4kit.preview.exif import (
    BITS,
    HEIGHT,
    PHOTOMETRIC,
    WIDTH,
    Read,
    TiffReader,
    exif_facts,
)
from ext4kit.preview.folding import fact_line
from ext4kit.preview.model import Preview
from ext4kit.preview.parts import NodeContent

_MOST_READ = 4 << 20  # bytes
_MOST_PARTS = 1000  # chunks or segments of a picture
_MOST_TEXTS = 20
_MOST_TEXT = 1000  # bytes of a comment
_PNG_COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGB with alpha"}
_JPEG_COLOURS = {1: "grey", 3: "colour", 4: "four inks"}
_PSD_MODES = {0: "bitmap", 1: "grey", 2: "palette", 3: "RGB", 4: "CMYK", 7: "multichannel",
              8: "duotone", 9: "Lab"}  # fmt: skip
_TIFF_COLOURS = {0: "grey, white is zero", 1: "grey", 2: "RGB", 3: "palette", 5: "CMYK", 6: "YCbCr",
                 8: "Lab", 32803: "sensor data", 34892: "linear sensor data"}  # fmt: skip
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
Fact = tuple[str, str]


def picture_format(head: bytes) -> str:
    """The format of a picture by its first bytes; "" for other content."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    for name in _READERS:
        if name in BY_NAME and any(head.startswith(one.magic) for one in BY_NAME[name].magics):
            return name if name != "bmp" or head[6:10] == bytes(4) else ""
    return ""


def picture_preview(held: NodeContent) -> Preview:
    """What the headers of a picture say; no pixel is decoded."""
    name = picture_format(held.head())
    spent = 0

    def read(offset: int, length: int) -> bytes:
        nonlocal spent
        length = max(min(length, held.size - offset), 0)
        if offset < 0 or spent + length > _MOST_READ:
            return b""
        spent += length
        return held.read(offset, length)

    facts = [("format", _TITLES.get(name, "unknown"))]
    try:
        facts += _READERS[name](read) if name else ()
    except (struct.error, IndexError) as error:
        facts.append(("damaged", f"its headers end too early ({error})"))
    lost = held.lost_bytes()
    lines = tuple(fact_line(key, text) for key, text in facts)
    note = f"{lost:,} bytes of the picture are lost" if lost else ""
    return Preview("picture", "picture", lines, note=note)


def _size(width: int, height: int) -> Fact:
    return "size", f"{width:,} x {height:,} pixels"


def _png(read: Read) -> Iterator[Fact]:
    at, texts = 8, 0
    for _ in range(_MOST_PARTS):
        head = read(at, 8)
        kind, length = head[4:], int.from_bytes(head[:4], "big")
        if len(head) < 8 or kind == b"IEND":
            return
        if kind not in (b"tEXt", b"iTXt") or texts < _MOST_TEXTS:
            yield from _png_chunk(kind, _within(read, at + 8, length))
        texts += kind in (b"tEXt", b"iTXt")
        at += 12 + length


def _png_chunk(kind: bytes, read: Read) -> Iterator[Fact]:
    if kind == b"IHDR":
        width, height, depth, colour, _, _, laced = struct.unpack(">IIBBBBB", read(0, 13))
        yield _size(width, height)
        yield "colour", f"{_PNG_COLOURS.get(colour, 'unknown')}, {depth} bits per channel"
        yield "interlaced", "yes" if laced else "no"
    elif kind in (b"tEXt", b"iTXt"):
        key, _, value = read(0, _MOST_TEXT).partition(b"\0")
        yield f"text {_text(key)}", _text(value.lstrip(b"\0"))
    elif kind == b"tIME":
        year, *rest = struct.unpack(">HBBBBB", read(0, 7))
        yield "changed", "{}-{:02}-{:02} {:02}:{:02}:{:02} UTC".format(year, *rest)
    elif kind == b"eXIf":
        yield from exif_facts(read)


def _jpeg(read: Read) -> Iterator[Fact]:
    at, comments = 2, 0
    for _ in range(_MOST_PARTS):
        head = read(at, 4)
        if len(head) < 4 or head[0] != 0xFF:
            return
        marker, length = head[1], int.from_bytes(head[2:4], "big")
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xDA:
            return
        if marker in _START_OF_FRAME:
            depth, height, width, channels = struct.unpack(">BHHB", read(at + 4, 6))
            yield _size(width, height)
            yield "colour", f"{_JPEG_COLOURS.get(channels, 'unknown')}, {depth} bits per channel"
            yield "progressive", "yes" if marker in (0xC2, 0xC6, 0xCA, 0xCE) else "no"
        elif marker == 0xFE and comments < _MOST_TEXTS:
            comments += 1
            yield "comment", _text(read(at + 4, min(max(length - 2, 0), _MOST_TEXT)))
        elif marker == 0xE1 and read(at + 4, 6) == b"Exif\0\0":
            yield from exif_facts(_within(read, at + 10, max(length - 8, 0)))
        at += 2 if marker in _ALONE else 2 + max(length, 2)


def _gif(read: Read) -> Iterator[Fact]:
    version, width, height, flags = struct.unpack("<6sHHB", read(0, 11))
    yield "version", _text(version)
    yield _size(width, height)
    yield "colour", f"palette of {2 << (flags & 7)}" if flags & 0x80 else "no common palette"


def _bmp(read: Read) -> Iterator[Fact]:
    header = struct.unpack("<I", read(14, 4))[0]
    if header == 12:
        width, height, _, bits = struct.unpack("<HHHH", read(18, 8))
    else:
        width, height, _, bits = struct.unpack("<iiHH", read(18, 12))
    yield _size(abs(width), abs(height))
    yield "colour", f"{bits} bits per pixel"


def _ico(read: Read) -> Iterator[Fact]:
    kind, count = struct.unpack("<HH", read(2, 4))
    yield "kind", "cursor" if kind == 2 else "icon"
    yield "pictures", f"{count:,}"
    for row in range(min(count, _MOST_TEXTS)):
        width, height = struct.unpack("<BB", read(6 + 16 * row, 2))
        yield _size(width or 256, height or 256)


def _tiff(read: Read) -> Iterator[Fact]:
    opened = TiffReader.open(read)
    if opened is None:
        return
    reader, at = opened
    values = reader.directory(at)

    def number(tag: int) -> int | None:
        return next(iter(values[tag].numbers), None) if tag in values else None

    width, height, bits, colour = map(number, (WIDTH, HEIGHT, BITS, PHOTOMETRIC))
    if width is not None and height is not None:
        yield _size(width, height)
    name = "unknown" if colour is None else _TIFF_COLOURS.get(colour, "unknown")
    yield "colour", name + ("" if bits is None else f", {bits} bits per channel")
    yield from exif_facts(read)


def _psd(read: Read) -> Iterator[Fact]:
    channels, height, width, depth, mode = struct.unpack(">HIIHH", read(12, 14))
    yield _size(width, height)
    yield "colour", f"{_PSD_MODES.get(mode, 'unknown')}, {channels} channels of {depth} bits"


def _webp(read: Read) -> Iterator[Fact]:
    at, has_size = 12, False
    for _ in range(_MOST_PARTS):
        head = read(at, 8)
        if len(head) < 8:
            return
        kind, length = head[:4], int.from_bytes(head[4:], "little")
        if not has_size and (size := _webp_size(kind, read(at + 8, 10))) is not None:
            has_size = True
            yield _size(*size)
            yield "packed", "without loss" if kind == b"VP8L" else "with loss or extended"
        if kind == b"EXIF":
            start = 6 if read(at + 8, 6) == b"Exif\0\0" else 0
            yield from exif_facts(_within(read, at + 8 + start, max(length - start, 0)))
        at += 8 + length + length % 2


def _webp_size(kind: bytes, data: bytes) -> tuple[int, int] | None:
    if len(data) < 10:
        return None
    if kind == b"VP8X":
        return (int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1)
    if kind == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _within(read: Read, start: int, length: int) -> Read:
    """Reads within a part of the picture."""
    return lambda at, count: read(start + at, max(min(count, length - at), 0)) if at >= 0 else b""


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


_READERS: dict[str, Callable[[Read], Iterator[Fact]]] = {
    "png": _png,
    "jpeg": _jpeg,
    "gif": _gif,
    "bmp": _bmp,
    "tiff": _tiff,
    "webp": _webp,
    "psd": _psd,
    "ico": _ico,
}
_TITLES = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "bmp": "bitmap", "tiff": "TIFF",
           "webp": "WebP", "psd": "Photoshop", "ico": "icon"}  # fmt: skip
