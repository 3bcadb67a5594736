"""Questions to the process of The Sleuth Kit (TSK), and its answers."""

from __future__ import annotations

from dataclasses import dataclass

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
        version: of the library.
        is_ext4: whether TSK takes it as ext4 and therefore reads the extra time fields.
        last_inode: the largest inode number; TSK adds one for its own virtual directory.
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
