"""Reader for the bytes of a possible file, from which its format computes the length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader

Place = Callable[[int, int], list[tuple[int, int]]]

CHUNK = 256 << 10
_EACH = 256  # bytes; the minimum cost of a read
CHEAPER = 2  # power of two; decompressing 2 ** this many bytes costs as much as reading one byte


class Budget:
    """A limit for reads and decompression of all files together, as hostile data may be endless.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self.left = size

    def spend(self, size: int) -> bool:
        """Deduct `size` bytes; False if the budget is exhausted."""
        self.left -= size
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Stated:
    """The length of a file according to its format.

    Attributes:
        size: bytes.
        proven: whether checksums or an end mark confirm the length; else it is only a number in the
            file.
        open_ended: whether the length is only where the sequence of parts of the file stops.
    """

    size: int
    proven: bool = False
    open_ended: bool = False


class ContentReader:
    """The bytes of a sequence of blocks that may be a file.

    Args:
        reader: the blocks.
        place: function of an index and a number of blocks of the content; it returns (first block,
            number of blocks) pairs.
        count: number of blocks.
        budget: limit for reads.
        origin: bytes to omit at the start of the first block.

    Attributes:
        size: bytes of all blocks; the format may state a larger size.
        block_size: bytes per block.
        reach: number of bytes that are searched for an end.
        searched: number of bytes at the start that are known to have no end and are not searched.
        fell_short: whether a read requested more bytes than there are.
    """

    def __init__(
        self, reader: BlockReader, place: Place, count: int, budget: Budget, origin: int = 0
    ) -> None:
        self.reader, self.place, self.budget, self.origin = reader, place, budget, origin
        self.block_size, self._count = reader.block_size, count
        self.size = count * self.block_size - origin
        self.reach = self.size
        self.searched = 0
        self.fell_short = False

    def behind(self, offset: int) -> ContentReader:
        """The same bytes from `offset` on."""
        window = ContentReader(
            self.reader, self.place, self._count, self.budget, self.origin + offset
        )
        window.reach = self.reach - offset
        window.searched = max(self.searched - offset, 0)
        return window

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on; fewer if the blocks or the budget end."""
        self.fell_short |= offset + length > self.size
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
        """All bytes from `offset` on, in pieces."""
        while piece := self.read(offset, CHUNK):
            yield piece
            offset += len(piece)

    def number(self, offset: int, length: int, order: str = "<") -> int:
        """The unsigned number at `offset`; -1 if it is beyond the end."""
        raw = self.read(offset, length)
        if len(raw) < length:
            return -1
        return int.from_bytes(raw, "little" if order == "<" else "big")

    def find(self, wanted: bytes, offset: int = 0) -> Iterator[int]:
        """Offsets of `wanted` from `offset` up to `reach`, ascending."""
        kept, offset = b"", max(offset, self.searched - len(wanted))
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
        """Whether all bytes from byte `size` to the end of its block are zero."""
        rest = -(self.origin + size) % self.block_size
        return size <= self.size and not self.read(size, rest).strip(b"\0")
