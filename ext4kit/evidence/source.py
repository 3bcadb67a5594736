"""The basic I/O interface: exact reads at a byte offset, from evidence that is never written."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ext4kit.errors import AccessError

if TYPE_CHECKING:
    from ext4kit.arrays.types import Int64s


class Source(Protocol):
    """Read-only bytes with a known size."""

    @property
    def name(self) -> str:
        """Its name in messages, usually the path."""
        ...

    @property
    def size(self) -> int:
        """Size in bytes."""
        ...

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on.

        Raises:
            AccessError: the range is outside the source, or the system failed to read it.
        """
        ...

    def close(self) -> None:
        """Close the operating system's handles; views that were returned stay valid."""
        ...


@runtime_checkable
class FileBacked(Protocol):
    """A source whose bytes may be a range of a file, which the kernel can copy directly."""

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """(file descriptor, byte offset of the range in that file), or None."""
        ...


def fileno_range(source: Source, offset: int, length: int) -> tuple[int, int] | None:
    """Location of a range of any source in an open regular file.

    Returns:
        (file descriptor, byte offset in that file) for `os.copy_file_range` or `os.sendfile`, or
        None if the bytes must be read.

    Raises:
        AccessError: the range is outside the source.
    """
    check_range(source, offset, length)
    return source.fileno_range(offset, length) if isinstance(source, FileBacked) else None


@runtime_checkable
class Sectored(Protocol):
    """A source whose device or container reports a sector size."""

    @property
    def sector_size(self) -> int:
        """Sector size in bytes; 0 if it is not known."""
        ...


def sector_size(source: Source) -> int:
    """Sector size in bytes of a disk, or of the disk that a window covers fully; 0 if unknown."""
    if isinstance(source, Window):
        is_whole = source.offset == 0 and source.size == source.source.size
        return sector_size(source.source) if is_whole else 0
    return source.sector_size if isinstance(source, Sectored) else 0


@runtime_checkable
class Mapped(Protocol):
    """A source whose bytes are stored in other sources: a logical or an unlocked volume."""

    def stored_at(self, offset: int) -> tuple[Source, int] | None:
        """(source that stores the byte at `offset`, its offset there); None if it is missing."""
        ...


def check_range(source: Source, offset: int, length: int) -> None:
    """Refuse a range that is not completely inside `source`.

    Raises:
        AccessError: the range is not inside.
    """
    if offset < 0 or length < 0:
        raise AccessError(f"{source.name}: {length:,} bytes at {offset:,} is not a range of bytes")
    if offset + length > source.size:
        raise AccessError(
            f"{source.name}: bytes {offset:,} to {offset + length:,} are wanted,"
            f" it ends at {source.size:,}"
        )


def peek(source: Source, offset: int, length: int) -> bytes:
    """Up to `length` bytes at `offset`, to test for a structure; b"" if there are none.

    This is the only read that raises no error. It returns fewer bytes at the end of the source, and
    b"" if the read fails.
    """
    length = min(length, source.size - offset)
    if offset < 0 or length <= 0:
        return b""
    with suppress(AccessError):
        return bytes(source.read(offset, length))
    return b""


class Window:
    """A range of another source, such as a partition of a disk.

    The range may extend past the end of the evidence. The existing bytes can be read, and the
    missing ones are counted.

    Args:
        source: the source; closing the window leaves it open unless `owns` is set.
        offset: first byte of the range.
        size: nominal size of the range in bytes.
        owns: whether closing the window closes the source.

    Attributes:
        size: bytes of the range that exist and can be read.
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
            AccessError: the range is outside the window, or the system failed to read it.
        """
        check_range(self, offset, length)
        return self.source.read(self._start + offset, length)

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """(file descriptor, byte offset) of the range in an open regular file, or None.

        Raises:
            AccessError: the range is outside the window.
        """
        check_range(self, offset, length)
        return fileno_range(self.source, self._start + offset, length)

    def unreadable(self) -> Int64s:
        """Ranges of the window known to be unreadable, int64 (n, 2): first byte, end."""
        from ext4kit.evidence.lost import shift_ranges, unreadable_ranges

        return shift_ranges(unreadable_ranges(self.source), -self._start, self.size)

    def close(self) -> None:
        """Close the source if the window owns it; shared evidence is closed by its owner."""
        if self._owns:
            self.source.close()
