"""Directory ids: files of one directory have the same id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.matching.transitions import NOTHING
from ext4kit.recovery.names import KnownName


class DirectoryIds:
    """Ids of the directories of files to match.

    Args:
        names: names of these files.

    Attributes:
        of_files: int64, directory id of each file, NOTHING where the path is unknown.
    """

    def __init__(self, names: Sequence[KnownName | None]) -> None:
        paths = [_directory_of(name) for name in names]
        self._numbers: dict[bytes, int] = {}
        for path in paths:
            if path is not None:
                self._numbers.setdefault(path, len(self._numbers))
        self.of_files = self._assign_ids(paths)

    def _assign_ids(self, paths: Sequence[bytes | None]) -> Int64s:
        known = self._numbers
        return np.array([NOTHING if one is None else known.get(one, NOTHING) for one in paths], int)

    def of_known_files(
        self, fs: FileSystem, number: Int64s, candidate: Int64s, names: Sequence[KnownName | None]
    ) -> Int64s:
        """Directory ids of other files, NOTHING for directories without files to match.

        Args:
            fs: the file system.
            number: inode numbers.
            candidate: row in `names` of deleted files, NOTHING for allocated ones.
            names: names of the candidates.
        """
        found = np.full(len(number), NOTHING)
        removed = np.flatnonzero(candidate != NOTHING)
        found[removed] = self._assign_ids(
            [_directory_of(names[row]) for row in candidate[removed].tolist()]
        )
        tree = fs.tree()
        folder = self._assign_ids(tree.folders)[tree.folder]
        entries = np.flatnonzero(folder != NOTHING)
        entries = entries[np.argsort(tree.inode[entries], kind="stable")]
        living = np.flatnonzero(candidate == NOTHING)
        row = SortedIndex(tree.inode[entries]).rows(number[living])
        there = row != NO_ROW
        found[living[there]] = folder[entries[row[there]]]
        return found


def _directory_of(name: KnownName | None) -> bytes | None:
    """Path or partial path of the directory of a file."""
    path = (name.path or name.partial_path) if name else None
    return path.rpartition(b"/")[0] if path else None
