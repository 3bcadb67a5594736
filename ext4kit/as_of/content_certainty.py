"""Which file contents are certain as of a transaction.

The journal holds metadata, but mostly not the content of files. In ordered mode the kernel writes
content in place, and only the inode records the write. Three rules follow:

* content in the inode itself, and content without a written block, is as certain as the inode;
* a file whose inode and map are unchanged was not written since, if its last change came before
  the transaction began to close. A later write would have a later time, but the kernel clock
  advances only every few milliseconds;
* journaled content (data=journal) equals its copies, if the inode was the same when the newest
  of them was written.

The evidence does not show two kinds of writes. A write through a mapping into a page that is
already dirty changes no time. A mount with lazytime writes times with a delay.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ext4kit import reasons
from ext4kit.as_of.blocks import AsOfContentBlocks, PointInTime
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, Runs, has_map
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.parsers.inode import Inode, InodeTable, parse_inode, parse_inodes
from ext4kit.parsers.superblock import Superblock
from ext4kit.reasons import Reason
from ext4kit.units import NANOSECONDS

COMPARED_FIELDS = (
    "mode",
    "generation",
    "size",
    "flags",
    "i_block",
    "mtime",
    "ctime",
    "crtime",
    "version",
)
NANOSECOND_TIMES = 8  # i_extra_isize from which on i_ctime has nanoseconds


@dataclass(frozen=True, slots=True)
class JudgedContent:
    """The content of a file and its certainty.

    Attributes:
        blocks: reader of the content.
        runs: block map as of the transaction.
        reason: why the content is uncertain; None if it is certain.
    """

    blocks: BlockReader
    runs: Runs
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class _ThenAndNow:
    """Files as of the transaction, compared with their present state.

    Attributes:
        table: the inodes as of the transaction; row: number -> row.
        maps: their maps as of the transaction.
        first, end: bounds of the runs of each inode in `maps.data`.
        same_inode, same_map, settled: bool, one row per inode.
    """

    table: InodeTable
    row: dict[int, int]
    maps: BlockMaps
    first: Any
    end: Any
    same_inode: Any
    same_map: Any
    settled: Any

    def has(self, inode: Inode) -> bool:
        """Whether the table holds exactly this state of the inode."""
        row = self.row.get(inode.number)
        return row is not None and self.table.raw[row].tobytes() == inode.raw

    def runs(self, row: int) -> Runs:
        """Block map of the inode in one row."""
        return self.maps.runs.take(slice(int(self.first[row]), int(self.end[row])))

    def doubt(self, row: int) -> Reason | None:
        """Reason why the present content may differ from the earlier one, or None; a template."""
        checks = (
            (self.same_inode, reasons.AS_OF_INODE_CHANGED),
            (self.same_map, reasons.AS_OF_MAP_CHANGED),
            (self.settled, reasons.AS_OF_RECENT_CHANGE),
        )
        return next((reason for fine, reason in checks if not fine[row]), None)


class ContentCertainty:
    """Judges the certainty of contents as of a transaction, and selects their block reader.

    Args:
        moment: the point in time.
        then: the file system as of that transaction.
    """

    def __init__(self, moment: PointInTime, then: FileSystem) -> None:
        self.moment = moment
        self.then = then
        self.blocks = AsOfContentBlocks(moment)
        self._expected: InodeTable | None = None
        self._compared: _ThenAndNow | None = None

    def expect_inodes(self, table: InodeTable) -> None:
        """Announce inodes whose contents may be read next; they are judged together."""
        self._expected = table

    def judge(self, inode: Inode) -> JudgedContent:
        """Judge the content of a regular file that is not in the inode itself.

        Args:
            inode: the file's inode as of the transaction.
        """
        found = self._comparison(inode)
        row = found.row[inode.number]
        runs = found.runs(row)
        if found.maps.damaged[row]:
            unknown = reasons.AS_OF_MAP_UNKNOWN.filled(tid=self.moment.transaction)
            return JudgedContent(self.blocks, runs, unknown)
        written = runs.take(~runs.unwritten)
        if not len(written):
            return JudgedContent(self.blocks, runs)
        doubt = found.doubt(row)
        if doubt is None:
            return JudgedContent(self.moment.present.blocks, runs)
        if self._is_journaled(inode, written):
            return JudgedContent(self.blocks, runs)
        return JudgedContent(self.blocks, runs, doubt.filled(tid=self.moment.transaction))

    # -- then and now -----------------------------------------------------------------------

    def _comparison(self, inode: Inode) -> _ThenAndNow:
        """The comparison that holds an inode: that of its announced table, else a separate one."""
        if self._compared is None or not self._compared.has(inode):
            table, self._expected = self._expected, None
            if table is not None:
                self._compared = self._compare(_mapped_files(table))
            if self._compared is None or not self._compared.has(inode):
                self._compared = self._compare(_single_row_table(inode, self.then.superblock))
        return self._compared

    def _compare(self, table: InodeTable) -> _ThenAndNow:
        maps = self.then.map_table_silently(table)
        rows, readable = self.moment.present.inode_rows(table.number)
        now = parse_inodes(rows, table.number, self.then.superblock)
        same = readable.copy()
        for name in COMPARED_FIELDS:
            equal = getattr(table, name) == getattr(now, name)
            same &= equal if equal.ndim == 1 else equal.all(axis=1)
        mapped = self.moment.present.map_table_silently(now).runs
        numbers = np.arange(len(table))
        return _ThenAndNow(
            table=table,
            row={number: row for row, number in enumerate(table.number.tolist())},
            maps=maps,
            first=np.searchsorted(maps.runs.owner, numbers),
            end=np.searchsorted(maps.runs.owner, numbers, side="right"),
            same_inode=same,
            same_map=_same_runs(maps.runs, mapped, len(table)),
            settled=self._changed_before_close(table),
        )

    def _changed_before_close(self, table: InodeTable) -> Any:
        """True where the last change certainly came before the transaction began to close.

        All changes did if the log has no newer transaction, not even a torn one.
        """
        if not (self.moment.log.headers.order > self.moment.order).any():
            return np.ones(len(table), bool)
        closed = self.moment.range.commit_time_before(self.moment.order)
        fine = table.extra_isize >= NANOSECOND_TIMES
        coarse = table.ctime // NANOSECONDS < closed // NANOSECONDS
        return np.where(fine, table.ctime < closed, coarse)

    # -- journaled content ------------------------------------------------------------------

    def _is_journaled(self, inode: Inode, written: Runs) -> bool:
        """Whether each written block has a copy and the inode is unchanged since the newest one."""
        if written.length.sum() > len(self.moment.log.tags):
            return False
        blocks = np.concatenate([
            np.arange(first, first + length)
            for first, length in zip(
                written.physical.tolist(), written.length.tolist(), strict=True
            )
        ])  # fmt: skip
        copies = self.blocks.copies_of(blocks)
        if not (copies >= 0).all():
            return False
        newest = int(self.moment.log.tags.order[copies].max())
        before = self._inode_in_journal(inode.number, newest)
        return before is not None and _same_inode(inode, before)

    def _inode_in_journal(self, number: int, order: int) -> Inode | None:
        """The inode as of an earlier transaction, if a copy that counts has it."""
        block, offset = self.then.inode_location(np.array([number]))
        copy = self.moment.history.newest_copies(block, order)
        if copy[0] < 0 or self.moment.log.tags.order[copy[0]] < self.moment.range.complete_since:
            return None
        superblock, start = self.then.superblock, int(offset[0])
        row = self.moment.log.read_copies(copy)[0, start : start + superblock.inode_size]
        return parse_inode(row.tobytes(), number, superblock)


def _single_row_table(inode: Inode, superblock: Superblock) -> InodeTable:
    rows = np.frombuffer(inode.raw, np.uint8)[None, :]
    return parse_inodes(rows, np.array([inode.number]), superblock)


def _mapped_files(table: InodeTable) -> InodeTable:
    """The regular files that have a map, without duplicates."""
    mapped = has_map(table.mode, table.size, table.flags) & table.is_regular
    rows = np.flatnonzero(mapped)
    return table.take(rows[np.unique(table.number[rows], return_index=True)[1]])


def _same_inode(one: Inode, other: Inode) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in COMPARED_FIELDS)


def _same_runs(one: Runs, other: Runs, count: int) -> Any:
    """True where both tables have the same runs for the owner."""
    lengths = [np.bincount(runs.owner, minlength=count) for runs in (one, other)]
    same = lengths[0] == lengths[1]
    left, right = (runs.take(same[runs.owner]) for runs in (one, other))
    for column in fields(Runs):
        unequal = getattr(left, column.name) != getattr(right, column.name)
        same[left.owner[unequal]] = False
    return same
