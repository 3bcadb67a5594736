"""Raw images as the operating system offers them: one file, a row of split files, a device.

Everything is opened with O_RDONLY and nothing else that could change it.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

from ext4kit.errors import AccessError
from ext4kit.evidence.source import check_range

_RESIDENT_BYTES = 64 << 20  # of a mapping, before its pages are let go
_FAULT_BYTES = 64 << 10  # what the kernel maps around a page at once (fault_around_bytes)
_READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _refusal(path: Path, error: OSError) -> AccessError:
    """One line: what could not be opened, why, and what to do where that is known."""
    advice = ""
    if isinstance(error, PermissionError):
        advice = "; run with the rights to read it (root for devices) or copy it first"
    elif isinstance(error, FileNotFoundError):
        advice = "; check the path"
    return AccessError(f"{path}: cannot be opened: {error.strerror or error}{advice}")


def _open(path: Path) -> int:
    try:
        return os.open(path, _READ_ONLY)
    except OSError as error:
        raise _refusal(path, error) from error


class MappedFile:
    """A regular file, mapped read-only: reads are views and copy nothing.

    Args:
        path: the file.
        fd: an open file to be read in its place and closed with this source.

    Raises:
        AccessError: the file cannot be opened or mapped, or is empty.
    """

    def __init__(self, path: Path, fd: int | None = None) -> None:
        self.name = str(path)
        self.paths = (path,)
        self._fd = _open(path) if fd is None else fd
        try:
            self._map, self.size = _map(path, self._fd)
        except AccessError:
            os.close(self._fd)
            raise
        self._view = memoryview(self._map)
        self._touched = 0

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on, as a view of the mapping.

        Raises:
            AccessError: the range leaves the file.
        """
        check_range(self, offset, length)
        self._count(max(length, _FAULT_BYTES))
        return self._view[offset : offset + length]

    def view(self, offset: int, length: int, places: int) -> memoryview:
        """A range of which only some places will be looked at, as a view of the mapping.

        Raises:
            AccessError: the range leaves the file.
        """
        check_range(self, offset, length)
        self._count(min(places * _FAULT_BYTES, length))
        return self._view[offset : offset + length]

    def _count(self, touched: int) -> None:
        """Take note of pages that are about to be read, and let go of many."""
        self._touched += touched
        if self._touched > _RESIDENT_BYTES:
            self._touched = 0
            _unload(self._map)

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """The open file and the same byte offset.

        Raises:
            AccessError: the range leaves the file.
        """
        check_range(self, offset, length)
        return self._fd, offset

    def close(self) -> None:
        """Unmap and close; a mapping that views still use lives until they are gone."""
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd, self.size = -1, 0
        self._view.release()
        with suppress(BufferError):
            self._map.close()


def _unload(mapped: mmap.mmap) -> None:
    """Count the pages read so far out of this process; views read them again when used.

    Linux alone: elsewhere the advice means something else or nothing.
    """
    if sys.platform == "linux":
        mapped.madvise(mmap.MADV_DONTNEED)


def _map(path: Path, fd: int) -> tuple[mmap.mmap, int]:
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            raise AccessError(f"{path}: is empty (0 bytes); check how it was acquired")
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ), size
    except (OSError, ValueError) as error:
        raise AccessError(f"{path}: cannot be mapped into memory: {error}") from error


class DeviceNode:
    """A block device, read with pread.

    Raises:
        AccessError: the device cannot be opened or tells no size.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.paths = (path,)
        self._fd = _open(path)
        try:
            self.size = os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.close()
            raise _refusal(path, error) from error
        if self.size == 0:
            self.close()
            raise AccessError(f"{path}: the device tells no size; image it and open the image")

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on, in memory of their own.

        Raises:
            AccessError: the range leaves the device, or a sector cannot be read; the message has
                the byte offset where it stopped.
        """
        check_range(self, offset, length)
        first = self._piece(offset, length)
        if len(first) == length:
            return memoryview(first)
        data = bytearray(first)
        while len(data) < length:
            data += self._piece(offset + len(data), length - len(data))
        return memoryview(data).toreadonly()

    def _piece(self, offset: int, length: int) -> bytes:
        """What one pread gives, at least a byte unless none is wanted."""
        try:
            piece = os.pread(self._fd, length, offset)
        except OSError as error:
            raise AccessError(
                f"{self.name}: cannot be read at byte {offset:,}: {error.strerror}"
            ) from error
        if length and not piece:
            raise AccessError(f"{self.name}: ended at byte {offset:,}, before its size")
        return piece

    def close(self) -> None:
        """Close the device."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class SplitFile:
    """An image in numbered pieces, read as one.

    A read within one piece is a view; a read across a border joins the bytes.

    Args:
        paths: every piece in order, as `find_segments` gives them.

    Raises:
        AccessError: a piece cannot be opened or is empty.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.name = str(paths[0])
        self.paths = paths
        self._parts: list[MappedFile] = []
        try:
            self._parts.extend(MappedFile(path) for path in paths)
        except AccessError:
            self.close()
            raise
        self.sizes = tuple(part.size for part in self._parts)
        self._starts = list(accumulate(self.sizes, initial=0))
        self.size = self._starts[-1]

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` of the joined image on.

        Raises:
            AccessError: the range leaves the image.
        """
        check_range(self, offset, length)
        pieces = list(self._pieces(offset, offset + length))
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def _pieces(self, start: int, end: int) -> Iterator[memoryview]:
        index = bisect_right(self._starts, start) - 1
        while start < end:
            stop = min(end, self._starts[index + 1])
            yield self._parts[index].read(start - self._starts[index], stop - start)
            start, index = stop, index + 1

    def close(self) -> None:
        """Close every piece."""
        for part in self._parts:
            part.close()
        self.size = 0


def open_raw(path: Path) -> MappedFile | SplitFile | DeviceNode:
    """A regular file, the split image that it begins, or a block device.

    What it is is looked at before opening: opening a FIFO would wait for its writer.

    Raises:
        AccessError: it is none of these, or cannot be opened.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _refusal(path, error) from error
    if stat.S_ISBLK(mode):
        return DeviceNode(path)
    if not stat.S_ISREG(mode):
        raise AccessError(f"{path}: {_misfit(mode)}")
    paths = find_segments(path)
    return SplitFile(paths) if len(paths) > 1 else MappedFile(path)


def _misfit(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "is a directory; name an image file in it"
    if stat.S_ISCHR(mode):
        return "is a character device; name the disk's block device or an image file"
    if stat.S_ISFIFO(mode):
        return "is a pipe; write its data to a file first, an image is read at many places"
    return "is neither a regular file nor a block device; name an image file"


# ---------------------------------------------------------------- the names of split images

_ALPHABETS = (digits, ascii_lowercase, ascii_uppercase)
_SUFFIX = re.compile(r"\.(\d{2,}|[a-z]{2,}|[A-Z]{2,})\Z", re.ASCII)


def find_segments(path: Path) -> tuple[Path, ...]:
    """Every piece of the split image that `path` begins, in order.

    Pieces are named as split, dd tools and FTK name them: .001 .002, .000 .001, .aa .ab; a width
    that runs out grows (.999 .1000 and split's .yz .zaaa).

    Returns:
        `path` alone when it is not the first piece of a row.

    Raises:
        AccessError: a piece is missing before another one that is there, or `path` is a later
            piece of a row.
    """
    match = _SUFFIX.search(path.name)
    if match is None:
        return (path,)
    stem, suffix = path.name[: match.start() + 1], match[1]
    present = _siblings(path, stem, suffix)
    if not _is_first(suffix, present):
        _refuse_later_piece(path, stem, suffix, present)
        return (path,)
    found = list(_follow(suffix, present))
    _refuse_gap(path, stem, found, present)
    return tuple(path.with_name(stem + each) for each in found)


def _alphabet(suffix: str) -> str:
    return next(letters for letters in _ALPHABETS if suffix[0] in letters)


def _is_first(suffix: str, present: set[str]) -> bool:
    zero = _alphabet(suffix)[0] * len(suffix)
    return suffix == zero or (suffix == zero[:-1] + "1" and zero not in present)


def _number(suffix: str) -> int:
    """A suffix as a number in its own alphabet."""
    letters = _alphabet(suffix)
    value = 0
    for letter in suffix:
        value = value * len(letters) + letters.index(letter)
    return value


def _spelled(number: int, like: str) -> str:
    """A number as a suffix in the alphabet of `like` and at least as wide."""
    letters = _alphabet(like)
    text = ""
    while number or len(text) < len(like):
        number, rest = divmod(number, len(letters))
        text = letters[rest] + text
    return text


def _siblings(path: Path, stem: str, suffix: str) -> set[str]:
    """Suffixes beside `path` that are written in the same alphabet and not narrower."""
    letters = _alphabet(suffix)
    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return {suffix}
    ends = (name[len(stem) :] for name in names if name.startswith(stem))
    return {end for end in ends if len(end) >= len(suffix) and not set(end) - set(letters)}


def _follow(suffix: str, present: set[str]) -> Iterator[str]:
    """`suffix` and what follows it without a gap; split widens "za" to "zaaa"."""
    while suffix:
        yield suffix
        following = _spelled(_number(suffix) + 1, suffix)
        wider = following + _alphabet(suffix)[0] * 2
        suffix = next((each for each in (following, wider) if each in present), "")


def _is_later(suffix: str, last: str) -> bool:
    """True when `suffix` looks like a piece behind `last`: a letter row may have strangers."""
    if _spelled(_number(suffix), last) != suffix:
        return False
    distance = _number(suffix) - _number(last)
    return distance > 1 and (suffix[0] in digits or distance <= len(ascii_lowercase))


def _refuse_gap(path: Path, stem: str, found: list[str], present: set[str]) -> None:
    later = sorted(each for each in present - set(found) if _is_later(each, found[-1]))
    if later:
        missing = path.with_name(stem + _spelled(_number(found[-1]) + 1, found[-1]))
        raise AccessError(
            f"{missing}: this piece of the split image is missing, {stem}{later[0]} is there;"
            " bring the missing pieces to the same folder"
        )


def _refuse_later_piece(path: Path, stem: str, suffix: str, present: set[str]) -> None:
    firsts = [each for each in present if _is_first(each, present)]
    if firsts and suffix in set(_follow(firsts[0], present)):
        raise AccessError(
            f"{path}: is a later piece of a split image; open the first, {stem}{firsts[0]}"
        )
