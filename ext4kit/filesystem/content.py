"""The content of a file: runs, holes, unwritten extents and inline data as one stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError

if TYPE_CHECKING:
    from ext4kit.filesystem.block_maps import Runs
    from ext4kit.filesystem.blocks import BlockReader

CHUNK_BYTES = 4 << 20
OUTSIDE = "the range lies beyond the end of the evidence"
OVERFULL = "the block map names more blocks than the evidence holds"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file, by offset.

    Attributes:
        data: the bytes; None for zeros that are not stored (holes, unwritten extents).
        lost: why the bytes could not be read, if a read failed; `data` is None then.
    """

    offset: int
    length: int
    data: memoryview | bytes | None
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file, streamed in chunks of at most 4 MiB."""

    blocks: BlockReader
    size: int
    runs: Runs | None = None
    inline: bytes = b""

    @property
    def stored(self) -> int:
        """Number of stored bytes, without holes and unwritten extents."""
        if self.runs is None:
            return min(len(self.inline), self.size)
        return sum(length for _, length, place in self.segments() if place is not None)

    @property
    def is_overfull(self) -> bool:
        """Whether the map exceeds the evidence: blocks mapped twice, or beyond its end."""
        return self.stored > self.blocks.blocks_count * self.blocks.block_size

    def chunks(self) -> Iterator[Chunk]:
        """Every byte up to the size, in order; each hole is one chunk.

        No more is read than the evidence holds; mapped bytes beyond that are reported as lost.
        """
        if self.runs is None:
            yield from self._inline_chunks()
            return
        if len(self.runs) == 1 and (whole := self._single_run_chunk(self.runs)) is not None:
            yield whole
            return
        position, end = 0, self.blocks.blocks_count * self.blocks.block_size
        left = end
        for start, length, place in self.segments():
            if start > position:
                yield Chunk(position, start - position, None)
            if place is None:
                yield Chunk(start, length, None)
            else:
                held = min(length, max(end - place, 0))
                kept = min(held, left)
                yield from self.stored_chunks(start, kept, place)
                if kept < length:
                    reason = OUTSIDE if kept == held else OVERFULL
                    yield Chunk(start + kept, length - kept, None, reason)
                left -= kept
            position = start + length
        if position < self.size:
            yield Chunk(position, self.size - position, None)

    def _single_run_chunk(self, run: Runs) -> Chunk | None:
        """The whole content of a small file in one run, the common case; None for any other."""
        first, size, block_size = int(run.physical[0]), self.size, self.blocks.block_size
        count = -(-size // block_size)
        if run.logical[0] or run.unwritten[0] or not 0 < count <= run.length[0]:
            return None
        if size > CHUNK_BYTES or first + count > self.blocks.blocks_count:
            return None
        try:
            return Chunk(0, size, self.blocks.read(first, count)[:size])
        except AccessError:
            return None

    def segments(self) -> Iterator[tuple[int, int, int | None]]:
        """(offset, length, byte offset in the file system or None if unwritten) of each run."""
        if self.runs is None:
            return
        size, runs, end = self.blocks.block_size, self.runs, 0
        columns = (runs.logical, runs.length, runs.physical, runs.unwritten)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for logical, count, physical, unwritten in rows:
            start = max(logical * size, end)  # overlapping runs: the first one counts
            end = min((logical + count) * size, self.size)
            if end <= start:
                end = max(end, start)
                continue
            place = physical * size + start - logical * size
            yield start, end - start, None if unwritten else place

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, truncated at the size.

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

    def stored_chunks(
        self, start: int, length: int, place: int, most: int = CHUNK_BYTES
    ) -> Iterator[Chunk]:
        """Chunks of a range of the file at byte `place` of the file system.

        After a failed read the blocks are read one at a time, so that only bad ones are lost.
        """
        size = self.blocks.block_size
        while length:
            block, skip = divmod(place, size)
            part = min(length, most - skip)
            count = -(-(skip + part) // size)
            try:
                yield Chunk(start, part, self.blocks.read(block, count)[skip : skip + part])
            except AccessError as error:
                if most == size:
                    yield Chunk(start, part, None, str(error))
                else:
                    yield from self.stored_chunks(start, part, place, size)
            start, place, length = start + part, place + part, length - part
