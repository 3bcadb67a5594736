"""Audio and video files that consist of consecutive frames, packets or tags."""

from __future__ import annotations

import re

import numpy as np

from ext4kit.arrays.types import Bools
from ext4kit.filetypes.formats.checks import proven_by_length
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.reader import CHUNK, ContentReader, Stated
from ext4kit.parsers.checksums import crc_by_table

_TS_PACKET, _M2TS_PACKET = 188, 192
_TS_SYNC = 0x47
_TS_FIRST = (0x4000, 0x4011)  # a packet that begins the table of programs, or the table of services
_ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_ASF_DATA, _ASF_MOST = 50, 1 << 20  # bytes of the data object's header; maximum of a packet
_ASF_PACKET = b"\x82\0\0"  # start of a packet with error correction data, as usually written
_FLV_TAGS = (8, 9, 18)  # audio, video and script tags
_PS_END, _PS_PACK, _PS_FIRST_PACKET = 0xB9, 0xBA, 0xBB
_FLAC_SYNC = re.compile(rb"\xff[\xf8\xf9]")
FlacHeader = tuple[int, int, bool]
_FLAC_LEAST = 8  # minimum bytes of a frame
_FLAC_PIECE = 32 << 10
_FLAC_FRAME = 16  # bytes of the longest frame header
_FLAC_MOST = 1 << 24  # maximum bytes of a frame if the file states no limit
_FLAC_USUAL = 1 << 21  # maximum bytes that are assumed for the last frame
_FLAC_COST = 16  # examining one byte for the end of a frame costs as much as reading this many


class _Ahead:
    """Reads small parts in ascending order by a few larger reads of the content."""

    def __init__(self, window: ContentReader) -> None:
        self.window, self.start, self.held = window, 0, b""

    def read(self, at: int, length: int) -> bytes:
        if not self.start <= at <= at + length <= self.start + len(self.held):
            self.start, self.held = at, self.window.read(at, max(CHUNK, length))
        return self.held[at - self.start : at - self.start + length]


def transport_stream(window: ContentReader) -> Stated | None:
    """The end of packets of 188 bytes (ISO 13818-1, 2.4.3.2), or of 192 with a time (BDAV)."""
    packet, sync = (_TS_PACKET, 0) if window.read(0, 1) == b"\x47" else (_M2TS_PACKET, 4)
    if int.from_bytes(window.read(sync + 1, 2), "big") not in _TS_FIRST:
        return None
    at, each = 0, CHUNK // packet * packet
    while len(piece := window.read(at, each)) >= packet:
        whole = len(piece) // packet
        good: Bools = np.frombuffer(piece, np.uint8)[sync : whole * packet : packet] == _TS_SYNC
        if not good.all():
            at += int(np.argmin(good)) * packet
            break
        at += whole * packet
    return Stated(at, open_ended=True) if at >= 3 * packet else None


def program_stream(window: ContentReader) -> Stated | None:
    """The end code after packs of packets with stated lengths (ISO 13818-1, 2.5.3)."""
    at, ahead, proven = 0, _Ahead(window), False
    if b"\0\0\1\xbb" not in window.read(0, 32):  # the first pack has the system header
        return None
    while len(head := ahead.read(at, 14)) >= 4 and head[:3] == b"\0\0\1" and not proven:
        code = head[3]
        if code == _PS_END:
            at, proven = at + 4, True
        elif code == _PS_PACK and len(head) == 14:
            at += 14 + (head[13] & 7) if head[4] >> 6 == 1 else 12
        elif code >= _PS_FIRST_PACKET and len(head) >= 6:
            at += 6 + int.from_bytes(head[4:6], "big")
        else:
            break
    return Stated(at, proven, open_ended=not proven) if at > _PS_PACK else None


def flash_video(window: ContentReader) -> Stated | None:
    """The end of the last tag; each tag is followed by its length (Adobe FLV, annex E)."""
    at, ahead, tags = window.number(5, 4, ">") + 4, _Ahead(window), 0
    while len(head := ahead.read(at, 11)) == 11 and head[0] & 0x1F in _FLV_TAGS:
        length = 11 + int.from_bytes(head[1:4], "big")
        if ahead.read(at + length, 4) != length.to_bytes(4, "big"):
            break
        at, tags = at + length + 4, tags + 1
    return Stated(at, open_ended=True) if tags else None


def asf(window: ContentReader) -> Stated | None:
    """The size in the file properties, proven by packets of equal length (ASF 3.2 and 5)."""
    head = window.read(0, min(window.number(16, 8), 1 << 20))
    at = head.find(_ASF_PROPERTIES)
    size = int.from_bytes(head[at + 40 : at + 48], "little") if at > 0 else 0
    if size <= len(head) or len(head) < at + 100:
        return None
    least, most = (int.from_bytes(head[at + 92 + step :][:4], "little") for step in (0, 4))
    if least != most or not 3 < least <= _ASF_MOST:
        return Stated(size)
    fits = _asf_packets_fit(window, len(head), least)
    return None if fits is False else Stated(size, proven=fits is True)


def _asf_packets_fit(window: ContentReader, at: int, length: int) -> bool | None:
    """Whether each packet begins like the first one; None if some packets are missing."""
    left, first = window.number(at + 40, 8), at + _ASF_DATA
    if window.read(first, 3) != _ASF_PACKET:
        return None
    while left > 0:
        count = min(left, max(CHUNK // length, 1))
        data = window.read(first, count * length)
        whole = np.frombuffer(data[: len(data) // length * length], np.uint8).reshape(-1, length)
        if (whole[:, :3] != np.frombuffer(_ASF_PACKET, np.uint8)).any():
            return False
        if len(data) < count * length:
            return None
        left, first = left - count, first + len(data)
    return left == 0


def flac(window: ContentReader) -> Stated | None:
    """The end of the last frame; frames have numbers and checksums (RFC 9639)."""
    at, last, samples, longest = 4, False, 0, _FLAC_MOST
    while not last:
        head = window.read(at, 4)
        if len(head) < 4 or head[0] & 127 > 6:
            return None
        if head[0] & 127 == 0:
            info = window.read(at + 4, 18)
            longest = int.from_bytes(info[7:10], "big") or _FLAC_MOST
            samples = int.from_bytes(info[13:18], "big") & (1 << 36) - 1
        last = head[0] > 127
        at += 4 + int.from_bytes(head[1:4], "big")
    start, done = _last_flac_frame(window, at, longest)
    if start < 0 or done < samples:
        return None
    end = _flac_frame_end(window, start, longest)
    return None if end is None else Stated(end, proven=True)


def _last_flac_frame(window: ContentReader, at: int, longest: int) -> tuple[int, int]:
    """(start of the last frame in the sequence that begins at `at`, samples up to its end)."""
    start, number, done = -1, 0, 0
    while (found := _next_flac_frame(window, at, longest, number)) is not None:
        start, (_, samples, counts_samples) = found
        number += samples if counts_samples else 1
        done += samples
        at = start + _FLAC_LEAST
    return start, done


def _next_flac_frame(
    window: ContentReader, at: int, longest: int, number: int
) -> tuple[int, FlacHeader] | None:
    """(offset, header) of the frame with a given number."""
    stop, kept = at + longest + _FLAC_FRAME, b""
    while at < stop and (piece := window.read(at, _FLAC_PIECE)):
        text = kept + piece
        for found in _FLAC_SYNC.finditer(text):
            header = _flac_header(text[found.start() : found.start() + _FLAC_FRAME])
            if header is not None and header[0] == number:
                return at - len(kept) + found.start(), header
        at, kept = at + len(piece), text[-_FLAC_FRAME:]
    return None


def _flac_header(head: bytes) -> FlacHeader | None:
    """(number, samples, True if the number counts samples) of a frame; None for other data."""
    if len(head) < 6 or head[0] != 0xFF or head[1] & 0xFE != 0xF8:
        return None
    if not head[2] >> 4 or head[4] == 0xFF:
        return None
    first = head[4]
    more = 0 if first < 0x80 else 7 - (first ^ 0xFF).bit_length()
    number = first & (0x7F if not more else (1 << (6 - more)) - 1)
    for byte in head[5 : 5 + more]:
        number = number << 6 | byte & 0x3F
    at = 5 + more
    code = head[2] >> 4
    if code in (6, 7):
        samples = int.from_bytes(head[at : at + code - 5], "big") + 1
        at += code - 5
    else:
        samples = 192 if code == 1 else 576 << code - 2 if code < 6 else 256 << code - 8
    at += {12: 1, 13: 2, 14: 2}.get(head[2] & 15, 0)
    if at >= len(head) or crc_by_table(0x107, reflected=False)(head[:at], 0) != head[at]:
        return None
    return number, samples, bool(head[1] & 1)


def _flac_frame_end(window: ContentReader, start: int, longest: int) -> int | None:
    """The end of the frame that begins at `start`, found by its checksum; None if not found."""
    data = window.read(start, min(longest, _FLAC_USUAL) + 2)
    if not window.budget.spend(len(data) * _FLAC_COST):
        return None
    crc_of, crc = crc_by_table(0x18005, reflected=False), 0
    for at in range(len(data) - 2):
        stored = data[at] << 8 | data[at + 1]
        if at > _FLAC_LEAST and crc == stored and window.zeros_behind(start + at + 2):
            return start + at + 2
        crc = crc_of(data[at : at + 1], crc)
    return None


FORMATS = (
    FileFormat(
        "flac", starts=(b"fLaC\x00",), length=flac, kind=(".flac", "audio/flac"), names="flac"
    ),
    FileFormat(
        "mpeg-ps",
        starts=(b"\x00\x00\x01\xba",),
        length=program_stream,
        kind=(".mpg", "video/mpeg"),
        repeats=True,
    ),
    FileFormat("flv", starts=(b"FLV\x01",), length=flash_video, kind=(".flv", "video/x-flv")),
    FileFormat(
        "asf",
        starts=(b"0&\xb2u\x8ef\xcf\x11",),
        length=asf,
        check=proven_by_length,
        kind=(".wmv", "video/x-ms-asf"),
    ),
    FileFormat(
        "mpeg-ts",
        inside=(
            ((0, b"G"), (188, b"G"), (376, b"G"), (564, b"G")),
            ((4, b"G"), (196, b"G"), (388, b"G"), (580, b"G")),
        ),
        length=transport_stream,
        kind=(".ts", "video/mp2t"),
        repeats=True,
    ),
)
