"""Changes of extended attributes and access control lists, stored in inodes or in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.xattrs import read_xattrs
from ext4kit.history import TID_ON_DISK
from ext4kit.journal import BlockHistory
from ext4kit.parsers.inode import InodeTable
from ext4kit.parsers.xattr import GOOD_OLD_SIZE, XATTR_BLOCK_HEADER
from ext4kit.problems import Problems
from ext4kit.timeline.events import CODE, EventColumns, EventKind, EventTable, event_table
from ext4kit.timeline.transitions import InodeStatus, StateBatch

ACL_PREFIX = b"system.posix_acl_"


@dataclass(frozen=True, slots=True)
class XattrChange:
    """The values of one attribute before and after a change; None where it did not exist."""

    name: bytes
    old: bytes | None
    new: bytes | None


class XattrChangeFinder:
    """Finds changed attributes.

    Attributes:
        found: the changes; `EventTable.new` of an attribute event is an index in this list.
    """

    def __init__(self, fs: FileSystem, history: BlockHistory) -> None:
        self.fs, self.history = fs, history
        self.found: list[XattrChange] = []
        self._compared: set[tuple[int, int]] = set()  # (number, order)
        # columns: number, generation, order, block
        self._holders: list[tuple[Int64s, Int64s, Int64s, Int64s]] = []

    def compare_states(self, states: StateBatch, rows: Rows, before: Int64s) -> EventTable:
        """Events for states whose attributes differ from those of their previous states.

        Args:
            states: the states.
            rows: rows of the states to compare.
            before: rows of their previous states.
        """
        self._note_block_owners(states)
        table = states.table
        differs = _inline_bodies_differ(table, rows, before)
        differs |= table.file_acl[rows] != table.file_acl[before]
        parts = []
        for row, earlier in zip(rows[differs].tolist(), before[differs].tolist(), strict=True):
            order = int(states.tid[row])
            self._compared.add((int(table.number[row]), order))
            old = self._xattrs_of(table, earlier, order - 1)
            new = self._xattrs_of(table, row, order)
            columns = EventColumns(
                number=int(table.number[row]), generation=int(table.generation[row]), order=order,
                exact=bool(states.exact[row]), tag_row=int(states.tag_row[row]),
            )  # fmt: skip
            parts.append(self._events(old, new, columns))
        return EventTable.concat(parts)

    def compare_blocks(self, baseline: Callable[[Int64s], Int64s]) -> EventTable:
        """Events for attribute blocks that were changed in place; called after all states.

        Args:
            baseline: function that maps each tid to the tid after which all changes are known.
        """
        number, generation, begin, end, block = self._block_owners()
        parts: list[EventTable] = []
        for changed, old_tag, tag in self._changed_blocks(np.unique(block)):
            order, earlier = (int(self.history.log.tags.order[each]) for each in (tag, old_tag))
            exact = earlier >= int(baseline(np.array([order]))[0])
            first, last = np.searchsorted(block, [changed, changed + 1])
            holding = (begin[first:last] < order) & (order < end[first:last])
            for row in (first + np.flatnonzero(holding)).tolist():
                if (int(number[row]), order) in self._compared:
                    continue  # inode body and block were compared together
                old, new = (self._parse(b"", 0, self._read_copy(each)) for each in (old_tag, tag))
                columns = EventColumns(
                    number=int(number[row]), generation=int(generation[row]), order=order,
                    exact=exact, tag_row=tag,
                )  # fmt: skip
                parts.append(self._events(old, new, columns))
        return EventTable.concat(parts)

    # -- owners of blocks -----------------------------------------------------------------

    def _note_block_owners(self, states: StateBatch) -> None:
        """Record which inodes gained or lost an attribute block, and at which tid."""
        table, before = states.table, np.maximum(states.previous_row, 0)
        has = (table.file_acl != 0) & (states.status >= InodeStatus.ORPHAN)
        had = has[before] & (states.previous_row >= 0)
        same = (table.file_acl == table.file_acl[before]) & had
        same &= table.generation == table.generation[before]
        changed = np.where(has, ~same, had) & ~states.repeated
        rows = np.flatnonzero(changed)
        if len(rows):
            block = np.where(has, table.file_acl, 0)[rows]
            order = states.tid[rows]
            self._holders.append((table.number[rows], table.generation[rows], order, block))

    def _block_owners(self) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """(number, generation, begin, end, block) of each ownership of an attribute block."""
        nothing = (np.zeros(0, np.int64),) * 4
        parts = zip(*[nothing, *self._holders], strict=True)
        number, generation, begin, block = (np.concatenate(part) for part in parts)
        sort = np.lexsort((begin, number))
        number, generation, begin, block = (
            column[sort] for column in (number, generation, begin, block)
        )
        end = np.full(len(number), TID_ON_DISK)
        same = number[1:] == number[:-1]
        end[:-1][same] = begin[1:][same]
        kept = np.flatnonzero(block)
        kept = kept[np.argsort(block[kept], kind="stable")]
        return number[kept], generation[kept], begin[kept], end[kept], block[kept]

    def _changed_blocks(self, blocks: Int64s) -> Iterator[tuple[int, int, int]]:
        """(block, previous tag, tag) of copies with other attributes than the previous copy."""
        history = self.history
        chosen = np.flatnonzero(np.isin(history.blocks, blocks))
        step, size = history.log.reader.chunk, XATTR_BLOCK_HEADER.size
        for start in range(0, len(chosen), step):
            places = chosen[max(start - 1, 0) : start + step]
            data = history.log.read_copies(history.tag_rows[places])[:, size:]
            follows = history.blocks[places[1:]] == history.blocks[places[:-1]]
            differs = follows & (data[1:] != data[:-1]).any(axis=1)
            for row in np.flatnonzero(differs).tolist():
                old, new = places[row], places[row + 1]
                block = int(history.blocks[new])
                yield block, int(history.tag_rows[old]), int(history.tag_rows[new])

    # -- attributes -----------------------------------------------------------------------

    def _xattrs_of(self, table: InodeTable, row: int, order: int) -> dict[bytes, bytes]:
        block = int(table.file_acl[row])
        data = self._block_at(block, order) if block else None
        return self._parse(table.raw[row].tobytes(), int(table.extra_isize[row]), data)

    def _block_at(self, block: int, order: int) -> bytes | None:
        """The bytes of an attribute block as of a transaction; None if unknown."""
        tag = int(self.history.newest_copies(np.array([block]), order)[0])
        if tag >= 0:
            return self._read_copy(tag)
        rows, readable = self.fs.fetch(np.array([block]))
        return rows[0].tobytes() if readable[0] else None

    def _read_copy(self, tag: int) -> bytes:
        return bytes(self.history.log.read_copies(np.array([tag]))[0].tobytes())

    def _parse(self, raw: bytes, extra_isize: int, block: bytes | None) -> dict[bytes, bytes]:
        """Values by attribute name; a value in a separate inode is given as its inode number."""
        return read_xattrs(raw, extra_isize, block, _external_value, Problems())

    def _events(
        self, old: dict[bytes, bytes], new: dict[bytes, bytes], columns: EventColumns
    ) -> EventTable:
        """One event for each attribute that differs, with the given columns."""
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        first = len(self.found)
        self.found += [XattrChange(name, old.get(name), new.get(name)) for name in names]
        is_acl = np.array([name.startswith(ACL_PREFIX) for name in names], bool)
        kind = np.where(is_acl, CODE[EventKind.ACL], CODE[EventKind.XATTR])
        columns["new"] = np.arange(first, len(self.found))
        return event_table(kind, len(names), **columns)


def _external_value(number: int, size: int) -> bytes:
    return b"(in inode %d)" % number


def _inline_bodies_differ(table: InodeTable, rows: Rows, before: Int64s) -> Bools:
    """Per pair (bool): True where the bytes after the extra inode fields differ."""
    raw = table.raw[:, GOOD_OLD_SIZE:]
    if not raw.shape[1]:
        return np.zeros(len(rows), bool)
    extra = np.minimum(table.extra_isize[rows], table.extra_isize[before])
    differs = raw[rows] != raw[before]
    differs &= np.arange(raw.shape[1]) >= extra[:, None]
    found: Bools = np.any(differs, axis=1)
    return found
