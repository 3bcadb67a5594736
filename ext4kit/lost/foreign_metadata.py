"""What the bytes of lost files tell of whether others of the old file system wrote into them.

Where the old log is gone, the last changes may not have come to the inode tables: a file that
is told there may have been removed, and its blocks given to others. Their ends, and blocks of
metadata, show.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.parsers.extents import parse_headers
from ext4kit.parsers.traces import find_dirblock_tails
from ext4kit.recovery.grading.slack import MAX_BYTES_READ, ZEROS, may_hold_foreign_data

BLOCKS_AT_ONCE = 2048


def may_hold_foreign_metadata(fs: FileSystem, size: Int64s, runs: Runs) -> Bools:
    """Per file (bool): its bytes do not rule out that others wrote some of them.

    Args:
        fs: where the blocks are read.
        size: of each file, bytes.
        runs: their blocks up to their size.
    """
    suspect = may_hold_foreign_data(fs, size, runs, np.ones(len(size), bool))
    block_size = fs.superblock.block_size
    judged = runs.take(~suspect[runs.owner])
    affordable = np.cumsum(judged.length) * block_size <= MAX_BYTES_READ
    suspect[judged.owner[~affordable]] = True
    judged = judged.take(affordable)
    row, position = expand(judged.length)
    owner = judged.owner[row]
    end = size[owner] - (judged.logical[row] + position) * block_size
    for at in range(0, len(row), BLOCKS_AT_ONCE):
        some = slice(at, at + BLOCKS_AT_ONCE)
        data, there = fs.fetch(judged.physical[row[some]] + position[some])
        strange = _looks_like_metadata(data) | _ends_off_size(data, end[some])
        suspect[owner[some][there & strange]] = True
    return suspect


def _looks_like_metadata(blocks: Bytes2D) -> Bools:
    """Per block (bool): it may be one of a directory or of an extent tree."""
    sound, _, most, _ = parse_headers(blocks)
    found: Bools = sound & (most > 0)
    found[find_dirblock_tails(blocks)] = True
    return found


def _ends_off_size(blocks: Bytes2D, end: Int64s) -> Bools:
    """Per block (bool): what is written in it ends before or behind byte `end` of it."""
    found = np.zeros(len(blocks), bool)
    last = np.flatnonzero((end > 0) & (end < blocks.shape[1]))
    place = np.arange(blocks.shape[1])
    edge = end[last, None]
    used = blocks[last] != 0
    behind = (used & (place >= edge)).any(axis=1)
    at_end = (used & (place < edge) & (place >= edge - ZEROS)).any(axis=1)
    found[last] = behind | ~at_end
    return found
