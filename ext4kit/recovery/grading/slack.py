"""Foreign data in the blocks of a file, detected by block ends, slack and metadata.

A file fills its blocks from the front, and the kernel zero-fills the last one. Foreign data that
stops within a file therefore leaves a block there that ends in zeros; foreign data that runs past
the end of the file leaves non-zero slack.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs
from ext4kit.parsers.extents import parse_headers
from ext4kit.parsers.traces import find_dirblock_tails

BLOCKS_AT_ONCE = 4096
MAX_BYTES_READ = 1 << 30  # read at most to look for seams; what is left stays in doubt
ZEROS = 4  # bytes of zeros at a block's end that are more than chance


def may_hold_foreign_data(fs: FileSystem, size: Int64s, runs: Runs, wanted: Bools) -> Bools:
    """Per file (bool): its content does not exclude foreign data.

    A file, or a run inside it, that fills its last block proves nothing and is suspect.

    Args:
        fs: file system to read from.
        size: of each file, bytes.
        runs: their runs up to the file size.
        wanted: files to check (bool); False for the others.
    """
    block_size = fs.superblock.block_size
    mapped = np.bincount(runs.owner, minlength=len(size)) > 0
    suspect: Bools = wanted & (size % block_size == 0) & mapped
    judged = runs.take((wanted & ~suspect)[runs.owner])
    affordable = np.cumsum(judged.length) * block_size <= MAX_BYTES_READ
    suspect[judged.owner[~affordable]] = True
    judged = judged.take(affordable)
    row, position = expand(judged.length)
    final = position == judged.length[row] - 1
    ends = (judged.logical + judged.length)[row] * block_size >= size[judged.owner[row]]
    row, position, final = (part[~(final & ends)] for part in (row, position, final))
    for start in range(0, len(row), BLOCKS_AT_ONCE):
        some = slice(start, start + BLOCKS_AT_ONCE)
        data, readable = fs.fetch(judged.physical[row[some]] + position[some])
        padded = ~data[:, -ZEROS:].any(axis=1)
        seam = np.where(final[some], ~padded | ~data.any(axis=1), padded)
        suspect[judged.owner[row[some]][readable & seam]] = True
    return suspect


def may_hold_foreign_metadata(fs: FileSystem, size: Int64s, runs: Runs) -> Bools:
    """Per file (bool): its content does not exclude data or metadata of other files.

    Where the journal is lost, a file of the inode tables may have been deleted and its blocks
    reused. The end of its content, and metadata blocks in it, show that.

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
        sound, _, most, _ = parse_headers(data)
        nodes: Bools = sound & (most > 0)
        nodes[find_dirblock_tails(data)] = True
        strange = nodes | _ends_off_size(data, end[some])
        suspect[owner[some][there & strange]] = True
    return suspect


def _ends_off_size(blocks: Bytes2D, end: Int64s) -> Bools:
    """Per block (bool): what is written in it ends before or after byte `end` of it."""
    found = np.zeros(len(blocks), bool)
    last = np.flatnonzero((end > 0) & (end < blocks.shape[1]))
    place = np.arange(blocks.shape[1])
    edge = end[last, None]
    used = blocks[last] != 0
    behind = (used & (place >= edge)).any(axis=1)
    at_end = (used & (place < edge) & (place >= edge - ZEROS)).any(axis=1)
    found[last] = behind | ~at_end
    return found
