"""Indirect blocks of ext2 and ext3 in free space, recognised by their pointers.

An indirect block is an array of block numbers, in the order of the file; what it points at was
allocated with it, so the numbers ascend for the most part and lie close together. Freed blocks
keep what they held: the pointers are cleared in memory and that is forgotten.
Source: kernel fs/ext4/indirect.c, `ext4_free_branches`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ext4kit.parsers.features import Incompat
from ext4kit.parsers.superblock import Superblock
from ext4kit.recovery.sources.space import Stretch

_STEP = 1 << 16  # blocks from one pointer to the next, at most, for nearly all of them
_NEAR = 1 << 12  # a block of few pointers lies that close to what it points at
_FEW = 4
_AT_ONCE = 256  # candidates whose pointers are looked at together


def may_have_indirect_blocks(superblock: Superblock) -> bool:
    """Whether files of the file system are mapped by indirect blocks as a rule."""
    return Incompat.EXTENT not in superblock.features


def indirect_look(superblock: Superblock) -> Callable[[Stretch], Any]:
    """A look for `survey`: the blocks (int64) that can be indirect blocks.

    Args:
        superblock: the geometry.
    """

    def look(stretch: Stretch) -> Any:
        if stretch.in_log:
            return np.zeros(0, np.int64)
        words = stretch.data.view("<u4")
        first = words[:, 0]
        inside = (first > superblock.first_data_block) & (first < superblock.blocks_count)
        hits = np.flatnonzero(inside)
        step = words[hits, 1].astype(np.int64) - first[hits]
        hits = hits[(words[hits, 1] == 0) | ((step > 0) & (step < _STEP))]
        kept = [np.zeros(0, bool)]
        for at in range(0, len(hits), _AT_ONCE):
            some = hits[at : at + _AT_ONCE]
            kept.append(are_pointers(words[some], stretch.blocks[some], superblock))
        found = stretch.blocks[hits[np.concatenate(kept)]]
        return found

    return look


def are_pointers(words: Any, blocks: Any, superblock: Superblock) -> Any:
    """Per block (bool): what it holds can be the pointers of an indirect block.

    Args:
        words: uint32 (n, pointers a block).
        blocks: int64 (n,) where the blocks lie.
        superblock: the geometry.
    """
    fits = (words < superblock.blocks_count).all(axis=1)
    fits &= ((words == 0) | (words > superblock.first_data_block)).all(axis=1)
    row, slot = np.nonzero(words * fits[:, None])
    value = words[row, slot].astype(np.int64)
    fits[row[value == blocks[row]]] = False
    same = row[1:] == row[:-1]
    step = np.diff(value)
    held = np.bincount(row, minlength=len(words))
    good = np.bincount(row[1:][same & (step > 0) & (step < _STEP)], minlength=len(words))
    flat = np.bincount(row[1:][same & (step == 0)], minlength=len(words))
    near = np.abs(words[:, 0].astype(np.int64) - blocks) < _NEAR
    fits &= (flat == 0) & (10 * (held - 1 - good) <= held) & (held > 0)
    return fits & (near | (held >= _FEW))
