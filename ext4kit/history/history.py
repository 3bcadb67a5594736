"""Inode states: what the log and the disk know of each inode over time, grouped into lives.

A life is an inode number and a generation. The log shows a life's states in the order of
transactions; the disk shows the last one. A life is deleted when the disk no longer shows it
alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.lookup import AsOfIndex, values_at
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, has_map, map_inodes
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.history.beginnings import Beginnings
from ext4kit.history.journal_gaps import JournalGaps, MountCounts, find_journal_gaps
from ext4kit.history.live_copy import is_overtaken, last_commit
from ext4kit.history.stable_inodes import OwnedRuns, split_stable
from ext4kit.history.writes import Writes, find_writes
from ext4kit.journal import BlockHistory, InodeVersions, Log, inode_version_batches
from ext4kit.journal.epochs import Epoch, Epochs, epochs_of
from ext4kit.journal.fast_commits.intermediate import find_intermediate_states
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.journal.replay import ReplayedBlocks, plan_readable
from ext4kit.journal.ring import order_of
from ext4kit.parsers.extents import block_checksum_ok
from ext4kit.parsers.inode import (
    InodeFlags,
    InodeTable,
    inode_checksums_ok,
    inode_seed,
    parse_inodes,
)

TID_ON_DISK = np.int64(1) << 62  # the order of what is on disk: after every transaction
UNREPLAYED = (
    int(TID_ON_DISK) - 1000
)  # the order of what is on disk in place of what fast commits tell;
# what they changed and then removed comes between it and TID_ON_DISK, by a step a fast commit
TID_NONE = -1
_VALID_TYPES = np.isin(np.arange(16), [1, 2, 4, 6, 8, 10, 12])  # the types that an i_mode can tell


@dataclass(frozen=True)
class InodeStates(Table):
    """Inode states as columns, by (life, order).

    Attributes:
        table: the inodes.
        tid: the transaction that first shows the state, TID_ON_DISK for the one on disk.
        life: number of the life, ascending.
        untagged: bool, it is from a block that neither log nor inode table tells of.
    """

    table: InodeTable
    tid: Int64s
    life: Int64s
    untagged: Bools

    @cached_property
    def is_linked(self) -> Bools:
        """Per state (bool): linked from somewhere."""
        linked: Bools = (self.table.mode != 0) & (self.table.links_count > 0)
        return linked

    @cached_property
    def describes_content(self) -> Bools:
        """Per state (bool): content is still described: alive, or unlinked but not truncated."""
        table = self.table
        inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
        by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
        entries = (table.i_block[:, 2] > 0) | (table.i_block[:, 3] > 0)
        described = np.where(by_extents, entries, table.i_block.any(axis=1)) | inline
        shown: Bools = self.is_linked | ((table.mode != 0) & (table.size > 0) & described)
        return shown


class History:
    """Everything known of a file system's inodes over time.

    Attributes:
        fs: the file system as it is now (journal replayed).
        copies: of blocks, that the log has; None without a readable log.
        states: all states of the lives that the log knows or that the disk shows deleted; those
            of settled inodes are left out.
        settled: the blocks that settled inodes have, in pieces.
        live_directories: inode numbers of all directories that are linked on disk, ascending.

    Args:
        fs: the file system.
        directories_only: keep the states of inodes that are directories at some time, and no
            others; nothing is settled then.
        committed_only: leave out what transactions without a good commit block hold, and what
            fast commits tell of the time before them.
        keeps_rewritten: no inode is settled of whose content the log has copies.
    """

    def __init__(
        self,
        fs: FileSystem,
        *,
        directories_only: bool = False,
        committed_only: bool = False,
        keeps_rewritten: bool = False,
    ) -> None:
        self.fs = fs
        log = Log.open(fs)
        self.log = log
        self.fs = self._as_far_as_readable(fs)
        self.copies = None if log is None else BlockHistory(log)
        if log is not None and self.copies is not None and committed_only:
            self.copies.tag_rows = self.copies.tag_rows[log.tags.committed[self.copies.tag_rows]]
        self.settled: list[OwnedRuns] = []
        self.live_directories: Int64s = np.zeros(0, np.int64)
        self._committed_only = committed_only
        self._writes: list[Writes] = []
        self._changed_late = 0  # inodes, after the last commit
        self._keeps_rewritten = keeps_rewritten
        self._directories = np.zeros(0, np.int64) if directories_only else None
        self.states = self.read_inode_states()

    @cached_property
    def mounts(self) -> MountCounts | None:
        """What the log tells of mounts; None without one."""
        if self.copies is None:
            return None
        return MountCounts(self.copies, self.fs.superblock.block_size)

    @cached_property
    def gaps(self) -> JournalGaps:
        """Unmounts, power cuts and lost transactions, as the log's ids tell them.

        tune2fs -I and resize2fs move blocks without any transaction, as if some were lost.
        """
        breaks = find_journal_gaps(self.log)
        if self.mounts is not None:
            breaks = breaks.with_mounts(self.mounts)
        if self.log is None or self.epochs.is_single:
            return breaks
        order = self.log.transactions.order
        layouts = self.epochs.layouts(order)
        return breaks.with_lost(order, np.flatnonzero(layouts[1:] != layouts[:-1]))

    @cached_property
    def writes(self) -> Writes:
        """Transactions in which files were written; none with `directories_only`."""
        return Writes.joined(self._writes)

    # -- reading --------------------------------------------------------------------------

    def _as_far_as_readable(self, fs: FileSystem) -> FileSystem:
        """The file system with what is left of the log, where damage ends its replay too soon."""
        if self._unreplayed_since == TID_ON_DISK or not isinstance(fs.blocks, ReplayedBlocks):
            return fs
        blocks = fs.blocks
        plan = plan_readable(blocks.log)
        return fs.with_blocks(ReplayedBlocks(blocks.base, blocks.log, plan, blocks.changed))

    def read_inode_states(self) -> InodeStates:
        """All states of the history, sorted by instance and tid."""
        logged, order = self._journal_states()
        tables, orders = [logged], [order]
        for at, table in [
            (UNREPLAYED, self._pre_fast_commit_states()),
            *self._intermediate_states(),
        ]:
            tables.append(table)
            orders.append(np.full(len(table), at))
        numbers = np.concatenate([table.number for table in tables])
        on_disk = self._disk_states(np.unique(numbers))
        table = InodeTable.concat([*tables, on_disk])
        order = np.concatenate([*orders, np.full(len(on_disk), TID_ON_DISK)])
        return _sorted_by_instance(table, order, np.zeros(len(table), bool))

    def with_older_states(self, older: list[tuple[InodeTable, Int64s]]) -> History:
        """The same history with further states.

        Args:
            older: (states, their orders) from blocks that the log does not describe.
        """
        if not older:
            return self
        tables, orders = zip(*older, strict=True)
        known = self.states.table
        numbers = np.setdiff1d(np.concatenate([table.number for table in tables]), known.number)
        now = self.fs.inode_table(numbers)
        now = now.take(now.mode != 0)
        table = InodeTable.concat([known, now, *tables])
        order = np.concatenate([self.states.tid, np.full(len(now), TID_ON_DISK), *orders])
        told = [self.states.untagged, np.zeros(len(now), bool)]
        undescribed = np.concatenate([*told, np.ones(len(table) - sum(map(len, told)), bool)])
        wider = copy(self)
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property):  # worked out from the fewer states
                vars(wider).pop(name, None)
        wider.states = _sorted_by_instance(table, order, undescribed)
        return wider

    def _journal_states(self) -> tuple[InodeTable, Int64s]:
        """States in the log that can be inodes of this file system, less the settled ones."""
        superblock, none = self.fs.superblock, np.zeros(0, np.int64)
        nothing = parse_inodes(np.zeros((0, superblock.inode_size), np.uint8), none, superblock)
        parts = [(nothing, none)]
        if self.copies is not None:
            parts += map(self._changing_states, inode_version_batches(self.fs, self.copies))
        tables, orders = zip(*parts, strict=True)
        return InodeTable.concat(list(tables)), np.concatenate(orders)

    def _changing_states(self, versions: InodeVersions) -> tuple[InodeTable, Int64s]:
        """(states, orders) out of one piece of the log."""
        superblock = self.fs.superblock
        table = parse_inodes(versions.rows, versions.number, superblock)
        ordinary = is_user_inode(self.fs, table)
        kept = np.flatnonzero(ordinary)
        if not ordinary.all():
            table = table.take(kept)
        needed = self._keep(table, versions.order[kept])
        kept, table = kept[needed], table.take(needed)
        if superblock.has_metadata_checksums:
            sound = inode_checksums_ok(table, superblock)
            kept, table = kept[sound], table.take(sound)
        return table, versions.order[kept]

    def _keep(self, table: InodeTable, order: Int64s) -> Bools:
        """Per state of one piece (bool): it is kept. Its writes are, of all of them."""
        if self._directories is None:
            assert self.log is not None
            self._writes.append(find_writes(table, order, self.log.transactions))
            logged = self.copies.blocks if self.copies and self._keeps_rewritten else None
            settled, holdings = split_stable(self.fs, table, logged)
            self.settled.append(holdings)
            return ~settled
        found = table.number[table.is_dir]
        self._directories = np.union1d(self._directories, found)
        return np.isin(table.number, self._directories)

    @cached_property
    def before_fast_commits(self) -> FileSystem | None:
        """The file system without the fast commits that its view has applied; None for none."""
        blocks = self.fs.blocks
        if not isinstance(blocks, ReplayedBlocks) or not len(blocks.changed):
            return None
        return self.fs.with_blocks(blocks.before_fast_commits)

    @cached_property
    def unlogged_changes(self) -> Int64s:
        """Blocks (int64) that fast commits changed and that the log has no copy of."""
        blocks = self.fs.blocks
        if not isinstance(blocks, ReplayedBlocks) or self._committed_only:
            return np.zeros(0, np.int64)
        known = np.zeros(0, np.int64) if self.copies is None else self.copies.blocks
        return np.setdiff1d(blocks.changed.blocks, known)

    @cached_property
    def undated(self) -> Int64s:
        """Inode numbers that fast commits freed: when that was is not recorded."""
        before, blocks = self.before_fast_commits, self.fs.blocks
        if before is None or not isinstance(blocks, ReplayedBlocks):
            return np.zeros(0, np.int64)
        numbers = inodes_in(self.fs, blocks.changed.blocks)
        table = self.fs.inode_table(numbers)
        changed = (table.raw != before.inode_table(numbers).raw).any(axis=1)
        freed: Int64s = numbers[changed & (table.links_count == 0)]
        return freed

    def _pre_fast_commit_states(self) -> InodeTable:
        """Inodes that fast commits changed as the disk has them, where the log has no state."""
        before, superblock = self.before_fast_commits, self.fs.superblock
        numbers = inodes_in(self.fs, self.unlogged_changes)
        if before is None or not len(numbers):
            return self.fs.inode_table(np.zeros(0, np.int64))
        table = before.inode_table(numbers)
        kept = (table.raw != self.fs.inode_table(numbers).raw).any(axis=1)
        if superblock.has_metadata_checksums:
            kept &= inode_checksums_ok(table, superblock)
        return self._ordinary_only(table.take(kept))

    def _intermediate_states(self) -> Iterator[tuple[int, InodeTable]]:
        """(order, inodes) that fast commits changed and then removed, as they were before that.

        Inline directories that they changed as well: they hold names. And inodes that they
        gave to other files: names of that time mean these.
        """
        for order, (fs, numbers) in self.interludes.items():
            assert isinstance(fs.blocks, ReplayedBlocks) and self.before_fast_commits is not None
            table = fs.inode_table(inodes_in(fs, fs.blocks.changed.blocks))
            before = self.before_fast_commits.inode_table(table.number)
            inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
            inline &= table.is_dir
            reused = table.generation != before.generation
            kept = (inline | reused) & (table.links_count > 0)
            yield order, self._ordinary_only(table.take(kept | np.isin(table.number, numbers)))

    def _ordinary_only(self, table: InodeTable) -> InodeTable:
        kept = is_user_inode(self.fs, table)
        if self._directories is not None:
            kept &= table.is_dir
        return table.take(kept)

    @cached_property
    def interludes(self) -> dict[int, tuple[FileSystem, Int64s]]:
        """Order -> (the file system before a fast commit that removes, what it removes)."""
        before, blocks = self.before_fast_commits, self.fs.blocks
        if before is None or not isinstance(blocks, ReplayedBlocks) or self._committed_only:
            return {}
        views = {}
        for step, one in enumerate(find_intermediate_states(blocks.log, before), UNREPLAYED + 1):
            between = ReplayedBlocks(blocks.base, blocks.log, blocks.plan, one.changed)
            views[step] = self.fs.with_blocks(between), one.numbers
        return views

    def _disk_states(self, numbers: Int64s) -> InodeTable:
        """Inodes on disk: those the log knows, and every one that is deleted."""
        found = []
        directories = [np.zeros(0, np.int64)]
        limit = last_commit(self.log)
        for table in self.fs.inode_batches():
            if limit is not None:
                self._changed_late += _count_changed(table, limit)
            linked, folder = table.links_count > 0, table.is_dir
            directories.append(table.number[folder & linked])
            ordinary = is_user_inode(self.fs, table)
            wanted = (ordinary & (table.links_count == 0)) | np.isin(table.number, numbers)
            if self._directories is not None:
                inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
                wanted = (wanted | (inline & ordinary)) & folder
            found.append(table.take(wanted & (table.mode != 0)))
        self.live_directories = np.concatenate(directories)
        if not found:
            found.append(self.fs.inode_table(np.zeros(0, np.int64)))
        return InodeTable.concat(found)

    @cached_property
    def live_copy(self) -> str:
        """What shows that log and disk were copied at different moments; "" for nothing."""
        late, limit = self._changed_late, last_commit(self.log)
        if limit is not None and isinstance(self.fs.blocks, ReplayedBlocks):
            under = self.fs.with_blocks(self.fs.blocks.base)  # what the replay covers
            numbers = inodes_in(self.fs, self.fs.blocks.plan.blocks)
            late += _count_changed(under.inode_table(numbers), limit)
        if late:
            return f"{late:,} inodes changed after the last commit in the journal"
        if is_overtaken(self.log):
            return (
                "newer transactions lie where the journal superblock says that the journal begins"
            )
        return ""

    @cached_property
    def commit_times(self) -> dict[int, int]:
        """When each transaction of the log was committed, ns, by order."""
        return {
            item.order: item.commit_time_ns
            for item in (self.log.transactions if self.log else ())
            if item.commit_time_ns is not None
        }

    def times_of(self, orders: Int64s) -> Int64s:
        """When transactions were committed (ns, int64), the far future where that is not known.

        One whose commit block may be unreadable was committed after the one before it.
        """
        known, times = self.beginnings.known, self.beginnings.times
        row = np.searchsorted(known, orders, side="right") - 1
        told = (np.append(known, 0)[row] == orders) | np.isin(orders, self.gaps.damaged)
        told &= row >= 0
        return np.where(told, np.append(times, 0)[row], np.iinfo(np.int64).max)

    @cached_property
    def beginnings(self) -> Beginnings:
        """When transactions can have begun."""
        return Beginnings(self.commit_times, self.states)

    def begun(self, orders: Int64s) -> Int64s:
        """Times (ns) before which nothing happened in each transaction, 0 for not known."""
        return self.beginnings.of(orders, UNREPLAYED)

    @cached_property
    def last_fast_commit(self) -> int:
        """Order of the transaction that the log's last fast commit went ahead of, else TID_NONE.

        A clean unmount takes the feature off the journal and leaves the area as it was.
        Source: kernel fs/jbd2/journal.c, `jbd2_mark_journal_empty`.
        """
        if self.log is None:
            return TID_NONE
        tid = scan_fast_commits(self.log).newest_tid
        return TID_NONE if tid < 0 else int(order_of(tid, self.log.superblock.sequence))

    # -- lives ----------------------------------------------------------------------------

    @cached_property
    def instance_count(self) -> int:
        """How many lives there are."""
        return int(self.states.life[-1]) + 1 if len(self.states) else 0

    @cached_property
    def number(self) -> Int64s:
        """Inode number of each life."""
        return self.states.table.number[self._first]

    @cached_property
    def generation(self) -> Int64s:
        """Generation of each life."""
        return self.states.table.generation[self._first]

    @cached_property
    def _first(self) -> Rows:
        return np.searchsorted(self.states.life, np.arange(self.instance_count))

    @cached_property
    def is_allocated(self) -> Bools:
        """Per life (bool): the disk shows it alive.

        An inode that a directory of the tree names is alive, whatever its bitmap says: a bitmap
        can be damaged, or cleared by hand. One that is not known to be dead counts as alive too.
        """
        last = np.append(self._first[1:], len(self.states))[: self.instance_count] - 1
        linked = (self.states.tid[last] == TID_ON_DISK) & self.states.is_linked[last]
        used = self.fs.bitmaps.inodes_in_use(self.number)
        if self._unreplayed_since < TID_ON_DISK:  # the bitmap can be older than the inode
            used |= self.states.table.dtime[last] == 0
        freed = linked & ~used & (self.states.table.dtime[last] == 0)
        if freed.any():
            freed &= np.isin(self.number, np.append(self.fs.tree().inode, ROOT))
            used |= freed
        if freed.any():
            what = f"{freed.sum():,} linked inodes are marked free; they are treated as allocated"
            self.fs.problems.add("inode bitmaps", what)
        alive: Bools = (linked & used) | self._may_live(last)
        return alive

    def _may_live(self, last: Rows) -> Bools:
        """Per life (bool): its last known state is linked, and what came then cannot be read.

        Its inode table block is unreadable, or the log is to be replayed and damaged, so that
        blocks are of different transactions.

        Args:
            last: per life, row of its last state.
        """
        states, numbers = self.states, self.states.table.number
        rows = self.by_inode
        rows = rows[(states.tid[rows] < TID_ON_DISK) & ~states.untagged[rows]]
        final = ends_group(numbers[rows])
        is_final = states.untagged.copy()  # when these were is not sure
        is_final[rows[final]] = True
        shown = np.flatnonzero(is_final[last] & states.is_linked[last])
        order = states.tid[last[shown]]
        unknown = (order >= self._unreplayed_since) & (order < UNREPLAYED)
        rest = np.flatnonzero(~unknown & self.fs.bitmaps.inodes_in_use(self.number[shown]))
        unknown[rest] = ~self.fs.inode_rows(self.number[shown[rest]])[1]
        found = np.zeros(self.instance_count, bool)
        found[shown[unknown]] = True
        return found

    @property
    def _unreplayed_since(self) -> int:
        """First transaction to be replayed when one is damaged, TID_ON_DISK for none."""
        if self.log is None:
            return 0 if self.fs.superblock.needs_recovery else int(TID_ON_DISK)
        if not self.log.needs_recovery:
            return int(TID_ON_DISK)
        first = self.log.walk.first_order
        return first if (self.log.damaged_orders >= first).any() else int(TID_ON_DISK)

    @cached_property
    def are_freed(self) -> Bools:
        """Per state (bool): without links, and with a deletion time.

        While an inode without links is open, the field of that time holds 0 or the number of the
        next inode on the orphan list. Source: kernel fs/ext4/orphan.c, `ext4_orphan_add`.
        """
        table = self.states.table
        freed: Bools = (table.links_count == 0) & (table.dtime > self.fs.superblock.inodes_count)
        return freed

    @cached_property
    def last_rows(self) -> Rows:
        """Per life: row of its last state."""
        return np.searchsorted(self.states.life, np.arange(self.instance_count), side="right") - 1

    @cached_property
    def last_content_row(self) -> Rows:
        """Per life: row of the last state that still describes the content, -1 for none."""
        rows = np.where(self.states.describes_content, np.arange(len(self.states)), -1)
        if not len(rows):
            return rows
        return np.maximum.reduceat(rows, self._first)

    @cached_property
    def by_inode(self) -> Rows:
        """Rows of `states` sorted by (number, order)."""
        return np.lexsort((self.states.tid, self.states.table.number))

    @cached_property
    def next_tid(self) -> Int64s:
        """Per state: order of the same number's next state, TID_NONE when there is none."""
        rows = self.by_inode
        order, number = self.states.tid[rows], self.states.table.number[rows]
        result = np.full(len(rows), TID_NONE)
        same = number[1:] == number[:-1]
        result[rows[:-1][same]] = order[1:][same]
        return result

    @cached_property
    def _by_number_and_order(self) -> AsOfIndex:
        rows = self.by_inode
        return AsOfIndex(self.states.table.number[rows], self.states.tid[rows])

    def rows_at(self, numbers: Int64s, orders: Int64s) -> Int64s:
        """Row of the newest state of each number that is not newer than its order, else -1."""
        return values_at(self.by_inode, self._by_number_and_order.rows(numbers, orders))

    # -- maps -----------------------------------------------------------------------------

    def last_valid_tid(self, rows: Int64s) -> Int64s:
        """Per state row: the last transaction order at which that state still held."""
        after = self.next_tid[rows]
        held = np.where(after == TID_NONE, TID_ON_DISK, after - 1)
        return np.where(after == TID_ON_DISK, self.states.tid[rows], held)

    def map_states(self, rows: Int64s, i_block: Bytes2D | None = None) -> BlockMaps:
        """The block maps of the states `rows`, tree blocks read as they were at that time.

        Args:
            rows: rows of `states`.
            i_block: other roots than the states' own (n, 60).
        """
        table = self.states.table
        at = self.last_valid_tid(rows)
        mode, size, flags = table.mode[rows], table.size[rows], table.flags[rows]
        mapped = has_map(mode, size, flags) if i_block is None else np.ones(len(rows), bool)
        return map_inodes(
            table.i_block[rows] if i_block is None else i_block,
            flags,
            mapped,
            self.fs.superblock.blocks_count,
            self.fs.superblock.block_size,
            lambda blocks, owner: self._fetch_tree_blocks(blocks, rows[owner], at[owner]),
            self.fs.blocks.blocks_count,
        )

    def _fetch_tree_blocks(self, blocks: Int64s, rows: Int64s, at: Int64s) -> tuple[Bytes2D, Bools]:
        """Tree blocks as of `at`; one read from the disk has to prove that it is the owner's."""
        copies = (
            np.full(len(blocks), -1)
            if self.copies is None
            else self.copies.newest_copies(blocks, at)
        )
        logged = copies >= 0
        data, readable = self.fetch_in_place(blocks, at)
        if logged.any():
            assert self.log is not None
            data[logged] = self.log.read_copies(copies[logged])
            readable[logged] = True
        if self.fs.superblock.has_metadata_checksums:
            self._verify_tree_blocks(data, readable, rows, logged)
        return data, readable

    def fetch_in_place(self, blocks: Int64s, at: Int64s) -> tuple[Bytes2D, Bools]:
        """As `fs.fetch`; what fast commits change is read as it was at the orders `at`."""
        if self.before_fast_commits is None:
            return self.fs.fetch(blocks)
        views = {int(TID_NONE): self.before_fast_commits}
        views |= {order: fs for order, (fs, _) in self.interludes.items()}
        views[int(TID_ON_DISK)] = self.fs
        step = np.searchsorted(list(views), at, side="right") - 1
        data = np.zeros((len(blocks), self.fs.superblock.block_size), np.uint8)
        readable = np.zeros(len(blocks), bool)
        for number, fs in enumerate(views.values()):
            which = step == number
            if which.any():
                data[which], readable[which] = fs.fetch(blocks[which])
        return data, readable

    @cached_property
    def epochs(self) -> Epochs:
        """What blocks of earlier times were written with."""
        if self.copies is None:
            none = np.zeros(0, np.int64)
            superblock = self.fs.superblock
            seed = superblock.seed if superblock.has_metadata_checksums else None
            return Epochs(superblock, (Epoch(superblock.inode_size, seed),), none, none)
        return epochs_of(self.fs, self.copies)

    def _verify_tree_blocks(
        self, data: Bytes2D, readable: Bools, rows: Int64s, logged: Bools
    ) -> None:
        table = self.states.table
        by_extents = (table.flags[rows] & int(InodeFlags.EXTENTS)) != 0
        superblocks = self.epochs.superblocks
        plain = self.epochs.had_no_checksums(self.states.tid[rows])
        for place in np.flatnonzero(readable & ~logged & by_extents & ~plain).tolist():
            row = rows[place]
            number, generation = int(table.number[row]), int(table.generation[row])
            node = data[place].tobytes()
            readable[place] = any(
                block_checksum_ok(inode_seed(then, number, generation), node)
                for then in superblocks
            )


def _sorted_by_instance(table: InodeTable, order: Int64s, undescribed: Bools) -> InodeStates:
    """States in the order of `InodeStates`."""
    _, life = np.unique(table.number << 32 | table.generation, return_inverse=True)
    sort = np.lexsort((~undescribed, order, life))
    return InodeStates(table.take(sort), order[sort], life[sort], undescribed[sort])


def _count_changed(table: InodeTable, after: int) -> int:
    """How many inodes changed after a time (ns)."""
    return int(((table.ctime > after) & (table.mode != 0)).sum())


def is_user_inode(fs: FileSystem, table: InodeTable) -> Bools:
    """Per inode (bool): a file of users: not reserved, no attribute store, a known type."""
    first = fs.superblock.first_usable_inode
    special = (table.flags & int(InodeFlags.EA_INODE)) != 0
    special |= table.number == (fs.superblock.orphan_file_inode or -1)
    ordinary: Bools = (table.number >= first) | (table.number == ROOT)
    ordinary &= ~special & _VALID_TYPES[table.mode >> 12]
    return ordinary


def inodes_in(fs: FileSystem, blocks: Int64s) -> Int64s:
    """The numbers of all inodes whose table blocks are among some blocks."""
    superblock = fs.superblock
    per_block = superblock.block_size // superblock.inode_size
    length = -(-superblock.inodes_per_group // per_block)
    by_start = np.argsort(fs.groups.inode_table, kind="stable")
    starts = fs.groups.inode_table[by_start]
    place = np.searchsorted(starts, blocks, side="right") - 1
    inside = (place >= 0) & (blocks - starts[np.maximum(place, 0)] < length)
    place, skip = place[inside], (blocks - starts[np.maximum(place, 0)])[inside]
    slots = (skip * per_block)[:, None] + np.arange(per_block)
    numbers = by_start[place][:, None] * superblock.inodes_per_group + slots + 1
    found: Int64s = numbers[slots < superblock.inodes_per_group]
    return found
