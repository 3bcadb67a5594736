"""Audio and video files that consist of boxes, chunks, pages or frames."""

from __future__ import annotations

from ext4kit.filetypes.formats.declaration import FileFormat, Start
from ext4kit.filetypes.formats.reader import ContentReader, Stated

_BITRATES = {  # kbit/s by index, for (MPEG 1, layer 3), (MPEG 2, layer 3)
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_FEW_FRAMES = 4
_OGG_FIRST, _OGG_LAST = 2, 4  # flags of the first page and of the last page of a stream
_BOXES = frozenset(
    b"ftyp moov mdat free skip wide udta meta uuid moof mfra sidx ssix styp pdin prft pnot".split()
)


def boxes(window: ContentReader) -> Stated | None:
    """The end of the last box of the top level (ISO 14496-12, section 4.2)."""
    at, seen = 0, set()
    while True:
        head = window.read(at, 16)
        if len(head) < 8 or head[4:8] not in _BOXES:
            break
        size = int.from_bytes(head[:4], "big")
        size = int.from_bytes(head[8:16], "big") if size == 1 else size
        if size < 8:
            break
        seen.add(head[4:8])
        at += size
    return Stated(at) if seen & {b"moov", b"meta", b"moof"} else None


def riff(window: ContentReader) -> Stated | None:
    """The end of the chunk that contains all others, or of the last one in large AVI files."""
    at = 0
    while window.read(at, 4) == b"RIFF" and (size := window.number(at + 4, 4)) > 4:
        at += 8 + size + (size & 1)
        if window.read(at + 8, 4) != b"AVIX":
            break
    return Stated(at) if at else None


def aiff(window: ContentReader) -> Stated | None:
    """The end of the chunk that contains all others."""
    if window.read(8, 4) not in (b"AIFF", b"AIFC", b"ILBM", b"8SVX"):
        return None
    size = window.number(4, 4, ">")
    return Stated(8 + size + (size & 1))


def ogg(window: ContentReader) -> Stated | None:
    """The end of the last page; pages are numbered within each stream (RFC 3533, section 6)."""
    at, following, ended = 0, dict[bytes, int](), set[bytes]()
    while True:
        head = window.read(at, 27 + 255)
        if len(head) < 27 or head[:5] != b"OggS\0":
            break
        stream, number = head[14:18], int.from_bytes(head[18:22], "little")
        if bool(head[5] & _OGG_FIRST) != (stream not in following) or (
            number != following.get(stream, number)
        ):
            break
        following[stream] = number + 1
        ended |= {stream} if head[5] & _OGG_LAST else set()
        at += 27 + head[26] + sum(head[27 : 27 + head[26]])
    return Stated(at, open_ended=ended != set(following)) if at else None


def mp3(window: ContentReader) -> Stated | None:
    """The end of the layer 3 frames, or of an ID3v1 tag after them (ISO 11172-3; id3.org)."""
    at = _tag(window.read(0, 10))
    frames = 0
    while (length := _frame(window.read(at, 4))) > 0:
        at += length
        frames += 1
    if frames < _FEW_FRAMES:
        return None
    if window.read(at, 3) == b"TAG":
        return Stated(at + 128)
    return Stated(at, open_ended=True)


def _tag(head: bytes) -> int:
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 127
    return 10 + size + (10 if head[5] & 16 else 0)


def _frame(head: bytes) -> int:
    """Bytes of a layer 3 frame; 0 for other data."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    bitrate, rate, padding = head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if version == 1 or layer != 1 or bitrate in (0, 15) or rate == 3:
        return 0
    first = version == 3
    samples = 144 if first else 72
    return samples * _BITRATES[first][bitrate] * 1000 // _RATES[version][rate] + padding


def matroska(window: ContentReader) -> Stated | None:
    """The end of the segment after the EBML header (RFC 8794, section 4)."""
    at = 0
    for _ in range(64):
        head = window.read(at, 12)
        if head[:4] not in (b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67") and head[:1] != b"\xec":
            break
        used = 1 if head[:1] == b"\xec" else 4
        size, width = _ebml(head[used:])
        if not width:
            return None
        at += used + width + size
    return Stated(at) if at else None


def _ebml(raw: bytes) -> tuple[int, int]:
    """(size, bytes of its encoding); 0 bytes if the size is unknown or truncated."""
    width = 9 - raw[0].bit_length() if raw and raw[0] else 0
    if not width or len(raw) < width:
        return 0, 0
    size = int.from_bytes(raw[:width], "big") & (1 << 7 * width) - 1
    return (0, 0) if size == (1 << 7 * width) - 1 else (size, width)


def _riff_kind(head: bytes) -> tuple[str, str]:
    forms = {
        b"WAVE": (".wav", "audio/vnd.wave"),
        b"WEBP": (".webp", "image/webp"),
        b"AVI ": (".avi", "video/vnd.avi"),
    }
    return forms.get(head[8:12], (".riff", "application/x-riff"))


def _box_kind(head: bytes) -> tuple[str, str]:
    brand = head[8:12] if head[4:8] == b"ftyp" else b"qt  "
    if brand == b"qt  ":
        return ".mov", "video/quicktime"
    if brand in (b"heic", b"heix", b"mif1"):
        return ".heic", "image/heic"
    if brand == b"avif":
        return ".avif", "image/avif"
    return (".m4a", "audio/mp4") if brand[:3] == b"M4A" else (".mp4", "video/mp4")


FORMATS = (
    FileFormat(
        "mp4",
        starts=(
            Start(b"\x00\x00\x00\x00ftyp", any_at=(0, 1, 2, 3)),
            Start(b"\x00\x00\x00\x00moov", any_at=(0, 1, 2, 3)),
            Start(b"\x00\x00\x00\x00mdat", any_at=(0, 1, 2, 3)),
            Start(b"\x00\x00\x00\x00wide", any_at=(0, 1, 2, 3)),
        ),
        length=boxes,
        kind=_box_kind,
        names="mp4 m4a m4v mov heic",
    ),
    FileFormat("riff", starts=(b"RIFF",), length=riff, kind=_riff_kind, names="wav avi webp"),
    FileFormat("aiff", starts=(b"FORM",), length=aiff),
    FileFormat(
        "ogg",
        starts=(b"OggS\x00",),
        length=ogg,
        kind=(".ogg", "application/ogg"),
        repeats=True,
        names="ogg oga ogv opus",
    ),
    FileFormat(
        "mp3",
        starts=(b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xfa"),
        length=mp3,
        kind=(".mp3", "audio/mpeg"),
        names="mp3",
    ),
    FileFormat(
        "matroska",
        starts=(b"\x1aE\xdf\xa3",),
        length=matroska,
        kind=(".mkv", "video/x-matroska"),
        names="mkv webm",
    ),
)
