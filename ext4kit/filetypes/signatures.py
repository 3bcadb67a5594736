"""Content signatures at the start of a file, matched at the first bytes of many blocks at once.

They are used only to cut files. `identify` gives the final type of a file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, UInt8s

HEAD = 8  # bytes at the start of a block that are always tested


@dataclass(frozen=True, slots=True)
class FileSignature:
    """Start bytes of a type of file.

    Attributes:
        kind: name of the type.
        magic: the bytes; at most `HEAD`.
        any_at: positions within `magic` that may have any value.
    """

    kind: str
    magic: bytes
    any_at: tuple[int, ...] = ()

    @property
    def value(self) -> int:
        """The magic as a little-endian number, 0 at positions with any value."""
        kept = bytes(0 if at in self.any_at else byte for at, byte in enumerate(self.magic))
        return int.from_bytes(kept, "little")

    @property
    def mask(self) -> int:
        """The bits of the first 8 bytes that are compared."""
        kept = bytes(0 if at in self.any_at else 255 for at in range(len(self.magic)))
        return int.from_bytes(kept, "little")


SIGNATURES = (
    FileSignature("elf", b"\x7fELF"),
    FileSignature("pe", b"MZ"),
    FileSignature("ar", b"!<arch>\n"),
    FileSignature("bitcode", b"BC\xc0\xde"),
    FileSignature("bitcode-wrapper", b"\xde\xc0\x17\x0b"),
    FileSignature("wasm", b"\0asm\x01\0\0\0"),
    FileSignature("class", b"\xca\xfe\xba\xbe\0\0\0"),
    FileSignature("pyc", b"\xa7\r\r\n\0\0\0\0", any_at=(0, 4)),
    FileSignature("pyc", b"\x2b\x0e\r\n\0\0\0\0", any_at=(0, 4)),  # from Python 3.14 on
    FileSignature("dex", b"dex\n03"),
    FileSignature("png", b"\x89PNG\r\n\x1a\n"),
    FileSignature("jpeg", b"\xff\xd8\xff"),
    FileSignature("gif", b"GIF8"),
    FileSignature("bmp", b"BM"),
    FileSignature("ico", b"\0\0\x01\0"),
    FileSignature("ico", b"\0\0\x02\0"),
    FileSignature("tiff", b"II*\0"),
    FileSignature("tiff", b"MM\0*"),
    FileSignature("pdf", b"%PDF-"),
    FileSignature("ole", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    FileSignature("zip", b"PK\x03\x04"),
    FileSignature("zip", b"PK\x05\x06"),
    FileSignature("jmod", b"JM\x01\0PK\x03\x04"),
    FileSignature("gzip", b"\x1f\x8b\x08"),
    FileSignature("bzip2", b"BZh"),
    FileSignature("xz", b"\xfd7zXZ\0"),
    FileSignature("zstd", b"\x28\xb5\x2f\xfd"),
    FileSignature("lz4", b"\x04\x22\x4d\x18"),
    FileSignature("7z", b"7z\xbc\xaf\x27\x1c"),
    FileSignature("cab", b"MSCF\0\0\0\0"),
    FileSignature("cpio", b"07070"),
    FileSignature("rpm", b"\xed\xab\xee\xdb"),
    FileSignature("squashfs", b"hsqs"),
    FileSignature("sqlite", b"SQLite f"),
    FileSignature("mo", b"\xde\x12\x04\x95"),
    FileSignature("mo", b"\x95\x04\x12\xde"),
    FileSignature("tzif", b"TZif"),
    FileSignature("terminfo", b"\x1a\x01"),
    FileSignature("terminfo", b"\x1e\x02"),
    FileSignature("git-index", b"\xfftOc\0\0\0\x02"),
    FileSignature("git-pack", b"PACK\0\0\0"),
    FileSignature("gdbm", b"\xcf\x9a\x57\x13"),
    FileSignature("typelib", b"GOBJ\nMET"),
    FileSignature("der", b"\x30\x82"),
    FileSignature("der", b"\x30\x83"),
    FileSignature("journald", b"LPKSHHRH"),
    FileSignature("hwdb", b"KSLPHHRH"),
    FileSignature("device-tree", b"\xd0\x0d\xfe\xed"),
    FileSignature("font", b"\0\x01\0\0\0"),
    FileSignature("font", b"OTTO\0"),
    FileSignature("font", b"true\0"),
    FileSignature("font-collection", b"ttcf\0"),
    FileSignature("woff", b"wOFF"),
    FileSignature("woff2", b"wOF2"),
    FileSignature("mp4", b"\0\0\0\0ftyp", any_at=(0, 1, 2, 3)),
    FileSignature("mp4", b"\0\0\0\0moov", any_at=(0, 1, 2, 3)),
    FileSignature("mp4", b"\0\0\0\0mdat", any_at=(0, 1, 2, 3)),
    FileSignature("mp4", b"\0\0\0\0wide", any_at=(0, 1, 2, 3)),
    FileSignature("riff", b"RIFF"),
    FileSignature("aiff", b"FORM"),
    FileSignature("ogg", b"OggS\0"),
    FileSignature("mp3", b"ID3"),
    FileSignature("mp3", b"\xff\xfb"),
    FileSignature("mp3", b"\xff\xf3"),
    FileSignature("mp3", b"\xff\xfa"),
    FileSignature("matroska", b"\x1a\x45\xdf\xa3"),
    FileSignature("flac", b"fLaC\0"),
    FileSignature("pcap", b"\xd4\xc3\xb2\xa1"),
    FileSignature("pcap", b"\x4d\x3c\xb2\xa1"),
    FileSignature("pcapng", b"\x0a\x0d\x0d\x0a"),
    FileSignature("luks", b"LUKS\xba\xbe"),
    FileSignature("qcow2", b"QFI\xfb"),
    FileSignature("vmdk", b"KDMV"),
    FileSignature("mpeg-ps", b"\0\0\1\xba"),
    FileSignature("flv", b"FLV\1"),
    FileSignature("asf", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"),
    FileSignature("psd", b"8BPS\0"),
    # Text formats give no length, but a new file starts here.
    FileSignature("script", b"#!/"),
    FileSignature("xml", b"<?xml "),
    FileSignature("html", b"<!DOCTYP"),
    FileSignature("html", b"<!doctyp"),
    FileSignature("postscript", b"%!PS"),
    FileSignature("rtf", b"{\\rtf"),
    FileSignature("pem", b"-----BEG"),
    FileSignature("utf-16", b"\xff\xfe"),
    FileSignature("utf-32", b"\xff\xfe\0\0"),
)
OFFSET_SIGNATURES = (  # type, (offset, bytes there) of each part of its magic
    ("tar", ((257, b"ustar"),)),
    ("icc", ((36, b"acsp"),)),
    ("berkeley", ((12, b"\x62\x31\x05\0"),)),
    ("berkeley", ((12, b"\x61\x15\x06\0"),)),
    ("mpeg-ts", ((0, b"G"), (188, b"G"), (376, b"G"), (564, b"G"))),
    ("mpeg-ts", ((4, b"G"), (196, b"G"), (388, b"G"), (580, b"G"))),
    ("vdi", ((64, b"\x7f\x10\xda\xbe"),)),
    ("iso", ((0, b"\1CD001\1"),)),
)
MAGIC_AT = {"iso": 32768}  # bytes from the start of the file to the block with its magic

SIGNATURE_NAMES = (
    "",
    *dict.fromkeys([one.kind for one in SIGNATURES] + [kind for kind, _ in OFFSET_SIGNATURES]),
)
SIGNATURE_INDEX = {name: number for number, name in enumerate(SIGNATURE_NAMES)}
WEAK_SIGNATURES = frozenset(one.kind for one in SIGNATURES if len(one.magic) - len(one.any_at) < 3)
LONG_SIGNATURES = frozenset(  # with four bytes and more that are not zero
    one.kind for one in SIGNATURES if one.value.to_bytes(HEAD, "little").count(0) < HEAD - 3
)
# text in characters of several bytes: its end may hold zeros
CHARACTER_BYTES = {"utf-16": 2, "utf-32": 4}


def _possible_prefixes() -> Bools:
    """Bool (65536,): True where a signature can start with these two bytes (little-endian)."""
    possible = np.zeros(1 << 16, bool)
    words = np.arange(1 << 16, dtype=np.uint32)
    for one in SIGNATURES:
        mask = one.mask & 0xFFFF
        if mask:
            possible |= (words & mask) == (one.value & 0xFFFF)
    return possible


_OPENINGS = _possible_prefixes()
_COMPARED = [
    (np.uint64(one.mask), np.uint64(one.value), SIGNATURE_INDEX[one.kind]) for one in SIGNATURES
]
_BOX_NAMES = [
    np.uint64(name) for name in {one.value >> 32 for one in SIGNATURES if not one.mask & 0xFFFFFFFF}
]


def match_signatures(data: Bytes2D) -> UInt8s:
    """uint8 (n,): index of the signature at the start of each block, 0 for none.

    Args:
        data: uint8 (n, block size).
    """
    head = np.ascontiguousarray(data[:, :HEAD]).view("<u8")[:, 0]
    kinds = np.zeros(len(data), np.uint8)
    possible = _OPENINGS[(head & np.uint64(0xFFFF)).astype(np.int64)]
    names = head >> np.uint64(32)
    for name in _BOX_NAMES:
        possible |= names == name
    rows = np.flatnonzero(possible)
    heads = head[rows]
    for mask, value, number in _COMPARED if len(rows) else ():
        kinds[rows[(heads & mask) == value]] = number
    return _match_offset_signatures(data, kinds)


def _match_offset_signatures(data: Bytes2D, kinds: UInt8s) -> UInt8s:
    """The types, with those added whose magic is at a larger offset."""
    for kind, parts in OFFSET_SIGNATURES:
        rows = np.flatnonzero(data[:, parts[0][0]] == parts[0][1][0])
        for at, magic in parts:
            found = data[rows, at : at + len(magic)]
            rows = rows[(found == np.frombuffer(magic, np.uint8)).all(axis=1)]
        kinds[rows] = SIGNATURE_INDEX[kind]
    return kinds
