"""Expert Witness images (E01, S01): the structures of a segment file, without the chunks.

Source: "Expert Witness Compression Format specification" of the libewf project. EWF 2 (Ex01) is
another format; only its segment header is described here.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Bytes, Int8ul, Int16ul, Int32ul, Int64ul, Struct
from ext4kit.units import widen

MAGIC = b"EVF\x09\x0d\x0a\xff\x00"
SEGMENT_HEADER = Layout(
    "EWF segment header",
    Struct(
        "signature" / Bytes(8),
        "fields_start" / Int8ul,  # 1
        "segment_number" / Int16ul,  # from 1 on
        "fields_end" / Int16ul,  # 0
    ),
)
MAGIC_2 = b"EVF2\x0d\x0a\x81\x00"
SEGMENT_HEADER_2 = Layout(
    "EWF 2 segment header",
    Struct(
        "signature" / Bytes(8),
        "major_version" / Int8ul,
        "minor_version" / Int8ul,
        "compression_method" / Int16ul,
        "segment_number" / Int32ul,  # from 1 on
    ),
)
SECTION = Layout(
    "EWF section",
    Struct(
        "type" / Bytes(16),
        "next" / Int64ul,  # byte offset in the segment; that of the section itself for the last one
        "size" / Int64ul,  # this header included
        "padding" / Bytes(40),
        "checksum" / Int32ul,  # Adler-32 of all bytes before it
    ),
)
VOLUME = Layout(
    "EWF volume section",
    Struct(
        "media_type" / Int32ul,
        "number_of_chunks" / Int32ul,
        "sectors_per_chunk" / Int32ul,
        "bytes_per_sector" / Int32ul,
        "number_of_sectors" / Int64ul,  # 32 bits in the short form of SMART
    ),
)
TABLE = Layout(
    "EWF table section",
    Struct(
        "number_of_entries" / Int32ul,
        "padding1" / Int32ul,
        "base_offset" / Int64ul,  # in the segment, added to every entry
        "padding2" / Int32ul,
        "checksum" / Int32ul,  # Adler-32 of all bytes before it
    ),
)
DIGEST = Layout("EWF digest section", Struct("md5" / Bytes(16), "sha1" / Bytes(20)))
_SMART_VOLUME = 94  # bytes of the short form
_COMPRESSED = 1 << 31
_MOST_CHUNK = 1 << 25  # bytes; acquisition tools offer at most 32,768 sectors of 512 bytes
_MOST_TEXT = 1 << 20
_ERRORS_HEADER = 520  # bytes before the entries of an error2 section: count, padding, checksum
# Columns of the header section that a report shows, and their meaning.
_CASE_FIELDS = {
    "c": "case number",
    "n": "evidence number",
    "a": "description",
    "e": "examiner",
    "t": "notes",
    "av": "acquisition software version",
    "ov": "acquisition operating system",
    "m": "acquired",
    "u": "system date",
}
_TIMES = ("m", "u")
_DIGITS = 11  # most digits of a time in seconds, up to the year 5138


@dataclass(frozen=True, slots=True)
class EwfSection:
    """A section of a segment file: its type and its range of bytes."""

    kind: str
    offset: int
    end: int
    next: int

    @property
    def body(self) -> int:
        """Byte offset after the section's header."""
        return self.offset + SECTION.size


@dataclass(frozen=True, slots=True)
class Geometry:
    """The size of the media, of its chunks and of its sectors, in bytes."""

    size: int
    chunk: int
    sector: int


def segment_number(data: Buffer) -> int:
    """Segment number in the first bytes of a file; 0 if the file is no segment."""
    layouts = {MAGIC: SEGMENT_HEADER, MAGIC_2: SEGMENT_HEADER_2}
    layout = layouts.get(bytes(data[:8]))
    if layout is None or len(data) < layout.size:
        return 0
    return int(layout.parse(data).segment_number)


def parse_section(data: Buffer, offset: int) -> EwfSection:
    """The section that a header describes.

    Args:
        data: bytes of the header.
        offset: byte offset of the header in the segment.

    Raises:
        CorruptError: the header is truncated, or its checksum does not match.
    """
    if len(data) < SECTION.size:
        raise CorruptError(SECTION.name, offset, "the file ends before it")
    found = SECTION.parse(data)
    if zlib.adler32(bytes(data[: SECTION.size - 4])) != found.checksum:
        raise CorruptError(SECTION.name, offset, "the checksum of its header is wrong")
    kind = found.type.split(b"\0", 1)[0].decode("ascii", "backslashreplace")
    following = int(found.next)
    end = offset + int(found.size) if found.size else following
    if following > offset:  # no section reaches into the next one
        end = min(end, following)
    return EwfSection(kind, offset, max(end, offset + SECTION.size), following)


def parse_volume(data: Buffer, offset: int) -> Geometry:
    """The media's geometry from the body of a volume or disk section.

    Raises:
        CorruptError: the values are not possible in an image.
    """
    found = VOLUME.parse(data)
    sectors = int(found.number_of_sectors)
    if len(data) <= _SMART_VOLUME:
        sectors &= 0xFFFFFFFF
    sector = int(found.bytes_per_sector)
    chunk, size = int(found.sectors_per_chunk) * sector, sectors * sector
    if not 0 < chunk <= _MOST_CHUNK or not 0 < size < 1 << 62:
        raise CorruptError(VOLUME.name, offset, f"{sectors:,} sectors, chunks of {chunk:,} bytes")
    return Geometry(size, chunk, sector)


def parse_table(data: Buffer, offset: int) -> tuple[Int64s, Bools]:
    """Offsets of the chunks in a table, and which of them are compressed.

    Beyond 2 GiB in a segment, an entry has no bit left for the compression flag. Therefore all
    entries from the first one that appears to decrease are 32-bit offsets of uncompressed chunks.

    Args:
        data: body of the section.
        offset: byte offset of the body in the segment.

    Returns:
        (byte offsets in the segment, int64 (n,); True where compressed, bool (n,)).

    Raises:
        CorruptError: the table is truncated, or a checksum does not match.
    """
    head = TABLE.parse(data)
    count, end = int(head.number_of_entries), TABLE.size + 4 * int(head.number_of_entries)
    if zlib.adler32(bytes(data[: TABLE.size - 4])) != head.checksum or end > len(data):
        raise CorruptError(TABLE.name, offset, "its header is damaged")
    entries = bytes(data[TABLE.size : end])
    first = int.from_bytes(entries[:4], "little") & (_COMPRESSED - 1)
    # In SMART's form the chunks follow directly, without a checksum before them.
    is_bare = first + int(head.base_offset) == offset + end
    stored = b"" if is_bare else bytes(data[end : end + 4])
    if stored and zlib.adler32(entries) != int.from_bytes(stored, "little"):
        raise CorruptError(TABLE.name, offset, "the checksum of its entries is wrong")
    raw = widen(np.frombuffer(entries, "<u4", count))
    starts, packed = raw & (_COMPRESSED - 1), raw >= _COMPRESSED
    drops = np.flatnonzero(np.diff(starts) < 0)
    if len(drops):
        starts[drops[0] + 1 :] = raw[drops[0] + 1 :]
        packed[drops[0] + 1 :] = False
    return starts + int(head.base_offset), packed


def parse_errors(data: Buffer) -> Int64s:
    """Runs of sectors that could not be read at acquisition, int64 (n, 2): first, count.

    Args:
        data: body of an error2 section.
    """
    room = max(0, (len(data) - _ERRORS_HEADER) // 8)
    count = min(int.from_bytes(bytes(data[:4]), "little"), room)
    piece = bytes(data[_ERRORS_HEADER : _ERRORS_HEADER + 8 * count])
    return widen(np.frombuffer(piece, "<u4")).reshape(-1, 2)


def parse_case(data: Buffer) -> dict[str, str]:
    """Case data (value by meaning) that the examiner entered, from a header or header2 section.

    Returns:
        An empty dictionary if the body cannot be read.
    """
    try:
        raw = zlib.decompressobj().decompress(bytes(data), _MOST_TEXT)
    except zlib.error:
        return {}
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    lines = raw.decode("utf-16" if wide else "utf-8", "backslashreplace").splitlines()
    if len(lines) < 4:
        return {}
    pairs = zip(lines[2].split("\t"), lines[3].split("\t"), strict=False)
    return {_CASE_FIELDS[key]: _told(key, value) for key, value in pairs
            if key in _CASE_FIELDS and value}  # fmt: skip


def _told(key: str, value: str) -> str:
    """Text of a field; seconds since 1970 become a time in UTC, other values are unchanged."""
    if key not in _TIMES or not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
        return value
    return f"{datetime.fromtimestamp(int(value), UTC):%Y-%m-%d %H:%M:%S}Z"
