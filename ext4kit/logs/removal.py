"""The proof that lines were removed from a log.

A state of a log is compared with its next one. Rotation never leaves a line of the old state
before a missing one: the new state has none of them, or the last ones. Lines that stand in another
log of that name (auth.log.1) were rotated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.history import History
from ext4kit.logs.kinds import KINDS, LogKind
from ext4kit.logs.result import FoundLines, How, Origin, Removal
from ext4kit.logs.sources import LOGINS, TEXT, LogSource
from ext4kit.logs.stamps import TimeGround

_FEWEST_KEPT = 2  # lines of the state that its next state has
_COPY_TIME = 2_000_000_000  # ns; a copy that rotation made is not older than the state by more
_NOT_PROVEN = [KINDS.index(LogKind.LASTLOG), KINDS.index(LogKind.UTMP)]  # slots are overwritten


@dataclass(frozen=True)
class Removals:
    """What the proof needs.

    Attributes:
        history: of the file system.
        sources: all sources.
        lines: of the sources but the live ones, by source.
        live: gives the keys of the lines of a live source.
        created_since: gives (path, creation) of all files, live or deleted, that were created at
            a time (ns) or later, or at an unknown one; None for what is unknown.
    """

    history: History
    sources: Sequence[LogSource]
    lines: FoundLines
    live: Callable[[LogSource], Int64s]
    created_since: Callable[[int], Iterable[tuple[bytes | None, int | None]]]

    def found(self) -> Iterator[tuple[Rows, Removal]]:
        """(rows of `lines`, removal) of each state of which lines were removed."""
        emptied = []
        for row, source in self._files:
            later = self._state_after(row, source)
            rows = self._rows_of(row)
            if later is None or not len(rows) or source.path is None:
                continue
            kept = np.isin(self.lines.key[rows], self._keys(*later))
            if kept.sum() >= _FEWEST_KEPT:
                yield from self._cut_out(rows, kept, source, _removal_of(source, How.CUT_OUT))
            elif not kept.any() and self._was_truncated(source):
                emptied.append((rows, source))
        yield from self._emptied(emptied)
        yield from self._of_copies()

    @cached_property
    def _files(self) -> list[tuple[int, LogSource]]:
        """The states of files, with their rows."""
        each = enumerate(self.sources)
        return [(row, source) for row, source in each if source.file or source.is_live]

    @cached_property
    def _by_instance(self) -> dict[object, list[tuple[int, LogSource]]]:
        return _grouped(self._files, lambda source: (source.inode, source.generation))

    @cached_property
    def _by_path(self) -> dict[object, list[tuple[int, LogSource]]]:
        return _grouped(self._files, lambda source: source.path)

    def _rows_of(self, source: int) -> Rows:
        first, end = np.searchsorted(self.lines.source, [source, source + 1])
        return np.arange(first, end)

    def _keys(self, row: int, source: LogSource) -> Int64s:
        return self.live(source) if source.is_live else self.lines.key[self._rows_of(row)]

    def _state_after(self, row: int, source: LogSource) -> tuple[int, LogSource] | None:
        """The next state of the log of a former state; None where that is not certain."""
        if not _is_whole_state(source):
            return None
        if source.origin is Origin.EARLIER:
            same = self._by_instance[source.inode, source.generation]
        else:
            same = [each for each in self._by_path[source.path] if each[1].inode != source.inode]
        later = [each for each in same if _ended(each[1]) > _ended(source)]
        found = min(later, key=lambda each: _ended(each[1]), default=None)
        return found if found and (found[1].is_live or _is_whole_state(found[1])) else None

    def _cut_out(
        self, rows: Rows, kept: Bools, source: LogSource, removal: Removal
    ) -> Iterator[tuple[Rows, Removal]]:
        """The missing lines after one that stayed."""
        missing = self._missing(rows, source) & ~kept & (np.cumsum(kept) > 0)
        if missing.any():
            yield rows[missing], removal

    def _missing(self, rows: Rows, source: LogSource) -> Bools:
        """Which lines can be missing because they were removed: whole ones that no copy has."""
        lines = self.lines
        wanted: Bools = (lines.torn[rows] == 0) & (lines.ground[rows] != TimeGround.NONE)
        wanted &= ~np.isin(lines.kind[rows], _NOT_PROVEN)
        pattern = _sibling_pattern([source])
        others = [
            row
            for row, each in self._files
            if each.path is not None and _is_sibling(pattern, each.path, source)
        ]
        keys = lines.key[np.isin(lines.source, others)]
        return wanted & ~np.isin(lines.key[rows], keys)

    def _was_truncated(self, source: LogSource) -> bool:
        """Whether the log was truncated, and the journal tells of all that came after."""
        file, log = source.file, self.history.log
        after = None if file is None else file.deleted_between[0]
        if source.origin is not Origin.EARLIER or log is None or after is None:
            return False
        known = log.transactions.order
        rows = np.flatnonzero(known % (1 << 32) == after.transaction)
        if not len(rows):
            return False
        return not self.history.gaps.any_lost_between(int(known[rows[-1]]), int(known.max()))

    def _emptied(self, states: list[tuple[Rows, LogSource]]) -> Iterator[tuple[Rows, Removal]]:
        """The lines of truncated logs of which rotation can have made no copy."""
        if not states:
            return
        pattern = _sibling_pattern([source for _, source in states])
        written = [_last_write(source) - _COPY_TIME for _, source in states]
        may_be_copied = [False] * len(states)
        for path, created in self.created_since(min(written)):
            if path is not None and not pattern.search(_name(path)):
                continue
            for place, (_, source) in enumerate(states):
                is_later = created is None or created >= written[place]
                if is_later and (path is None or _is_sibling(pattern, path, source)):
                    may_be_copied[place] = True
        for (rows, source), is_copied in zip(states, may_be_copied, strict=True):
            missing = self._missing(rows, source)
            if not is_copied and missing.any():
                yield rows[missing], _removal_of(source, How.EMPTIED)

    def _of_copies(self) -> Iterator[tuple[Rows, Removal]]:
        """Lines that were removed within a block that stayed, of which the journal has copies."""
        keys: dict[bytes | None, Int64s] = {}
        live = {source.path: source for _, source in self._files if source.is_live}
        for row, source in enumerate(self.sources):
            log = live.get(source.path)
            if source.copy is None or source.path is None or log is None:
                continue
            if log.path not in keys:
                keys = {log.path: self.live(log)}
            rows = self._rows_of(row)
            kept = np.isin(self.lines.key[rows], keys[log.path])
            if kept.sum() >= _FEWEST_KEPT:
                removal = Removal(source.path, How.CUT_OUT, source.copy, None)
                yield from self._cut_out(rows, kept, source, removal)


def _grouped(
    files: list[tuple[int, LogSource]], key: Callable[[LogSource], object]
) -> dict[object, list[tuple[int, LogSource]]]:
    found: dict[object, list[tuple[int, LogSource]]] = {}
    for row, source in files:
        found.setdefault(key(source), []).append((row, source))
    return found


def _is_whole_state(source: LogSource) -> bool:
    file = source.file
    return file is not None and file.grade.is_whole and source.family in (TEXT, LOGINS)


def _removal_of(source: LogSource, how: How) -> Removal:
    assert source.file is not None and source.path is not None
    return Removal(source.path, how, *source.file.deleted_between)


def _last_write(source: LogSource) -> int:
    """When the state was written last, ns; a time that was set to a later one does not count."""
    after = None if source.file is None else source.file.deleted_between[0]
    known = None if after is None else after.time
    return source.latest if known is None else min(source.latest, known)


def _ended(source: LogSource) -> float:
    """The transaction that ended a state, as a number that orders them."""
    if source.file is None:
        return float("inf")
    until = source.file.deleted_between[1]
    return float("-inf") if until is None else until.transaction


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _stem(source: LogSource) -> bytes:
    return _name(source.path or b"").removesuffix(b".log")


def _sibling_pattern(sources: Sequence[LogSource]) -> re.Pattern[bytes]:
    """Searches the names of logs in the name of a file, as in auth.log.1 and auth-2026.gz."""
    return re.compile(b"|".join(re.escape(stem) for stem in set(map(_stem, sources))))


def _is_sibling(pattern: re.Pattern[bytes], path: bytes, source: LogSource) -> bool:
    """Whether a file may be a rotated copy by its name: that of the log with something more."""
    if path == source.path or not pattern.search(_name(path)):
        return False
    return _name(path) != _name(source.path or b"") and _stem(source) in _name(path)
