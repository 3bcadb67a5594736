"""Inodes, their block maps and contents, from blocks and groups alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import distinct, expand, row_bounds
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.errors import AccessError, RequestError
from ext4kit.filesystem.bitmaps import Bitmaps
from ext4kit.filesystem.block_maps import BlockMaps, Runs, has_map, map_inodes
from ext4kit.filesystem.blocks import BlockReader, read_blocks_or_zeros
from ext4kit.filesystem.content import Content, GradedContent
from ext4kit.filesystem.geometry import group_and_slot
from ext4kit.filesystem.superblocks import read_groups
from ext4kit.parsers.directory import MODES
from ext4kit.parsers.extents import block_checksum_ok
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.group import GroupFlags
from ext4kit.parsers.inode import (
    Inode,
    InodeFlags,
    InodeTable,
    inode_checksums_ok,
    inode_seeds,
    parse_inode,
    parse_inodes,
)
from ext4kit.parsers.superblock import Superblock
from ext4kit.problems import Problems
from ext4kit.reasons import Reason

BAD_BLOCKS, ROOT, BOOT, RESIZE, JOURNAL = 1, 2, 5, 7, 8  # reserved (kernel fs/ext4/ext4.h)
INODES_AT_ONCE = 1 << 16
_TREE_BLOCKS_AT_ONCE = 1 << 10
_MOST_NAMED = 64  # consecutive unreadable inodes that are reported one by one
_VALID_TYPES = np.isin(np.arange(16), MODES[1:])  # file types in `i_mode`


class Inodes:
    """The inodes of a file system and the blocks that they map.

    Args:
        blocks: block reader; a replayed journal is another such reader.
        superblock: the file system's superblock.
        problems: collects defects found while reading.

    Attributes:
        unreadable: text of the problem for a block that cannot be read.
        groups_were_damaged: whether a group descriptor is missing or taken from a copy.
        tree_was_cut: whether a tree exceeded its limits, so that some of its entries are not known.
    """

    unreadable = "cannot be read"
    groups_were_damaged = False
    tree_was_cut = False

    def __init__(
        self, blocks: BlockReader, superblock: Superblock, problems: Problems | None = None
    ) -> None:
        self.blocks = blocks
        self.superblock = superblock
        self.problems = problems if problems is not None else Problems()
        before = self.problems.total
        self.groups = read_groups(blocks, superblock, self.problems)
        self.groups_were_damaged = self.problems.total > before
        self.bitmaps = Bitmaps(blocks, superblock, self.groups, self.problems)

    @property
    def has_file_types(self) -> bool:
        """Whether directory entries hold the file type."""
        return Incompat.FILETYPE in self.superblock.features

    # -- blocks ---------------------------------------------------------------------------

    def fetch(self, blocks: Int64s) -> tuple[Bytes2D, Bools]:
        """(uint8 (n, block size), True where readable (n,)); unreadable blocks are zeros."""
        return read_blocks_or_zeros(self.blocks, blocks)

    # -- inodes ---------------------------------------------------------------------------

    def inode(self, number: int) -> Inode:
        """One inode.

        Raises:
            RequestError: the number is 0 or beyond the last inode.
            AccessError: the block of the inode cannot be read.
        """
        if not 0 < number <= self.superblock.inodes_count:
            last = self.superblock.inodes_count
            raise RequestError(f"inode {number}: this file system has inodes 1 to {last:,}")
        rows, readable = self.inode_rows(np.array([number]))
        if not readable[0]:
            raise AccessError(f"inode {number}: its table block {self.unreadable}")
        return parse_inode(rows[0].tobytes(), number, self.superblock)

    def inode_rows(self, numbers: Int64s) -> tuple[Bytes2D, Bools]:
        """(uint8 (n, inode size), True where readable (n,)) of the inodes `numbers` on disk."""
        superblock = self.superblock
        block, offset = self.inode_location(numbers)
        wanted, back = distinct(block)
        at_once = INODES_AT_ONCE * superblock.inode_size // superblock.block_size + 1
        if len(wanted) > at_once:
            return self._many_inode_rows(numbers, back // at_once)
        rows, readable = self.fetch(wanted)
        per_block = superblock.block_size // superblock.inode_size
        slots = rows.reshape(len(wanted) * per_block, superblock.inode_size)
        place = back * per_block + offset // superblock.inode_size
        if len(place) > 1 and (np.diff(place) == 1).all():
            return slots[place[0] : place[-1] + 1], readable[back]
        return slots[place], readable[back]

    def _many_inode_rows(self, numbers: Int64s, part: Int64s) -> tuple[Bytes2D, Bools]:
        """As `inode_rows`, read part by part."""
        rows = np.empty((len(numbers), self.superblock.inode_size), np.uint8)
        readable = np.empty(len(numbers), bool)
        order = np.argsort(part, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
            rows[some], readable[some] = self.inode_rows(numbers[some])
        return rows, readable

    def inode_location(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """(block, byte offset in the block) of the inodes `numbers` (int64); block -1 for none."""
        superblock = self.superblock
        group, slot = group_and_slot(superblock, numbers)
        known = (numbers > 0) & (group < len(self.groups))
        byte = slot * superblock.inode_size
        block = self.groups.inode_table[np.where(known, group, 0)] + byte // superblock.block_size
        return np.where(known, block, -1), byte % superblock.block_size

    def inodes_known(self, numbers: Int64s) -> Bools:
        """True where the state of an inode is known; False only as of an earlier transaction."""
        return np.ones(len(numbers), bool)

    def inode_table(self, numbers: Int64s) -> InodeTable:
        """The inodes `numbers` as columns; an unreadable inode is all zeros."""
        rows, readable = self.inode_rows(numbers)
        if not readable.all():
            self.tell_unreadable(np.unique(numbers[~readable]))
        return parse_inodes(rows, numbers, self.superblock)

    def tell_unreadable(self, numbers: Int64s) -> None:
        """Report inodes (ascending) whose table blocks cannot be read, long runs as ranges."""
        for some in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
            if len(some) > _MOST_NAMED:
                where = f"inodes {some[0]:,} to {some[-1]:,}"
                self.problems.add(where, f"their table blocks {self.unreadable}")
                continue
            for number in some.tolist():
                self.problems.add(f"inode {number}", f"its table block {self.unreadable}")

    def inode_batches(self) -> Iterator[InodeTable]:
        """Every inode that was ever written, in order, at most 65,536 at a time."""
        return map(self.inode_table, self.inode_numbers())

    def inode_numbers(self) -> Iterator[Int64s]:
        """The numbers (int64) of the inodes of `inode_batches`."""
        superblock, groups = self.superblock, self.groups
        per_group = superblock.inodes_per_group
        used = np.full(len(groups), per_group)
        if superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features:
            used = np.clip(per_group - groups.itable_unused, 0, per_group)
            used[self._unwritten_tables()] = 0
        used[~self._separate_tables()] = 0
        group = np.flatnonzero(used)
        ends = np.cumsum(used[group])
        at, done = 0, 0
        while at < len(group):
            stop = int(np.searchsorted(ends, done + INODES_AT_ONCE)) + 1
            row, slot = expand(used[group[at:stop]])
            numbers = group[at + row] * per_group + 1 + slot
            numbers = numbers[numbers <= superblock.inodes_count]
            for start in range(0, len(numbers), INODES_AT_ONCE):
                yield numbers[start : start + INODES_AT_ONCE]
            at, done = stop, int(ends[:stop][-1])

    def _unwritten_tables(self) -> Bools:
        """True where the descriptor's flag marks the inode table as never written.

        The flag does not count if it contradicts the counts in the same descriptor.
        """
        flagged = (self.groups.flags & int(GroupFlags.INODE_UNINIT)) != 0
        wrong = flagged & (self.groups.free_inodes_count < self.superblock.inodes_per_group)
        if wrong.any():
            what = f"{wrong.sum():,} are flagged as never written and count inodes in use"
            self.problems.add("inode tables", f"{what}; they are read")
        unwritten: Bools = flagged & ~wrong
        return unwritten

    def _separate_tables(self) -> Bools:
        """True where the inode table of a group may be read together with those of other groups.

        All tables qualify if the evidence has room for them. Otherwise, only those qualify that are
        inside the evidence and do not begin inside another table.
        """
        superblock, start = self.superblock, self.groups.inode_table
        table = -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)
        own = np.ones(len(start), bool)
        if len(start) * table <= self.blocks.blocks_count:
            return own
        order = np.argsort(start, kind="stable")
        own[order[1:]] = np.diff(start[order]) >= table
        own &= (start > 0) & (start < self.blocks.blocks_count)
        if lost := int((~own).sum()):
            what = f"{lost:,} lie in one another or beyond the end; their inodes are not scanned"
            self.problems.add("inode tables", what)
        return own

    def checksum_ok(self, inode: Inode) -> bool | None:
        """Whether an inode's checksum matches; None if the format has none."""
        if not self.superblock.has_metadata_checksums:
            return None
        return bool(inode_checksums_ok(self._as_table(inode), self.superblock)[0])

    def _as_table(self, inode: Inode) -> InodeTable:
        rows = np.frombuffer(inode.raw, np.uint8)[None, :]
        return parse_inodes(rows, np.array([inode.number]), self.superblock)

    # -- maps and content -----------------------------------------------------------------

    def map_table(self, table: InodeTable) -> BlockMaps:
        """The block maps of many inodes; damaged ones are reported."""
        maps = self.map_table_silently(table)
        for number in table.number[maps.damaged][: self.problems.limit].tolist():
            self.problems.add(f"inode {number}", "a part of its block map cannot be used")
        return maps

    def allocated_maps(self) -> Iterator[tuple[InodeTable, BlockMaps]]:
        """All inodes in use that have a map, with their maps, in batches."""
        for table in self.inode_batches():
            mapped = has_map(table.mode, table.size, table.flags)
            live = table.take((table.links_count > 0) & mapped)
            yield live, self.map_table(live)

    def map_table_silently(self, table: InodeTable) -> BlockMaps:
        """As `map_table`, for inodes whose damage is reported elsewhere."""
        mapped = has_map(table.mode, table.size, table.flags)
        return self._maps(table.i_block, table.flags, mapped)

    def _maps(self, i_block: Bytes2D, flags: Int64s, mapped: Bools) -> BlockMaps:
        sizes = self.superblock.blocks_count, self.superblock.block_size
        readable = self.blocks.blocks_count
        return map_inodes(i_block, flags, mapped, *sizes, lambda at, _: self.fetch(at), readable)

    def block_maps(self, table: InodeTable) -> list[Runs | None]:
        """The runs of each inode for `content`; None where `content` must map the inode itself."""
        runs = self.map_table(table).runs
        ends = row_bounds(runs.owner, len(table)).tolist()
        return [runs.take(slice(*edges)) for edges in pairwise(ends)]

    def block_map(self, inode: Inode) -> Runs:
        """The runs of one inode's content."""
        return self.map_table(self._as_table(inode)).runs

    def block_map_from(self, i_block: bytes, flags: int, size: int) -> Runs:
        """The runs that the 60 bytes of a regular file's `i_block` describe."""
        rows = np.frombuffer(i_block, np.uint8)[None, :]
        return self._maps(rows, np.array([flags]), np.array([size > 0])).runs

    def content(self, inode: Inode, runs: Runs | None = None) -> Content:
        """The content of a file, a directory or a symlink.

        Args:
            inode: the inode.
            runs: block map of the inode, if it is known already.
        """
        if inode.is_inline:
            from ext4kit.filesystem.xattrs import inline_data_tail

            data = inode.i_block + inline_data_tail(inode.raw, inode.extra_isize)
            return Content(self.blocks, inode.size, inline=data)
        if inode.is_fast_symlink:
            return Content(self.blocks, inode.size, inline=inode.i_block)
        if inode.device or inode.kind in ("fifo", "socket", "unknown"):
            return Content(self.blocks, 0)
        return Content(self.blocks, inode.size, self.block_map(inode) if runs is None else runs)

    def content_uncertainty(self, inode: Inode) -> Reason | None:
        """Why the bytes of `content` are uncertain or, in the live state, refused by the kernel."""
        return self.content_uncertainties(self._as_table(inode))[0]

    def graded_content(self, inode: Inode) -> GradedContent | None:
        """The content of a file as of an earlier moment with its grade; None of any other."""
        return None

    def content_uncertainties(self, table: InodeTable) -> list[Reason | None]:
        """`content_uncertainty` of each regular file of a table; None for other inodes."""
        found: list[Reason | None] = [None] * len(table)
        maps = self.map_table_silently(table)
        has_checksums = self.superblock.has_metadata_checksums
        wrong = np.zeros(len(table), bool)
        if has_checksums:
            wrong = ~inode_checksums_ok(table, self.superblock)
            for row in self._wrong_tree_blocks(table, *maps.tree_blocks):
                found[row] = reasons.LIVE_MAP_CHECKSUM
        for row in np.flatnonzero(maps.damaged).tolist():
            found[row] = reasons.LIVE_MAP_DAMAGED
        for row in np.flatnonzero(wrong).tolist():
            found[row] = reasons.LIVE_INODE_CHECKSUM
        for row in np.flatnonzero(~table.is_regular | (table.links_count == 0)).tolist():
            found[row] = None
        return found

    def _wrong_tree_blocks(self, table: InodeTable, owner: Rows, block: Int64s) -> Iterator[int]:
        """Rows whose extent tree has a block with a wrong checksum."""
        by_extents = (table.flags[owner] & int(InodeFlags.EXTENTS)) != 0
        owner, block = owner[by_extents], block[by_extents]
        seeds = inode_seeds(self.superblock, table.number[owner], table.generation[owner])
        for start in range(0, len(block), _TREE_BLOCKS_AT_ONCE):
            some = slice(start, start + _TREE_BLOCKS_AT_ONCE)
            data, readable = self.fetch(block[some])
            each = zip(owner[some].tolist(), seeds[some].tolist(), data, readable, strict=True)
            for row, seed, bytes_of, is_read in each:
                if is_read and not block_checksum_ok(seed, bytes_of.tobytes()):
                    yield row

    def link_target(self, inode: Inode, runs: Runs | None = None) -> bytes:
        """Target of a symlink, or the ciphertext if it is encrypted; `runs` as for `content`.

        Raises:
            RequestError: the inode is not a symlink.
        """
        if inode.kind != "symlink":
            raise RequestError(f"inode {inode.number} is a {inode.kind}, not a symlink")
        return self.content(inode, runs).read(0, min(inode.size, self.superblock.block_size))


def is_user_inode(fs: Inodes, table: InodeTable) -> Bools:
    """True for each inode that is not reserved, holds no attribute value and has a valid type."""
    first = fs.superblock.first_usable_inode
    special = (table.flags & int(InodeFlags.EA_INODE)) != 0
    own = (fs.superblock.orphan_file_inode, fs.superblock.project_quota_inode)
    special |= np.isin(table.number, own)
    ordinary: Bools = (table.number >= first) | (table.number == ROOT)
    ordinary &= ~special & _VALID_TYPES[table.mode >> 12]
    return ordinary
