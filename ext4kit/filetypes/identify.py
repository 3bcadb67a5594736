"""Identifies a carved file: its extension, its MIME type, and the encoding of text.

Formats with a signature in this package are identified here, and so is text by its encoding. All
other formats are identified by puremagic, a library that is imported only if it is needed.
"""

from __future__ import annotations

import codecs
import json
import mimetypes
import re
from dataclasses import dataclass
from functools import lru_cache

from ext4kit.filetypes.formats import BY_NAME
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.signatures import SIGNATURE_NAMES

HEAD_BYTES = 64 << 10  # number of first bytes of a file that are used for the identification
_TRUSTED = 0.4  # minimum confidence of puremagic: four matching bytes
_UNKNOWN = (".bin", "application/octet-stream")

_INTERPRETERS = (
    (b"python", ".py", "text/x-python"),
    (b"perl", ".pl", "text/x-perl"),
    (b"ruby", ".rb", "text/x-ruby"),
    (b"node", ".js", "text/javascript"),
    (b"php", ".php", "text/x-php"),
    (b"awk", ".awk", "text/x-awk"),
    (b"sh", ".sh", "text/x-shellscript"),
)
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
    """The type of a file.

    Attributes:
        extension: file name extension, with its dot.
        mime: MIME type.
        encoding: Python's name of the text encoding; empty for other types.
    """

    extension: str
    mime: str
    encoding: str = ""


@lru_cache(maxsize=4)  # record, name and row of a file each need it
def identify(head: bytes, number: int = 0) -> Kind:
    """Identify the type of a file.

    Args:
        head: up to `HEAD_BYTES` first bytes of the file; not empty.
        number: index in `SIGNATURE_NAMES` of the signature of the file, 0 for none.
    """
    known = BY_NAME.get(SIGNATURE_NAMES[number])
    if known is not None and callable(known.kind):
        return Kind(*known.kind(head))
    encoding = text_encoding(head)
    if encoding:
        return _text_type(head, known, encoding)
    if known is not None and isinstance(known.kind, tuple):
        return Kind(*known.kind)
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
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the head may end within a character
    except UnicodeDecodeError:
        return "cp1252" if _C1.search(head) else "latin-1"
    return "ascii" if head.isascii() else "utf-8"


def _utf16_without_bom(head: bytes) -> str:
    """The UTF-16 encoding of text without a byte order mark; empty for other content.

    Every other byte of such text is usually zero.
    """
    even, odd = head[::2], head[1::2]
    for zeros, letters, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 4 and zeros.count(0) * 10 > 9 * len(zeros) and letters.count(0) == 0:
            return name
    return ""


def _text_type(head: bytes, known: FileFormat | None, encoding: str) -> Kind:
    name = known.name if known else ""
    if name == "script":
        return Kind(*_script(head.split(b"\n", 1)[0]), encoding)
    if head.startswith(b"<svg") or (name == "xml" and b"<svg" in head[:4096]):
        return Kind(".svg", "image/svg+xml", encoding)
    if known is not None and known.is_text and isinstance(known.kind, tuple):
        return Kind(*known.kind, encoding)
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
    """(extension, MIME type) from puremagic; None below the minimum confidence."""
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
