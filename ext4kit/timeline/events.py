"""What an event is: kinds, the columns that many events are kept in, one event for showing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int32s, Int64s

BLOCK_ROWS = 1 << 18
NO_VALUE = -1  # in columns that can miss a value


class EventKind(StrEnum):
    """What happened. The order is the one within a transaction and an inode."""

    CREATED = "created"
    DIRECTORY_MADE = "directory-made"
    LINKED = "linked"
    RENAMED = "renamed"  # another name in the same directory
    MOVED = "moved"  # another directory
    MODE = "mode"
    OWNER = "owner"
    SIZE = "size"  # a file grew
    TRUNCATED = "truncated"  # a file became shorter
    CONTENT = "content"  # written, the size stayed
    TARGET = "target"  # of a symlink
    XATTR = "xattr"
    ACL = "acl"
    FLAGS = "flags"
    PROJECT = "project"
    TIMES = "times"  # set by hand
    READ = "read"  # the access time alone went on
    STATUS = "status"  # ctime alone went on: a change that left no other trace
    ORPHAN_ADDED = "orphan-added"  # unlinked while open, or being truncated
    ORPHAN_REMOVED = "orphan-removed"
    UNLINKED = "unlinked"  # one of several names
    DELETED = "deleted"
    DIRECTORY_REMOVED = "directory-removed"
    HINT = "hint"  # something in the evidence that a reader should look at


KINDS = tuple(EventKind)
CODE = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class EventTable(Table):
    """Events as columns (n,).

    Attributes:
        kind: place in `KINDS`.
        number: inode number.
        generation: of the inode.
        order: transaction that first shows the change; NOW for what only the disk shows.
        exact: it happened in that transaction; else in it or in one that is no longer there.
        tag_row: row of `log.tags` of the copy that shows it, -1 without one.
        old, new: values before and after, by kind; NO_VALUE for none. Owner: uid.
        old_second, new_second: second values: gid; access time.
        name_row: row in the names by which the inode went on, -1 to look it up.
        old_name_row: row in the names that it had before, -1 for none.
    """

    kind: npt.NDArray[np.uint8]
    number: npt.NDArray[np.uint32]
    generation: npt.NDArray[np.uint32]
    order: Int64s
    exact: Bools
    tag_row: Int32s
    old: Int64s
    new: Int64s
    old_second: Int64s
    new_second: Int64s
    name_row: Int32s
    old_name_row: Int32s


COLUMNS = tuple(part.name for part in fields(EventTable))
_NONE = EventTable.empty()
_TYPES: dict[str, np.dtype[Any]] = {name: getattr(_NONE, name).dtype for name in COLUMNS}


def event_table(kind: EventKind | Any, count: int, **columns: Any) -> EventTable:
    """Events with the given columns; what is not given has no value."""
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
    """Many small tables that become one.

    They are copied into blocks of a fixed size and the blocks joined column by column. The
    blocks are mapped memory, which goes back to the system at once: there is little more of it
    at any time than the events themselves take.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._whole: dict[str, Any] = {}
        self._room = self._filled = 0

    def add(self, events: EventTable) -> None:
        """Put a table behind the others."""
        start = 0
        while start < len(events):
            if self._filled == self._room:
                self._new_block()
            step = min(len(events) - start, self._room - self._filled)
            for name in COLUMNS:
                piece = getattr(events, name)[start : start + step]
                self._blocks[name][-1][self._filled : self._filled + step] = piece
            self._filled, start = self._filled + step, start + step

    def _new_block(self) -> None:
        for name, blocks in self._blocks.items():
            kind = _TYPES[name]
            blocks.append(np.frombuffer(mmap(-1, BLOCK_ROWS * kind.itemsize), kind))
        self._room, self._filled = BLOCK_ROWS, 0

    def column(self, name: str) -> Any:
        """One column whole; nothing can be put in after that."""
        if name not in self._whole:
            *full, last = [np.empty(0, _TYPES[name]), *self._blocks.pop(name)]
            self._whole[name] = np.concatenate([*full, last[: self._filled]])
        return self._whole[name]

    def build(self, index: Any) -> EventTable:
        """The rows that `index` selects; the pool is of no more use then."""
        return EventTable(*(self._take_column(name, index) for name in COLUMNS))

    def _take_column(self, name: str, index: Any) -> Any:
        whole = self.column(name)
        del self._whole[name]
        return whole[index]


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ready to be shown.

    Attributes:
        path: at the time of the event, None when it is not known; of a removal, the path before.
        old_path: the former path of what was renamed or moved, the existing one of a link.
        names: how many names the inode had.
        transaction: id as stored; None for what only the disk shows.
        time: of the commit, ns; None when it is not known.
        exact: False: it happened in this transaction or in an earlier one that is gone.
        old, new: values before and after, plain JSON values; None for none.
        reason: of a hint, in words.
        source: where: a log block and what it is a copy of.
    """

    kind: EventKind
    path: bytes | None
    old_path: bytes | None
    inode: int
    generation: int
    transaction: int | None
    time: int | None
    exact: bool
    old: Any
    new: Any
    reason: str
    source: str
