"""Raw images read from the operating system: one file, a series of split files, or a device.

Every file is opened with `O_RDONLY` and no flag that could change it.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from threading import Lock
from typing import TYPE_CHECKING

from ext4kit.errors import AccessError
from ext4kit.evidence.beside import require_part
from ext4kit.evidence.source import check_range
from ext4kit.problems import Problems

if TYPE_CHECKING:
    from ext4kit.arrays.types import Int64s
    from ext4kit.evidence.lost import UnreadableRanges

_FOLIO = 4 << 20  # most bytes that the kernel reads and caches together
_BLKSSZGET = 0x1268  # include/uapi/linux/fs.h
_PAGE = 4096  # bytes; the kernel's smallest read, so a bad sector costs the whole page
_READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _refusal(path: Path, error: OSError) -> AccessError:
    """A one-line error: the path, why it could not be opened, and the remedy if there is one."""
    advice = ""
    if isinstance(error, PermissionError):
        advice = f"; {_remedy(path)}"
    elif isinstance(error, FileNotFoundError):
        advice = "; check the path"
    return AccessError(f"{path}: cannot be opened: {error.strerror or error}{advice}")


def _remedy(path: Path) -> str:
    """The remedy, as text, for a user who may not read a file or a device."""
    with suppress(OSError):
        facts = path.stat()
        if stat.S_ISBLK(facts.st_mode):
            group = _group(facts) or "disk"
            return f"use sudo, or be in the group {group} (`sudo adduser $USER {group}`)"
        if group := _group(facts):
            return f"use sudo, or be in the group {group}"
    return "use sudo, or ask its owner for the right to read it"


def _group(facts: os.stat_result) -> str:
    """Name of the group that may read a file; "" if there is none except the group of root."""
    if not facts.st_mode & stat.S_IRGRP or facts.st_gid == 0:
        return ""
    with suppress(ImportError, KeyError):
        from grp import getgrgid

        return getgrgid(facts.st_gid).gr_name
    return ""


def _open(path: Path) -> int:
    try:
        return os.open(path, _READ_ONLY)
    except OSError as error:
        raise _refusal(path, error) from error


class RawFile:
    """A regular file or a block device, read with `pread`.

    A failed read is repeated once, page by page. A page that fails again is unreadable: it is
    reported and never requested again from the failing medium. A memory map would save almost no
    time, and an unreadable page would end the process.

    Args:
        path: the file.
        fd: an open file that is read instead of `path` and closed with this source.
        start: byte offset of the file in an image of several files.
        problems: collects unreadable ranges, as offsets in the whole image.

    Attributes:
        is_regular: whether it is a regular file; False for a device.
        sector_size: sector size of a device in bytes, 0 if it is not known.

    Raises:
        AccessError: the file cannot be opened, or is empty.
    """

    def __init__(
        self, path: Path, fd: int | None = None, start: int = 0, problems: Problems | None = None
    ) -> None:
        self._fd = -1
        self.name = str(path)
        self.paths = (path,)
        self.problems = Problems() if problems is None else problems
        self._start = start
        self._lost: UnreadableRanges | None = None
        self._lock = Lock()
        self._fd = _open(path) if fd is None else fd
        try:
            self.size, self.is_regular = _measured(path, self._fd)
        except AccessError:
            self.close()
            raise
        self.sector_size = 0 if self.is_regular else _sector_size(self._fd)

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on, in newly allocated memory.

        Raises:
            AccessError: the range is outside the file, or a page in it cannot be read. The
                message gives the first lost range; `unreadable` and `problems` give all.
        """
        check_range(self, offset, length)
        if self._lost is not None:
            self._refuse(offset, length)
        with suppress(OSError):
            data = self._pread(length, offset) if length else b""
            if len(data) == length:
                return memoryview(data)
        return self._by_page(offset, length)

    def _pread(self, length: int, offset: int) -> bytes:
        """The result of one read. Without `pread` (Windows), this moves the file position."""
        if hasattr(os, "pread"):
            return os.pread(self._fd, length, offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            return os.read(self._fd, length)

    def _by_page(self, offset: int, length: int) -> memoryview:
        """Read a range page by page after a failed read; pages that fail again are lost.

        Raises:
            AccessError: a page is lost.
        """
        first, end = offset - offset % _PAGE, offset + length
        data, failed = bytearray(), list[tuple[int, int, str]]()
        self._part_pages(first, length)
        for start in range(first, end, _PAGE):
            wanted = min(_PAGE, self.size - start)
            try:
                page = self._page(start, wanted)
            except OSError as error:
                failed.append((start, start + wanted, error.strerror or str(error)))
                continue
            data += page
            if len(page) < wanted:
                start += len(page)
                failed.append((start, self.size, f"{self.name} ends at byte {start:,} now"))
                break
        self._advise("NORMAL", 0, 0)
        if failed:
            self._note(failed)
            for start, stop, _ in failed:
                if start < end:
                    raise self._loss(start, stop)
        return memoryview(data)[offset - first : end - first].toreadonly()

    def _page(self, start: int, length: int) -> bytes:
        """Read a page, which may be shorter at the end of the file.

        Raises:
            OSError: the page cannot be read.
        """
        data = b""
        while len(data) < length:
            more = self._pread(length - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def _part_pages(self, offset: int, length: int) -> None:
        """Make the kernel drop its cached pages of a range and read each page separately.

        The kernel caches pages in folios, and one unreadable page fails its whole folio.
        """
        self._advise("RANDOM", 0, 0)
        start = max(0, offset - _FOLIO)
        self._advise("DONTNEED", start, offset + length + _FOLIO - start)

    def _advise(self, advice: str, offset: int, length: int) -> None:
        """Advise the kernel how a range will be read, if the system supports it."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self._fd, offset, length, getattr(os, f"POSIX_FADV_{advice}"))

    def _note(self, failed: list[tuple[int, int, str]]) -> None:
        """Record (first byte, end, cause); adjacent ranges with the same cause give one report."""
        from ext4kit.evidence.lost import UnreadableRanges

        ranges: list[tuple[int, int, str]] = []
        with self._lock:
            self._lost = self._lost or UnreadableRanges()
            for start, end, reason in failed:
                self._lost.add(start, end)
                if ranges and ranges[-1][1:] == (start, reason):
                    start = ranges.pop()[0]
                ranges.append((start, end, reason))
        for start, end, reason in ranges:
            where = f"image, bytes {self._start + start:,} to {self._start + end - 1:,}"
            self.problems.add(where, f"cannot be read: {reason}")

    def _refuse(self, offset: int, length: int) -> None:
        """Refuse a range with bytes that are known to be lost.

        Raises:
            AccessError: the range has lost bytes.
        """
        with self._lock:
            found = self._lost.first_in(offset, offset + length) if self._lost else None
        if found is not None:
            raise self._loss(*found)

    def _loss(self, start: int, end: int) -> AccessError:
        return AccessError(f"{self.name}: bytes {start:,} to {end - 1:,} cannot be read")

    def unreadable(self) -> Int64s:
        """The ranges that could not be read so far, int64 (n, 2): first byte, end."""
        from ext4kit.evidence.lost import merge_ranges

        return merge_ranges() if self._lost is None else self._lost.table()

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """(descriptor of the file, the same byte offset); None for a device.

        Raises:
            AccessError: the range is outside the file.
        """
        check_range(self, offset, length)
        return (self._fd, offset) if self.is_regular else None

    def close(self) -> None:
        """Close the file; bytes already read stay valid."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.size = -1, 0

    def __del__(self) -> None:
        """Close the file when no object refers to this source any more."""
        self.close()


def _sector_size(fd: int) -> int:
    """Logical sector size of a device in bytes; 0 if the system does not report it."""
    if sys.platform != "linux":
        return 0
    from fcntl import ioctl

    answer = bytearray(4)
    try:
        ioctl(fd, _BLKSSZGET, answer)
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)


def bytes_on_disk(facts: os.stat_result) -> int:
    """Bytes that a file uses on its medium, not counting holes (which Windows counts)."""
    blocks: int | None = getattr(facts, "st_blocks", None)
    return facts.st_size if blocks is None else blocks * 512


def _measured(path: Path, fd: int) -> tuple[int, bool]:
    """(size of an open file in bytes, whether it is a regular file).

    Raises:
        AccessError: the file is empty, has no size, or is neither a regular file nor a device.
    """
    try:
        mode = os.fstat(fd).st_mode
        size = os.lseek(fd, 0, os.SEEK_END)
    except OSError as error:
        raise _refusal(path, error) from error
    is_regular = stat.S_ISREG(mode)
    if not is_regular and not stat.S_ISBLK(mode):
        raise AccessError(f"{path}: {_misfit(mode)}")
    if size == 0:
        text = "is empty (0 bytes); check how it was acquired"
        if not is_regular:
            text = "the size of the device is unknown; make an image of it and open that"
        raise AccessError(f"{path}: {text}")
    return size, is_regular


class SplitFile:
    """An image in numbered segments, read as one.

    Args:
        paths: every segment in order, as from `find_segments`.

    Raises:
        AccessError: a segment cannot be opened or is empty.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.name = str(paths[0])
        self.paths = paths
        self.problems = Problems()
        self._parts: list[RawFile] = []
        self._starts = [0]
        try:
            for path in paths:
                self._parts.append(RawFile(path, None, self._starts[-1], self.problems))
                self._starts.append(self._starts[-1] + self._parts[-1].size)
        except AccessError:
            self.close()
            raise
        self.sizes = tuple(part.size for part in self._parts)
        self.size = self._starts[-1]

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` of the joined image on.

        Raises:
            AccessError: the range is outside the image, or a page in it cannot be read.
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

    def unreadable(self) -> Int64s:
        """The ranges that could not be read so far, int64 (n, 2): first byte, end."""
        from ext4kit.evidence.lost import merge_ranges

        parts = zip(self._parts, self._starts, strict=False)
        return merge_ranges(*(part.unreadable() + at for part, at in parts))

    def close(self) -> None:
        """Close every segment."""
        for part in self._parts:
            part.close()
        self.size = 0


def open_raw(path: Path) -> RawFile | SplitFile:
    """A regular file, the split image whose first segment it is, or a block device.

    The file type is checked before opening, because opening a FIFO would wait for its writer.

    Raises:
        AccessError: the path is none of these, or cannot be opened.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _refusal(path, error) from error
    if stat.S_ISBLK(mode):
        return RawFile(path)
    if not stat.S_ISREG(mode):
        raise AccessError(f"{path}: {_misfit(mode)}")
    paths = find_segments(path)
    return SplitFile(paths) if len(paths) > 1 else RawFile(path)


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
    """Every segment of the split image whose first segment is `path`, in order.

    Segments have the suffixes of split, dd tools and FTK: .001 .002, .000 .001, .aa .ab. When a
    width is exhausted, suffixes become longer (.999 .1000 and split's .yz .zaaa).

    Returns:
        All segments; only `path` if it does not begin a series.

    Raises:
        AccessError: a segment is missing before an existing one or is not a regular file of this
            directory, or `path` is a later segment of a series.
    """
    match = _SUFFIX.search(path.name)
    if match is None:
        return (path,)
    stem, suffix = path.name[: match.start() + 1], match[1]
    present = _siblings(path, stem, suffix)
    if not _is_first(suffix, present):
        first = next((each for each in present if _is_first(each, present)), "")
        if first and suffix in _follow(first, present):
            raise AccessError(
                f"{path}: is a later part of a split image; open the first one, {stem}{first}"
            )
        return (path,)
    found = list(_follow(suffix, present))
    later = sorted(each for each in present - set(found) if _is_later(each, found[-1]))
    if later:
        missing = path.with_name(stem + _spelled(_number(found[-1]) + 1, found[-1]))
        raise AccessError(
            f"{missing}: this part of the split image is missing, {stem}{later[0]} is there; put "
            "the missing parts into the same folder"
        )
    paths = tuple(path.with_name(stem + each) for each in found)
    for each in paths[1:]:
        require_part(each, path)
    return paths


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
    """A number as a suffix in the alphabet of `like`, at least as wide."""
    letters = _alphabet(like)
    text = ""
    while number or len(text) < len(like):
        number, rest = divmod(number, len(letters))
        text = letters[rest] + text
    return text


def _siblings(path: Path, stem: str, suffix: str) -> set[str]:
    """Suffixes of files next to `path` in the same alphabet and not narrower."""
    letters = _alphabet(suffix)
    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return {suffix}
    ends = (name[len(stem) :] for name in names if name.startswith(stem))
    return {end for end in ends if len(end) >= len(suffix) and not set(end) - set(letters)}


def _follow(suffix: str, present: set[str]) -> Iterator[str]:
    """`suffix` and its successors without a gap; split widens "za" to "zaaa"."""
    while suffix:
        yield suffix
        following = _spelled(_number(suffix) + 1, suffix)
        wider = following + _alphabet(suffix)[0] * 2
        suffix = next((each for each in (following, wider) if each in present), "")


def _is_later(suffix: str, last: str) -> bool:
    """Whether `suffix` counts as a segment after `last`; with letters, only if near `last`."""
    if _spelled(_number(suffix), last) != suffix:
        return False
    distance = _number(suffix) - _number(last)
    return distance > 1 and (suffix[0] in digits or distance <= len(ascii_lowercase))
