"""File sizes derived from the last block, which the kernel zero-fills after the content."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.types import Int64s
from ext4kit.carving import zero_tails
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.block_maps import Runs

_AT_ONCE = 4096


def sizes_to_last_nonzero(fs: FileSystem, runs: Runs, files: int) -> Int64s:
    """Bytes of each file up to the last nonzero byte of its last written block.

    Args:
        fs: file system to read from.
        runs: `owner` is the file, ascending; runs of each file in content order.
        files: number of files.

    Returns:
        int64 (files,); the last block is counted as a whole if it is all zeros or unreadable; 0 for
        a file without a written block.
    """
    size = np.zeros(files, np.int64)
    written = np.flatnonzero(~runs.unwritten)
    last = written[ends_group(runs.owner[written])]
    block_size = fs.superblock.block_size
    for at in range(0, len(last), _AT_ONCE):
        some = last[at : at + _AT_ONCE]
        end = runs.logical[some] + runs.length[some]
        rows, _ = fs.fetch(runs.physical[some] + runs.length[some] - 1)
        size[runs.owner[some]] = end * block_size - zero_tails(rows) % block_size
    return size
