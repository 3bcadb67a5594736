"""Inode states over time, from the log and the disk, grouped into instances.

An instance is an inode number with a generation. The log has its states in the order of
transactions; the disk has the last one. An instance counts as deleted if the disk does not show it
as allocated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.lookup import AsOfIndex, values_at
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import BlockMaps, has_map, map_inodes
from ext4kit.filesystem.directories import with_inodes
from ext4kit.filesystem.inodes import ROOT
from ext4kit.history.fast_commit_stages import FastCommitStages, inodes_in
from ext4kit.history.inode_states import (
    TID_NONE,
    TID_ON_DISK,
    TID_PRE_FAST_COMMIT,
    InodeStates,
)
from ext4kit.history.journal_gaps import JournalGaps, MountCounts, find_journal_gaps
from ext4kit.history.live_copy import count_changed, last_commit, start_is_overwritten
from ext4kit.history.spilled_inodes import joined_inodes
from ext4kit.history.stable_inodes import OwnedRuns
from ext4kit.history.transaction_starts import TransactionStarts
from ext4kit.history.writes import Writes
from ext4kit.journal import BlockHistory, Log
from ext4kit.journal.epochs import Epoch, Epochs, epochs_of
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.journal.ring import order_of
from ext4kit.parsers.extents import block_checksum_ok
from ext4kit.parsers.inode import (
    InodeFlags,
    InodeTable,
    inode_seed,
)


@dataclass(frozen=True, eq=False)
class History:
    """Inode states, instances, journal gaps and block maps of one file system over time.

    Created by `reading.read_history`.

    Attributes:
        fs: the present file system (journal replayed).
        log: the log of the file system; None without a readable log.
        copies: block copies in the log; None without a readable log.
        stages: the file system before, between and after its fast commits.
        states: all states of instances in the log and of deleted inodes on disk, except those of
            stable inodes.
        writes: transactions in which files were written; empty if only the states of directories
            were read.
        stable_runs: runs of the stable inodes, one table per batch.
        live_directories: inode numbers of all directories that are linked on disk, ascending.
        watched: inode numbers of which all states are kept.
        damaged_from: first transaction of the replay if the replay has a damaged transaction, else
            TID_ON_DISK; 0 if the file system needs recovery but has no readable log.
        late_changes: number of inodes on disk that changed after the last commit.
    """

    fs: FileSystem
    log: Log | None
    copies: BlockHistory | None
    stages: FastCommitStages
    states: InodeStates
    writes: Writes
    stable_runs: tuple[OwnedRuns, ...]
    live_directories: Int64s
    watched: Int64s
    damaged_from: int
    late_changes: int

    @cached_property
    def mounts(self) -> MountCounts | None:
        """Mount counts in the log; None without a log."""
        if self.copies is None:
            return None
        return MountCounts(self.copies, self.fs.superblock.block_size)

    @cached_property
    def gaps(self) -> JournalGaps:
        """Unmounts, unclean shutdowns and lost transactions, from the tids of the log.

        tune2fs -I and resize2fs move blocks without a transaction; such a change counts as lost
        transactions.
        """
        breaks = find_journal_gaps(self.log)
        if self.mounts is not None:
            breaks = breaks.with_mounts(self.mounts, self.fs.superblock.mount_count)
        if self.log is None or self.epochs.is_single:
            return breaks
        tid = self.log.transactions.order
        layouts = self.epochs.layouts(tid)
        return breaks.with_lost(tid, np.flatnonzero(layouts[1:] != layouts[:-1]))

    def with_older_states(self, older: list[tuple[InodeTable, Int64s]]) -> History:
        """The same history with further states.

        Args:
            older: (states, their tids) from untagged blocks.
        """
        if not older:
            return self
        tables, tids = zip(*older, strict=True)
        known = self.states.table
        numbers = np.setdiff1d(np.concatenate([table.number for table in tables]), known.number)
        now = self.fs.inode_table(numbers)
        now = now.take(now.mode != 0)
        table = joined_inodes(self.fs.superblock, [known, now, *tables])
        tid = np.concatenate([self.states.tid, np.full(len(now), TID_ON_DISK), *tids])
        count = len(known) + len(now)
        untagged = np.concatenate(
            [self.states.untagged, np.arange(len(known), len(table)) >= count]
        )
        return replace(self, states=InodeStates.by_instance(table, tid, untagged))

    @cached_property
    def live_copy(self) -> str:
        """Evidence that log and disk were acquired at different times; "" if there is none."""
        late, limit = self.late_changes, last_commit(self.log)
        if limit is not None and isinstance(self.fs.blocks, ReplayedBlocks):
            under = self.fs.with_blocks(self.fs.blocks.base)  # the blocks without the replay
            numbers = inodes_in(self.fs, self.fs.blocks.plan.blocks)
            late += count_changed(under.inode_table(numbers), limit)
        if late:
            return f"{late:,} inodes changed after the last commit in the journal"
        if start_is_overwritten(self.log):
            return (
                "newer transactions are at the position where the journal superblock starts the log"
            )
        return ""

    @cached_property
    def commit_times(self) -> dict[int, int]:
        """Tid -> commit time (ns) of each transaction in the log."""
        return {
            item.order: item.commit_time_ns
            for item in (self.log.transactions if self.log else ())
            if item.commit_time_ns is not None
        }

    def times_of(self, tids: Int64s) -> Int64s:
        """Commit times (int64, ns); the maximum of int64 where unknown.

        A damaged transaction gets the commit time of the one before it.
        """
        known, times = self.transaction_starts.tids, self.transaction_starts.times
        row = np.searchsorted(known, tids, side="right") - 1
        has_time = (np.append(known, 0)[row] == tids) | np.isin(tids, self.gaps.damaged)
        has_time &= row >= 0
        return np.where(has_time, np.append(times, 0)[row], np.iinfo(np.int64).max)

    @cached_property
    def transaction_starts(self) -> TransactionStarts:
        """Lower bounds on the start of transactions."""
        return TransactionStarts(self.commit_times, self.states)

    def started_after(self, tids: Int64s) -> Int64s:
        """Time (ns) before which no change of each transaction happened; 0 if unknown."""
        return self.transaction_starts.started_after(tids, TID_PRE_FAST_COMMIT)

    @cached_property
    def last_fast_commit(self) -> int:
        """Tid of the transaction to which the last fast commit belongs; TID_NONE if there is none.

        A clean unmount clears the journal feature and leaves the fast-commit area unchanged.
        Source: kernel fs/jbd2/journal.c, `jbd2_mark_journal_empty`.
        """
        if self.log is None:
            return TID_NONE
        tid = scan_fast_commits(self.log).newest_tid
        return TID_NONE if tid < 0 else int(order_of(tid, self.log.superblock.sequence))

    # -- instances ------------------------------------------------------------------------

    @cached_property
    def instance_count(self) -> int:
        """Number of instances."""
        return int(self.states.instance[-1]) + 1 if len(self.states) else 0

    @cached_property
    def number(self) -> Int64s:
        """Inode number of each instance."""
        return self.states.table.number[self._first]

    @cached_property
    def generation(self) -> Int64s:
        """Generation of each instance."""
        return self.states.table.generation[self._first]

    @cached_property
    def _first(self) -> Rows:
        return np.searchsorted(self.states.instance, np.arange(self.instance_count))

    @cached_property
    def linked_tids(self) -> tuple[Int64s, Int64s]:
        """Per instance: tids of the first and the last copy in the log in which it has a link.

        Without such a copy, the first tid is TID_ON_DISK and the last one TID_NONE.
        """
        states = self.states
        tid, instance = states.tid, states.instance
        logged = np.flatnonzero(states.is_linked & ~states.untagged & (tid < TID_PRE_FAST_COMMIT))
        first = np.full(self.instance_count, TID_ON_DISK)
        last = np.full(self.instance_count, TID_NONE)
        np.minimum.at(first, instance[logged], tid[logged])
        np.maximum.at(last, instance[logged], tid[logged])
        return first, last

    @cached_property
    def is_allocated(self) -> Bools:
        """True for each instance that the disk shows as allocated.

        An inode with an entry in the tree counts as allocated even if its bitmap bit is clear: a
        bitmap can be damaged or cleared by hand. An inode whose deletion cannot be verified counts
        as allocated too.
        """
        last = self.last_rows
        linked = (self.states.tid[last] == TID_ON_DISK) & self.states.is_linked[last]
        used = self.fs.bitmaps.inodes_in_use(self.number)
        if self.damaged_from < TID_ON_DISK:  # the bitmap can be older than the inode
            used |= self.states.table.dtime[last] == 0
        freed = linked & ~used & (self.states.table.dtime[last] == 0)
        if freed.any():
            tree = self.fs.tree(only=with_inodes(self.number[freed]))
            freed &= np.isin(self.number, np.append(tree.inode, ROOT))
            used |= freed
        if freed.any():
            what = f"{freed.sum():,} linked inodes are marked free; they are treated as allocated"
            self.fs.problems.add("inode bitmaps", what)
        allocated: Bools = (linked & used) | self._may_be_linked(last)
        return allocated

    def _may_be_linked(self, last: Rows) -> Bools:
        """True where the last known state is linked and later states cannot be read.

        This is the case if the inode table block is unreadable, or if a log that needs replay is
        damaged, so that the blocks on disk are of different transactions.

        Args:
            last: row of the last state of each instance.
        """
        states, numbers = self.states, self.states.table.number
        rows = self.by_inode
        rows = rows[(states.tid[rows] < TID_ON_DISK) & ~states.untagged[rows]]
        final = ends_group(numbers[rows])
        is_final = states.untagged.copy()  # the tids of untagged states are uncertain
        is_final[rows[final]] = True
        shown = np.flatnonzero(is_final[last] & states.is_linked[last])
        tid = states.tid[last[shown]]
        unknown = (tid >= self.damaged_from) & (tid < TID_PRE_FAST_COMMIT)
        rest = np.flatnonzero(~unknown & self.fs.bitmaps.inodes_in_use(self.number[shown]))
        unknown[rest] = ~self.fs.inode_rows(self.number[shown[rest]])[1]
        found = np.zeros(self.instance_count, bool)
        found[shown[unknown]] = True
        return found

    @cached_property
    def is_freed(self) -> Bools:
        """True for each state without links and with a deletion time.

        The `i_dtime` of an orphan is 0 or the number of the next inode on the orphan list. Source:
        kernel fs/ext4/orphan.c, `ext4_orphan_add`.
        """
        table = self.states.table
        freed: Bools = (table.links_count == 0) & (table.dtime > self.fs.superblock.inodes_count)
        return freed

    @cached_property
    def last_rows(self) -> Rows:
        """Row of the last state of each instance."""
        every = np.arange(self.instance_count)
        return np.searchsorted(self.states.instance, every, side="right") - 1

    @cached_property
    def last_content_row(self) -> Rows:
        """Row of the last state of each instance that maps the content; -1 for none."""
        rows = np.where(self.states.describes_content, np.arange(len(self.states)), NO_ROW)
        if not len(rows):
            return rows
        return np.maximum.reduceat(rows, self._first)

    @cached_property
    def by_inode(self) -> Rows:
        """Rows of `states` sorted by (inode number, tid)."""
        return np.lexsort((self.states.tid, self.states.table.number))

    @cached_property
    def next_tid(self) -> Int64s:
        """Per state: tid of the next state of the same inode number; TID_NONE for none."""
        rows = self.by_inode
        tid, number = self.states.tid[rows], self.states.table.number[rows]
        result = np.full(len(rows), TID_NONE)
        same = number[1:] == number[:-1]
        result[rows[:-1][same]] = tid[1:][same]
        return result

    @cached_property
    def _by_number_and_order(self) -> AsOfIndex:
        rows = self.by_inode
        return AsOfIndex(self.states.table.number[rows], self.states.tid[rows])

    def rows_at(self, numbers: Int64s, tids: Int64s) -> Int64s:
        """Row of the newest state of each number at or before its tid; -1 for none."""
        return values_at(self.by_inode, self._by_number_and_order.rows(numbers, tids))

    # -- maps -----------------------------------------------------------------------------

    def last_valid_tid(self, rows: Int64s) -> Int64s:
        """Last tid as of which each state in `rows` was valid."""
        after = self.next_tid[rows]
        held = np.where(after == TID_NONE, TID_ON_DISK, after - 1)
        return np.where(after == TID_ON_DISK, self.states.tid[rows], held)

    def map_states(self, rows: Int64s, i_block: Bytes2D | None = None) -> BlockMaps:
        """The block maps of the states `rows`, with tree blocks as of the time of each state.

        Args:
            rows: rows of `states`.
            i_block: uint8 (n, 60), roots of the maps to use instead of the roots in the states.
        """
        table = self.states.table
        at = self.last_valid_tid(rows)
        mode, size, flags = table.mode[rows], table.size[rows], table.flags[rows]
        mapped = has_map(mode, size, flags) if i_block is None else np.ones(len(rows), bool)
        return map_inodes(
            table.i_blocks(rows) if i_block is None else i_block,
            flags,
            mapped,
            self.fs.superblock.blocks_count,
            self.fs.superblock.block_size,
            partial(self._fetch_tree_blocks, rows, at),
            self.fs.blocks.blocks_count,
        )

    def _fetch_tree_blocks(
        self, rows: Int64s, at: Int64s, blocks: Int64s, owner: Rows
    ) -> tuple[Bytes2D, Bools]:
        """Tree blocks as of `at`; one from the disk is used only with its owner's checksum."""
        rows, at = rows[owner], at[owner]
        copies = self.tree_block_copies(rows, at, blocks)
        logged = copies >= 0
        data, readable = self.stages.fetch(blocks, at)
        if logged.any():
            assert self.log is not None
            data[logged] = self.log.read_copies(copies[logged])
            readable[logged] = True
        if self.fs.superblock.has_metadata_checksums:
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
        return data, readable

    def tree_block_copies(self, rows: Int64s, at: Int64s, blocks: Int64s) -> Rows:
        """Rows of `log.tags` with the tree block of each state; NO_ROW where the disk has it.

        A copy from before lost transactions is not used: it may be of another owner or of an
        earlier map.

        Args:
            rows: rows of `states`.
            at: last valid tid of each state.
            blocks: a tree block of each state.
        """
        if self.copies is None or not len(blocks):
            return np.full(len(blocks), NO_ROW)
        assert self.log is not None
        copies = self.copies.newest_copies(blocks, at)
        copied = self.log.tags.order[copies] if len(self.log.tags.order) else copies
        outdated = self.gaps.any_lost_between(copied, self.states.tid[rows])
        return np.where(outdated, NO_ROW, copies)

    @cached_property
    def epochs(self) -> Epochs:
        """The inode sizes and checksum seeds with which older blocks were written."""
        if self.copies is None:
            none = np.zeros(0, np.int64)
            superblock = self.fs.superblock
            seed = superblock.seed if superblock.has_metadata_checksums else None
            return Epochs(superblock, (Epoch(superblock.inode_size, seed),), none, none)
        return epochs_of(self.fs, self.copies)
