"""Programs, libraries and other output of compilers."""

from __future__ import annotations

from ext4kit.errors import CorruptError
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField
from ext4kit.filetypes.formats.reader import ContentReader, Stated
from ext4kit.parsers.formats.elf import SHT_NOBITS, ElfHeader

_AR_HEADER = 60
_MOST_SECTIONS = 1 << 20


_ELF_TYPES = {  # `e_type`
    1: (".o", "application/x-object"),
    2: (".elf", "application/x-executable"),
    3: (".so", "application/x-sharedlib"),
    4: (".core", "application/x-coredump"),
}
_SHARED = 3
_LOADER = b"\0/lib"  # a program names its loader near its start; a library does not


def elf(window: ContentReader) -> Stated | None:
    """The furthest end of tables, sections and segments (System V gABI, chapter 4)."""
    try:
        header = ElfHeader.parse(window.read(0, 64))
    except CorruptError:
        return None
    sections = header.sections(window.read(header.section_at, header.section_bytes))
    if header.section_at and not len(sections):
        return None
    if len(sections) > 1 and not sections["sh_type"].any():  # zeros are expected there
        return None
    if header.sections_elsewhere(sections):
        count = int(sections["sh_size"][0])
        if count > _MOST_SECTIONS:
            return None
        sections = header.sections(window.read(header.section_at, header.section_size * count))
    segments = header.segments(window.read(header.segment_at, header.segment_bytes))
    real = sections[sections["sh_type"] != SHT_NOBITS]
    end = max(
        header.size,
        header.section_at + header.section_size * len(sections),
        header.segment_at + header.segment_bytes,
        *_ends(real["sh_offset"], real["sh_size"]),
        *_ends(segments["p_offset"], segments["p_filesz"]),
    )
    return Stated(end)


def _ends(offset: object, size: object) -> list[int]:
    """Ends of all pieces as Python integers, which cannot overflow."""
    pairs = zip(offset.tolist(), size.tolist(), strict=True)  # type: ignore[attr-defined]
    return [place + length for place, length in pairs if length]


def ar(window: ContentReader) -> Stated | None:
    """The end of the last member; members have a header and even offsets (ar.h)."""
    at = 8
    while True:
        head = window.read(at, _AR_HEADER)
        if len(head) < _AR_HEADER or head[58:] != b"`\n" or not head[48:58].strip().isdigit():
            return Stated(at) if at > 8 else None
        at += _AR_HEADER + int(head[48:58])
        at += at & 1


def pe(window: ContentReader) -> Stated | None:
    """The furthest end of sections and certificates (Microsoft PE/COFF, sections 3 and 4)."""
    at = window.number(60, 4)
    if at <= 0 or window.read(at, 4) != b"PE\0\0":
        return None
    count, optional = window.number(at + 6, 2), window.number(at + 20, 2)
    table = at + 24 + optional
    end = table + 40 * count
    if not 0 < count <= 96:
        return None
    for section in range(table, table + 40 * count, 40):
        size, place = window.number(section + 16, 4), window.number(section + 20, 4)
        end = max(end, place + size) if size > 0 else end
    wide = window.number(at + 24, 2) == 0x20B
    directory = at + 24 + (112 if wide else 96) + 4 * 8
    place, size = window.number(directory, 4), window.number(directory + 4, 4)
    if size > 0 and directory + 8 <= table:
        end = max(end, place + size)
    return Stated(max(end, _symbols_end(window, at + 12)))


def _symbols_end(window: ContentReader, at: int) -> int:
    """End of the strings after the symbols that a COFF header names; 0 if it names none."""
    place, count = window.number(at, 4), window.number(at + 4, 4)
    if place <= 0 or count <= 0:
        return 0
    return place + 18 * count + max(window.number(place + 18 * count, 4), 0)


def bitcode(window: ContentReader) -> Stated | None:
    """The end of the last top-level block, from lengths in words (LLVM bitstream format)."""
    at = 4
    while (word := window.number(at, 4)) > 0 and word & 3 == 1:
        bit = 2
        for width in (8, 4):
            while word >> bit + width - 1 & 1:
                bit += width
            bit += width
        length = window.number(at + -(-bit // 32) * 4, 4)
        if bit > 32 or length < 0:
            return None
        at += 8 + 4 * length
    return Stated(at) if at > 4 else None


def bitcode_wrapper(window: ContentReader) -> Stated | None:
    """The offset of the wrapped bitcode plus its length, padded to 16 bytes."""
    offset, size = window.number(8, 4), window.number(12, 4)
    return Stated(-(-(offset + size) // 16) * 16) if offset >= 20 and size > 0 else None


def wasm(window: ContentReader) -> Stated | None:
    """The end of the last section (WebAssembly core specification, section 5.5)."""
    at = 8
    while 0 <= window.number(at, 1) <= 13:
        size, used = _leb(window.read(at + 1, 5))
        if not used or (size == 0 and window.number(at, 1) == 0):
            break
        at += 1 + used + size
    return Stated(at) if at > 8 else None


def _leb(raw: bytes) -> tuple[int, int]:
    """(number, bytes of its encoding) of an unsigned LEB128; 0 bytes if it does not end."""
    value = 0
    for position, byte in enumerate(raw):
        value |= (byte & 127) << 7 * position
        if byte < 128:
            return value, position + 1
    return 0, 0


def _elf_kind(head: bytes) -> tuple[str, str]:
    kind = int.from_bytes(head[16:18], "little" if head[5:6] == b"\1" else "big")
    if kind == _SHARED and _LOADER in head[:4096]:
        return ".elf", "application/x-pie-executable"
    return _ELF_TYPES.get(kind, _ELF_TYPES[2])


FORMATS = (
    FileFormat("elf", starts=(b"\x7fELF",), length=elf, kind=_elf_kind),
    FileFormat(
        "pe",
        starts=(b"MZ",),
        length=pe,
        kind=(".exe", "application/vnd.microsoft.portable-executable"),
        names="exe dll",
    ),
    FileFormat(
        "ar",
        starts=(b"!<arch>\n",),
        length=ar,
        kind=(".a", "application/x-archive"),
        is_text=True,
        names="a deb",
    ),
    FileFormat(
        "bitcode",
        starts=(b"BC\xc0\xde",),
        length=bitcode,
        kind=(".bc", "application/x-llvm-bitcode"),
    ),
    FileFormat(
        "bitcode-wrapper",
        starts=(b"\xde\xc0\x17\x0b",),
        length=bitcode_wrapper,
        kind=(".bc", "application/x-llvm-bitcode"),
    ),
    FileFormat(
        "wasm",
        starts=(b"\x00asm\x01\x00\x00\x00",),
        length=wasm,
        kind=(".wasm", "application/wasm"),
    ),
    FileFormat(
        "typelib",
        starts=(b"GOBJ\nMET",),
        length=LengthField(40, 4, "<"),
        kind=(".typelib", "application/x-typelib"),
    ),
    FileFormat(
        "device-tree",
        starts=(b"\xd0\r\xfe\xed",),
        length=LengthField(4, 4, ">"),
        kind=(".dtb", "application/x-dtb"),
    ),
)
