"""The blocks that a recovery would write, as a reader in front of the file system's blocks.

Source: kernel fs/jbd2/recovery.c: `jbd2_journal_recover`, `do_one_pass`,
`jbd2_journal_test_revoke`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import Bytes2D, Int64s, Rows
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.fast_commits.overlay import ChangedBlocks, no_changes
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import JournalOverlay, read_in_front
from ext4kit.journal.recovery_pass import RecoveryPass, empty_pass

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The copies that a recovery would write to their home blocks.

    Attributes:
        blocks: int64, file system blocks, ascending.
        tags: int64, row of `log.tags` with the copy that each block gets.
        walk: the pass that found the transactions to replay, and why it ended.
        revoked: number of copies left out because of a revoke record.
        damaged: number of copies left out because of a bad checksum.
    """

    blocks: Int64s
    tags: Rows
    walk: RecoveryPass
    revoked: int = 0
    damaged: int = 0

    def __len__(self) -> int:
        return len(self.blocks)


class ReplayedBlocks(JournalOverlay):
    """The blocks of a file system as they would be after a recovery.

    Attributes:
        plan: the replayed copies.
        changed: blocks that fast commits change afterwards; they take precedence over `plan`.
    """

    def __init__(
        self, base: BlockReader, log: Log, plan: ReplayPlan, changed: ChangedBlocks | None = None
    ) -> None:
        super().__init__(base, log)
        self.plan = plan
        self.changed = no_changes(base.block_size) if changed is None else changed

    def copies_of(self, blocks: Int64s) -> Rows:
        """Row of `log.tags` for each block, -1 where the log's transactions write nothing."""
        return values_at(self.plan.tags, SortedIndex(self.plan.blocks).rows(blocks))

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            AccessError: a block is outside the file system, or cannot be read.
        """
        first, end = np.searchsorted(self.changed.blocks, [block, block + count])
        if first == end:
            return super().read(block, count)
        return self.read_many(np.arange(block, block + count)).reshape(-1).data.toreadonly()

    def read_many(self, blocks: Int64s) -> Bytes2D:
        """The blocks of an int64 array, as uint8 (n, block_size).

        Raises:
            AccessError: as `read`.
        """
        rows = self.changed.rows_of(blocks)
        return read_in_front(super().read_many, self.changed.rows.__getitem__, blocks, rows)

    @property
    def before_fast_commits(self) -> ReplayedBlocks:
        """The blocks with only the log's transactions replayed."""
        return ReplayedBlocks(self.base, self.log, self.plan)


def replayed_blocks(blocks: BlockReader) -> Int64s:
    """The blocks (int64, ascending) that a replay has changed in a reader."""
    if not isinstance(blocks, ReplayedBlocks):
        return np.zeros(0, np.int64)
    return np.union1d(blocks.plan.blocks, blocks.changed.blocks)


def replay(log: Log, fs: FileSystem | None = None) -> ReplayedBlocks:
    """The file system's blocks after a recovery; see `plan_replay`.

    Args:
        log: the log of the file system.
        fs: the file system as it is on disk; without it fast commits are not replayed.
    """
    blocks = ReplayedBlocks(log.home, log, plan_replay(log))
    if not log.has_fast_commits or blocks.plan.walk.refusal:
        return blocks
    if fs is None:
        if scan_fast_commits(log).to_replay:
            log.problems.add("fast commits", "not applied: the newest changes are missing")
        return blocks
    from ext4kit.journal.fast_commits.replay import replay_fast_commits

    return ReplayedBlocks(log.home, log, blocks.plan, replay_fast_commits(log, fs, blocks))


def plan_replay(log: Log) -> ReplayPlan:
    """The copies that a recovery of this log would write; empty if no recovery is necessary.

    A damaged descriptor or revoke block of a committed transaction prevents the replay, and so does
    a damaged first fast commit. A damaged commit block ends the log before its transaction. A
    damaged copy is only omitted itself. Reports omissions in `log.problems`.
    """
    walk = log.walk
    refused = scan_fast_commits(log).refusal if log.has_fast_commits else ""
    if refused and not walk.refusal:
        log.problems.add("journal", f"nothing is replayed: {refused}")
        walk = empty_pass(walk.first_order, refused, refused)
    revoke_orders = _revokes(log, walk)
    if revoke_orders is None:
        why = "the record count of a revoke block exceeds the block"
        log.problems.add("journal", f"nothing is replayed: {why}")
        walk = empty_pass(walk.first_order, why, why)
    if revoke_orders is None or walk.refusal or not len(walk.headers):
        none = np.zeros(0, np.int64)
        return ReplayPlan(none, none, walk)
    result = _newest_copies(log, walk, *revoke_orders)
    if result.damaged:
        log.problems.add(
            "journal", f"{result.damaged:,} copies have a bad checksum and are skipped"
        )
    return result


def plan_readable(log: Log) -> ReplayPlan:
    """The readable copies of all transactions to replay, including those after unreadable blocks.

    A recovery would stop earlier; this plan has the newest readable state of each block.
    """
    first, known = log.walk.first_order, log.transactions
    end = int(known.order[known.committed].max(initial=first - 1)) + 1
    orders = log.headers.order
    rows = np.flatnonzero((orders >= first) & (orders < end) & log.headers.checksum_ok)
    walk = RecoveryPass(first, end, rows, log.walk.end_reason)
    revoke_orders = _revokes(log, walk)
    return plan_replay(log) if revoke_orders is None else _newest_copies(log, walk, *revoke_orders)


def _revokes(log: Log, walk: RecoveryPass) -> tuple[Int64s, Int64s] | None:
    """(revoked blocks ascending, tid of the last revoke of each); None if a record is unusable."""
    if log.headers.overflow[walk.headers].any():
        return None
    revokes = log.revokes
    index = np.flatnonzero(np.isin(revokes.position, log.headers.position[walk.headers]))
    index = index[np.lexsort((revokes.order[index], revokes.block[index]))]
    index = index[ends_group(revokes.block[index])]
    return revokes.block[index], revokes.order[index]


def _newest_copies(log: Log, walk: RecoveryPass, revoked: Int64s, revoked_at: Int64s) -> ReplayPlan:
    tags = log.tags
    due = np.flatnonzero(np.isin(tags.descriptor, log.headers.position[walk.headers]))
    revoke = SortedIndex(revoked).rows(tags.block[due])
    kept = due[values_at(revoked_at, revoke) < tags.order[due]]
    index = kept[tags.matches[kept]]
    revokes, damaged = len(due) - len(kept), len(kept) - len(index)
    inside = (tags.block[index] >= 0) & (tags.block[index] < log.home.blocks_count)
    if not inside.all():
        log.problems.add("journal", "copies of blocks outside the file system are skipped")
    index = index[inside]
    index = log.oldest_first(index)
    index = index[ends_group(tags.block[index])]
    return ReplayPlan(tags.block[index], index, walk, revokes, damaged)
