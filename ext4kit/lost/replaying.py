"""Replay of the journal of a file system that lost only its superblocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.journal import Log
from ext4kit.journal import replay as replay_log
from ext4kit.lost.file_system import LostFileSystem
from ext4kit.lost.inode_tables import InodeTableMap


def replay_if_complete(fs: LostFileSystem) -> LostFileSystem:
    """The file system with its journal replayed; unchanged if there is nothing to replay.

    An inode table block that was known only from a journal copy is then read at its home block,
    which the tag names.
    """
    if fs.identity.was_unmounted is not False or fs.overwriting.present is not None:
        return fs
    log = Log.open(fs)
    if log is None:
        return fs
    log.needs_recovery = log.superblock.start != 0
    blocks = replay_log(log)
    if blocks.plan.walk.refusal or log.has_fast_commits:
        return fs
    tags = log.tags
    rows = np.flatnonzero(tags.valid & tags.committed)
    place = log.reader.log_blocks[tags.position[rows]] * fs.superblock.block_size
    order = np.argsort(place, kind="stable")
    place, home = place[order], tags.block[rows][order] * fs.superblock.block_size
    found = values_at(home, SortedIndex(place).rows(fs.inode_tables.byte))
    moved = fs.inode_tables.from_journal & (found >= 0)
    tables = InodeTableMap(
        np.where(moved, found, fs.inode_tables.byte), fs.inode_tables.from_journal & ~moved
    )
    origin = replace(fs.identity, was_unmounted=True)
    return LostFileSystem(fs.source, origin, tables, fs.overwriting, blocks)
