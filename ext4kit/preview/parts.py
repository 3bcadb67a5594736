"""The bytes of a node by range, with what each range is: stored, a hole, unwritten or lost.

Only the requested range is read, whatever the size of the file and the number of its runs.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ext4kit.errors import NotFoundError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.content import OUTSIDE, Content
from ext4kit.filesystem.view import Node
from ext4kit.search.packed_streams import NotUnpackedError
from ext4kit.views.records import lost_ranges

HEAD_BYTES = 4 << 10  # bytes that tell what a file is


class PartState(StrEnum):
    """What a range of a file is."""

    STORED = "stored"
    INLINE = "inline"  # in the inode
    HOLE = "hole"
    UNWRITTEN = "unwritten"  # allocated, never written
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A range of a file.

    Attributes:
        offset, length: bytes in the file.
        state: what it is.
        data: the bytes, if they are stored.
        place: byte in the file system, of stored bytes and of unwritten blocks; else None.
        reason: why it is lost.
    """

    offset: int
    length: int
    state: PartState
    data: bytes | memoryview = b""
    place: int | None = None
    reason: str = ""

    @property
    def end(self) -> int:
        """First byte after it."""
        return self.offset + self.length


class NodeContent:
    """The content of a node.

    Args:
        node: a file.

    Attributes:
        content: the bytes, with holes where they are lost.
        lost_ranges: (offset, length, why) of what is known to be lost, by offset.

    Raises:
        Ext4kitError: its map cannot be read, or nothing is left of it.
    """

    def __init__(self, node: Node) -> None:
        content = node.content()
        if content is None:
            raise NotFoundError(node.path, "no content is left")
        self.content: Content = content
        self.lost_ranges = lost_ranges(node)
        self._starts = [start for start, _, _ in self.lost_ranges]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.content.size

    @property
    def block_size(self) -> int:
        """Bytes per block."""
        return self.content.blocks.block_size

    def parts(self, start: int, end: int) -> Iterator[ContentPart]:
        """The parts of a range, in order.

        Parts without bytes are not cut at the end of the range: a hole is told as a whole from
        `start` on.

        Args:
            start: first byte.
            end: byte after the last one that is read.
        """
        start, end = max(start, 0), min(end, self.size)
        if start >= end:
            return
        if self.content.runs is None:
            yield from self._inline(start, end)
            return
        position = start
        for part in self._mapped(start, end):
            if part.offset > position:
                yield from self._unstored(position, part.offset)
            yield part
            position = part.end
        if position < end:
            yield from self._unstored(position, self._next_run(end))

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range, with zeros in holes and lost parts; truncated at the end."""
        end = min(offset + length, self.size)
        data = bytearray(max(end - offset, 0))
        for part in self.parts(offset, end):
            if part.data:
                data[part.offset - offset : part.end - offset] = part.data
        return bytes(data)

    def lost_bytes(self) -> int:
        """Number of bytes that are known to be lost, without reading them."""
        return sum(length for _, length, _ in self.lost_ranges)

    def head(self) -> bytes:
        """The first bytes, which tell what the file is."""
        return self.read(0, HEAD_BYTES)

    def file(self, most: int) -> BoundedFile:
        """The content as a file object; reading more than `most` bytes in total is refused."""
        return BoundedFile(self, most)

    def _inline(self, start: int, end: int) -> Iterator[ContentPart]:
        data = self.content.inline[start:end]
        if data:
            yield ContentPart(start, len(data), PartState.INLINE, data)
        if start + len(data) < end:
            yield from self._unstored(start + len(data), self.size)

    def _mapped(self, start: int, end: int) -> Iterator[ContentPart]:
        """What the runs of a range hold."""
        content = replace(self.content, runs=self._runs_in(start, end))
        held = content.blocks.blocks_count * content.blocks.block_size
        for offset, length, place in content.segments():
            skip = max(start - offset, 0)
            offset, length = offset + skip, length - skip
            if place is None:
                first = self._unwritten_place(content, offset)
                yield ContentPart(offset, length, PartState.UNWRITTEN, place=first)
                continue
            place += skip
            length = min(length, end - offset)
            inside = min(length, max(held - place, 0))
            for chunk in content.stored_chunks(offset, inside, place):
                at = place + chunk.offset - offset
                if chunk.data is None:
                    yield ContentPart(
                        chunk.offset, chunk.length, PartState.LOST, b"", at, chunk.lost
                    )
                else:
                    yield ContentPart(chunk.offset, chunk.length, PartState.STORED, chunk.data, at)
            if inside < length:
                at = place + inside
                yield ContentPart(
                    offset + inside, length - inside, PartState.LOST, b"", at, OUTSIDE
                )

    def _unwritten_place(self, content: Content, offset: int) -> int | None:
        """The byte in the file system at which an unwritten part begins."""
        runs, size = content.runs, self.block_size
        assert runs is not None
        block = offset // size
        rows = runs.unwritten & (runs.logical <= block) & (block < runs.logical + runs.length)
        found = (runs.physical + block - runs.logical)[rows].tolist()
        return found[0] * size + offset % size if found else None

    def _runs_in(self, start: int, end: int) -> Runs:
        """The runs that have bytes of a range."""
        runs, size = self.content.runs, self.block_size
        assert runs is not None
        first = runs.logical * size
        return runs.take((first < end) & (first + runs.length * size > start))

    def _next_run(self, end: int) -> int:
        """The first byte from `end` on that a run has; the size if there is none."""
        runs, size = self.content.runs, self.block_size
        assert runs is not None
        first = runs.logical * size
        return int(first[(first >= end) & (first < self.size)].min(initial=self.size))

    def _unstored(self, start: int, end: int) -> Iterator[ContentPart]:
        """The parts of a range that no run has: holes, and parts that are known to be lost."""
        for offset, length, why in self.lost_ranges[
            max(bisect_right(self._starts, start) - 1, 0) :
        ]:
            if offset >= end:
                break
            first, last = max(offset, start), min(offset + length, end)
            if last <= first:
                continue
            if first > start:
                yield ContentPart(start, first - start, PartState.HOLE)
            yield ContentPart(first, last - first, PartState.LOST, reason=why)
            start = last
        if start < end:
            yield ContentPart(start, end - start, PartState.HOLE)


class BoundedFile(io.RawIOBase):
    """A seekable, read-only file of which no more than some bytes are read.

    Zeros stand for what is lost.

    Args:
        held: the content.
        most: bytes of all reads together.
    """

    def __init__(self, held: NodeContent, most: int) -> None:
        self._held, self._left, self._most, self._at = held, most, most, 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set and return the position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._held.size}[whence]
        if base + offset < 0:
            raise OSError(f"no such position: {offset}")
        self._at = base + offset
        return self._at

    def skip(self, size: int) -> None:
        """Pass over bytes without reading them."""
        self._at += size

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes from the position on.

        Raises:
            NotUnpackedError: the limit is reached.
        """
        wanted = max(self._held.size - self._at, 0)
        wanted = wanted if size < 0 else min(size, wanted)
        if wanted > self._left:
            raise NotUnpackedError(f"only {self._most:,} bytes of it are read here")
        self._left -= wanted
        data = self._held.read(self._at, wanted)
        self._at += len(data)
        return data


def read_error(error: Exception) -> str:
    """An error as one line."""
    return " ".join(str(error).split()) or type(error).__name__
