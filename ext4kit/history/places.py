"""Paths of live directories and the times since which they are valid, for removed entries.

A rename sets the ctime of the moved directory and of both parents (kernel fs/ext4/namei.c,
`ext4_rename`). If the ctime of a directory or of its parent is older than a removal, the directory
has not moved since. e2fsck connects directories without a parent to `lost+found` and sets none of
these times (e2fsprogs e2fsck/pass3.c, `e2fsck_reconnect_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.inodes import ROOT
from ext4kit.units import NANOSECONDS

FOREVER = int(np.iinfo(np.int64).max)
MAX_DOUBLINGS = 12  # doublings; paths are followed to a depth of 4096


class Ground(StrEnum):
    """The kinds of evidence for a path."""

    JOURNAL = "journal"  # the journal shows the path as of the removal
    PROVEN = "proven"  # no directory of the path can have moved since the removal
    PRESENT_PLACE = "present place"  # the present path of the directory, or the last known one


@dataclass(frozen=True, slots=True)
class DirectoryPlace:
    """A path and the evidence for it."""

    path: bytes
    ground: Ground


class LiveDirectories:
    """Live directories by inode number, including the root.

    Args:
        fs: the file system.
        above: inode number of each directory -> (inode number of its parent, its name).

    Attributes:
        number: int64, inode numbers, ascending.
        created: int64, creation time, ns.
        parent: row of the parent, -1 if the parent is not in the table.
        renamed: int64, latest possible rename (ns) according to the directory's own times; 0 for
            none.
        moved: int64, latest time (ns) at which the directory or one of its parents can have moved.
        newest: int64, latest creation time (ns) among the directory and its parents.
    """

    def __init__(self, fs: FileSystem, above: Mapping[int, tuple[int, bytes]]) -> None:
        self._above = above
        self.number = np.unique([ROOT, *above])
        parents = [above.get(number, (ROOT, b""))[0] for number in self.number.tolist()]
        self.parent = self.rows(np.array(parents, np.int64))
        table = fs.inode_table(self.number)
        ctime = table.ctime + (NANOSECONDS - 1) * (table.ctime % NANOSECONDS == 0)
        own = np.minimum(ctime, ctime[self.parent])
        own[self.parent < 0] = FOREVER
        root = self.rows(np.array([ROOT]))
        own[root] = 0
        self._checked = (fs.superblock.check_time + 1) * NANOSECONDS
        connected = np.array([self.connected(number) for number in self.number.tolist()])
        own = np.maximum(own, connected)
        self.parent[root] = root
        self._root = int(root[0])
        self.created = table.crtime
        # A change of the entries sets ctime and mtime; a change of the inode sets only ctime.
        self.renamed = np.where(table.ctime != table.mtime, ctime, 0)
        self.renamed = np.where(connected > 0, own, self.renamed)
        self.moved = self.max_with_ancestors(own)
        self.newest = self.max_with_ancestors(self.created)
        self._paths = {ROOT: b""}

    def connected(self, number: int) -> int:
        """Latest time (ns) at which e2fsck can have connected a directory to `lost+found`, or 0."""
        parent, name = self._above.get(number, (0, b""))
        is_connected = self._above.get(parent) == (ROOT, b"lost+found")
        return self._checked if is_connected and name == b"#%d" % number else 0

    def rows(self, numbers: Int64s) -> Rows:
        """The row of each inode number; -1 for none."""
        return SortedIndex(self.number).rows(numbers)

    def max_with_ancestors(self, values: Int64s) -> Int64s:
        """Maximum of the values of each directory and its parents; FOREVER if these form a loop."""
        best, parent = values.copy(), np.maximum(self.parent, 0)
        for _ in range(MAX_DOUBLINGS):
            best, parent = np.maximum(best, best[parent]), parent[parent]
        return np.where(parent == self._root, best, FOREVER)

    def parent_and_name(self, number: int) -> tuple[int, bytes]:
        """(inode number of the parent, name); (0, b"") if the directory is unknown."""
        return self._above.get(number, (0, b""))

    def path(self, number: int) -> bytes | None:
        """Path of a directory; None if it is unknown or its parents form a loop."""
        way: dict[int, None] = {}
        above = number
        while above not in self._paths:
            if above in way or above not in self._above:
                return None
            way[above] = None
            above = self._above[above][0]
        path = self._paths[above]
        for one in reversed(way):
            path += b"/" + self._above[one][1]
            self._paths[one] = path
        return path
