"""Content signatures at the start of a file, found in the first bytes of many blocks at once.

They serve cutting alone: what a file is in the end, `kinds` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

HEAD = 8  # bytes at the start of a block that are always looked at


@dataclass(frozen=True, slots=True)
class Signature:
    """Bytes that a kind of file starts with.

    Attributes:
        kind: name of the kind.
        magic: the bytes; at most `HEAD`.
        any_at: positions within `magic` that may hold anything.
    """

    kind: str
    magic: bytes
    any_at: tuple[int, ...] = ()

    @property
    def value(self) -> int:
        """The magic as a little-endian number, 0 where anything may stand."""
        kept = bytes(0 if at in self.any_at else byte for at, byte in enumerate(self.magic))
        return int.from_bytes(kept, "little")

    @property
    def mask(self) -> int:
        """The bits of the first 8 bytes that count."""
        kept = bytes(0 if at in self.any_at else 255 for at in range(len(self.magic)))
        return int.from_bytes(kept, "little")


SIGNATURES = (
    Signature("elf", b"\x7fELF"),
    Signature("pe", b"MZ"),
    Signature("ar", b"!<arch>\n"),
    Signature("bitcode", b"BC\xc0\xde"),
    Signature("bitcode-wrapper", b"\xde\xc0\x17\x0b"),
    Signature("wasm", b"\0asm\x01\0\0\0"),
    Signature("class", b"\xca\xfe\xba\xbe\0\0\0"),
    Signature("pyc", b"\xa7\r\r\n\0\0\0\0", any_at=(0, 4)),
    Signature("dex", b"dex\n03"),
    Signature("png", b"\x89PNG\r\n\x1a\n"),
    Signature("jpeg", b"\xff\xd8\xff"),
    Signature("gif", b"GIF8"),
    Signature("bmp", b"BM"),
    Signature("ico", b"\0\0\x01\0"),
    Signature("ico", b"\0\0\x02\0"),
    Signature("tiff", b"II*\0"),
    Signature("tiff", b"MM\0*"),
    Signature("pdf", b"%PDF-"),
    Signature("ole", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    Signature("zip", b"PK\x03\x04"),
    Signature("zip", b"PK\x05\x06"),
    Signature("jmod", b"JM\x01\0PK\x03\x04"),
    Signature("gzip", b"\x1f\x8b\x08"),
    Signature("bzip2", b"BZh"),
    Signature("xz", b"\xfd7zXZ\0"),
    Signature("zstd", b"\x28\xb5\x2f\xfd"),
    Signature("lz4", b"\x04\x22\x4d\x18"),
    Signature("7z", b"7z\xbc\xaf\x27\x1c"),
    Signature("cab", b"MSCF\0\0\0\0"),
    Signature("cpio", b"07070"),
    Signature("rpm", b"\xed\xab\xee\xdb"),
    Signature("squashfs", b"hsqs"),
    Signature("sqlite", b"SQLite f"),
    Signature("mo", b"\xde\x12\x04\x95"),
    Signature("mo", b"\x95\x04\x12\xde"),
    Signature("tzif", b"TZif"),
    Signature("terminfo", b"\x1a\x01"),
    Signature("terminfo", b"\x1e\x02"),
    Signature("git-index", b"\xfftOc\0\0\0\x02"),
    Signature("git-pack", b"PACK\0\0\0"),
    Signature("gdbm", b"\xcf\x9a\x57\x13"),
    Signature("typelib", b"GOBJ\nMET"),
    Signature("der", b"\x30\x82"),
    Signature("der", b"\x30\x83"),
    Signature("journald", b"LPKSHHRH"),
    Signature("hwdb", b"KSLPHHRH"),
    Signature("device-tree", b"\xd0\x0d\xfe\xed"),
    Signature("font", b"\0\x01\0\0\0"),
    Signature("font", b"OTTO\0"),
    Signature("font", b"true\0"),
    Signature("font-collection", b"ttcf\0"),
    Signature("woff", b"wOFF"),
    Signature("woff2", b"wOF2"),
    Signature("mp4", b"\0\0\0\0ftyp", any_at=(0, 1, 2, 3)),
    Signature("mp4", b"\0\0\0\0moov", any_at=(0, 1, 2, 3)),
    Signature("mp4", b"\0\0\0\0mdat", any_at=(0, 1, 2, 3)),
    Signature("mp4", b"\0\0\0\0wide", any_at=(0, 1, 2, 3)),
    Signature("riff", b"RIFF"),
    Signature("aiff", b"FORM"),
    Signature("ogg", b"OggS\0"),
    Signature("mp3", b"ID3"),
    Signature("mp3", b"\xff\xfb"),
    Signature("mp3", b"\xff\xf3"),
    Signature("mp3", b"\xff\xfa"),
    Signature("matroska", b"\x1a\x45\xdf\xa3"),
    Signature("flac", b"fLaC\0"),
    Signature("pcap", b"\xd4\xc3\xb2\xa1"),
    Signature("pcap", b"\x4d\x3c\xb2\xa1"),
    Signature("pcapng", b"\x0a\x0d\x0d\x0a"),
    Signature("luks", b"LUKS\xba\xbe"),
    Signature("qcow2", b"QFI\xfb"),
    # Text: nothing in them tells their length, but a new file starts here.
    Signature("script", b"#!/"),
    Signature("xml", b"<?xml "),
    Signature("html", b"<!DOCTYP"),
    Signature("html", b"<!doctyp"),
    Signature("postscript", b"%!PS"),
    Signature("rtf", b"{\\rtf"),
    Signature("pem", b"-----BEG"),
    Signature("utf-16", b"\xff\xfe"),
    Signature("utf-32", b"\xff\xfe\0\0"),
)
LATER = (  # kind, where its magic stands, the magic
    ("tar", 257, b"ustar"),
    ("icc", 36, b"acsp"),
    ("berkeley", 12, b"\x62\x31\x05\0"),
    ("berkeley", 12, b"\x61\x15\x06\0"),
)

NAMES = ("", *dict.fromkeys([one.kind for one in SIGNATURES] + [kind for kind, _, _ in LATER]))
NUMBER = {name: number for number, name in enumerate(NAMES)}
SHORT = frozenset(one.kind for one in SIGNATURES if len(one.magic) - len(one.any_at) < 3)
WIDE = {"utf-16": 2, "utf-32": 4}  # text in units of so many bytes: its end may hold zeros


def _openings() -> Any:
    """Bool (65536,): the first two bytes, little-endian, can start one of the signatures."""
    possible = np.zeros(1 << 16, bool)
    words = np.arange(1 << 16, dtype=np.uint32)
    for one in SIGNATURES:
        mask = one.mask & 0xFFFF
        if mask:
            possible |= (words & mask) == (one.value & 0xFFFF)
    return possible


_OPENINGS = _openings()
_COMPARED = [(np.uint64(one.mask), np.uint64(one.value), NUMBER[one.kind]) for one in SIGNATURES]
_BOX_NAMES = [
    np.uint64(name) for name in {one.value >> 32 for one in SIGNATURES if not one.mask & 0xFFFFFFFF}
]


def recognise(data: Any) -> Any:
    """uint8 (n,): the number of the kind that each block starts like, 0 for none.

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
    return _with_later(data, kinds)


def _with_later(data: Any, kinds: Any) -> Any:
    """The kinds, with those whose magic stands further in."""
    for kind, at, magic in LATER:
        rows = np.flatnonzero(data[:, at] == magic[0])
        found = data[rows, at : at + len(magic)]
        kinds[rows[(found == np.frombuffer(magic, np.uint8)).all(axis=1)]] = NUMBER[kind]
    return kinds
