"""One stream of bytes from many places of a volume, with a map back to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import OUTSIDE, OVERFULL, Chunk, Content
from ext4kit.output.pouring import write_all
from ext4kit.output.stream import DescriptorWriter

COLUMNS = ("offset", "image_offset", "block", "length", "what")


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive bytes of a stream.

    Attributes:
        length: bytes.
        what: what they are, for the map.
        place: byte in the volume from which the reader has them; None for zeros.
        stored: byte in the volume where they are, for the map; None where they have no place.
        data: the bytes, where no reader has them.
    """

    length: int
    what: str
    place: int | None = None
    stored: int | None = None
    data: bytes = b""


class MappedStream:
    """Writes pieces one after the other, and a line of the map for each.

    The map is a table with tabs: offset in the stream, byte in the image and block (both empty
    where there is no place), length in bytes, what it is. Unreadable bytes are zeros in the stream
    and have lines of their own.

    Args:
        fd: an open descriptor.
        blocks: reader of the volume.
        table: gets the map; None for none.
        start: byte at which the volume starts in the image.

    Attributes:
        pieces: number of pieces written.
        size: bytes written.
    """

    def __init__(self, fd: int, blocks: BlockReader, table: TextIO | None, start: int) -> None:
        self._writer = DescriptorWriter(fd)
        self._content = Content(blocks, 0)
        self._end = blocks.blocks_count * blocks.block_size
        self._left = self._end  # bytes of the volume that are still written: each one once
        self._table, self._start = table, start
        self.pieces, self.size = 0, 0
        if table is not None:
            table.write("\t".join(COLUMNS) + "\n")

    def write(self, pieces: Iterable[Piece]) -> Iterator[Chunk]:
        """Write all pieces; yields what could not be read, by its offset in the stream.

        Raises:
            OSError: the descriptor cannot be written.
        """
        for piece in pieces:
            lost = []
            for chunk in self._write(piece):
                lost.append((chunk.offset, chunk.length, chunk.lost))
                yield chunk
            self._tell(piece, lost)
            self.pieces += 1
            self.size += piece.length
        self._writer.close()

    def _write(self, piece: Piece) -> Iterator[Chunk]:
        if piece.data:
            write_all(self._writer.fd, piece.data)
        elif piece.place is None:
            self._writer.write_zeros(piece.length)
        else:
            held = min(piece.length, max(self._end - piece.place, 0))
            kept = min(held, self._left)
            yield from self._writer.write_stored(self._content, self.size, kept, piece.place)
            self._left -= kept
            if rest := piece.length - kept:
                self._writer.write_zeros(rest)
                reason = OUTSIDE if kept == held else OVERFULL
                yield Chunk(self.size + kept, rest, None, reason)

    def _tell(self, piece: Piece, lost: list[tuple[int, int, str]]) -> None:
        """Lines of the map for a piece: what was read, and what was not."""
        at, end = self.size, self.size + piece.length
        for offset, length, why in [*lost, (end, 0, "")]:
            self._line(piece, at, offset - at, piece.what)
            self._line(piece, offset, length, f"{piece.what}, unreadable: {why}")
            at = offset + length

    def _line(self, piece: Piece, offset: int, length: int, what: str) -> None:
        if not length or self._table is None:
            return
        place, block = "", ""
        if piece.stored is not None:
            byte = piece.stored + offset - self.size
            place, block = str(self._start + byte), str(byte // self._content.blocks.block_size)
        clean = what.replace("\t", " ").replace("\n", " ")
        self._table.write(f"{offset}\t{place}\t{block}\t{length}\t{clean}\n")
