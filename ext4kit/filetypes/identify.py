"""Identification of a carved file: extension, MIME type, and encoding of text.

Formats with a signature in this package, and text by its encoding, are identified here. All other
formats are identified by puremagic, a library that is imported only when it is needed.
"""

from __future__ import annotations

import codecs
import json
import mimetypes
import re
from dataclasses import dataclass
from functools import lru_cache

from ext4kit.filetypes.signatures import SIGNATURE_NAMES

HEAD_BYTES = 64 << 10  # bytes of a file's start that identification can use
_TRUSTED = 0.4  # minimum confidence of puremagic: four matching bytes
_UNKNOWN = (".bin", "application/octet-stream")

_ELF_TYPES = {  # `e_type`
    1: (".o", "application/x-object"),
    2: (".elf", "application/x-executable"),
    3: (".so", "application/x-sharedlib"),
    4: (".core", "application/x-coredump"),
}
_SHARED = 3
_LOADER = b"\0/lib"  # a program names its loader near its start; a library does not

_BY_SIGNATURE = {
    "pe": (".exe", "application/vnd.microsoft.portable-executable"),
    "ar": (".a", "application/x-archive"),
    "bitcode": (".bc", "application/x-llvm-bitcode"),
    "bitcode-wrapper": (".bc", "application/x-llvm-bitcode"),
    "wasm": (".wasm", "application/wasm"),
    "class": (".class", "application/java-vm"),
    "pyc": (".pyc", "application/x-python-code"),
    "dex": (".dex", "application/x-dex"),
    "png": (".png", "image/png"),
    "jpeg": (".jpg", "image/jpeg"),
    "gif": (".gif", "image/gif"),
    "bmp": (".bmp", "image/bmp"),
    "ico": (".ico", "image/vnd.microsoft.icon"),
    "tiff": (".tiff", "image/tiff"),
    "pdf": (".pdf", "application/pdf"),
    "jmod": (".jmod", "application/x-java-jmod"),
    "gzip": (".gz", "application/gzip"),
    "bzip2": (".bz2", "application/x-bzip2"),
    "xz": (".xz", "application/x-xz"),
    "zstd": (".zst", "application/zstd"),
    "lz4": (".lz4", "application/x-lz4"),
    "7z": (".7z", "application/x-7z-compressed"),
    "cab": (".cab", "application/vnd.ms-cab-compressed"),
    "cpio": (".cpio", "application/x-cpio"),
    "rpm": (".rpm", "application/x-rpm"),
    "tar": (".tar", "application/x-tar"),
    "squashfs": (".squashfs", "application/vnd.squashfs"),
    "sqlite": (".sqlite", "application/vnd.sqlite3"),
    "mo": (".mo", "application/x-gettext-translation"),
    "tzif": (".tzif", "application/tzif"),
    "terminfo": (".terminfo", "application/x-terminfo"),
    "git-index": (".idx", "application/x-git-index"),
    "git-pack": (".pack", "application/x-git-pack"),
    "gdbm": (".gdbm", "application/x-gdbm"),
    "berkeley": (".db", "application/x-berkeley-db"),
    "typelib": (".typelib", "application/x-typelib"),
    "der": (".der", "application/x-x509-ca-cert"),
    "journald": (".journal", "application/x-systemd-journal"),
    "icc": (".icc", "application/vnd.iccprofile"),
    "device-tree": (".dtb", "application/x-dtb"),
    "font-collection": (".ttc", "font/collection"),
    "woff": (".woff", "font/woff"),
    "woff2": (".woff2", "font/woff2"),
    "ogg": (".ogg", "application/ogg"),
    "mp3": (".mp3", "audio/mpeg"),
    "matroska": (".mkv", "video/x-matroska"),
    "flac": (".flac", "audio/flac"),
    "pcap": (".pcap", "application/vnd.tcpdump.pcap"),
    "pcapng": (".pcapng", "application/x-pcapng"),
    "luks": (".luks", "application/x-luks"),
    "qcow2": (".qcow2", "application/x-qemu-disk"),
    "vmdk": (".vmdk", "application/x-vmdk"),
    "vdi": (".vdi", "application/x-virtualbox-vdi"),
    "iso": (".iso", "application/vnd.efi.iso"),
    "mpeg-ts": (".ts", "video/mp2t"),
    "mpeg-ps": (".mpg", "video/mpeg"),
    "flv": (".flv", "video/x-flv"),
    "asf": (".wmv", "video/x-ms-asf"),
    "psd": (".psd", "image/vnd.adobe.photoshop"),
    "html": (".html", "text/html"),
    "xml": (".xml", "application/xml"),
    "postscript": (".ps", "application/postscript"),
    "rtf": (".rtf", "application/rtf"),
    "pem": (".pem", "application/x-pem-file"),
}
_TEXT_FORMATS = frozenset({"ar", "html", "pdf", "pem", "postscript", "rtf", "xml"})
_INTERPRETERS = (
    (b"python", ".py", "text/x-python"),
    (b"perl", ".pl", "text/x-perl"),
    (b"ruby", ".rb", "text/x-ruby"),
    (b"node", ".js", "text/javascript"),
    (b"php", ".php", "text/x-php"),
    (b"awk", ".awk", "text/x-awk"),
    (b"sh", ".sh", "text/x-shellscript"),
)
_ZIP_MEMBERS = (  # member names that identify an archive
    (b"META-INF/", ".jar", "application/java-archive"),
    (b"word/", ".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/", ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/", ".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
)
_ZIP_MIME = re.compile(rb"PK\x03\x04.{22}\x08\0..mimetype([a-z]+/[\w.+-]+?)PK", re.DOTALL)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile(rb"[\0-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_C1 = re.compile(rb"[\x80-\x9f]")


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of a file.

    Attributes:
        extension: with its dot.
        mime: MIME type.
        encoding: Python's name of a text encoding; empty for other types.
    """

    extension: str
    mime: str
    encoding: str = ""


@lru_cache(maxsize=4)  # the record, name and row of a file each request it
def identify(head: bytes, number: int = 0) -> Kind:
    """The type of a file.

    Args:
        head: its start, up to `HEAD_BYTES`; not empty.
        number: index of its signature in `SIGNATURE_NAMES`, 0 for none.
    """
    name = SIGNATURE_NAMES[number]
    if name in _BY_CONTENT:
        return Kind(*_BY_CONTENT[name](head))
    encoding = text_encoding(head)
    if encoding:
        return _text_type(head, name, encoding)
    if name in _BY_SIGNATURE:
        return Kind(*_BY_SIGNATURE[name])
    return Kind(*(_by_puremagic(head) or _UNKNOWN))


def text_encoding(head: bytes) -> str:
    """The encoding of text; empty for other content."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    if wide := _utf16_without_bom(head):
        return wide
    if _CONTROLS.search(head):
        return ""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # may end within a character
    except UnicodeDecodeError:
        return "cp1252" if _C1.search(head) else "latin-1"
    return "ascii" if head.isascii() else "utf-8"


def _utf16_without_bom(head: bytes) -> str:
    """UTF-16 without a byte order mark: every other byte is usually zero."""
    even, odd = head[::2], head[1::2]
    for zeros, letters, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 4 and zeros.count(0) * 10 > 9 * len(zeros) and letters.count(0) == 0:
            return name
    return ""


def _text_type(head: bytes, name: str, encoding: str) -> Kind:
    if name == "script":
        return Kind(*_script(head.split(b"\n", 1)[0]), encoding)
    if head.startswith(b"<svg") or (name == "xml" and b"<svg" in head[:4096]):
        return Kind(".svg", "image/svg+xml", encoding)
    if name in _TEXT_FORMATS:
        return Kind(*_BY_SIGNATURE[name], encoding)
    if _is_json(head):
        return Kind(".json", "application/json", encoding)
    return Kind(".txt", "text/plain", encoding)


def _is_json(head: bytes) -> bool:
    """Whether text is a complete JSON object or array; incomplete JSON counts as plain text."""
    if head[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(head)
    except (ValueError, RecursionError):
        return False
    return True


def _script(line: bytes) -> tuple[str, str]:
    for interpreter, extension, mime in _INTERPRETERS:
        if interpreter in line:
            return extension, mime
    return ".sh", "text/x-script"


def _by_puremagic(head: bytes) -> tuple[str, str] | None:
    """(extension, MIME type) by puremagic, None below the minimum confidence."""
    import puremagic

    try:
        matches = puremagic.magic_string(head)
    except puremagic.PureError:
        return None
    trusted = [match for match in matches if match.extension and match.confidence >= _TRUSTED]
    if not trusted:
        return None
    best = min(trusted, key=lambda one: (-one.confidence, -len(one.byte_match), one.extension))
    mime = best.mime_type or mimetypes.guess_type(f"x{best.extension}")[0]
    return best.extension, mime or _UNKNOWN[1]


def _elf(head: bytes) -> tuple[str, str]:
    kind = int.from_bytes(head[16:18], "little" if head[5:6] == b"\1" else "big")
    if kind == _SHARED and _LOADER in head[:4096]:
        return ".elf", "application/x-pie-executable"
    return _ELF_TYPES.get(kind, _ELF_TYPES[2])


def _zip(head: bytes) -> tuple[str, str]:
    if mime_member := _ZIP_MIME.match(head):
        mime = mime_member[1].decode("ascii", "replace")
        return mimetypes.guess_extension(mime) or ".zip", mime
    for member, extension, mime in _ZIP_MEMBERS:
        if member in head:
            return extension, mime
    return ".zip", "application/zip"


def _font(head: bytes) -> tuple[str, str]:
    return (".otf", "font/otf") if head.startswith(b"OTTO") else (".ttf", "font/ttf")


def _riff(head: bytes) -> tuple[str, str]:
    forms = {
        b"WAVE": (".wav", "audio/vnd.wave"),
        b"WEBP": (".webp", "image/webp"),
        b"AVI ": (".avi", "video/vnd.avi"),
    }
    return forms.get(head[8:12], (".riff", "application/x-riff"))


def _iso_media(head: bytes) -> tuple[str, str]:
    brand = head[8:12] if head[4:8] == b"ftyp" else b"qt  "
    if brand == b"qt  ":
        return ".mov", "video/quicktime"
    if brand in (b"heic", b"heix", b"mif1"):
        return ".heic", "image/heic"
    if brand == b"avif":
        return ".avif", "image/avif"
    return (".m4a", "audio/mp4") if brand[:3] == b"M4A" else (".mp4", "video/mp4")


_BY_CONTENT = {"elf": _elf, "zip": _zip, "font": _font, "riff": _riff, "mp4": _iso_media}
