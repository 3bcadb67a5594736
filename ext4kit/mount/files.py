"""Opened files of a mount: exact bytes of a range, or the place of the range in an open file."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterable
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary

from ext4kit.errors import AccessError
from ext4kit.evidence.source import fileno_range
from ext4kit.filesystem.blocks import SourceBlocks
from ext4kit.filesystem.content import Content, ContentStream
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.filesystem.live_view import LiveNode
from ext4kit.filesystem.view import Node
from ext4kit.mount.documents import DocumentNode
from ext4kit.mount.live_files import KnownMap
from ext4kit.views.records import lost_ranges

Place = tuple[int, int, int]  # (file descriptor, offset in that file, bytes)


class OpenFile(Protocol):
    """A file that was opened in the mount."""

    def place(self, offset: int, size: int) -> Place | None:
        """Where a range is in an open file; None if it must be read."""
        ...

    def read(self, offset: int, size: int) -> bytes | bytearray:
        """The bytes of a range, truncated at the end of the file.

        Raises:
            AccessError: a byte of the range is lost or cannot be read.
        """
        ...

    def seek(self, offset: int, is_hole: bool) -> int | None:
        """Where the next hole, or the next data, begins at or after an offset; None for none."""
        ...


class OpenContent:
    """The content of a node.

    Args:
        content: the content.
        lost: (offset, length) of ranges that are lost; reading one fails.
    """

    _stream: ContentStream | None

    def __init__(self, content: Content, lost: Iterable[tuple[int, int]] = ()) -> None:
        self._content, self._stream = content, None
        self._segments = list(content.segments())
        self._starts = [start for start, _, _ in self._segments]
        self._lost = [(offset, offset + length) for offset, length in lost]
        self._lock = Lock()

    def place(self, offset: int, size: int) -> Place | None:
        """Where a range within one run is in the image."""
        blocks = self._content.blocks
        if self._lost or not isinstance(blocks, SourceBlocks):
            return None
        size = min(size, self._content.size - offset)
        row = bisect_right(self._starts, offset) - 1
        if row < 0 or size <= 0:
            return None
        start, length, at = self._segments[row]
        if at is None or offset + size > start + length:
            return None
        if (whole := _whole_place(blocks)) is not None:
            is_inside = at + length <= blocks.blocks_count * blocks.block_size
            return (whole[0], whole[1] + at + offset - start, size) if is_inside else None
        try:
            found = fileno_range(blocks.source, at + offset - start, size)
        except AccessError:
            return None
        return None if found is None else (*found, size)

    def read(self, offset: int, size: int) -> bytearray:
        """The bytes of a range."""
        size = max(min(size, self._content.size - offset), 0)
        if any(start < offset + size and offset < end for start, end in self._lost):
            raise AccessError("these bytes are lost")
        buffer = bytearray(size)
        view, done = memoryview(buffer), 0
        with self._lock:
            if self._stream is None:
                self._stream = ContentStream(self._content)
            self._stream.seek(offset)
            while done < size and (count := self._stream.readinto(view[done:])):
                done += count
        return buffer[:done] if done < size else buffer

    def seek(self, offset: int, is_hole: bool) -> int | None:
        """Where the next hole, or the next data, begins; the end of the file counts as a hole."""
        size = self._content.size
        if offset >= size:
            return None
        if self._content.runs is None:
            stored: list[tuple[int, int, int | None]] = [(0, size, 0)]
        else:
            first = max(bisect_right(self._starts, offset) - 1, 0)
            stored = [each for each in self._segments[first:] if each[2] is not None]
        for start, length, _ in stored:
            if offset >= start + length:
                continue
            if not is_hole:
                return max(start, offset)
            if offset < start:
                return offset
            offset = start + length
        return min(offset, size) if is_hole else None


class OpenDocument:
    """A file of `metadata/`.

    Args:
        node: the file.
    """

    def __init__(self, node: DocumentNode) -> None:
        self._node, self._size = node, node.size

    def place(self, offset: int, size: int) -> Place | None:
        """Where a range is in the temporary file."""
        size = min(size, self._size - offset)
        return (self._node.file.fileno(), offset, size) if size > 0 else None

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range; only one thread may call it at a time."""
        self._node.file.seek(offset)
        return self._node.file.read(max(min(size, self._size - offset), 0))

    def seek(self, offset: int, is_hole: bool) -> int | None:
        """The end, or the offset: there is no hole."""
        if offset >= self._size:
            return None
        return self._size if is_hole else offset


_WHOLE: WeakKeyDictionary[SourceBlocks, tuple[int, int] | None] = WeakKeyDictionary()


def _whole_place(blocks: SourceBlocks) -> tuple[int, int] | None:
    """(file descriptor, offset of block 0), if all blocks are one range of an open file."""
    if blocks not in _WHOLE:
        size = blocks.blocks_count * blocks.block_size
        _WHOLE[blocks] = fileno_range(blocks.source, 0, size)
    return _WHOLE[blocks]


def open_node(node: Node, known: KnownMap | None = None) -> OpenFile:
    """Open the content of a file.

    Args:
        node: the file.
        known: its block map, if it was read before.

    Raises:
        OSError: nothing is left of it, the kernel would refuse it, or it is encrypted.
        AccessError, CorruptError: its block map cannot be read.
    """
    if isinstance(node, DocumentNode):
        return OpenDocument(node)
    if node.id.state == LIVE and node.inode is not None:
        if node.inode.is_encrypted:
            raise OSError(getattr(errno, "ENOKEY", errno.EACCES), os.strerror(errno.EACCES))
        doubt = next(iter(node.reasons), None) if known is None else known.doubt
        if doubt is not None:
            raise OSError(getattr(errno, "EUCLEAN", errno.EIO), doubt.text)
    if known is not None and isinstance(node, LiveNode) and node.inode is not None:
        return OpenContent(node.fs.content(node.inode, known.runs))
    content = node.content()
    if content is None:
        raise OSError(errno.EIO, "no content is left")
    return OpenContent(content, ((offset, length) for offset, length, _ in lost_ranges(node)))
