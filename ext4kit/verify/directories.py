"""Directory blocks and their entries, checked against the inodes that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import distinct, expand, first_occurrence, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt32s, UInt64s
from ext4kit.errors import CorruptError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.inodes import ROOT
from ext4kit.filesystem.prefetch import prefetch_map
from ext4kit.filesystem.xattrs import inline_data_tail
from ext4kit.parsers.checksums import crc32c_each
from ext4kit.parsers.directory import DIRENT_TAIL, TAIL_FILE_TYPE, EntryTable, Names, parse_entries
from ext4kit.parsers.inode import InodeFlags, InodeTable, inode_seeds
from ext4kit.parsers.name_hashes import KNOWN, dirhashes
from ext4kit.verify.context import InodesInUse, VerifyContext, in_batches
from ext4kit.verify.findings import Words, text_of
from ext4kit.verify.htree import DirectoryBlocks, Index, check_index
from ext4kit.verify.inodes import DIRECTORY, Directories

BLOCKS_AT_ONCE, WORK_AT_ONCE = 1024, 1 << 16  # blocks; directories and blocks
NAMES_AT_ONCE = 1 << 20  # compared at once, rounded up to whole directories
MOST_BLOCKS = 1 << 22  # directory blocks that are checked together
TAIL_CODES = ("directory-no-checksum", "directory-checksum")
FILE_TYPES = np.zeros(16, np.int64)  # i_mode >> 12 -> file type of an entry
FILE_TYPES[[8, 4, 2, 6, 1, 12, 10]] = [1, 2, 3, 4, 5, 6, 7]
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with well-mixed bits


@dataclass(slots=True)
class Links:
    """Link data from all entries, one row for each row of `InodesInUse`.

    Attributes:
        counted: number of entries that name the inode, including `.` and `..`.
        parent: for a directory, inode number of the directory that names it, 0 for none.
        told: for a directory, inode number in its own `..`, 0 for none.
        name_length: for a directory, bytes of its name in `parent`.
    """

    counted: UInt32s
    parent: UInt32s
    told: UInt32s
    name_length: UInt32s


def check_directories(
    context: VerifyContext, facts: InodesInUse, pieces: list[Directories]
) -> Links:
    """Check all directories and return the link data from their entries."""
    count = len(facts.number)
    links = Links(*(np.zeros(count, np.uint32) for _ in range(4)))
    for batch in in_batches(pieces, _work, WORK_AT_ONCE):
        table = InodeTable.concat([piece.table for piece in batch])
        check = _Check(context, facts, links, table)
        check.blocks(Runs.stacked([(piece.runs, len(piece.table)) for piece in batch]))
        check.inline()
    return links


def _work(piece: Directories) -> int:
    """Number of directories and of their blocks; a map that claims too many blocks is limited."""
    return len(piece.table) + int(np.minimum(piece.runs.length, MOST_BLOCKS).sum())


@dataclass(frozen=True, slots=True)
class _Entries(Table):
    """Entries of some directories, without `.` and `..`.

    Attributes:
        owner: row of the directory; directory: its inode number.
        block, offset: location of each entry.
        inode, file_type, names: as stored.
        place: row of the block among all directory blocks.
        key: 64-bit hash of the name, equal for equal names and almost never for different ones.
        is_bad_name: True where the name contains a slash or a NUL.
    """

    owner: Rows
    directory: Int64s
    block: Int64s
    offset: Int64s
    inode: Int64s
    file_type: Int64s
    names: Names
    place: Rows
    key: UInt64s
    is_bad_name: Bools


@dataclass(frozen=True, slots=True)
class _Read:
    """Some directory blocks and their content.

    Attributes:
        lost: rows of unreadable blocks; some: rows of readable blocks.
        rows: uint8 (n, block size).
        tails: rows of blocks for each of `TAIL_CODES`.
        broken: offset at which the chain of entries breaks, from `parse_entries`.
        stray: the entries `.` and `..`; entries: all others.
        disordered: by hash version, rows of leaves with names outside their hash range.
    """

    lost: Rows
    some: Rows
    rows: Bytes2D
    tails: tuple[Rows, Rows]
    broken: Int64s
    stray: EntryTable
    entries: _Entries
    disordered: list[Rows]


class _Check:
    """Check of one table of directories."""

    def __init__(
        self, context: VerifyContext, facts: InodesInUse, links: Links, table: InodeTable
    ) -> None:
        self.context, self.facts, self.links, self.table = context, facts, links, table
        self.rows = facts.rows_of(table.number)
        self.encrypted = (table.flags & int(InodeFlags.ENCRYPT)) != 0
        self.folded = (table.flags & int(InodeFlags.CASEFOLD)) != 0
        self.sealed = context.superblock.has_metadata_checksums
        self.seeds = inode_seeds(context.superblock, table.number, table.generation).astype(
            np.int64
        )
        self.keys: list[tuple[Rows, UInt64s, Int64s]] = []

    def blocks(self, runs: Runs) -> None:
        """Check directories with blocks."""
        blocks = self._expanded(runs)
        index = check_index(self.context, self.table, blocks, self.seeds)
        starts = range(0, len(blocks), BLOCKS_AT_ONCE)
        parts = (at + np.flatnonzero(~index.is_inner[at : at + BLOCKS_AT_ONCE]) for at in starts)
        for read in prefetch_map(lambda some: self._read(blocks, index, some), parts):
            self._check_blocks(blocks, read)
            if sum(len(owner) for owner, *_ in self.keys) >= NAMES_AT_ONCE:
                self._duplicates(int(self.keys[-1][0][-1]))
        self._duplicates(len(self.table))

    def _expanded(self, runs: Runs) -> DirectoryBlocks:
        most = min(MOST_BLOCKS, self.context.fs.blocks.blocks_count)  # each block has one owner
        kept = np.cumsum(runs.length) <= most
        lost = distinct(runs.owner[~kept])[0]
        self.context.add_inodes("directory-unreadable", self.table.number, lost, "too many blocks")
        runs = runs.take(kept)
        row, step = expand(runs.length)
        owner = runs.owner[row]
        return DirectoryBlocks(
            owner, self.table.number[owner], runs.logical[row] + step, runs.physical[row] + step
        )

    def _read(self, blocks: DirectoryBlocks, index: Index, some: Rows) -> _Read:
        """Read some blocks and compute all results that need no other blocks."""
        rows, readable = self.context.fs.fetch(blocks.block[some])
        lost, some, rows = some[~readable], some[readable], rows[readable]
        tails = self._check_tails(blocks, some, rows, ~index.is_root[some])
        entries, broken = parse_entries(rows, self.context.fs.has_file_types)
        names = entries.packed_names(rows)
        dots = _are_dots(names)
        stray = entries.take(dots)
        entries, names = entries.take(~dots), names.take(~dots)
        place = some[entries.block]
        chosen = _entries_of(blocks, place, entries, entries.offset, names)
        disordered = self._disordered(chosen, index)
        return _Read(lost, some, rows, tails, broken, stray, chosen, disordered)

    def _check_blocks(self, blocks: DirectoryBlocks, read: _Read) -> None:
        self._report("directory-unreadable", blocks, read.lost, self.context.fs.unreadable)
        if not len(read.some):
            return
        for code, places in zip(TAIL_CODES, read.tails, strict=True):
            self._report(code, blocks, places)
        self._report(
            "directory-corrupted", blocks.take(read.some), read.broken >= 0,
            lambda at: f"invalid entry at byte {read.broken[at]:,}",
        )  # fmt: skip
        self._check_dots(blocks, read.some, read.rows)
        places = read.some[read.stray.block]  # `.` and `..` are in the first block, once each
        count = np.bincount(places, minlength=1)
        wrong = (blocks.logical[places] != 0) | (count[places] > 2)
        stray = distinct(places[wrong])[0]
        self._report("directory-dot", blocks, stray, "an additional `.` or `..`")
        self._check_entries(read.entries)
        for places in read.disordered:
            self._report("htree-order", blocks, places)

    def _report(
        self, code: str, blocks: DirectoryBlocks, rows: Rows | Bools, read: Words = ""
    ) -> None:
        self.context.add_rows(
            code, "directory block", rows, read, inode=blocks.inode, block=blocks.block
        )

    def _check_tails(
        self, blocks: DirectoryBlocks, some: Rows, rows: Bytes2D, leaf: Bools
    ) -> tuple[Rows, Rows]:
        """Per code of `TAIL_CODES`: blocks of names whose checksum is missing or wrong.

        Index roots are omitted; their checksum is checked with the index.
        """
        some, rows = some[leaf], rows[leaf]
        if not self.sealed or not len(some):
            return some[:0], some[:0]
        offset = rows.shape[1] - DIRENT_TAIL.size
        tail = DIRENT_TAIL.columns(rows, offset)
        has_tail = (
            (tail["det_reserved_ft"] == TAIL_FILE_TYPE)
            & (tail["det_rec_len"] == DIRENT_TAIL.size)
            & (tail["det_reserved_zero1"] == 0)
            & (tail["det_reserved_zero2"] == 0)
        )
        seeds = self.seeds[blocks.owner[some]]
        fits = crc32c_each(seeds, (row[:offset] for row in rows)) == tail["det_checksum"]
        return some[~has_tail], some[has_tail & ~fits]

    def _check_dots(self, blocks: DirectoryBlocks, some: Rows, rows: Bytes2D) -> None:
        """Check that the first block starts with `.` (naming the directory itself) and `..`."""
        first = np.flatnonzero(blocks.logical[some] == 0)
        if not len(first):
            return
        owner = blocks.owner[some[first]]
        own, length, dots = _entry_at(rows, first, np.zeros(len(first), np.int64))
        fine = (own == self.table.number[owner]) & (dots == 1)
        second = np.clip(length, 12, rows.shape[1] - 12) // 4 * 4
        parent, _, dots = _entry_at(rows, first, second)
        fine &= dots == 2
        self._report("directory-dot", blocks, some[first[~fine]])
        good = owner[fine]
        self.links.told[self.rows[good]] = parent[fine]
        self.links.counted[self.rows[good]] += 1
        self._count(parent[fine])

    def _count(self, numbers: Int64s) -> None:
        rows = self.facts.rows_of(numbers)
        np.add.at(self.links.counted, rows[rows >= 0], 1)

    def _check_entries(self, some: _Entries) -> None:
        superblock = self.context.superblock
        lowest = superblock.first_usable_inode
        cannot = (some.inode < lowest) | (some.inode > superblock.inodes_count)
        row = self.facts.rows_of(some.inode)
        used = (row >= 0) & (~cannot | (some.inode == ROOT))
        self._entries("entry-inode", some, cannot)
        self._entries("entry-unused-inode", some, ~cannot & (row < 0))
        mode, flags = self.facts.mode[row], self.facts.flags[row]
        self._entries("entry-value-inode", some, used & (flags & int(InodeFlags.EA_INODE) != 0))
        expected = FILE_TYPES[mode >> 12 & 15] * self.context.fs.has_file_types
        wrong = used & (some.file_type != expected) & ~self.facts.is_bad[row]
        self._entries("entry-no-file-type", some, wrong & (some.file_type == 0))
        wrong &= some.file_type != 0
        plain = used & (flags & int(InodeFlags.ENCRYPT) == 0) & np.isin(mode >> 12, (4, 8, 10))
        self._entries("entry-unencrypted", some, plain & self.encrypted[some.owner])
        self._entries(
            "entry-file-type", some, wrong,
            lambda at: f"{some.file_type[at]}, expected {expected[at]}",
        )  # fmt: skip
        self._entries("entry-name", some, some.is_bad_name & ~self.encrypted[some.owner])
        np.add.at(self.links.counted, row[used], 1)
        self._note_parents(some, row, used & (mode & 0xF000 == DIRECTORY))
        if len(some):
            self.keys.append((some.owner, some.key, some.inode))

    def _entries(self, code: str, some: _Entries, wrong: Bools | Rows, read: Words = "") -> None:
        def words(at: int) -> str:
            (name,) = some.names.take(slice(at, at + 1)).tolist()
            suffix = text_of(read, at)
            target = f"{name.decode('utf-8', 'backslashreplace')!r} -> inode {some.inode[at]}"
            return f"{target}: {suffix}" if suffix else target

        self.context.add_rows(
            code, "directory entry", wrong, words, inode=some.directory, block=some.block,
            offset=some.offset,
        )  # fmt: skip

    def _note_parents(self, some: _Entries, row: Rows, chosen: Bools) -> None:
        entries = np.flatnonzero(chosen)
        target = row[entries]
        again = ~first_occurrence(target) | (self.links.parent[target] != 0)
        again |= some.inode[entries] == ROOT
        self._entries("directory-linked-twice", some, entries[again])
        fresh = entries[~again]
        self.links.parent[row[fresh]] = some.directory[fresh]
        self.links.name_length[row[fresh]] = some.names.length[fresh]

    def _disordered(self, some: _Entries, index: Index) -> list[Rows]:
        """Leaves of an index with names outside their hash range, by hash version."""
        version = index.version[some.owner]
        leaf = (index.high[some.place] > 0) & ~self.folded[some.owner]
        seed = b"".join(word.to_bytes(4, "little") for word in self.context.superblock.hash_seed)
        found = []
        for kind in np.flatnonzero(np.bincount(version[leaf])).tolist():
            if kind not in KNOWN:
                continue
            rows = np.flatnonzero(leaf & (version == kind))
            hashes, _ = dirhashes(some.names.take(rows), kind, seed)
            place = some.place[rows]
            wrong = (hashes < index.low[place]) | (hashes >= index.high[place])
            found.append(distinct(place[wrong])[0])
        return found

    def _duplicates(self, end: int) -> None:
        """Report names that occur twice in one directory, for the directories before row `end`."""
        if not self.keys or self.keys[0][0][0] >= end:
            return
        owner, key, inode = (np.concatenate(part) for part in zip(*self.keys, strict=True))
        later = owner >= end
        self.keys = [(owner[later], key[later], inode[later])] if later.any() else []
        owner, key, inode = owner[~later], key[~later], inode[~later]
        mixed = np.sort(key ^ (owner.astype(np.uint64) * _FACTOR))
        if not (mixed[1:] == mixed[:-1]).any():
            return
        order = np.lexsort((key, owner))
        owner, key, inode = owner[order], key[order], inode[order]
        again = ~starts_group(owner, key)
        self.context.add_inodes(
            "entry-duplicate", self.table.number[owner], again,
            lambda at: f"inodes {inode[at - 1]} and {inode[at]}",
        )  # fmt: skip

    # -- directories in the inode ---------------------------------------------------------

    def inline(self) -> None:
        """Check directories whose entries are in the inode."""
        rows = np.flatnonzero((self.table.flags & int(InodeFlags.INLINE_DATA)) != 0)
        if not len(rows):
            return
        body = np.ascontiguousarray(self.table.i_block[rows])
        parent = body[:, :4].copy().view("<u4")[:, 0].astype(np.int64)
        self.links.told[self.rows[rows]] = parent
        self.links.counted[self.rows[rows]] += 1
        self._count(parent)
        self._inline_entries(rows, body, 4)
        for row, tail in self._tails(rows):
            self._inline_entries(np.array([row]), tail, 0)
        self._duplicates(len(self.table))

    def _tails(self, rows: Rows) -> Iterator[tuple[int, Bytes2D]]:
        """(row, uint8 (1, length)) of the entries in the attribute system.data."""
        for row in rows[self.table.size[rows] > 60].tolist():
            raw, extra = self.table.raw[row].tobytes(), int(self.table.extra_isize[row])
            try:
                tail = inline_data_tail(raw, extra)[: max(int(self.table.size[row]) - 60, 0)]
            except CorruptError:
                continue  # reported by the check of attributes
            if tail:
                yield row, np.frombuffer(tail, np.uint8)[None, :]

    def _inline_entries(self, rows: Rows, data: Bytes2D, start: int) -> None:
        numbers = self.table.number[rows]
        entries, broken = parse_entries(data, self.context.fs.has_file_types, start=start)
        self.context.add_inodes(
            "directory-corrupted", numbers, broken >= 0,
            lambda row: f"invalid inline entry at byte {broken[row]:,}",
        )  # fmt: skip
        names = entries.packed_names(data)
        dots = _are_dots(names)
        self.context.add_inodes("directory-dot", numbers[entries.block], dots)
        entries, names = entries.take(~dots), names.take(~dots)
        block, offset = self.context.fs.inode_location(numbers)
        bodies = DirectoryBlocks(rows, numbers, np.zeros_like(block), block)
        offset = offset[entries.block]
        self._check_entries(_entries_of(bodies, entries.block, entries, offset, names))


def _entries_of(
    blocks: DirectoryBlocks, place: Rows, entries: EntryTable, offset: Int64s, names: Names
) -> _Entries:
    return _Entries(
        blocks.owner[place], blocks.inode[place], blocks.block[place], offset, entries.inode,
        entries.file_type, names, place, _name_keys(names), _bad_names(names),
    )  # fmt: skip


def _entry_at(data: Bytes2D, row: Rows, offset: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """(inode, record length, number of dots) of the entry at a byte offset of some rows.

    The offset must be a multiple of 4. The number of dots is 0 if the name is not `.` or `..`.
    """
    words = np.ascontiguousarray(data).view("<u4")
    word = offset // 4
    inode, head, name = (words[row, word + step].astype(np.int64) for step in range(3))
    length = head >> 16 & 0xFF
    dots = (length == 1) & (name & 0xFF == 0x2E) | (length == 2) & (name & 0xFFFF == 0x2E2E)
    return inode, head & 0xFFFF, length * dots


def _are_dots(names: Names) -> Bools:
    """Per name: True for `.` and `..`."""
    data = np.frombuffer(names.data, np.uint8)
    short = names.length <= 2
    found = np.zeros(len(names), bool)
    start, length = names.start[short], names.length[short]
    if len(start):
        found[short] = (data[start] == ord(".")) & (data[start + length - 1] == ord("."))
    return found


def _bad_names(names: Names) -> Bools:
    """Per name: True where it contains a slash or a NUL."""
    data = np.frombuffer(names.data, np.uint8)
    places = np.flatnonzero((data == 0) | (data == ord("/")))
    bad = np.zeros(len(names), bool)
    if not len(places) or not len(names):
        return bad
    order = np.argsort(names.start)
    start = names.start[order]
    row = np.searchsorted(start, places, "right") - 1
    hit = (row >= 0) & (places < start[row] + names.length[order][row])
    bad[order[row[hit]]] = True
    return bad


def _name_keys(names: Names) -> UInt64s:
    """Per name: a 64-bit hash, equal for equal names and almost never for different ones."""
    padded = np.frombuffer(names.data + bytes(8), np.uint8)
    words = np.ndarray(len(names.data) + 1, "<u8", padded, strides=(1,))
    key = names.length.astype(np.uint64)
    order = np.argsort(-names.length, kind="stable")
    lengths = names.length[order]
    for first in range(0, int(names.length.max(initial=0)), 8):
        some = order[: int(np.searchsorted(-lengths, -first))]
        unused = np.maximum(64 - 8 * (names.length[some] - first), 0).astype(np.uint64)
        word = words[names.start[some] + first] << unused
        mixed = (key[some] ^ word) * _FACTOR
        key[some] = mixed ^ (mixed >> np.uint64(29))
    return key
