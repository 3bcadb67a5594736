"""Writes files below one folder: rooted, exclusively created, and renamed when unfinished."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ext4kit.errors import OutputError, RequestError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import CHUNK_BYTES, Chunk
from ext4kit.output.interrupts import interrupts_heeded
from ext4kit.output.names import NAME_LIMIT, cut, usable_name
from ext4kit.reasons import OUTPUT_LIMIT, WRITE_FAILED, Reason

HASHED_HOLES_LIMIT = 16 << 30
OUTPUTS_A_BLOCK = 16  # live files use each block once, deleted files a few times
SPARE_OUTPUT = 1 << 30
_FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_ZEROS = bytes(CHUNK_BYTES)
_BY_HANDLE = os.utime in os.supports_fd


@dataclass(frozen=True, slots=True)
class Written:
    """A finished file.

    Attributes:
        path: relative to the output folder, `/` between components; of a single file as given.
        sha256: hex, or None when it is not hashed because its holes are too large (above 16 GiB, or
            above the limit of the whole output), or because it is a copy of a volume.
        lost: (offset, length, reason) of unreadable ranges, which are written as zeros.
    """

    path: str
    size: int
    sha256: str | None
    lost: tuple[tuple[int, int, str], ...]


def output_limit(blocks: BlockReader) -> int:
    """Maximum output in bytes for a file system: a multiple of the size of the evidence."""
    return OUTPUTS_A_BLOCK * blocks.blocks_count * blocks.block_size + SPARE_OUTPUT


@dataclass(slots=True)
class OutputDirectory:
    """Writes files below one folder and nowhere else.

    Args:
        root: the folder; it must be new or empty.
        evidence: files of the evidence, which the folder must not be part of.
        limit: maximum bytes of all files together, against maps that name blocks without end.
    """

    root: Path
    evidence: tuple[Path, ...] = ()
    limit: int = 1 << 62
    _left: int = 0
    _hashed: int = 0
    _folders: dict[tuple[str, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the folder.

        Raises:
            RequestError: it is not empty, or it is the evidence.
            OutputError: it cannot be created.
        """
        self._left = self._hashed = self.limit
        target = self.root.resolve()
        for path in self.evidence:
            if target == path.resolve() or path.resolve() in target.parents:
                raise RequestError(f"{self.root}: lies in the evidence; choose another folder")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if any(self.root.iterdir()):
                raise RequestError(f"{self.root}: not empty; choose a new or empty folder")
        except OSError as error:
            raise OutputError(f"{self.root}: {error.strerror}; choose another folder") from error

    def write(
        self,
        parts: Sequence[bytes],
        chunks: Iterable[Chunk],
        mark: str = "",
        times: tuple[int, int] | None = None,
    ) -> Written:
        """Write one file. Interrupts that wait are accepted while the content is copied.

        Args:
            parts: path components below the root, as they are in the evidence.
            chunks: the content in order; holes stay holes.
            mark: appended to the name if the name is already used.
            times: (atime, mtime) in ns.

        Raises:
            OutputError: the folder cannot be written further.
            UnwritableError: this file cannot be written; the written part is named `*.incomplete`.
        """
        if self._left <= 0:
            raise self._limit_reached()
        try:
            below = self._folder_of(parts[:-1])
            folder = f"{self.root}{os.sep}{below}"
            name, handle = _create(folder, usable_name(parts[-1]), mark)
        except OSError as error:
            raise _failure("/".join(usable_name(part) for part in parts), error) from error
        try:
            try:
                with interrupts_heeded():
                    size, digest, lost = self._pour(handle, chunks)
                if times is not None:
                    with suppress(OSError, OverflowError):  # the manifest has the exact times
                        os.utime(handle if _BY_HANDLE else folder + name, ns=times)
            finally:
                os.close(handle)
            return Written(below + name, size, digest, lost)
        except BaseException as error:
            mark_incomplete(Path(folder + name))
            if isinstance(error, OSError):
                raise _failure(below + name, error) from error
            raise

    def make_folder(self, parts: Sequence[bytes]) -> None:
        """Create a folder and its parents where they do not exist.

        Raises:
            OutputError: as for `write`.
        """
        try:
            self._folder_of(parts)
        except OSError as error:
            raise _failure("/".join(usable_name(part) for part in parts), error) from error

    def _limit_reached(self) -> UnwritableError:
        return UnwritableError(OUTPUT_LIMIT.filled(limit=f"{self.limit:,}"))

    def _pour(
        self, handle: int, chunks: Iterable[Chunk]
    ) -> tuple[int, str | None, tuple[tuple[int, int, str], ...]]:
        """Write the chunks; (size, SHA-256 or None, unreadable ranges)."""
        digest, holes, end, written = hashlib.sha256(), 0, 0, 0
        most = min(self._hashed, HASHED_HOLES_LIMIT)
        lost: list[tuple[int, int, str]] = []
        for chunk in chunks:
            end = chunk.offset + chunk.length
            if chunk.lost:
                _add_lost(lost, chunk)
            if chunk.data is not None:
                self._left -= chunk.length
                if self._left < 0:
                    raise self._limit_reached()
                digest.update(chunk.data)
                write_all(handle, chunk.data)
                written = end
                continue
            holes += chunk.length
            _seek(handle, end)
            if holes <= most:
                hash_zeros(digest, chunk.length)
        if end > written:
            os.ftruncate(handle, end)
        self._hashed -= holes if holes <= most else 0
        return end, digest.hexdigest() if holes <= most else None, tuple(lost)

    def _folder_of(self, parts: Sequence[bytes]) -> str:
        """Path below the root of the folder for these components of the evidence.

        It ends with a slash, so that a name can follow. A folder whose name a file has gets a `~`.
        """
        names = tuple(map(usable_name, parts))
        found = self._folders.get(names, "")
        for depth in range(1, len(names) + 1) if not found else ():
            if names[:depth] not in self._folders:
                name = _create_directory(self.root / found, names[depth - 1])
                self._folders[names[:depth]] = f"{found}{name}/"
            found = self._folders[names[:depth]]
        return found


NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
NEW_FILE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _create(folder: str, wanted: str, mark: str) -> tuple[str, int]:
    """(name, descriptor) of a new file, with the first of its names that is free."""
    name = wanted
    for attempt in range(1000):
        try:
            return name, os.open(folder + name, NEW_FILE, 0o666)
        except FileExistsError:
            suffix = f"~{mark}" if attempt == 0 and mark else f"~{mark}.{attempt}"
            name = cut(wanted, NAME_LIMIT - len(suffix)) + suffix
    raise FileExistsError(errno.EEXIST, "too many files of that name", folder + wanted)


def mark_incomplete(path: Path) -> None:
    """Give an unfinished file a new name that marks it as incomplete."""
    name = cut(path.name, NAME_LIMIT - 20) + ".incomplete"
    while path.with_name(name).exists():
        name += "~"
    path.rename(path.with_name(name))


def _create_directory(above: Path, name: str) -> str:
    """Create a folder and return its name, with `~` appended while the name is in use.

    A file may have the name, or a folder in other letter case.
    """
    while True:
        try:
            (above / name).mkdir()
        except FileExistsError:
            name += "~"
        else:
            return name


class UnwritableError(OutputError):
    """One file could not be written although the folder can be.

    Attributes:
        reason: the reason, as in the record of the file.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


def _failure(path: str, error: OSError) -> OutputError:
    if error.errno in _FATAL:
        return OutputError(f"{path}: {error.strerror}")
    return UnwritableError(WRITE_FAILED.filled(path=path, why=error.strerror))


def _add_lost(lost: list[tuple[int, int, str]], chunk: Chunk) -> None:
    """Add an unreadable range, or extend the last one that it continues for the same reason."""
    if lost:
        offset, length, reason = lost[-1]
        if offset + length == chunk.offset and reason == chunk.lost:
            lost[-1] = (offset, length + chunk.length, reason)
            return
    lost.append((chunk.offset, chunk.length, chunk.lost))


def _seek(handle: int, end: int) -> None:
    """Leave a hole up to `end`.

    Raises:
        OSError: EFBIG, if the output's file system does not support files of that size.
    """
    try:
        os.lseek(handle, end, os.SEEK_SET)
    except (OSError, OverflowError) as error:
        what = f"a file of {end:,} bytes and more is larger than can be there"
        raise OSError(errno.EFBIG, what) from error


def hash_zeros(digest: hashlib._Hash, length: int) -> None:
    """Add zeros to a hash, as for a hole."""
    for start in range(0, length, CHUNK_BYTES):
        digest.update(_ZEROS[: length - start])


def write_all(handle: int, data: memoryview | bytes) -> None:
    """Write all of the bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
