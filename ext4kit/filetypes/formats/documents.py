"""Documents and fonts."""

from __future__ import annotations

import re

import numpy as np

from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import ContentReader, Stated

_PDF_END = b"%%EOF"
_MOST_TABLES = 4096
_FREE_SECTOR = 0xFFFFFFFF
_FAT_OF_HEADER = 109
_PDF_TRAILER = 64  # bytes before %%EOF that are searched for the place of the table
_PDF_TABLE_AT = re.compile(rb"startxref\s+(\d{1,18})\s*$")
_PDF_TABLE = re.compile(rb"\s*(xref\b|\d+\s+\d+\s+obj\b)")
_PDF_SECTION = re.compile(rb"\s*xref\s+\d+\s+(\d{1,9})\s*?\r?\n")
_PDF_ROW = re.compile(rb"(\d{10}) \d{5} n")
_PDF_OBJECT = re.compile(rb"\s*\d+\s+\d+\s+obj\b")
_PDF_MOST_OBJECTS, _PDF_LOOKED_AT = 1 << 16, 64


def pdf(window: ContentReader) -> Stated | None:
    """The first %%EOF that only an end of line and zeros follow in its block.

    A file that was written in several revisions has several %%EOF marks (ISO 32000-1, section
    7.5.6). The lines before each mark state the place of its table.
    """
    for at in window.find(_PDF_END):
        end = at + len(_PDF_END)
        line = window.read(end, 2)
        end += len(line) if line == b"\r\n" else int(line[:1] in (b"\n", b"\r"))
        if window.zeros_behind(end) and _pdf_table_fits(window, at):
            return Stated(end, proven=True)
    return None


def _pdf_table_fits(window: ContentReader, end: int) -> bool:
    """Whether the object table is at its stated place, and the objects are at theirs.

    The lines before the end state the place of the table. True if they do not.
    """
    start = max(end - _PDF_TRAILER, 0)
    told = _PDF_TABLE_AT.search(window.read(start, end - start))
    if told is None or not int(told[1]):
        return True
    head = window.read(int(told[1]), 64)
    if not _PDF_TABLE.match(head):
        return False
    section = _PDF_SECTION.match(head)
    if section is None:
        return True
    count = min(int(section[1]), _PDF_MOST_OBJECTS)
    rows = _PDF_ROW.findall(window.read(int(told[1]) + section.end(), 20 * count))
    looked_at = rows[:: len(rows) // _PDF_LOOKED_AT + 1]
    return all(_PDF_OBJECT.match(window.read(int(row), 24)) for row in looked_at)


def ole(window: ContentReader) -> Stated | None:
    """The end of the last sector that the allocation table marks as used.

    Source: [MS-CFB], section 2.3.
    """
    head = window.read(0, 512)
    shift = int.from_bytes(head[30:32], "little")
    if len(head) < 512 or shift not in (9, 12):
        return None
    sector = 1 << shift
    tables = np.frombuffer(head, "<u4", _FAT_OF_HEADER, 76).tolist()
    tables += _further_tables(window, head, sector)
    end = 0
    for place, number in enumerate(tables):
        if number >= 0xFFFFFFFA:
            continue
        entries = np.frombuffer(window.read((number + 1) * sector, sector), "<u4")
        used = np.flatnonzero(entries != _FREE_SECTOR)
        if len(used):
            end = max(end, place * (sector // 4) + int(used[-1]) + 1)
    return Stated((end + 1) * sector) if end else None


def _further_tables(window: ContentReader, head: bytes, sector: int) -> list[int]:
    """Sectors of the allocation table that are listed in the chain after the header."""
    found: list[int] = []
    following = int.from_bytes(head[68:72], "little")
    seen: set[int] = set()
    while following < 0xFFFFFFFA and following not in seen:
        seen.add(following)
        raw = window.read((following + 1) * sector, sector)
        if len(raw) < sector:
            break
        numbers = np.frombuffer(raw, "<u4").tolist()
        found += numbers[:-1]
        following = numbers[-1]
    return found


def font(window: ContentReader, at: int = 0) -> Stated | None:
    """The furthest end of the tables, each padded to four bytes (OpenType, "Font Tables")."""
    count = window.number(at + 4, 2, ">")
    raw = window.read(at + 12, 16 * count) if 0 < count <= _MOST_TABLES else b""
    if not raw or len(raw) < 16 * count or not 16 <= window.number(at + 6, 2, ">") <= 4096:
        return None
    rows = np.frombuffer(raw, ">u4").reshape(-1, 4)[:, 2:].astype(np.int64)
    end = int(rows.sum(axis=1).max())
    padded = -(-end // 4) * 4
    return Stated(padded)


def font_collection(window: ContentReader) -> Stated | None:
    """The furthest end of the fonts in the collection."""
    count = window.number(8, 4, ">")
    if not 0 < count <= 256:
        return None
    ends = [font(window, window.number(12 + 4 * one, 4, ">")) for one in range(count)]
    return Stated(max(end.size for end in ends if end)) if all(ends) else None


def _font_kind(head: bytes) -> tuple[str, str]:
    return (".otf", "font/otf") if head.startswith(b"OTTO") else (".ttf", "font/ttf")


FORMATS = (
    FileFormat(
        "pdf",
        starts=(b"%PDF-",),
        length=pdf,
        kind=(".pdf", "application/pdf"),
        is_text=True,
        names="pdf",
    ),
    FileFormat(
        "ole", starts=(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",), length=ole, names="doc xls ppt msi"
    ),
    FileFormat(
        "font",
        starts=(b"\x00\x01\x00\x00\x00", b"OTTO\x00", b"true\x00"),
        length=font,
        kind=_font_kind,
        names="ttf otf",
    ),
    FileFormat(
        "font-collection",
        starts=(b"ttcf\x00",),
        length=font_collection,
        kind=(".ttc", "font/collection"),
    ),
    FileFormat(
        "woff",
        starts=(b"wOFF",),
        length=LengthField(8, 4, ">"),
        kind=(".woff", "font/woff"),
        names="woff",
    ),
    FileFormat(
        "woff2",
        starts=(b"wOF2",),
        length=LengthField(8, 4, ">"),
        kind=(".woff2", "font/woff2"),
        names="woff2",
    ),
)
