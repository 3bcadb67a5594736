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


class Kind(StrEnum):
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


KINDS = tuple(Kind)
CODE = {kind: code for code, kind in enumerate(KINDS)}
NAME_KINDS = (
    Kind.CREATED, Kind.DIRECTORY_MADE, Kind.LINKED, Kind.RENAMED, Kind.MOVED, Kind.ORPHAN_ADDED,
    Kind.UNLINKED, Kind.DELETED, Kind.DIRECTORY_REMOVED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Events(Table):
    """Events as columns (n,).

    Attributes:
        kind: place in `KINDS`.
        number: inode number.
        generation: of the inode.
        order: transaction that first shows the change; NOW for what only the disk shows.
        exact: it happened in that transaction; else in it or in one that is no longer there.
        tag: row of `log.tags` of the copy that shows it, -1 without one.
        old, new: values before and after, by kind; NO_VALUE for none. Owner: uid.
        old_more, new_more: second values: gid; access time.
        name: row in the names by which the inode went on, -1 to look it up.
        old_name: row in the names that it had before, -1 for none.
    """

    kind: npt.NDArray[np.uint8]
    number: npt.NDArray[np.uint32]
    generation: npt.NDArray[np.uint32]
    order: Int64s
    exact: Bools
    tag: Int32s
    old: Int64s
    new: Int64s
    old_more: Int64s
    new_more: Int64s
    name: Int32s
    old_name: Int32s


COLUMNS = tuple(part.name for part in fields(Events))
_NONE = Events.empty()
_TYPES: dict[str, np.dtype[Any]] = {name: getattr(_NONE, name).dtype for name in COLUMNS}


def make_events(kind: Kind | Any, count: int, **columns: Any) -> Events:
    """Events with the given columns; what is not given has no value."""
    code = CODE[kind] if isinstance(kind, Kind) else kind
    values = {"kind": code, "exact": True, **columns}
    return Events(
        *(
            np.broadcast_to(np.asarray(values.get(name, NO_VALUE)).astype(_TYPES[name]), count)
            for name in COLUMNS
        )
    )


class Pool:
    """Many small tables that become one.

    They are copied into blocks of a fixed size and the blocks joined column by column. The
    blocks are mapped memory, which goes back to the system at once: there is little more of it
    at any time than the events themselves take.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._whole: dict[str, Any] = {}
        self._room = self._filled = 0

    def add(self, events: Events) -> None:
        """Put a table behind the others."""
        start = 0
        while start < len(events):
            if self._filled == self._room:
                self._open_blocks()
            step = min(len(events) - start, self._room - self._filled)
            for name in COLUMNS:
                piece = getattr(events, name)[start : start + step]
                self._blocks[name][-1][self._filled : self._filled + step] = piece
            self._filled, start = self._filled + step, start + step

    def _open_blocks(self) -> None:
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

    def events(self, index: Any) -> Events:
        """The rows that `index` selects; the pool is of no more use then."""
        return Events(*(self._taken(name, index) for name in COLUMNS))

    def _taken(self, name: str, index: Any) -> Any:
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
        seen: where: a log block and what it is a copy of.
    """

    kind: Kind
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
    seen: str
