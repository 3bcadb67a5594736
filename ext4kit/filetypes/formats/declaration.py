"""What is declared of a format; all tables are derived from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ext4kit.filetypes.formats.reader import ContentReader, Stated

HEAD = 8  # bytes at the start of a block that are always compared
Check = Callable[[ContentReader, int], bool | None]  # None: it cannot be told


@dataclass(frozen=True, slots=True)
class Start:
    """The first bytes of a file.

    Attributes:
        magic: the bytes; at most `HEAD`.
        any_at: positions within `magic` that may have any value.
    """

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


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files that are carved.

    Attributes:
        name: short and unique.
        starts: first bytes, of which one is enough.
        inside: other places of a magic: each is (offset, bytes there) of all its parts.
        magic_at: bytes from the start of the file to the block that has its magic.
        length: what the format says of the size; None where it says nothing.
        check: whether checksums within a file of that size hold; None where there are none.
        kind: extension and MIME type, or a function that gives both from the first bytes; None
            where puremagic knows better.
        is_text: whether it is text with this extension.
        character_bytes: of a character, whose zeros may end a text.
        repeats: whether blocks within such a file begin like the file.
        has_members: whether it is followed from member to member, each of which begins like it.
        names: extensions of file names, separated by spaces, under which it is expected when
            deleted names are matched with carved contents; no other format may have them.
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
        """The first bytes."""
        return tuple(Start(one) if isinstance(one, bytes) else one for one in self.starts)
