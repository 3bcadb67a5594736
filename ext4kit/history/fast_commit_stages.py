"""The file system before, between and after the fast commits that were replayed."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.journal.fast_commits.replay import find_intermediate_states
from ext4kit.journal.replay import ReplayedBlocks


class FastCommitStages:
    """Stages of a file system with replayed fast commits; without fast commits there is one stage.

    Attributes:
        before: the file system without fast commits; None if no fast commit was replayed.

    Args:
        fs: the file system, with its journal replayed.
        copied: blocks (int64) with copies in the log.
        committed_only: omit the stages before and between fast commits.
    """

    def __init__(self, fs: FileSystem, copied: Int64s, committed_only: bool) -> None:
        self._fs, self._copied, self._committed_only = fs, copied, committed_only
        blocks = fs.blocks
        self._replayed = blocks if isinstance(blocks, ReplayedBlocks) else None
        self.before: FileSystem | None = None
        if self._replayed and len(self._replayed.changed):
            self.before = fs.with_blocks(self._replayed.before_fast_commits)

    @cached_property
    def unlogged_changes(self) -> Int64s:
        """Blocks (int64) changed by fast commits and without a copy in the log."""
        if not self._replayed or self._committed_only:
            return np.zeros(0, np.int64)
        return np.setdiff1d(self._replayed.changed.blocks, self._copied)

    @cached_property
    def freed(self) -> Int64s:
        """Numbers of inodes freed by fast commits; a fast commit records no time."""
        if self.before is None or not self._replayed:
            return np.zeros(0, np.int64)
        numbers = inodes_in(self._fs, self._replayed.changed.blocks)
        table = self._fs.inode_table(numbers)
        changed = (table.raw != self.before.inode_table(numbers).raw).any(axis=1)
        freed: Int64s = numbers[changed & (table.links_count == 0)]
        return freed

    @cached_property
    def between(self) -> dict[int, tuple[FileSystem, Int64s]]:
        """Tid -> (file system before a fast commit that removes inodes, removed inode numbers)."""
        replayed = self._replayed
        if self.before is None or not replayed or self._committed_only:
            return {}
        found = {}
        states = find_intermediate_states(replayed.log, self.before)
        for tid, one in enumerate(states, TID_PRE_FAST_COMMIT + 1):
            then = ReplayedBlocks(replayed.base, replayed.log, replayed.plan, one.changed)
            found[tid] = self._fs.with_blocks(then), one.numbers
        return found

    def fetch(self, blocks: Int64s, at: Int64s) -> tuple[Bytes2D, Bools]:
        """As `fs.fetch`, with fast commits applied as of the tids `at`."""
        if self.before is None:
            return self._fs.fetch(blocks)
        views = {int(TID_NONE): self.before}
        views |= {tid: fs for tid, (fs, _) in self.between.items()}
        views[int(TID_ON_DISK)] = self._fs
        step = np.searchsorted(list(views), at, side="right") - 1
        data = np.zeros((len(blocks), self._fs.superblock.block_size), np.uint8)
        readable = np.zeros(len(blocks), bool)
        for number, fs in enumerate(views.values()):
            which = step == number
            if which.any():
                data[which], readable[which] = fs.fetch(blocks[which])
        return data, readable


def inodes_in(fs: FileSystem, blocks: Int64s) -> Int64s:
    """Numbers of all inodes in those of `blocks` that are inode table blocks."""
    superblock = fs.superblock
    per_block = superblock.block_size // superblock.inode_size
    length = -(-superblock.inodes_per_group // per_block)
    by_start = np.argsort(fs.groups.inode_table, kind="stable")
    starts = fs.groups.inode_table[by_start]
    place = np.searchsorted(starts, blocks, side="right") - 1
    inside = (place >= 0) & (blocks - starts[np.maximum(place, 0)] < length)
    place, skip = place[inside], (blocks - starts[np.maximum(place, 0)])[inside]
    slots = (skip * per_block)[:, None] + np.arange(per_block)
    numbers = by_start[place][:, None] * superblock.inodes_per_group + slots + 1
    found: Int64s = numbers[slots < superblock.inodes_per_group]
    return found
