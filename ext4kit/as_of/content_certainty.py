"""Which file contents are certain as of a transaction.

The journal holds metadata, but mostly not the content of files. In ordered mode the kernel writes
content in place, and only the inode records the write. Four rules follow:

* content in the inode itself, and content without a written block, is as certain as the inode;
* a file whose inode and map are unchanged was not written since, if its last change came before
  the transaction began to close. A later write would have a later time, but the kernel clock
  advances only every few milliseconds;
* the same holds for a file that was deleted later in this state, if recovery grades it intact: the
  evidence then excludes a write up to the deletion, and a later use of its blocks;
* journaled content (data=journal) equals its copies, if the inode was the same when the newest
  of them was written.

The evidence does not show two kinds of writes. A write through a mapping into a page that is
already dirty changes no time. A mount with lazytime writes times with a delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import expand, row_bounds
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.as_of.blocks import AsOfContentBlocks, PointInTime
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, Runs, has_map
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.journal.epochs import find_in_tables
from ext4kit.journal.recovery_pass import UNMOUNT_STEP
from ext4kit.parsers.features import Compat
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
COPIES_AT_ONCE = 256
IntactContents = Callable[[Inode], Content | None]


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
        is_settled: True where the last change came before the transaction closed.
        doubt: index into `_DOUBTS`: why the present content may differ from the earlier one.
    """

    table: InodeTable
    row: dict[int, int]
    maps: BlockMaps
    bounds: Rows
    is_settled: Bools
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
        now: the file system as it is now, with the changes of fast commits.

    Attributes:
        intact_contents: from an inode of a file that was deleted later, its content at the deletion
            if that is intact and the inode did not change in between, else None.
    """

    def __init__(self, moment: PointInTime, then: FileSystem, now: FileSystem) -> None:
        self.moment = moment
        self.then = then
        self.now = now
        self.intact_contents: IntactContents = lambda _: None
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
            elif found.is_settled[row] and self._is_intact(inode, written):
                reason, blocks = None, self.moment.present.blocks
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
        present, same = self._compare_inodes(table, self.moment.present)
        if self.now is not self.moment.present:  # a fast commit tells of a write into old blocks
            same &= self._compare_inodes(table, self.now)[1]
        mapped = self.moment.present.map_table_silently(present).runs
        same_map = _same_runs(maps.runs, mapped, len(table))
        is_settled = self._changed_before_close(table)
        return _ThenAndNow(
            table=table,
            row={number: row for row, number in enumerate(table.number.tolist())},
            maps=maps,
            bounds=row_bounds(maps.runs.owner, len(table)),
            is_settled=is_settled,
            doubt=np.select([~same, ~same_map, ~is_settled], [1, 2, 3], 0),
        )

    def _compare_inodes(self, table: InodeTable, fs: FileSystem) -> tuple[InodeTable, Bools]:
        """(the inodes in `fs`, True where they are the same)."""
        rows, readable = fs.inode_rows(table.number)
        now = parse_inodes(rows, table.number, self.then.superblock)
        same = readable.copy()
        for name in COMPARED_FIELDS:
            equal = getattr(table, name) == getattr(now, name)
            same &= equal if equal.ndim == 1 else equal.all(axis=1)
        return now, same

    def _changed_before_close(self, table: InodeTable) -> Bools:
        """True where the last change certainly came before the transaction began to close.

        All changes did if no transaction followed, not even a torn one or a fast commit: it is the
        newest one, or the last one of its mount.
        """
        later, following = self.moment.log.headers.order, self.moment.order + 1
        newer = self.moment.range.orders[self.moment.range.orders >= following]
        is_last = not (later >= following).any() and self.now is self.moment.present
        ends_mount = len(newer) and newer[0] == self.moment.order + UNMOUNT_STEP
        ends_mount &= not (later == following).any()
        if is_last or (ends_mount and Compat.FAST_COMMIT not in self.then.superblock.features):
            return np.ones(len(table), bool)
        closed = self._open_until
        fine = table.extra_isize >= NANOSECOND_TIMES
        coarse = table.ctime // NANOSECONDS < closed // NANOSECONDS
        return np.where(fine, table.ctime < closed, coarse)

    @cached_property
    def _open_until(self) -> int:
        """A time (ns) at which the transaction was certainly still open.

        The one before it was committed by then, or one of the inodes in it was changed then.
        """
        moment, superblock = self.moment, self.then.superblock
        begun = moment.range.commit_time_before(moment.order)
        committed = moment.range.commit_time(moment.order)
        tags = moment.log.tags
        copies = np.flatnonzero(tags.order == moment.order)
        group, _ = find_in_tables(self.then, tags.block[copies], self.then.groups.inode_table)
        copies = copies[group >= 0]
        for start in range(0, len(copies), COPIES_AT_ONCE):
            rows = moment.log.read_copies(copies[start : start + COPIES_AT_ONCE])
            rows = rows.reshape(-1, superblock.inode_size)
            ctime = parse_inodes(rows, np.zeros(len(rows), np.int64), superblock).ctime
            begun = max(begun, int(ctime[ctime <= committed].max(initial=begun)))
        return begun

    # -- deleted later ----------------------------------------------------------------------

    def _is_intact(self, inode: Inode, written: Runs) -> bool:
        """Whether the file was deleted in this state, and these blocks are its intact content."""
        content = self.intact_contents(inode)
        if content is None or content.runs is None:
            return False
        used = -(-inode.size // self.then.superblock.block_size)
        intact = content.runs.take(~content.runs.unwritten)
        return np.array_equal(_blocks(written, used), _blocks(intact, used))

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
        copy = self.moment.history.newest_copies(block, int(order[copies].max()))
        if copy[0] < 0 or order[copy[0]] < self.moment.range.complete_since:
            return False
        superblock, start = self.then.superblock, int(offset[0])
        raw = self.moment.log.read_copies(copy)[0, start : start + superblock.inode_size]
        before = parse_inode(raw.tobytes(), inode.number, superblock)
        return all(getattr(inode, name) == getattr(before, name) for name in COMPARED_FIELDS)


def _blocks(runs: Runs, used: int) -> Int64s:
    """(n, 2) file block and block of each one below file block `used`."""
    run, position = expand(runs.length)
    rows = np.stack([runs.logical[run] + position, runs.physical[run] + position], axis=1)
    found: Int64s = rows[rows[:, 0] < used]
    return found


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
