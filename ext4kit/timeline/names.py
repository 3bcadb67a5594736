"""Names of lives over time, told by directory and not by block, and the paths that they make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import row_bounds, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.history import TID_ON_DISK, History
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import EntryIntervals
from ext4kit.timeline.lives import TimelineInstances

DEPTH_LIMIT = 4096
MAX_NAMES_TRIED = 64  # names of a life looked at for one that is in force


@dataclass(frozen=True, slots=True)
class TimelineNames(Table):
    """Names as columns, by (life, shown).

    Attributes:
        life: who was named.
        folder: life of the directory.
        key: of the name.
        first: order of the transaction that gave the name, TID_BEFORE_LOG when it was there
            already.
        shown: order of the first version that shows it.
        gone: order of the transaction that took it away, TID_ON_DISK for none.
        added_tag, gone_tag: rows of `log.tags` of the copies that show it, -1 for none.
        before, seen: the last version without it and with it: where its coming and its going
            have their lower bounds.
        text: place of the name in the appearances' list.
    """

    life: Int64s
    folder: Int64s
    key: Int64s
    first: Int64s
    shown: Int64s
    gone: Int64s
    added_tag: Int64s
    gone_tag: Int64s
    before: Int64s
    seen: Int64s
    text: Int64s


def attribute_by_overlap(
    history: History, lives: TimelineInstances, found: EntryIntervals
) -> TimelineNames:
    """Give each appearance to the lives that its number meant while it was there."""
    folder = _directory_instances(history, lives, found)
    real = np.array([name not in (b".", b"..") for name in found.name], bool)
    kept = np.flatnonzero(real & (folder >= 0))
    row, life = lives.during(found.inode[kept], found.first_seen[kept], found.last_seen[kept])
    row = kept[row]
    begin, end = lives.begin[life], lives.end[life]
    born, dead = begin > found.first_seen[row], end < found.removed[row]
    first = np.where(born, begin, found.valid_from[row])
    names = TimelineNames(
        life,
        folder[row],
        found.name_key[row],
        first,
        np.where(born, begin, found.first_seen[row]),
        np.where(dead, end, found.removed[row]),
        np.where(born, -1, _journal_tags(found.first_source[row], found.block[row])),
        np.where(dead, -1, _journal_tags(found.removal_source[row], found.block[row])),
        np.where(born, begin - 1, found.last_absent[row]),
        np.where(dead, end - 1, found.last_seen[row]),
        row,
    )
    names = names.take(np.flatnonzero(names.life != names.folder))
    return _merge_blocks(names)


def _journal_tags(source: Int64s, block: Int64s) -> Int64s:
    """Rows of `log.tags`; a block number below 0 is an inline directory, with other sources."""
    return np.where((source >= 0) & (block > 0), source, -1)


def _directory_instances(
    history: History, lives: TimelineInstances, found: EntryIntervals
) -> Int64s:
    """The life of each appearance's directory, -1 when it is not known."""
    own = found.directory < 0
    which = np.where(own, 0, found.directory)
    number = np.where(own, -found.directory, 0)
    if history.instance_count:
        number = np.where(own, number, history.number[which])
        generation = np.where(own, 0, history.generation[which])
    else:
        generation = np.zeros(len(own), np.int64)
    last = lives.at(number, np.full(len(number), TID_ON_DISK))
    key = (lives.number << 32) | lives.generation
    rank = np.argsort(key, kind="stable")
    wanted = (number << 32) | generation
    place = np.searchsorted(key[rank], wanted, side="right") - 1
    exact = np.where(place >= 0, rank[np.maximum(place, 0)], -1) if len(key) else place
    fits = (exact >= 0) & (key[np.maximum(exact, 0)] == wanted) if len(key) else own
    return np.where(own, last, np.where(fits, exact, -1))


def _merge_blocks(names: TimelineNames) -> TimelineNames:
    """Join what one name was in several blocks of its directory, or in one after the other."""
    names = names.take(np.lexsort((names.gone, names.shown, names.key, names.folder, names.life)))
    if not len(names):
        return names
    other = starts_group(names.life, names.folder, names.key)
    group = np.cumsum(other) - 1
    orders, rank = np.unique(names.gone, return_inverse=True)
    reach = np.maximum.accumulate(group * (len(orders) + 1) + rank) - group * (len(orders) + 1)
    apart = other.copy()
    apart[1:] |= names.first[1:] > orders[reach[:-1]]
    start = np.flatnonzero(apart)
    end = np.append(start[1:], len(names)) - 1
    last = _last_removed_row(rank, start, end)
    merged = TimelineNames(
        names.life[start],
        names.folder[start],
        names.key[start],
        names.first[start],
        names.shown[start],
        orders[reach[end]],
        names.added_tag[start],
        names.gone_tag[last],
        names.before[start],
        names.seen[last],
        names.text[start],
    )
    return merged.take(np.lexsort((merged.text, merged.shown, merged.life)))


def _last_removed_row(rank: Int64s, start: Rows, end: Rows) -> Rows:
    """Per run of rows from `start` to `end`: the row that went last."""
    most = np.maximum.reduceat(rank, start)
    run = np.repeat(np.arange(len(start)), end - start + 1)
    rows = np.where(rank == most[run], np.arange(len(rank)), -1)
    return np.maximum.reduceat(rows, start)


class PathResolver:
    """Paths at a time. Asked in order of time it looks up each directory once a change.

    Args:
        names: with the first orders that the timeline settled on.
        texts: the names' bytes.
        lives: whose they are.
    """

    def __init__(self, names: TimelineNames, texts: list[bytes], lives: TimelineInstances) -> None:
        self.names, self.lives = names, lives
        self._texts = texts
        self._cache: dict[int, tuple[int, int, bytes | None]] = {}

    @cached_property
    def _row_starts(self) -> Rows:
        return row_bounds(self.names.life, len(self.lives))

    def name_rows_at(self, life: Int64s, when: Int64s) -> Rows:
        """Row of a name of each life at that time, -1 for none."""
        if not len(self.names):
            return np.full(len(life), -1)
        names = self.names
        row = self._row_starts[life + 1] - 1
        result = np.full(len(life), -1)
        open_ones = np.arange(len(life))
        for _ in range(MAX_NAMES_TRIED):
            open_ones = open_ones[row[open_ones] >= self._row_starts[life[open_ones]]]
            if not len(open_ones):
                break
            at = row[open_ones]
            fits = (names.first[at] <= when[open_ones]) & (when[open_ones] < names.gone[at])
            result[open_ones[fits]] = at[fits]
            open_ones = open_ones[~fits]
            row[open_ones] -= 1
        return result

    def last_removed_rows(self, life: Int64s, when: Int64s) -> Rows:
        """Row of the newest name of each life, when it went at or before that time, else -1."""
        if not len(self.names):
            return np.full(len(life), -1)
        row = self._row_starts[life + 1] - 1
        known = (row >= self._row_starts[life]) & (self.names.gone[row] <= when)
        return np.where(known, row, -1)

    def path_at(self, row: int, when: int) -> bytes | None:
        """The path that a name stood for at a time, None when a directory's name is not known."""
        folder = self._directory_path(int(self.names.folder[row]), when)[2]
        return None if folder is None else folder + b"/" + self.name_of(row)

    def name_of(self, row: int) -> bytes:
        """The name alone."""
        return self._texts[int(self.names.text[row])]

    def _directory_path(self, life: int, when: int) -> tuple[int, int, bytes | None]:
        """(from, until, path) of a directory around a time."""
        chain: list[tuple[int, int]] = []
        seen: set[int] = set()
        while True:
            known = self._cached(life, when)
            if known is not None or life in seen or len(chain) > DEPTH_LIMIT:
                break
            seen.add(life)
            row = self._name_row_at(life, when)
            if row < 0:
                known = (when, when + 1, None)
                break
            chain.append((life, row))
            life = int(self.names.folder[row])
        begin, end, path = known if known is not None else (when, when + 1, None)
        for one, row in reversed(chain):
            path = None if path is None else path + b"/" + self.name_of(row)
            first, gone = int(self.names.first[row]), int(self.names.gone[row])
            inside = first <= when < gone
            begin, end = (max(begin, first), min(end, gone)) if inside else (when, when + 1)
            self._cache[one] = (begin, end, path)
        return begin, end, path

    def _cached(self, life: int, when: int) -> tuple[int, int, bytes | None] | None:
        if self.lives.number[life] == ROOT:
            return TID_BEFORE_LOG, int(TID_ON_DISK) + 1, b""
        found = self._cache.get(life)
        return found if found is not None and found[0] <= when < found[1] else None

    def _name_row_at(self, life: int, when: int) -> int:
        """The name in force, else the one that went last before; -1 for none."""
        start, end = int(self._row_starts[life]), int(self._row_starts[life + 1])
        first, gone = self.names.first[start:end], self.names.gone[start:end]
        fits = np.flatnonzero((first <= when) & (when < gone))
        if len(fits):
            return start + int(fits[0])
        over = np.flatnonzero(gone <= when)
        return start + int(over[np.argmax(gone[over])]) if len(over) else -1
