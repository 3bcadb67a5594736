"""The one I/O primitive: exact reads at a byte offset, from evidence that is never written."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from ext4kit.errors import AccessError


class Source(Protocol):
    """Read-only bytes with a known size."""

    @property
    def name(self) -> str:
        """What to call it in messages, usually the path."""
        ...

    @property
    def size(self) -> int:
        """Bytes that can be read."""
        ...

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on.

        Raises:
            AccessError: the range leaves the source, or the system failed to read it.
        """
        ...

    def close(self) -> None:
        """Let go of the operating system's handles; views already given out stay valid."""
        ...


@runtime_checkable
class FileBacked(Protocol):
    """A source that may lie byte for byte in a file, for copying inside the kernel."""

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """The open file and the byte offset in it where the range starts, or None."""
        ...


def fileno_range(source: Source, offset: int, length: int) -> tuple[int, int] | None:
    """Where a range of any source lies in an open regular file.

    Returns:
        (file descriptor, byte offset in that file) for os.copy_file_range or os.sendfile, or
        None where the bytes have to be read.

    Raises:
        AccessError: the range leaves the source.
    """
    check_range(source, offset, length)
    return source.fileno_range(offset, length) if isinstance(source, FileBacked) else None


@runtime_checkable
class Sectored(Protocol):
    """A source whose device or container tells the size of a sector."""

    @property
    def sector_size(self) -> int:
        """Bytes; 0 when it is not told."""
        ...


def sector_size(source: Source) -> int:
    """Bytes of a sector of a disk, or of the disk that a window is all of; 0 when nothing tells."""
    if isinstance(source, Window):
        is_whole = source.offset == 0 and source.size == source.source.size
        return sector_size(source.source) if is_whole else 0
    return source.sector_size if isinstance(source, Sectored) else 0


def check_range(source: Source, offset: int, length: int) -> None:
    """Refuse a range that is not wholly inside `source`.

    Raises:
        AccessError: it is not.
    """
    if offset < 0 or length < 0:
        raise AccessError(f"{source.name}: {length:,} bytes at {offset:,} is not a range of bytes")
    if offset + length > source.size:
        raise AccessError(
            f"{source.name}: bytes {offset:,} to {offset + length:,} are wanted,"
            f" it ends at {source.size:,}"
        )


def peek(source: Source, offset: int, length: int) -> bytes:
    """Up to `length` bytes, for looking at what may be there; b"" for none.

    The one reader that does not raise: less comes back at the end of the source, nothing at
    all where the system cannot read.
    """
    length = min(length, source.size - offset)
    if offset < 0 or length <= 0:
        return b""
    with suppress(AccessError):
        return bytes(source.read(offset, length))
    return b""


class Window:
    """A range of another source, such as a partition of a disk.

    The range may reach past the end of the evidence: what is there can be read, what is not is
    counted.

    Args:
        source: the source to look into; closing the window leaves it open, unless it owns it.
        offset: first byte of the range.
        size: bytes that the range is said to have.
        owns: closing the window closes the source.

    Attributes:
        size: bytes of the range that are there and can be read.
        missing: bytes of the range that the evidence lacks.
    """

    __slots__ = ("_owns", "_start", "missing", "name", "offset", "size", "source")

    def __init__(self, source: Source, offset: int, size: int, owns: bool = False) -> None:
        self.source = source
        self.offset = offset
        self._owns = owns
        self._start = min(offset, source.size)
        self.size = max(0, min(size, source.size - offset))
        self.missing = size - self.size
        self.name = source.name

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` of the window on.

        Raises:
            AccessError: the range leaves the window, or the system failed to read it.
        """
        check_range(self, offset, length)
        return self.source.read(self._start + offset, length)

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """Where the range lies in an open regular file, or None.

        Raises:
            AccessError: the range leaves the window.
        """
        check_range(self, offset, length)
        return fileno_range(self.source, self._start + offset, length)

    def unreadable(self) -> Any:
        """What the source knows to be lost of the window, int64 (n, 2): first byte, end."""
        from ext4kit.evidence.lost import shift_ranges, unreadable_ranges

        return shift_ranges(unreadable_ranges(self.source), -self._start, self.size)

    def close(self) -> None:
        """Close what the window owns; the evidence that others look into is left to its owner."""
        if self._owns:
            self.source.close()
