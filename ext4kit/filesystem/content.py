"""The content of a file: runs, holes, unwritten extents and inline data as one stream."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError
from ext4kit.grades import Grade
from ext4kit.reasons import Reason

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from ext4kit.filesystem.block_maps import Runs
    from ext4kit.filesystem.blocks import BlockReader

CHUNK_BYTES = 4 << 20
HEAD_BYTES = 64 << 10  # bytes of a file from which its type is determined
OUTSIDE = "the range lies beyond the end of the evidence"
OVERFULL = "the block map names more blocks than the evidence holds"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file, by offset.

    Attributes:
        data: the bytes; None for zeros that are not stored (holes, unwritten extents).
        lost: if a read failed, why; `data` is then None.
    """

    offset: int
    length: int
    data: memoryview | bytes | None
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file, streamed in chunks of at most 4 MiB.

    Attributes:
        blocks: reader of its blocks.
        size: bytes.
        runs: its blocks; None if it has none.
        inline: its bytes, without blocks.
        skip: bytes of its first block that do not belong to it.
    """

    blocks: BlockReader
    size: int
    runs: Runs | None = None
    inline: bytes = b""
    skip: int = 0

    @property
    def stored(self) -> int:
        """Number of stored bytes, without holes and unwritten extents."""
        if self.runs is None:
            return min(len(self.inline), self.size)
        return sum(length for _, length, place in self.segments() if place is not None)

    @property
    def stored_end(self) -> int:
        """End of the last stored byte, also an unwritten one; a damaged size can be far behind."""
        if self.runs is None:
            return min(len(self.inline), self.size)
        return max((start + length for start, length, _ in self.segments()), default=0)

    @property
    def is_overfull(self) -> bool:
        """Whether the map exceeds the evidence: it repeats blocks, or has blocks beyond the end."""
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
        """The whole content of a small file that is one run (the common case), else None."""
        first, size, block_size = int(run.physical[0]), self.size, self.blocks.block_size
        count = -(-size // block_size)
        if run.logical[0] or run.unwritten[0] or not 0 < count <= run.length[0] or self.skip:
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
            first = logical * size - self.skip
            start = max(first, end)  # overlapping runs: the first one counts
            end = min(first + count * size, self.size)
            if end <= start:
                end = max(end, start)
                continue
            place = physical * size + start - first
            yield start, end - start, None if unwritten else place

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, truncated at the size.

        Raises:
            AccessError: a part could not be read.
        """
        stream = self.open()
        stream.seek(offset)
        return stream.read(max(min(offset + length, self.size) - offset, 0))

    def head(self) -> bytes:
        """The first bytes, which determine the type; b"" if they cannot be read."""
        try:
            return self.read(0, HEAD_BYTES)
        except AccessError:
            return b""

    def open(self) -> io.BufferedReader:
        """A seekable binary file object, which reads only the blocks that it needs.

        A read raises AccessError at unreadable bytes.
        """
        return io.BufferedReader(ContentStream(self))

    def _inline_chunks(self) -> Iterator[Chunk]:
        data = self.inline[: self.size]
        if data:
            yield Chunk(0, len(data), data)
        if self.size > len(data):
            yield Chunk(len(data), self.size - len(data), None)

    def stored_chunks(
        self, start: int, length: int, place: int, most: int = CHUNK_BYTES
    ) -> Iterator[Chunk]:
        """Chunks of a range of the file that is stored at byte `place` of the file system.

        After a failed read, the blocks are read one at a time, so that only unreadable blocks are
        lost.
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


class ContentStream(io.RawIOBase):
    """Read-only, seekable stream of the content of a file, with zeros in holes.

    Only the blocks that hold the requested bytes are read. A read ends before the first unreadable
    byte; a read that begins there raises AccessError.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._segments = list(content.segments())
        self._starts = [start for start, _, _ in self._segments]
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position, in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set and return the position, which may be beyond the end, as in any file."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._content.size}
        if whence not in base or base[whence] + offset < 0:
            raise ValueError(f"no such position: {offset} ({whence})")
        self._position = base[whence] + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer from the position, with at most 4 MiB, and return the number of bytes."""
        left = max(self._content.size - self._position, 0)
        view = memoryview(buffer).cast("B")[: min(left, CHUNK_BYTES)]
        start, filled = self._position, len(view)
        view[:] = bytes(filled)
        for chunk in self._stored_chunks(start, start + filled):
            if chunk.data is None:
                if chunk.offset == start:
                    raise AccessError(chunk.lost)
                filled = chunk.offset - start
                break
            view[chunk.offset - start :][: chunk.length] = chunk.data
        self._position += filled
        return filled

    def _stored_chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """The stored and the lost parts of a range."""
        blocks, inline = self._content.blocks, self._content.inline[start:end]
        if self._content.runs is None and inline:
            yield Chunk(start, len(inline), inline)
        last_byte = blocks.blocks_count * blocks.block_size
        for row in range(max(bisect_right(self._starts, start) - 1, 0), len(self._starts)):
            offset, length, place = self._segments[row]
            first, last = max(offset, start), min(offset + length, end)
            if offset >= end:
                break
            if place is None or last <= first:
                continue
            place += first - offset
            held = min(last - first, max(last_byte - place, 0))
            yield from self._content.stored_chunks(first, held, place)
            if first + held < last:
                yield Chunk(first + held, last - first - held, None, OUTSIDE)


@dataclass(frozen=True, slots=True)
class GradedContent:
    """The content of a file as of an earlier moment, and how far it can be trusted.

    Attributes:
        content: parts that are lost read as zeros.
        grade: of the content.
        reasons: why it is not intact, and notes on it.
        lost: (offset, length) of the parts that are lost, in bytes.
    """

    content: Content
    grade: Grade
    reasons: tuple[Reason, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
