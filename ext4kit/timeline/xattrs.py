"""Changes of extended attributes and access control lists, in inode bodies and in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.xattrs import read_xattrs
from ext4kit.findings import Problems
from ext4kit.journal import History
from ext4kit.parsers.inode import InodeTable
from ext4kit.parsers.xattr import GOOD_OLD_SIZE, XATTR_BLOCK_HEADER
from ext4kit.past import NOW
from ext4kit.timeline.events import CODE, Events, Kind, make_events
from ext4kit.timeline.states import Stage, States

ACL_PREFIX = b"system.posix_acl_"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute before and after; None where it was not there."""

    name: bytes
    old: bytes | None
    new: bytes | None


class AttributeChanges:
    """Finds changed attributes.

    Attributes:
        found: the changes; `Events.new` of an attribute's event is a place in it.
    """

    def __init__(self, fs: FileSystem, history: History) -> None:
        self.fs, self.history = fs, history
        self.found: list[Attribute] = []
        self._compared: set[tuple[int, int]] = set()  # (number, order)
        self._holders: list[tuple[Any, ...]] = []  # columns: number, generation, order, block

    def compare(self, states: States, rows: Any, before: Any) -> Events:
        """Events of states whose attributes are not those of the state before.

        Args:
            states: the states.
            rows: those to look at.
            before: the states that they go on from.
        """
        self._hold(states)
        table = states.table
        differs = _bodies_differ(table, rows, before)
        differs |= table.file_acl[rows] != table.file_acl[before]
        parts = []
        for row, earlier in zip(rows[differs].tolist(), before[differs].tolist(), strict=True):
            order = int(states.order[row])
            self._compared.add((int(table.number[row]), order))
            old = self._attributes(table, earlier, order - 1)
            new = self._attributes(table, row, order)
            parts += self._events(
                old, new, int(table.number[row]), int(table.generation[row]), order,
                bool(states.exact[row]), int(states.tag[row]),
            )  # fmt: skip
        return Events.concat(parts)

    def in_blocks(self, baseline: Any) -> Events:
        """Events of attribute blocks that were changed in place, once all states were seen.

        Args:
            baseline: transaction orders -> the ones after which all changes are known.
        """
        number, generation, begin, end, block = self._tenures()
        parts: list[Events] = []
        for changed, old_tag, tag in self._changed_blocks(np.unique(block)):
            order, earlier = (int(self.history.log.tags.order[each]) for each in (tag, old_tag))
            exact = earlier >= int(baseline(np.array([order]))[0])
            first, last = np.searchsorted(block, [changed, changed + 1])
            holding = (begin[first:last] < order) & (order < end[first:last])
            for row in (first + np.flatnonzero(holding)).tolist():
                if (int(number[row]), order) in self._compared:
                    continue  # body and block were looked at together
                old, new = (self._parse(b"", 0, self._copy(each)) for each in (old_tag, tag))
                parts += self._events(
                    old, new, int(number[row]), int(generation[row]), order, exact, tag
                )
        return Events.concat(parts)

    # -- holders of blocks ----------------------------------------------------------------

    def _hold(self, states: States) -> None:
        """Note which inodes got or lost an attribute block, and when."""
        table, before = states.table, np.maximum(states.before, 0)
        has = (table.file_acl != 0) & (states.stage >= Stage.ORPHAN)
        had = has[before] & (states.before >= 0)
        same = (table.file_acl == table.file_acl[before]) & had
        same &= table.generation == table.generation[before]
        turn = np.where(has, ~same, had) & ~states.carried
        rows = np.flatnonzero(turn)
        if len(rows):
            block = np.where(has, table.file_acl, 0)[rows]
            order = states.order[rows]
            self._holders.append((table.number[rows], table.generation[rows], order, block))

    def _tenures(self) -> tuple[Any, Any, Any, Any, Any]:
        """(number, generation, begin, end, block): who had which block when, by block."""
        nothing = (np.zeros(0, np.int64),) * 4
        parts = zip(*[nothing, *self._holders], strict=True)
        number, generation, begin, block = (np.concatenate(part) for part in parts)
        sort = np.lexsort((begin, number))
        number, generation, begin, block = (
            column[sort] for column in (number, generation, begin, block)
        )
        end = np.full(len(number), NOW)
        same = number[1:] == number[:-1]
        end[:-1][same] = begin[1:][same]
        kept = np.flatnonzero(block)
        kept = kept[np.argsort(block[kept], kind="stable")]
        return number[kept], generation[kept], begin[kept], end[kept], block[kept]

    def _changed_blocks(self, blocks: Any) -> Iterator[tuple[int, int, int]]:
        """(block, tag before, tag) of copies with other attributes than the copy before."""
        history = self.history
        chosen = np.flatnonzero(np.isin(history.blocks, blocks))
        step, size = history.log.reader.chunk, XATTR_BLOCK_HEADER.size
        for start in range(0, len(chosen), step):
            places = chosen[max(start - 1, 0) : start + step]
            data = history.log.read_copies(history.tags[places])[:, size:]
            follows = history.blocks[places[1:]] == history.blocks[places[:-1]]
            differs = follows & (data[1:] != data[:-1]).any(axis=1)
            for row in np.flatnonzero(differs).tolist():
                old, new = places[row], places[row + 1]
                block = int(history.blocks[new])
                yield block, int(history.tags[old]), int(history.tags[new])

    # -- attributes -----------------------------------------------------------------------

    def _attributes(self, table: InodeTable, row: int, order: int) -> dict[bytes, bytes]:
        block = int(table.file_acl[row])
        data = self._block(block, order) if block else None
        return self._parse(table.raw[row].tobytes(), int(table.extra_isize[row]), data)

    def _block(self, block: int, order: int) -> bytes | None:
        """The attribute block as it was after a transaction."""
        tag = int(self.history.latest(np.array([block]), order)[0])
        if tag >= 0:
            return self._copy(tag)
        rows, readable = self.fs.fetch(np.array([block]))
        return rows[0].tobytes() if readable[0] else None

    def _copy(self, tag: int) -> bytes:
        return bytes(self.history.log.read_copies(np.array([tag]))[0].tobytes())

    def _parse(self, raw: bytes, extra_isize: int, block: bytes | None) -> dict[bytes, bytes]:
        """Attributes by name; a value in an inode of its own is told by that inode's number."""
        return read_xattrs(raw, extra_isize, block, _value_inode, Problems())

    def _events(
        self,
        old: dict[bytes, bytes],
        new: dict[bytes, bytes],
        number: int,
        generation: int,
        order: int,
        exact: bool,
        tag: int,
    ) -> list[Events]:
        """One event an attribute that is not what it was."""
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if not names:
            return []
        first = len(self.found)
        self.found += [Attribute(name, old.get(name), new.get(name)) for name in names]
        kinds = [Kind.ACL if name.startswith(ACL_PREFIX) else Kind.XATTR for name in names]
        return [
            make_events(
                np.array([CODE[kind] for kind in kinds]),
                len(names),
                number=number,
                generation=generation,
                order=order,
                exact=exact,
                tag=tag,
                new=np.arange(first, len(self.found)),
            )
        ]


def _value_inode(number: int, size: int) -> bytes:
    return b"(in inode %d)" % number


def _bodies_differ(table: InodeTable, rows: Any, before: Any) -> Any:
    """Per pair (bool): the bytes behind the extra fields are not the same."""
    raw = table.raw[:, GOOD_OLD_SIZE:]
    if not raw.shape[1]:
        return np.zeros(len(rows), bool)
    extra = np.minimum(table.extra_isize[rows], table.extra_isize[before])
    differs = raw[rows] != raw[before]
    differs &= np.arange(raw.shape[1]) >= extra[:, None]
    return differs.any(axis=1)
