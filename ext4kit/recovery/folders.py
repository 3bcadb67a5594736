"""Which files lie in the same folder, as far as their names are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.recovery.sources.laying import NOTHING
from ext4kit.recovery.sources.paths import FoundName


class Folders:
    """Numbers for the folders of files that are asked for.

    Args:
        names: of these files.

    Attributes:
        asked: int64, number of the folder of each, NOTHING where it is not known.
    """

    def __init__(self, names: Sequence[FoundName | None]) -> None:
        paths = [_folder(name) for name in names]
        self._numbers: dict[bytes, int] = {}
        for path in paths:
            if path is not None:
                self._numbers.setdefault(path, len(self._numbers))
        self.asked = self._numbered(paths)

    def _numbered(self, paths: Sequence[bytes | None]) -> Any:
        known = self._numbers
        return np.array([NOTHING if one is None else known.get(one, NOTHING) for one in paths], int)

    def of(
        self, fs: FileSystem, number: Any, candidate: Any, names: Sequence[FoundName | None]
    ) -> Any:
        """The same of other files; NOTHING for folders that none of those asked for is in.

        Args:
            fs: the file system.
            number: inode numbers.
            candidate: row in `names` of those that are gone, NOTHING for those that live.
            names: of the candidates.
        """
        found = np.full(len(number), NOTHING)
        gone = np.flatnonzero(candidate != NOTHING)
        found[gone] = self._numbered([_folder(names[row]) for row in candidate[gone].tolist()])
        tree = fs.tree()
        folder = self._numbered(tree.folders)[tree.folder]
        entries = np.flatnonzero(folder != NOTHING)
        entries = entries[np.argsort(tree.number[entries], kind="stable")]
        numbers = tree.number[entries]
        living = np.flatnonzero(candidate == NOTHING)
        if len(numbers):
            at = np.minimum(np.searchsorted(numbers, number[living]), len(numbers) - 1)
            there = numbers[at] == number[living]
            found[living[there]] = folder[entries[at[there]]]
        return found


def _folder(name: FoundName | None) -> bytes | None:
    """Path of the folder that a file was in, from where on it is known."""
    path = (name.path or name.below) if name else None
    return path.rpartition(b"/")[0] if path else None
