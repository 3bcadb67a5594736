"""Removed entries: names that kernels before 5.13 leave in directory blocks, and whose they were.

Such an entry gives a name and an inode number, and no time. It is the name of the inode that was
deleted last under that number unless the number can have been in use by another one since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from ext4kit.arrays.grouping import ends_group, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.history.entry_intervals import SLACK_ENTRY, EntryIntervals
from ext4kit.history.first_lives import are_first, created
from ext4kit.history.history import History
from ext4kit.units import NANOSECONDS

ONE_REMOVAL = 60 * NANOSECONDS  # between a file and its directory that go together
AT_ONCE = NANOSECONDS  # between a name that goes and its inode; the resolution of small inodes


class Bond(IntEnum):
    """How a removed entry stands to the inode of its number."""

    NAMED = 0  # it is the name of the deleted inode
    ALIVE = 1  # the inode is in use
    NO_INODE = 2  # no deleted inode of the number is known
    OTHER_TYPE = 3  # the inode is of another type than the entry says
    USED_AGAIN = 4  # the number was or can have been in use by another inode since
    GONE_LATER = 5  # the inode went after the last change of the directory
    SEVERAL = 6  # several removed entries can be the name of the inode


@dataclass(frozen=True, slots=True)
class Removed(Table):
    """Removed entries as columns, each name of a number in a directory once.

    Attributes:
        found: where they stand, the last version of each; `gone` is its order.
        first: order of the first version that shows the entry as a removed one.
        life: the life that the number meant last, -1 where none is known.
        bond: a `Bond`.
    """

    found: EntryIntervals
    first: Int64s
    life: Int64s
    bond: Int64s


def distinct(found: EntryIntervals) -> Removed:
    """The removed entries among appearances, none twice; no life is known of any."""
    real = np.array([name not in (b".", b"..") for name in found.name], bool)
    found = found.take(np.flatnonzero((found.last_seen == SLACK_ENTRY) & real))
    columns = (found.name_key, found.inode, found.directory)
    order = np.lexsort((found.removed, *columns))
    ordered = [column[order] for column in columns]
    first, last = np.flatnonzero(starts_group(*ordered)), np.flatnonzero(ends_group(*ordered))
    nobody, bond = np.full(len(first), -1), np.full(len(first), int(Bond.NO_INODE))
    return Removed(found.take(order[last]), found.removed[order[first]], nobody, bond)


def bound(
    history: History, entries: Removed, life: Int64s, reborn: Bools, fits: Bools, until: Int64s
) -> Removed:
    """The entries with the lives that they name.

    Args:
        history: the lives.
        entries: removed entries.
        life: what each number meant when the entry was last seen, -1 when none is known.
        reborn: bool, the number had another life before that.
        fits: bool, the life is of the type that the entry says.
        until: time (ns) before which each entry had been removed.
    """
    known = np.flatnonzero(life >= 0)
    bond = np.full(len(entries), int(Bond.NO_INODE))
    mine, directory = life[known], entries.found.directory[known]
    touched, made = folder_times(history, directory)
    removed, begun = changed(history)[mine], created(history)[mine]
    dead = (directory >= 0) & ~np.append(history.is_allocated, False)[np.maximum(directory, -1)]
    together = dead & (np.abs(touched - removed) < ONE_REMOVAL)
    again = reborn[known] | (begun > np.minimum(touched, until[known]))
    again |= ~are_first(history, mine) & ~together
    result = np.full(len(known), int(Bond.NAMED))
    result[removed > touched + AT_ONCE] = Bond.GONE_LATER
    result[again | (made > removed)] = Bond.USED_AGAIN
    result[~fits[known]] = Bond.OTHER_TYPE
    result[history.is_allocated[mine]] = Bond.ALIVE
    bond[known] = result
    return replace(entries, life=life, bond=_without_several(life, bond))


def _without_several(life: Int64s, bond: Int64s) -> Int64s:
    """`bond`, with SEVERAL for the entries of lives that several ones name."""
    named = np.flatnonzero(bond == Bond.NAMED)
    _, place, count = np.unique(life[named], return_inverse=True, return_counts=True)
    bond[named[count[place] > 1]] = Bond.SEVERAL
    return bond


def folder_times(history: History, directory: Int64s) -> tuple[Int64s, Int64s]:
    """(last change, creation) of directories, ns; lives, or minus numbers of live directories."""
    life = np.maximum(directory, 0)
    alive = (directory < 0) | np.append(history.is_allocated, True)[life]
    number = np.where(directory < 0, -directory, np.append(history.number, 0)[life])
    touched, made = np.append(changed(history), 0)[life], np.append(created(history), 0)[life]
    known, place = np.unique(number[alive], return_inverse=True)
    table = history.fs.inode_table(known)
    touched[alive], made[alive] = table.ctime[place], table.crtime[place]
    return touched, made


def changed(history: History) -> Int64s:
    """Per life: ctime (ns) of its last state; of a deleted one when it was freed or unlinked."""
    return history.states.table.ctime[history.last_rows]
