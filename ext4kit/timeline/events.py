"""Kinds of events, the table of many events, and the single event for output."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from mmap import mmap
from typing import TypedDict, Unpack, final

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int32s, Int64s, UInt8s, UInt32s

BLOCK_ROWS = 1 << 18
NO_VALUE = -1  # stands for a missing value in a column


class EventKind(StrEnum):
    """Kinds of events, in the order in which events of one inode and transaction are listed."""

    CREATED = "created"
    DIRECTORY_MADE = "directory-made"
    LINKED = "linked"
    RENAMED = "renamed"  # given another name in the same directory
    MOVED = "moved"  # moved to another directory
    MODE = "mode"
    OWNER = "owner"
    SIZE = "size"  # the file grew
    TRUNCATED = "truncated"  # the file became shorter
    CONTENT = "content"  # written without a change of size
    TARGET = "target"  # target of a symlink
    XATTR = "xattr"
    ACL = "acl"
    FLAGS = "flags"
    PROJECT = "project"
    TIMES = "times"  # set explicitly
    READ = "read"  # only the access time advanced
    STATUS = "status"  # only ctime advanced: a change without another recorded effect
    ORPHAN_ADDED = "orphan-added"  # unlinked while open, or during a truncation
    ORPHAN_REMOVED = "orphan-removed"
    UNLINKED = "unlinked"  # one of several names was removed
    DELETED = "deleted"
    DIRECTORY_REMOVED = "directory-removed"
    HINT = "hint"  # evidence that deserves attention


KINDS = tuple(EventKind)
CODE = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class EventTable(Table):
    """Events as columns (n,).

    Attributes:
        kind: index into `KINDS`.
        number: inode number.
        generation: generation of the inode.
        order: tid of the first transaction with the change; TID_ON_DISK if only the disk has it.
        exact: True where the change happened in that transaction, False where it may have happened
            in an earlier transaction that the journal no longer has.
        tag_row: row of `log.tags` of the copy that shows the change, -1 if there is none.
        old, new: values before and after, depending on the kind (for a change of owner, the uid);
            NO_VALUE for none.
        old_second, new_second: second values before and after, for kinds with two values (gid,
            access time).
        name_row: row of the name after the event, -1 if the name must be looked up.
        old_name_row: row of the name before the event, -1 for none.
    """

    kind: UInt8s
    number: UInt32s
    generation: UInt32s
    order: Int64s
    exact: Bools
    tag_row: Int32s
    old: Int64s
    new: Int64s
    old_second: Int64s
    new_second: Int64s
    name_row: Int32s
    old_name_row: Int32s

    @property
    def instance(self) -> Int64s:
        """A key of the inode and its generation for each event."""
        return instance_keys(self.number, self.generation)


def instance_keys(number: UInt32s | Int64s, generation: UInt32s | Int64s) -> Int64s:
    """A key of each inode and its generation."""
    return number.astype(np.int64) << 32 | generation.astype(np.int64)


COLUMNS = tuple(part.name for part in fields(EventTable))
_NONE = EventTable.empty()
_TYPES = {name: getattr(_NONE, name).dtype for name in COLUMNS}


class EventValues(TypedDict, total=False):
    """Values before and after in `EventTable`, each an array or one value for all rows."""

    old: Int64s | int
    new: Int64s | int
    old_second: Int64s | int
    new_second: Int64s | int


class EventColumns(EventValues, total=False):
    """Columns of `EventTable`, each an array or one value for all rows."""

    number: Int64s | int
    generation: Int64s | int
    order: Int64s | int
    exact: Bools | bool
    tag_row: Int64s | int
    name_row: Int64s | int
    old_name_row: Int64s | int


def event_table(
    kind: EventKind | Int64s, count: int, **columns: Unpack[EventColumns]
) -> EventTable:
    """A table of events with the given columns; the other columns have no values."""
    code = CODE[kind] if isinstance(kind, EventKind) else kind
    if unknown := columns.keys() - _TYPES.keys():
        raise TypeError(f"no such columns: {', '.join(sorted(unknown))}")
    values = {"kind": code, "exact": True, **columns}
    return EventTable(
        *(
            np.broadcast_to(np.asarray(values.get(name, NO_VALUE)).astype(_TYPES[name]), count)
            for name in COLUMNS
        )
    )


class EventPool:
    """Collects many small tables and builds one table from them.

    Rows are copied into blocks of a fixed size, which are joined column by column. The blocks are
    mapped memory, which is returned to the system as soon as it is free. The peak of memory use is
    therefore little more than the size of the events.
    """

    def __init__(self) -> None:
        self._blocks = {name: [np.empty(0, kind)] for name, kind in _TYPES.items()}
        self._room = self._filled = 0

    def add(self, events: EventTable) -> None:
        """Append a table."""
        start = 0
        while start < len(events):
            if self._filled == self._room:
                for name, blocks in self._blocks.items():
                    kind = _TYPES[name]
                    blocks.append(np.frombuffer(mmap(-1, BLOCK_ROWS * kind.itemsize), kind))
                self._room, self._filled = BLOCK_ROWS, 0
            step = min(len(events) - start, self._room - self._filled)
            for name in COLUMNS:
                piece = getattr(events, name)[start : start + step]
                self._blocks[name][-1][self._filled : self._filled + step] = piece
            self._filled, start = self._filled + step, start + step

    def _join(self, name: str) -> None:
        """Join the blocks of one column; `add` must not be called afterwards."""
        *full, last = self._blocks[name]
        if full:
            self._blocks[name] = [np.concatenate([*full, last[: self._filled]])]

    def keys(self) -> tuple[UInt8s, Int64s, UInt32s]:
        """(kind, order, number) of every event; `add` must not be called afterwards."""
        for name in ("kind", "order", "number"):
            self._join(name)
        return self._blocks["kind"][0], self._blocks["order"][0], self._blocks["number"][0]

    def build(self, index: Int32s) -> EventTable:
        """A table of the rows in `index`; the pool must not be used afterwards."""
        columns = []
        for name in COLUMNS:
            self._join(name)
            columns.append(self._blocks.pop(name)[0][index])
        return EventTable(*columns)


@final
class OwnerValue(TypedDict):
    """Owner and group of an inode."""

    uid: int
    gid: int


@final
class TimesValue(TypedDict):
    """The times of an inode that can be set explicitly, ns."""

    mtime: int
    atime: int


@final
class XattrValue(TypedDict):
    """One extended attribute."""

    name: bytes
    value: bytes


EventValue = int | OwnerValue | TimesValue | XattrValue | None


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ready for output.

    Attributes:
        path: path at the time of the event, None if unknown; for a removal, the path before the
            removal.
        old_path: former path of a renamed or moved file; for a new link, the path that existed
            before.
        uid: owner of the file after the event; None if unknown.
        transaction: stored tid; None if only the disk shows the change.
        time: commit time, ns; None if unknown.
        exact: whether the event happened in this transaction; if not, it may have happened in an
            earlier transaction that the journal no longer has.
        old, new: values before and after, as plain JSON values; None for none.
        reason: text of the reason of a hint.
        source: the journal block with the change, and its home block.
        field: field of the inode that a hint is about, "" for other kinds.
        is_copied: whether a hint is about times of the kind that copying and unpacking tools set.
    """

    kind: EventKind
    path: bytes | None
    old_path: bytes | None
    inode: int
    generation: int
    uid: int | None
    transaction: int | None
    time: int | None
    exact: bool
    old: EventValue
    new: EventValue
    reason: str
    source: str
    field: str = ""
    is_copied: bool = False

    @property
    def mtimes(self) -> tuple[int, int] | None:
        """`mtime` before and after (ns) if times were set explicitly; None for other kinds."""
        old, new = self.old, self.new
        if isinstance(old, dict) and isinstance(new, dict) and "mtime" in old and "mtime" in new:
            return old["mtime"], new["mtime"]
        return None
