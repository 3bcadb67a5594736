"""Changes that kernels do not record: why a file may be consistent and not intact.

A file is intact if the evidence excludes a write after its last recorded state. Each reason
here is one condition for that which a candidate does not meet.
"""

from __future__ import annotations

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import NO_ROW, Bools, Rows
from ext4kit.history.history import History
from ext4kit.parsers.inode import InodeFlags
from ext4kit.reasons import Reason
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.grading.writes import WriteHistory


def find_unrecorded(
    history: History, found: Candidates, writes: WriteHistory, from_disk: Bools
) -> list[tuple[Bools, Reason]]:
    """What keeps a file from the grade intact although all records agree.

    Args:
        history: what is known over time.
        found: the candidates.
        writes: last writes, between the states.
        from_disk: bool, regular files that are not read from the journal alone.

    Returns:
        (per candidate (bool), why) pairs.
    """
    files = history.states.table.is_regular[found.state_row]
    if history.log is None or not len(history.log.transactions):
        return [(files, reasons.NO_JOURNAL)]
    after = freed_state(history, found)
    freed, last = after != NO_ROW, files & ~found.superseded
    recent = writes.may_not_be_flushed(found.state_row, writes.last_write_row[found.state_row])
    return [
        (files & found.superseded, reasons.EARLIER_VERSION),
        (last & ~freed, reasons.DELETION_NOT_RECORDED),
        (last & freed & ~writes.is_counted[after], reasons.CHANGES_NOT_COUNTED),
        (from_disk & recent, reasons.RECENT_CHANGE),
        (files & ~from_disk & recent, reasons.SECOND_CHANGE_POSSIBLE),
    ]


def freed_state(history: History, found: Candidates) -> Rows:
    """Row of each candidate's freed state if no other content lies in between; else -1.

    Inline data stay in the freed inode: its state is the candidate's own.
    """
    states, row = history.states, found.state_row
    count, ends = np.cumsum(states.describes_content), np.flatnonzero(history.is_freed)
    after = np.append(ends, NO_ROW)[np.searchsorted(ends, row, side="right")]
    freed = (states.instance[after] == states.instance[row]) & (count[after] == count[row])
    freed &= after != NO_ROW
    inline = (states.table.flags[row] & int(InodeFlags.INLINE_DATA)) != 0
    inline &= history.is_freed[row] & (row > 0) & (states.instance[row - 1] == states.instance[row])
    return np.where(freed, after, np.where(inline, row, NO_ROW))


def emptied_state(history: History, found: Candidates) -> Rows:
    """Last state of each instance if it follows the candidate's and is empty; else -1.

    The inode is freed, or an orphan that is still open.
    """
    states, row = history.states, found.state_row
    last = np.searchsorted(states.instance, states.instance[row], side="right") - 1
    count = np.cumsum(states.describes_content)
    empty = (last > row) & (states.table.links_count[last] == 0) & (count[last] == count[row])
    return np.where(empty, last, NO_ROW)
