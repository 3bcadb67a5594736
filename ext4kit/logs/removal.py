"""The proof that lines were removed from a log.

A state of a log is compared with its next one. Rotation never leaves a line of the old state
before a missing one: the new state has none of them, or the last ones. A log that is written in a
circle loses its oldest lines, so a line that stayed must be older than a missing one. Lines that
stand in another log of that name (auth.log.1) were rotated.

Two states share lines of one second by chance, where a program writes the same line twice while
the log is rotated. Therefore lines of two different times must have stayed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ext4kit import reasons
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.history.journal_gaps import JournalGaps
from ext4kit.journal import Log
from ext4kit.logs.kinds import KINDS, LogKind
from ext4kit.logs.result import NO_TIME, FoundLines, How, Origin, Removal
from ext4kit.logs.sources import LOGINS, TEXT, LogSource
from ext4kit.logs.stamps import TimeGround

_FEWEST_TIMES = 2  # of the lines that stayed
_MOST_TIME = (1 << 63) - 1
_COPY_TIME = 2_000_000_000  # ns; a copy that rotation made is not older than the state by more
_ARCHIVE = re.compile(
    rb".*([.-]\d+|[.-]old|\.(gz|bz2|xz|zst)|[.-](19|20)\d\d[-.]?\d\d.*)", re.DOTALL
)  # names that rotation gives to one log after another
# With these reasons alone, the bytes that no other file has had since are those of the state.
_NOTES = {
    each.code
    for each in (
        reasons.KEPT_BY_LATER_VERSION, reasons.EARLIER_VERSION, reasons.UNLOGGED_REUSE,
        reasons.RECENT_CHANGE, reasons.SECOND_CHANGE_POSSIBLE,
    )
}  # fmt: skip
_NOT_PROVEN = [KINDS.index(LogKind.LASTLOG), KINDS.index(LogKind.UTMP)]  # slots are overwritten
# Programs that write these logs append to them, and leave the rest to rotation. Under other names
# a job may write an extract of them each day.
_EMPTIED_NAMES = re.compile(
    rb"(auth|kern|daemon|user|cron|mail|audit)\.log|mail\.(info|warn|err)|maillog|cron|secure"
    rb"|messages|syslog|debug|[bw]tmp"
)
_NEVER_EMPTIED = [
    KINDS.index(kind)
    for kind in (
        LogKind.SYSLOG, LogKind.SSHD, LogKind.SUDO, LogKind.CRON, LogKind.MAIL, LogKind.KERNEL,
        LogKind.AUDIT, LogKind.WTMP, LogKind.BTMP,
    )
]  # fmt: skip


@dataclass(frozen=True)
class Removals:
    """What the proof needs.

    Attributes:
        log: the journal.
        gaps: gives the gaps of the journal.
        sources: all sources.
        lines: of the sources but the live ones, by source.
        live: gives the keys of the lines of a live source.
        created_since: gives (path, creation) of all files, live or deleted, that were created at
            a time (ns) or later, or at an unknown one; None for what is unknown.
    """

    log: Log | None
    gaps: Callable[[], JournalGaps]
    sources: Sequence[LogSource]
    lines: FoundLines
    live: Callable[[LogSource], Int64s]
    created_since: Callable[[int], Iterable[tuple[bytes | None, int | None]]]

    def found(self) -> Iterator[tuple[Rows, Removal]]:
        """(rows of `lines`, removal) of each state of which lines were removed."""
        emptied = []
        for row, source in self._files:
            rows = self._own_rows(row, source)
            if not len(rows):
                continue
            for path, later in self._states_after(source):
                kept = np.isin(self.lines.key[rows], self._keys(*later))
                if self._have_stayed(rows, kept, path):
                    removal = _removal_of(path, source, How.CUT_OUT)
                    yield from self._cut_out(rows, kept, source, removal)
                elif not kept.any() and self._was_emptied(source):
                    emptied.append((rows, source))
            if source.origin is Origin.DELETED and not _ARCHIVE.fullmatch(source.path or b""):
                yield from self._cut_out_before_rotation(rows, source)
        yield from self._emptied(emptied)
        yield from self._of_copies()

    @cached_property
    def _live_keys(self) -> dict[int, Int64s]:
        return {}

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

    def _own_rows(self, row: int, source: LogSource) -> Rows:
        """The lines of a former state, without those in bytes that other files have had since."""
        file, rows = source.file, self._rows_of(row)
        if file is None or not len(rows) or source.family not in (TEXT, LOGINS):
            return rows[:0]
        if file.grade.is_whole:
            return rows
        if source.packing is not None or not {each.code for each in file.reasons} <= _NOTES:
            return rows[:0]
        start, end = self.lines.offset[rows], (self.lines.offset + self.lines.length)[rows]
        own = np.ones(len(rows), bool)
        for part in file.lost:
            own &= (end <= part.offset) | (start >= part.offset + part.length)
        return rows[own]

    def _keys(self, row: int, source: LogSource) -> Int64s:
        if not source.is_live:
            return self.lines.key[self._rows_of(row)]
        if row not in self._live_keys:
            self._live_keys[row] = self.live(source)
        return self._live_keys[row]

    def _states_after(self, source: LogSource) -> Iterator[tuple[bytes, tuple[int, LogSource]]]:
        """(path, next state) of the log of a former state, where that is certain.

        An editor renames the log before it deletes it; what then has its former path is compared.
        """
        file = source.file
        if source.path is None or file is None:
            return
        if source.origin is Origin.EARLIER:
            same = self._by_instance[source.inode, source.generation]
            states = [(source.path, same)]
        else:
            paths = dict.fromkeys((source.path, *file.former_paths))
            states = [(path, self._by_path.get(path, [])) for path in paths]
            states = [
                (path, [each for each in same if each[1].inode != source.inode])
                for path, same in states
            ]
        for path, same in states:
            later = [each for each in same if _ended(each[1]) > _ended(source)]
            found = min(later, key=lambda each: _ended(each[1]), default=None)
            if found is not None and (found[1].is_live or _is_whole_state(found[1])):
                yield path, found

    def _cut_out_before_rotation(
        self, rows: Rows, source: LogSource
    ) -> Iterator[tuple[Rows, Removal]]:
        """Missing lines between lines that stand in a log that rotation has renamed since.

        Most lines must have stayed, and the missing ones are between them: a copy that was made
        before the log was deleted lacks its last lines.
        """
        pattern = _sibling_pattern([source])
        best = np.zeros(len(rows), bool)
        for row, each in self._files:
            if each.path is None or not _is_sibling(pattern, each.path, source):
                continue
            if not _ARCHIVE.fullmatch(each.path):
                continue  # an extract, as access-nobots.log is one of access.log
            if _ended(each) > _ended(source) and each.family == source.family:
                kept = np.isin(self.lines.key[rows], self._keys(row, each))
                best = kept if kept.sum() > best.sum() else best
        if source.path is None or 2 * best.sum() < len(rows):
            return
        last = int(np.flatnonzero(best).max(initial=-1))
        if self._have_stayed(rows, best, source.path):
            removal = _removal_of(source.path, source, How.CUT_OUT)
            yield from self._cut_out(rows[:last], best[:last], source, removal)

    def _have_stayed(self, rows: Rows, kept: Bools, path: bytes) -> bool:
        """Whether lines stayed, and not by chance; most of them under a name of rotation."""
        times = self.lines.time[rows[kept]]
        if _ARCHIVE.fullmatch(path) and 2 * len(times) < len(rows):
            return False
        return len(np.unique(times[times != NO_TIME])) >= _FEWEST_TIMES

    def _cut_out(
        self, rows: Rows, kept: Bools, source: LogSource, removal: Removal
    ) -> Iterator[tuple[Rows, Removal]]:
        """The missing lines after one that stayed and is not younger."""
        time = self.lines.time[rows]
        stayed = np.where(kept & (time != NO_TIME), time, _MOST_TIME)
        missing = self._missing(rows, source) & ~kept & (np.minimum.accumulate(stayed) <= time)
        if missing.any():
            stayed_after = kept[np.flatnonzero(missing)[0] :].any()
            yield rows[missing], removal if stayed_after else replace(removal, how=How.CUT_OFF)

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

    def _was_emptied(self, source: LogSource) -> bool:
        """Whether a log of a daemon was truncated, and the journal tells of all that came after."""
        if not can_be_emptied(source):
            return False
        file, log = source.file, self.log
        after = None if file is None else file.deleted_between[0]
        if log is None or after is None:
            return False
        known = log.transactions.order
        rows = np.flatnonzero(known % (1 << 32) == after.transaction)
        if not len(rows):
            return False
        return not self.gaps().any_lost_between(int(known[rows[-1]]), int(known.max()))

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
            missing = self._missing(rows, source) & np.isin(self.lines.kind[rows], _NEVER_EMPTIED)
            if not is_copied and missing.any():
                assert source.path is not None
                yield rows[missing], _removal_of(source.path, source, How.EMPTIED)

    def _of_copies(self) -> Iterator[tuple[Rows, Removal]]:
        """Lines that were removed within a block that stayed, of which the journal has copies."""
        live = {source.path: row for row, source in self._files if source.is_live}
        for row, source in enumerate(self.sources):
            log = live.get(source.path)
            if source.copy is None or source.path is None or log is None:
                continue
            rows = self._rows_of(row)
            kept = np.isin(self.lines.key[rows], self._keys(log, self.sources[log]))
            if self._have_stayed(rows, kept, source.path):
                removal = Removal(source.path, How.CUT_OUT, source.copy, None)
                yield from self._cut_out(rows, kept, source, removal)


def _grouped(
    files: list[tuple[int, LogSource]], key: Callable[[LogSource], object]
) -> dict[object, list[tuple[int, LogSource]]]:
    found: dict[object, list[tuple[int, LogSource]]] = {}
    for row, source in files:
        found.setdefault(key(source), []).append((row, source))
    return found


def can_be_emptied(source: LogSource) -> bool:
    """Whether a content is a former state of a log that its programs never empty."""
    is_earlier = source.origin is Origin.EARLIER
    return is_earlier and _EMPTIED_NAMES.fullmatch(_name(source.path or b"")) is not None


def _is_whole_state(source: LogSource) -> bool:
    file = source.file
    return file is not None and file.grade.is_whole and source.family in (TEXT, LOGINS)


def _removal_of(path: bytes, source: LogSource, how: How) -> Removal:
    assert source.file is not None
    return Removal(path, how, *source.file.deleted_between)


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
    """Whether a file may be a copy by its name: that of the log, maybe with something more."""
    return (
        path != source.path and bool(pattern.search(_name(path))) and _stem(source) in _name(path)
    )
