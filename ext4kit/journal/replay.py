"""What a recovery would write, as a block reader in front of the file system's blocks.

Source: kernel fs/jbd2/recovery.c: `jbd2_journal_recover`, `do_one_pass`,
`jbd2_journal_test_revoke`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.journal.fast_commits.overlay import ChangedBlocks, no_changes
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.journal.log import Log
from ext4kit.journal.overlay import JournalOverlay
from ext4kit.journal.recovery_pass import RecoveryPass, empty_pass

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The copies that a recovery would write to their places.

    Attributes:
        blocks: int64, file system blocks, ascending.
        tags: int64, row of `log.tags` with the copy that each block gets.
        walk: the transactions that were replayed, and why not more.
        revoked: copies left out because a revoke record forbids them.
        damaged: copies left out because their checksum fails.
    """

    blocks: Any
    tags: Any
    walk: RecoveryPass
    revoked: int = 0
    damaged: int = 0

    def __len__(self) -> int:
        return len(self.blocks)


class ReplayedBlocks(JournalOverlay):
    """The blocks of a file system as they would be after a recovery.

    Attributes:
        plan: which copies lie in front, and why not more.
        changed: blocks that fast commits change on top of that; they come first.
    """

    def __init__(
        self, base: BlockReader, log: Log, plan: ReplayPlan, changed: ChangedBlocks | None = None
    ) -> None:
        super().__init__(base, log)
        self.plan = plan
        self.changed = no_changes(base.block_size) if changed is None else changed

    def copies_of(self, blocks: Any) -> Any:
        """Row of `log.tags` for each block, -1 where the log's transactions write nothing."""
        return values_at(self.plan.tags, SortedIndex(self.plan.blocks).rows(blocks))

    def read(self, block: int, count: int = 1) -> memoryview:
        """`count` blocks from `block` on.

        Raises:
            AccessError: a block lies outside, or cannot be read.
        """
        first, end = np.searchsorted(self.changed.blocks, [block, block + count])
        if first == end:
            return super().read(block, count)
        rows = self.read_many(np.arange(block, block + count))
        return memoryview(rows.reshape(-1)).toreadonly()

    def read_many(self, blocks: Any) -> Any:
        """The blocks of an int64 array, as uint8 (n, block_size).

        Raises:
            AccessError: as `read`.
        """
        place = self.changed.rows_of(blocks)
        mine = place >= 0
        if not mine.any():
            return super().read_many(blocks)
        rows = np.empty((len(blocks), self.block_size), np.uint8)
        rows[~mine] = super().read_many(blocks[~mine])
        rows[mine] = self.changed.rows[place[mine]]
        return rows

    @property
    def before_fast_commits(self) -> ReplayedBlocks:
        """The same blocks with the log's transactions alone replayed."""
        return ReplayedBlocks(self.base, self.log, self.plan)


def replay(log: Log, fs: FileSystem | None = None) -> ReplayedBlocks:
    """The file system's blocks as a recovery would leave them; see `plan_replay`.

    Args:
        log: its log.
        fs: the file system as it is on disk; without it fast commits are not applied.
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
    """What a recovery would do with this log; nothing when none is due.

    A damaged descriptor or revoke block of a committed transaction stops everything, and so
    does a damaged first fast commit; a damaged commit block ends the log before its
    transaction, a damaged copy is left out alone. What was left out is told in `log.problems`.
    """
    walk = log.walk
    refused = scan_fast_commits(log).refusal if log.has_fast_commits else ""
    if refused and not walk.refusal:
        log.problems.add("journal", f"nothing is replayed: {refused}")
        walk = empty_pass(walk.first_order, refused, refused)
    revoke_orders = _revokes(log, walk)
    if revoke_orders is None:
        why = "a revoke block counts past its end"
        log.problems.add("journal", f"nothing is replayed: {why}")
        walk = empty_pass(walk.first_order, why, why)
    if walk.refusal or not len(walk.headers):
        none = np.zeros(0, np.int64)
        return ReplayPlan(none, none, walk)
    result = _newest_copies(log, walk, *revoke_orders)
    if result.damaged:
        log.problems.add("journal", f"{result.damaged:,} copies have a bad checksum: left out")
    return result


def plan_readable(log: Log) -> ReplayPlan:
    """What is left of the transactions to be replayed, also behind blocks that cannot be read.

    No recovery would do that; it tells what is newest.
    """
    first, known = log.walk.first_order, log.transactions
    end = int(known.order[known.committed].max(initial=first - 1)) + 1
    orders = log.headers.order
    rows = np.flatnonzero((orders >= first) & (orders < end) & log.headers.checksum_ok)
    walk = RecoveryPass(first, end, rows, log.walk.end_reason)
    revoke_orders = _revokes(log, walk)
    return plan_replay(log) if revoke_orders is None else _newest_copies(log, walk, *revoke_orders)


def _revokes(log: Log, walk: RecoveryPass) -> Any:
    """(revoked blocks ascending, the last order that revokes each), None when unusable."""
    if log.headers.overflow[walk.headers].any():
        return None
    revokes = log.revokes
    index = np.flatnonzero(np.isin(revokes.position, log.headers.position[walk.headers]))
    index = index[np.lexsort((revokes.order[index], revokes.block[index]))]
    index = index[ends_group(revokes.block[index])]
    return revokes.block[index], revokes.order[index]


def _newest_copies(log: Log, walk: RecoveryPass, revoked: Any, revoked_at: Any) -> ReplayPlan:
    tags = log.tags
    due = np.isin(tags.descriptor, log.headers.position[walk.headers])
    index = np.flatnonzero(due)
    revoke = SortedIndex(revoked).rows(tags.block[index])
    kept = values_at(revoked_at, revoke) < tags.order[index]
    revokes = int((~kept).sum())
    index = index[kept]
    sound = tags.matches[index]
    index = index[sound]
    inside = (tags.block[index] >= 0) & (tags.block[index] < log.home.blocks_count)
    if not inside.all():
        log.problems.add("journal", "copies of blocks outside the file system: left out")
    index = index[inside]
    age = (tags.ordinal[index], log.ring_distance(tags.descriptor[index]), tags.order[index])
    index = index[np.lexsort((*age, tags.block[index]))]
    index = index[ends_group(tags.block[index])]
    return ReplayPlan(tags.block[index], index, walk, revokes, int((~sound).sum()))
