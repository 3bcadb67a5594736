"""The directory tree of a lost file system, rebuilt from the remaining directory blocks.

A directory whose inode is lost, such as the root, is rebuilt from blocks that name it in their `.`
entry, if the inodes that these blocks list are in use and have no other entry. Inodes without an
entry get an entry in the root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem.directories import DIRECTORY_TYPE, directory_blocks, read_directories
from ext4kit.filesystem.inodes import INODES_AT_ONCE, ROOT
from ext4kit.lost.artifacts import FsArtifacts
from ext4kit.lost.file_system import LostFileSystem
from ext4kit.parsers.checksums import crc32c, crc32c_words
from ext4kit.parsers.directory import parse_entries
from ext4kit.parsers.inode import InodeFlags, InodeTable, inode_seeds
from ext4kit.parsers.made import packed_entries, synthetic_directory
from ext4kit.parsers.traces import directory_inode_seeds, find_dirblock_tails, is_index_block

BLOCKS_AT_ONCE = 2048
FILE, DIRECTORY = 1, 2  # kinds of inodes in use
Entry = tuple[bytes, int, int]  # name, inode, file type


@dataclass(frozen=True, slots=True)
class _OrphanedDirBlock:
    """A directory block that no remaining directory maps.

    Attributes:
        owner: inode number of the directory; 0 if only the seed identifies it.
        register: the seed from the checksum in the tail of the block, -1 without a tail.
        entries: the entries of the block, without those for inodes that another directory names.
        good: number of entries whose inodes are in use.
    """

    owner: int
    register: int
    entries: list[Entry]
    good: int


def rebuild_tree(fs: LostFileSystem, traces: FsArtifacts) -> None:
    """Rebuild the root and the directories whose inodes are lost."""
    _TreeBuilder(fs, traces).run()


class _TreeBuilder:
    def __init__(self, fs: LostFileSystem, traces: FsArtifacts) -> None:
        self.fs = fs
        self.traces = traces
        self.limit = fs.source.size // fs.superblock.inode_size
        self.used = np.zeros(fs.superblock.inodes_count + 1, np.uint8)
        self.named = np.zeros(len(self.used), bool)
        self.known = np.zeros(len(self.used), bool)  # in use, or a directory that is rebuilt
        self.broken: set[int] = set()  # directories with lost blocks
        self.mapped = np.zeros(0, np.int64)  # blocks of the remaining directories
        self.entries: dict[int, list[Entry]] = {}  # entries of the rebuilt directories

    def run(self) -> None:
        special = {self.fs.superblock.orphan_file_inode, self.fs.superblock.journal_inode}
        for table in self.fs.inode_batches():
            inner = (table.flags & int(InodeFlags.EA_INODE)) != 0
            inner |= (table.number < self.fs.superblock.first_usable_inode) & (table.number != ROOT)
            inner |= np.isin(table.number, list(special))
            kept = table.take(~inner)
            kind = np.where(kept.is_dir, DIRECTORY, FILE)
            self.used[kept.number] = kind
        folders = np.flatnonzero(self.used == DIRECTORY)
        mapped = [np.zeros(0, np.int64)]
        for at in range(0, len(folders), INODES_AT_ONCE):
            table = self.fs.inode_table(folders[at : at + INODES_AT_ONCE])
            mapped.append(self._verify_dir_blocks(table))
            self._mark_named(read_directories(self.fs, table, dots=False).inode)
        self.mapped = np.unique(np.concatenate(mapped))
        if self.used[ROOT] == DIRECTORY:
            self.broken.add(ROOT)  # the root gets further entries
        self.known = self.used > 0
        self._rebuild_directories()
        self._rebuild_root()

    def _mark_named(self, numbers: Int64s) -> None:
        self.named[numbers[(numbers > 0) & (numbers < len(self.named))]] = True

    # -- the remaining directories --------------------------------------------------------

    def _verify_dir_blocks(self, table: InodeTable) -> Int64s:
        """The blocks of some directories; blocks with a wrong checksum are excluded."""
        block: Int64s
        owner, block = directory_blocks(self.fs, table)
        seeds = inode_seeds(self.fs.superblock, table.number, table.generation).astype(np.int64)
        for at in range(0, len(block), BLOCKS_AT_ONCE):
            some = slice(at, at + BLOCKS_AT_ONCE)
            rows, there = self.fs.fetch(block[some])
            wrong = np.zeros(len(rows), bool)
            if self.fs.identity.seed is not None:
                wrong = there & ~_belongs_to_directory(rows, seeds[owner[some]])
                self.fs.blocks.exclude(block[some][wrong])
            self.broken |= set(table.number[owner[some][wrong | ~there]].tolist())
        return block

    # -- the lost directories -------------------------------------------------------------

    def _rebuild_directories(self) -> None:
        """Rebuild directories that lost their inode or some blocks, from their remaining blocks."""
        found = self._surviving_blocks()
        while new := [n for n in found if n < len(self.known) and not self.known[n]]:
            self.known[new] = True  # now blocks that list these directories are accepted too
            found = self._surviving_blocks()
        further = self._later_blocks({blocks[0].register: n for n, blocks in found.items()})
        for owner, block in further:
            found[owner].append(block)
        for number, blocks in sorted(found.items()):
            self._merge_entries(number, blocks)
        for number, entries in self.entries.items():
            if number != ROOT:
                self._add_directory(number, entries, found[number])

    def _surviving_blocks(self) -> defaultdict[int, list[_OrphanedDirBlock]]:
        """The first blocks of lost directories, by inode number."""
        found = defaultdict(list)
        for block in self._first_blocks():
            found[block.owner].append(block)
        return found

    def _merge_entries(self, number: int, blocks: list[_OrphanedDirBlock]) -> None:
        """Collect the entries of one directory from its blocks, the best block first."""
        entries, seen = self._surviving_entries(number), set()
        for block in sorted(blocks, key=lambda one: -one.good):
            fresh = [entry for entry in block.entries if entry[1] not in seen]
            if not any(self._is_unnamed(entry[1]) for entry in fresh):
                continue
            entries += fresh
            seen |= {entry[1] for entry in fresh}
        self._mark_named(np.array(sorted(seen), np.int64))
        self.entries[number] = entries

    def _is_unnamed(self, number: int) -> bool:
        """Whether an inode is in use and has no entry yet."""
        return 0 < number < len(self.known) and bool(self.known[number] & ~self.named[number])

    def _surviving_entries(self, number: int) -> list[Entry]:
        """Entries in the remaining blocks of a directory whose inode remains."""
        if number >= len(self.used) or self.used[number] != DIRECTORY:
            return []
        listing = read_directories(self.fs, self.fs.inode_table(np.array([number])), dots=False)
        columns = (listing.names.tolist(), listing.inode.tolist(), listing.file_type.tolist())
        return list(zip(*columns, strict=True))

    def _first_blocks(self) -> Iterator[_OrphanedDirBlock]:
        """Blocks whose `.` entry names a lost or incomplete directory."""
        size = self.fs.superblock.block_size
        place, number, _ = self.traces.dot_blocks
        state = np.where(
            number < len(self.used), self.used[np.minimum(number, len(self.used) - 1)], 0
        )
        wanted = (state == 0) | np.isin(number, list(self.broken))
        wanted &= (state != FILE) & (number <= self.limit) & (place % size == 0)
        yield from self._read_blocks(place[wanted] // size, number[wanted])

    def _later_blocks(self, owners: dict[int, int]) -> Iterator[tuple[int, _OrphanedDirBlock]]:
        """(owner, block) of further blocks of a directory, identified by their seeds."""
        size = self.fs.superblock.block_size
        block = self.traces.dirblock_tails // size - 1
        block = block[(self.traces.dirblock_tails % size == 0) & (block >= 0)]
        none = np.zeros(len(block), np.int64)
        owners.pop(-1, None)
        if owners and self.fs.identity.seed is not None:
            for found in self._read_blocks(block, none):
                if found.register in owners:
                    yield owners[found.register], found

    def _read_blocks(self, block: Int64s, owner: Int64s) -> Iterator[_OrphanedDirBlock]:
        """The blocks that list an inode without an entry elsewhere."""
        own = ~np.isin(block, self.mapped) & (block < self.fs.blocks.disk_blocks_count)
        block, owner = block[own], owner[own]
        for at in range(0, len(block), BLOCKS_AT_ONCE):
            rows, there = self.fs.fetch(block[at : at + BLOCKS_AT_ONCE])
            yield from self._plausible_blocks(rows[there], owner[at : at + BLOCKS_AT_ONCE][there])

    def _plausible_blocks(self, rows: Bytes2D, owner: Int64s) -> Iterator[_OrphanedDirBlock]:
        register = np.full(len(rows), -1)
        if self.fs.identity.seed is not None:
            tailed = find_dirblock_tails(rows)
            register[tailed] = directory_inode_seeds(rows[tailed])
        table, broken = parse_entries(rows, self.fs.has_file_types, dots=False)
        inside = (table.inode > 0) & (table.inode < len(self.used))
        child = np.where(inside, table.inode, 0)
        unnamed = self.known[child] & ~self.named[child]
        count = np.bincount(table.block, minlength=len(rows))
        good = np.bincount(table.block[unnamed], minlength=len(rows))
        fits = (broken < 0) & (good > 0) & (good * 2 >= count)
        fits |= (register == self._root_seed) & (good > 0)
        kept = fits[table.block] & (unnamed | ~self.known[child])
        table = table.take(kept)
        columns = (table.names(rows), table.inode.tolist(), table.file_type.tolist())
        entries = list(zip(*columns, strict=True))
        ends = row_bounds(table.block, len(rows)).tolist()
        for row in np.flatnonzero(fits).tolist():
            listed = entries[ends[row] : ends[row + 1]]
            yield _OrphanedDirBlock(int(owner[row]), int(register[row]), listed, int(good[row]))

    @property
    def _root_seed(self) -> int:
        """The seed of directory blocks of the root, whose generation is 0; -2 without checksums."""
        seed = self.fs.identity.seed
        return -2 if seed is None else crc32c(crc32c(seed, ROOT.to_bytes(4, "little")), bytes(4))

    def _add_directory(
        self, number: int, entries: list[Entry], blocks: list[_OrphanedDirBlock]
    ) -> None:
        rows, there = self.fs.inode_rows(np.array([number]))
        generation = 0
        seed, register = self.fs.identity.seed, blocks[0].register if blocks else -1
        if seed is not None and register >= 0 and not there[0]:
            start = crc32c(seed, number.to_bytes(4, "little"))
            generation = int(crc32c_words(start, np.array([register]))[0])
        packed = packed_entries(entries, self.fs.superblock.block_size)
        first = self.fs.blocks.add_synthetic(packed)
        size = self.fs.superblock.block_size
        made = synthetic_directory(rows[0].tobytes(), first, len(packed), size, generation)
        self.fs.set_inode(number, made)

    # -- the root -------------------------------------------------------------------------

    def _rebuild_root(self) -> None:
        """Rebuild the root from its remaining entries and new names for inodes without an entry."""
        unnamed = (self.used > 0) & ~self.named
        made = [n for n in self.entries if n >= len(self.named) or not self.named[n]]
        numbers = np.union1d(np.flatnonzero(unnamed), np.array(made, np.int64))
        numbers = numbers[numbers != ROOT].astype(np.int64)
        entries = self.entries.get(ROOT) or self._surviving_entries(ROOT)
        for at in range(0, len(numbers), INODES_AT_ONCE):
            table = self.fs.inode_table(numbers[at : at + INODES_AT_ONCE])
            folder = table.is_dir
            kinds = np.where(folder, DIRECTORY_TYPE, 1).tolist()
            columns = (table.number.tolist(), table.generation.tolist(), kinds)
            for number, generation, kind in zip(*columns, strict=True):
                name = b"inode-%d-%d" % (number, generation)
                self.fs.unnamed[name] = number
                entries.append((name, number, kind if self.fs.has_file_types else 0))
        self._add_directory(ROOT, entries, [])


def _belongs_to_directory(rows: Bytes2D, seeds: Int64s) -> Bools:
    """Per block (bool): True for one with the seed of the directory, and for htree blocks."""
    fits: Bools = is_index_block(rows)
    tailed = find_dirblock_tails(rows)
    fits[tailed] |= directory_inode_seeds(rows[tailed]) == seeds[tailed]
    return fits
