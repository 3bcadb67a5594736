"""What a search found, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node
from ext4kit.search.patterns import Pattern

CONTEXT = 32  # bytes on each side


class Area(StrEnum):
    """Where a hit stands."""

    LIVE = "live"
    DELETED = "deleted"
    EARLIER = "earlier"
    SLACK = "slack"
    UNALLOCATED = "unallocated"
    JOURNAL = "journal"
    METADATA = "metadata"


class Span(NamedTuple):
    """Bytes around a hit: before it, its own, after it."""

    before: bytes
    own: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Hit:
    """One match of a pattern.

    Attributes:
        pattern: the pattern.
        area: where it stands.
        blocks: reads the volume.
        start: byte in the volume; None where the bytes are not stored in blocks of their own, or
            not in one piece.
        length: bytes.
        node: the file; in slack the file whose last block it is.
        offset: byte in the file; in slack beyond its size.
        is_broken: it stands across the border of two strangers' blocks: no file has it so.
    """

    pattern: Pattern
    area: Area
    blocks: BlockReader
    start: int | None
    length: int
    node: Node | None = None
    offset: int | None = None
    is_broken: bool = False

    @property
    def block(self) -> int | None:
        """The block in which it starts."""
        return None if self.start is None else self.start // self.blocks.block_size

    def around(self, context: int = CONTEXT) -> Span:
        """The matched bytes and some on each side; empty where they cannot be read."""
        in_file = self.node is not None and self.area is not Area.SLACK and not self.is_broken
        content = _content_of(self.node) if in_file and self.node else None
        start = self.start if content is None else self.offset
        if start is None:
            return Span(b"", b"", b"")
        low = max(start - context, 0)
        read = self._raw if content is None else content.read
        try:
            data = read(low, start - low + self.length + context)
        except AccessError:
            return Span(b"", b"", b"")
        own = start - low
        return Span(data[:own], data[own : own + self.length], data[own + self.length :])

    def _raw(self, start: int, length: int) -> bytes:
        size = self.blocks.block_size
        first, skip = divmod(start, size)
        end = min(-(-(start + length) // size), self.blocks.blocks_count)
        return bytes(self.blocks.read(first, max(end - first, 1)))[skip : skip + length]


def _content_of(node: Node) -> Content | None:
    """The content of a file; None where it cannot be read."""
    try:
        return node.content()
    except (AccessError, CorruptError):
        return None
