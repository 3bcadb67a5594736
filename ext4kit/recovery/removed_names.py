"""Removed names: directory entries that are not reported as the name of a deleted file.

That a file with such a name existed is evidence by itself. Each entry has a reason why it is not
reported as the name of the inode whose number it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import with_inodes
from ext4kit.history import PathHistory
from ext4kit.history.removed import Bond, directory_times
from ext4kit.parsers.directory import FILE_TYPES
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.found_entries import FoundEntries, directory_instances
from ext4kit.recovery.model import RemovedName, Unbound
from ext4kit.recovery.names import CandidateNames, KnownName

AT_ONCE = 1 << 14  # inodes read at a time
_REASONS = {
    Bond.NAMED: Unbound.OTHER_NAME,
    Bond.IN_USE: Unbound.IN_USE,
    Bond.NO_INODE: Unbound.NO_INODE,
    Bond.OTHER_TYPE: Unbound.OTHER_TYPE,
    Bond.USED_AGAIN: Unbound.USED_AGAIN,
    Bond.FREED_LATER: Unbound.GONE_LATER,
    Bond.AMBIGUOUS: Unbound.SEVERAL,
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry: inode number (0 for none), type, name, directory, and why it is unbound."""

    inode: int
    file_type: int
    name: bytes
    folder: _Folder
    reason: Unbound


@dataclass(frozen=True, slots=True)
class _Folder:
    """A directory with removed entries: its inode number and path."""

    number: int
    path: bytes | None


def find_removed_names(names: CandidateNames, candidates: Candidates) -> list[RemovedName]:
    """The entries that are not names of deleted files, sorted by path.

    They are in the slack of directory blocks, in journal copies and in freed blocks of directories.
    Copies of entries in use, which the index of a directory leaves behind, are not removed names.

    Args:
        names: names of all candidates.
        candidates: all candidates.
    """
    states = names.paths.history.states
    last = states.instance[candidates.state_row], names.names
    entries = [*_in_slack(names.paths), *_in_journal(names.paths)]
    entries += _in_freed_blocks(names.paths, names.unattributed, last)
    numbers = np.unique(np.array([one.inode for one in entries], np.int64))
    numbers = numbers[numbers > 0]
    named = _names_of(states.table.number[candidates.state_row], names.names, numbers)
    given = {(name.path, number) for number, name in named if name.path is not None}
    nameless = {(number, name.name) for number, name in named if name.path is None}
    used = set(_in_use(names.paths.history.fs, numbers))
    tree = names.paths.history.fs.tree(only=with_inodes(numbers))
    rows = np.flatnonzero(np.isin(tree.inode, numbers))
    live = set(zip(tree.paths_of(rows), tree.inode[rows].tolist(), strict=True))
    found = set[RemovedName]()
    for one in entries:
        path = None if one.folder.path is None else one.folder.path + b"/" + one.name
        if (path, one.inode) in given or (path, one.inode) in live:
            continue
        reason = one.reason
        if one.inode == 0:
            reason = Unbound.NO_NUMBER
        elif one.inode in used:
            reason = Unbound.IN_USE
        elif reason == Unbound.OTHER_NAME and (one.inode, one.name) in nameless:
            reason = Unbound.MOVED
        kind = FILE_TYPES.get(one.file_type, "unknown")
        number = one.inode or None
        found.add(RemovedName(path, one.name, one.folder.number, number, kind, reason))
    ordered = sorted(found, key=lambda one: (one.path or b"", one.name, one.inode or 0, one.reason))
    once = {(one.path, one.name, one.directory, one.inode): one for one in reversed(ordered)}
    return list(reversed(once.values()))


def _names_of(
    keys: Int64s, names: Sequence[KnownName | None], wanted: Int64s
) -> list[tuple[int, KnownName]]:
    """(key, name) for the known names with one of the wanted keys."""
    rows = np.flatnonzero(np.isin(keys, wanted)).tolist()
    return [(int(keys[row]), name) for row in rows if (name := names[row]) is not None]


def _in_use(fs: FileSystem, numbers: Int64s) -> Iterator[int]:
    """The numbers among `numbers` of inodes in use."""
    for start in range(0, len(numbers), AT_ONCE):
        table = fs.inode_table(numbers[start : start + AT_ONCE])
        yield from table.number[(table.mode != 0) & (table.links_count > 0)].tolist()


def _in_slack(paths: PathHistory) -> Iterator[_Entry]:
    """Removed entries that were not cleared."""
    removed = paths.names.removed
    found = removed.found
    folders = _folders(paths, found.directory)
    columns = found.inode.tolist(), found.file_type.tolist(), found.name
    reasons = [_REASONS[Bond(bond)] for bond in removed.bond.tolist()]
    return map(_Entry, *columns, folders, reasons)


def _in_journal(paths: PathHistory) -> Iterator[_Entry]:
    """Entries in the journal whose instances cannot be determined from inode states."""
    found = paths.names.unattributed
    real = [name not in (b".", b"..") for name in found.name]
    found = found.take(np.flatnonzero(real))
    folders = _folders(paths, found.directory)
    return _of_unknown(found.inode, found.file_type, found.name, folders)


def _in_freed_blocks(
    paths: PathHistory, found: FoundEntries, last: tuple[Int64s, Sequence[KnownName | None]]
) -> Iterator[_Entry]:
    """Entries of found directory blocks that are not names of deleted files.

    Args:
        paths: names and paths over time.
        found: the entries.
        last: (instances of deleted files, the last name of each).
    """
    above = directory_instances(paths.history, found)
    known = np.flatnonzero(above >= 0)
    names = dict(_names_of(*last, above[known]))
    folders = [_Folder(number, None) for number in found.directory.tolist()]
    for row, folder in zip(known.tolist(), _folders(paths, above[known]), strict=True):
        name = names.get(int(above[row]))
        path = folder.path if name is None or name.path is None else name.path
        folders[row] = _Folder(folder.number, path)
    return _of_unknown(found.inode, found.file_type, found.name.tolist(), folders)


def _of_unknown(
    number: Int64s, file_type: Int64s, names: list[bytes], folders: list[_Folder]
) -> Iterator[_Entry]:
    """Entries whose inode number had no known instance at that time."""
    columns = number.tolist(), file_type.tolist(), names, folders
    return map(_Entry, *columns, repeat(Unbound.USED_AGAIN))


def _folders(paths: PathHistory, directory: Int64s) -> list[_Folder]:
    """The directory of each instance; a negative value is a negated live inode number.

    A freed directory gets its last known path.
    """
    one, place = np.unique(directory, return_inverse=True)
    known = paths.history
    folders = []
    for instance in one.tolist():
        number = -instance if instance < 0 else int(known.number[instance])
        if instance < 0 or known.is_allocated[instance]:
            folders.append(_Folder(number, paths.live.path(number)))
        else:
            touched, _ = directory_times(known, np.array([instance]))
            stood = paths.directory_place(instance, int(touched[0]))
            folders.append(_Folder(number, None if stood is None else stood.path))
    return [folders[at] for at in place.tolist()]
