"""What tells which records of deleted files are worth building, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.parsers.inode import InodeTable
from ext4kit.recovery.model import DeletedFile


@dataclass(frozen=True, slots=True)
class DeletedColumns:
    """Facts about deleted files, one row per record.

    Attributes:
        path: the last full path, None if unknown.
        number: inode number, 0 for content without an inode.
        superseded: True for an earlier version of a file.
        is_regular: True for a regular file.
        size: bytes, 0 if unknown.
        is_wiped: True where a wiping program renamed or filled up the file.
        inodes: gives the recovered inodes of some rows with an inode; None if only the records have
            them.
        rewritten: gives the rows of files that were last written in place, as `find_rewrites` says.
    """

    path: list[bytes | None]
    number: Int64s
    superseded: Bools
    is_regular: Bools
    size: Int64s
    is_wiped: Bools
    inodes: Callable[[Int64s], InodeTable] | None = None
    rewritten: Callable[[], Int64s] = lambda: np.zeros(0, np.int64)

    @classmethod
    def of(cls, files: Iterable[DeletedFile]) -> DeletedColumns:
        """The columns of records that are already built."""
        every = list(files)
        return cls(
            [file.path for file in every],
            np.array([0 if file.inode is None else file.inode.number for file in every], np.int64),
            np.array([file.superseded for file in every], bool),
            np.array([file.kind == "file" for file in every], bool),
            np.array([min(file.size or 0, 1 << 62) for file in every], np.int64),
            np.array([file.wiping is not None for file in every], bool),
        )
