"""What is asked of The Sleuth Kit's process, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COLUMNS = (
    "number", "name_type", "allocated", "kind", "mode", "uid", "gid", "links_count", "size",
    "atime", "atime_ns", "mtime", "mtime_ns", "ctime", "ctime_ns", "crtime", "crtime_ns",
)  # fmt: skip
NO_INODE = -1  # in `kind`: TSK has no metadata for the entry


@dataclass(frozen=True, slots=True)
class Hello:
    """What TSK takes the file system for.

    Attributes:
        version: of the library.
        is_ext4: whether it is ext4 to TSK, which then reads the wide inode's time fields.
        last_inode: the largest number; TSK adds one for a folder of its own.
    """

    version: str
    is_ext4: bool
    last_inode: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The entries of one directory: names, and the columns of `COLUMNS` as int64 (n, columns).

    `kind` is the type as in `i_mode` (0 when TSK knows none), `name_type` that of the directory
    entry as ext4 numbers it.
    """

    names: list[bytes]
    values: Any


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Ranges (offset, length) of an inode's content."""

    number: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ContentDigest:
    """SHA-256 in hex of the ranges as TSK reads them, the bytes that it gave, and an error."""

    sha256: str
    length: int
    error: str
