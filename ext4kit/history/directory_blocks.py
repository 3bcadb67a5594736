"""Directory blocks over time: their owners and versions.

A copy of a block in the log shows the block as of one transaction. Freed blocks on disk are used
where the log has no copy of the block. An inline directory counts as a block whose versions are the
states of its inode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import ends_group, expand, starts_group
from ext4kit.arrays.lookup import AsOfIndex, SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows
from ext4kit.errors import CorruptError
from ext4kit.filesystem.inodes import INODES_AT_ONCE
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.filesystem.xattrs import inline_data_tail
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.parsers.directory import DIRENT, EntryTable, blocks_checksums_ok, parse_entries
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags, inode_seeds

BATCH_BYTES = 4 << 20
SRC_DISK, SRC_EMPTY, SRC_PRE_REPLAY = -1, -2, -3
TID_BEFORE_LOG = -1  # tid of a freed directory block on disk, written at an unknown earlier time


@dataclass(frozen=True, slots=True)
class DirBlockVersions(Table):
    """Versions of directory blocks as columns, sorted by (block, tid).

    Attributes:
        block: file system block, or the negated inode number for an inline directory.
        tid: transaction of the copy, TID_BEFORE_LOG for a freed block on disk.
        directory: instance of the directory, or its negated inode number if the log has no state of
            the directory.
        source: row of `log.tags`, or row of the states for an inline directory; SRC_DISK for the
            block on disk, SRC_PRE_REPLAY for the block before fast commits, SRC_EMPTY if the block
            has no entry of that directory.
    """

    block: Int64s
    tid: Int64s
    directory: Int64s
    source: Int64s


@dataclass(frozen=True, slots=True)
class DirBlockBatch:
    """A batch of consecutive versions with their entries.

    Attributes:
        versions: all versions, of which the batch is a part.
        start: row of the batch's first version in `versions`.
        repeats_last: True if the first version is the last one of the previous batch.
        data: uint8 (n, block size), bytes of the versions.
        entries: the entries of the batch; `entries.block` is a row of `data`.
    """

    versions: DirBlockVersions
    start: int
    repeats_last: bool
    data: Bytes2D
    entries: EntryTable

    @property
    def own_versions(self) -> DirBlockVersions:
        """The versions in this batch."""
        return self.versions.take(slice(self.start, self.start + len(self.data)))


class DirectoryBlockHistory:
    """All versions of the blocks of directories.

    Args:
        history: states of inodes; must have every state of each directory.

    Attributes:
        directory_states: rows of the states of directories that describe content.
    """

    def __init__(self, history: History) -> None:
        self.history, states = history, history.states
        rows: Rows = np.flatnonzero(states.table.is_dir & states.describes_content)
        self.directory_states = rows
        runs = history.map_states(rows).runs
        row, position = expand(runs.length)
        owner = rows[runs.owner[row]]
        live = self._unlogged_live_blocks()
        block = np.concatenate([runs.physical[row] + position, live[0]])
        tid = np.concatenate([states.tid[owner], np.full(len(live[0]), TID_ON_DISK)])
        instance = np.concatenate([states.instance[owner], live[1]])
        sort = np.lexsort((tid, block))
        # (block, tid, instance) of every block of a known directory
        self._block_owners = block[sort], tid[sort], instance[sort]

    # -- owners ---------------------------------------------------------------------------

    def _unlogged_live_blocks(self) -> tuple[Int64s, Int64s]:
        """(block, instance) of live directories without a state in the history.

        The instance column has the negated inode number.
        """
        history = self.history
        blocks, instances = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        numbers = np.setdiff1d(history.live_directories, history.number[history.is_allocated])
        for start in range(0, len(numbers), INODES_AT_ONCE):
            table = history.fs.inode_table(numbers[start : start + INODES_AT_ONCE])
            runs = history.fs.map_table(table).runs
            row, position = expand(runs.length)
            blocks.append(runs.physical[row] + position)
            instances.append(-table.number[runs.owner[row]])
        return np.concatenate(blocks), np.concatenate(instances)

    def _owner_as_of(self, block: Int64s, tid: Int64s) -> Rows:
        """Row of `_block_owners` with the owner of each block as of a tid; -1 for none.

        Before its first known owner, a block is taken to belong to that owner as well.
        """
        blocks, tids, _ = self._block_owners
        owner = AsOfIndex(blocks, tids).rows(block, tid)
        return np.where(owner == NO_ROW, SortedIndex(blocks).rows(block), owner)

    def _journal_versions(self) -> DirBlockVersions:
        copies = self.history.copies
        if copies is None:
            return DirBlockVersions.empty()
        owner = self._owner_as_of(copies.blocks, copies.tids)
        kept = owner >= 0
        epochs = self.history.epochs
        if not epochs.is_single:  # if blocks were moved, a later owner is no evidence
            then = epochs.layouts(copies.tids)
            kept &= then > 0
            kept[kept] &= then[kept] == epochs.layouts(self._block_owners[1][owner[kept]])
        instances = self._block_owners[2][owner[kept]]
        tids, tags = copies.tids[kept], copies.tag_rows[kept]
        return DirBlockVersions(copies.blocks[kept], tids, instances, tags)

    def _unallocated_versions(self) -> DirBlockVersions:
        """Unallocated blocks of deleted directories, unless the log has all their versions."""
        history, states = self.history, self.history.states
        blocks, _, instances = self._block_owners
        block, first = np.unique(blocks[::-1], return_index=True)
        instance = instances[::-1][first]
        freed = instance < 0
        if len(states):
            freed = ~freed & ~history.is_allocated[np.maximum(instance, 0)]
        block, instance = block[freed], instance[freed]
        free = ~history.fs.bitmaps.blocks_in_use(block)
        tenant, holder, begin, _ = self._ownership_periods
        logged = begin != TID_NONE  # the log has all versions of the block
        free &= ~np.isin(block * (1 << 32) + instance, (tenant * (1 << 32) + holder)[logged])
        block, instance = block[free], instance[free]
        before = np.full(len(block), TID_BEFORE_LOG)
        return DirBlockVersions(block, before, instance, np.full(len(block), SRC_DISK))

    def _allocated_versions(self) -> DirBlockVersions:
        """The blocks of live directories as they are on disk, for the removed entries in them."""
        block, tid, instance = self._block_owners
        live = np.append(self.history.is_allocated, True)[np.maximum(instance, NO_ROW)]
        kept = ends_group(block) & live
        now = np.full(kept.sum(), TID_ON_DISK)
        return DirBlockVersions(block[kept], now, instance[kept], np.full(len(now), SRC_DISK))

    def _pre_fast_commit_versions(self) -> DirBlockVersions:
        """Blocks changed by fast commits, in their versions before and between these commits."""
        parts = [(TID_PRE_FAST_COMMIT, self.history.stages.unlogged_changes)]
        for tid, (view, _) in self.history.stages.between.items():
            assert isinstance(view.blocks, ReplayedBlocks)
            parts.append((tid, view.blocks.changed.blocks))
        blocks = np.concatenate([part for _, part in parts])
        at = np.concatenate([np.full(len(part), tid) for tid, part in parts])
        owner = self._owner_as_of(blocks, at)
        kept = owner >= 0
        instances = self._block_owners[2][owner[kept]]
        source = np.full(kept.sum(), SRC_PRE_REPLAY)
        return DirBlockVersions(blocks[kept], at[kept], instances, source)

    @cached_property
    def _ownership_periods(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """(block, instance, begin, end) of each period in which a directory owned a block.

        `begin` is TID_NONE if the directory already owned the block before the log begins; `end` is
        TID_ON_DISK if no source shows when the block was freed.
        """
        states = self.history.states
        block, tid, instance = (column[self._block_owners[2] >= 0] for column in self._block_owners)
        sort = np.lexsort((tid, instance, block))
        block, tid, instance = block[sort], tid[sort], instance[sort]
        first = starts_group(block, instance)
        block, tid, instance = block[first], tid[first], instance[first]
        known = np.searchsorted(states.instance, instance)
        begins = (tid > states.tid[known]) | self._created_in_journal(known)
        begin = np.where(begins & (tid != TID_ON_DISK), tid, TID_NONE)
        return block, instance, begin, self.freed_tids(instance)

    def freed_tids(self, instance: Int64s) -> Int64s:
        """Tid at which each directory was freed, TID_ON_DISK where no source shows it."""
        history, known = self.history, np.maximum(instance, 0)
        if not len(history.states) or not len(instance):
            return np.full(len(instance), TID_ON_DISK)
        end = history.next_tid[history.last_content_row[known]]
        freed = (instance >= 0) & (end != TID_NONE) & ~history.is_allocated[known]
        return np.where(freed, end, TID_ON_DISK)

    def _created_in_journal(self, rows: Int64s) -> Bools:
        """True for each state whose inode was created after the first commit in the log."""
        return self.history.states.table.crtime[rows] > min(
            self.history.commit_times.values(), default=TID_ON_DISK
        )

    def _are_inline(self, rows: Int64s) -> Bools:
        """True for each state whose inode holds directory entries."""
        states = self.history.states
        inline: Bools = (states.table.flags[rows] & int(InodeFlags.INLINE_DATA)) != 0
        inline &= states.table.is_dir[rows]
        return inline & states.describes_content[rows] & (rows >= 0)

    # -- entries of all versions ----------------------------------------------------------

    @cached_property
    def unlogged_directories(self) -> Int64s:
        """Inode numbers of live directories without a state in the history."""
        instances = self._block_owners[2]
        return np.unique(-instances[instances < 0])

    # -- reading --------------------------------------------------------------------------

    def batches(self) -> Iterator[DirBlockBatch]:
        """All versions with their entries, in batches of bounded size."""
        block, instance, begin, end = self._ownership_periods
        begins, ends = begin != TID_NONE, end != TID_ON_DISK
        edges = np.concatenate([begin[begins] - 1, end[ends]])
        blocks, instances = (
            np.concatenate([part[begins], part[ends]]) for part in (block, instance)
        )
        parts = [
            self._journal_versions(),
            self._unallocated_versions(),
            self._pre_fast_commit_versions(),
            self._allocated_versions(),
            DirBlockVersions(blocks, edges, instances, np.full(len(edges), SRC_EMPTY)),
        ]
        versions = DirBlockVersions.concat(parts)
        versions = versions.take(np.lexsort((versions.tid, versions.block)))
        step = max(BATCH_BYTES // self.history.fs.superblock.block_size, 2)
        starts = np.arange(0, len(versions), step)
        overlaps = np.append(False, versions.block[starts[1:]] == versions.block[starts[1:] - 1])
        cuts = [
            slice(start - overlap, start + step)
            for start, overlap in zip(starts.tolist(), overlaps.tolist(), strict=False)
        ]
        read = prefetch_map(lambda cut: self._read_versions(versions.take(cut)), cuts)
        for cut, overlap, (data, entries) in zip(cuts, overlaps.tolist(), read, strict=False):
            yield DirBlockBatch(versions, cut.start, overlap, data, entries)
        yield from self._inline_batches()

    def _read_versions(self, piece: DirBlockVersions) -> tuple[Bytes2D, EntryTable]:
        fs, log = self.history.fs, self.history.log
        data = np.zeros((len(piece.block), fs.superblock.block_size), np.uint8)
        logged = piece.source >= 0
        if logged.any():
            assert log is not None
            data[logged] = log.read_copies(piece.source[logged])
        readable, on_disk = logged.copy(), piece.source == SRC_DISK
        data[on_disk], readable[on_disk] = fs.fetch(piece.block[on_disk])
        early = piece.source == SRC_PRE_REPLAY
        data[early], readable[early] = self.history.stages.fetch(
            piece.block[early], piece.tid[early]
        )
        stands = readable & (piece.tid == TID_ON_DISK)
        if fs.superblock.has_metadata_checksums:
            history = self.history
            rows = np.flatnonzero(readable & (piece.directory >= 0))
            rows = rows[~history.epochs.had_no_checksums(self._written(piece.take(rows)))]
            instance = piece.directory[rows]
            fits = np.zeros(len(rows), bool)
            for then in history.epochs.superblocks:
                rest = np.flatnonzero(~fits)
                seeds = inode_seeds(
                    then, history.number[instance[rest]], history.generation[instance[rest]]
                )
                fits[rest] = blocks_checksums_ok(seeds.astype(np.int64), data, rows[rest])
            readable[rows] = fits
        entries, broken = parse_entries(data, fs.has_file_types)
        sound = readable & (broken < 0)
        # Removed entries can remain in htree index blocks that were leaf blocks before.
        few = np.bincount(entries.block, minlength=len(data)) <= len((b".", b".."))
        # Unreadable versions are kept, without entries, because the names of the version before end
        # there.
        data[~sound & ~(stands & few & (broken < 0))] = 0
        return data, entries.take(sound[entries.block])

    def _written(self, versions: DirBlockVersions) -> Int64s:
        """Tid of each version; for a freed block, tid of its owner's last state with content."""
        history = self.history
        last = history.states.tid[history.last_content_row[versions.directory]]
        return np.where(versions.tid == TID_BEFORE_LOG, last, versions.tid)

    def _inline_batches(self) -> Iterator[DirBlockBatch]:
        """Batches of inline directories: entries in `i_block`, then those in `system.data`."""
        if Incompat.INLINE_DATA not in self.history.fs.superblock.features:
            return
        table, typed = self.history.states.table, self.history.fs.has_file_types
        states = self.history.states
        rows = self.directory_states
        inline = states.instance[rows[self._are_inline(rows)]]
        rows = np.flatnonzero(np.isin(states.instance, inline))
        first = rows[np.unique(states.instance[rows], return_index=True)[1]]
        first = first[self._created_in_journal(first)]
        tid = np.concatenate([states.tid[rows], states.tid[first] - 1])
        source = np.concatenate([rows, np.full(len(first), SRC_EMPTY)])
        rows = np.concatenate([rows, first])
        versions = DirBlockVersions(-states.table.number[rows], tid, states.instance[rows], source)
        versions = versions.take(np.lexsort((versions.tid, versions.block)))
        state = np.where(versions.source >= 0, versions.source, NO_ROW)
        data = table.i_block[state]
        data[~self._are_inline(state)] = 0
        entries, broken = parse_entries(data, typed, start=4)
        yield DirBlockBatch(versions, 0, False, data, entries.take(broken[entries.block] < 0))
        if (table.size[state] > data.shape[1]).any():
            data, length = self._inline_tails(state)
            entries, broken = parse_entries(data, typed)
            sound = (broken < 0) | (broken == length)
            yield DirBlockBatch(versions, 0, False, data, entries.take(sound[entries.block]))

    def _inline_tails(self, rows: Int64s) -> tuple[Bytes2D, Int64s]:
        """(uint8 (n, longest), length (n,)) of the entries in `system.data` of each state."""
        table = self.history.states.table
        tails = [
            _inline_tail(raw.tobytes(), extra)[: max(size - 60, 0)]
            for raw, extra, size in zip(
                table.raw[rows],
                table.extra_isize[rows].tolist(),
                np.where(self._are_inline(rows), table.size[rows], 60).tolist(),
                strict=True,
            )
        ]
        length = np.array([len(tail) for tail in tails], np.int64)
        width = max(int(length.max()), DIRENT.size)
        width += -width % 4  # removed entries are searched in 4-byte steps, whatever the size
        padded = b"".join(tail.ljust(width, b"\0") for tail in tails)
        return np.frombuffer(padded, np.uint8).reshape(len(tails), width), length


def _inline_tail(raw: bytes, extra_isize: int) -> bytes:
    """Value of `system.data` of an inline directory; empty if the attributes are damaged."""
    try:
        return inline_data_tail(raw, extra_isize)
    except CorruptError:
        return b""
