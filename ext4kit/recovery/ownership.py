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
from ext4kit.filesystem.maps import Runs
from ext4kit.journal.fast_commits.reading import given_ranges
from ext4kit.journal.replay import ReplayedBlocks
from ext4kit.past.states import NEVER, NOW, Past

RUNS_AT_ONCE = 4096  # of which bitmaps are asked together


@dataclass(frozen=True, slots=True)
class Claims(Table):
    """Runs of blocks that somebody had, as columns (n,).

    Attributes:
        life: the life that had them; -1 when only the block's own history tells of the use.
        number: inode number of the owner, 0 when not known.
        order: the transaction that shows it, NOW for the disk.
        content: bool, as content; else as a tree block, or as nobody knows what.
    """

    start: Int64s
    length: Int64s
    life: Int64s
    number: Int64s
    order: Int64s
    content: Bools


@dataclass(frozen=True, slots=True)
class Reuse(Table):
    """Blocks of a candidate that came to somebody else after its death.

    Attributes:
        candidate: row of the candidate; ascending.
        start, length: the blocks.
        number: inode number of the later owner, 0 when not known.
        order: when it is seen there, NOW for the present.
    """

    candidate: Int64s
    start: Int64s
    length: Int64s
    number: Int64s
    order: Int64s


class Ownership:
    """Answers which blocks of dead lives were reused later, and by whom."""

    def __init__(self, past: Past) -> None:
        self.past = past

    @cached_property
    def logged(self) -> Claims:
        """What the states in the log, the deleted ones on disk and settled inodes had."""
        states = self.past.states
        rows = np.flatnonzero(states.whole)
        maps = self.past.map_states(rows)
        data, (node_owner, node) = maps.data, maps.nodes
        owner = rows[np.concatenate([data.owner, node_owner])]
        length = np.concatenate([data.length, np.ones(len(node), np.int64)])
        order = np.where(states.order[owner] == NOW, NOW - 1, states.order[owner])
        settled = self.past.settled
        number = np.concatenate([states.table.number[owner], *(part.number for part in settled)])
        others = len(number) - len(owner)
        return Claims(
            np.concatenate([data.physical, node, *(part.start for part in settled)]),
            np.concatenate([length, *(part.length for part in settled)]),
            np.concatenate([states.life[owner], np.full(others, -1)]),
            number,
            np.concatenate([order, np.full(others, NOW - 1)]),
            np.arange(len(number)) < len(data),
        )

    @cached_property
    def journaled(self) -> Claims:
        """Blocks whose content went through the log: metadata, for the most part."""
        history = self.past.history
        if history is None:
            return Claims.empty()
        blocks = history.blocks
        unknown = np.full(len(blocks), -1)
        ones = np.ones(len(blocks), np.int64)
        number = np.zeros(len(blocks), np.int64)
        return Claims(blocks, ones, unknown, number, history.orders, number != 0)

    @cached_property
    def unreplayed(self) -> Claims:
        """Blocks that fast commits behind the log gave to files, some of them gone again."""
        past, blocks = self.past, self.past.fs.blocks
        none = np.zeros(0, np.int64)
        start, length, number, generation = none, none, none, none
        if isinstance(blocks, ReplayedBlocks) and len(blocks.changed):
            start, length, number, generation = given_ranges(blocks.log)
        keys = past.number << 32 | past.generation  # lives are numbered in that order
        life = SortedIndex(keys).rows(number << 32 | generation)
        now = np.full(len(number), NOW)
        return Claims(start, length, life, number, now, np.ones(len(number), bool))

    def reuse(self, runs: Runs, life: Any, since: Any, death: Any) -> Reuse:
        """The blocks of candidates that later owners took.

        Args:
            runs: the candidates' blocks; `owner` is the candidate's row.
            life: per candidate.
            since: per candidate: the order from which on others that have a block took it.
            death: per candidate: the order at which it is seen dead, NEVER while it holds its
                blocks still (an orphan).
        """
        parts = [self._in_use(runs, death)]
        others = ((self.logged, since), (self.journaled, death), (self.unreplayed, since))
        for claims, after in others:
            mine, other = overlap_pairs(runs.physical, runs.length, claims.start, claims.length)
            candidate = runs.owner[mine]
            later = (claims.order[other] > after[candidate]) & (death[candidate] != NEVER)
            later &= claims.life[other] != life[candidate]
            mine, other = mine[later], other[later]
            start = np.maximum(runs.physical[mine], claims.start[other])
            end = np.minimum(
                runs.physical[mine] + runs.length[mine], claims.start[other] + claims.length[other]
            )
            parts.append(
                Reuse(
                    runs.owner[mine], start, end - start, claims.number[other], claims.order[other]
                )
            )
        found = Reuse.concat(parts)
        return found.take(np.lexsort((-found.order, found.start, found.candidate)))

    def _in_use(self, runs: Runs, death: Any) -> Reuse:
        """Blocks that the bitmaps show in use now, with their owners where inodes tell them."""
        held = runs.take(death[runs.owner] != NEVER)
        parts = [
            self._used_pieces(held.take(slice(at, at + RUNS_AT_ONCE)))
            for at in range(0, len(held), RUNS_AT_ONCE)
        ]
        nothing = np.zeros(0, np.int64)
        if parts:
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        else:
            columns = [nothing, nothing, nothing]
        candidate, start, length = columns
        number = self._live_owners(start, length)
        told = (number != 0) | ~self.past.fs.bitmaps.blocks_unknown(start)  # else a doubt, no owner
        now = np.full(len(start), NOW)
        return Reuse(candidate, start, length, number, now).take(told)

    def _used_pieces(self, runs: Runs) -> tuple[Any, Any, Any]:
        """(candidate, start, length) of the stretches of the runs that are in use now."""
        row, position = expand(runs.length)
        block = runs.physical[row] + position
        used = self.past.fs.bitmaps.blocks_in_use(block)
        row, block = row[used], block[used]
        if not len(block):
            return row, block, block
        unknown = self.past.fs.bitmaps.blocks_unknown(block)
        joined = (row[1:] == row[:-1]) & (block[1:] == block[:-1] + 1)
        joined &= unknown[1:] == unknown[:-1]
        first = np.concatenate([[0], np.flatnonzero(~joined) + 1])
        length = np.diff(np.append(first, len(block)))
        return runs.owner[row[first]], block[first], length

    def _live_owners(self, start: Any, length: Any) -> Any:
        """Inode number of the live file that has each run, 0 where none is found."""
        number = np.zeros(len(start), np.int64)
        if not len(start):
            return number
        for table, maps in self.past.fs.live_maps():
            owner = np.concatenate([maps.data.owner, maps.nodes[0]])
            theirs = np.concatenate([maps.data.physical, maps.nodes[1]])
            span = np.concatenate([maps.data.length, np.ones(len(maps.nodes[1]), np.int64)])
            mine, other = overlap_pairs(start, length, theirs, span)
            number[mine] = table.number[owner[other]]
        return number
