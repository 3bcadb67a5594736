"""Changes of which kernels leave no record: why a file may be consistent and not intact.

A file is intact when the evidence excludes a change of its bytes after its last recorded state.
Each function here names one condition of that which a candidate does not meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.parsers.inode import InodeFlags
from ext4kit.past.states import NEVER, Past
from ext4kit.recovery.ages import Ages
from ext4kit.recovery.candidates import Candidates

NO_JOURNAL = "No journal records what was written later."
EARLIER = "This is an earlier version; a change before its blocks were dropped leaves no record."
UNSEEN_END = "The journal does not record the deletion; the file may have changed just before it."
UNCOUNTED = "The kernel did not count changes; the file may have changed just before its deletion."
SAME_TICK = (
    "The file was deleted within a minute of its last change; a second change in the same tick of"
    " the clock leaves no record."
)
UNFLUSHED = "The file was deleted within a minute of its last change; its data may not be on disk."


def find_unrecorded(
    past: Past, found: Candidates, ages: Ages, from_disk: Any
) -> list[tuple[Any, str]]:
    """What keeps a file from the grade intact although all records agree.

    Args:
        past: what is known over time.
        found: the candidates.
        ages: what happened between the states.
        from_disk: bool, regular files that are not read from the journal alone.

    Returns:
        (per candidate (bool), why) pairs.
    """
    files = (past.states.table.mode[found.row] & 0xF000) == 0x8000
    if past.log is None or not len(past.log.transactions):
        return [(files, NO_JOURNAL)]
    after = freed_state(past, found)
    freed, recent = after >= 0, ages.unsettled(found.row, ages.changed[found.row])
    return [
        (files & found.superseded, EARLIER),
        (files & ~found.superseded & ~freed, UNSEEN_END),
        (files & ~found.superseded & freed & ~ages.are_counted[after], UNCOUNTED),
        (from_disk & recent, UNFLUSHED),
        (files & ~from_disk & recent, SAME_TICK),
    ]


def freed_state(past: Past, found: Candidates) -> Any:
    """Row of the state that shows each candidate freed, directly behind its own; else -1.

    Inline data stay in the freed inode: its state is the candidate's own.
    """
    states, row = past.states, found.row
    after = np.minimum(row + 1, len(states) - 1)
    freed = (after > row) & (states.life[after] == states.life[row])
    freed &= (states.table.links_count[after] == 0) & ~states.whole[after]
    inline = (states.table.flags[row] & int(InodeFlags.INLINE_DATA)) != 0
    inline &= (states.table.links_count[row] == 0) & (states.table.dtime[row] > 0)
    inline &= (row > 0) & (states.life[row - 1] == states.life[row])
    return np.where(freed, after, np.where(inline, row, NEVER))
