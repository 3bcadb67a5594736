"""Removed entries that kernels before 5.13 leave in directory blocks, and their instances.

Such an entry has a name and an inode number, but no time. It is attributed to the last deleted
instance of that number, unless another inode may have used the number later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s
from ext4kit.history.entry_intervals import SLACK_ENTRY, EntryIntervals
from ext4kit.history.first_instances import creation_times, is_first_instance
from ext4kit.history.history import History
from ext4kit.units import NANOSECONDS

SAME_DELETION_WINDOW = 60 * NANOSECONDS  # between a file and its directory in one deletion
TIME_TOLERANCE = NANOSECONDS  # ns, between unlink and freeing; resolution of small inodes' times


class Bond(IntEnum):
    """The relation of a removed entry to the instance with its inode number."""

    NAMED = 0  # the name of the deleted inode
    IN_USE = 1  # the inode is in use
    NO_INODE = 2  # no deleted inode of the number is known
    OTHER_TYPE = 3  # the inode has another file type than the entry
    USED_AGAIN = 4  # another inode used or may have used the number later
    FREED_LATER = 5  # the inode was freed after the last change of the directory
    AMBIGUOUS = 6  # several removed entries may be the name of the inode


@dataclass(frozen=True, slots=True)
class Removed(Table):
    """Removed entries as columns; (directory, inode number, name) is unique.

    Attributes:
        found: the entries, each as of the last version of its block that has it; `removed` is the
            tid of that version.
        first: tid of the first version with the removed entry.
        instance: last instance of the inode number; -1 if unknown.
        bond: relation to the instance, a `Bond`.
    """

    found: EntryIntervals
    first: Int64s
    instance: Int64s
    bond: Int64s


def distinct_slack_entries(found: EntryIntervals) -> Removed:
    """The distinct removed entries of some intervals, without instances."""
    real = np.array([name not in (b".", b"..") for name in found.name], bool)
    found = found.take(np.flatnonzero((found.last_seen == SLACK_ENTRY) & real))
    columns = (found.name_key, found.inode, found.directory)
    order = np.lexsort((found.removed, *columns))
    ordered = [column[order] for column in columns]
    first, last = np.flatnonzero(starts_group(*ordered)), np.flatnonzero(ends_group(*ordered))
    unknown, bond = np.full(len(first), NO_ROW), np.full(len(first), int(Bond.NO_INODE))
    return Removed(found.take(order[last]), found.removed[order[first]], unknown, bond)


def bind_instances(
    history: History,
    entries: Removed,
    instance: Int64s,
    was_reused: Bools,
    fits: Bools,
    until: Int64s,
) -> Removed:
    """The removed entries with their instances and bonds.

    Args:
        history: history with the instances.
        entries: removed entries.
        instance: instance of each inode number when the entry was last seen; -1 if unknown.
        was_reused: True where the number had an earlier instance.
        fits: True where the instance has the file type of the entry.
        until: latest time (ns) of each removal.
    """
    known = np.flatnonzero(instance >= 0)
    bond = np.full(len(entries), int(Bond.NO_INODE))
    mine, directory = instance[known], entries.found.directory[known]
    touched, made = directory_times(history, directory)
    removed, begin = last_ctimes(history)[mine], creation_times(history)[mine]
    deleted = (directory >= 0) & ~np.append(history.is_allocated, False)[np.maximum(directory, -1)]
    together = deleted & (np.abs(touched - removed) < SAME_DELETION_WINDOW)
    again = was_reused[known] | (begin > np.minimum(touched, until[known]))
    again |= ~is_first_instance(history, mine) & ~together
    result = np.full(len(known), int(Bond.NAMED))
    result[removed > touched + TIME_TOLERANCE] = Bond.FREED_LATER
    result[again | (made > removed)] = Bond.USED_AGAIN
    result[~fits[known]] = Bond.OTHER_TYPE
    result[history.is_allocated[mine]] = Bond.IN_USE
    bond[known] = result
    named = np.flatnonzero(bond == Bond.NAMED)
    _, place, count = np.unique(instance[named], return_inverse=True, return_counts=True)
    bond[named[count[place] > 1]] = Bond.AMBIGUOUS
    return replace(entries, instance=instance, bond=bond)


def directory_times(history: History, directory: Int64s) -> tuple[Int64s, Int64s]:
    """(last change, creation) in ns of directories: instances or negated live inode numbers."""
    instance = np.maximum(directory, 0)
    allocated = (directory < 0) | np.append(history.is_allocated, True)[instance]
    number = np.where(directory < 0, -directory, np.append(history.number, 0)[instance])
    touched = np.append(last_ctimes(history), 0)[instance]
    made = np.append(creation_times(history), 0)[instance]
    known, place = np.unique(number[allocated], return_inverse=True)
    table = history.fs.inode_table(known)
    touched[allocated], made[allocated] = table.ctime[place], table.crtime[place]
    return touched, made


def last_ctimes(history: History) -> Int64s:
    """Per instance: ctime (ns) of its last state; for a deleted one, of the unlink or freeing."""
    return history.states.table.ctime[history.last_rows]
