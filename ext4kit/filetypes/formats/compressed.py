"""Compressed streams, whose ends are found by end marks, blocks and checksums."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from ext4kit.filetypes.formats.checks import decompresses_bzip2, decompresses_xz, proven_by_length
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.reader import CHEAPER, CHUNK, ContentReader, Stated

StreamEnd = Callable[[ContentReader, int], int | None]  # offset -> end of the stream there
_PIECE = 1 << 20  # decompressed bytes at a time
_MOST_STREAMS = 1 << 16

_GZIP, _GZIP_WBITS = b"\x1f\x8b\x08", 31
_XZ = b"\xfd7zXZ\0"
_BZIP2_END = 0x177245385090  # end mark: the decimal digits of the square root of pi, 48 bits
_BZIP2_TAIL = 16  # maximum bytes of the end mark and the checksum
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = b"\x04\x22\x4d\x18"


def stream_end(window: ContentReader, at: int, wbits: int, step: int = CHUNK) -> int | None:
    """End of the zlib stream that starts at `at`; None if it has no valid end.

    Args:
        window: the file.
        at: start of the stream.
        wbits: format of the stream, as for `zlib.decompressobj`.
        step: bytes of the first read; each further read is larger, up to `CHUNK`.
    """
    stream = zlib.decompressobj(wbits)
    try:
        while piece := window.read(at, step):
            at += len(piece)
            if not _feed(window, stream, piece):
                return None
            if stream.eof:
                return at - len(stream.unused_data)
            step = min(step * 4, CHUNK)
    except zlib.error:
        return None
    return None


def _feed(window: ContentReader, stream: zlib._Decompress, piece: bytes) -> bool:  # typeshed's name
    """Decompress a piece and discard the output; False if the budget is exhausted."""
    while piece and not stream.eof:
        if not window.budget.spend(len(stream.decompress(piece, _PIECE)) >> CHEAPER):
            return False
        piece = stream.unconsumed_tail
    return True


def gzip(window: ContentReader) -> Stated | None:
    """The end of the last member (RFC 1952), which only decompression shows."""
    end = 0
    for _ in range(_MOST_STREAMS):
        following = stream_end(window, end, _GZIP_WBITS)
        if following is None:
            break
        end = following
        if window.read(end, 3) != _GZIP:
            break
    return Stated(end, proven=True) if end else None


def bzip2(window: ContentReader) -> Stated | None:
    """The end of the last stream: its end mark and checksum, which may start at any bit.

    Decompression would give the same result, but many times more slowly.
    """
    return _in_a_row(window, b"BZh", _bzip2_end, proven=True)


def _in_a_row(
    window: ContentReader, magic: bytes, end_of: StreamEnd, proven: bool
) -> Stated | None:
    """The end of the last of several consecutive streams.

    If a stream has no end, the streams before it are the file if `proven`; else there is none.
    """
    end = 0
    while window.read(end, len(magic)) == magic:
        following = end_of(window, end)
        if following is None:
            if proven:
                break
            return None
        end = following
    return Stated(end, proven) if end else None


def _bzip2_end(window: ContentReader, start: int) -> int | None:
    kept, start = b"", max(start, window.searched - _BZIP2_TAIL)
    for piece in window.chunks(start):
        text = kept + piece
        found = [_marked(text, shift) for shift in range(8)]
        if ends := [start - len(kept) + end for end in found if end]:
            return min(ends)
        start += len(piece)
        if start > window.reach:
            break
        kept = text[-_BZIP2_TAIL:]
    return None


def _marked(text: bytes, shift: int) -> int:
    """End of the checksum after an end mark that starts `shift` bits into a byte; 0 for none."""
    shifted = (_BZIP2_END << 8 - shift).to_bytes(7, "big")
    inner = shifted[1:6] if shift else shifted[:6]
    at = text.find(inner)
    while at >= 0:
        first = at - 1 if shift else at
        whole = int.from_bytes(text[max(first, 0) : first + 7], "big")
        if first >= 0 and (whole >> 8 - shift) & (1 << 48) - 1 == _BZIP2_END:
            end = first + -(-(shift + 48 + 32) // 8)
            return end if end <= len(text) else 0
        at = text.find(inner, at + 1)
    return 0


def xz(window: ContentReader) -> Stated | None:
    """The end of the last stream: its footer, which repeats the flags of the header.

    Source: tukaani.org, The .xz File Format.
    """
    return _in_a_row(window, _XZ, _xz_end, proven=True)


def _xz_end(window: ContentReader, start: int) -> int | None:
    flags = window.read(start + 6, 2)
    for at in window.find(flags + b"YZ", start + 12):
        footer = window.read(at - 8, 8)
        index = at - 8 - (int.from_bytes(footer[4:], "little") + 1) * 4
        if (at - start) % 4 == 0 and zlib.crc32(footer[4:] + flags).to_bytes(4, "little") == (
            footer[:4]
        ):
            return at + 4 if window.read(index, 1) == b"\0" else None
    return None


def zstd(window: ContentReader) -> Stated | None:
    """The end of the last frame, whose blocks state their lengths (RFC 8878, section 3.1)."""
    return _in_a_row(window, _ZSTD, _zstd_frame, proven=False)


def _zstd_frame(window: ContentReader, at: int) -> int | None:
    flags = window.number(at + 4, 1)
    if flags < 0 or flags & 8:
        return None
    single = flags >> 5 & 1
    content = (single, 2, 4, 8)[flags >> 6]
    at += 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + content
    while True:
        head = window.number(at, 3)
        if head < 0 or head >> 1 & 3 == 3 or not head:  # zeros would be read as empty blocks
            return None
        at += 3 + (1 if head >> 1 & 3 == 1 else head >> 3)
        if head & 1:
            return at + (4 if flags >> 2 & 1 else 0)


def lz4(window: ContentReader) -> Stated | None:
    """The end of the last frame, whose blocks state their lengths (LZ4 frame format)."""
    return _in_a_row(window, _LZ4, _lz4_frame, proven=False)


def _lz4_frame(window: ContentReader, at: int) -> int | None:
    flags = window.number(at + 4, 1)
    if flags < 0 or flags >> 6 != 1:
        return None
    at += 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    while (size := window.number(at, 4)) > 0:
        at += 4 + (size & 0x7FFFFFFF) + (4 if flags & 16 else 0)
    return None if size < 0 else at + 4 + (4 if flags & 4 else 0)


FORMATS = (
    FileFormat(
        "gzip",
        starts=(b"\x1f\x8b\x08",),
        length=gzip,
        check=proven_by_length,
        kind=(".gz", "application/gzip"),
        names="gz tgz svgz",
    ),
    FileFormat(
        "bzip2",
        starts=(b"BZh",),
        length=bzip2,
        check=decompresses_bzip2,
        kind=(".bz2", "application/x-bzip2"),
        names="bz2",
    ),
    FileFormat(
        "xz",
        starts=(b"\xfd7zXZ\x00",),
        length=xz,
        check=decompresses_xz,
        kind=(".xz", "application/x-xz"),
        names="xz",
    ),
    FileFormat(
        "zstd", starts=(b"(\xb5/\xfd",), length=zstd, kind=(".zst", "application/zstd"), names="zst"
    ),
    FileFormat("lz4", starts=(b'\x04"M\x18',), length=lz4, kind=(".lz4", "application/x-lz4")),
)
