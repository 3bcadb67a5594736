"""A quick check for a former file system, which is only used for a hint."""

from __future__ import annotations

import numpy as np

from ext4kit.evidence.source import Source
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.superblocks import backup_superblocks
from ext4kit.lost.overwriting import unwritten_inode_tables
from ext4kit.parsers.traces import plausible_inodes

MAX_GROUPS = 64
BLOCKS_PER_GROUP = 8
MIN_INODES = 3  # minimum inodes in parts of tables that this file system never wrote


def has_former_file_system(fs: FileSystem, source: Source) -> bool:
    """Whether there is clear evidence of a file system that this one overwrote.

    The first blocks of the unused parts of some inode tables are checked, and the usual places of
    backup superblocks.

    Args:
        fs: the file system that is there now.
        source: the volume of the file system.
    """
    first, count = unwritten_inode_tables(fs)
    groups = np.flatnonzero(count)[:MAX_GROUPS]
    row = np.repeat(groups, np.minimum(count[groups], BLOCKS_PER_GROUP))
    position = np.arange(len(row)) - np.searchsorted(row, row)
    blocks, _ = fs.fetch(first[row] + position)
    slots = blocks.reshape(-1, fs.superblock.inode_size)
    if len(plausible_inodes(slots)) >= MIN_INODES:
        return True
    return any(copy.uuid != fs.superblock.uuid for copy in backup_superblocks(source))
