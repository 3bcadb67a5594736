"""The blocks of all candidates, and the inodes that used these blocks later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import row_bounds
from ext4kit.arrays.intervals import Intervals, overlap_pairs
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.artifacts import Artifacts
from ext4kit.recovery.block_uses import (
    BlockReuse,
    BlockUses,
    RecordedUses,
    find_reuse,
    recorded_uses,
)
from ext4kit.recovery.candidates import INODE_TABLE, Candidates
from ext4kit.recovery.content import clip_to_size, content_sizes
from ext4kit.recovery.deletion import DeletionFacts, find_deletion_facts, transaction_times
from ext4kit.recovery.journal_content import ContentCopies, find_tagged_copies
from ext4kit.recovery.model import TransactionTime
from ext4kit.recovery.untagged_content import find_untagged_copies
from ext4kit.units import NANOSECONDS

_NO_RUNS = Runs.empty()


@dataclass(frozen=True, slots=True)
class BlockAttribution:
    """The blocks of all candidates and their later owners, with one row per candidate.

    Attributes:
        history: the states.
        candidates: the candidates.
        transactions: transactions of the journal, by tid.
        deletion: when and how each candidate was deleted.
        runs: content blocks up to the size; `owner` is the candidate.
        bounds: rows `bounds[n]` to `bounds[n + 1]` of `runs` belong to candidate n.
        sizes: bytes (n,); if no inode states a size, bytes up to the last nonzero one.
        block_counts: number of content blocks (n,).
        freed_tid: (n,), tid after which uses by other inodes count as reuse; TID_NONE if the
            candidate still has its blocks.
        uses: recorded block uses.
        reuse: blocks that other inodes used later.
        competing: blocks that a competing inode, freed later or at the same time, mapped too.
        tagged: content blocks with tagged copies in the journal.
        untagged: content blocks with untagged copies in the journal.
        unassigned: log blocks (m,) with untagged copies of unknown files.
        tree_block_reused: bool (n,), True where a tree block without a checksum was reused.
    """

    history: History
    candidates: Candidates
    transactions: Mapping[int, TransactionTime]
    deletion: DeletionFacts
    runs: Runs
    bounds: Int64s
    sizes: Int64s
    block_counts: Int64s
    freed_tid: Int64s
    uses: BlockUses
    reuse: BlockReuse
    competing: BlockReuse
    tagged: ContentCopies
    untagged: ContentCopies
    unassigned: Int64s
    tree_block_reused: Bools

    def runs_of(self, candidate: int) -> Runs:
        """The blocks of one candidate."""
        first, end = self.bounds[candidate : candidate + 2].tolist()
        return self.runs.take(slice(first, end)) if first < end else _NO_RUNS


def attribute_blocks(candidates: Candidates, artifacts: Artifacts) -> BlockAttribution:
    """Find the blocks of each candidate and the other owners of these blocks."""
    history, row = artifacts.history, candidates.state_row
    instance, tid = history.states.instance[row], history.states.tid[row]
    runs, uses = clip_to_size(history, candidates), recorded_uses(history, _blocks_of(candidates))
    freed = np.where(candidates.freed_tid == TID_ON_DISK, tid, candidates.freed_tid)
    # The content of an earlier state may have been overwritten in the transaction that ended the
    # state.
    freed = np.where(candidates.superseded & (freed > tid), freed - 1, freed)
    since = np.where(tid == TID_ON_DISK, freed, tid)  # later owners have reused it
    reuse = find_reuse(history, uses, runs, instance, since, freed)
    untagged, unassigned = find_untagged_copies(
        history, candidates, runs, reuse.candidate, artifacts.untagged
    )
    blocks = np.bincount(runs.owner, runs.length, len(candidates)).astype(np.int64)
    return BlockAttribution(
        history,
        candidates,
        transaction_times(history.log),
        find_deletion_facts(history, candidates),
        runs,
        row_bounds(runs.owner, len(candidates)),
        content_sizes(history, candidates, runs, artifacts.maps),
        blocks,
        freed,
        uses.by_inodes,
        reuse,
        find_competing(history, candidates, runs),
        find_tagged_copies(history, candidates, runs, uses.by_inodes, freed),
        untagged,
        unassigned,
        _tree_block_reused(history, candidates, uses, since, freed),
    )


def _blocks_of(candidates: Candidates) -> Intervals:
    """All blocks of all candidates, also tree blocks and those beyond the size."""
    runs, (_, nodes) = candidates.runs, candidates.tree_blocks
    length = np.append(runs.length, np.ones_like(nodes))
    return Intervals.union(np.append(runs.physical, nodes), length)


def _tree_block_reused(
    history: History, candidates: Candidates, uses: RecordedUses, since: Int64s, freed: Int64s
) -> Bools:
    """True where a tree block was reused and neither a checksum nor a journal copy verifies it."""
    owner, block = candidates.tree_blocks
    row, states = candidates.state_row, history.states
    by_extents = (states.table.flags[row] & int(InodeFlags.EXTENTS)) != 0
    proven = by_extents & history.fs.superblock.has_metadata_checksums
    at = history.last_valid_tid(row)[owner]
    logged = history.tree_block_copies(row[owner], at, block) >= 0
    kept = ~proven[owner] & ~logged
    owner, block = owner[kept], block[kept]
    nodes = Runs.single(owner, np.zeros_like(block), block)
    found = np.zeros(len(candidates), bool)
    found[find_reuse(history, uses, nodes, states.instance[row], since, freed).candidate] = True
    return found


def find_competing(history: History, candidates: Candidates, runs: Runs) -> BlockReuse:
    """Blocks of candidates that a competing inode mapped too.

    If the journal has no record of the blocks, the deletion times decide which inode was the last
    owner. Inodes freed in the same second compete with each other, unless the journal shows that
    one of them was freed before the other had the blocks.
    """
    states, table = history.states, history.states.table
    freed = candidates.size_unknown | (candidates.map_source == INODE_TABLE)
    freed &= candidates.freed_tid != TID_NONE
    others = runs.take(freed[runs.owner])
    mine, other = overlap_pairs(runs.physical, runs.length, others.physical, others.length)
    instance = states.instance[candidates.state_row]
    last = np.searchsorted(states.instance, instance, side="right") - 1
    dtime = table.dtime[last]
    dtime = np.where(dtime > 0, dtime, table.ctime[last] // NANOSECONDS)
    later = dtime[others.owner[other]] >= dtime[runs.owner[mine]]
    later &= instance[others.owner[other]] != instance[runs.owner[mine]]
    later &= candidates.freed_tid[runs.owner[mine]] != TID_NONE
    if history.gaps.restarted_at == NO_RESTART:  # if the ids restarted, a lower tid may be newer
        tid = states.tid[candidates.state_row[runs.owner[mine]]]
        later &= (candidates.freed_tid[others.owner[other]] >= tid) | (tid == TID_ON_DISK)
    mine, other = mine[later], other[later]
    start = np.maximum(runs.physical[mine], others.physical[other])
    end = (others.physical + others.length)[other]
    end = np.minimum((runs.physical + runs.length)[mine], end)
    number = table.number[candidates.state_row][others.owner[other]]
    freed_at = candidates.freed_tid[others.owner[other]]
    return BlockReuse(runs.owner[mine], start, end - start, number, freed_at)
