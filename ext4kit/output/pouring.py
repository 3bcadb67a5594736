"""Bytes, holes and unreadable ranges of a content, written to a descriptor."""

from __future__ import annotations

import errno
import hashlib
import os

from ext4kit.filesystem.content import CHUNK_BYTES, Chunk

_ZEROS = bytes(CHUNK_BYTES)


def add_lost(lost: list[tuple[int, int, str]], chunk: Chunk) -> None:
    """Add an unreadable range, or extend the last one that it continues for the same reason."""
    if lost:
        offset, length, reason = lost[-1]
        if offset + length == chunk.offset and reason == chunk.lost:
            lost[-1] = (offset, length + chunk.length, reason)
            return
    lost.append((chunk.offset, chunk.length, chunk.lost))


def seek_past(handle: int, end: int) -> None:
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
