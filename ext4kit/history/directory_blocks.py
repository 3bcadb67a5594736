"""Directory blocks over time: which blocks were directories, whose, and their versions.

Copies of one block in the log show it as it was after a transaction; freed blocks on disk come
after what the log says. Inline directories count as blocks with the states of their inodes as
versions.
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
from ext4kit.history.history import TID_NONE, TID_ON_DISK, UNREPLAYED, History
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.parsers.directory import DIRENT, EntryTable, blocks_checksums_ok, parse_entries
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags, inode_seeds

BATCH_BYTES = 8 << 20
SRC_DISK, SRC_EMPTY, SRC_PRE_REPLAY = -1, -2, -3
TID_BEFORE_LOG = -1  # the order of a freed directory block on disk: written some time before


@dataclass(frozen=True, slots=True)
class DirBlockVersions(Table):
    """Versions of directory blocks, by (block, order), as columns.

    Attributes:
        block: file system block; minus the inode number for an inline directory.
        order: transaction of the copy, TID_BEFORE_LOG for a freed block on disk.
        directory: the life of the directory; minus its inode number when the log knows none.
        source: row of `log.tags`, row of the states for an inline directory, SRC_DISK,
            SRC_PRE_REPLAY for what the disk has in place of what fast commits tell, or SRC_EMPTY
            where no entry of that directory stands in the block.
    """

    block: Int64s
    order: Int64s
    directory: Int64s
    source: Int64s


@dataclass(frozen=True, slots=True)
class DirBlockBatch:
    """Some versions that follow each other, with their entries.

    Attributes:
        versions: the versions that the piece is a part of.
        start: row of the piece's first version in `versions`.
        repeats_last: the first version is the last one of the piece before.
        data: uint8 (n, block size), the versions' bytes.
        entries: `entries.block` counts within the piece.
    """

    versions: DirBlockVersions
    start: int
    repeats_last: bool
    data: Bytes2D
    entries: EntryTable

    @property
    def own_versions(self) -> DirBlockVersions:
        """The piece's own versions."""
        return self.versions.take(slice(self.start, self.start + len(self.data)))


class DirectoryBlockHistory:
    """The blocks that directories had, in all their versions.

    Args:
        history: it has to know every state of a directory.
    """

    def __init__(self, history: History) -> None:
        self.history = history

    # -- whose they are -------------------------------------------------------------------

    @cached_property
    def directory_states(self) -> Rows:
        """Rows of the states that show a directory."""
        states = self.history.states
        return np.flatnonzero(states.table.is_dir & states.describes_content)

    @cached_property
    def _block_owners(self) -> tuple[Int64s, Int64s, Int64s]:
        """(block, order, life) of every block that a known directory had, by block and order."""
        rows = self.directory_states
        states = self.history.states
        runs = self.history.map_states(rows).runs
        row, position = expand(runs.length)
        owner = rows[runs.owner[row]]
        live = self._unlogged_live_blocks()
        block = np.concatenate([runs.physical[row] + position, live[0]])
        order = np.concatenate([states.tid[owner], np.full(len(live[0]), TID_ON_DISK)])
        life = np.concatenate([states.life[owner], live[1]])
        sort = np.lexsort((order, block))
        return block[sort], order[sort], life[sort]

    def _unlogged_live_blocks(self) -> tuple[Int64s, Int64s]:
        """(block, life) of live directories that the log shows no state of.

        Their life is minus their inode number: they have no state to point at.
        """
        history = self.history
        blocks, lives = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        numbers = np.setdiff1d(history.live_directories, history.number[history.is_allocated])
        for start in range(0, len(numbers), INODES_AT_ONCE):
            table = history.fs.inode_table(numbers[start : start + INODES_AT_ONCE])
            runs = history.fs.map_table(table).runs
            row, position = expand(runs.length)
            blocks.append(runs.physical[row] + position)
            lives.append(-table.number[runs.owner[row]])
        return np.concatenate(blocks), np.concatenate(lives)

    def _owner_as_of(self, block: Int64s, order: Int64s) -> Rows:
        """Index into `_block_owners` of the directory that had each block at that time, else -1.

        Of a block that none had so early, the first one.
        """
        blocks, orders, _ = self._block_owners
        owner = AsOfIndex(blocks, orders).rows(block, order)
        return np.where(owner == NO_ROW, SortedIndex(blocks).rows(block), owner)

    def _journal_versions(self) -> DirBlockVersions:
        copies = self.history.copies
        if copies is None:
            return DirBlockVersions.empty()
        owner = self._owner_as_of(copies.blocks, copies.tids)
        kept = owner >= 0
        epochs = self.history.epochs
        if not epochs.is_single:  # where blocks were moved, a later owner is none
            then = epochs.layouts(copies.tids)
            kept &= then > 0
            kept[kept] &= then[kept] == epochs.layouts(self._block_owners[1][owner[kept]])
        lives = self._block_owners[2][owner[kept]]
        return DirBlockVersions(
            copies.blocks[kept], copies.tids[kept], lives, copies.tag_rows[kept]
        )

    def _unallocated_versions(self) -> DirBlockVersions:
        """Blocks of deleted directories as the disk still holds them, where they are free."""
        history, states = self.history, self.history.states
        blocks, _, lives = self._block_owners
        block, first = np.unique(blocks[::-1], return_index=True)
        life = lives[::-1][first]
        dead = (life >= 0) & ~history.is_allocated[np.maximum(life, 0)] if len(states) else life < 0
        block, life = block[dead], life[dead]
        free = ~history.fs.bitmaps.blocks_in_use(block)
        tenant, holder, begin, _ = self._ownership_periods
        logged = begin != TID_NONE  # the log has all that was ever written there
        free &= ~np.isin(block * (1 << 32) + life, (tenant * (1 << 32) + holder)[logged])
        block, life = block[free], life[free]
        before = np.full(len(block), TID_BEFORE_LOG)
        return DirBlockVersions(block, before, life, np.full(len(block), SRC_DISK))

    def _allocated_versions(self) -> DirBlockVersions:
        """Blocks of live directories as they are, for the removed entries left in them."""
        block, order, life = self._block_owners
        last = ends_group(block)
        alive = self.history.is_allocated
        kept = last & ((life < 0) | alive[np.maximum(life, 0)] if len(alive) else life < 0)
        now = np.full(kept.sum(), TID_ON_DISK)
        return DirBlockVersions(block[kept], now, life[kept], np.full(len(now), SRC_DISK))

    def _pre_fast_commit_versions(self) -> DirBlockVersions:
        """Blocks that fast commits changed, as they were before and in between."""
        parts = [(UNREPLAYED, self.history.unlogged_changes)]
        for order, (view, _) in self.history.interludes.items():
            assert isinstance(view.blocks, ReplayedBlocks)
            parts.append((order, view.blocks.changed.blocks))
        blocks = np.concatenate([part for _, part in parts])
        at = np.concatenate([np.full(len(part), order) for order, part in parts])
        owner = self._owner_as_of(blocks, at)
        kept = owner >= 0
        lives = self._block_owners[2][owner[kept]]
        return DirBlockVersions(blocks[kept], at[kept], lives, np.full(kept.sum(), SRC_PRE_REPLAY))

    @cached_property
    def _ownership_periods(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """(block, life, begin, end) of every known directory's time with a block.

        `begin` is TID_NONE where the block was the directory's before the log begins, `end` is
        TID_ON_DISK where nothing tells when it was freed.
        """
        states = self.history.states
        block, order, life = (column[self._block_owners[2] >= 0] for column in self._block_owners)
        sort = np.lexsort((order, life, block))
        block, order, life = block[sort], order[sort], life[sort]
        first = starts_group(block, life)
        block, order, life = block[first], order[first], life[first]
        known = np.searchsorted(states.life, life)
        begins = (order > states.tid[known]) | self._created_in_journal(known)
        begin = np.where(begins & (order != TID_ON_DISK), order, TID_NONE)
        return block, life, begin, self.freed_tids(life)

    def freed_tids(self, life: Int64s) -> Int64s:
        """Tid at which each directory was freed, TID_ON_DISK where no source shows it."""
        history, known = self.history, np.maximum(life, 0)
        if not len(history.states) or not len(life):
            return np.full(len(life), TID_ON_DISK)
        end = history.next_tid[history.last_content_row[known]]
        return np.where(
            (life >= 0) & (end != TID_NONE) & ~history.is_allocated[known], end, TID_ON_DISK
        )

    def _period_boundaries(self) -> DirBlockVersions:
        """Where a directory's time with a block begins and ends, as versions without entries."""
        block, life, begin, end = self._ownership_periods
        begins, ends = begin != TID_NONE, end != TID_ON_DISK
        edges = np.concatenate([begin[begins] - 1, end[ends]])
        blocks, lives = (np.concatenate([part[begins], part[ends]]) for part in (block, life))
        return DirBlockVersions(blocks, edges, lives, np.full(len(edges), SRC_EMPTY))

    def _created_in_journal(self, rows: Int64s) -> Bools:
        """Per row of the states (bool): its inode was created after the log's first commit."""
        return self.history.states.table.crtime[rows] > min(
            self.history.commit_times.values(), default=TID_ON_DISK
        )

    def _inline_versions(self) -> DirBlockVersions:
        """States of directories that were inline once; those that are no more end its names."""
        states = self.history.states
        rows = self.directory_states
        rows = np.flatnonzero(np.isin(states.life, states.life[rows[self._are_inline(rows)]]))
        first = rows[np.unique(states.life[rows], return_index=True)[1]]
        first = first[self._created_in_journal(first)]
        order = np.concatenate([states.tid[rows], states.tid[first] - 1])
        source = np.concatenate([rows, np.full(len(first), SRC_EMPTY)])
        rows = np.concatenate([rows, first])
        return DirBlockVersions(-states.table.number[rows], order, states.life[rows], source)

    def _are_inline(self, rows: Int64s) -> Bools:
        """Per row of the states (bool): its inode holds directory entries."""
        states = self.history.states
        inline: Bools = (states.table.flags[rows] & int(InodeFlags.INLINE_DATA)) != 0
        inline &= states.table.is_dir[rows]
        return inline & states.describes_content[rows] & (rows >= 0)

    # -- entries of all versions ----------------------------------------------------------

    @cached_property
    def unlogged_directories(self) -> Int64s:
        """Inode numbers of live directories that the log knows no state of."""
        lives = self._block_owners[2]
        return np.unique(-lives[lives < 0])

    # -- reading --------------------------------------------------------------------------

    def batches(self) -> Iterator[DirBlockBatch]:
        """All versions with their entries, in pieces of bounded size."""
        parts = [
            self._journal_versions(),
            self._unallocated_versions(),
            self._pre_fast_commit_versions(),
            self._allocated_versions(),
            self._period_boundaries(),
        ]
        versions = DirBlockVersions.concat(parts)
        versions = versions.take(np.lexsort((versions.order, versions.block)))
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
        data[early], readable[early] = self.history.fetch_in_place(
            piece.block[early], piece.order[early]
        )
        stands = readable & (piece.order == TID_ON_DISK)
        if fs.superblock.has_metadata_checksums:
            self._verify_checksums(piece, data, readable)
        entries, broken = parse_entries(data, fs.has_file_types)
        sound = readable & (broken < 0)
        # Removed entries stand also in a live directory's htree blocks, which were leaves before.
        few = np.bincount(entries.block, minlength=len(data)) <= len((b".", b".."))
        # All others stay as versions: the names before them are gone with them.
        data[~sound & ~(stands & few & (broken < 0))] = 0
        return data, entries.take(sound[entries.block])

    def _verify_checksums(self, piece: DirBlockVersions, data: Bytes2D, readable: Bools) -> None:
        """A block counts only when its tail fits the directory's seed; htree nodes name nobody."""
        history = self.history
        rows = np.flatnonzero(readable & (piece.directory >= 0))
        rows = rows[~history.epochs.had_no_checksums(self._written(piece.take(rows)))]
        life = piece.directory[rows]
        fits = np.zeros(len(rows), bool)
        for then in history.epochs.superblocks:
            rest = np.flatnonzero(~fits)
            seeds = inode_seeds(then, history.number[life[rest]], history.generation[life[rest]])
            fits[rest] = blocks_checksums_ok(seeds.astype(np.int64), data, rows[rest])
        readable[rows] = fits

    def _written(self, versions: DirBlockVersions) -> Int64s:
        """The order at which each version was written, of one in a free block its life's last."""
        history = self.history
        last = history.states.tid[history.last_content_row[versions.directory]]
        return np.where(versions.order == TID_BEFORE_LOG, last, versions.order)

    def _inline_batches(self) -> Iterator[DirBlockBatch]:
        """Inline directories: entries in i_block, and those that went on into system.data."""
        if Incompat.INLINE_DATA not in self.history.fs.superblock.features:
            return
        table, typed = self.history.states.table, self.history.fs.has_file_types
        versions = self._inline_versions()
        versions = versions.take(np.lexsort((versions.order, versions.block)))
        data = table.i_block[versions.source]
        data[~self._are_inline(versions.source)] = 0
        entries, broken = parse_entries(data, typed, start=4)
        yield DirBlockBatch(versions, 0, False, data, entries.take(broken[entries.block] < 0))
        if (table.size[versions.source] > data.shape[1]).any():
            data, length = self._inline_tails(versions.source)
            entries, broken = parse_entries(data, typed)
            sound = (broken < 0) | (broken == length)
            yield DirBlockBatch(versions, 0, False, data, entries.take(sound[entries.block]))

    def _inline_tails(self, rows: Int64s) -> tuple[Bytes2D, Int64s]:
        """(uint8 (n, longest), length (n,)) of the entries that the states keep in system.data."""
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
        width += -width % 4  # whatever a size says: removed entries are looked for in words
        padded = b"".join(tail.ljust(width, b"\0") for tail in tails)
        return np.frombuffer(padded, np.uint8).reshape(len(tails), width), length


def _inline_tail(raw: bytes, extra_isize: int) -> bytes:
    """What an inline directory keeps in system.data; nothing when its attributes are broken."""
    try:
        return inline_data_tail(raw, extra_isize)
    except CorruptError:
        return b""
