"""The moments that the journal records, as positions of a slider, with a histogram of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import Ext4kitError
from ext4kit.report.safe import printable_text
from ext4kit.report.times import time_text
from ext4kit.units import Moment
from ext4kit.workspace import Workspace

if TYPE_CHECKING:
    from ext4kit.timeline import Timeline

_BLOCKS, _PLAIN = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_TID_MODULUS = 1 << 32


@dataclass(frozen=True)
class Moments:
    """The transactions whose state the journal gives, in order; the last position is the present.

    Attributes:
        tids: of each transaction.
        times: commit time of each, ns; -1 if unknown.
        reason: why there are none, "" else.
    """

    tids: Int64s
    times: Int64s
    reason: str = ""

    @classmethod
    def read(cls, workspace: Workspace) -> Moments:
        """The moments of a file system."""
        from ext4kit.as_of import recorded_range

        none = np.zeros(0, np.int64)
        try:
            found = recorded_range(workspace)
        except Ext4kitError as error:
            return cls(none, none, printable_text(str(error)))
        return cls(found.orders, found.commit_times, found.reason)

    @property
    def now(self) -> int:
        """The position of the present."""
        return len(self.tids)

    def transaction(self, position: int) -> int | None:
        """The stored tid at a position; None for the present."""
        return None if position >= self.now else int(self.tids[position]) % _TID_MODULUS

    def title(self, position: int) -> str:
        """What a position shows."""
        tid = self.transaction(position)
        if tid is None:
            return "now"
        time = int(self.times[position])
        return f"transaction {tid}, {time_text(None if time < 0 else time)}"

    def position_of(self, transaction: int) -> int | None:
        """The position of a stored tid; None if it is not recorded."""
        found = np.flatnonzero(self.tids % _TID_MODULUS == transaction)
        return int(found[0]) if len(found) else None

    def position_at(self, moment: Moment) -> int:
        """The last transaction that was committed by a time; the first one if all are later."""
        later = np.flatnonzero(self.times > moment.time)
        return max(int(later[0]) - 1, 0) if len(later) else self.now

    def beyond_text(self, time: int, last: int) -> str:
        """What is said of a time that is before the first moment or after the last one.

        Args:
            time: the time, ns.
            last: last moment of the image, ns.
        """
        known = self.times[self.times >= 0]
        if not len(known):
            return self.reason or "no earlier moment"
        if time < int(known[0]):
            begin = time_text(int(known[0]))
            return f"the journal begins at {begin}; shown is the oldest state"
        return f"the image ends at {time_text(last)}: that is now" if time > last else ""

    def counts(self, timeline: Timeline) -> Int64s:
        """Number of events of each position."""
        place = np.searchsorted(self.tids, timeline.events.order)
        found: Int64s = np.bincount(np.minimum(place, self.now), minlength=self.now + 1)
        return found


def column_of(position: int, count: int, width: int) -> int:
    """The column of a position.

    Args:
        position: the position.
        count: number of positions.
        width: number of columns.
    """
    return position * (width - 1) // max(count - 1, 1) if count > 1 else width - 1


def position_in(column: int, count: int, width: int) -> int:
    """The position that is nearest to a column."""
    return round(min(max(column, 0), width - 1) * (count - 1) / max(width - 1, 1))


def histogram(counts: Int64s, width: int, is_plain: bool) -> str:
    """Numbers of events as one character a column, the highest column full.

    Args:
        counts: events of each position.
        width: number of columns.
        is_plain: use ASCII alone.
    """
    levels = _PLAIN if is_plain else _BLOCKS
    columns = np.zeros(max(width, 1), np.int64)
    for position, number in enumerate(counts.tolist()):
        columns[column_of(position, len(counts), width)] += number
    highest = max(int(columns.max()), 1)
    steps = -(-columns * (len(levels) - 1) // highest)  # any event is seen
    return "".join(levels[step] for step in steps.tolist())


def track(position: int, count: int, width: int, is_plain: bool) -> str:
    """The line of the slider."""
    line, knob = ("-", "O") if is_plain else ("─", "●")
    column = column_of(position, count, width)
    return line * column + knob + line * (width - column - 1)
