"""The inode states of a file system, read from the log, from fast commits and from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.inodes import is_user_inode
from ext4kit.history.fast_commit_stages import FastCommitStages, inodes_in
from ext4kit.history.history import History
from ext4kit.history.inode_states import (
    NO_NUMBERS,
    TID_ON_DISK,
    TID_PRE_FAST_COMMIT,
    InodeStates,
)
from ext4kit.history.live_copy import count_changed, last_commit
from ext4kit.history.spilled_inodes import InodeStore
from ext4kit.history.stable_inodes import OwnedRuns, split_stable
from ext4kit.history.writes import Writes, find_writes
from ext4kit.journal import InodeVersions, Log, SharedLog, inode_version_batches
from ext4kit.journal.replay import ReplayedBlocks, plan_readable
from ext4kit.parsers.inode import InodeFlags, InodeTable, inode_checksums_ok, parse_inodes


def read_history(
    fs: FileSystem | SharedLog,
    *,
    directories_only: bool = False,
    committed_only: bool = False,
    keeps_rewritten: bool = False,
    watched: Int64s = NO_NUMBERS,
) -> History:
    """The history of a file system.

    Args:
        fs: the file system, or a view of it with the same log.
        directories_only: keep only the states of inodes that are directories at some time, and
            treat no inode as stable.
        committed_only: ignore transactions without a valid commit block, and the states before
            and between fast commits.
        keeps_rewritten: keep the states of inodes that map blocks with copies in the log.
        watched: inode numbers of which all states are kept.
    """
    shared = SharedLog.of(fs)
    log, copies = shared.log, shared.copies(committed_only)
    damaged_from = _damaged_replay_start(shared.fs, log)
    fs = shared.fs if damaged_from == TID_ON_DISK else _with_readable_replay(shared.fs)
    copied = np.zeros(0, np.int64) if copies is None else copies.blocks
    stages = FastCommitStages(fs, copied, committed_only)
    reader = _StateReader(
        fs,
        log,
        stages,
        watched,
        rewritten=copied if keeps_rewritten and copies is not None else None,
        directories=np.zeros(0, np.int64) if directories_only else None,
    )
    states = reader.read(inode_version_batches(fs, copies) if copies else iter(()))
    return History(
        fs,
        log,
        copies,
        stages,
        states,
        Writes.joined(reader.writes),
        tuple(reader.stable_runs),
        reader.live_directories,
        watched,
        damaged_from,
        reader.late_changes,
    )


def _damaged_replay_start(fs: FileSystem, log: Log | None) -> int:
    """First transaction of the replay if it has a damaged transaction, else TID_ON_DISK.

    The result is 0 if the file system needs recovery but has no readable log.
    """
    if log is None:
        return 0 if fs.superblock.needs_recovery else int(TID_ON_DISK)
    if not log.needs_recovery:
        return int(TID_ON_DISK)
    first = log.walk.first_order
    return first if (log.damaged_orders >= first).any() else int(TID_ON_DISK)


def _with_readable_replay(fs: FileSystem) -> FileSystem:
    """The file system with all readable copies replayed, including those after damage."""
    blocks = fs.blocks
    if not isinstance(blocks, ReplayedBlocks):
        return fs
    plan = plan_readable(blocks.log)
    return fs.with_blocks(ReplayedBlocks(blocks.base, blocks.log, plan, blocks.changed))


@dataclass
class _StateReader:
    """Reads the states of inodes, and collects in the same pass what `History` needs of all inodes.

    Attributes:
        fs: the file system.
        log: the log of the file system; None without a readable log.
        stages: the stages of its fast commits.
        watched: as for `read_history`.
        rewritten: blocks with copies in the log; inodes that map one are not stable.
        directories: numbers of the directories met so far, if only their states are kept.
        writes: transactions in which files were written; empty with `directories`.
        stable_runs: runs of the stable inodes, one table per batch.
        live_directories: inode numbers of all directories that are linked on disk, ascending.
        late_changes: number of inodes changed after the last commit.
    """

    fs: FileSystem
    log: Log | None
    stages: FastCommitStages
    watched: Int64s
    rewritten: Int64s | None = None
    directories: Int64s | None = None
    writes: list[Writes] = field(default_factory=list)
    stable_runs: list[OwnedRuns] = field(default_factory=list)
    live_directories: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    late_changes: int = 0

    def read(self, logged: Iterator[InodeVersions]) -> InodeStates:
        """All states, sorted by instance and tid.

        Args:
            logged: inodes in the copies of the log, in batches.
        """
        store, tids = InodeStore(self.fs.superblock), [np.zeros(0, np.int64)]
        for versions in logged:
            table, tid = self._changing_states(versions)
            store.add(table)
            tids.append(tid)
        for at, table in [
            (TID_PRE_FAST_COMMIT, self._pre_fast_commit_states()),
            *self._intermediate_states(),
        ]:
            store.add(table)
            tids.append(np.full(len(table), at))
        for table in self._disk_states(np.unique(store.numbers)):
            store.add(table)
            tids.append(np.full(len(table), TID_ON_DISK))
        table, tid = store.table(), np.concatenate(tids)
        return InodeStates.by_instance(table, tid, np.zeros(len(table), bool))

    def _changing_states(self, versions: InodeVersions) -> tuple[InodeTable, Int64s]:
        """(states, tids) of valid inodes in a batch of the log, without stable inodes."""
        superblock = self.fs.superblock
        table = parse_inodes(versions.rows, versions.number, superblock)
        ordinary = is_user_inode(self.fs, table)
        kept = np.flatnonzero(ordinary)
        if not ordinary.all():
            table = table.take(kept)
        needed = self._select_states(table, versions.order[kept])
        kept, table = kept[needed], table.take(needed)
        if superblock.has_metadata_checksums:
            sound = inode_checksums_ok(table, superblock)
            kept, table = kept[sound], table.take(sound)
        return table, versions.order[kept]

    def _select_states(self, table: InodeTable, tid: Int64s) -> Bools:
        """True for each state of a batch that is kept; also records the writes in all states."""
        if self.directories is None:
            assert self.log is not None
            self.writes.append(find_writes(table, tid, self.log.transactions))
            stable, runs = split_stable(self.fs, table, self.watched, self.rewritten)
            self.stable_runs.append(runs)
            return ~stable
        found = table.number[table.is_dir]
        self.directories = np.union1d(self.directories, found)
        return np.isin(table.number, self.directories)

    def _pre_fast_commit_states(self) -> InodeTable:
        """States on disk of inodes that fast commits changed and that have no state in the log."""
        before, superblock = self.stages.before, self.fs.superblock
        numbers = inodes_in(self.fs, self.stages.unlogged_changes)
        if before is None or not len(numbers):
            return self.fs.inode_table(np.zeros(0, np.int64))
        table = before.inode_table(numbers)
        kept = (table.raw != self.fs.inode_table(numbers).raw).any(axis=1)
        if superblock.has_metadata_checksums:
            kept &= inode_checksums_ok(table, superblock)
        return self._ordinary_only(table.take(kept))

    def _intermediate_states(self) -> Iterator[tuple[int, InodeTable]]:
        """(tid, states) of inodes before the fast commit that removed them.

        These include changed inline directories, because they hold names, and reused inodes,
        because names in force at that time refer to them.
        """
        for tid, (fs, numbers) in self.stages.between.items():
            assert isinstance(fs.blocks, ReplayedBlocks) and self.stages.before is not None
            table = fs.inode_table(inodes_in(fs, fs.blocks.changed.blocks))
            before = self.stages.before.inode_table(table.number)
            inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
            inline &= table.is_dir
            reused = table.generation != before.generation
            kept = (inline | reused) & (table.links_count > 0)
            yield tid, self._ordinary_only(table.take(kept | np.isin(table.number, numbers)))

    def _ordinary_only(self, table: InodeTable) -> InodeTable:
        kept = is_user_inode(self.fs, table)
        if self.directories is not None:
            kept &= table.is_dir
        return table.take(kept)

    def _disk_states(self, numbers: Int64s) -> Iterator[InodeTable]:
        """Inodes on disk that have one of the given numbers or are deleted."""
        directories = [np.zeros(0, np.int64)]
        limit = last_commit(self.log)
        for table in self.fs.inode_batches():
            if limit is not None:
                self.late_changes += count_changed(table, limit)
            linked, directory = table.links_count > 0, table.is_dir
            directories.append(table.number[directory & linked])
            ordinary = is_user_inode(self.fs, table)
            wanted = (ordinary & (table.links_count == 0)) | np.isin(table.number, numbers)
            if self.directories is not None:
                inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
                wanted = (wanted | (inline & ordinary)) & directory
            yield table.take(wanted & (table.mode != 0))
        self.live_directories = np.concatenate(directories)
