"""Which conditions files meet, by their inodes, names and events."""

from __future__ import annotations

import stat
from typing import TypeVar, cast

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.parsers.directory import Names
from ext4kit.parsers.inode import GOOD_OLD_SIZE, Inode, InodeFlags, InodeTable
from ext4kit.parsers.xattr import MAGIC, XATTR_BODY_HEADER, has_body
from ext4kit.timeline import Event, EventKind
from ext4kit.triage.rules.rule import Trait
from ext4kit.units import NANOSECONDS

AGE = 60 * NANOSECONDS  # a tool that sets times later after the creation than this is not unpacking
LOCKS = int(InodeFlags.IMMUTABLE | InodeFlags.APPEND)
SMALL = 256 << 10  # bytes of a content that are compared
_ANY_EXECUTE, _SPECIAL_BITS = 0o111, 0o6000
_USERS = 1000, 65534  # uids of ordinary users
_BODY = MAGIC.to_bytes(XATTR_BODY_HEADER.size, "little")
_FORMAT = 0o170000
_Number = TypeVar("_Number", int, Int64s)


def traits_of(table: InodeTable, since: int) -> dict[Trait, Bools]:
    """For each trait that follows from an inode: whether each inode has it.

    Args:
        table: the inodes.
        since: the first moment that the journal covers, ns.
    """
    made = np.where(table.crtime > 0, table.crtime, table.ctime)
    has = _traits(table.mode, table.uid, table.size, table.flags, table.mtime, made, since)
    return cast("dict[Trait, Bools]", has | {Trait.ATTRIBUTED: _are_attributed(table)})


def _are_attributed(table: InodeTable) -> Bools:
    """Whether each inode has extended attributes, in itself or in a block."""
    at = GOOD_OLD_SIZE + table.extra_isize
    rows = np.flatnonzero((at <= table.raw.shape[1] - len(_BODY)) & (table.extra_isize > 0))
    found: Bools = table.file_acl != 0
    columns = at[rows][:, None] + np.arange(len(_BODY))
    magic = np.frombuffer(_BODY, np.uint8)
    found[rows] |= (table.raw[rows[:, None], columns] == magic).all(axis=1)
    return found


def inode_traits(inode: Inode, since: int) -> set[Trait]:
    """The traits that follow from one inode."""
    made = inode.ctime if inode.crtime is None else inode.crtime
    has = _traits(inode.mode, inode.uid, inode.size, inode.flags, inode.mtime, made, since)
    found = {trait for trait, holds in has.items() if holds}
    is_inside = inode.extra_isize and has_body(inode.raw, inode.extra_isize)
    return found | ({Trait.ATTRIBUTED} if inode.file_acl or is_inside else set())


def _traits(
    mode: _Number,
    uid: _Number,
    size: _Number,
    flags: _Number,
    mtime: _Number,
    made: _Number,
    since: int,
) -> dict[Trait, Bools | bool]:
    kind = mode & _FORMAT
    is_regular = kind == stat.S_IFREG
    is_executable = is_regular & (mode & _ANY_EXECUTE != 0)
    return {
        Trait.REGULAR: is_regular,
        Trait.DIRECTORY: kind == stat.S_IFDIR,
        Trait.LINK: kind == stat.S_IFLNK,
        Trait.EXECUTABLE: is_executable,
        Trait.SETUID: is_executable & (mode & _SPECIAL_BITS != 0),
        Trait.WRITABLE: (kind != stat.S_IFLNK) & (mode & stat.S_IWOTH != 0),
        Trait.OF_A_USER: (uid >= _USERS[0]) & (uid < _USERS[1]),
        Trait.FRESH: mtime >= made - 2 * NANOSECONDS,
        Trait.RECENT: made >= since,
        Trait.EMPTY: size == 0,
        Trait.STORED: size > 0,
        Trait.LOCKED: flags & LOCKS != 0,
        Trait.SMALL: size <= SMALL,
        Trait.REWRITTEN: mtime > made + AGE,
        Trait.ROUNDED: (mtime % NANOSECONDS == 0)
        & (made % NANOSECONDS != 0)
        & (mtime > made + AGE)
        & (size > 0),
    }


def assumed_traits(event: Event) -> set[Trait]:
    """Traits of an inode that is no longer there, as far as an event shows them.

    A change of the mode shows the type; otherwise it is taken for a regular file.
    """
    new = event.new
    if event.kind is EventKind.MODE and isinstance(new, int) and new & _FORMAT:
        return {Trait.FRESH} | ({Trait.REGULAR} if stat.S_ISREG(new) else set())
    return {Trait.REGULAR, Trait.FRESH}


def are_odd(names: Names) -> Bools:
    """True for names with unusual characters, or with dots and blanks at unusual places."""
    if not len(names):
        return np.zeros(0, bool)
    data = np.frombuffer(names.data, np.uint8)
    odd = (data < 0x20) | (data == 0x7F) | (data == 0xE2)
    place = np.flatnonzero(odd)
    ends = names.start + names.length
    inside = np.searchsorted(place, ends) > np.searchsorted(place, names.start)
    first = data[names.start]
    second = data[np.minimum(names.start + 1, len(data) - 1)]
    third = data[np.minimum(names.start + 2, len(data) - 1)]
    dot, blank = ord("."), ord(" ")
    dotted = (first == dot) & ((second == dot) | (second == blank)) & (names.length > 1)
    dotted &= (third == dot) | (third == blank) | (second == blank)
    odd_names: Bools = inside | dotted | (first == blank)
    return odd_names


def event_traits(event: Event, made: int | None) -> set[Trait]:
    """Traits that follow from the values of an event and the creation time of its inode."""
    old, new = event.old, event.new
    if event.kind is EventKind.MODE and isinstance(old, int) and isinstance(new, int):
        gained = new & ~old  # setgid on a file that is not executable has another meaning
        is_gained = gained & stat.S_ISUID or (gained & stat.S_ISGID and new & _ANY_EXECUTE)
        return {Trait.GAINED_SETUID} if is_gained else set()
    if event.kind is EventKind.TRUNCATED:
        return {Trait.SHRUNK if new else Trait.EMPTY}
    if event.mtimes is not None and event.time is not None and made is not None:
        before, mtime = event.mtimes
        late, past = event.time - made > AGE, mtime < made - AGE
        return {Trait.AGED} if late and past and mtime != before else set()
    return set()
