"""Databases, message catalogues and other files whose header gives the sizes of their parts."""

from __future__ import annotations

import zlib

import numpy as np

from ext4kit.filetypes.formats.compressed import stream_end
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import ContentReader, Stated

_MOST_ENTRIES = 1 << 22
_MOST_OBJECTS = 1 << 22
_MOST_SYSTEM_STRINGS = 1 << 14
_LAST_SEGMENT = 0xFFFFFFFF
_DER_INSIDE = (b"\x02", b"\x06", b"\x30", b"\xa0")  # starts of certificates, keys, messages


def sqlite(window: ContentReader) -> Stated | None:
    """The page size times the page count (sqlite.org/fileformat2.html, section 1.3).

    The count is valid if it was written by the version that made the last change.
    """
    head = window.read(0, 100)
    if len(head) < 100 or head[:16] != b"SQLite format 3\0":
        return None
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    count = int.from_bytes(head[28:32], "big")
    if page < 512 or page & page - 1 or not count or head[24:28] != head[92:96]:
        return None
    return Stated(page * count)


def message_catalogue(window: ContentReader) -> Stated | None:
    """The furthest end of the tables and strings (GNU gettext manual, section 10.3)."""
    order = "<" if window.read(0, 4) == b"\xde\x12\x04\x95" else ">"
    count, one, other, slots, table = (window.number(at, 4, order) for at in (8, 12, 16, 20, 24))
    if not 0 <= count <= _MOST_ENTRIES or min(one, other, slots, table) < 0:
        return None
    end = max(28, one + 8 * count, other + 8 * count, table + 4 * slots if slots else 0)
    for place in (one, other):
        raw = window.read(place, 8 * count)
        if len(raw) < 8 * count:
            return None
        pairs = np.frombuffer(raw, f"{order}u4").reshape(-1, 2).astype(np.int64)
        end = max(end, int((pairs.sum(axis=1) + 1).max(initial=0)))
    if window.number(4, 4, order) & 0xFFFF:
        end = max(end, _system_strings_end(window, order))
    return Stated(end)


def _system_strings_end(window: ContentReader, order: str) -> int:
    """End of the strings that each system assembles for itself (minor revision 1)."""
    segments, table, count, one, other = (window.number(at, 4, order) for at in range(28, 48, 4))
    end: int = max(table + 8 * segments, one + 4 * count, other + 4 * count)
    if not 0 <= segments <= _MOST_SYSTEM_STRINGS or not 0 <= count <= _MOST_SYSTEM_STRINGS:
        return 0
    names = np.frombuffer(window.read(table, 8 * segments), f"{order}u4").astype(np.int64)
    end = max([end, *(names[: len(names) & ~1].reshape(-1, 2).sum(axis=1)).tolist()])
    for place in (one, other):
        for at in np.frombuffer(window.read(place, 4 * count), f"{order}u4").tolist():
            text, piece = window.number(at, 4, order), at + 4
            while (more := window.read(piece, 8)) and len(more) == 8:
                length, reference = np.frombuffer(more, f"{order}u4").tolist()
                text, piece = text + length, piece + 8
                if reference == _LAST_SEGMENT:
                    break
            end = max(end, text, piece)
    return end


def time_zone(window: ContentReader) -> Stated | None:
    """The end of the footer line (RFC 8536, section 3).

    The footer follows header and data, and both again with 64-bit times.
    """
    version = window.read(4, 1)
    end = _time_zone_block(window, 0, 4)
    if end is None or version < b"2":
        return None if end is None else Stated(end)
    end = _time_zone_block(window, end, 8)
    if end is None or window.read(end, 1) != b"\n":
        return None
    line = window.read(end + 1, 256).find(b"\n")
    return None if line < 0 else Stated(end + line + 2, proven=True)


def _time_zone_block(window: ContentReader, at: int, wide: int) -> int | None:
    head = window.read(at, 44)
    if len(head) < 44 or head[:4] != b"TZif":
        return None
    utc, standard, leap, times, types, letters = np.frombuffer(head, ">u4", 6, 20).tolist()
    return int(
        at + 44 + times * (wide + 1) + types * 6 + letters + leap * (wide + 4) + standard + utc
    )


def terminal(window: ContentReader) -> Stated | None:
    """The length of names, flags, numbers, string offsets and strings (term(5)).

    An extended file has all but the names twice.
    """
    head = window.read(0, 12)
    if len(head) < 12:
        return None
    magic, names, flags, numbers, strings, table = np.frombuffer(head, "<i2").tolist()
    each = 4 if magic == 0o1036 else 2
    if min(names, flags, numbers, strings, table) < 0 or names > 4096:
        return None
    end = _even(12 + names + flags) + each * numbers + 2 * strings + table
    raw = window.read(_even(end), 10)
    if len(raw) == 10 and any(raw):
        flags, numbers, strings, _, table = np.frombuffer(raw, "<i2").tolist()
        fits = min(flags, numbers, strings) >= 0 and flags + numbers + strings < 4096
        if fits and table > 0:
            offsets = 2 * (flags + numbers + 2 * strings)
            end = _even(_even(end) + 10 + flags) + each * numbers + offsets + table
    return Stated(end)


def _even(at: int) -> int:
    return at + (at & 1)


def git_index(window: ContentReader) -> Stated | None:
    """The length of fan-out, names, checksums, offsets and two hashes (gitformat-pack(5))."""
    count = window.number(8 + 255 * 4, 4, ">")
    if not 0 <= count <= _MOST_ENTRIES:
        return None
    table = 8 + 1024 + 24 * count
    offsets = np.frombuffer(window.read(table, 4 * count), ">u4")
    large = int((offsets >> 31).sum())
    return Stated(table + 4 * count + 8 * large + 40)


def git_pack(window: ContentReader) -> Stated | None:
    """The end of the hash after the objects, each a header and a zlib stream.

    Source: gitformat-pack(5).
    """
    count, at = window.number(8, 4, ">"), 12
    if not 0 < count <= _MOST_OBJECTS:
        return None
    for _ in range(count):
        following = _git_object(window, at)
        if following is None:
            return None
        at = following
    return Stated(at + 20, proven=True)


def _git_object(window: ContentReader, at: int) -> int | None:
    head = window.read(at, 64)
    if len(head) < 32:
        return None
    kind, used = head[0] >> 4 & 7, 1
    while head[used - 1] & 128 and used < 12:
        used += 1
    if kind == 6:
        while head[used] & 128 and used < 30:
            used += 1
        used += 1
    elif kind == 7:
        used += 20
    elif kind not in (1, 2, 3, 4):
        return None
    return stream_end(window, at + used, zlib.MAX_WBITS, 4096)


def berkeley(window: ContentReader) -> Stated | None:
    """The page size times the number of pages (Berkeley DB meta-data page)."""
    page, last = window.number(20, 4), window.number(32, 4)
    if page < 512 or page > 65536 or page & page - 1 or last < 0:
        return None
    return Stated(page * (last + 1))


def der(window: ContentReader) -> Stated | None:
    """The length of the element that contains all others (X.690, section 8.1.3)."""
    width = window.number(1, 1) & 15
    inner = window.read(2 + width, 1)
    return Stated(2 + width + window.number(2, width, ">")) if inner in _DER_INSIDE else None


def journald(window: ContentReader) -> Stated | None:
    """The length of header and arena (systemd, Journal File Format)."""
    header, arena = window.number(88, 8), window.number(96, 8)
    return Stated(header + arena) if 208 <= header <= 4096 and arena >= 0 else None


def packets(window: ContentReader) -> Stated | None:
    """The end of the last packet, from the captured lengths (pcap savefile format)."""
    at = 24
    while True:
        head = window.read(at, 16)
        if len(head) < 16:
            break
        kept, whole = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")
        if not 0 < kept <= whole or kept > 1 << 18:
            break
        at += 16 + kept
    return Stated(at) if at > 24 else None


def packet_blocks(window: ContentReader) -> Stated | None:
    """The end of the last block; each block states its length at both ends (pcapng)."""
    order, at = "<" if window.read(8, 4) == b"\x4d\x3c\x2b\x1a" else ">", 0
    while True:
        length = window.number(at + 4, 4, order)
        if length < 12 or length & 3 or window.number(at + length - 4, 4, order) != length:
            break
        at += length
    return Stated(at) if at else None


FORMATS = (
    FileFormat(
        "sqlite", starts=(b"SQLite f",), length=sqlite, kind=(".sqlite", "application/vnd.sqlite3")
    ),
    FileFormat(
        "mo",
        starts=(b"\xde\x12\x04\x95", b"\x95\x04\x12\xde"),
        length=message_catalogue,
        kind=(".mo", "application/x-gettext-translation"),
        names="mo gmo",
    ),
    FileFormat("tzif", starts=(b"TZif",), length=time_zone, kind=(".tzif", "application/tzif")),
    FileFormat(
        "terminfo",
        starts=(b"\x1a\x01", b"\x1e\x02"),
        length=terminal,
        kind=(".terminfo", "application/x-terminfo"),
    ),
    FileFormat(
        "git-index",
        starts=(b"\xfftOc\x00\x00\x00\x02",),
        length=git_index,
        kind=(".idx", "application/x-git-index"),
    ),
    FileFormat(
        "git-pack",
        starts=(b"PACK\x00\x00\x00",),
        length=git_pack,
        kind=(".pack", "application/x-git-pack"),
    ),
    FileFormat(
        "gdbm",
        starts=(b"\xcf\x9aW\x13",),
        length=LengthField(32, 8, "<"),
        kind=(".gdbm", "application/x-gdbm"),
    ),
    FileFormat(
        "der", starts=(b"0\x82", b"0\x83"), length=der, kind=(".der", "application/x-x509-ca-cert")
    ),
    FileFormat(
        "journald",
        starts=(b"LPKSHHRH",),
        length=journald,
        kind=(".journal", "application/x-systemd-journal"),
    ),
    FileFormat("hwdb", starts=(b"KSLPHHRH",), length=LengthField(16, 8, "<")),
    FileFormat(
        "pcap",
        starts=(b"\xd4\xc3\xb2\xa1", b"M<\xb2\xa1"),
        length=packets,
        kind=(".pcap", "application/vnd.tcpdump.pcap"),
        names="pcap",
    ),
    FileFormat(
        "pcapng",
        starts=(b"\n\r\r\n",),
        length=packet_blocks,
        kind=(".pcapng", "application/x-pcapng"),
    ),
    FileFormat(
        "berkeley",
        inside=(((12, b"b1\x05\x00"),), ((12, b"a\x15\x06\x00"),)),
        length=berkeley,
        kind=(".db", "application/x-berkeley-db"),
    ),
)
