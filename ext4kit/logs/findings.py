"""What the search for log lines found, with the texts read when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, islice

import numpy as np

from ext4kit.arrays.types import Rows
from ext4kit.logs import binary, texts
from ext4kit.logs.kinds import KINDS, LogKind
from ext4kit.logs.result import NO_TIME, FoundLines, LogLine, Removal
from ext4kit.logs.sources import TEXT, LogSource
from ext4kit.logs.stamps import TimeGround
from ext4kit.logs.zeroed import ZeroedRecords
from ext4kit.selection import Selection

_AT_ONCE = 1 << 13
_KEPT = 2  # binary logs that stay read, as the lines of several are mixed by time


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions that a line must meet; one that is not given always holds.

    Attributes:
        selection: of its file, by path; a line without a path is selected by no path.
        kinds: of these.
        since, until: ns since 1970; a line without a time is in no period.
        removed_only: whether the removal must be proven.
        pattern: is found in its text.
        limit: number of lines at most.
        takes: called with each content; whether its lines are selected.
        is_timed: whether lines without a time are left out.
    """

    selection: Selection = field(default_factory=Selection)
    kinds: frozenset[LogKind] = frozenset()
    since: int | None = None
    until: int | None = None
    removed_only: bool = False
    pattern: re.Pattern[bytes] | None = None
    limit: int | None = None
    takes: Callable[[LogSource], bool] | None = None
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class LogFindings:
    """The lines that were found, by time; those without a time come first.

    Attributes:
        lines: their columns.
        removal: per line, row of `removals`, -1 for none.
        sources: the contents in which they stand.
        removals: the proven removals.
        live_logs: number of live logs that were compared.
        zeroed: logs of logins with records that were filled with zeros.
    """

    lines: FoundLines
    removal: Rows
    sources: Sequence[LogSource]
    removals: Sequence[Removal]
    live_logs: int
    zeroed: Sequence[ZeroedRecords] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def count(self, wanted: LogFilter) -> int:
        """Number of the lines that meet all conditions but those on the text and the limit."""
        return len(self._rows(wanted))

    def select(self, wanted: LogFilter) -> Iterator[LogLine]:
        """The lines that meet all conditions, in order."""
        found = self.read(self._rows(wanted))
        if (pattern := wanted.pattern) is not None:
            found = (line for line in found if pattern.search(line.text))
        return islice(found, wanted.limit)

    def _rows(self, wanted: LogFilter) -> Rows:
        lines = self.lines
        kept = np.ones(len(lines), bool)
        if wanted.kinds:
            kept &= np.isin(lines.kind, [KINDS.index(kind) for kind in wanted.kinds])
        if wanted.since is not None:
            kept &= (lines.time >= wanted.since) & (lines.time != NO_TIME)
        if wanted.until is not None:
            kept &= (lines.time <= wanted.until) & (lines.time != NO_TIME)
        if wanted.removed_only:
            kept &= self.removal >= 0
        if wanted.is_timed:
            kept &= lines.time != NO_TIME
        if wanted.takes is not None:
            kept &= np.array([*map(wanted.takes, self.sources)] or [False])[lines.source]
        if wanted.selection.by_path:
            matches = wanted.selection.matches_path
            known = [each.path is not None and matches(each.path, None) for each in self.sources]
            kept &= np.array(known or [False])[lines.source]
        return np.flatnonzero(kept)

    def read(self, rows: Rows) -> Iterator[LogLine]:
        """The lines of some rows; texts are read a few thousand at a time."""
        opened = lru_cache(_KEPT)(binary.reader)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            read = self._texts(some, opened)
            yield from (self._line(row, read[row]) for row in some.tolist())

    def _texts(
        self, rows: Rows, opened: Callable[[LogSource], Callable[[int], bytes]]
    ) -> dict[int, bytes]:
        """The text of each row; each source is read once.

        Args:
            rows: the rows.
            opened: gives the reader of a binary log.
        """
        found: dict[int, bytes] = {}
        ordered = rows[np.argsort(self.lines.source[rows], kind="stable")].tolist()
        for source, group in groupby(ordered, lambda row: int(self.lines.source[row])):
            some = list(group)
            offsets = self.lines.offset[some].tolist()
            log = self.sources[source]
            if log.family == TEXT:
                read = texts.texts(log, offsets, self.lines.length[some].tolist())
            else:
                read = list(map(opened(log), offsets))
            found.update(zip(some, read, strict=True))
        return found

    def _line(self, row: int, text: bytes) -> LogLine:
        lines = self.lines
        source, offset = self.sources[int(lines.source[row])], int(lines.offset[row])
        block, position = source.place_of(offset)
        time, removal = int(lines.time[row]), int(self.removal[row])
        return LogLine(
            text,
            KINDS[lines.kind[row]],
            None if time == NO_TIME else time,
            TimeGround(int(lines.ground[row])),
            source.origin,
            source.path,
            source.inode,
            offset,
            block,
            position,
            bool(lines.torn[row]),
            None if removal < 0 else self.removals[removal],
        )
