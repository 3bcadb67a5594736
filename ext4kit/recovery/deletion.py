"""Facts about the deletion of candidates, from the states before and after their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_NONE
from ext4kit.journal import Log
from ext4kit.parsers.inode import CRTIME_END
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.model import TransactionTime
from ext4kit.units import NANOSECONDS


@dataclass(frozen=True, slots=True)
class DeletionFacts(Table):
    """Facts about the deletion of each candidate, one row per candidate.

    Attributes:
        uid, gid: complete owner and group of the inode.
        tid: tid of the candidate's state.
        last_linked_tid: tid of the last state, up to the candidate's own, that shows it linked;
            first_missing_tid: tid of the state after that one. TID_NONE if there is none.
        dtime: time (ns) at which the inode was freed, 0 if unknown.
        mtime_changed: True if the last state of the instance shows it freed with another mtime.
        bound: latest possible time (ns) of the deletion according to inodes; 0 if there is none.
        is_unlinked: True if the bound is the ctime of an inode without links, False if it is a
            creation time.
    """

    uid: Int64s
    gid: Int64s
    tid: Int64s
    last_linked_tid: Int64s
    first_missing_tid: Int64s
    dtime: Int64s
    mtime_changed: Bools
    bound: Int64s
    is_unlinked: Bools


def find_deletion_facts(history: History, found: Candidates) -> DeletionFacts:
    """Deletion facts of all candidates."""
    states, row = history.states, found.state_row
    if not len(found):
        return DeletionFacts.empty()
    # the last linked state of the instance up to that of the candidate
    linked = np.maximum.accumulate(np.where(states.is_linked, np.arange(len(states)), NO_ROW))[row]
    linked = np.where(states.instance[linked] == states.instance[row], linked, NO_ROW)
    # the last state of the instance, if it is freed
    last = history.last_rows[states.instance[row]]
    is_freed = (states.table.links_count[last] == 0) & ~states.describes_content[last]
    shown = np.where(found.superseded, row, linked)
    dated = is_freed & history.is_freed[last]
    dated &= ~np.isin(states.table.number[last], history.stages.freed)
    mtime = states.table.mtime
    return DeletionFacts(
        *_complete_owners(history, row, linked),
        states.tid[row],
        np.where(shown >= 0, states.tid[shown], TID_NONE),
        np.where(shown >= 0, history.next_tid[shown], TID_NONE),
        np.where(dated, states.table.dtime[last] * NANOSECONDS, 0),
        is_freed & (mtime[last] != mtime[row]),
        *_bounds(history, found),
    )


def _bounds(history: History, found: Candidates) -> tuple[Int64s, Bools]:
    """(upper bound of each deletion time from inodes, 0 for none; True where it is a ctime).

    Unlinking sets `ctime` (kernel ext4_unlink). An inode number gets a new creation time only after
    its previous instance was freed. Earlier versions have no bound.
    """
    states, table = history.states, history.states.table
    last = history.last_rows[states.instance[found.state_row]]
    # a freed inode has a later `ctime`; the `ctime` of an orphan is of the unlink or a later write
    unlinked = (table.links_count[last] == 0) & ~history.is_freed[last] & (table.ctime[last] > 0)
    unlinked &= ~found.superseded
    bound = np.where(unlinked, table.ctime[last], 0)
    number, created = _creations(history)
    ages, rank = np.unique(np.append(created, table.ctime[last]), return_inverse=True)
    key = number * len(ages) + rank[: len(number)]
    mine = table.number[last] * len(ages) + rank[len(number) :]
    place = np.searchsorted(key, mine, side="right")
    again = (place < len(key)) & (np.append(number, NO_ROW)[place] == table.number[last])
    again &= ~unlinked & ~found.superseded
    bound[again] = created[place[again]]
    return bound, unlinked


def _creations(history: History) -> tuple[Int64s, Int64s]:
    """(number, creation time) of instances of inode numbers with several instances, ascending."""
    table = history.states.table
    number = history.number
    again = number[1:] == number[:-1]
    several = np.flatnonzero(np.append(again, False) | np.append(False, again))
    rows = history.last_rows[several]
    rows = rows[table.extra_isize[rows] >= CRTIME_END]
    rows = rows[np.lexsort((table.crtime[rows], table.number[rows]))]
    return table.number[rows], table.crtime[rows]


def transaction_times(log: Log | None) -> dict[int, TransactionTime]:
    """The transactions of the journal, by tid."""
    if log is None:
        return {}
    return {
        item.order: TransactionTime(int(item.id), item.commit_time_ns) for item in log.transactions
    }


def _complete_owners(history: History, row: Int64s, linked: Rows) -> tuple[Int64s, Int64s]:
    """The complete owner and group of the states.

    Freeing an inode clears the high 16 bits of owner and group (kernel ext4_do_update_inode); these
    bits are taken from the last linked state.
    """
    states, uid, gid = history.states, history.states.table.uid, history.states.table.gid
    mended = (linked >= 0) & ~states.is_linked[row]
    mended &= ((uid[row] ^ uid[linked]) & 0xFFFF == 0) & ((gid[row] ^ gid[linked]) & 0xFFFF == 0)
    return np.where(mended, uid[linked], uid[row]), np.where(mended, gid[linked], gid[row])
