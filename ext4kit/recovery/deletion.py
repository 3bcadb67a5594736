"""Deletion facts of candidates, from the states around their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import NO_ROW, Int64s, Rows
from ext4kit.history.history import TID_NONE, History
from ext4kit.parsers.inode import Inode
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.model import TransactionTime
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
    """

    inode: list[Inode]
    tid: list[int]
    last_linked_tid: list[int]
    first_missing_tid: list[int]
    dtime: list[int | None]
    freed_mtime: list[int | None]


def find_deletion_facts(history: History, found: Candidates) -> DeletionFacts:
    """Deletion facts of all candidates."""
    states, row = history.states, found.state_row
    if not len(found):
        return DeletionFacts([], [], [], [], [], [])
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
    )


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
