"""Files that were written again in place, as their states in the journal show it.

`dd conv=notrunc` and programs that overwrite a file change its mtime and neither its size nor its
block map. A file that grows, or whose preallocated blocks are filled, changes one of these.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.history.history import History
from ext4kit.units import NANOSECONDS

LONGEST = 3600 * NANOSECONDS  # from the first to the last write of one rewriting
_LATER = 60 * NANOSECONDS  # a file that is written so long after its creation is written again


def find_rewrites(history: History) -> dict[int, int]:
    """Instance -> time of the last write (ns), of regular files that were last written in place.

    Each state since the last one with the oldest mtime has the same size and block map. If there is
    only one mtime, the file is older than the journal, and the journal has its last write.
    """
    states, table = history.states, history.states.table
    rows = np.flatnonzero(states.is_linked & table.is_regular & (table.size > 0))
    if not len(rows):
        return {}
    mtime, size = table.mtime[rows], table.size[rows]
    group = np.cumsum(starts_group(states.instance[rows])) - 1
    start = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    oldest, newest = np.minimum.reduceat(mtime, start), np.maximum.reduceat(mtime, start)
    made = table.crtime[rows[start]]
    times = [time for time in history.commit_times.values() if time > 0]
    since = min(times, default=0)
    again = (made > 0) & (made < since) & (newest > made + _LATER) & (newest >= since)
    place = np.arange(len(rows))
    anchor = np.maximum.reduceat(np.where(mtime == oldest[group], place, -1), start)
    begun = np.minimum.reduceat(np.where(mtime > oldest[group], mtime, newest[group]), start)
    fits = ((newest > oldest) | again) & (newest - begun <= LONGEST)
    fits &= ~history.is_allocated[states.instance[rows[start]]]
    later = np.flatnonzero(fits[group] & (place > anchor[group]))
    before = anchor[group[later]]
    differ = size[later] != size[before]
    differ |= (table.i_blocks(rows[later]) != table.i_blocks(rows[before])).any(axis=1)
    fits[group[later[differ]]] = False
    found = np.flatnonzero(fits)
    return dict(
        zip(states.instance[rows[start[found]]].tolist(), newest[found].tolist(), strict=True)
    )
