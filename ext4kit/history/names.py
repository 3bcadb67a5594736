"""Names over time: the names of each instance, their directories and their validity.

Linux 5.13 and later clear removed entries. Names therefore come from earlier copies of directory
blocks in the log and from freed directory blocks on disk. The copies of a block show when an entry
was added and removed; the inode states show which instance the number referred to at that time.
Earlier kernels leave removed entries, which have no time (`history/removed.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.lookup import AsOfIndex, SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.history.directory_blocks import TID_BEFORE_LOG, DirectoryBlockHistory
from ext4kit.history.entry_intervals import SLACK_ENTRY, EntryIntervals, find_entry_intervals
from ext4kit.history.history import TID_ON_DISK, TID_PRE_FAST_COMMIT, History
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.history.places import FOREVER, DirectoryPlace, Ground, LiveDirectories
from ext4kit.history.removed import (
    Bond,
    Removed,
    bind_instances,
    directory_times,
    distinct_slack_entries,
    last_ctimes,
)
from ext4kit.history.transaction_starts import CLOCK_RESOLUTION
from ext4kit.parsers.directory import MODES
from ext4kit.units import NANOSECONDS

DIRECTORY = 4  # file type in the upper bits of `i_mode`
DIRECTORY_TYPE = 2  # file type in entries
EXTRA_CTIME = 8  # smallest `i_extra_isize` with nanoseconds in ctime
OWN_LINKS = 2  # of a directory: its name and its entry `.`
MAX_DEPTH = 4096  # nesting depth; hostile directories can form loops


@dataclass(frozen=True, slots=True)
class NameTable(Table):
    """Names of instances as columns, sorted by instance and time; the last name comes last.

    Attributes:
        instance: the named instance.
        directory: instance of the directory, as in `DirBlockVersions`.
        valid_from: tid of the first copy with the name, TID_BEFORE_LOG if it is older than that.
        in_force_by: tid by which the name was in force, even if transactions are missing.
        removed: tid of the first copy without the name, TID_ON_DISK if there is none.
        last_seen: tid of the last copy with the name, TID_BEFORE_LOG for a freed block on disk,
            SLACK_ENTRY for a removed entry that was not cleared.
        block: block of the entry, as in `DirBlockVersions`.
        source: last source of the entry, as in `DirBlockVersions`; at: its byte offset there.
        name: the names.
    """

    instance: Int64s
    directory: Int64s
    valid_from: Int64s
    in_force_by: Int64s
    removed: Int64s
    last_seen: Int64s
    block: Int64s
    source: Int64s
    at: Int64s
    name: list[bytes]


class NameHistory:
    """Names and paths of a file system's instances over time."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._paths: dict[tuple[int, int], bytes | None] = {}
        blocks = DirectoryBlockHistory(history)
        directories = history.states.table.number[blocks.directory_states]
        wanted = np.union1d(history.number[~history.is_allocated], directories)
        found = find_entry_intervals(blocks, wanted, with_slack=True)
        self.removed = self._bind_removed(found)
        logged = found.take(np.flatnonzero(found.last_seen != SLACK_ENTRY))
        instance = self._instance_at(logged.inode, logged.last_seen, np.ones(len(logged), bool))
        is_uncertain = self._journal_gap_behind(logged.inode, logged.last_seen)
        is_uncertain &= self._journal_gap_behind(logged.inode, logged.first_seen) | (
            logged.first_seen < 0
        )
        # If transactions are missing, a freed block on disk may be newer than the start of the log.
        is_uncertain |= (logged.last_seen == TID_BEFORE_LOG) & self.history.gaps.any_lost_between(
            TID_BEFORE_LOG, blocks.freed_tids(logged.directory)
        )
        instance[is_uncertain & ~self._is_only_instance[instance]] = -1
        if len(instance):
            instance[(instance >= 0) & ~self._type_matches(logged.file_type, instance)] = -1
        self.unattributed = logged.take(np.flatnonzero(instance < 0))
        named = np.flatnonzero(self.removed.bond == Bond.NAMED)
        names = EntryIntervals.concat([logged, self.removed.found.take(named)])
        instance = np.append(instance, self.removed.instance[named])
        self.name_table = self._to_name_table(names, instance)
        every = np.arange(history.instance_count)
        self._row_ends: Rows = np.searchsorted(self.name_table.instance, every, side="right")

    # -- names of instances ---------------------------------------------------------------

    def _bind_removed(self, intervals: EntryIntervals) -> Removed:
        """The removed entries that were not cleared, with their instances."""
        history, entries = self.history, distinct_slack_entries(intervals)
        found, states = entries.found, history.states
        if not len(entries) or not len(states):
            return entries
        instance = self._instance_at(found.inode, found.removed, np.zeros(len(found), bool))
        uncertain = self._journal_gap_behind(found.inode, found.removed)
        instance[uncertain & ~self._is_only_instance[instance]] = NO_ROW
        # The removed entries of an earlier instance of the number look the same.
        numbers = states.table.number[history.by_inode]
        first = np.searchsorted(numbers, history.number[instance])
        was_reused = states.instance[history.by_inode[first]] != instance
        fits = self._type_matches(found.file_type, instance)
        until = self._commit_times(entries.first)
        return bind_instances(history, entries, instance, was_reused, fits, until)

    def _to_name_table(self, found: EntryIntervals, instance: Int64s) -> NameTable:
        """Intervals with their instances as a `NameTable`."""
        real = np.array([name not in (b".", b"..") for name in found.name], bool)
        kept = np.flatnonzero((instance >= 0) & real & (instance != found.directory))
        # makes the order of ties stable
        kept = np.array(sorted(kept.tolist(), key=found.name.__getitem__), np.int64)
        last_tid, removed_tid = found.last_seen[kept], found.removed[kept]
        first, in_force_by = self._start_bounds(found.take(kept))
        rank = np.lexsort((first, last_tid, removed_tid, np.minimum(last_tid, 0), instance[kept]))
        kept = kept[rank]
        last_tid, removed_tid = last_tid[rank], removed_tid[rank]
        return NameTable(
            instance[kept],
            found.directory[kept],
            self._no_overlapping_names(instance[kept], first[rank], last_tid, removed_tid),
            in_force_by[rank],
            removed_tid,
            last_tid,
            found.block[kept],
            found.source[kept],
            found.at[kept],
            [found.name[row] for row in kept.tolist()],
        )

    def _no_overlapping_names(
        self, instance: Int64s, first: Int64s, last_tid: Int64s, removed_tid: Int64s
    ) -> Int64s:
        """`valid_from` for directories, which have one name at a time."""
        states = self.history.states
        if not len(instance):
            return first
        directory = states.table.mode[np.searchsorted(states.instance, instance)] >> 12 == DIRECTORY
        follows = directory[1:] & (instance[1:] == instance[:-1])
        follows &= (last_tid[:-1] >= 0) & (removed_tid[:-1] <= last_tid[1:])
        bounded = np.maximum(first[1:], removed_tid[:-1])
        return np.append(first[:1], np.where(follows, bounded, first[1:]))

    def _start_bounds(self, found: EntryIntervals) -> tuple[Int64s, Int64s]:
        """(`valid_from`, `in_force_by`) of `NameTable` for each interval.

        Adding a name sets the ctime of the inode. If the first copy of a block is of the
        transaction in which the ctime changed, that transaction may have added the name. A ctime
        in whole seconds may hide a second change, and so may one in the clock tick in which the
        transaction started. Source: kernel fs/ext4/namei.c, `ext4_rename`.
        """
        states = self.history.states
        at = self.history.rows_at(found.inode, found.first_seen)
        if not len(states):
            return found.valid_from, found.first_seen
        resolution = np.where(states.table.extra_isize >= EXTRA_CTIME, 0, NANOSECONDS - 1)
        same = ~starts_group(states.instance, states.table.ctime) & (resolution == 0)
        start = np.maximum.accumulate(np.where(same, 0, np.arange(len(same))))[at]
        end = states.table.ctime[start] + resolution[start]
        is_known = (start > 0) & (states.instance[start - 1] == states.instance[start])
        is_known &= resolution[start] == 0
        recent = end >= self.history.started_after(found.first_seen)
        earlier = np.minimum(states.tid[start], found.first_seen)
        changed = np.where((at >= 0) & ~recent, earlier, found.first_seen)
        was_added = (at >= 0) & (changed == found.first_seen)
        was_added &= found.first_seen < TID_PRE_FAST_COMMIT
        was_added &= (found.valid_from == TID_BEFORE_LOG) & (found.last_seen >= 0)
        was_added &= is_known | recent
        old = (at >= 0) & ~is_known & (end < min(self.history.commit_times.values(), default=0))
        first = np.where(was_added, found.first_seen, found.valid_from)
        return first, np.where(old, TID_BEFORE_LOG, changed)

    def _type_matches(self, file_types: Int64s, instance: Int64s) -> Bools:
        """True for each entry without a file type or with that of the instance."""
        kind = MODES[np.minimum(file_types, len(MODES) - 1)]
        states = self.history.states
        first = np.searchsorted(states.instance, np.maximum(instance, 0))
        matches: Bools = (kind == 0) | (kind == states.table.mode[first] >> 12)
        return matches

    def _instance_at(self, numbers: Int64s, tids: Int64s, linked: Bools) -> Int64s:
        """Instance of each inode number as of a tid; -1 if unknown.

        Args:
            numbers: inode numbers.
            tids: one per number.
            linked: True where the instance had a name at that tid; else the name may just have
                been removed.

        Without a state at or before the tid, the first known state counts if its inode was created
        before that transaction committed. An untagged state counts only if the number has no other
        instance.
        """
        history, states = self.history, self.history.states
        if not len(states):
            return np.full(len(numbers), NO_ROW)
        row = history.rows_at(numbers, tids)
        by_number = states.table.number[history.by_inode]
        first = SortedIndex(by_number).rows(numbers)
        exists, earliest = first != NO_ROW, history.by_inode[first]
        older = states.table.crtime[earliest] <= self._commit_times(tids, known_by=True)
        row = np.where((row < 0) & exists & older, earliest, row)
        instance = np.where(row >= 0, states.instance[row], NO_ROW)
        instance[(row >= 0) & states.untagged[row] & ~self._is_only_instance[instance]] = -1
        freed = (states.table.links_count[row] == 0) & (states.tid[row] < tids + linked)
        return np.where((row >= 0) & freed & (tids != TID_BEFORE_LOG), NO_ROW, instance)

    def _journal_gap_behind(self, numbers: Int64s, tids: Int64s) -> Bools:
        """True where an unknown instance may have used the inode number as of a tid.

        Transactions after its last state before the tid are missing, and the log does not show the
        same instance after them.
        """
        states, rows = self.history.states, self.history.rows_at(numbers, tids)
        if not len(states):
            return np.zeros(len(numbers), bool)
        lost = (rows >= 0) & self.history.gaps.any_lost_between(states.tid[rows], tids)
        goes_on = np.append(states.instance[1:] == states.instance[:-1], False)
        return lost & ~(goes_on[rows] & (tids < self.history.gaps.restarted_at))

    @cached_property
    def _is_only_instance(self) -> Bools:
        """True for each instance whose number has no other known instance."""
        number = self.history.number
        same = np.append(False, number[1:] == number[:-1])
        only: Bools = ~(same | np.append(same[1:], False))
        return only

    def _commit_times(self, tids: Int64s, known_by: bool = False) -> Int64s:
        """Commit times, ns; the maximum of int64 where unknown.

        With `known_by`, a transaction in the log without a commit block gets a lower bound: the
        time of the previous commit, or just before the latest change in its copies.
        """
        unknown = np.iinfo(np.int64).max
        if self.history.log is None:
            return np.full(len(tids), unknown)
        known, times = self.history.transaction_starts.tids, self.history.transaction_starts.times
        at = np.searchsorted(known, TID_BEFORE_LOG)
        keys = np.insert(known, at, TID_BEFORE_LOG)
        times = np.insert(times, at, times.min(initial=unknown))
        place = np.maximum(np.searchsorted(keys, tids, side="right") - 1, 0)
        exact = keys[place] == tids
        if not known_by:
            return np.where(exact, times[place], unknown)
        bound = np.where(exact | (keys[place] != TID_BEFORE_LOG), times[place], 0)
        later = np.where(exact, 0, self.history.transaction_starts.latest_changes(tids) - 1)
        return np.where(tids < TID_PRE_FAST_COMMIT, np.maximum(bound, later), unknown)

    # -- paths ----------------------------------------------------------------------------

    @cached_property
    def _live_parents(self) -> dict[int, tuple[int, bytes]]:
        """Inode number of each live directory -> (that of its parent, its name)."""
        tree = self.history.fs.tree()
        rows = np.flatnonzero(np.isin(tree.file_type, (0, 2)))
        numbers = tree.inode[rows].tolist()
        by_path = {b"": ROOT} | dict(zip(tree.paths_of(rows), numbers, strict=True))
        directories = [by_path.get(path) for path in tree.folders]
        above = map(directories.__getitem__, tree.folder[rows].tolist())
        places = zip(numbers, above, tree.names.take(rows).tolist(), strict=True)
        return {
            number: (directory, name) for number, directory, name in places if directory is not None
        }

    @cached_property
    def _allocated_instance_of(self) -> dict[int, int]:
        """Inode number -> instance, for allocated instances."""
        instances = np.flatnonzero(self.history.is_allocated)
        return dict(zip(self.history.number[instances].tolist(), instances.tolist(), strict=True))

    def last_name_rows(self, instances: Int64s) -> Rows:
        """Row in `name_table` of the last name of each instance; -1 for none."""
        end = self._row_ends[instances]
        if not len(self.name_table.instance):
            return np.full(len(instances), NO_ROW)
        return np.where(
            (end > 0) & (self.name_table.instance[end - 1] == instances), end - 1, NO_ROW
        )

    def paths_at_removal(self, rows: Int64s, removal_tids: Int64s) -> list[bytes | None]:
        """Full paths of rows of `name_table` as of the removal of their instances.

        If transactions before the removal are missing, the path is as of the last copy with the
        name.

        Args:
            rows: rows of `name_table`.
            removal_tids: tids of the removals.

        Returns:
            The paths; None where a directory of the path has no known name.
        """
        names = self.name_table
        last_tid = np.minimum(names.last_seen[rows], TID_ON_DISK - 1)
        when = np.minimum(names.removed[rows], removal_tids) - 1
        when = np.where(self.history.gaps.any_lost_between(last_tid, when), last_tid, when)
        directory = names.directory[rows]
        removed_tid = self._directory_removed(directory)
        empty = (removed_tid <= when) & ~self.history.gaps.any_lost_between(removed_tid - 1, when)
        when = np.where(empty, removed_tid - 1, when)  # the removed directory was empty after that
        when = np.maximum(when, np.maximum(names.valid_from[rows], last_tid))
        directories = map(self.directory_path, directory.tolist(), when.tolist())
        return [
            None if directory is None else directory + b"/" + names.name[row]
            for directory, row in zip(directories, rows.tolist(), strict=True)
        ]

    def places(self, rows: Int64s, removal_tids: Int64s) -> list[DirectoryPlace | None]:
        """As `paths_at_removal`, with the evidence for each path.

        Where the journal gives no path, the directory may still be live. The evidence is then as
        of the last copy of the entry, and for a removed entry as of the last ctime of its instance.
        """
        names = self.name_table
        paths: list[bytes | None] = [None] * len(rows)
        logged = np.flatnonzero(names.last_seen[rows] != SLACK_ENTRY)
        known = self.paths_at_removal(rows[logged], removal_tids[logged])
        for at, path in zip(logged.tolist(), known, strict=True):
            paths[at] = path
        named = np.flatnonzero(self.removed.bond == Bond.NAMED)
        slack, instances = self.removed.found.take(named), self.removed.instance[named].tolist()
        in_slack = set(zip(instances, slack.directory.tolist(), slack.name, strict=True))
        times = last_ctimes(self.history)[names.instance[rows]]
        copied = self._commit_times(names.last_seen[rows[logged]], True)
        times[logged] = np.minimum(times[logged], copied)
        found: list[DirectoryPlace | None] = []
        for row, path, time in zip(rows.tolist(), paths, times.tolist(), strict=True):
            place = None if path is None else DirectoryPlace(path, Ground.JOURNAL)
            directory = int(names.directory[row])
            entry = int(names.instance[row]), directory, names.name[row]
            is_slack = bool(names.last_seen[row] == SLACK_ENTRY)
            if path is None and (not is_slack or entry in in_slack):
                seen = TID_BEFORE_LOG if is_slack else int(names.last_seen[row])
                above = self.directory_place(directory, time, seen)
                place = above and DirectoryPlace(above.path + b"/" + names.name[row], above.ground)
            found.append(place)
        return found

    def directory_place(
        self, directory: int, time: int, seen: int = TID_BEFORE_LOG
    ) -> DirectoryPlace | None:
        """Path of a directory (as in `directory_path`) at a time (ns); None if unknown.

        A deleted directory with one known name had that name from the time on at which it was
        added. One with several had the one that was in force at the time, or as of `seen`, the tid
        of a state before it.
        """
        when = max(self.tid_before(time), seen)
        below, passed = b"", set[int]()
        while directory not in passed:
            passed.add(directory)
            if (place := self._own_place(directory, time)) is not None:
                return DirectoryPlace(place.path + below, Ground.PRESENT_PLACE) if below else place
            if directory < 0 or self.history.is_allocated[directory]:
                return None
            row = self._deleted_directory_row(directory, when)
            if row < 0:
                return None
            below = b"/" + self.name_table.name[row] + below
            directory = int(self.name_table.directory[row])
        return None

    def _deleted_directory_row(self, directory: int, when: int) -> int:
        """Row in `name_table` of a deleted directory's name as of a tid; -1 if unknown."""
        names = self.name_table
        row = int(self.last_name_rows(np.array([directory]))[0])
        rows = range(int(np.searchsorted(names.instance, directory)), row + 1)
        if len({(int(names.directory[one]), names.name[one]) for one in rows}) > 1:
            row = self._name_row_at(directory, when)
            return row if names.valid_from[row] <= when < names.removed[row] else NO_ROW
        is_unknown = when == TID_BEFORE_LOG and self.history.gaps.restarted_at != NO_RESTART
        return row if is_unknown or names.valid_from[row] <= when else NO_ROW

    def _own_place(self, directory: int, time: int) -> DirectoryPlace | None:
        """As `directory_place`, for a live directory or one with a path in the journal."""
        when = self.tid_before(time)
        if when != TID_BEFORE_LOG and (path := self.directory_path(directory, when)) is not None:
            return DirectoryPlace(path, Ground.JOURNAL)
        row = -1
        if directory < 0 or self.history.is_allocated[directory]:
            row = int(self.live.rows(np.array([self._inode_of(directory)]))[0])
        if row < 0 or self.live.newest[row] > time:
            return None
        is_proven = self.live.moved[row] < time
        if not is_proven and self._last_left[row] >= time:
            return None
        path = self.live.path(self._inode_of(directory))
        ground = Ground.PROVEN if is_proven else Ground.PRESENT_PLACE
        return None if path is None else DirectoryPlace(path, ground)

    @cached_property
    def live(self) -> LiveDirectories:
        """The live directories."""
        return LiveDirectories(self.history.fs, self._live_parents)

    @cached_property
    def _last_left(self) -> Int64s:
        """Per live directory: latest time (ns) at which it or a parent may have left another path.

        Removed entries and names in the journal show other paths; the last change of the parent
        there is the latest time. A change of the inode without its entries may be a rename. So
        may the change after a state of the parent with too few links for its present directories.
        """
        numbers, names = self.history.number, self.name_table
        allocated = np.flatnonzero(self.history.is_allocated[names.instance])
        found = self.removed.found
        left = np.flatnonzero(np.isin(found.file_type, (0, DIRECTORY_TYPE)))
        child = np.append(numbers[names.instance[allocated]], found.inode[left])
        above = np.append(names.directory[allocated], found.directory[left])
        until = np.append(self._commit_times(names.removed[allocated]), np.full(len(left), FOREVER))
        touched, _ = directory_times(self.history, above)
        until = np.minimum(until, touched)
        past_names = [names.name[row] for row in allocated.tolist()]
        past_names += [found.name[row] for row in left.tolist()]
        row = self.live.rows(child)
        result = self.live.renamed.copy()
        here = np.flatnonzero((row >= 0) & (self.live.created[row] <= until + NANOSECONDS))
        for at in here.tolist():
            stands = self.live.parent_and_name(int(child[at]))
            if stands != (self._inode_of(int(above[at])), past_names[at]):
                result[row[at]] = max(int(result[row[at]]), int(until[at]))
        received, change = self._received_later()
        np.maximum.at(result, received, change)
        return self.live.max_with_ancestors(result)

    def _received_later(self) -> tuple[Rows, Int64s]:
        """(row in `live`, ctime of the parent, ns) of directories moved in by then, maybe.

        A directory has a link for each directory in it, and two of its own (kernel
        fs/ext4/namei.c, `ext4_inc_count`). Where a state has fewer than the directories that are
        in it now and were created before, one of these was moved in with a later change.
        """
        states, live = self.history.states, self.live
        links, parent = states.table.links_count, live.rows(states.table.number)
        rows = np.flatnonzero((parent >= 0) & states.table.is_dir & (links >= OWN_LINKS))
        rows = rows[self.history.is_allocated[states.instance[rows]] & ~states.untagged[rows]]
        child = np.flatnonzero((live.created > 0) & (live.parent != np.arange(len(live.number))))
        child = child[np.lexsort((live.created[child], live.parent[child]))]
        newest = AsOfIndex(live.parent[child], live.created[child])
        last = newest.rows(parent[rows], states.table.ctime[rows])
        first = np.searchsorted(live.parent[child], parent[rows])
        count = np.where(last == NO_ROW, 0, last + 1 - first)
        few = np.flatnonzero(count > links[rows] - OWN_LINKS)
        goes_on = np.append(states.instance[1:] == states.instance[:-1], False)
        following = np.where(goes_on, np.append(states.table.ctime[1:], FOREVER), FOREVER)
        at, position = expand(count[few])
        return child[first[few][at] + position], following[rows[few]][at]

    def _directory_removed(self, directories: Int64s) -> Int64s:
        """Tid at which the last name of each directory was removed; TID_ON_DISK if unknown."""
        rows = self.last_name_rows(np.maximum(directories, 0))
        removed = np.append(self.name_table.removed, TID_ON_DISK)[rows]
        return np.where((directories < 0) | (rows < 0), TID_ON_DISK, removed)

    def tid_before(self, time: int) -> int:
        """Tid whose state is that just before a time (ns).

        TID_BEFORE_LOG for a time before the end of the first transaction, and if the journal
        restarted its ids. Since Linux 6.13 the times of an inode can be later than its commit.
        """
        starts = self.history.transaction_starts
        tids, times = starts.tids, starts.times + CLOCK_RESOLUTION
        place = int(np.searchsorted(times, time))
        if place == 0 or self.history.gaps.restarted_at != NO_RESTART:
            return TID_BEFORE_LOG
        return int(tids[place]) - 1 if place < len(tids) else int(TID_ON_DISK) - 1

    def directory_path(self, instance: int, when: int) -> bytes | None:
        """Path of a directory as of a tid; a negative instance is minus a live inode number."""
        below: list[tuple[int, bytes]] = []
        while (instance, when) not in self._paths and len(below) < MAX_DEPTH:
            self._paths[instance, when] = None  # ends a loop of names
            if self._inode_of(instance) == ROOT:
                self._paths[instance, when] = b""
            elif (above := self._parent_of(instance, when)) is not None:
                below.append((instance, above[1]))
                instance = above[0]
        path = self._paths.get((instance, when))
        for one, name in reversed(below):
            path = None if path is None else path + b"/" + name
            self._paths[one, when] = path
        return path

    def _inode_of(self, instance: int) -> int:
        return -instance if instance < 0 else int(self.history.number[instance])

    def _parent_of(self, instance: int, when: int) -> tuple[int, bytes] | None:
        """(instance of the parent, name) of a directory as of a tid; None if unknown.

        A directory without a state in the log had no other name in the period of the log.
        """
        row, names = -1 if instance < 0 else self._name_row_at(instance, when), self.name_table
        if row >= 0 and names.valid_from[row] <= when < names.removed[row]:
            known = int(names.directory[row]), names.name[row]
            return None if self._is_uncertain(row, when) else known
        if instance >= 0 and not self.history.is_allocated[instance]:
            return None
        if row >= 0 and names.valid_from[self._row_ends[instance] - 1] > when:
            return None  # the present name is newer, and the earlier one is unknown
        directory, name = self._live_parents.get(self._inode_of(instance), (0, b""))
        if not directory or not self._not_renamed_since(self._inode_of(instance), directory, when):
            return None
        return self._allocated_instance_of.get(directory, -directory), name

    def _not_renamed_since(self, number: int, directory: int, when: int) -> bool:
        """Whether a live directory has kept its parent and name since a tid.

        Missing transactions may have moved it; a move sets its ctime and that of its parent
        (kernel fs/ext4/namei.c, `ext4_rename`). e2fsck moves without the journal.
        """
        connected = self.live.connected(number)
        if not connected and not self.history.gaps.any_lost_between(when, int(TID_ON_DISK)):
            return True
        tids, times = self.history.transaction_starts.tids, self.history.transaction_starts.times
        place = int(np.searchsorted(tids, when, side="right")) - 1
        moved = self.history.fs.inode_table(np.array([number, directory])).ctime
        latest = max(int((moved + NANOSECONDS).min()), connected)
        return place >= 0 and latest <= int(times[place])

    def _is_uncertain(self, row: int, when: int) -> bool:
        """Whether the name in `row` of `name_table` may not have been in force as of a tid.

        It is if the name was added later, if missing transactions may have moved the instance, or
        if the name is a removed entry, which has no time.
        """
        names, breaks = self.name_table, self.history.gaps
        in_force_by, last_tid = int(names.in_force_by[row]), int(names.last_seen[row])
        lost = breaks.any_lost_between(last_tid, when) or breaks.any_lost_between(when, in_force_by)
        if breaks.restarted_at <= when < TID_PRE_FAST_COMMIT and in_force_by >= 0:
            # a transaction with a lower tid may be newer
            lost |= breaks.any_lost_between(in_force_by, when)
        return bool(names.valid_from[row] > when or last_tid == SLACK_ENTRY or lost)

    def _name_row_at(self, instance: int, when: int) -> int:
        """Row in `name_table` of the name in force as of a tid, else the nearest one; -1 for none.

        A directory has one name at a time: of several candidates, the first one to be removed was
        in force, and the others started at its removal.
        """
        end = int(self._row_ends[instance])
        start = int(np.searchsorted(self.name_table.instance, instance))
        if start == end:
            return -1
        first = self.name_table.valid_from[start:end]
        removed_tid = self.name_table.removed[start:end]
        distance = np.maximum(np.maximum(first - when, when - removed_tid + 1), 0)
        best = np.flatnonzero(distance == distance.min())
        logged = best[self.name_table.last_seen[start:end][best] >= 0]
        if distance[best[0]] == 0 and len(logged):
            return start + int(logged[0])
        return start + int(best[-1])
