"""Who had which block when: what decides whether a deleted file's blocks are still its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.history import TID_NONE, TID_ON_DISK, History
from ext4kit.journal.fast_commits.scan import added_ranges
from ext4kit.journal.replay import ReplayedBlocks

RUNS_AT_ONCE = 4096  # of which bitmaps are asked together


@dataclass(frozen=True, slots=True)
class BlockUses(Table):
    """Runs of blocks that somebody had, as columns (n,).

    Attributes:
        instance: the life that had them; -1 when only the block's own history tells of the use.
        inode: inode number of the owner, 0 when not known.
        order: the transaction that shows it, TID_ON_DISK for the disk.
        is_content: bool, as content; else as a tree block, or as nobody knows what.
    """

    start: Int64s
    length: Int64s
    instance: Int64s
    inode: Int64s
    order: Int64s
    is_content: Bools


@dataclass(frozen=True, slots=True)
class BlockReuse(Table):
    """Blocks of a candidate that came to somebody else after its death.

    Attributes:
        candidate: row of the candidate; ascending.
        start, length: the blocks.
        number: inode number of the later owner, 0 when not known.
        order: when it is seen there, TID_ON_DISK for the present.
    """

    candidate: Int64s
    start: Int64s
    length: Int64s
    number: Int64s
    order: Int64s


class Ownership:
    """Answers which blocks of dead lives were reused later, and by whom."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def logged(self) -> BlockUses:
        """What the states in the log, the deleted ones on disk and settled inodes had."""
        states = self.history.states
        rows = np.flatnonzero(states.describes_content)
        maps = self.history.map_states(rows)
        data, (node_owner, node) = maps.runs, maps.tree_blocks
        owner = rows[np.concatenate([data.owner, node_owner])]
        length = np.concatenate([data.length, np.ones(len(node), np.int64)])
        order = np.where(states.tid[owner] == TID_ON_DISK, TID_ON_DISK - 1, states.tid[owner])
        settled = self.history.settled
        number = np.concatenate([states.table.number[owner], *(part.inode for part in settled)])
        others = len(number) - len(owner)
        return BlockUses(
            np.concatenate([data.physical, node, *(part.start for part in settled)]),
            np.concatenate([length, *(part.length for part in settled)]),
            np.concatenate([states.life[owner], np.full(others, -1)]),
            number,
            np.concatenate([order, np.full(others, TID_ON_DISK - 1)]),
            np.arange(len(number)) < len(data),
        )

    @cached_property
    def uses_by_journal(self) -> BlockUses:
        """Blocks whose content went through the log: metadata, for the most part."""
        history = self.history.copies
        if history is None:
            return BlockUses.empty()
        blocks = history.blocks
        unknown = np.full(len(blocks), -1)
        ones = np.ones(len(blocks), np.int64)
        number = np.zeros(len(blocks), np.int64)
        return BlockUses(blocks, ones, unknown, number, history.tids, number != 0)

    @cached_property
    def uses_by_fast_commits(self) -> BlockUses:
        """Blocks that fast commits behind the log gave to files, some of them gone again."""
        history, blocks = self.history, self.history.fs.blocks
        none = np.zeros(0, np.int64)
        start, length, number, generation = none, none, none, none
        if isinstance(blocks, ReplayedBlocks) and len(blocks.changed):
            start, length, number, generation = added_ranges(blocks.log)
        keys = history.number << 32 | history.generation  # lives are numbered in that order
        life = SortedIndex(keys).rows(number << 32 | generation)
        now = np.full(len(number), TID_ON_DISK)
        return BlockUses(start, length, life, number, now, np.ones(len(number), bool))

    def find_reuse(self, runs: Runs, life: Any, since: Any, death: Any) -> BlockReuse:
        """The blocks of candidates that later owners took.

        Args:
            runs: the candidates' blocks; `owner` is the candidate's row.
            life: per candidate.
            since: per candidate: the order from which on others that have a block took it.
            death: per candidate: the order at which it is seen dead, TID_NONE while it holds its
                blocks still (an orphan).
        """
        parts = [self._allocated_now(runs, death)]
        others = (
            (self.logged, since),
            (self.uses_by_journal, death),
            (self.uses_by_fast_commits, since),
        )
        for claims, after in others:
            mine, other = overlap_pairs(runs.physical, runs.length, claims.start, claims.length)
            candidate = runs.owner[mine]
            later = (claims.order[other] > after[candidate]) & (death[candidate] != TID_NONE)
            later &= claims.instance[other] != life[candidate]
            mine, other = mine[later], other[later]
            start = np.maximum(runs.physical[mine], claims.start[other])
            end = np.minimum(
                runs.physical[mine] + runs.length[mine], claims.start[other] + claims.length[other]
            )
            parts.append(
                BlockReuse(
                    runs.owner[mine], start, end - start, claims.inode[other], claims.order[other]
                )
            )
        found = BlockReuse.concat(parts)
        return found.take(np.lexsort((-found.order, found.start, found.candidate)))

    def _allocated_now(self, runs: Runs, death: Any) -> BlockReuse:
        """Blocks that the bitmaps show in use now, with their owners where inodes tell them."""
        held = runs.take(death[runs.owner] != TID_NONE)
        parts = [
            self._allocated_runs(held.take(slice(at, at + RUNS_AT_ONCE)))
            for at in range(0, len(held), RUNS_AT_ONCE)
        ]
        nothing = np.zeros(0, np.int64)
        if parts:
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        else:
            columns = [nothing, nothing, nothing]
        candidate, start, length = columns
        number = self._live_owner_inodes(start, length)
        told = (number != 0) | ~self.history.fs.bitmaps.blocks_unknown(
            start
        )  # else a doubt, no owner
        now = np.full(len(start), TID_ON_DISK)
        return BlockReuse(candidate, start, length, number, now).take(told)

    def _allocated_runs(self, runs: Runs) -> tuple[Any, Any, Any]:
        """(candidate, start, length) of the stretches of the runs that are in use now."""
        row, position = expand(runs.length)
        block = runs.physical[row] + position
        used = self.history.fs.bitmaps.blocks_in_use(block)
        row, block = row[used], block[used]
        if not len(block):
            return row, block, block
        unknown = self.history.fs.bitmaps.blocks_unknown(block)
        joined = (row[1:] == row[:-1]) & (block[1:] == block[:-1] + 1)
        joined &= unknown[1:] == unknown[:-1]
        first = np.concatenate([[0], np.flatnonzero(~joined) + 1])
        length = np.diff(np.append(first, len(block)))
        return runs.owner[row[first]], block[first], length

    def _live_owner_inodes(self, start: Any, length: Any) -> Any:
        """Inode number of the live file that has each run, 0 where none is found."""
        number = np.zeros(len(start), np.int64)
        if not len(start):
            return number
        for table, maps in self.history.fs.allocated_maps():
            owner = np.concatenate([maps.runs.owner, maps.tree_blocks[0]])
            theirs = np.concatenate([maps.runs.physical, maps.tree_blocks[1]])
            span = np.concatenate([maps.runs.length, np.ones(len(maps.tree_blocks[1]), np.int64)])
            mine, other = overlap_pairs(start, length, theirs, span)
            number[mine] = table.number[owner[other]]
        return number
