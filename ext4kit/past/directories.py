"""Directory blocks over time: which blocks were directories, whose, and their versions.

Copies of one block in the log show it as it was after a transaction; freed blocks on disk come
after what the log says. Inline directories count as blocks with the states of their inodes as
versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import ends_group, expand, starts_group
from ext4kit.arrays.lookup import AsOfIndex, SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.errors import CorruptError
from ext4kit.filesystem.ahead import ahead
from ext4kit.filesystem.inodes import INODES_AT_ONCE
from ext4kit.filesystem.xattrs import inline_tail
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.parsers.directory import DIRENT, EntryTable, blocks_checksums_ok, parse_entries
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import InodeFlags, inode_seeds
from ext4kit.past.states import NEVER, NOW, UNREPLAYED, Past

BYTES_AT_ONCE = 8 << 20
ON_DISK, EMPTY, IN_PLACE = -1, -2, -3
BEFORE = -1  # the order of a freed directory block on disk: written some time before


@dataclass(frozen=True, slots=True)
class Versions(Table):
    """Versions of directory blocks, by (block, order), as columns.

    Attributes:
        block: file system block; minus the inode number for an inline directory.
        order: transaction of the copy, BEFORE for a freed block on disk.
        directory: the life of the directory; minus its inode number when the log knows none.
        source: row of `log.tags`, row of the states for an inline directory, ON_DISK, IN_PLACE
            for what the disk has in place of what fast commits tell, or EMPTY where no entry of
            that directory stands in the block.
    """

    block: Int64s
    order: Int64s
    directory: Int64s
    source: Int64s


@dataclass(frozen=True, slots=True)
class Piece:
    """Some versions that follow each other, with their entries.

    Attributes:
        all: the versions that the piece is a part of.
        start: row of the piece's first version in `all`.
        overlaps: the first version is the last one of the piece before.
        data: uint8 (n, block size), the versions' bytes.
        entries: `entries.block` counts within the piece.
    """

    all: Versions
    start: int
    overlaps: bool
    data: Any
    entries: EntryTable

    @property
    def versions(self) -> Versions:
        """The piece's own versions."""
        return self.all.take(slice(self.start, self.start + len(self.data)))


class DirectoryBlocks:
    """The blocks that directories had, in all their versions.

    Args:
        past: it has to know every state of a directory.
    """

    def __init__(self, past: Past) -> None:
        self.past = past

    # -- whose they are -------------------------------------------------------------------

    @cached_property
    def rows(self) -> Any:
        """Rows of the states that show a directory."""
        states = self.past.states
        return np.flatnonzero(((states.table.mode & 0xF000) == 0x4000) & states.whole)

    @cached_property
    def _owned(self) -> tuple[Any, Any, Any]:
        """(block, order, life) of every block that a known directory had, by block and order."""
        rows = self.rows
        states = self.past.states
        runs = self.past.map_states(rows).data
        row, position = expand(runs.length)
        owner = rows[runs.owner[row]]
        live = self._live_directories()
        block = np.concatenate([runs.physical[row] + position, live[0]])
        order = np.concatenate([states.order[owner], np.full(len(live[0]), NOW)])
        life = np.concatenate([states.life[owner], live[1]])
        sort = np.lexsort((order, block))
        return block[sort], order[sort], life[sort]

    def _live_directories(self) -> tuple[Any, Any]:
        """(block, life) of live directories that the log shows no state of.

        Their life is minus their inode number: they have no state to point at.
        """
        past = self.past
        blocks, lives = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        numbers = np.setdiff1d(past.live_directories, past.number[past.alive_now])
        for start in range(0, len(numbers), INODES_AT_ONCE):
            table = past.fs.inode_table(numbers[start : start + INODES_AT_ONCE])
            runs = past.fs.map_table(table).data
            row, position = expand(runs.length)
            blocks.append(runs.physical[row] + position)
            lives.append(-table.number[runs.owner[row]])
        return np.concatenate(blocks), np.concatenate(lives)

    def _owner_at(self, block: Any, order: Any) -> Any:
        """Index into `_owned` of the directory that had each block at that time, else -1.

        Of a block that none had so early, the first one.
        """
        blocks, orders, _ = self._owned
        owner = AsOfIndex(blocks, orders).rows(block, order)
        return np.where(owner == NO_ROW, SortedIndex(blocks).rows(block), owner)

    def _logged_versions(self) -> Versions:
        history = self.past.history
        if history is None:
            return Versions.empty()
        owner = self._owner_at(history.blocks, history.orders)
        kept = owner >= 0
        epochs = self.past.epochs
        if not epochs.is_single:  # where blocks were moved, a later owner is none
            then = epochs.layouts(history.orders)
            kept &= then > 0
            kept[kept] &= then[kept] == epochs.layouts(self._owned[1][owner[kept]])
        lives = self._owned[2][owner[kept]]
        return Versions(history.blocks[kept], history.orders[kept], lives, history.tags[kept])

    def _freed_versions(self) -> Versions:
        """Blocks of deleted directories as the disk still holds them, where they are free."""
        past, states = self.past, self.past.states
        blocks, _, lives = self._owned
        block, first = np.unique(blocks[::-1], return_index=True)
        life = lives[::-1][first]
        dead = (life >= 0) & ~past.alive_now[np.maximum(life, 0)] if len(states) else life < 0
        block, life = block[dead], life[dead]
        free = ~past.fs.bitmaps.blocks_in_use(block)
        tenant, holder, begin, _ = self._tenures
        logged = begin != NEVER  # the log has all that was ever written there
        free &= ~np.isin(block * (1 << 32) + life, (tenant * (1 << 32) + holder)[logged])
        block, life = block[free], life[free]
        before = np.full(len(block), BEFORE)
        return Versions(block, before, life, np.full(len(block), ON_DISK))

    def _live_versions(self) -> Versions:
        """Blocks of live directories as they are, for the removed entries left in them."""
        block, order, life = self._owned
        last = ends_group(block)
        alive = self.past.alive_now
        kept = last & ((life < 0) | alive[np.maximum(life, 0)] if len(alive) else life < 0)
        now = np.full(kept.sum(), NOW)
        return Versions(block[kept], now, life[kept], np.full(len(now), ON_DISK))

    def _unreplayed_versions(self) -> Versions:
        """Blocks that fast commits changed, as they were before and in between."""
        parts = [(UNREPLAYED, self.past.unlogged_changes)]
        for order, (view, _) in self.past.interludes.items():
            assert isinstance(view.blocks, ReplayedBlocks)
            parts.append((order, view.blocks.changed.blocks))
        blocks = np.concatenate([part for _, part in parts])
        at = np.concatenate([np.full(len(part), order) for order, part in parts])
        owner = self._owner_at(blocks, at)
        kept = owner >= 0
        lives = self._owned[2][owner[kept]]
        return Versions(blocks[kept], at[kept], lives, np.full(kept.sum(), IN_PLACE))

    @cached_property
    def _tenures(self) -> tuple[Any, Any, Any, Any]:
        """(block, life, begin, end) of every known directory's time with a block.

        `begin` is NEVER where the block was the directory's before the log begins, `end` is
        NOW where nothing tells when it was freed.
        """
        states = self.past.states
        block, order, life = (column[self._owned[2] >= 0] for column in self._owned)
        sort = np.lexsort((order, life, block))
        block, order, life = block[sort], order[sort], life[sort]
        first = starts_group(block, life)
        block, order, life = block[first], order[first], life[first]
        known = np.searchsorted(states.life, life)
        begins = (order > states.order[known]) | self._born_in_log(known)
        begin = np.where(begins & (order != NOW), order, NEVER)
        return block, life, begin, self.ends(life)

    def ends(self, life: Any) -> Any:
        """Order at which each directory (as in `Versions`) was freed, NOW where nothing tells."""
        past, known = self.past, np.maximum(life, 0)
        if not len(past.states) or not len(life):
            return np.full(len(life), NOW)
        end = past.following[past.last_whole[known]]
        return np.where((life >= 0) & (end != NEVER) & ~past.alive_now[known], end, NOW)

    def _edges(self) -> Versions:
        """Where a directory's time with a block begins and ends, as versions without entries."""
        block, life, begin, end = self._tenures
        begins, ends = begin != NEVER, end != NOW
        edges = np.concatenate([begin[begins] - 1, end[ends]])
        blocks, lives = (np.concatenate([part[begins], part[ends]]) for part in (block, life))
        return Versions(blocks, edges, lives, np.full(len(edges), EMPTY))

    def _born_in_log(self, rows: Any) -> Any:
        """Per row of the states (bool): its inode was created after the log's first commit."""
        return self.past.states.table.crtime[rows] > min(
            self.past.commit_times.values(), default=NOW
        )

    def _inline_versions(self) -> Versions:
        """States of directories that were inline once; those that are no more end its names."""
        states = self.past.states
        rows = self.rows
        rows = np.flatnonzero(np.isin(states.life, states.life[rows[self._are_inline(rows)]]))
        first = rows[np.unique(states.life[rows], return_index=True)[1]]
        first = first[self._born_in_log(first)]
        order = np.concatenate([states.order[rows], states.order[first] - 1])
        source = np.concatenate([rows, np.full(len(first), EMPTY)])
        rows = np.concatenate([rows, first])
        return Versions(-states.table.number[rows], order, states.life[rows], source)

    def _are_inline(self, rows: Any) -> Any:
        """Per row of the states (bool): its inode holds directory entries."""
        states = self.past.states
        inline = (states.table.flags[rows] & int(InodeFlags.INLINE_DATA)) != 0
        inline &= (states.table.mode[rows] & 0xF000) == 0x4000
        return inline & states.whole[rows] & (rows >= 0)

    # -- entries of all versions ----------------------------------------------------------

    @cached_property
    def unlogged(self) -> Any:
        """Inode numbers of live directories that the log knows no state of."""
        lives = self._owned[2]
        return np.unique(-lives[lives < 0])

    # -- reading --------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        """All versions with their entries, in pieces of bounded size."""
        parts = [
            self._logged_versions(),
            self._freed_versions(),
            self._unreplayed_versions(),
            self._live_versions(),
            self._edges(),
        ]
        versions = Versions.concat(parts)
        versions = versions.take(np.lexsort((versions.order, versions.block)))
        step = max(BYTES_AT_ONCE // self.past.fs.superblock.block_size, 2)
        starts = np.arange(0, len(versions), step)
        overlaps = np.append(False, versions.block[starts[1:]] == versions.block[starts[1:] - 1])
        cuts = [
            slice(start - overlap, start + step)
            for start, overlap in zip(starts.tolist(), overlaps.tolist(), strict=False)
        ]
        read = ahead(lambda cut: self._read(versions.take(cut)), cuts)
        for cut, overlap, (data, entries) in zip(cuts, overlaps.tolist(), read, strict=False):
            yield Piece(versions, cut.start, overlap, data, entries)
        yield from self._read_inline()

    def _read(self, piece: Versions) -> tuple[Any, EntryTable]:
        fs, log = self.past.fs, self.past.log
        data = np.zeros((len(piece.block), fs.superblock.block_size), np.uint8)
        logged = piece.source >= 0
        if logged.any():
            assert log is not None
            data[logged] = log.read_copies(piece.source[logged])
        readable, on_disk = logged.copy(), piece.source == ON_DISK
        data[on_disk], readable[on_disk] = fs.fetch(piece.block[on_disk])
        early = piece.source == IN_PLACE
        data[early], readable[early] = self.past.fetch_in_place(
            piece.block[early], piece.order[early]
        )
        stands = readable & (piece.order == NOW)
        if fs.superblock.has_metadata_checksums:
            self._check(piece, data, readable)
        entries, broken = parse_entries(data, fs.has_file_types)
        sound = readable & (broken < 0)
        # Removed entries stand also in a live directory's htree blocks, which were leaves before.
        few = np.bincount(entries.block, minlength=len(data)) <= len((b".", b".."))
        # All others stay as versions: the names before them are gone with them.
        data[~sound & ~(stands & few & (broken < 0))] = 0
        return data, entries.take(sound[entries.block])

    def _check(self, piece: Versions, data: Any, readable: Any) -> None:
        """A block counts only when its tail fits the directory's seed; htree nodes name nobody."""
        past = self.past
        rows = np.flatnonzero(readable & (piece.directory >= 0))
        rows = rows[~past.epochs.had_no_checksums(self._written(piece.take(rows)))]
        life = piece.directory[rows]
        fits = np.zeros(len(rows), bool)
        for then in past.epochs.superblocks:
            rest = np.flatnonzero(~fits)
            seeds = inode_seeds(then, past.number[life[rest]], past.generation[life[rest]])
            fits[rest] = blocks_checksums_ok(seeds.astype(np.int64), data, rows[rest])
        readable[rows] = fits

    def _written(self, versions: Versions) -> Any:
        """The order at which each version was written, of one in a free block its life's last."""
        past = self.past
        last = past.states.order[past.last_whole[versions.directory]]
        return np.where(versions.order == BEFORE, last, versions.order)

    def _read_inline(self) -> Iterator[Piece]:
        """Inline directories: entries in i_block, and those that went on into system.data."""
        if Incompat.INLINE_DATA not in self.past.fs.superblock.features:
            return
        table, typed = self.past.states.table, self.past.fs.has_file_types
        versions = self._inline_versions()
        versions = versions.take(np.lexsort((versions.order, versions.block)))
        data = table.i_block[versions.source]
        data[~self._are_inline(versions.source)] = 0
        entries, broken = parse_entries(data, typed, start=4)
        yield Piece(versions, 0, False, data, entries.take(broken[entries.block] < 0))
        if (table.size[versions.source] > data.shape[1]).any():
            data, length = self._inline_tails(versions.source)
            entries, broken = parse_entries(data, typed)
            sound = (broken < 0) | (broken == length)
            yield Piece(versions, 0, False, data, entries.take(sound[entries.block]))

    def _inline_tails(self, rows: Any) -> tuple[Any, Any]:
        """(uint8 (n, longest), length (n,)) of the entries that the states keep in system.data."""
        table = self.past.states.table
        tails = [
            _tail(raw.tobytes(), extra)[: max(size - 60, 0)]
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


def _tail(raw: bytes, extra_isize: int) -> bytes:
    """What an inline directory keeps in system.data; nothing when its attributes are broken."""
    try:
        return inline_tail(raw, extra_isize)
    except CorruptError:
        return b""
