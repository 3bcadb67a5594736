"""The bytes from a place on the disk onwards, as formats read them to find their own end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader

Place = Callable[[int, int], list[tuple[int, int]]]

CHUNK = 256 << 10
_EACH = 256  # bytes: what a read costs, however little it reads


class Budget:
    """How much may be read and unpacked for all files together: hostile data has no end.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self.left = size

    def spend(self, size: int) -> bool:
        """Take `size` bytes out of it; False when it is used up."""
        self.left -= size
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Stated:
    """What a format says of its own length.

    Attributes:
        size: bytes.
        proven: checksums or an end marker of its own were met there, not just a number read.
    """

    size: int
    proven: bool = False


class ContentReader:
    """Bytes of a sequence of blocks, counted from its first one.

    Args:
        reader: the blocks.
        place: gives the (first block, number of blocks) pairs of so many blocks of the content,
            from one of them on.
        count: blocks that there are.
        budget: what may be read.
        origin: bytes of the first block to leave out.

    Attributes:
        size: bytes of all the blocks; what a format says beyond it is not to be had.
        block_size: bytes a block.
        reach: bytes that are worth looking through for an end.
    """

    def __init__(
        self, reader: BlockReader, place: Place, count: int, budget: Budget, origin: int = 0
    ) -> None:
        self.reader, self.place, self.budget, self.origin = reader, place, budget, origin
        self.block_size, self._count = reader.block_size, count
        self.size = count * self.block_size - origin
        self.reach = self.size

    def behind(self, offset: int) -> ContentReader:
        """The same bytes from `offset` on."""
        window = ContentReader(
            self.reader, self.place, self._count, self.budget, self.origin + offset
        )
        window.reach = self.reach - offset
        return window

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on; fewer where blocks, or the budget, end."""
        length = min(length, self.size - offset)
        if offset < 0 or length <= 0 or not self.budget.spend(length + _EACH):
            return b""
        first, skip = divmod(self.origin + offset, self.block_size)
        wanted = -(-(skip + length) // self.block_size)
        try:
            pieces = [bytes(self.reader.read(*run)) for run in self.place(first, wanted)]
        except AccessError:
            return b""
        found = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return found[skip : skip + length]

    def chunks(self, offset: int = 0) -> Iterator[bytes]:
        """Everything from `offset` on, piece by piece."""
        while piece := self.read(offset, CHUNK):
            yield piece
            offset += len(piece)

    def number(self, offset: int, length: int, order: str = "<") -> int:
        """The unsigned number at `offset`; -1 beyond the end."""
        raw = self.read(offset, length)
        if len(raw) < length:
            return -1
        return int.from_bytes(raw, "little" if order == "<" else "big")

    def find(self, wanted: bytes, offset: int = 0) -> Iterator[int]:
        """Where `wanted` stands, from `offset` on, as far as `reach`; ascending."""
        kept = b""
        for piece in self.chunks(offset):
            text = kept + piece
            at = text.find(wanted)
            while at >= 0:
                yield offset - len(kept) + at
                at = text.find(wanted, at + 1)
            offset += len(piece)
            if offset > self.reach:
                break
            kept = text[1 - len(wanted) :] if len(wanted) > 1 else b""

    def zeros_behind(self, size: int) -> bool:
        """The block in which byte `size` stands holds nothing but zeros from there on."""
        rest = -(self.origin + size) % self.block_size
        return size <= self.size and not self.read(size, rest).strip(b"\0")
