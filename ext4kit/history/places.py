"""Where directories stand, and since when: what tells the path of a removed entry.

A rename sets the ctime of the directory that it moves, and that of both directories above
(kernel fs/ext4/namei.c, `ext4_rename`). A directory whose ctime, or that of the directory above
it, is older than a removal has stood where it is ever since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.units import NANOSECONDS

FOREVER = int(np.iinfo(np.int64).max)
DEEPEST = 12  # doublings: directories in each other are followed up to 4096


class Ground(StrEnum):
    """What a path rests on."""

    JOURNAL = "journal"  # what the journal tells of the time of the removal
    PROVEN = "proven"  # no directory on the way can have been moved since the removal
    PRESENT_PLACE = "present place"  # where its directory stands, or stood when it went itself


@dataclass(frozen=True, slots=True)
class DirectoryPlace:
    """A path, and what it rests on."""

    path: bytes
    ground: Ground


class LiveFolders:
    """The directories that live, by number, the root among them.

    Args:
        fs: the file system.
        above: number of each directory -> (that of the one it is in, its name).

    Attributes:
        number: ascending.
        created: ns.
        renamed: when (ns) each may have been renamed last, as its own times tell, 0 for never.
        moved: the latest time (ns) at which each, or one above it, can have been moved.
        newest: the latest creation (ns) among each and those above it.
    """

    def __init__(self, fs: FileSystem, above: Mapping[int, tuple[int, bytes]]) -> None:
        self._above = above
        self.number = np.unique([ROOT, *above])
        parents = [above.get(number, (ROOT, b""))[0] for number in self.number.tolist()]
        self._parent = self.rows(np.array(parents, np.int64))
        table = fs.inode_table(self.number)
        ctime = table.ctime + (NANOSECONDS - 1) * (table.ctime % NANOSECONDS == 0)
        own = np.minimum(ctime, ctime[self._parent])
        own[self._parent < 0] = FOREVER
        root = self.rows(np.array([ROOT]))
        own[root] = 0
        self._parent[root] = root
        self._root = int(root[0])
        self.created = table.crtime
        # What is done in a directory sets both; what is done to it sets ctime alone.
        self.renamed = np.where(table.ctime != table.mtime, ctime, 0)
        self.moved, self.newest = self.highest(own), self.highest(self.created)
        self._paths = {ROOT: b""}

    def rows(self, numbers: Int64s) -> Rows:
        """The row of each number, -1 for none."""
        return SortedIndex(self.number).rows(numbers)

    def highest(self, values: Int64s) -> Int64s:
        """Per directory: the highest value of it and those above; FOREVER where these go round."""
        best, parent = values.copy(), np.maximum(self._parent, 0)
        for _ in range(DEEPEST):
            best, parent = np.maximum(best, best[parent]), parent[parent]
        return np.where(parent == self._root, best, FOREVER)

    def stands_at(self, number: int) -> tuple[int, bytes]:
        """(number of the directory it is in, its name); (0, b"") for one that is not here."""
        return self._above.get(number, (0, b""))

    def path(self, number: int) -> bytes | None:
        """Its path; None for one that is not here, and where directories go round."""
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
