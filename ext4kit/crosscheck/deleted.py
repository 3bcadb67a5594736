"""Names of deleted files that both have, and why one has a name that the other has not."""

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
    """A name of a deleted file as ext4kit gives it.

    Attributes:
        path: full path.
        inode: its number, 0 where the removal cleared it.
        in_journal: the journal's copies tell it, not an entry that was left.
        reason: why it is not said to be the inode's name, "" where it is.
    """

    path: bytes
    inode: int
    in_journal: bool = False
    reason: str = ""


class DeletedNames:
    """The differences in names of deleted files.

    Args:
        matches: what The Sleuth Kit has.
        ours: what ext4kit has.

    Attributes:
        compared: (path, inode number) that one of the two has.
    """

    def __init__(self, matches: TreePairs, ours: Sequence[DeletedName]) -> None:
        self._theirs = matches.deleted
        self._given = {(one.path, one.inode): one for one in ours if not one.reason}
        self._listed = {(one.path, one.inode): one for one in ours if one.reason}
        self._paths = {one.inode: one.path for one in ours if not one.reason}
        self.compared = len(self._theirs | self._given.keys())

    def group(self) -> DifferenceGroup:
        """What one of the two does not have, by path."""
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
