"""Recorded uses of blocks by inodes, and the reuse of blocks of deleted files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.lookup import AsOfIndex, SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.stable_inodes import OwnedRuns
from ext4kit.journal.fast_commits.scan import added_ranges
from ext4kit.journal.replay import ReplayedBlocks

FOREIGN = -1  # stands for an inode number: data of no file of this file system
RUNS_AT_ONCE = 4096  # of which bitmaps are asked together
STATES_AT_ONCE = 1 << 16  # of which the blocks are mapped together


@dataclass(frozen=True, slots=True)
class BlockUses(Table):
    """Runs of blocks and the inodes that used them, as columns (n,).

    Attributes:
        start, length: the blocks.
        instance: the instance that used them; -1 if unknown.
        inode: inode number of the owner, 0 if unknown.
        tid: transaction that shows the use, TID_ON_DISK for the disk.
        is_content: True for content; False for tree blocks and unknown uses.
    """

    start: Int64s
    length: Int64s
    instance: Int64s
    inode: Int64s
    tid: Int64s
    is_content: Bools


@dataclass(frozen=True, slots=True)
class BlockReuse(Table):
    """Blocks of candidates that another inode used later, as columns (n,).

    Attributes:
        candidate: row of the candidate; ascending.
        start, length: the blocks.
        inode: inode number of the later owner, 0 if unknown, FOREIGN for foreign data.
        tid: transaction that shows the later use, TID_ON_DISK for the present.
    """

    candidate: Int64s
    start: Int64s
    length: Int64s
    inode: Int64s
    tid: Int64s


@dataclass(frozen=True, slots=True)
class RecordedUses:
    """All recorded block uses.

    Attributes:
        by_inodes: from inode states in the journal, deleted inodes on disk, and stable inodes.
        by_journal: blocks with journal copies, mostly metadata.
        by_fast_commits: blocks that fast commits allocated to files, which may be deleted again.
    """

    by_inodes: BlockUses
    by_journal: BlockUses
    by_fast_commits: BlockUses


def recorded_uses(history: History, asked: Intervals) -> RecordedUses:
    """The block uses in a history; those by inodes only of the asked blocks."""
    return RecordedUses(
        _uses_by_inodes(history, asked),
        _uses_by_journal(history),
        _uses_by_fast_commits(history),
    )


def _uses_by_inodes(history: History, asked: Intervals) -> BlockUses:
    pieces = chain(_uses_by_states(history), map(_uses_by_stable, history.stable_runs))
    parts = [uses.take(_touches(asked, uses.start, uses.length)) for uses in pieces]
    return BlockUses.concat(parts)


def _touches(asked: Intervals, start: Int64s, length: Int64s) -> Bools:
    """True for each run that has blocks in the sorted, disjoint intervals."""
    found: Bools = np.searchsorted(asked.end, start, side="right") < np.searchsorted(
        asked.start, start + length
    )
    return found


def _uses_by_stable(runs: OwnedRuns) -> BlockUses:
    instance, tid = np.full(len(runs), NO_ROW), np.full(len(runs), TID_ON_DISK - 1)
    is_content = np.zeros(len(runs), bool)
    return BlockUses(runs.start, runs.length, instance, runs.inode, tid, is_content)


def _uses_by_states(history: History) -> Iterator[BlockUses]:
    rows = np.flatnonzero(history.states.describes_content)
    for start in range(0, len(rows), STATES_AT_ONCE):
        yield _uses_by(history, rows[start : start + STATES_AT_ONCE])


def _uses_by(history: History, rows: Rows) -> BlockUses:
    states, maps = history.states, history.map_states(rows)
    data, (node_owner, node) = maps.runs, maps.tree_blocks
    owner = rows[np.concatenate([data.owner, node_owner])]
    length = np.concatenate([data.length, np.ones(len(node), np.int64)])
    order = np.where(states.tid[owner] == TID_ON_DISK, TID_ON_DISK - 1, states.tid[owner])
    return BlockUses(
        np.concatenate([data.physical, node]),
        length,
        states.instance[owner],
        states.table.number[owner],
        order,
        np.arange(len(owner)) < len(data),
    )


def _uses_by_journal(history: History) -> BlockUses:
    copies = history.copies
    if copies is None:
        return BlockUses.empty()
    unknown, ones = np.full(len(copies.blocks), NO_ROW), np.ones(len(copies.blocks), np.int64)
    number = np.zeros(len(copies.blocks), np.int64)
    return BlockUses(copies.blocks, ones, unknown, number, copies.tids, number != 0)


def _uses_by_fast_commits(history: History) -> BlockUses:
    blocks = history.fs.blocks
    if not isinstance(blocks, ReplayedBlocks) or not len(blocks.changed):
        return BlockUses.empty()
    start, length, number, generation = added_ranges(blocks.log)
    keys = history.number << 32 | history.generation  # the order of instances
    instance = SortedIndex(keys).rows(number << 32 | generation)
    now = np.full(len(number), TID_ON_DISK)
    return BlockUses(start, length, instance, number, now, np.ones(len(number), bool))


def find_reuse(
    history: History, uses: RecordedUses, runs: Runs, instance: Rows, since: Int64s, freed: Int64s
) -> BlockReuse:
    """The blocks of candidates that later owners had, by candidate, block and age.

    Args:
        history: with the bitmaps and inodes of the present.
        uses: what is recorded.
        runs: the candidates' blocks; `owner` is the candidate's row.
        instance: per candidate.
        since: per candidate: another inode that has a block in a later transaction took it.
        freed: per candidate: the transaction that shows it freed, TID_NONE while it holds its
            blocks still (an orphan).
    """
    now = BlockReuse.concat([_overwritten(history, runs), _allocated_now(history, runs, freed)])
    parts = [now.take(~_always_own(history, uses.by_inodes, now, instance, since))]
    for theirs, after in (
        (uses.by_inodes, since),
        (uses.by_journal, freed),
        (uses.by_fast_commits, since),
    ):
        mine, other = overlap_pairs(runs.physical, runs.length, theirs.start, theirs.length)
        candidate = runs.owner[mine]
        later = (theirs.tid[other] > after[candidate]) & (freed[candidate] != TID_NONE)
        later &= theirs.instance[other] != instance[candidate]
        mine, other = mine[later], other[later]
        start = np.maximum(runs.physical[mine], theirs.start[other])
        end = (theirs.start + theirs.length)[other]
        length = np.minimum((runs.physical + runs.length)[mine], end) - start
        theirs = theirs.take(other)
        parts.append(BlockReuse(runs.owner[mine], start, length, theirs.inode, theirs.tid))
    found = BlockReuse.concat(parts)
    return found.take(np.lexsort((-found.tid, found.start, found.candidate)))


def _overwritten(history: History, runs: Runs) -> BlockReuse:
    """Blocks at the start of the file system that foreign data overwrote; of the inode FOREIGN."""
    if history.fs.overwritten is None:
        return BlockReuse.empty()
    end = history.fs.overwritten.end // history.fs.superblock.block_size
    runs = runs.take(runs.physical < end)
    length = np.minimum(runs.length, end - runs.physical)
    tid = np.full(len(runs), TID_ON_DISK)
    return BlockReuse(runs.owner, runs.physical, length, np.full(len(runs), FOREIGN), tid)


def _always_own(
    history: History, uses: BlockUses, now: BlockReuse, instance: Rows, since: Int64s
) -> Bools:
    """True where all states of the candidate's own instance since then map the blocks.

    An earlier version shares them with the file as it is. Nobody else has had them.
    """
    own = instance[now.candidate]
    is_own: Bools = now.inode > 0
    if not is_own.any():
        return is_own
    is_own = is_own & history.is_allocated[own] & (history.number[own] == now.inode)
    mine, other = overlap_pairs(now.start, now.length, uses.start, uses.length)
    later = uses.instance[other] == own[mine]
    later &= uses.tid[other] > since[now.candidate[mine]]
    mine, other = mine[later], other[later]
    end = np.minimum((now.start + now.length)[mine], (uses.start + uses.length)[other])
    mapped = np.bincount(mine, end - np.maximum(now.start[mine], uses.start[other]), len(now))
    states = history.states
    row = AsOfIndex(states.instance, states.tid).rows(own, since[now.candidate])
    count = np.searchsorted(states.instance, own, side="right") - 1 - row
    always: Bools = is_own & (mapped == count * now.length)
    return always


def _allocated_now(history: History, runs: Runs, freed: Int64s) -> BlockReuse:
    """Blocks that the bitmaps mark as allocated now, with their owners if known."""
    held = runs.take(freed[runs.owner] != TID_NONE)
    parts = [
        _allocated_runs(history, held.take(slice(at, at + RUNS_AT_ONCE)))
        for at in range(0, len(held), RUNS_AT_ONCE)
    ]
    if not parts:
        return BlockReuse.empty()
    candidate, start, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    number = _live_owner_inodes(history, start, length)
    known = ~history.fs.bitmaps.blocks_unknown(start)  # else a reason against it, no owner
    now = np.full(len(start), TID_ON_DISK)
    return BlockReuse(candidate, start, length, number, now).take((number != 0) | known)


def _allocated_runs(history: History, runs: Runs) -> tuple[Rows, Int64s, Int64s]:
    """(candidate, start, length) of the parts of runs that are allocated now."""
    bitmaps = history.fs.bitmaps
    row, position = expand(runs.length)
    block = runs.physical[row] + position
    used = bitmaps.blocks_in_use(block)
    row, block = row[used], block[used]
    if not len(block):
        return row, block, block
    unknown = bitmaps.blocks_unknown(block)
    joined = (row[1:] == row[:-1]) & (block[1:] == block[:-1] + 1)
    joined &= unknown[1:] == unknown[:-1]
    first = np.concatenate([[0], np.flatnonzero(~joined) + 1])
    length = np.diff(np.append(first, len(block)))
    return runs.owner[row[first]], block[first], length


def _live_owner_inodes(history: History, start: Int64s, length: Int64s) -> Int64s:
    """Inode number of the allocated file that maps each run, 0 for none."""
    number = np.zeros(len(start), np.int64)
    if not len(start):
        return number
    for table, maps in history.fs.allocated_maps():
        owner = np.concatenate([maps.runs.owner, maps.tree_blocks[0]])
        theirs = np.concatenate([maps.runs.physical, maps.tree_blocks[1]])
        span = np.concatenate([maps.runs.length, np.ones(len(maps.tree_blocks[1]), np.int64)])
        mine, other = overlap_pairs(start, length, theirs, span)
        number[mine] = table.number[owner[other]]
    return number
