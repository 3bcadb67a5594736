"""The exception tree: one root, four meanings, each a single line for the user."""

from __future__ import annotations


class Ext4kitError(Exception):
    """Root of everything that ext4kit raises on purpose."""


class RequestError(Ext4kitError):
    """The caller asked for something that does not fit the evidence or the options."""


class AccessError(Ext4kitError):
    """The operating system refused or failed: evidence that cannot be opened or read."""


class OutputError(AccessError):
    """A result could not be written where the user asked for it."""


class UnsupportedError(Ext4kitError):
    """The bytes are understood well enough to know that this program cannot read them."""


class CorruptError(Ext4kitError):
    """A structure on disk contradicts its own format.

    Attributes:
        structure: the structure's name in the field's terms ("superblock", "extent header").
        offset: byte offset of the structure in what was parsed, or None when it has none.
        reason: what is wrong, in words.
    """

    def __init__(self, structure: str, offset: int | None, reason: str) -> None:
        self.structure = structure
        self.offset = offset
        self.reason = reason
        where = "" if offset is None else f" at byte {offset:,}"
        super().__init__(f"{structure}{where}: {reason}")
