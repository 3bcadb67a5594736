"""Indirect blocks of ext2 and ext3 in free space, recognised by their pointers.

An indirect block is an array of block numbers, in the order of the file. Most of them are one
more than the one before where it points at content, and ascend where it points at other indirect
blocks. Freed blocks keep what they held: the pointers are cleared in memory and that is forgotten.
Source: kernel fs/ext4/indirect.c, `ext4_free_branches`.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, UInt32s
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.superblock import Superblock
from ext4kit.unallocated.space import BlockBatch, Scanner

_STEP = 1 << 16  # blocks from one pointer to the next, at most, for nearly all that ascend
_FEW_BREAKS, _BREAKS, _RARE_BREAKS = 4, 8, 16  # a few pointers begin a run, and one in so many
_NEAR = 1 << 15  # a block of few pointers lies that close to what it points at
_LETTERS_NEAR = 1 << 12  # and one that may as well be a few letters that close
_FEW, _RARE = 4, 16  # pointers, at least, of one that lies elsewhere; with extents, of any
_AT_ONCE = 256  # candidates whose pointers are looked at together


def indirect_scanner(superblock: Superblock) -> Scanner[Int64s]:
    """A look for `survey`: the blocks (int64) that can be indirect blocks.

    Where files have extents, only those of an earlier time have indirect blocks: long ones alone
    are believed.

    Args:
        superblock: the geometry.
    """
    rare = Incompat.EXTENT in superblock.features

    def look(stretch: BlockBatch) -> Int64s:
        if stretch.in_log:
            return np.zeros(0, np.int64)
        words = stretch.data.view("<u4")
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
            kept.append(is_indirect_block(words[some], stretch.blocks[some], superblock))
        found: Int64s = stretch.blocks[hits[np.concatenate(kept)]]
        return found

    return look


def is_indirect_block(words: UInt32s, blocks: Int64s, superblock: Superblock) -> Bools:
    """Per block (bool): what it holds can be the pointers of an indirect block.

    Args:
        words: uint32 (n, pointers a block).
        blocks: int64 (n,) where the blocks lie.
        superblock: the geometry.
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
    near: Bools = distance < np.where(_is_ascii(words[:, 0]), _LETTERS_NEAR, _NEAR)
    in_order = 10 * (held - 1 - rising) <= held
    in_order |= is_mostly_sequential(row, value, len(words), superblock)
    fits &= (flat == 0) & in_order & (held > 0) & (near | (held >= _FEW))
    return fits


def _is_ascii(number: UInt32s) -> Bools:
    """Bool: the bytes of a number, up to the zeros at its end, are ASCII text."""
    found = np.ones(len(number), bool)
    for shift in (0, 8, 16, 24):
        byte = number >> shift & 255
        found &= (byte >= 32) & (byte < 127) | (byte == 10) | (number >> shift == 0)
    return found


def is_mostly_sequential(node: Rows, value: Int64s, nodes: int, superblock: Superblock) -> Bools:
    """Per node (bool): most pointers are one more than the one before, as those of content are.

    Args:
        node: int64 (n,), of each pointer, ascending.
        value: int64 (n,), the pointers, 0 left out.
        nodes: how many there are.
        superblock: the geometry.
    """
    most = _RARE_BREAKS if Incompat.EXTENT in superblock.features else _BREAKS
    breaks = (np.diff(value) != 1) & (node[1:] == node[:-1])
    held = np.bincount(node, minlength=nodes)
    return np.bincount(node[1:][breaks], minlength=nodes) < _FEW_BREAKS + held // most
