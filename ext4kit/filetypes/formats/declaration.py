"""The declaration of a format, from which all tables are derived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ext4kit.filetypes.formats.reader import ContentReader, Stated

HEAD = 8  # bytes at the start of a block that are always compared
Check = Callable[[ContentReader, int], bool | None]  # None if this is unknown


@dataclass(frozen=True, slots=True)
class Start:
    """The first bytes of a file.

    Attributes:
        magic: the bytes; at most `HEAD`.
        any_at: positions within `magic` at which any value is allowed.
    """

    magic: bytes
    any_at: tuple[int, ...] = ()

    @property
    def value(self) -> int:
        """The magic as a little-endian number, with 0 at positions where any value is allowed."""
        kept = bytes(0 if at in self.any_at else byte for at, byte in enumerate(self.magic))
        return int.from_bytes(kept, "little")

    @property
    def mask(self) -> int:
        """The bits of the first 8 bytes that are compared."""
        kept = bytes(0 if at in self.any_at else 255 for at in range(len(self.magic)))
        return int.from_bytes(kept, "little")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files that can be carved.

    Attributes:
        name: short and unique name of the format.
        starts: possible first bytes of a file; one of them must match.
        inside: magics at other places, each a list of (offset, bytes) pairs that must all match.
        magic_at: bytes from the start of the file to the block with the magic.
        length: function that finds the size that the format states; None if it states none.
        check: function that tests the checksums within a file of that size; None if there are none.
        kind: extension and MIME type, or a function that finds both from the first bytes; None if
            puremagic identifies the type better.
        is_text: whether files of the format are text with the extension in `kind`.
        character_bytes: bytes per character; zeros in the last character may be part of the text.
        repeats: whether blocks inside a file may begin like the start of the file.
        has_members: whether a file consists of members, each of which begins like the file.
        names: extensions of file names, separated by spaces, for which this format is expected when
            deleted names are matched with carved contents; no two formats may have the same
            extension.
    """

    name: str
    starts: tuple[bytes | Start, ...] = ()
    inside: tuple[tuple[tuple[int, bytes], ...], ...] = ()
    magic_at: int = 0
    length: Callable[[ContentReader], Stated | None] | None = None
    check: Check | None = None
    kind: tuple[str, str] | Callable[[bytes], tuple[str, str]] | None = None
    is_text: bool = False
    character_bytes: int = 1
    repeats: bool = False
    has_members: bool = False
    names: str = ""

    @property
    def magics(self) -> tuple[Start, ...]:
        """All declared starts of a file."""
        return tuple(Start(one) if isinstance(one, bytes) else one for one in self.starts)
