"""Fast recognition, by a few comparisons, of common inodes that have no errors.

Unused inodes, and regular files with at most one extent and without special properties, are
recognised here from the bytes of a whole table. None of their own tests could report a finding, so
the detailed tests process only the other inodes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.lookup import is_member
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, UInt32s
from ext4kit.errors import AccessError
from ext4kit.parsers import extents
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.inode import GOOD_OLD_SIZE, INODE, INODE_EXTRA, InodeFlags, inode_rows_ok
from ext4kit.parsers.superblock import Superblock
from ext4kit.units import SECTOR
from ext4kit.verify.context import BlockClaims, InodesInUse, VerifyContext
from ext4kit.verify.extents import END
from ext4kit.verify.xattrs import body_areas

REGULAR = 0x8000
LEAST_USUAL = 11  # smaller inode numbers have fixed meanings
_FIELDS = (
    "i_mode", "i_size_lo", "i_dtime", "i_gid", "i_blocks_lo", "i_flags", "i_file_acl_lo",
    "i_size_high", "i_obso_faddr", "i_blocks_high",
)  # fmt: skip
_ZEROS = ("i_dtime", "i_file_acl_lo", "i_obso_faddr", "i_blocks_high")  # 0 in plain files
_ROOT = INODE.offset_of("i_block")
_ONE_EXTENT, _NO_EXTENT = (extents.MAGIC | count << 16 for count in (1, 0))
_LEAF_WITH_ROOM = 4  # word of an extent header: `eh_max` 4 and `eh_depth` 0
_FIRST = _ROOT + extents.HEADER.size


@dataclass(frozen=True, slots=True)
class InodeBatch:
    """A batch of inodes: facts about all of them, and the bytes of those that need more tests.

    Attributes:
        lost: numbers of unreadable inodes.
        unsealed: numbers of the inodes with a wrong checksum.
        facts: facts about all inodes that are not idle.
        is_special: True for the inodes in `facts` that are not plain files.
        rows: bytes of the special inodes, uint8 (n, inode size).
        claims: the extents of the plain files.
    """

    lost: Int64s
    unsealed: Int64s
    facts: InodesInUse
    is_special: Bools
    rows: Bytes2D
    claims: BlockClaims


def read_batch(context: VerifyContext, numbers: Int64s) -> InodeBatch:
    """Read some inodes and classify them."""
    rows, lost = _rows(context, numbers)
    words = _Words(rows, context.superblock)
    busy = ~_are_idle(context, numbers, words)
    plain = busy & _are_plain(context, numbers, words)
    mapped = plain & (words.length > 0)
    no = np.zeros(len(numbers), np.bool_)
    facts = InodesInUse(numbers, words.mode, words.links_count, words.flags, words.size, no)
    return InodeBatch(
        lost,
        _unsealed(context, numbers, rows),
        facts.take(busy),
        ~plain[busy],
        rows[busy & ~plain],
        BlockClaims(words.start[mapped], words.length[mapped], numbers[mapped]),
    )


def _rows(context: VerifyContext, numbers: Int64s) -> tuple[Bytes2D, Int64s]:
    """(uint8 (n, inode size), numbers of unreadable inodes), without a copy where possible."""
    fs, size = context.fs, context.superblock.inode_size
    per_group = context.superblock.inodes_per_group
    table, rest = divmod(per_group * size, context.superblock.block_size)
    first, last = (numbers[[0, -1]] - 1) // per_group
    tables = fs.groups.inode_table[first : last + 1]
    together = numbers[-1] - numbers[0] == len(numbers) - 1 and not rest
    if together and (np.diff(tables) == table).all():
        (first, last), (offset, _) = (each.tolist() for each in fs.inode_location(numbers[[0, -1]]))
        with suppress(AccessError):
            data = np.frombuffer(fs.blocks.read(first, last - first + 1), np.uint8)
            return data.reshape(-1, size)[offset // size :][: len(numbers)], numbers[:0]
    rows, readable = fs.inode_rows(numbers)
    return np.ascontiguousarray(rows), numbers[~readable]


def _unsealed(context: VerifyContext, numbers: Int64s, rows: Bytes2D) -> Int64s:
    """Numbers of the inodes with a wrong checksum; never used inodes have none to check."""
    if not context.superblock.has_metadata_checksums:
        return numbers[:0]
    bad = np.flatnonzero(~inode_rows_ok(rows, numbers, context.superblock))
    return numbers[bad[rows[bad].any(axis=1)]]


class _Words:
    """The 32-bit words of inodes, and fields that decide whether they are plain.

    Attributes:
        all: the words, by row.
        header, capacity: the words of the extent header.
        logical, length, start: the first extent in the inode; length 0 for none.
    """

    def __init__(self, rows: Bytes2D, superblock: Superblock) -> None:
        self.all = rows.view("<u4")
        offsets = [INODE.offset_of(name) for name in _FIELDS]
        offsets += [_ROOT, _ROOT + 4, _FIRST, _FIRST + 4, _FIRST + 8]
        self._words = {offset: self.all[:, offset // 4].copy() for offset in offsets}
        self.mode = self.at("i_mode").astype(np.uint16)
        self.links_count = (self.at("i_gid") >> np.uint32(16)).astype(np.uint16)
        self.flags = self.at("i_flags")
        self.header, self.capacity = self._words[_ROOT], self._words[_ROOT + 4]
        self.is_regular = self.mode & 0xF000 == REGULAR
        large = self.is_regular | (Incompat.LARGE_DIR in superblock.features)
        high = (self.at("i_size_high") * large).astype(np.int64)
        self.size = high << 32 | self.at("i_size_lo")
        word, high_half = self._words[_FIRST + 4], np.uint32(16)
        has_extent = self.header != _NO_EXTENT
        self.logical = self._words[_FIRST].astype(np.int64)
        self.length = (word & np.uint32(0xFFFF)).astype(np.int64) * has_extent
        self.start = (word >> high_half).astype(np.int64) << 32 | self._words[_FIRST + 8]

    def at(self, field: str) -> UInt32s:
        """The word that begins with a field of the inode."""
        return self._words[INODE.offset_of(field)]


def _are_idle(context: VerifyContext, numbers: Int64s, words: _Words) -> Bools:
    """Per inode: True where it is unused and correctly freed, or was never used."""
    usual: Bools = numbers >= max(context.superblock.first_usable_inode, LEAST_USUAL)
    usual &= ~is_member(numbers, context.orphans)
    usual &= (words.links_count == 0) & ((words.mode == 0) | (words.at("i_dtime") != 0))
    return usual


def _are_plain(context: VerifyContext, numbers: Int64s, words: _Words) -> Bools:
    """Per inode: True for a regular file without possible errors.

    With bigalloc or with quotas (which need the owners), no inode counts as plain.
    """
    superblock, features = context.superblock, context.superblock.features
    if RoCompat.QUOTA in features or Incompat.EXTENT not in features:
        return np.zeros(len(numbers), np.bool_)
    plain: Bools = words.flags == int(InodeFlags.EXTENTS)
    plain &= words.is_regular & (words.links_count > 0)
    plain &= numbers >= max(superblock.first_usable_inode, LEAST_USUAL)
    plain &= np.bitwise_or.reduce([words.at(field) for field in _ZEROS]) == 0
    plain &= words.capacity == _LEAF_WITH_ROOM
    plain &= (words.header == _NO_EXTENT) | ((words.header == _ONE_EXTENT) & (words.length > 0))
    plain &= superblock.cluster_ratio == 1
    return plain & _fits(context, words) & _has_no_attributes(words)


def _fits(context: VerifyContext, words: _Words) -> Bools:
    """Per inode: True where extent, size and block count match each other and the file system."""
    length, size = words.length, context.superblock.block_size
    end = words.logical * (length > 0) + length
    first, most = max(context.superblock.first_data_block, 1), context.blocks_count
    inside = (words.start >= first) & (words.start + length <= most) & (end <= END)
    fine: Bools = (inside & (length <= extents.MAX_INITIALISED)) | (length == 0)
    fine &= (words.size >= (end - 1) * size) & (words.size <= END * size - size)
    fine &= (words.at("i_blocks_lo") == length * (size // SECTOR)) & (words.size >= 0)
    return fine


def _has_no_attributes(words: _Words) -> Bools:
    """Per inode: True where the extra fields have a usual size and no attributes follow them."""
    size = words.all.shape[1] * 4
    if size < GOOD_OLD_SIZE + INODE_EXTRA.size:
        return np.full(len(words.mode), size == GOOD_OLD_SIZE)
    extra = words.all[:, GOOD_OLD_SIZE // 4] & np.uint32(0xFFFF)
    wrong, areas = body_areas(words.all, extra.astype(np.int64))
    fine = ~wrong
    fine[areas] = False
    return fine
