"""Fast recognition of common inodes without errors, by a few comparisons.

An inode that is not in use cannot have a finding of its own. The same holds for a regular file with
at most one extent and without special properties. Both are recognised here from the bytes of a
whole table. The tests that find errors process only the other inodes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt16s, UInt32s
from ext4kit.errors import AccessError
from ext4kit.parsers import extents
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.inode import GOOD_OLD_SIZE, INODE, INODE_EXTRA, InodeFlags, inode_rows_ok
from ext4kit.parsers.superblock import Superblock
from ext4kit.parsers.xattr import MAGIC, XATTR_BODY_HEADER
from ext4kit.verify.extents import END
from ext4kit.verify.scene import VerifyContext

SECTOR = 512
REGULAR = 0x8000
LEAST_USUAL = 11  # smaller inode numbers have fixed meanings
LEAST_EXTRA = 4
_FIELDS = (
    "i_mode", "i_size_lo", "i_dtime", "i_gid", "i_blocks_lo", "i_flags", "i_file_acl_lo",
    "i_size_high", "i_obso_faddr", "i_blocks_high",
)  # fmt: skip
_ZEROS = ("i_dtime", "i_file_acl_lo", "i_obso_faddr", "i_blocks_high")  # zero in plain files
_ROOT = INODE.offset_of("i_block")
_ONE_EXTENT, _NO_EXTENT = (extents.MAGIC | count << 16 for count in (1, 0))
_LEAF_WITH_ROOM = 4  # `eh_max`, with `eh_depth` 0 above it
_FIRST = _ROOT + extents.HEADER.size


@dataclass(frozen=True, slots=True)
class InodeBatch:
    """Some inodes: columns from one pass over all, and the bytes of those that need more tests.

    Attributes:
        asked: the numbers of all.
        lost: numbers of unreadable inodes.
        unsealed: numbers of inodes with a wrong checksum.
        number, mode, links_count, flags, size: columns of all that are not idle, in order.
        special_files: rows of these that are not plain files; rows: the inodes, uint8 (n, inode
            size).
        start, length, owner: the extents of the plain files.
    """

    asked: Int64s
    lost: Int64s
    unsealed: Int64s
    number: Int64s
    mode: UInt16s
    links_count: UInt16s
    flags: UInt32s
    size: Int64s
    special_files: Rows
    rows: Bytes2D
    start: Int64s
    length: Int64s
    owner: Int64s

    @property
    def facts(self) -> tuple[Any, ...]:
        """The columns."""
        return self.number, self.mode, self.links_count, self.flags, self.size


def read_batch(scene: VerifyContext, numbers: Int64s) -> InodeBatch:
    """Read some inodes and classify them."""
    rows, lost = _rows(scene, numbers)
    words = _Words(rows, scene.superblock)
    busy = ~_are_idle(scene, numbers, words)
    plain, extent = _are_plain(scene, numbers, words)
    plain &= busy
    mapped = plain & (extent.length > 0)
    return InodeBatch(
        numbers,
        lost,
        _unsealed(scene, numbers, rows),
        numbers[busy],
        words.mode[busy],
        words.links_count[busy],
        words.flags[busy],
        words.size[busy],
        np.flatnonzero(~plain[busy]),
        rows[busy & ~plain],
        extent.start[mapped],
        extent.length[mapped],
        numbers[mapped],
    )


def _rows(scene: VerifyContext, numbers: Int64s) -> tuple[Bytes2D, Int64s]:
    """(uint8 (n, inode size), numbers of unreadable inodes), without a copy where possible."""
    fs, size = scene.fs, scene.superblock.inode_size
    per_group = scene.superblock.inodes_per_group
    table, rest = divmod(per_group * size, scene.superblock.block_size)
    tables = fs.groups.inode_table[
        (numbers[0] - 1) // per_group : (numbers[-1] - 1) // per_group + 1
    ]
    together = numbers[-1] - numbers[0] == len(numbers) - 1 and not rest
    if together and (np.diff(tables) == table).all():
        (first, last), (offset, _) = (each.tolist() for each in fs.inode_location(numbers[[0, -1]]))
        with suppress(AccessError):
            data = np.frombuffer(fs.blocks.read(first, last - first + 1), np.uint8)
            return data.reshape(-1, size)[offset // size :][: len(numbers)], numbers[:0]
    rows, readable = fs.inode_rows(numbers)
    return np.ascontiguousarray(rows), numbers[~readable]


def _unsealed(scene: VerifyContext, numbers: Int64s, rows: Bytes2D) -> Int64s:
    """The numbers of inodes with a wrong checksum; an inode that was never used has none."""
    if not scene.superblock.has_metadata_checksums:
        return numbers[:0]
    bad = np.flatnonzero(~inode_rows_ok(rows, numbers, scene.superblock))
    return numbers[bad[rows[bad].any(axis=1)]]


class _Words:
    """The 32-bit words of inodes that decide whether they are plain, and fields in them."""

    def __init__(self, rows: Bytes2D, superblock: Superblock) -> None:
        self._all = rows.view("<u4")
        self.inode_size = rows.shape[1]
        offsets = [INODE.offset_of(name) for name in _FIELDS]
        offsets += [_ROOT, _ROOT + 4, _FIRST, _FIRST + 4, _FIRST + 8]
        offsets += [GOOD_OLD_SIZE] * (self.inode_size > GOOD_OLD_SIZE)
        self._words = {offset: self._all[:, offset // 4].copy() for offset in offsets}
        self.mode = self.at("i_mode").astype(np.uint16)
        self.links_count = (self.at("i_gid") >> np.uint32(16)).astype(np.uint16)
        self.flags = self.at("i_flags")
        self.is_regular = self.mode & 0xF000 == REGULAR
        large = self.is_regular | (Incompat.LARGE_DIR in superblock.features)
        high = (self.at("i_size_high") * large).astype(np.int64)
        self.size = high << 32 | self.at("i_size_lo")

    def at(self, field: str) -> UInt32s:
        """The word that begins with a field of the inode."""
        return self.byte(INODE.offset_of(field))

    def byte(self, offset: int) -> UInt32s:
        """The word at a byte offset."""
        return self._words[offset]

    def each(self, rows: Rows, offset: Int64s) -> UInt32s:
        """The words of some rows, each at its own byte offset."""
        return self._all[rows, offset // 4]


def _are_idle(scene: VerifyContext, numbers: Int64s, words: _Words) -> Bools:
    """Per inode: True where it is unused and correctly freed, or was never used."""
    usual: Bools = numbers >= max(scene.superblock.first_usable_inode, LEAST_USUAL)
    if scene.orphans:
        usual &= ~np.isin(numbers, np.array(sorted(scene.orphans), np.int64))
    usual &= (words.links_count == 0) & ((words.mode == 0) | (words.at("i_dtime") != 0))
    return usual


@dataclass(frozen=True, slots=True)
class _Extent:
    """One extent per inode."""

    start: Int64s
    length: Int64s
    logical: Int64s


def _are_plain(scene: VerifyContext, numbers: Int64s, words: _Words) -> tuple[Bools, _Extent]:
    """(True per inode that is a regular file without possible errors, its extent)."""
    superblock = scene.superblock
    word, half = words.byte(_FIRST + 4), np.uint32(16)
    length = (word & np.uint32(0xFFFF)).astype(np.int64)
    start = (word >> half).astype(np.int64) << 32 | words.byte(_FIRST + 8)
    extent = _Extent(start, length, words.byte(_FIRST).astype(np.int64))
    if not _has_plain_files(superblock):
        return np.zeros(len(numbers), bool), extent
    plain = (words.flags == int(InodeFlags.EXTENTS)) & words.is_regular & (words.links_count > 0)
    plain &= numbers >= max(superblock.first_usable_inode, LEAST_USUAL)
    plain &= np.bitwise_or.reduce([words.at(field) for field in _ZEROS]) == 0
    plain &= words.byte(_ROOT + 4) == _LEAF_WITH_ROOM
    header = words.byte(_ROOT)
    length[header == _NO_EXTENT] = 0
    plain &= (header == _NO_EXTENT) | ((header == _ONE_EXTENT) & (length > 0))
    return plain & _fits(scene, words, extent) & _has_no_attributes(words), extent


def _has_plain_files(superblock: Superblock) -> bool:
    """Whether plain files exist: clusters of one block, and no quota that needs the owners."""
    features = superblock.features
    kept = RoCompat.QUOTA not in features and superblock.cluster_ratio == 1
    return kept and Incompat.EXTENT in features


def _fits(scene: VerifyContext, words: _Words, extent: _Extent) -> Bools:
    """Per inode: True where extent, size and block count match each other and the file system."""
    length, size = extent.length, scene.superblock.block_size
    end = extent.logical * (length > 0) + length
    first, most = max(scene.superblock.first_data_block, 1), scene.blocks_count
    inside = (extent.start >= first) & (extent.start + length <= most) & (end <= END)
    fine: Bools = (inside & (length <= extents.MAX_INITIALISED)) | (length == 0)
    fine &= (words.size >= (end - 1) * size) & (words.size <= END * size - size)
    fine &= (words.at("i_blocks_lo") == length * (size // SECTOR)) & (words.size >= 0)
    return fine


def _has_no_attributes(words: _Words) -> Bools:
    """Per inode: True where the extra fields have a usual size and no attributes follow them."""
    size = words.inode_size
    if size < GOOD_OLD_SIZE + INODE_EXTRA.size:
        return np.full(len(words.mode), size == GOOD_OLD_SIZE)
    extra = words.byte(GOOD_OLD_SIZE) & np.uint32(0xFFFF)
    fine: Bools = (extra >= LEAST_EXTRA) & (extra <= size - GOOD_OLD_SIZE) & (extra % 4 == 0)
    start = GOOD_OLD_SIZE + extra.astype(np.int64)
    fine |= extra == 0
    room = np.flatnonzero(fine & (extra != 0) & (start + XATTR_BODY_HEADER.size + 4 <= size))
    fine[room[words.each(room, start[room]) == MAGIC]] = False
    return fine
