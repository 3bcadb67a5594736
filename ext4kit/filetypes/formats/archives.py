"""Archives and packages."""

from __future__ import annotations

import mimetypes
import re
import zlib
from collections.abc import Callable

from ext4kit.filetypes.formats import compressed
from ext4kit.filetypes.formats.checks import proven_by_length, unzips
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import ContentReader, Stated

_TAR_BLOCK = 512
_TAR_RECORD = 20 * _TAR_BLOCK  # default record size, to which tar pads its output
_EOCD = b"PK\x05\x06"
_EOCD_SIZE = 22
_ZIP64_TAIL = 56 + 20  # zip64 end of central directory and its locator
_CPIO_ALIGN = 512
_MOST_HEADER = 16 << 20  # bytes of the start header of 7z
_RPM_LEAD = 96
_RPM_HEADER = b"\x8e\xad\xe8\x01"


_ZIP_MEMBERS = (  # member names that identify an archive
    (b"META-INF/", ".jar", "application/java-archive"),
    (b"word/", ".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/", ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/", ".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
)
_ZIP_MIME = re.compile(rb"PK\x03\x04.{22}\x08\0..mimetype([a-z]+/[\w.+-]+?)PK", re.DOTALL)


def zip_archive(window: ContentReader, prefix: int = 0) -> Stated | None:
    """The end of the end record that refers to the central directory.

    Source: APPNOTE.TXT, section 4.3.

    Archives stored inside this archive have end records too, but the offsets in these are counted
    from another start.
    """
    for at in window.find(_EOCD):
        record = window.read(at, _EOCD_SIZE)
        if len(record) < _EOCD_SIZE:
            break
        size = int.from_bytes(record[12:16], "little")
        offset = int.from_bytes(record[16:20], "little")
        comment = int.from_bytes(record[20:22], "little")
        wide = 0xFFFFFFFF in (size, offset) or window.read(at - 20, 4) == b"PK\x06\x07"
        if wide:
            size = window.number(at - _ZIP64_TAIL + 40, 8)
            offset = window.number(at - _ZIP64_TAIL + 48, 8)
        if offset + size + (_ZIP64_TAIL if wide else 0) in (at, at - prefix):
            return Stated(at + _EOCD_SIZE + comment, proven=True)
    return None


def jmod(window: ContentReader) -> Stated | None:
    """The length of a ZIP archive that follows four bytes."""
    return zip_archive(window, prefix=4)


def tar(window: ContentReader) -> Stated | None:
    """The length of the members up to the empty block, with tar's padding (ustar, pax)."""
    at = 0
    while True:
        head = window.read(at, _TAR_BLOCK)
        if len(head) < _TAR_BLOCK or not head.strip(b"\0"):
            break
        size = tar_number(head[124:136])
        if size is None or not tar_sum_fits(head):
            break
        at += _TAR_BLOCK
        more = head[156:157] == b"S" and head[482] == 1
        while more:
            further = window.read(at, _TAR_BLOCK)
            at += _TAR_BLOCK
            more = len(further) == _TAR_BLOCK and further[504] == 1
        at += -(-size // _TAR_BLOCK) * _TAR_BLOCK
    if not at:
        return None
    for step in (_TAR_RECORD, 2 * _TAR_BLOCK + at):
        end = -(-(at + 2 * _TAR_BLOCK) // step) * step
        if end <= window.size and not window.read(at, end - at).strip(b"\0"):
            return Stated(end, proven=step == _TAR_RECORD)
    return Stated(at)


def tar_number(raw: bytes) -> int | None:
    """The value of a number field: octal digits, or, if the top bit is set, a binary number."""
    if raw[0] & 0x80:
        return int.from_bytes(raw[-8:], "big")
    digits = raw.strip(b" \0")
    if digits.strip(b"01234567"):
        return None
    return int(digits or b"0", 8)


def tar_sum_fits(head: bytes) -> bool:
    """Whether the checksum of a header of tar is right."""
    stored = tar_number(head[148:156])
    return stored == sum(head[:148]) + 8 * 32 + sum(head[156:])


def seven_zip(window: ContentReader) -> Stated | None:
    """The end of the last header, whose offset, length and CRC are in the start header.

    Source: 7zFormat.txt.
    """
    offset, size = window.number(12, 8), window.number(20, 8)
    if min(offset, size) < 0:
        return None
    end = 32 + offset + size
    if end > window.size or not 0 < size <= _MOST_HEADER:
        return Stated(end)
    header = window.read(32 + offset, size)
    if len(header) < size:
        return Stated(end)
    fits = zlib.crc32(header) == window.number(28, 4)
    return Stated(end, proven=True) if fits else None


def cpio(window: ContentReader) -> Stated | None:
    """The length of the members up to TRAILER!!!, padded to 512 bytes if only zeros follow."""
    at = 0
    while True:
        head = window.read(at, 110)
        member = _cpio_member(head)
        if member is None:
            return None
        start, name, size, align = member
        last = window.read(at + start, 10) == b"TRAILER!!!"
        at += -(-(start + name) // align) * align
        if last:
            break
        at += -(-size // align) * align
    padded = -(-at // _CPIO_ALIGN) * _CPIO_ALIGN
    zeros = padded <= window.size and not window.read(at, padded - at).strip(b"\0")
    return Stated(padded if zeros else at, proven=True)


def _cpio_member(head: bytes) -> tuple[int, int, int, int] | None:
    """(header bytes, name bytes, content bytes, alignment) of a cpio member."""
    fields = {b"070701": (110, 94, 102, 54, 62, 16, 4), b"070702": (110, 94, 102, 54, 62, 16, 4)}
    fields[b"070707"] = (76, 59, 65, 65, 76, 8, 1)
    if head[:6] not in fields or len(head) < 76:
        return None
    start, name_at, name_end, size_at, size_end, base, align = fields[head[:6]]
    try:
        return start, int(head[name_at:name_end], base), int(head[size_at:size_end], base), align
    except ValueError:
        return None


_PAYLOADS: dict[bytes, Callable[[ContentReader], Stated | None]] = {
    b"\x1f\x8b": compressed.gzip,
    b"BZ": compressed.bzip2,
    b"\xfd7": compressed.xz,
    b"\x28\xb5": compressed.zstd,
    b"07": cpio,
}


def rpm(window: ContentReader) -> Stated | None:
    """The length of lead, signature, header and compressed payload (RPM file format 3)."""
    signature = _rpm_header_end(window, _RPM_LEAD)
    if signature is None:
        return None
    header = _rpm_header_end(window, -(-signature // 8) * 8)
    if header is None:
        return None
    length = _PAYLOADS.get(window.read(header, 2))
    payload = None if length is None else length(window.behind(header))
    return None if payload is None else Stated(header + payload.size, payload.proven)


def _rpm_header_end(window: ContentReader, at: int) -> int | None:
    head = window.read(at, 16)
    if head[:4] != _RPM_HEADER or len(head) < 16:
        return None
    entries, store = int.from_bytes(head[8:12], "big"), int.from_bytes(head[12:16], "big")
    return at + 16 + 16 * entries + store


def _zip_kind(head: bytes) -> tuple[str, str]:
    if mime_member := _ZIP_MIME.match(head):
        mime = mime_member[1].decode("ascii", "replace")
        return mimetypes.guess_extension(mime) or ".zip", mime
    for member, extension, mime in _ZIP_MEMBERS:
        if member in head:
            return extension, mime
    return ".zip", "application/zip"


FORMATS = (
    FileFormat(
        "zip",
        starts=(b"PK\x03\x04", b"PK\x05\x06"),
        length=zip_archive,
        check=unzips,
        kind=_zip_kind,
    ),
    FileFormat(
        "jmod",
        starts=(b"JM\x01\x00PK\x03\x04",),
        length=jmod,
        kind=(".jmod", "application/x-java-jmod"),
    ),
    FileFormat(
        "7z",
        starts=(b"7z\xbc\xaf'\x1c",),
        length=seven_zip,
        check=proven_by_length,
        kind=(".7z", "application/x-7z-compressed"),
        names="7z",
    ),
    FileFormat(
        "cab",
        starts=(b"MSCF\x00\x00\x00\x00",),
        length=LengthField(8, 4, "<"),
        kind=(".cab", "application/vnd.ms-cab-compressed"),
        names="cab",
    ),
    FileFormat(
        "cpio",
        starts=(b"07070",),
        length=cpio,
        kind=(".cpio", "application/x-cpio"),
        has_members=True,
    ),
    FileFormat(
        "rpm",
        starts=(b"\xed\xab\xee\xdb",),
        length=rpm,
        kind=(".rpm", "application/x-rpm"),
        names="rpm",
    ),
    FileFormat(
        "tar",
        inside=(((257, b"ustar"),),),
        length=tar,
        kind=(".tar", "application/x-tar"),
        has_members=True,
        names="tar",
    ),
)
