"""Indirect blocks of ext2 and ext3 in unallocated space, recognised by their pointers.

An indirect block is an array of block numbers in file order. If it points at content, most pointers
are one more than the previous pointer. If it points at other indirect blocks, the pointers ascend.
A freed indirect block keeps its bytes, because the kernel clears the pointers only in memory.
Source: kernel fs/ext4/indirect.c, `ext4_free_branches`.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, UInt32s
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.superblock import Superblock
from ext4kit.scan import BlockBatch, Scanner

_STEP = 1 << 16  # maximum distance in blocks from one pointer to the next
_FEW_BREAKS, _BREAKS, _RARE_BREAKS = 4, 8, 16  # run starts: 4, and one per 8 or 16 pointers
_NEAR = 1 << 15  # maximum distance in blocks between a block with few pointers and its first target
_LETTERS_NEAR = 1 << 12  # the same if the pointer may also be ASCII text
_FEW, _RARE = 4, 16  # minimum pointers at a larger distance; the same where files have extents
_AT_ONCE = 256  # candidates whose pointers are tested together


def indirect_scanner(superblock: Superblock) -> Scanner[Int64s]:
    """Scanner for blocks (int64) that may be indirect blocks.

    In a file system with extents, only older files have indirect blocks, and only blocks with many
    pointers are accepted.

    Args:
        superblock: geometry of the file system.
    """
    rare = Incompat.EXTENT in superblock.features

    def scanner(batch: BlockBatch) -> Int64s:
        if batch.in_log:
            return np.zeros(0, np.int64)
        words = batch.data.view("<u4")
        first: UInt32s = words[:, 0]
        inside = (first > superblock.first_data_block) & (first < superblock.blocks_count)
        hits = np.flatnonzero(inside)
        step = words[hits, 1].astype(np.int64) - first[hits]
        rising = (step > 0) & (step < _STEP)
        few = (words[hits, 1] == 0) if not rare else (words[hits, _RARE - 1] == 0)
        hits = hits[rising & ~few if rare else rising | few]
        kept = [np.zeros(0, bool)]
        for at in range(0, len(hits), _AT_ONCE):
            some = hits[at : at + _AT_ONCE]
            kept.append(is_indirect_block(words[some], batch.blocks[some], superblock))
        found: Int64s = batch.blocks[hits[np.concatenate(kept)]]
        return found

    return Scanner("indirect blocks", scanner)


def is_indirect_block(words: UInt32s, blocks: Int64s, superblock: Superblock) -> Bools:
    """Per block (bool): True where its words may be the pointers of an indirect block.

    Args:
        words: uint32 (n, pointers per block).
        blocks: int64 (n,), block numbers.
        superblock: geometry of the file system.
    """
    fits: Bools = np.all(words < superblock.blocks_count, axis=1)
    fits &= ((words == 0) | (words > superblock.first_data_block)).all(axis=1)
    row, slot = np.nonzero(words * fits[:, None])
    value = words[row, slot].astype(np.int64)
    fits[row[value == blocks[row]]] = False
    step = np.diff(value)[row[1:] == row[:-1]]
    place = row[1:][row[1:] == row[:-1]]
    held = np.bincount(row, minlength=len(words))
    rising = np.bincount(place[(step > 0) & (step < _STEP)], minlength=len(words))
    flat = np.bincount(place[step == 0], minlength=len(words))
    distance = np.abs(words[:, 0].astype(np.int64) - blocks)
    number = words[:, 0]  # whether it is ASCII text without trailing zeros
    letters = np.ones(len(number), bool)
    for shift in (0, 8, 16, 24):
        byte = number >> shift & 255
        letters &= (byte >= 32) & (byte < 127) | (byte == 10) | (number >> shift == 0)
    near: Bools = distance < np.where(letters, _LETTERS_NEAR, _NEAR)
    in_order = 10 * (held - 1 - rising) <= held
    in_order |= is_mostly_sequential(row, value, len(words), superblock)
    fits &= (flat == 0) & in_order & (held > 0) & (near | (held >= _FEW))
    return fits


def is_mostly_sequential(node: Rows, value: Int64s, nodes: int, superblock: Superblock) -> Bools:
    """Per node (bool): True where most pointers are one more than the previous pointer.

    Args:
        node: int64 (n,), node of each pointer, ascending.
        value: int64 (n,), the pointers without zeros.
        nodes: number of nodes.
        superblock: geometry of the file system.
    """
    most = _RARE_BREAKS if Incompat.EXTENT in superblock.features else _BREAKS
    breaks = (np.diff(value) != 1) & (node[1:] == node[:-1])
    held = np.bincount(node, minlength=nodes)
    return np.bincount(node[1:][breaks], minlength=nodes) < _FEW_BREAKS + held // most
