"""Removed names: entries left in directories that are not given as the name of a deleted file.

That someone had a file of that name is evidence by itself. Each tells why it is not said to be
the name of the inode whose number stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools
from ext4kit.history import NameHistory
from ext4kit.history.removed import Bond, Removed, folder_times
from ext4kit.parsers.directory import FILE_TYPES
from ext4kit.recovery.model import DeletedFile, RemovedName, Unbound

_REASONS = {
    Bond.NAMED: Unbound.OTHER_NAME,
    Bond.ALIVE: Unbound.IN_USE,
    Bond.NO_INODE: Unbound.NO_INODE,
    Bond.OTHER_TYPE: Unbound.OTHER_TYPE,
    Bond.USED_AGAIN: Unbound.USED_AGAIN,
    Bond.GONE_LATER: Unbound.GONE_LATER,
    Bond.SEVERAL: Unbound.SEVERAL,
}


def find_removed_names(history: NameHistory, files: list[DeletedFile]) -> list[RemovedName]:
    """The removed entries that are not among the names of deleted files, by path.

    Copies of entries that are in use, as a directory's index leaves them, are none.

    Args:
        history: names over time.
        files: all deleted files.
    """
    removed = history.removed
    given = {(file.path, file.number) for file in files if file.path is not None}
    nameless = {(file.number, file.name) for file in files if file.path is None}
    live = _living_entries(history, removed)
    found = [
        one
        for one in _all(history, removed, nameless)
        if (one.path, one.inode) not in given and (one.path, one.inode) not in live
    ]
    return sorted(found, key=lambda one: (one.path or b"", one.name, one.inode or 0))


def _living_entries(history: NameHistory, removed: Removed) -> set[tuple[bytes | None, int | None]]:
    """(path, inode number) of the entries in use of all numbers that removed ones name."""
    tree = history.history.fs.tree()
    rows = np.flatnonzero(np.isin(tree.inode, removed.found.inode))
    return set(zip(tree.paths_of(rows), tree.inode[rows].tolist(), strict=True))


def _all(
    history: NameHistory, removed: Removed, nameless: set[tuple[int | None, bytes | None]]
) -> Iterator[RemovedName]:
    """Every removed entry as one that is no name of a deleted file."""
    found = removed.found
    in_use = _are_in_use(history, removed)
    folders = [_Folder.of(history, one) for one in np.unique(found.directory).tolist()]
    by_life = {folder.life: folder for folder in folders}
    columns = found.inode.tolist(), found.directory.tolist(), found.file_type.tolist()
    rows = zip(*columns, found.name, removed.bond.tolist(), in_use.tolist(), strict=True)
    for child, directory, file_type, name, bond, used in rows:
        folder = by_life[directory]
        reason = _REASONS[Bond(bond)]
        if child == 0:
            reason = Unbound.NO_NUMBER
        elif used:
            reason = Unbound.IN_USE
        elif bond == Bond.NAMED and (child, name) in nameless:
            reason = Unbound.MOVED
        path = None if folder.path is None else folder.path + b"/" + name
        kind = FILE_TYPES.get(file_type, "unknown")
        yield RemovedName(path, name, folder.number, child or None, kind, reason)


def _are_in_use(history: NameHistory, removed: Removed) -> Bools:
    """Per entry (bool): a live inode has its number."""
    numbers, place = np.unique(removed.found.inode, return_inverse=True)
    known = numbers > 0
    used = np.zeros(len(numbers), bool)
    table = history.history.fs.inode_table(numbers[known])
    used[known] = (table.mode != 0) & (table.links_count > 0)
    return used[place]


@dataclass(frozen=True, slots=True)
class _Folder:
    """A directory with removed entries: its life or minus its number, its number, its path."""

    life: int
    number: int
    path: bytes | None

    @classmethod
    def of(cls, history: NameHistory, life: int) -> _Folder:
        number = -life if life < 0 else int(history.history.number[life])
        if life < 0 or history.history.is_allocated[life]:
            return cls(life, number, history.live.path(number))
        touched, _ = folder_times(history.history, np.array([life]))
        place = history.folder_place(life, int(touched[0]))
        return cls(life, number, None if place is None else place.path)
