"""Comparison of the names of deleted files, and causes for names of only one reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ext4kit.crosscheck.causes import (
    FREED_DIRECTORY,
    FROM_JOURNAL,
    NOT_ITS_NAME,
    NUMBER,
    OTHER_PATH,
    UNEXPLAINED,
    Cause,
)
from ext4kit.crosscheck.matching import TreePairs
from ext4kit.crosscheck.result import DELETED_NAME, Difference, DifferenceGroup


@dataclass(frozen=True, slots=True)
class DeletedName:
    """A name of a deleted file from ext4kit.

    Attributes:
        path: full path.
        inode: its number, 0 where the removal cleared it.
        in_journal: whether it comes from journal copies instead of a slack entry.
        reason: why it is not given as the name of the inode, "" where it is.
    """

    path: bytes
    inode: int
    in_journal: bool = False
    reason: str = ""


class DeletedNames:
    """The differences in names of deleted files.

    Args:
        matches: names from The Sleuth Kit.
        ours: names from ext4kit.

    Attributes:
        compared: (path, inode number) of each name that one of the two readers has.
    """

    def __init__(self, matches: TreePairs, ours: Sequence[DeletedName]) -> None:
        self._theirs = matches.deleted
        self._given = {(one.path, one.inode): one for one in ours if not one.reason}
        self._listed = {(one.path, one.inode): one for one in ours if one.reason}
        self._paths = {one.inode: one.path for one in ours if not one.reason}
        self.compared = len(self._theirs | self._given.keys())

    def group(self) -> DifferenceGroup:
        """Names that only one of the two readers has, by path."""
        found = sorted([*self._only_tsk(), *self._only_ext4kit()], key=lambda one: one.path)
        causes = np.array([NUMBER[one.cause.code] for one in found], np.int8)
        return DifferenceGroup(DELETED_NAME, causes, found.__getitem__)

    def _only_tsk(self) -> Iterator[Difference]:
        for path, inode in self._theirs - self._given.keys():
            cause, detail = self._cause(path, inode)
            yield Difference(path, DELETED_NAME, inode, None, inode, cause, detail)

    def _cause(self, path: bytes, inode: int) -> tuple[Cause, str]:
        if (path, inode) in self._listed:
            return NOT_ITS_NAME, self._listed[path, inode].reason
        if inode in self._paths:
            return OTHER_PATH, self._paths[inode].decode(errors="backslashreplace")
        return UNEXPLAINED, ""

    def _only_ext4kit(self) -> Iterator[Difference]:
        for (path, inode), one in self._given.items():
            if (path, inode) not in self._theirs:
                cause = FROM_JOURNAL if one.in_journal else FREED_DIRECTORY
                yield Difference(path, DELETED_NAME, inode, inode, None, cause)
