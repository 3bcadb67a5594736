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

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import expand, row_bounds
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.as_of.blocks import AsOfContentBlocks, PointInTime
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, Runs, has_map
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.parsers.inode import Inode, InodeTable, parse_inode, parse_inodes
from ext4kit.reasons import Reason
from ext4kit.units import NANOSECONDS

COMPARED_FIELDS = (
    "mode", "generation", "size", "flags", "i_block", "mtime", "ctime", "crtime", "version",
)  # fmt: skip
_DOUBTS = (
    None, reasons.AS_OF_INODE_CHANGED, reasons.AS_OF_MAP_CHANGED, reasons.AS_OF_RECENT_CHANGE,
)  # fmt: skip
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
        bounds: the runs of row n in `maps.runs` are `bounds[n]` to `bounds[n + 1]`.
        doubt: index into `_DOUBTS`: why the present content may differ from the earlier one.
    """

    table: InodeTable
    row: dict[int, int]
    maps: BlockMaps
    bounds: Rows
    doubt: Int64s

    def has(self, inode: Inode) -> bool:
        """Whether the table holds exactly this state of the inode."""
        row = self.row.get(inode.number)
        return row is not None and self.table.raw[row].tobytes() == inode.raw


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
        """Judge the content of a regular file, from its inode as of then; not of inline data."""
        found = self._comparison(inode)
        row = found.row[inode.number]
        start, end = found.bounds[row : row + 2].tolist()
        runs = found.maps.runs.take(slice(start, end))
        blocks: BlockReader = self.blocks
        reason = None
        if found.maps.damaged[row]:
            reason = reasons.AS_OF_MAP_UNKNOWN
        elif len(written := runs.take(~runs.unwritten)):
            reason = _DOUBTS[found.doubt[row]]
            if reason is None:
                blocks = self.moment.present.blocks
            elif self._is_journaled(inode, written):
                reason = None
        return JudgedContent(blocks, runs, reason and reason.filled(tid=self.moment.transaction))

    # -- then and now -----------------------------------------------------------------------

    def _comparison(self, inode: Inode) -> _ThenAndNow:
        """The comparison that holds an inode: that of its announced table, else a separate one."""
        if self._compared is None or not self._compared.has(inode):
            table, self._expected = self._expected, None
            if table is not None:
                self._compared = self._compare(_mapped_files(table))
            if self._compared is None or not self._compared.has(inode):
                raw = np.frombuffer(inode.raw, np.uint8)[None, :]
                table = parse_inodes(raw, np.array([inode.number]), self.then.superblock)
                self._compared = self._compare(table)
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
        same_map = _same_runs(maps.runs, mapped, len(table))
        is_settled = self._changed_before_close(table)
        return _ThenAndNow(
            table=table,
            row={number: row for row, number in enumerate(table.number.tolist())},
            maps=maps,
            bounds=row_bounds(maps.runs.owner, len(table)),
            doubt=np.select([~same, ~same_map, ~is_settled], [1, 2, 3], 0),
        )

    def _changed_before_close(self, table: InodeTable) -> Bools:
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
        run, position = expand(written.length)
        copies = self.blocks.copies_of(written.physical[run] + position)
        if not (copies >= 0).all():
            return False
        order = self.moment.log.tags.order
        block, offset = self.then.inode_location(np.array([inode.number]))
        copy = self.moment.history.newest_copies(block, order[copies].max())
        if copy[0] < 0 or order[copy[0]] < self.moment.range.complete_since:
            return False
        superblock, start = self.then.superblock, int(offset[0])
        raw = self.moment.log.read_copies(copy)[0, start : start + superblock.inode_size]
        before = parse_inode(raw.tobytes(), inode.number, superblock)
        return all(getattr(inode, name) == getattr(before, name) for name in COMPARED_FIELDS)


def _mapped_files(table: InodeTable) -> InodeTable:
    """The regular files that have a map, without duplicates."""
    rows = np.flatnonzero(has_map(table.mode, table.size, table.flags) & table.is_regular)
    return table.take(rows[np.unique(table.number[rows], return_index=True)[1]])


def _same_runs(one: Runs, other: Runs, count: int) -> Bools:
    """True where both tables have the same runs for the owner."""
    lengths = [np.bincount(runs.owner, minlength=count) for runs in (one, other)]
    same: Bools = lengths[0] == lengths[1]
    left, right = (runs.take(same[runs.owner]) for runs in (one, other))
    for column in fields(Runs):
        unequal = getattr(left, column.name) != getattr(right, column.name)
        same[left.owner[unequal]] = False
    return same
