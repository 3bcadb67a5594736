"""Foreign data in the blocks of a file, detected by zero-filled block ends and slack.

A file fills its blocks from the front, and the kernel zero-fills the last one. Foreign data that
stops within a file therefore leaves a block there that ends in zeros; foreign data that runs past
the end of the file leaves non-zero slack.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs

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
