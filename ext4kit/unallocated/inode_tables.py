"""Blocks of inode tables, recognised by their slots, and the numbers of their inodes.

The checksum of an inode covers its number, its generation and then its bytes, which also contain
the generation. If the checksum is computed backwards, only the four bytes of the number are unknown
and can be solved for. All slots of a block must agree on the number of the first one.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt8s, UInt32s
from ext4kit.parsers.checksums import crc32c_seeds, crc32c_words
from ext4kit.parsers.extents import MAGIC
from ext4kit.parsers.inode import GOOD_OLD_SIZE, INODE, INODE_EXTRA, InodeFlags
from ext4kit.parsers.superblock import Superblock

_MODES = np.isin(np.arange(16), [1, 2, 4, 6, 8, 10, 12])
_FIRST_SLOTS = 4  # a block is searched only if one of these slots is in use
_MOST_LINKS = 65_000  # kernel fs/ext4/ext4.h, EXT4_LINK_MAX
_EARLIEST = 1 << 28  # seconds (year 1978); a smaller value is probably a block number
_GENERATION = INODE.offset_of("i_generation")
_OBSOLETE = INODE.offset_of("i_obso_faddr") // 4
_CHECKSUM_LO = INODE.offset_of("i_checksum_lo")
_CHECKSUM_HI = GOOD_OLD_SIZE + INODE_EXTRA.offset_of("i_checksum_hi")


def find_inode_table_blocks(
    superblock: Superblock, data: Bytes2D, words: UInt32s
) -> tuple[Rows, Int64s, Int64s]:
    """Find the blocks of inode tables.

    Args:
        superblock: superblock of the file system.
        data: uint8 (n, block size).
        words: the same bytes as uint32.

    Returns:
        (rows of `data` that are such blocks, inode number of the first slot of each, number of
        slots in use); the inode number is 0 if no checksum shows it.
    """
    size = superblock.inode_size
    per_block = superblock.block_size // size
    slots = np.arange(min(per_block, _FIRST_SLOTS))
    hits = np.arange(len(words))
    for slot in slots[:2].tolist():
        one = _plausible_slots(words, hits, slots[slot : slot + 1], size)[:, 0]
        hits = hits[one | (words[hits, slot * size // 4] == 0)]
    used = _plausible_slots(words, hits, slots, size)
    empty = words[hits[:, None], slots * size // 4] == 0
    hits = hits[used.any(axis=1) & (used | empty).all(axis=1)]
    if not len(hits):
        return hits, hits, hits
    every = np.arange(per_block)
    used = _plausible_slots(words, hits, every, size)
    fits = (used | (words[hits[:, None], every * size // 4] & 0xFFFF == 0)).all(axis=1)
    hits, used = hits[fits], used[fits]
    inodes = data[hits][:, : per_block * size].reshape(len(hits), per_block, size)
    if superblock.has_metadata_checksums and size > GOOD_OLD_SIZE:
        first, held = _numbers_by_checksum(superblock, inodes, used)
        kept = held > 0
    else:
        first, held = np.zeros(len(hits), np.int64), used.sum(axis=1)
        kept = _plausible_maps(superblock, inodes, used)
    return hits[kept], first[kept], held[kept]


def _plausible_slots(words: UInt32s, rows: Rows, slots: Int64s, size: int) -> Bools:
    """Bool (rows, slots): True where type and zero fields of a slot are those of an inode."""
    row, at = rows[:, None], slots * (size // 4)
    used: Bools = _MODES[words[row, at] >> 12 & 0xF] & (words[row, at + _OBSOLETE] == 0)
    if size > GOOD_OLD_SIZE:
        extra = words[row, at + GOOD_OLD_SIZE // 4] & 0xFFFF
        used &= (extra <= size - GOOD_OLD_SIZE) & (extra % 4 == 0)
    return used


def _numbers_by_checksum(
    superblock: Superblock, inodes: UInt8s, used: Bools
) -> tuple[Int64s, Int64s]:
    """(inode number of the first slot, number of slots whose checksums give it) of each block.

    Both are 0 if no checksum gives a number.
    """
    per_block = used.shape[1]
    row, slot = np.nonzero(used)
    raw = inodes[row, slot]
    # the inode number that each checksum covers, -1 for a checksum of 16 bits
    cleared = raw.copy()
    stored = raw[:, _CHECKSUM_LO : _CHECKSUM_LO + 2].copy().view("<u2")[:, 0].astype(np.int64)
    high = raw[:, _CHECKSUM_HI : _CHECKSUM_HI + 2].copy().view("<u2")[:, 0].astype(np.int64)
    extra = raw[:, GOOD_OLD_SIZE : GOOD_OLD_SIZE + 2].copy().view("<u2")[:, 0]
    for at in (_CHECKSUM_LO, _CHECKSUM_HI):
        cleared[:, at : at + 2] = 0
    seed = crc32c_seeds(stored | high << 16, cleared, raw.shape[1])
    generation = raw[:, _GENERATION : _GENERATION + 4]
    register = crc32c_seeds(seed, np.ascontiguousarray(generation), 4)
    number = np.where(extra >= 4, crc32c_words(superblock.seed, register), -1)
    first = number - slot
    sound = (first > 0) & (number <= superblock.inodes_count)
    sound &= (first - 1) % superblock.inodes_per_group % per_block == 0
    row, first = row[sound], first[sound]
    # the number that most slots of a block give
    pair, count = np.unique(np.stack([row, first]), axis=1, return_counts=True)
    order = np.lexsort((count, pair[0]))
    pair, count = pair[:, order], count[order]
    last = ends_group(pair[0])
    result, held = np.zeros((2, len(used)), np.int64)
    result[pair[0][last]], held[pair[0][last]] = pair[1][last], count[last]
    return result, held


def _plausible_maps(superblock: Superblock, inodes: UInt8s, used: Bools) -> Bools:
    """Per block (bool): True where the maps of all inodes in use are plausible."""
    row, slot = np.nonzero(used)
    base = INODE.columns(inodes[row, slot])
    flags = base["i_flags"]
    pointers = np.ascontiguousarray(base["i_block"]).view("<u4")
    by_extents = (flags & int(InodeFlags.EXTENTS)) != 0
    inline = (flags & int(InodeFlags.INLINE_DATA)) != 0
    kind = base["i_mode"] >> 12
    mapped = np.isin(kind, [4, 8]) & ~inline
    good = ~mapped | np.where(
        by_extents,
        pointers[:, 0] & 0xFFFF == MAGIC,
        (pointers < superblock.blocks_count).all(axis=1),
    )
    good &= (base["i_links_count"] <= _MOST_LINKS) & (base["i_ctime"] > _EARLIEST)
    good &= base["i_generation"] != 0
    fine: Bools = np.any(used, axis=1)
    fine[row[~good]] = False
    return fine
