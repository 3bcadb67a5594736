"""Hashes of all files of a file system or of a directory, for a list of known files."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ext4kit.errors import AccessError, CorruptError, path_text
from ext4kit.fields import HashName, SomeDigests
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.live_view import LiveView
from ext4kit.known.digests import Digester
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems
from ext4kit.selection import Selection
from ext4kit.units import Progress

_REGULAR = Selection(types=frozenset(("file",)))
_AT_ONCE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class FileHashes:
    """The hashes of a file.

    Attributes:
        path: full path in its file system; in a directory, the path below it, after a slash.
        size: bytes.
        digests: in hex, by algorithm.
    """

    path: bytes
    size: int
    digests: SomeDigests


def hashes_of_files(
    fs: FileSystem, path: bytes, names: tuple[HashName, ...], progress: Progress | None = None
) -> Iterator[FileHashes]:
    """The hashes of the live regular files at or below a path, in the order of the tree.

    A file that cannot be read is a problem of the file system.

    Args:
        fs: the file system.
        path: a file or directory.
        names: algorithms.
        progress: called with (names, names in total).

    Raises:
        NotFoundError: there is nothing at the path.
    """
    digester, view = Digester(names, fs.blocks), LiveView(fs)
    start = view.lookup(path)
    if start.kind == "file" and start.inode is not None:
        yield from _hashed(fs, digester, start.path, start.inode)
    if start.kind != "directory":
        return
    for some in view.walk(_REGULAR, start if start.id.inode else None):
        rows = zip(some.paths, some.table.each(), fs.block_maps(some.table), strict=True)
        for row, (name, inode, runs) in enumerate(rows):
            if progress is not None and row % 64 == 0:
                progress(int(some.places[row]), some.total)
            yield from _hashed(fs, digester, name, inode, runs)


def _hashed(
    fs: FileSystem, digester: Digester, path: bytes, inode: Inode, runs: Runs | None = None
) -> Iterator[FileHashes]:
    try:
        several = inode.number if inode.links_count > 1 else None
        digests = digester.of(fs.content(inode, runs), several)
        reason = "a part cannot be read, or the limit of bytes to read is reached"
    except (AccessError, CorruptError) as error:
        digests, reason = {}, str(error)
    if digests:
        yield FileHashes(path, inode.size, digests)
    else:
        fs.problems.add(path_text(path), f"has no hash: {reason}")


def hashes_of_directory(
    folder: bytes, below: bytes, names: Sequence[HashName], problems: Problems
) -> Iterator[FileHashes]:
    """The hashes of the regular files of a directory of this computer, sorted by name.

    Links are not followed. A file that cannot be read is a problem.

    Args:
        folder: the directory.
        below: what of it, b"" for all.
        names: algorithms.
        problems: where they are added.
    """
    top = os.path.join(folder, below.strip(b"/")) if below.strip(b"/") else folder  # noqa: PTH118
    waiting = [top]
    while waiting:
        path = waiting.pop()
        shown = path[len(folder.rstrip(b"/")) :] or b"/"
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                inner = sorted(os.listdir(path), reverse=True)  # noqa: PTH208
                waiting += [os.path.join(path, name) for name in inner]  # noqa: PTH118
            elif stat.S_ISREG(mode):
                yield _hashed_file(path, shown, names)
        except OSError as error:
            problems.add(path_text(shown), f"has no hash: {error.strerror}")


def _hashed_file(path: bytes, shown: bytes, names: Sequence[HashName]) -> FileHashes:
    states = [(name, hashlib.new(name, usedforsecurity=False)) for name in names]
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    size = 0
    with os.fdopen(handle, "rb", buffering=0) as stream:
        for data in iter(partial(stream.read, _AT_ONCE), b""):
            size += len(data)
            for _, state in states:
                state.update(data)
    digests: SomeDigests = {}
    for name, state in states:
        digests[name] = state.hexdigest()
    return FileHashes(shown, size, digests)
