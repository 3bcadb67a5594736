"""Comparison of the names of deleted files, and causes why only one reader has a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ext4kit.crosscheck import causes
from ext4kit.crosscheck.result import DELETED_NAME, Difference, DifferenceGroup


@dataclass(frozen=True, slots=True)
class DeletedName:
    """A name of a deleted file from ext4kit.

    Attributes:
        path: full path.
        inode: inode number, 0 if the deletion cleared it.
        in_journal: whether it comes from journal copies instead of a slack entry.
        reason: why it is not reported as the name of the inode, or "" if it is.
    """

    path: bytes
    inode: int
    in_journal: bool = False
    reason: str = ""


def compare_deleted(
    theirs: set[tuple[bytes, int]],
    ours: Sequence[DeletedName],
    cause_at: Callable[[bytes, int], causes.Cause | None],
) -> tuple[DifferenceGroup, int]:
    """(names that only one reader has, by path; number of names that at least one has).

    Args:
        theirs: (path, inode number) of the names from The Sleuth Kit.
        ours: names from ext4kit.
        cause_at: gives the cause why a path and inode number only seem to be an entry; None if
            unknown.
    """
    given = {(one.path, one.inode): one for one in ours if not one.reason}
    listed = {(one.path, one.inode): one for one in ours if one.reason}
    paths = {one.inode: one.path for one in ours if not one.reason}
    found = []
    for path, inode in theirs - given.keys():
        cause, detail = cause_at(path, inode) or causes.UNEXPLAINED, ""
        if (path, inode) in listed:
            cause, detail = causes.NOT_ITS_NAME, listed[path, inode].reason
        elif inode in paths and cause is not causes.INDEX:
            cause, detail = causes.OTHER_PATH, paths[inode].decode(errors="backslashreplace")
        found.append(Difference(path, DELETED_NAME, inode, None, inode, cause, detail))
    for (path, inode), one in given.items():
        if (path, inode) not in theirs:
            cause = causes.FROM_JOURNAL if one.in_journal else causes.FREED_DIRECTORY
            found.append(Difference(path, DELETED_NAME, inode, inode, None, cause))
    found.sort(key=lambda one: one.path)
    group = DifferenceGroup.of(DELETED_NAME, (one.cause for one in found), found.__getitem__)
    return group, len(theirs | given.keys())
