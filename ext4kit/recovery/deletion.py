"""Deletion facts of candidates, from the states around their own."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import NO_ROW, Int64s, Rows
from ext4kit.history.history import TID_NONE, History
from ext4kit.parsers.inode import CRTIME_END, Inode
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.model import DeletionGround, DeletionTime, TransactionTime
from ext4kit.units import NANOSECONDS


@dataclass(frozen=True, slots=True)
class DeletionFacts:
    """Lists, one item a candidate.

    Attributes:
        inode: the state's inode, with owner and group whole.
        tid: that of the state.
        last_linked_tid: order of the last state that shows it linked, up to its own;
            first_missing_tid: of the next.
        dtime: when it was freed (ns), None when nothing tells it.
        freed_mtime: mtime of the instance's last state when that shows it freed, else None.
        bound: time at which it was deleted already, from inodes; None when nothing bounds it.
    """

    inode: list[Inode]
    tid: list[int]
    last_linked_tid: list[int]
    first_missing_tid: list[int]
    dtime: list[int | None]
    freed_mtime: list[int | None]
    bound: list[DeletionTime | None]


def find_deletion_facts(history: History, found: Candidates) -> DeletionFacts:
    """Deletion facts of all candidates."""
    states, row = history.states, found.state_row
    if not len(found):
        return DeletionFacts([], [], [], [], [], [], [])
    # the last linked state of the instance up to that of the candidate
    linked = np.maximum.accumulate(np.where(states.is_linked, np.arange(len(states)), NO_ROW))[row]
    linked = np.where(states.instance[linked] == states.instance[row], linked, NO_ROW)
    # the last state of the instance, if it is freed
    last = history.last_rows[states.instance[row]]
    is_freed = (states.table.links_count[last] == 0) & ~states.describes_content[last]
    freed = np.where(is_freed, last, NO_ROW)
    shown = np.where(found.superseded, row, linked)
    dated = (freed >= 0) & history.is_freed[freed]
    dated &= ~np.isin(states.table.number[freed], history.freed_by_fast_commits)
    dtime = np.where(dated, states.table.dtime[freed] * NANOSECONDS, 0)
    mtime = states.table.mtime[freed].tolist()
    return DeletionFacts(
        _complete_owners(history, row, linked),
        states.tid[row].tolist(),
        np.where(shown >= 0, states.tid[shown], TID_NONE).tolist(),
        np.where(shown >= 0, history.next_tid[shown], TID_NONE).tolist(),
        [moment or None for moment in dtime.tolist()],
        [time if at >= 0 else None for time, at in zip(mtime, freed.tolist(), strict=True)],
        _bounds(history, found),
    )


def _bounds(history: History, found: Candidates) -> list[DeletionTime | None]:
    """Upper bound of each deletion time from the inodes; None for none, and for earlier versions.

    Unlinking sets `ctime` (kernel ext4_unlink). An inode number gets a new creation time only
    after the instance that had it is freed.
    """
    states, table, created = history.states, history.states.table, _creations(history)
    instance = states.instance[found.state_row]
    last = history.last_rows[instance]
    # a freed inode's `ctime` is later; an orphan's is that of the unlinking or of a later write
    unlinked = (table.links_count[last] == 0) & ~history.is_freed[last] & (table.ctime[last] > 0)
    numbers, ctimes = table.number[last].tolist(), table.ctime[last].tolist()
    bounds: list[DeletionTime | None] = []
    for number, ctime, is_unlinked, superseded in zip(
        numbers, ctimes, unlinked.tolist(), found.superseded.tolist(), strict=True
    ):
        later = created.get(number, [])
        place = bisect_right(later, ctime)
        if superseded:
            bounds.append(None)
        elif is_unlinked:
            bounds.append((ctime, DeletionGround.UNLINKED))
        elif place < len(later):
            bounds.append((later[place], DeletionGround.REUSED))
        else:
            bounds.append(None)
    return bounds


def _creations(history: History) -> dict[int, list[int]]:
    """Creation times of the instances of each inode number that had several, ascending."""
    table = history.states.table
    number = history.number
    again = number[1:] == number[:-1]
    several = np.flatnonzero(np.append(again, False) | np.append(False, again))
    rows = history.last_rows[several]
    rows = rows[table.extra_isize[rows] >= CRTIME_END]
    rows = rows[np.lexsort((table.crtime[rows], table.number[rows]))]
    created: dict[int, list[int]] = {}
    for inode, crtime in zip(table.number[rows].tolist(), table.crtime[rows].tolist(), strict=True):
        created.setdefault(inode, []).append(crtime)
    return created


def transaction_times(history: History) -> dict[int, TransactionTime]:
    """The transactions of the journal, by tid."""
    if history.log is None:
        return {}
    return {
        item.order: TransactionTime(int(item.id), item.commit_time_ns)
        for item in history.log.transactions
    }


def _complete_owners(history: History, row: Int64s, linked: Rows) -> list[Inode]:
    """The inodes of the states, with complete owner and group.

    Freeing an inode clears the high 16 bits of both (kernel ext4_do_update_inode); the last
    linked state has them.
    """
    states = history.states
    table, before = states.table.take(row), states.table.take(linked)
    mended = (linked >= 0) & ~states.is_linked[row]
    mended &= ((table.uid ^ before.uid) & 0xFFFF == 0) & ((table.gid ^ before.gid) & 0xFFFF == 0)
    uid = np.where(mended, before.uid, table.uid)
    gid = np.where(mended, before.gid, table.gid)
    return list(table.each(uid=uid, gid=gid))
