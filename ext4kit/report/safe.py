r"""Names from the evidence as text that cannot control a terminal, mislead a reader or add lines.

A byte that is not UTF-8 and a character that is not printable appear as `\xNN` (below U+0100),
`\uNNNN` or `\UNNNNNNNN`. A backslash appears as `\\`, so that different names never look the same.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ext4kit.errors import quoted

_FORMAT_RANGES = (
    "\u0000-\u001f\u007f-\u009f"  # C0, DEL, C1: escapes, bells, cursor movement
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # invisible
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"  # zero width, separators, bidi control
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # tags, selectors
    "\ud800-\udfff"
)
_UNSAFE = re.compile(f"[{_FORMAT_RANGES}\\\\]+")
_UNSAFE_BYTES = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")
_UNCLEAR_LINES = re.compile(rb"^ |/ | /| $|^\"", re.MULTILINE)
_ESCAPED = re.compile(rb"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5})")
_PLAIN_LINES = bytes({ord("\n"), *range(0x20, 0x7F)} - {ord("\\")})


def printable(name: bytes) -> str:
    r"""A name in printable form, on one line.

    >>> printable(b"a\x1b[31m\xff")
    'a\\x1b[31m\\xff'
    """
    if not _UNSAFE_BYTES.search(name):
        return name.decode("ascii")
    return _UNSAFE.sub(_escaped, name.decode("utf-8", "surrogateescape"))


def shown(name: bytes) -> str:
    """A name or path in printable form, in quotation marks where blanks would be overlooked.

    >>> shown(b"... ")
    '"... "'
    """
    return quoted(printable(name))


def unprinted(text: bytes) -> bytes:
    r"""The name or path that is printed as a text: the reverse of `shown`.

    >>> unprinted(rb'"caf\xe9 "')
    b'caf\xe9 '
    """
    if len(text) > 1 and text[:1] + text[-1:] == b'""':
        text = text[1:-1]
    return _ESCAPED.sub(_meant, text)


def _meant(match: re.Match[bytes]) -> bytes:
    digits = match[1]
    if digits == b"\\":
        return digits
    code = int(digits[1:], 16)
    is_character = code < 0x80 or digits[:1] != b"x"
    return chr(code).encode("utf-8", "surrogatepass") if is_character else bytes([code])


def shown_lines(names: list[bytes]) -> str:
    """Many names or paths as by `shown`, one per line; plain ones are processed in one pass."""
    if are_plain(blob := b"\n".join(names)) and blob.count(b"\n") == len(names) - 1:
        return blob.decode("ascii") + "\n"
    return "".join(f"{shown(name)}\n" for name in names)


def are_plain(lines: bytes) -> bool:
    """Whether lines need neither an escape nor quotation marks."""
    if not is_plain_ascii(lines):
        return False
    return (b" " not in lines and b'"' not in lines) or not _UNCLEAR_LINES.search(lines)


def printable_text(text: str) -> str:
    """Printable form of a text that may contain names; a backslash is not doubled."""
    return _UNSAFE.sub(_escaped_but_backslashes, text)


def printable_lines(names: list[bytes]) -> str:
    """Many names as by `printable`, one per line; plain ASCII names are processed in one pass."""
    blob = b"\n".join(names)
    if blob.count(b"\n") == len(names) - 1 and is_plain_ascii(blob):
        return blob.decode("ascii") + "\n"
    return "".join(f"{printable(name)}\n" for name in names)


def is_plain_ascii(lines: bytes) -> bool:
    """Whether lines need no escape: printable ASCII without a backslash."""
    return not lines.translate(None, _PLAIN_LINES)


def _escaped(match: re.Match[str]) -> str:
    return "".join(map(_escape, match[0]))


def _escaped_but_backslashes(match: re.Match[str]) -> str:
    return "".join(one if one == "\\" else _escape(one) for one in match[0])


@lru_cache(1 << 12)
def _escape(letter: str) -> str:
    code = ord(letter)
    if letter == "\\":
        return "\\\\"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
