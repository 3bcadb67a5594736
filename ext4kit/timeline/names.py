"""Names of inode instances over time, per directory instead of per block, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import row_bounds, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Int64s, Rows
from ext4kit.filesystem.inodes import ROOT
from ext4kit.history import TID_ON_DISK, History
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import EntryIntervals
from ext4kit.parsers.directory import Names
from ext4kit.timeline.events import instance_keys
from ext4kit.timeline.transitions import TimelineInstances

MAX_DEPTH = 4096
MAX_NAMES_TRIED = 64  # maximum names of an instance that are tested for being in force


@dataclass(frozen=True, slots=True)
class TimelineNames(Table):
    """Names as columns, sorted by (instance, first version with the name).

    Attributes:
        instance: row of the named instance.
        directory: row of the directory's instance.
        name_key: hash of the name.
        valid_from: tid of the transaction that added the name, TID_BEFORE_LOG where the name is
            older than the journal.
        first_seen: tid of the first version with the name.
        removed: tid of the transaction that removed the name, TID_ON_DISK for none.
        added_tag, removed_tag: rows of `log.tags` of the copies that show the addition and the
            removal, -1 for none.
        last_absent, last_seen: tid of the last version before the name was added, and of the last
            version with the name; they are lower bounds of the addition and of the removal.
        name_row: index of the name in the list of the entry intervals.
    """

    instance: Int64s
    directory: Int64s
    name_key: Int64s
    valid_from: Int64s
    first_seen: Int64s
    removed: Int64s
    added_tag: Int64s
    removed_tag: Int64s
    last_absent: Int64s
    last_seen: Int64s
    name_row: Int64s


def attribute_by_overlap(
    history: History, instances: TimelineInstances, found: EntryIntervals
) -> TimelineNames:
    """Names from entry intervals, attributed to the instances of their numbers at that time."""
    directory = _directory_instances(history, instances, found)
    real = np.array([name not in (b".", b"..") for name in found.name], bool)
    kept = np.flatnonzero(real & (directory >= 0))
    row, instance = instances.rows_between(
        found.inode[kept], found.first_seen[kept], found.last_seen[kept]
    )
    row = kept[row]
    other = np.flatnonzero(instance != directory[row])
    row, instance = row[other], instance[other]
    begin, end = instances.created[instance], instances.freed[instance]
    starts_within, ends_within = begin > found.first_seen[row], end < found.removed[row]
    first = np.where(starts_within, begin, found.valid_from[row])
    names = TimelineNames(
        instance,
        directory[row],
        found.name_key[row],
        first,
        np.where(starts_within, begin, found.first_seen[row]),
        np.where(ends_within, end, found.removed[row]),
        np.where(starts_within, -1, _journal_tags(found.first_source[row], found.block[row])),
        np.where(ends_within, -1, _journal_tags(found.removal_source[row], found.block[row])),
        np.where(starts_within, begin - 1, found.last_absent[row]),
        np.where(ends_within, end - 1, found.last_seen[row]),
        row,
    )
    return _merge_blocks(names)


def _journal_tags(source: Int64s, block: Int64s) -> Int64s:
    """Rows of `log.tags`; -1 for an inline directory (negative block number) and other sources."""
    return np.where((source >= 0) & (block > 0), source, NO_ROW)


def _directory_instances(
    history: History, instances: TimelineInstances, found: EntryIntervals
) -> Int64s:
    """The instance of the directory of each interval, -1 if unknown."""
    own = found.directory < 0
    which = np.where(own, 0, found.directory)
    number = np.where(own, -found.directory, 0)
    if history.instance_count:
        number = np.where(own, number, history.number[which])
        generation = np.where(own, 0, history.generation[which])
    else:
        generation = np.zeros(len(own), np.int64)
    last = instances.rows_at(number, np.full(len(number), TID_ON_DISK))
    key = instance_keys(instances.inode, instances.generation)
    rank = np.argsort(key, kind="stable")
    wanted = instance_keys(number, generation)
    place = np.searchsorted(key[rank], wanted, side="right") - 1
    exact = np.where(place >= 0, rank[np.maximum(place, 0)], -1) if len(key) else place
    fits = (exact >= 0) & (key[np.maximum(exact, 0)] == wanted) if len(key) else own
    return np.where(own, last, np.where(fits, exact, NO_ROW))


def _merge_blocks(names: TimelineNames) -> TimelineNames:
    """Join the intervals that one name had in several blocks of its directory.

    Intervals that overlap, or follow each other without a gap, become one interval.
    """
    if not len(names):
        return names
    keys = names.removed, names.first_seen, names.name_key, names.directory, names.instance
    sort = np.lexsort(keys)
    other = starts_group(names.instance[sort], names.directory[sort], names.name_key[sort])
    group = np.cumsum(other) - 1
    orders, rank = np.unique(names.removed[sort], return_inverse=True)
    reach = np.maximum.accumulate(group * (len(orders) + 1) + rank) - group * (len(orders) + 1)
    apart = other.copy()
    apart[1:] |= names.valid_from[sort[1:]] > orders[reach[:-1]]
    start = np.flatnonzero(apart)
    end = np.append(start[1:], len(names)) - 1
    removed = orders[reach[end]]
    # Per group of rows from `start` to `end`: the row that was removed last.
    most = np.maximum.reduceat(rank, start)
    run = np.repeat(np.arange(len(start)), end - start + 1)
    rows = np.where(rank == most[run], np.arange(len(rank)), -1)
    first, last = sort[start], sort[np.maximum.reduceat(rows, start)]
    del sort, other, group, rank, reach, apart, run, rows  # before the columns of the result
    rank = np.lexsort((names.name_row[first], names.first_seen[first], names.instance[first]))
    first, last = first[rank], last[rank]
    return TimelineNames(
        names.instance[first],
        names.directory[first],
        names.name_key[first],
        names.valid_from[first],
        names.first_seen[first],
        removed[rank],
        names.added_tag[first],
        names.removed_tag[last],
        names.last_absent[first],
        names.last_seen[last],
        names.name_row[first],
    )


class PathResolver:
    """Resolves paths as of a time.

    If the calls are in order of time, each directory is looked up only once for each of its
    changes.

    Args:
        names: names with their final `valid_from`.
        texts: the bytes of the names.
        instances: the instances that the names belong to.
    """

    def __init__(
        self, names: TimelineNames, texts: list[bytes], instances: TimelineInstances
    ) -> None:
        self.names, self.instances = names, instances
        self._texts = texts
        self._cache: dict[int, tuple[int, int, bytes | None]] = {}

    @cached_property
    def _row_starts(self) -> Rows:
        return row_bounds(self.names.instance, len(self.instances))

    def name_rows_at(self, instance: Int64s, when: Int64s) -> Rows:
        """Per instance: row of a name that was in force as of the tid, -1 for none."""
        if not len(self.names):
            return np.full(len(instance), NO_ROW)
        names = self.names
        row = self._row_starts[instance + 1] - 1
        result = np.full(len(instance), NO_ROW)
        unresolved = np.arange(len(instance))
        for _ in range(MAX_NAMES_TRIED):
            unresolved = unresolved[row[unresolved] >= self._row_starts[instance[unresolved]]]
            if not len(unresolved):
                break
            at = row[unresolved]
            fits = (names.valid_from[at] <= when[unresolved]) & (
                when[unresolved] < names.removed[at]
            )
            result[unresolved[fits]] = at[fits]
            unresolved = unresolved[~fits]
            row[unresolved] -= 1
        return result

    def last_removed_rows(self, instance: Int64s, when: Int64s) -> Rows:
        """Per instance: row of its newest name if removed at or before the tid, else -1."""
        if not len(self.names):
            return np.full(len(instance), NO_ROW)
        row = self._row_starts[instance + 1] - 1
        known = (row >= self._row_starts[instance]) & (self.names.removed[row] <= when)
        return np.where(known, row, NO_ROW)

    def path_at(self, row: int, when: int) -> bytes | None:
        """The path of a name as of a tid; None if the name of a directory of it is unknown."""
        directory = self._directory_path(int(self.names.directory[row]), when)[2]
        return None if directory is None else directory + b"/" + self.name_of(row)

    def folders_at(self, rows: Rows, when: Int64s) -> tuple[Int64s, list[bytes | None]]:
        """Per name: place of the path of its directory, as of a tid, in a list; and the list.

        Each directory is resolved once per tid; a path that is unknown is None.
        """
        tids, rank = np.unique(when, return_inverse=True)
        key = rank * len(self.instances) + self.names.directory[rows]
        keys, place = np.unique(key, return_inverse=True)
        ranks, instances = np.divmod(keys, max(len(self.instances), 1))
        pairs = zip(instances.tolist(), tids[ranks].tolist(), strict=True)
        paths = [self._directory_path(instance, tid)[2] for instance, tid in pairs]
        known: dict[bytes | None, int] = {}
        code = np.array([known.setdefault(path, len(known)) for path in paths], np.int64)
        return code[place], list(known)

    def texts_of(self, rows: Rows) -> Names:
        """The names without their directories."""
        used, place = np.unique(self.names.name_row[rows], return_inverse=True)
        return Names.of([self._texts[row] for row in used.tolist()]).take(place)

    def name_of(self, row: int) -> bytes:
        """The name without its directory."""
        return self._texts[int(self.names.name_row[row])]

    def _directory_path(self, instance: int, when: int) -> tuple[int, int, bytes | None]:
        """(first tid, end tid, path) of a directory: its path as of a tid and when it was valid."""
        chain: list[tuple[int, int]] = []
        seen: set[int] = set()
        while True:
            known = self._cached(instance, when)
            if known is not None or instance in seen or len(chain) > MAX_DEPTH:
                break
            seen.add(instance)
            row = self._name_row_at(instance, when)
            if row < 0:
                known = (when, when + 1, None)
                break
            chain.append((instance, row))
            instance = int(self.names.directory[row])
        begin, end, path = known if known is not None else (when, when + 1, None)
        for one, row in reversed(chain):
            path = None if path is None else path + b"/" + self.name_of(row)
            first, removed = int(self.names.valid_from[row]), int(self.names.removed[row])
            inside = first <= when < removed
            begin, end = (max(begin, first), min(end, removed)) if inside else (when, when + 1)
            self._cache[one] = (begin, end, path)
        return begin, end, path

    def _cached(self, instance: int, when: int) -> tuple[int, int, bytes | None] | None:
        if self.instances.inode[instance] == ROOT:
            return TID_BEFORE_LOG, int(TID_ON_DISK) + 1, b""
        found = self._cache.get(instance)
        return found if found is not None and found[0] <= when < found[1] else None

    def _name_row_at(self, instance: int, when: int) -> int:
        """Row of the name in force, else of the last name removed before the tid; -1 for none."""
        start, end = int(self._row_starts[instance]), int(self._row_starts[instance + 1])
        first, removed = self.names.valid_from[start:end], self.names.removed[start:end]
        fits = np.flatnonzero((first <= when) & (when < removed))
        if len(fits):
            return start + int(fits[0])
        over = np.flatnonzero(removed <= when)
        return start + int(over[np.argmax(removed[over])]) if len(over) else -1
