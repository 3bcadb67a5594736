"""Answers of the process that runs The Sleuth Kit (TSK), and how they are packed.

They are plain numbers and texts, because a process that parses hostile bytes may be compromised.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.types import Int64s

COLUMNS = (
    "number", "name_type", "allocated", "kind", "mode", "uid", "gid", "links_count", "size",
    "atime", "atime_ns", "mtime", "mtime_ns", "ctime", "ctime_ns", "crtime", "crtime_ns",
)  # fmt: skip
Ranges = tuple[tuple[int, int], ...]  # (offset, length) of the compared parts of a content
NO_INODE = -1  # in `kind`: TSK has no metadata for the entry


@dataclass(frozen=True, slots=True)
class Hello:
    """File system as TSK sees it.

    Attributes:
        version: version of the library.
        is_ext4: whether TSK treats the file system as ext4 and therefore reads the extra time
            fields.
        last_inode: the largest inode number, including the one that TSK adds for its virtual
            directory.
    """

    version: str
    is_ext4: bool
    last_inode: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of one directory: names, and the columns of `COLUMNS` as int64 (n, columns).

    `kind` is the type as in `i_mode` (0 when TSK knows none), `name_type` the type in the directory
    entry, in ext4's numbers.
    """

    names: list[bytes]
    values: Int64s


@dataclass(frozen=True, slots=True)
class ContentDigest:
    """SHA-256 in hex of the ranges as TSK reads them, number of bytes read, and an error."""

    sha256: str
    length: int
    error: str


MOST_BYTES = 1 << 32  # limit of an answer; a directory may have millions of names
GOOD, REFUSED = b"\0", b"\1"  # first byte of an answer; after REFUSED, a message of TSK follows
_LENGTH = struct.Struct("=Q")


def _packed_listing(found: Listing) -> bytes:
    names = json.dumps([name.decode("latin-1") for name in found.names]).encode()
    return GOOD + _LENGTH.pack(len(names)) + names + found.values.tobytes()


PACKED: dict[str, Callable[[Any], bytes]] = {  # by the name of the question
    "hello": lambda found: GOOD + json.dumps(asdict(found)).encode(),
    "listing": _packed_listing,
    "digests": lambda found: GOOD + json.dumps([asdict(each) for each in found]).encode(),
}


def unpack_hello(data: bytes) -> Hello:
    """TSK's view of the file system."""
    found = json.loads(data)
    return Hello(str(found["version"]), bool(found["is_ext4"]), int(found["last_inode"]))


def unpack_listing(data: bytes) -> Listing:
    """The entries of a directory."""
    (length,) = _LENGTH.unpack_from(data)
    names = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    values = np.frombuffer(data, np.int64, offset=_LENGTH.size + length)
    rows = values.reshape(len(names), len(COLUMNS))
    return Listing([str(name).encode("latin-1") for name in names], rows)


def unpack_digests(data: bytes) -> list[ContentDigest]:
    """The digests of contents."""
    return [
        ContentDigest(str(one["sha256"]), int(one["length"]), str(one["error"]))
        for one in json.loads(data)
    ]
