"""What other files tell of one: those of its directory, and those with its time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import Inode, InodeTable
from ext4kit.timeline import Event
from ext4kit.triage.rules.rule import Trait
from ext4kit.triage.rules.traits import AGE
from ext4kit.units import NANOSECONDS

_FEW = 3  # files that must have been there before, for one to be lone
_SHARE = 10  # at most one of so many others may be new
_APART = 60 * NANOSECONDS  # files of one installation are made together
_AROUND = 3600 * NANOSECONDS  # a copy is made at most so long before a file is cut
_PACKED = (b".gz", b".xz", b".bz2", b".zst", b".lz4", b".Z")


class Neighbours:
    """The other files.

    Args:
        fs: the file system.
        directories: path of each live directory -> its inode number.
        since: the first moment that the journal covers, ns.
    """

    def __init__(self, fs: FileSystem, directories: Mapping[bytes, int], since: int) -> None:
        self._fs, self._directories, self._since = fs, directories, since
        self._known: dict[int, tuple[list[bytes], InodeTable] | None] = {}

    def traits(self, path: bytes, inode: Inode | None, event: Event) -> set[Trait]:
        """Which of the traits that follow from other files a file has at an event."""
        is_borrowed = inode is not None and self._is_borrowed(inode)
        beside = self._beside(path, inode, event)
        return beside | {Trait.BORROWED} if is_borrowed else beside

    def _is_borrowed(self, inode: Inode) -> bool:
        """Whether it is newer than it says, and an older file has exactly its time."""
        made = inode.crtime or inode.ctime
        if made < self._since or inode.mtime > made - AGE:
            return False
        times, first = self._old_times
        at = int(np.searchsorted(times, inode.mtime))
        is_known = at < len(times) and int(times[at]) == inode.mtime
        return is_known and int(first[at]) < made - _APART

    @cached_property
    def _old_times(self) -> tuple[Int64s, Int64s]:
        """Times of last change of files made before the period, sorted; their first creation."""
        found = [np.zeros((2, 0), np.int64)]
        for table in self._fs.inode_batches():
            made = np.where(table.crtime > 0, table.crtime, table.ctime)
            old = table.is_regular & (table.links_count > 0) & (made < self._since)
            found.append(np.stack((table.mtime[old], made[old])))
        times, made = np.concatenate(found, axis=1)
        order = np.lexsort((made, times))
        unique, first = np.unique(times[order], return_index=True)
        return unique, made[order][first]

    def _beside(self, path: bytes, inode: Inode | None, event: Event) -> set[Trait]:
        folder, _, name = path.rpartition(b"/")
        found = self._files_of(folder)
        if found is None:
            return set()
        names, table = found
        is_lone = inode is not None and self._is_lone(name, inode, names, table)
        since = None if inode is None else inode.crtime
        is_copied = self._is_copied(name, since, event, names, table)
        both = ((Trait.LONE, is_lone), (Trait.COPIED, is_copied))
        return {trait for trait, holds in both if holds}

    def _files_of(self, folder: bytes) -> tuple[list[bytes], InodeTable] | None:
        number = self._directories.get(folder)
        if number is None:
            return None
        if number not in self._known:
            self._known[number] = self._read(number)
        return self._known[number]

    def _read(self, number: int) -> tuple[list[bytes], InodeTable] | None:
        try:
            entries = self._fs.entries(number)
        except Ext4kitError:
            return None
        most = self._fs.superblock.inodes_count
        inside = [one for one in entries if 0 < one.inode <= most]
        table = self._fs.inode_table(np.array([one.inode for one in inside], np.int64))
        rows = np.flatnonzero(table.is_regular)
        return [inside[row].name for row in rows.tolist()], table.take(rows)

    def _is_lone(self, name: bytes, inode: Inode, names: list[bytes], table: InodeTable) -> bool:
        """Whether it was written in the period, and at most a tenth of its like was."""
        like = np.array([_ending(one) == _ending(name) for one in names], bool)
        like &= table.number != inode.number
        new = int(np.count_nonzero(like & (table.mtime >= self._since)))
        old = int(np.count_nonzero(like)) - new
        return inode.mtime >= self._since and old >= _FEW and new * _SHARE <= old

    def _is_copied(
        self, name: bytes, since: int | None, event: Event, names: list[bytes], table: InodeTable
    ) -> bool:
        """Whether a copy was made shortly before an event.

        A log that was rotated by name is older than the log that followed it, and no copy of it.
        """
        if event.time is None or not isinstance(event.old, int):
            return False
        copies = np.array([one != name and one.startswith(name) for one in names], bool)
        packed = np.array([one.endswith(_PACKED) for one in names], bool)
        made = np.where(table.crtime > 0, table.crtime, table.mtime)
        then: Bools = (np.abs(made - event.time) <= _AROUND) & (made >= (since or 0))
        large = (table.size >= event.old) | (packed & (table.size > 0))
        return bool((copies & then & large).any())


def _ending(name: bytes) -> bytes:
    return name.rpartition(b".")[2]
