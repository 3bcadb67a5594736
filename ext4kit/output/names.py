"""Names of the evidence as safe file names of this system, changed as little as possible.

The manifest has the exact bytes of each name.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress

NAME_LIMIT = 255  # bytes in one path component on every file system in common use
_ROOM = 40  # bytes for what may be appended to a marked name: a disambiguator and a number
_PLAIN = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9 ._-]{0,%d}" % (NAME_LIMIT - 1))

# Bytes that a system does not accept in a name; they are percent-encoded.
POSIX = re.compile(rb"[\x00-\x1f\x7f/]")
WINDOWS = re.compile(
    rb"""[\x00-\x1f\x7f/\\<>:"|?*]
    | [ .] (?= [ .]* \Z )  # it drops these, and finds another file
    | \A (?= (?: CON | PRN | AUX | NUL | CONIN[$] | CONOUT[$]
               | (?: COM | LPT ) (?: [0-9] | \xc2[\xb9\xb2\xb3] ) )
             [ ]* (?: [.] | \Z ) ) .  # devices in every folder, whatever follows behind a dot
    """,
    re.VERBOSE | re.IGNORECASE,
)
HERE = WINDOWS if os.name == "nt" else POSIX


def usable_name(name: bytes) -> str:
    """A name as one path component; percent-encoded where it cannot be used unchanged."""
    if _PLAIN.fullmatch(name) and not HERE.search(name):
        return name.decode("ascii")
    plain = name not in (b"", b".", b"..") and not HERE.search(name)
    try:
        text = name.decode("utf-8")
        os.fsencode(text)
    except UnicodeError:  # not UTF-8, or not in the character set of the locale
        plain, text = False, ""
    if not plain:
        text = _percent_encoded(name)
    if len(text.encode()) <= NAME_LIMIT:
        return text
    digest = hashlib.sha256(name).hexdigest()[:12]
    return cut(text, NAME_LIMIT - 13) + "~" + digest


def marked_name(name: bytes, mark: str) -> bytes:
    """A usable name with a mark before its extension; however long it is, the mark stays."""
    stem, dot, extension = usable_name(name).rpartition(".")
    if not stem.strip("."):  # none, or a name such as .profile
        stem, dot, extension = usable_name(name), "", ""
    end = cut(f"{mark}{dot}{extension}", NAME_LIMIT - _ROOM)
    return (cut(stem, NAME_LIMIT - _ROOM - len(end.encode())) + end).encode()


def cut(text: str, room: int) -> str:
    """The longest start of the text that fits into `room` bytes."""
    return text.encode()[:room].decode("utf-8", "ignore")


def _percent_encoded(name: bytes) -> str:
    if name in (b"", b".", b".."):
        return "%2E" * len(name) or "%00"
    escaped = name.replace(b"%", b"%25")
    escaped = HERE.sub(lambda found: b"%%%02X" % found[0][0], escaped)
    return "".join(map(_escaped, escaped.decode("utf-8", "surrogateescape")))


def _escaped(char: str) -> str:
    """A character, or its percent-encoded bytes where names of this system cannot contain it."""
    with suppress(UnicodeEncodeError):
        if not "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8
            os.fsencode(char)
            return char
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
