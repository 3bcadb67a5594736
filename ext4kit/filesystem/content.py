"""The bytes of a file: runs, holes, unwritten extents and inline data as one stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError

if TYPE_CHECKING:
    from ext4kit.filesystem.blocks import BlockReader
    from ext4kit.filesystem.maps import Runs

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file in order of offset.

    Attributes:
        data: the bytes; None for zeros that take no space (holes, unwritten extents).
        lost: why the bytes could not be read, when they could not; `data` is None then.
    """

    offset: int
    length: int
    data: memoryview | bytes | None
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, streamed in pieces of at most 4 MiB."""

    blocks: BlockReader
    size: int
    runs: Runs | None = None
    inline: bytes = b""

    def chunks(self) -> Iterator[Chunk]:
        """Every byte up to the size, in order, holes as one chunk each."""
        if self.runs is None:
            yield from self._inline_chunks()
            return
        position = 0
        for start, length, data in self.segments():
            if start > position:
                yield Chunk(position, start - position, None)
            if data is None:
                yield Chunk(start, length, None)
            else:
                yield from self._read_chunks(start, length, data)
            position = start + length
        if position < self.size:
            yield Chunk(position, self.size - position, None)

    def segments(self) -> Iterator[tuple[int, int, int | None]]:
        """(offset, length, byte place in the file system or None when unwritten) of each run."""
        if self.runs is None:
            return
        size, runs, end = self.blocks.block_size, self.runs, 0
        columns = zip(
            runs.logical.tolist(),
            runs.length.tolist(),
            runs.physical.tolist(),
            runs.unwritten.tolist(),
            strict=True,
        )
        for logical, count, physical, unwritten in columns:
            start = max(logical * size, end)  # overlapping runs: the first one counts
            end = min((logical + count) * size, self.size)
            if end <= start:
                end = max(end, start)
                continue
            place = physical * size + start - logical * size
            yield start, end - start, None if unwritten else place

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, cut at the size.

        Raises:
            AccessError: a part could not be read.
        """
        end = min(offset + length, self.size)
        out = bytearray(max(end - offset, 0))
        for chunk in self.chunks():
            if chunk.lost:
                raise AccessError(chunk.lost)
            first, last = max(chunk.offset, offset), min(chunk.offset + chunk.length, end)
            if chunk.data is not None and last > first:
                piece = chunk.data[first - chunk.offset : last - chunk.offset]
                out[first - offset : last - offset] = piece
            if chunk.offset + chunk.length >= end:
                break
        return bytes(out)

    def _inline_chunks(self) -> Iterator[Chunk]:
        data = self.inline[: self.size]
        if data:
            yield Chunk(0, len(data), data)
        if self.size > len(data):
            yield Chunk(len(data), self.size - len(data), None)

    def _read_chunks(self, start: int, length: int, place: int) -> Iterator[Chunk]:
        size = self.blocks.block_size
        while length:
            block, skip = divmod(place, size)
            part = min(length, CHUNK_BYTES - skip)
            count = -(-(skip + part) // size)
            try:
                yield Chunk(start, part, self.blocks.read(block, count)[skip : skip + part])
            except AccessError as error:
                yield from self._by_block(start, part, place, str(error))
            start, place, length = start + part, place + part, length - part

    def _by_block(self, start: int, length: int, place: int, reason: str) -> Iterator[Chunk]:
        """After a failed read: the blocks one at a time, so that only bad ones are lost."""
        size = self.blocks.block_size
        while length:
            block, skip = divmod(place, size)
            part = min(length, size - skip)
            if block >= self.blocks.blocks_count:
                yield Chunk(start, length, None, reason)
                return
            try:
                yield Chunk(start, part, self.blocks.read(block)[skip : skip + part])
            except AccessError as error:
                yield Chunk(start, part, None, str(error))
            start, place, length = start + part, place + part, length - part
