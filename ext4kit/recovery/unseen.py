"""Others who may have used a file's blocks after it and left no claim on them.

Blocks that are taken and freed within one transaction appear in no map. What a transaction
wrote that was cut off before its commit is in blocks that the log shows as free. And a log
that e2fsck recovered starts again at its first block and leaves a gap behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.filesystem.maps import Runs
from ext4kit.parsers.inode import InodeFlags
from ext4kit.past.states import NEVER, NOW, UNREPLAYED, Past
from ext4kit.recovery.ages import Ages
from ext4kit.recovery.candidates import LOG, Candidates
from ext4kit.recovery.seams import may_have_seams
from ext4kit.units import NANOSECONDS

AT_UNMOUNT = 2  # ids from the last transaction to what an unmount leaves as the next one


def find_unseen_users(
    past: Past, found: Candidates, runs: Runs, ages: Ages, files: Any
) -> list[tuple[Any, str]]:
    """Reasons against the grade intact, where the bytes do not rule such users out.

    Args:
        past: what is known over time.
        found: the candidates.
        runs: their blocks up to their size.
        ages: what happened between the states.
        files: which candidates are regular files of known size (bool).

    Returns:
        As `find_doubts`.
    """
    lost, cut = _lost_since(past, found), _cut_since(past, found)
    taken = _taken_unseen(past, found, runs, ages)
    size = past.states.table.size[found.row]
    suspect = may_have_seams(past.fs, size, runs, files & (cut | taken) & ~lost)
    return [
        (
            _counted_anew(past, found),
            "the log counts anew: which transactions came later is not sure",
        ),
        (
            _lost_meanwhile(past, found),
            "the log lacks transactions before it went, in which it may have changed",
        ),
        (
            lost & files & (np.bincount(runs.owner, minlength=len(found)) > 0),
            "the log lacks transactions since: others may have had its blocks",
        ),
        (cut & suspect, "power was cut since: what was written then may be in its blocks"),
        (taken & suspect, "others that went at once may have had its blocks"),
    ]


def _lost_since(past: Past, found: Candidates) -> Any:
    """Transactions that came after the state were overwritten, older ones were not."""
    order = past.states.order[found.row]
    logged = (found.source == LOG) & (order < UNREPLAYED)
    return logged & past.breaks.any_lost(order, np.full(len(order), NOW))


def _lost_meanwhile(past: Past, found: Candidates) -> Any:
    """Transactions between the state and what is known of it next were overwritten."""
    order, following = past.states.order[found.row], past.following[found.row]
    logged = (found.source == LOG) & (order < UNREPLAYED)
    return logged & past.breaks.any_lost(order, np.where(following == NEVER, NOW, following))


def _counted_anew(past: Past, found: Candidates) -> Any:
    """States of a time before the log was made to count from a lower number."""
    order = past.states.order[found.row]
    return (found.source == LOG) & (order >= past.breaks.anew) & (order < UNREPLAYED)


def _cut_since(past: Past, found: Candidates) -> Any:
    """Blocks that were free at a power cut."""
    log = past.log
    if log is None or not len(log.transactions):
        return np.zeros(len(found), bool)
    last = past.breaks.before[~past.breaks.clean].max(initial=NEVER)
    as_unmounted = log.superblock.sequence - log.transactions.order[-1] == AT_UNMOUNT
    if not as_unmounted or _checked_since(past, int(log.transactions.commit_time_ns[-1])):
        last = NOW
    return (found.death <= last) & (found.death != NEVER)


def _checked_since(past: Past, commit: int) -> bool:
    """Whether e2fsck was at work after the last commit: it leaves a log as an unmount does."""
    superblock = past.fs.superblock
    checked = superblock.check_time != superblock.mkfs_time
    return checked and (superblock.check_time + 1) * NANOSECONDS > commit


def _taken_unseen(past: Past, found: Candidates, runs: Runs, ages: Ages) -> Any:
    """Blocks of groups whose bitmap was logged when a file went of whose blocks nothing tells."""
    doubtful = np.zeros(len(found), bool)
    superblock, history = past.fs.superblock, past.history
    if history is None:
        return doubtful
    bitmaps = np.argsort(past.fs.groups.block_bitmap)
    logged = np.isin(history.blocks, past.fs.groups.block_bitmap)
    logged &= np.isin(history.orders, _orders_of_unseen(past, ages))
    slot = np.searchsorted(past.fs.groups.block_bitmap[bitmaps], history.blocks[logged])
    latest = np.full(len(past.fs.groups), NEVER)
    np.maximum.at(latest, bitmaps[slot], history.orders[logged])
    for block in (runs.physical, runs.physical + runs.length - 1):
        group = (block - superblock.first_data_block) // superblock.blocks_per_group
        taken = latest[np.clip(group, 0, len(latest) - 1)] > found.death[runs.owner]
        doubtful[runs.owner[taken & (found.death[runs.owner] != NEVER)]] = True
    return doubtful


def _orders_of_unseen(past: Past, ages: Ages) -> Any:
    """Orders at which regular files went that had blocks of which no state tells.

    Of one that no state shows alive, the freed inode tells that it had blocks: freeing them
    sets mtime. Files without extents take blocks before there is any thought of writing to
    them. One that was known may have got more when bytes waited for blocks, or when i_version
    says that it went on.
    """
    states, table = past.states, past.states.table
    freed = (table.links_count == 0) & ~states.whole & ((table.mode & 0xF000) == 0x8000)
    by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
    alone = ~ages.follows & (table.mtime == table.ctime) & by_extents
    waited = ages.follows & np.roll(ages.awaits_blocks, 1)
    gone_on = freed & (alone | waited | (ages.steps > 0))
    return np.unique(states.order[gone_on & (states.order < UNREPLAYED)])
