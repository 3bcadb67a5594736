"""The contents of files as of a transaction, and their grades.

The journal holds metadata, but mostly not the content of files. In ordered mode the kernel writes
content in place, and only the inode records the write. Four rules follow:

* content in the inode itself, and content without a written block, is as certain as the inode;
* a file whose inode and map are unchanged was not written since, if its last change came before
  the transaction began to close. A later write would have a later time, but the kernel clock
  advances only every few milliseconds;
* of a file that changed or was deleted later, recovery grades the state that it had: it knows who
  used its blocks since. Where the last change did not come before the transaction began to close,
  the file is consistent at most, and partial with times of whole seconds;
* journaled content (data=journal) equals its copies, if the inode was the same when the newest
  of them was written.

The evidence does not show two kinds of writes. A write through a mapping into a page that is
already dirty changes no time. A mount with lazytime writes times with a delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.as_of.blocks import AsOfContentBlocks, PointInTime
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, Runs, has_map
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.grades import Grade
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
RecoveredContents = Callable[[InodeTable], list[GradedContent | None]]


@dataclass(frozen=True, slots=True)
class _ThenAndNow:
    """Files as of the transaction, compared with their present state.

    Attributes:
        table: the inodes as of the transaction; row: number -> row.
        maps: their maps as of the transaction.
        maps_now: the present maps of these inodes.
        is_same_file: True where the inode is still one of the same file.
        is_settled: True where the last change came before the transaction closed.
        doubt: index into `_DOUBTS`: why the present content may differ from the earlier one.
        judged: number -> judged content.
        recovered: row -> what recovery tells of its content; of all in doubt, once it is asked.
    """

    table: InodeTable
    row: dict[int, int]
    maps: BlockMaps
    maps_now: BlockMaps
    is_same_file: Bools
    is_settled: Bools
    doubt: Int64s
    judged: dict[int, GradedContent] = field(default_factory=dict)
    recovered: dict[int, GradedContent | None] = field(default_factory=dict)

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
    """

    def __init__(self, moment: PointInTime, then: FileSystem, now: FileSystem) -> None:
        self.moment = moment
        self.then = then
        self.now = now
        self._recovered: RecoveredContents | None = None
        self._is_unclean: Callable[[], bool] = lambda: now.superblock.needs_recovery
        self.blocks = AsOfContentBlocks(moment)
        self._expected: InodeTable | None = None
        self._compared: _ThenAndNow | None = None
        self._single: _ThenAndNow | None = None

    def expect_inodes(self, table: InodeTable) -> None:
        """Announce inodes whose contents may be read next; they are judged together."""
        self._expected = table

    def vouch_by(self, recovered: RecoveredContents, is_unclean: Callable[[], bool]) -> None:
        """Grade contents that changed later as recovery does; without it, as the disk has them.

        Args:
            recovered: from inodes as of the transaction, what recovery tells of the content of each
                in this state; None where it knows no such state.
            is_unclean: whether the file system may have gone down without an unmount since then;
                called once, if at all.
        """
        self._recovered, self._compared, self._single = recovered, None, None
        self._is_unclean = cache(is_unclean)

    def judge(self, inode: Inode) -> GradedContent:
        """The content of a regular file and its grade, from its inode as of then; not inline."""
        if inode.size == 0:
            return GradedContent(Content(self.blocks, 0), Grade.INTACT)
        found = self._comparison(inode)
        if inode.number not in found.judged:
            graded = self._judge(inode, found)
            if graded.grade is Grade.INTACT and self._lies_in_place(graded) and self._is_unclean():
                doubt = reasons.AS_OF_UNCLEAN.filled(tid=self.moment.transaction)
                graded = replace(graded, grade=Grade.CONSISTENT, reasons=(*graded.reasons, doubt))
            found.judged[inode.number] = graded
        return found.judged[inode.number]

    def _lies_in_place(self, graded: GradedContent) -> bool:
        """Whether it is read from blocks of the disk, not from copies in the journal."""
        content = graded.content
        return content.blocks is not self.blocks and content.stored > 0

    def _judge(self, inode: Inode, found: _ThenAndNow) -> GradedContent:
        row = found.row[inode.number]
        runs = _runs_of(found.maps, row)
        written, doubt = self._stored(runs, inode.size), _DOUBTS[found.doubt[row]]
        blocks: BlockReader = self.moment.present.blocks
        if found.maps.damaged[row]:
            doubt = reasons.AS_OF_MAP_UNKNOWN
        elif not len(written) or (doubt and self._is_journaled(inode, written)):
            doubt, blocks = None, self.blocks
        content = Content(blocks, inode.size, runs)
        if doubt is None:
            return GradedContent(content, Grade.INTACT)
        told = doubt.filled(tid=self.moment.transaction)
        if doubt is reasons.AS_OF_RECENT_CHANGE:
            return GradedContent(content, _recent_grade(inode), (told,))
        if self._recovered is None:
            return GradedContent(replace(content, blocks=self.blocks), Grade.PARTIAL, (told,))
        return self._as_recovered(inode, found, written, told)

    def _as_recovered(
        self, inode: Inode, found: _ThenAndNow, written: Runs, doubt: Reason
    ) -> GradedContent:
        """What recovery tells of a file that changed, and what the file still has as it was."""
        row, grade = found.row[inode.number], Grade.PARTIAL
        if not found.recovered:
            assert self._recovered is not None
            rows = np.flatnonzero((found.doubt > 0) | found.maps.damaged)
            told = self._recovered(found.table.take(rows))
            found.recovered.update(zip(rows.tolist(), told, strict=True))
        given, is_damaged = found.recovered[row], bool(found.maps.damaged[row])
        if given is None:
            own = _runs_of(found.maps_now, row) if found.is_same_file[row] else Runs.empty()
            kept = GradedContent(Content(self.now.blocks, inode.size, own), Grade.PARTIAL)
            graded = self._within(written, inode.size, kept, is_damaged)
        else:
            graded = self._within(written, inode.size, given, is_damaged)
            if not is_damaged:
                if found.is_settled[row] or not graded.grade.is_whole:
                    return graded
                doubt = reasons.AS_OF_RECENT_CHANGE.filled(tid=self.moment.transaction)
                grade = _recent_grade(inode)
        if graded.grade is Grade.OVERWRITTEN:
            return graded
        return replace(graded, grade=grade, reasons=(*graded.reasons, doubt))

    def _within(
        self, written: Runs, size: int, given: GradedContent, is_damaged: bool
    ) -> GradedContent:
        """The blocks of a map that a content has at the same places, and the grade of these."""
        tid, runs = self.moment.transaction, given.content.runs  # None of inline data
        known = Runs.empty() if runs is None else self._stored(runs, size)
        kept = _common_runs(written, known)
        total, count = int(written.length.sum()), int(kept.length.sum())
        content = replace(given.content, size=size, runs=kept)
        grade, told = given.grade, given.reasons
        if not count:
            overwritten = reasons.AS_OF_OVERWRITTEN.filled(tid=tid)
            return GradedContent(content, Grade.OVERWRITTEN, (overwritten,))
        if grade.is_whole and not count == total == known.length.sum():
            grade, told = Grade.PARTIAL, (*told, reasons.AS_OF_MAP_CHANGED.filled(tid=tid))
        if count < total:
            n = f"{total - count:,}"
            told = (*told, reasons.AS_OF_BYTES_LOST.filled(n=n, total=f"{total:,}", tid=tid))
        return GradedContent(content, grade, told, self._lost(written, kept, size, is_damaged))

    def _lost(
        self, written: Runs, kept: Runs, size: int, is_damaged: bool
    ) -> tuple[tuple[int, int], ...]:
        """The parts of a map that are not kept; of a damaged map, all that is not kept."""
        block_size = self.then.superblock.block_size
        had = Intervals.union(written.logical, written.length)
        if is_damaged:
            had = Intervals(np.array([0]), np.array([-(-size // block_size)]))
        gone = had.subtract(Intervals.union(kept.logical, kept.length))
        each = zip(
            (gone.start * block_size).tolist(), (gone.end * block_size).tolist(), strict=True
        )
        return tuple((start, min(end, size) - start) for start, end in each)

    def _stored(self, runs: Runs, size: int) -> Runs:
        """The parts of runs that hold bytes of a file of this size."""
        used = -(-size // self.then.superblock.block_size)
        length = np.where(runs.unwritten, 0, np.minimum(runs.length, used - runs.logical))
        return replace(runs, length=length).take(length > 0)

    # -- then and now -----------------------------------------------------------------------

    def _comparison(self, inode: Inode) -> _ThenAndNow:
        """The comparison that holds an inode: that of its announced table, else a separate one."""
        for found in (self._compared, self._single):
            if found is not None and found.has(inode):
                return found
        if self._expected is not None:
            table, self._expected = self._expected, None
            self._compared = self._compare(_mapped_files(table))
            if self._compared.has(inode):
                return self._compared
        raw = np.frombuffer(inode.raw, np.uint8)[None, :]
        table = parse_inodes(raw, np.array([inode.number]), self.then.superblock)
        self._single = self._compare(table)
        return self._single

    def _compare(self, table: InodeTable) -> _ThenAndNow:
        maps = self.then.map_table_silently(table)
        now, same = self._compare_inodes(table, self.moment.present)
        maps_now = self.moment.present.map_table_silently(now)
        same_map = _same_runs(maps.runs, maps_now.runs, len(table))
        if self.now is not self.moment.present:  # a fast commit tells of a write into old blocks
            now, unchanged = self._compare_inodes(table, self.now)
            same, maps_now = same & unchanged, self.now.map_table_silently(now)
        is_settled = self._changed_before_close(table)
        return _ThenAndNow(
            table=table,
            row={number: row for row, number in enumerate(table.number.tolist())},
            maps=maps,
            maps_now=maps_now,
            is_same_file=(now.generation == table.generation) & (now.links_count > 0),
            is_settled=is_settled,
            doubt=np.select([~same, ~same_map, ~is_settled], [1, 2, 3], 0),
        )

    def _compare_inodes(self, table: InodeTable, fs: FileSystem) -> tuple[InodeTable, Bools]:
        """(the inodes in `fs`, True where they are the same)."""
        rows, readable = fs.inode_rows(table.number)
        now = parse_inodes(rows, table.number, self.then.superblock)
        return now, readable & are_same(table, now)

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


def are_same(table: InodeTable, other: InodeTable) -> Bools:
    """True where inodes of two tables tell of the same content, written at the same time."""
    same = np.ones(len(table), bool)
    for name in COMPARED_FIELDS:
        equal = getattr(table, name) == getattr(other, name)
        same &= equal if equal.ndim == 1 else equal.all(axis=1)
    return same


def _recent_grade(inode: Inode) -> Grade:
    """Of a file changed as the transaction closed; times of whole seconds hide more writes."""
    return Grade.CONSISTENT if inode.extra_isize >= NANOSECOND_TIMES else Grade.PARTIAL


def _runs_of(maps: BlockMaps, row: int) -> Runs:
    """The runs of one row."""
    return maps.runs.take(slice(*np.searchsorted(maps.runs.owner, [row, row + 1]).tolist()))


def _common_runs(runs: Runs, others: Runs) -> Runs:
    """The parts of runs that others have too: the same blocks at the same file blocks."""
    mine, theirs = overlap_pairs(runs.logical, runs.length, others.logical, others.length)
    shift = runs.physical[mine] - runs.logical[mine]
    same = shift == others.physical[theirs] - others.logical[theirs]
    mine, theirs, shift = mine[same], theirs[same], shift[same]
    start = np.maximum(runs.logical[mine], others.logical[theirs])
    end = np.minimum((runs.logical + runs.length)[mine], (others.logical + others.length)[theirs])
    return replace(runs.take(mine), logical=start, length=end - start, physical=start + shift)


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
