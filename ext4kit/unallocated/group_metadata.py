"""Tests for untagged copies of superblocks, group descriptors, bitmaps and the orphan file.

Group descriptors and bitmaps have no owner and no mark of their kind. If such a block is directly
before the rest of a journaled file in the log, the block can be mistaken for the first block of
that file. Copies of the superblock and blocks of the orphan file have a mark of their kind.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.types import Bools, Bytes2D
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.geometry import descriptors_per_block
from ext4kit.parsers.features import Compat
from ext4kit.parsers.orphan import MAGIC as ORPHAN_MAGIC
from ext4kit.parsers.orphan import ORPHAN_TAIL
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK_OFFSET

_EACH = 8  # one byte in this many is examined
_MIN_EVEN = 1 / 2  # minimum share of 0x00 and 0xFF among the bytes of a bitmap
_MIN_SET = 1 / 32  # minimum share of 0xFF; other blocks with many zeros have fewer
_MAGIC_AT = 56  # offset in the superblock (kernel fs/ext4/ext4.h, `s_magic`)
_SEED_AT = 236  # offset in the superblock of `s_hash_seed`, which no tool changes


def group_metadata_test(fs: FileSystem) -> Callable[[Bytes2D], Bools]:
    """A test of blocks (n, block size): bool (n,), True for those that look like group metadata.

    A block of group descriptors begins with the block numbers of the bitmaps of its first group,
    which do not change. Bitmaps are recognised by long runs of equal bits.
    """
    first = slice(None, None, descriptors_per_block(fs.superblock))
    places = fs.groups.block_bitmap[first], fs.groups.inode_bitmap[first]
    heads = np.stack(places, axis=1).astype("<u4").view("<u8")  # low halves of block numbers
    magic_at = SUPERBLOCK_OFFSET % fs.superblock.block_size + _MAGIC_AT

    def test(data: Bytes2D) -> Bools:
        head = np.ascontiguousarray(data[:, :8]).view("<u8")[:, 0]
        magic = np.ascontiguousarray(data[:, magic_at : magic_at + 2]).view("<u2")[:, 0]
        some = data[:, ::_EACH]
        ones = np.count_nonzero(some == 0xFF, axis=1) / some.shape[1]
        zeros = 1 - np.count_nonzero(some, axis=1) / some.shape[1]
        found: Bools = (zeros + ones > _MIN_EVEN) & (ones > _MIN_SET)
        found |= np.isin(head, heads) | (magic == MAGIC)
        return found

    return test


def named_metadata_test(fs: FileSystem) -> Callable[[Bytes2D], Bools]:
    """A test of blocks (n, block size): bool (n,), True for superblocks and orphan file blocks."""
    # offsets in their blocks of backup superblocks and of the primary superblock
    places = {0, SUPERBLOCK_OFFSET % fs.superblock.block_size}
    magic = np.frombuffer(MAGIC.to_bytes(2, "little"), np.uint8)
    seed = np.array(fs.superblock.hash_seed, "<u4").view(np.uint8)
    orphan = np.frombuffer(ORPHAN_MAGIC.to_bytes(4, "little"), np.uint8)
    has_orphan_file = Compat.ORPHAN_FILE in fs.superblock.features

    def has(data: Bytes2D, start: int, value: npt.NDArray[np.uint8]) -> Bools:
        found: Bools = (data[:, start : start + len(value)] == value).all(axis=1)
        return found

    def test(data: Bytes2D) -> Bools:
        found = np.zeros(len(data), bool)
        for at in places:
            found |= has(data, at + _MAGIC_AT, magic) & has(data, at + _SEED_AT, seed)
        if has_orphan_file:
            found |= has(data, data.shape[1] - ORPHAN_TAIL.size, orphan)
        return found

    return test
