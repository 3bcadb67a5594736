"""The process in which The Sleuth Kit runs: one answer per question, until the pipe closes."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
from array import array
from collections.abc import Iterator
from typing import Any

import pytsk3

from ext4kit.crosscheck.answers import NO_INODE, ComparisonRequest, ContentDigest, Hello
from ext4kit.evidence.source import Source, peek

_READ_BYTES = 1 << 20
_MOST_TEXT = 300  # maximum characters of an error message
_KINDS = {
    int(pytsk3.TSK_FS_META_TYPE_REG): stat.S_IFREG,
    int(pytsk3.TSK_FS_META_TYPE_DIR): stat.S_IFDIR,
    int(pytsk3.TSK_FS_META_TYPE_FIFO): stat.S_IFIFO,
    int(pytsk3.TSK_FS_META_TYPE_CHR): stat.S_IFCHR,
    int(pytsk3.TSK_FS_META_TYPE_BLK): stat.S_IFBLK,
    int(pytsk3.TSK_FS_META_TYPE_LNK): stat.S_IFLNK,
    int(pytsk3.TSK_FS_META_TYPE_SOCK): stat.S_IFSOCK,
}
_NAME_TYPES = {
    int(pytsk3.TSK_FS_NAME_TYPE_REG): 1,
    int(pytsk3.TSK_FS_NAME_TYPE_DIR): 2,
    int(pytsk3.TSK_FS_NAME_TYPE_CHR): 3,
    int(pytsk3.TSK_FS_NAME_TYPE_BLK): 4,
    int(pytsk3.TSK_FS_NAME_TYPE_FIFO): 5,
    int(pytsk3.TSK_FS_NAME_TYPE_SOCK): 6,
    int(pytsk3.TSK_FS_NAME_TYPE_LNK): 7,
}
_LINK = int(pytsk3.TSK_FS_META_TYPE_LNK)
_ALLOCATED = int(pytsk3.TSK_FS_NAME_FLAG_ALLOC)


class _Volume(pytsk3.Img_Info):  # type: ignore[misc]
    """The bytes of a volume for TSK; short reads where the evidence is unreadable."""

    def __init__(self, source: Source) -> None:
        self._source = source
        super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

    def close(self) -> None:
        """Does nothing: the owner of the evidence closes it."""

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at `offset`, fewer where they end."""
        return peek(self._source, offset, size)

    def get_size(self) -> int:
        """Size of the volume in bytes."""
        return self._source.size


class _Reader:
    """TSK over one volume."""

    def __init__(self, source: Source) -> None:
        self._volume = _Volume(source)  # TSK does not keep a reference
        self._fs = pytsk3.FS_Info(self._volume, 0, pytsk3.TSK_FS_TYPE_EXT_DETECT)

    def hello(self) -> Hello:
        """TSK's view of the file system."""
        info = self._fs.info
        is_ext4 = int(info.ftype) == int(pytsk3.TSK_FS_TYPE_EXT4)
        return Hello(str(pytsk3.get_version()), is_ext4, int(info.last_inum))

    def listing(self, number: int) -> tuple[list[bytes], bytes]:
        """Names and columns of a directory's entries."""
        names: list[bytes] = []
        values = array("q")
        for entry in self._fs.open_dir(inode=number):
            info = entry.info
            names.append(bytes(info.name.name or b""))
            values.extend(_row(info.name, info.meta))
        return names, values.tobytes()

    def digests(self, wanted: list[ComparisonRequest]) -> list[ContentDigest]:
        """Hashes of contents, each with its own error."""
        return [self._digest(each) for each in wanted]

    def _digest(self, wanted: ComparisonRequest) -> ContentDigest:
        digest, length, error = hashlib.sha256(), 0, ""
        try:
            file = self._fs.open_meta(wanted.number)
            for piece in _content(file, wanted.ranges):
                digest.update(piece)
                length += len(piece)
        except (OSError, RuntimeError) as failure:
            error = _said(failure)
        return ContentDigest(digest.hexdigest(), length, error)


def _row(name: Any, meta: Any) -> tuple[int, ...]:
    head = (
        int(name.meta_addr),
        _NAME_TYPES.get(int(name.type), 0),
        int(bool(int(name.flags) & _ALLOCATED)),
    )
    if meta is None:
        return (*head, NO_INODE, *(0,) * 13)
    return (
        *head,
        _KINDS.get(int(meta.type), 0),
        int(meta.mode),
        int(meta.uid),
        int(meta.gid),
        int(meta.nlink),
        int(meta.size),
        int(meta.atime),
        int(meta.atime_nano),
        int(meta.mtime),
        int(meta.mtime_nano),
        int(meta.ctime),
        int(meta.ctime_nano),
        int(meta.crtime),
        int(meta.crtime_nano),
    )


def _content(file: Any, ranges: tuple[tuple[int, int], ...]) -> Iterator[bytes]:
    """The ranges; for a link target in the inode, the target that TSK gives apart from content."""
    target = file.info.meta.link if int(file.info.meta.type) == _LINK else None
    if target is not None:
        yield bytes(target)
        return
    for offset, size in ranges:
        yield from _pieces(file, offset, size)


def _pieces(file: Any, offset: int, size: int) -> Iterator[bytes]:
    end = offset + size
    while offset < end:
        piece = file.read_random(offset, min(_READ_BYTES, end - offset))
        if not piece:
            return
        yield piece
        offset += len(piece)


def _said(error: Exception) -> str:
    """An error message of TSK on one line."""
    return " ".join(str(error).split())[:_MOST_TEXT]


def work(pipe: Any, source: Source) -> None:
    """Answer questions until the pipe closes: (True, answer) or (False, message of TSK)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client ends this process
    reader: _Reader | None = None
    try:
        while True:
            name, *arguments = pipe.recv()
            try:
                reader = _Reader(source) if reader is None else reader
                answer = True, getattr(reader, name)(*arguments)
            except (OSError, RuntimeError) as error:
                answer = False, _said(error)
            pipe.send(answer)
    except (EOFError, ConnectionError):
        os._exit(0)
