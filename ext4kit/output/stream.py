"""Writes the bytes of a file to an open descriptor with the fastest copy that the system offers.

The kernel copies runs that lie unchanged in an open file. This takes half the time of reading and
writing. Other runs are read. Holes are skipped in a regular file and written as zeros elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from ext4kit.evidence.kernel_copy import copy_in_kernel
from ext4kit.evidence.source import fileno_range
from ext4kit.filesystem.blocks import SourceBlocks
from ext4kit.filesystem.content import Chunk, Content
from ext4kit.output.pouring import write_all

_MOST_ZEROS = 16 << 30
_ZEROS = memoryview(bytes(1 << 20))


class DescriptorWriter:
    """Writes to a descriptor; `close` sets the length when the end is a hole.

    Args:
        fd: an open descriptor. Only a regular file that is written at its end gets holes.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        status = os.fstat(fd)
        self._sparse = (
            stat.S_ISREG(status.st_mode)
            and not _appends(fd)
            and os.lseek(fd, 0, os.SEEK_CUR) == status.st_size
        )

    def refuse_reason(self, content: Content) -> str:
        """Why a file is not written (its holes are too large for zeros), "" if it can be."""
        zeros = content.size - content.stored
        if self._sparse or zeros <= _MOST_ZEROS:
            return ""
        return (
            f"not printed: {zeros:,} of its {content.size:,} bytes are holes, and no more than "
            f"{_MOST_ZEROS:,} are written as zeros; `extract`, or a file as output, keeps holes"
        )

    def write_content(self, content: Content) -> Iterator[Chunk]:
        """Write all of a file; yields its unreadable chunks, which are written as zeros.

        Raises:
            OSError: the descriptor cannot be written.
        """
        blocks = content.blocks
        if not isinstance(blocks, SourceBlocks) or not _is_fully_mapped(content):
            yield from self._chunks(content.chunks())
            return
        position = 0
        for offset, length, place in content.segments():
            self.write_zeros(offset - position)
            if place is None:
                self.write_zeros(length)
            else:
                yield from self.write_stored(content, offset, length, place)
            position = offset + length
        self.write_zeros(content.size - position)

    def write_stored(
        self, content: Content, offset: int, length: int, place: int
    ) -> Iterator[Chunk]:
        """Write bytes of the file system; yields unreadable chunks, which are written as zeros.

        Args:
            content: has the reader of the blocks.
            offset: of the bytes in the content, for the chunks.
            length: bytes.
            place: byte in the file system.

        Raises:
            OSError: the descriptor cannot be written.
        """
        blocks, where = content.blocks, None
        if isinstance(blocks, SourceBlocks):
            where = fileno_range(blocks.source, place, length)
        done = copy_in_kernel(*where, length, self.fd) if where else 0
        left = length - done
        yield from self._chunks(content.stored_chunks(offset + done, left, place + done))

    def write_zeros(self, length: int) -> None:
        """Write zeros, as a hole where possible."""
        if self._sparse and length > 0:
            try:
                os.lseek(self.fd, length, os.SEEK_CUR)
            except (OSError, OverflowError) as error:
                what = f"a hole of {length:,} bytes is larger than a file can be there"
                raise OSError(errno.EFBIG, what) from error
            return
        while length > 0:
            length -= os.write(self.fd, _ZEROS[: min(length, len(_ZEROS))])

    def close(self) -> None:
        """Set the end of the file, also after a hole; the descriptor stays open."""
        if self._sparse:
            end = os.lseek(self.fd, 0, os.SEEK_CUR)
            if end > os.fstat(self.fd).st_size:
                os.ftruncate(self.fd, end)

    def _chunks(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            if chunk.lost:
                yield chunk
            if chunk.data is None:
                self.write_zeros(chunk.length)
            else:
                write_all(self.fd, chunk.data)


def _appends(fd: int) -> bool:
    """Whether writes are appended; True where the system cannot tell (Windows)."""
    try:
        import fcntl
    except ImportError:
        return True
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)


def _is_fully_mapped(content: Content) -> bool:
    """Whether a file has runs, all of them within the evidence."""
    end = content.blocks.blocks_count * content.blocks.block_size
    places = ((place, length) for _, length, place in content.segments() if place is not None)
    return (
        content.runs is not None
        and not content.is_overfull
        and all(place + length <= end for place, length in places)
    )
