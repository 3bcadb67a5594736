"""Names of the evidence as safe file names of this system, changed as little as possible.

The manifest has the exact bytes of each name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")
NAME_LIMIT = 255  # bytes in one path component on every file system in common use
_ROOM = 40  # bytes for what may be appended to a marked name: a disambiguator and a number
_PLAIN = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9 ._-]{0,%d}" % (NAME_LIMIT - 1))

# Bytes that a system does not accept in a name, or that control a terminal or the direction of
# a text (C1, and the marks, overrides and isolates of Unicode); they are percent-encoded.
_CONTROLS = rb"\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xaf]"
POSIX = re.compile(rb"[\x00-\x1f\x7f/]|%s" % _CONTROLS)
WINDOWS = re.compile(
    rb"""[\x00-\x1f\x7f/\\<>:"|?*] | %s
    | [ .] (?= [ .]* \Z )  # it drops these, and finds another file
    | \A (?= (?: CON | PRN | AUX | NUL | CONIN[$] | CONOUT[$]
               | (?: COM | LPT ) (?: [0-9] | \xc2[\xb9\xb2\xb3] ) )
             [ ]* (?: [.] | \Z ) ) .  # devices in every folder, whatever follows after a dot
    """
    % _CONTROLS,
    re.VERBOSE | re.IGNORECASE,
)
HERE = WINDOWS if os.name == "nt" else POSIX
_ASCII = re.compile(rb"(?: %s ) | [\x80-\xff]" % WINDOWS.pattern, WINDOWS.flags)
SHORT = 100  # bytes of a name that is cut; the limit of some file systems is 143
_EXTENSION = re.compile(rb"(?<=[^.])[.][A-Za-z0-9]{1,10}\Z")


def usable_name(name: bytes, refused: re.Pattern[bytes] | None = None) -> str:
    """A name as one path component; percent-encoded where it cannot be used unchanged.

    Args:
        name: as it is in the evidence.
        refused: bytes that are percent-encoded; those that this system refuses without it.
    """
    refused = refused or HERE
    if _PLAIN.fullmatch(name) and not refused.search(name):
        return name.decode("ascii")
    plain = name not in (b"", b".", b"..") and not refused.search(name)
    try:
        text = name.decode("utf-8")
        os.fsencode(text)
    except UnicodeError:  # not UTF-8, or not in the character set of the locale
        plain, text = False, ""
    if not plain:
        text = _percent_encoded(name, refused)
    if len(text.encode()) <= NAME_LIMIT:
        return text
    return _shortened(text, name, NAME_LIMIT)


def other_names(name: bytes) -> Iterator[str]:
    """Names for what a file system refuses by its usable one, the nearest first."""
    yield usable_name(name, WINDOWS)
    text = usable_name(name, _ASCII)
    yield text
    yield _shortened(text, name, SHORT)


def _shortened(text: str, name: bytes, limit: int) -> str:
    """A text for a name within a limit: its start, a digest of the name, its extension."""
    end = f"~{hashlib.sha256(name).hexdigest()[:12]}{extension_of(name)}"
    return cut(text, limit - len(end)) + end


def extension_of(name: bytes) -> str:
    """The extension of a name with its dot, "" where there is none of letters and digits."""
    found = _EXTENSION.search(name)
    return found[0].decode("ascii") if found else ""


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


def _percent_encoded(name: bytes, refused: re.Pattern[bytes]) -> str:
    if name in (b"", b".", b".."):
        return "%2E" * len(name) or "%00"
    escaped = name.replace(b"%", b"%25")
    escaped = refused.sub(lambda found: b"".join(b"%%%02X" % byte for byte in found[0]), escaped)
    return "".join(map(_escaped, escaped.decode("utf-8", "surrogateescape")))


def _escaped(char: str) -> str:
    """A character, or its percent-encoded bytes where names of this system cannot contain it."""
    with suppress(UnicodeEncodeError):
        if not "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8
            os.fsencode(char)
            return char
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def with_free_name(wanted: str, mark: str, make: Callable[[str], Made]) -> tuple[str, Made]:
    """(name, what `make` returned) for the first name that is free."""
    name = wanted
    for attempt in range(1000):
        try:
            return name, make(name)
        except FileExistsError:
            suffix = f"~{mark}" if attempt == 0 and mark else f"~{mark}.{attempt}"
            name = cut(wanted, NAME_LIMIT - len(suffix)) + suffix
    raise FileExistsError(errno.EEXIST, "too many files of that name", wanted)


def image_name(image: Path, taken: Container[str]) -> str:
    """The name of an image for its outputs: its file name, numbered if another image has it."""
    wanted = name = image.name or "image"
    number = 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
