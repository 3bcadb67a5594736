"""The proof that lines were removed from a log.

A state of a log is compared with its next one. Rotation never leaves a line of the old state
before a missing one: the new state has none of them, or the last ones. Lines that stand in another
log of that name (auth.log.1) were rotated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.history import History
from ext4kit.logs.kinds import KINDS, LogKind
from ext4kit.logs.result import FoundLines, How, Origin, Removal
from ext4kit.logs.sources import LASTLOG, LOGINS, TEXT, LogSource
from ext4kit.logs.stamps import TimeGround
from ext4kit.recovery.model import TransactionTime

_FEWEST_KEPT = 2  # lines of the state that its next state has
_COPY_TIME = 2_000_000_000  # ns; a copy that rotation made is not older than the state by more
_NOT_PROVEN = [KINDS.index(LogKind.LASTLOG), KINDS.index(LogKind.UTMP)]  # slots are overwritten


@dataclass(frozen=True, slots=True)
class Removals:
    """What the proof needs.

    Attributes:
        history: of the file system.
        sources: all sources.
        lines: of the sources but the live ones.
        live: gives the keys of the lines of a live source.
        created_since: gives the paths of all files, live or deleted, that were created at a time
            (ns) or later, or at an unknown one; None for an unknown path.
    """

    history: History
    sources: Sequence[LogSource]
    lines: FoundLines
    live: Callable[[LogSource], Int64s]
    created_since: Callable[[int], Iterable[bytes | None]]

    def found(self) -> Iterator[tuple[Rows, Removal]]:
        """(rows of `lines`, removal) of each state of which lines were removed."""
        for row, source in enumerate(self.sources):
            before = self._state_after(source)
            if before is None or source.path is None or source.file is None:
                continue
            rows = self._rows_of(row)
            removed, how = self._removed(rows, source, self._keys(before))
            rows = rows[removed]
            if len(rows):
                after, until = source.file.deleted_between
                yield rows, Removal(source.path, how, after, until)
        yield from self._of_copies()

    def _removed(self, rows: Rows, source: LogSource, later: Int64s) -> tuple[Bools, How]:
        """Which lines of a state were removed before the next one, and how."""
        lines = self.lines
        kept = np.isin(lines.key[rows], later)
        missing = ~kept & (lines.torn[rows] == 0) & ~self._in_siblings(rows, source)
        missing &= ~np.isin(lines.kind[rows], _NOT_PROVEN)
        missing &= lines.ground[rows] != TimeGround.NONE
        if kept.sum() >= _FEWEST_KEPT:
            return missing & (np.cumsum(kept) > 0), How.CUT_OUT
        if kept.any() or not self._is_emptied(source):
            missing[:] = False
        return missing, How.EMPTIED

    def _rows_of(self, source: int) -> Rows:
        first, end = np.searchsorted(self.lines.source, [source, source + 1])
        return np.arange(first, end)

    def _keys(self, source: LogSource) -> Int64s:
        if source.origin is Origin.LIVE:
            return self.live(source)
        return self.lines.key[self._rows_of(self.sources.index(source))]

    def _state_after(self, source: LogSource) -> LogSource | None:
        """The next state of the log of a former state; None where that is not certain."""
        if not _is_whole_state(source):
            return None
        if source.origin is Origin.EARLIER:
            same = [each for each in self.sources if _instance(each) == _instance(source)]
        else:
            same = [
                each
                for each in self.sources
                if each.path == source.path and each.inode != source.inode
            ]
        later = [each for each in same if _ended(each) > _ended(source)]
        found = min(later, key=_ended, default=None)
        return found if found and (found.origin is Origin.LIVE or _is_whole_state(found)) else None

    def _in_siblings(self, rows: Rows, source: LogSource) -> Bools:
        """Which lines stand in a deleted log of the same name with something behind it."""
        others = [
            row
            for row, each in enumerate(self.sources)
            if each.path not in (None, source.path) and _are_siblings(each.path, source.path)
        ]
        keys = self.lines.key[np.isin(self.lines.source, others)]
        return np.isin(self.lines.key[rows], keys)

    def _is_emptied(self, source: LogSource) -> bool:
        """Whether the log was truncated, and nothing can be a copy that rotation made of it."""
        file = source.file
        if source.origin is not Origin.EARLIER or file is None or file.inode is None:
            return False
        after, _ = file.deleted_between
        if after is None or after.time is None or not self._has_all_since(after):
            return False
        written = min(max(file.inode.mtime, file.inode.ctime), after.time) - _COPY_TIME
        return not any(
            path is None or _are_siblings(path, source.path) for path in self.created_since(written)
        )

    def _has_all_since(self, after: TransactionTime) -> bool:
        history = self.history
        if history.log is None:
            return False
        known = history.log.transactions
        rows = np.flatnonzero(known.order % (1 << 32) == after.transaction)
        if not len(rows) or not len(known.order):
            return False
        lost = history.gaps.any_lost_between(int(known.order[rows[-1]]), int(known.order.max()))
        return not lost

    def _of_copies(self) -> Iterator[tuple[Rows, Removal]]:
        """Lines that were removed within a block that stayed, of which the journal has copies."""
        live = {each.path: each for each in self.sources if each.origin is Origin.LIVE}
        for row, source in enumerate(self.sources):
            log = live.get(source.path)
            if source.copy is None or log is None or source.family not in (TEXT, LOGINS):
                continue
            rows = self._rows_of(row)
            kept = np.isin(self.lines.key[rows], self.live(log))
            if kept.sum() < _FEWEST_KEPT or source.path is None:
                continue
            missing = ~kept & (self.lines.torn[rows] == 0) & (np.cumsum(kept) > 0)
            missing &= ~self._in_siblings(rows, source)
            missing &= ~np.isin(self.lines.kind[rows], _NOT_PROVEN)
            missing &= self.lines.ground[rows] != TimeGround.NONE
            if missing.any():
                yield rows[missing], Removal(source.path, How.CUT_OUT, source.copy[1], None)


def _is_whole_state(source: LogSource) -> bool:
    file = source.file
    return file is not None and file.grade.is_whole and source.family not in (LASTLOG, "journal")


def _instance(source: LogSource) -> tuple[int | None, int | None]:
    inode = source.file.inode if source.file is not None else None
    return source.inode, source.generation if inode is None else inode.generation


def _ended(source: LogSource) -> float:
    """The transaction that ended a state, as a number that orders them."""
    if source.origin is Origin.LIVE:
        return float("inf")
    until = source.file.deleted_between[1] if source.file is not None else None
    return float("-inf") if until is None else until.transaction


def _are_siblings(path: bytes | None, other: bytes | None) -> bool:
    """Whether the name of one file is that of the other with something behind or before it."""
    if path is None or other is None:
        return False
    one, two = (each.rpartition(b"/")[2] for each in (path, other))
    stem = two.removesuffix(b".log")
    return one != two and stem in one
