"""Possible reuse of blocks that the journal does not record.

Blocks allocated and freed within one transaction appear in no map. Data of a transaction that
never committed is in blocks that the journal shows as free. A journal that e2fsck recovered
restarts at its first block and leaves a gap.
"""

from __future__ import annotations

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.reasons import Reason
from ext4kit.recovery.candidates import JOURNAL, Candidates
from ext4kit.recovery.grading.writes import WriteHistory
from ext4kit.units import NANOSECONDS

UNMOUNT_TID_STEP = 2  # ids from the last transaction to what an unmount leaves as the next one


def check_unlogged_reuse(
    history: History, found: Candidates, runs: Runs, writes: WriteHistory, files: Bools
) -> list[tuple[Bools, Reason]]:
    """Reasons that let a candidate be consistent at most.

    Args:
        history: what is known over time.
        found: the candidates.
        runs: their blocks up to their size.
        writes: last writes, between the states.
        files: which candidates are regular files of known size (bool).

    Returns:
        As `find_unrecorded`.
    """
    tids = np.union1d(_tids_of_unseen(history, writes), _tids_of_writes(history))
    mapped = np.bincount(runs.owner, minlength=len(found)) > 0
    links = history.states.table.is_symlink[found.state_row]
    contents = (files | links) & mapped
    gap = journal_gap_before_deletion(history, found, history.states.tid[found.state_row])
    return [
        (journal_restarted(history, found), reasons.JOURNAL_RESTARTED),
        (gap, reasons.JOURNAL_GAP_BEFORE_DELETION),
        (journal_gap_after(history, found) & contents, reasons.JOURNAL_GAP_AFTER),
        (unclean_shutdown_after(history, found) & contents, reasons.UNCLEAN_SHUTDOWN),
        (_allocated_after(history, found, runs, tids) & contents, reasons.UNLOGGED_REUSE),
    ]


def journal_gap_after(history: History, found: Candidates) -> Bools:
    """Transactions after the state were overwritten, older ones were not."""
    order = history.states.tid[found.state_row]
    lost = history.gaps.any_lost_between(order, int(TID_ON_DISK))
    lost &= found.map_source == JOURNAL
    return lost


def journal_gap_before_deletion(history: History, found: Candidates, order: Int64s) -> Bools:
    """Transactions between an order of each candidate and its next state were overwritten."""
    following = history.next_tid[found.state_row]
    until = np.where(following == TID_NONE, TID_ON_DISK, following)
    lost = history.gaps.any_lost_between(order, until)
    lost &= found.map_source == JOURNAL
    return lost


def journal_restarted(history: History, found: Candidates) -> Bools:
    """States from before the journal restarted at a lower tid."""
    order = history.states.tid[found.state_row]
    before: Bools = (order >= history.gaps.restarted_at) & (order < TID_PRE_FAST_COMMIT)
    before &= found.map_source == JOURNAL
    return before


def unclean_shutdown_after(history: History, found: Candidates) -> Bools:
    """Blocks free at an unclean shutdown."""
    last = last_unclean_shutdown(history)
    free: Bools = (found.freed_tid <= last) & (found.freed_tid != TID_NONE)
    return free


def last_unclean_shutdown(history: History) -> int:
    """The last transaction before an unclean shutdown; TID_NONE if none is possible.

    TID_ON_DISK where the last session may have ended in one. Without a log: TID_NONE.
    """
    log = history.log
    if log is None or not len(log.transactions):
        return TID_NONE
    last = int(history.gaps.tid_before[~history.gaps.unmounted].max(initial=TID_NONE))
    as_unmounted = log.superblock.sequence - log.transactions.order[-1] == UNMOUNT_TID_STEP
    as_unmounted &= not log.needs_recovery and not history.live_copy
    commit = int(log.transactions.commit_time_ns[-1])
    if not as_unmounted or _fsck_ran_after(history, commit) or _mounted_since(history, commit):
        return int(TID_ON_DISK)
    return last


def _fsck_ran_after(history: History, commit: int) -> bool:
    """Whether e2fsck ran after the last commit: it leaves the log as an unmount does."""
    superblock = history.fs.superblock
    checked = superblock.check_time != superblock.mkfs_time
    return checked and (superblock.check_time + 1) * NANOSECONDS > commit


def _mounted_since(history: History, commit: int) -> bool:
    """Whether a mount after that of the last commit left no transaction.

    It may follow an unclean shutdown: replay leaves the log as an unmount does.
    """
    superblock, mounts = history.fs.superblock, history.mounts
    session = history.gaps.tid_after.max(initial=TID_NONE)
    if mounts is not None and len(mounts) and mounts.tid[-1] >= session:
        return int(mounts.counts(np.array([-1])).item()) != superblock.mount_count
    return superblock.mount_time * NANOSECONDS > commit


def _allocated_after(history: History, found: Candidates, runs: Runs, tids: Int64s) -> Bools:
    """Candidates (bool) with blocks of a group whose bitmap one of these later tids logged."""
    doubtful = np.zeros(len(found), bool)
    superblock, copies = history.fs.superblock, history.copies
    if copies is None or not len(runs):
        return doubtful
    by_block = np.argsort(history.fs.groups.block_bitmap)
    logged = np.isin(copies.blocks, history.fs.groups.block_bitmap) & np.isin(copies.tids, tids)
    slot = np.searchsorted(history.fs.groups.block_bitmap[by_block], copies.blocks[logged])
    latest = np.full(len(history.fs.groups), TID_NONE)
    np.maximum.at(latest, by_block[slot], copies.tids[logged])
    last = len(latest) - 1
    first, end = (
        np.clip((block - superblock.first_data_block) // superblock.blocks_per_group, 0, last)
        for block in (runs.physical, runs.physical + runs.length - 1)
    )
    row, position = expand(end - first + 1)
    death = np.where(
        found.freed_tid == TID_ON_DISK, history.states.tid[found.state_row], found.freed_tid
    )
    taken = latest[first[row] + position] > death[runs.owner[row]]
    doubtful[runs.owner[row[taken]]] = True
    doubtful &= found.freed_tid != TID_NONE
    return doubtful


def _tids_of_writes(history: History) -> Int64s:
    """Tids in which linked files were created or written, and those that follow each.

    A file that allocates blocks by direct I/O and punches them out within the clock tick of
    its last change is logged as that change left it.
    """
    written = history.writes.written
    known = history.log.transactions.order if history.log is not None else written
    return np.union1d(written, np.intersect1d(written + 1, known))


def _tids_of_unseen(history: History, writes: WriteHistory) -> Int64s:
    """Tids in which regular files were deleted that had blocks which no state maps.

    Of one that no state shows linked, the freed inode tells that it had blocks: freeing them
    sets mtime, and writing them is counted. One that was known may have got more when bytes
    waited for blocks, when i_version says that it went on, and when the kernel did not count that:
    it counts no change in the tick of the one before.
    """
    states, table = history.states, history.states.table
    freed = (table.links_count == 0) & ~states.describes_content & table.is_regular
    alone = ~writes.has_predecessor & ((table.mtime == table.ctime) | writes.version_is_counted)
    waited = writes.has_predecessor & np.roll(writes.may_await_allocation & ~writes.is_flushed, 1)
    gone_on = freed & (
        alone | waited | (writes.version_step > 0) | writes.may_be_same_tick | ~writes.is_counted
    )
    return np.unique(states.tid[gone_on & (states.tid < TID_PRE_FAST_COMMIT)])
