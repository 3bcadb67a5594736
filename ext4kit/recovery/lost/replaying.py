"""The log of a lost file system applied, where it is whole: only the superblocks were lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.journal import Log
from ext4kit.journal import replay as replay_log
from ext4kit.recovery.lost.file_system import LostFileSystem
from ext4kit.recovery.lost.tables import Tables


def replayed(fs: LostFileSystem) -> LostFileSystem:
    """The file system as its log would leave it; itself where there is nothing to apply.

    A block of the inode tables of which only copies in the log were found is from then on read
    in its own place, which the log tells.
    """
    if fs.origin.clean is not False or fs.later.present is not None:
        return fs
    log = Log.open(fs)
    if log is None:
        return fs
    log.needs_recovery = log.superblock.start != 0
    blocks = replay_log(log)
    if blocks.plan.walk.refused or log.has_fast_commits:
        return fs
    tables = _in_place(fs.tables, log, fs.superblock.block_size)
    origin = replace(fs.origin, clean=True)
    return LostFileSystem(fs.source, origin, tables, fs.later, blocks)


def _in_place(tables: Tables, log: Log, size: int) -> Tables:
    """The tables with the home of each block that is known from a copy alone."""
    tags = log.tags
    rows = np.flatnonzero(tags.valid & tags.committed)
    place = log.reader.log_blocks[tags.position[rows]] * size
    order = np.argsort(place, kind="stable")
    place, home = place[order], tags.block[rows][order] * size
    found = values_at(home, SortedIndex(place).rows(tables.place))
    moved = tables.copied & (found >= 0)
    return Tables(np.where(moved, found, tables.place), tables.copied & ~moved)
