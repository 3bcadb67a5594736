"""The exceptions of ext4kit; each has a message of one line for the user."""

from __future__ import annotations

import errno
import re

# Names with blanks at an end, which would be overlooked, and texts that look already quoted.
_UNCLEAR = re.compile(r"^\s|\s$|\s/|/\s|^\".*\"$", re.DOTALL)


def quoted(text: str) -> str:
    """A name or path for people, in quotation marks if a name in it begins or ends with a blank.

    >>> quoted("/var/lib/... ")
    '"/var/lib/... "'
    """
    return f'"{text}"' if _UNCLEAR.search(text) else text


def path_text(path: bytes) -> str:
    """A path in the message of an error."""
    return quoted(path.decode("utf-8", "backslashreplace"))


class Ext4kitError(Exception):
    """Root of all exceptions that ext4kit raises on purpose."""


class RequestError(Ext4kitError):
    """The caller's request does not match the evidence or the options."""


class NotFoundError(RequestError):
    """There is nothing at a path.

    Attributes:
        path: the path as requested.
    """

    def __init__(self, path: bytes, text: str = "no such file or directory in the image") -> None:
        self.path = path
        super().__init__(f"{path_text(path)}: {text}")


class AccessError(Ext4kitError):
    """The operating system refused or failed, so evidence cannot be opened or read."""


class OutputError(AccessError):
    """A result could not be written to the requested place."""


class UnsupportedError(Ext4kitError):
    """The bytes were recognised as a format or feature that this program cannot read."""


class CorruptError(Ext4kitError):
    """A structure on disk contradicts its own format.

    Attributes:
        structure: name of the structure in ext4 terms ("superblock", "extent header").
        offset: byte offset of the structure in the parsed bytes, or None when it has none.
        reason: the contradiction, as text.
    """

    def __init__(self, structure: str, offset: int | None, reason: str) -> None:
        self.structure = structure
        self.offset = offset
        self.reason = reason
        where = "" if offset is None else f" at byte {offset:,}"
        super().__init__(f"{structure}{where}: {reason}")


def write_advice(error: OSError) -> str:
    """What to do about an error of writing, as the end of a message."""
    is_full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return "free some space" if is_full else "choose another folder"
