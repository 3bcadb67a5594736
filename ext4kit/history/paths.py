"""Paths over time: the path of an instance at a time or as of a transaction."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.lookup import AsOfIndex
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem.directories import directories_only
from ext4kit.filesystem.filesystem import FOLDER
from ext4kit.filesystem.inodes import ROOT
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY
from ext4kit.history.first_instances import creation_times
from ext4kit.history.history import History
from ext4kit.history.inode_states import NO_NUMBERS, TID_ON_DISK, TID_PRE_FAST_COMMIT
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.history.names import DIRECTORY_TYPE, attribute_names, commit_times
from ext4kit.history.places import FOREVER, DirectoryPlace, Ground, LiveDirectories
from ext4kit.history.removed import Bond, directory_times, last_ctimes
from ext4kit.history.transaction_starts import CLOCK_RESOLUTION
from ext4kit.memory import release_freed_memory
from ext4kit.units import NANOSECONDS

OWN_LINKS = 2  # links of an empty directory: its name and its entry `.`
MAX_DEPTH = 4096  # maximum nesting depth; hostile directories can form loops


class PathHistory:
    """Paths of the instances of a file system over time.

    Attributes:
        history: the instances and their states.
        names: names of the instances.

    Args:
        history: the instances and their states.
        living: allocated instances to name in addition to directories and deleted instances.
    """

    def __init__(self, history: History, living: Int64s = NO_NUMBERS) -> None:
        self.history, self.names = history, attribute_names(history, living)
        release_freed_memory()
        self._paths: dict[tuple[int, int], bytes | None] = {}
        every = np.arange(history.instance_count)
        self._row_ends: Rows = np.searchsorted(self.names.table.instance, every, side="right")

    @cached_property
    def _live_parents(self) -> dict[int, tuple[int, bytes]]:
        """Inode number of each live directory -> (inode number of its parent, its name)."""
        tree = self.history.fs.tree(only=directories_only)
        rows = np.flatnonzero(np.isin(tree.file_type, (0, 2)))
        numbers = tree.inode[rows].tolist()
        tops = {b"": ROOT, b"/" + FOLDER: ROOT}
        by_path = tops | dict(zip(tree.paths_of(rows), numbers, strict=True))
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
        """Row in `names.table` of the last name of each instance; -1 for none."""
        end = self._row_ends[instances]
        if not len(self.names.table.instance):
            return np.full(len(instances), NO_ROW)
        is_named = (end > 0) & (self.names.table.instance[end - 1] == instances)
        return np.where(is_named, end - 1, NO_ROW)

    def name_rows_at(self, instances: Int64s, tids: Int64s) -> Rows:
        """Row in `names.table` of a name that each instance had as of a tid; -1 for none.

        A name that missing transactions may have changed by that tid does not count.
        """
        found = np.full(len(instances), NO_ROW)
        names = self.names.table
        for at, (instance, tid) in enumerate(zip(instances.tolist(), tids.tolist(), strict=True)):
            row = self._name_row_at(instance, tid)
            if row >= 0 and names.valid_from[row] <= tid < names.removed[row]:
                found[at] = NO_ROW if self._is_uncertain(row, tid) else row
        return found

    def places_at(self, rows: Rows, tids: Int64s, times: Int64s) -> list[DirectoryPlace | None]:
        """Path of each row of `names.table` as of a tid, with the evidence for the path.

        Args:
            rows: rows of names that were in force.
            tids: the tid for each row.
            times: a time (ns) at or before each tid, at which the instance existed.
        """
        names, found = self.names.table, list[DirectoryPlace | None]()
        columns = rows.tolist(), tids.tolist(), times.tolist()
        for row, tid, time in zip(*columns, strict=True):
            directory = int(names.directory[row])
            path = self.directory_path(directory, tid)
            above = None if path is None else DirectoryPlace(path, Ground.JOURNAL)
            above = above or self.directory_place(directory, time, tid)
            found.append(
                above and DirectoryPlace(above.path + b"/" + names.name[row], above.ground)
            )
        return found

    def paths_at_removal(self, rows: Int64s, removal_tids: Int64s) -> list[bytes | None]:
        """Full paths of rows of `names.table` as of the removal of their instances.

        If transactions before the removal are missing, the path is that as of the last copy with
        the name.

        Args:
            rows: rows of `names.table`.
            removal_tids: tids of the removals.

        Returns:
            The paths; None where a directory of the path has no known name.
        """
        names = self.names.table
        last_tid = np.minimum(names.last_seen[rows], TID_ON_DISK - 1)
        when = np.minimum(names.removed[rows], removal_tids) - 1
        when = np.where(self.history.gaps.any_lost_between(last_tid, when), last_tid, when)
        directory = names.directory[rows]
        removed_tid = self._directory_removed(directory)
        empty = (removed_tid <= when) & ~self.history.gaps.any_lost_between(removed_tid - 1, when)
        when = np.where(empty, removed_tid - 1, when)  # the directory was empty when it was removed
        when = np.maximum(when, np.maximum(names.valid_from[rows], last_tid))
        directories = map(self.directory_path, directory.tolist(), when.tolist())
        return [
            None if directory is None else directory + b"/" + names.name[row]
            for directory, row in zip(directories, rows.tolist(), strict=True)
        ]

    def places(self, rows: Int64s, removal_tids: Int64s) -> list[DirectoryPlace | None]:
        """As `paths_at_removal`, with the evidence for each path.

        Where the journal shows no path, the path of a live directory is used. The path is then that
        as of the last copy of the entry, or, for a removed entry, as of the last ctime of its
        instance.
        """
        names = self.names.table
        paths: list[bytes | None] = [None] * len(rows)
        logged = np.flatnonzero(names.last_seen[rows] != SLACK_ENTRY)
        known = self.paths_at_removal(rows[logged], removal_tids[logged])
        for at, path in zip(logged.tolist(), known, strict=True):
            paths[at] = path
        named = np.flatnonzero(self.names.removed.bond == Bond.NAMED)
        slack = self.names.removed.found.take(named)
        instances = self.names.removed.instance[named].tolist()
        in_slack = set(zip(instances, slack.directory.tolist(), slack.name, strict=True))
        times = last_ctimes(self.history)[names.instance[rows]]
        made = creation_times(self.history)[names.instance[rows]].tolist()
        copied = commit_times(self.history, names.last_seen[rows[logged]], True)
        times[logged] = np.minimum(times[logged], copied)
        found: list[DirectoryPlace | None] = []
        columns = rows.tolist(), paths, times.tolist(), made, names.removed[rows].tolist()
        for row, path, time, since, removed in zip(*columns, strict=True):
            place = None if path is None else DirectoryPlace(path, Ground.JOURNAL)
            directory = int(names.directory[row])
            entry = int(names.instance[row]), directory, names.name[row]
            is_slack = bool(names.last_seen[row] == SLACK_ENTRY)
            if path is None and (not is_slack or entry in in_slack):
                seen = TID_BEFORE_LOG if is_slack else int(names.last_seen[row])
                above = None
                if not self._moved_with(directory, time, since, removed):
                    above = self.directory_place(directory, time, seen)
                place = above and DirectoryPlace(above.path + b"/" + names.name[row], above.ground)
            found.append(place)
        return found

    def directory_place(
        self, directory: int, time: int, seen: int = TID_BEFORE_LOG
    ) -> DirectoryPlace | None:
        """Path of a directory (as in `directory_path`) at a time (ns); None if unknown.

        A deleted directory with one known name had this name since the name was added. If it has
        several known names, the one in force at the time is used, or the one in force as of `seen`,
        the tid of a state before that time.
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
            below = b"/" + self.names.table.name[row] + below
            directory = int(self.names.table.directory[row])
        return None

    def _moved_with(self, directory: int, time: int, made: int, removed: int) -> bool:
        """Whether a directory may have moved in the transaction that created and removed a file.

        In that case the path before that transaction may be one that the file never had.

        Args:
            directory: directory of the file, as in `directory_path`.
            time: time of the removal of the file, ns.
            made: time of the creation of the file, ns; 0 if unknown.
            removed: tid of the first copy without the name of the file, TID_ON_DISK if there is
                none.
        """
        when = self.tid_before(time)
        if when == TID_BEFORE_LOG or made <= 0 or self.tid_before(made) < when:
            return False
        until = removed if removed < TID_ON_DISK else when + 1
        passed = set[int]()
        while directory not in passed and (above := self._parent_of(directory, when)):
            passed.add(directory)
            if any(self._may_follow(row, above, when, until) for row in self.rows_of(directory)):
                return True
            directory = above[0]
        return False

    def _may_follow(self, row: int, name: tuple[int, bytes], when: int, until: int) -> bool:
        """Whether `row` is another name that may have been in force between two tids."""
        names = self.names.table
        is_other = (int(names.directory[row]), names.name[row]) != name
        return is_other and bool(names.valid_from[row] <= until and when < names.removed[row])

    def _deleted_directory_row(self, directory: int, when: int) -> int:
        """Row in `names.table` of a deleted directory's name as of a tid; -1 if unknown."""
        names = self.names.table
        rows = self.rows_of(directory)
        if not rows:
            return NO_ROW
        has_several = len({(int(names.directory[one]), names.name[one]) for one in rows}) > 1
        row = self._name_row_at(directory, when) if has_several else rows[-1]
        seen = int(names.last_seen[row])
        if seen >= 0 and self.history.gaps.any_lost_between(seen, when):
            return NO_ROW  # lost transactions may have given it another name
        if has_several:
            return row if names.valid_from[row] <= when < names.removed[row] else NO_ROW
        if names.removed[row] <= min(when, int(self.history.linked_tids[1][directory])):
            return NO_ROW  # the directory had another name after this one
        is_unknown = when == TID_BEFORE_LOG and self.history.gaps.restarted_at != NO_RESTART
        return row if is_unknown or names.valid_from[row] <= when else NO_ROW

    def _own_place(self, directory: int, time: int) -> DirectoryPlace | None:
        """As `directory_place`, but only for a live directory or one with a path in the journal."""
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
        """Per live directory: latest time (ns) at which it or one of its parents may have moved.

        Removed entries and names in the journal show former paths; the last change of the parent in
        such a path is the latest possible time of the move. A change of a directory's inode without
        a change of its entries may be a rename. The change after a state of the parent that has too
        few links for its present directories may be a move. So may the transaction that added the
        present name, if the directory existed before; but not if that transaction only changed the
        directory's own entries or moved the entry to another block.
        """
        numbers, names = self.history.number, self.names.table
        allocated = np.flatnonzero(self.history.is_allocated[names.instance])
        found = self.names.removed.found
        left = np.flatnonzero(np.isin(found.file_type, (0, DIRECTORY_TYPE)))
        child = np.append(numbers[names.instance[allocated]], found.inode[left])
        above = np.append(names.directory[allocated], found.directory[left])
        until = commit_times(self.history, names.removed[allocated])
        until = np.append(until, np.full(len(left), FOREVER))
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
        valid_from, states = names.valid_from[allocated], self.history.states
        added = valid_from > self.history.linked_tids[0][names.instance[allocated]]
        state = self.history.rows_at(numbers[names.instance[allocated]], valid_from)
        own_entries = states.table.ctime[state] == states.table.mtime[state]
        added &= (names.last_absent[allocated] != TID_BEFORE_LOG) | ~own_entries
        came = allocated[added & (row[: len(allocated)] >= 0)]
        came = came[[not self._has_stood_there(one) for one in came.tolist()]]
        came_at = commit_times(self.history, names.valid_from[came])
        np.maximum.at(result, self.live.rows(numbers[names.instance[came]]), came_at)
        received, change = self._received_later()
        np.maximum.at(result, received, change)
        return self.live.max_with_ancestors(result)

    def _has_stood_there(self, row: int) -> bool:
        """Whether a name was in another block of the same directory until it was added to this one.

        Entries are moved when an index splits a block, and by tools that move blocks.
        """
        names, added = self.names.table, int(self.names.table.valid_from[row])
        return any(
            names.directory[one] == names.directory[row]
            and names.name[one] == names.name[row]
            and names.valid_from[one] < added <= names.removed[one]
            for one in self.rows_of(int(names.instance[row]))
        )

    def _received_later(self) -> tuple[Rows, Int64s]:
        """(row in `live`, latest time in ns) of directories that may have moved to their parent.

        A directory has one link for each directory in it and two of its own (kernel
        fs/ext4/namei.c, `ext4_inc_count`). A state of the parent may have too few links for the
        directories that were created before it and are in the parent now. One of these was then
        moved to the parent by a later change, at the latest by the one that the next state shows;
        the time is the ctime of that state.
        """
        states, live = self.history.states, self.live
        links, parent = states.table.links_count, live.rows(states.table.number)
        rows = np.flatnonzero((parent >= 0) & states.table.is_dir & (links >= OWN_LINKS))
        rows = rows[self.history.is_allocated[states.instance[rows]] & ~states.untagged[rows]]
        child = np.flatnonzero((live.created > 0) & (live.parent != np.arange(len(live.number))))
        child = child[np.lexsort((live.created[child], live.parent[child]))]
        newest = AsOfIndex(live.parent[child], live.created[child])
        ended = self.history.times_of(self.history.last_valid_tid(rows))
        valid_at = np.where(ended == FOREVER, states.table.ctime[rows], ended)
        # A directory created in the clock tick of the commit may be of the next transaction.
        last = newest.rows(parent[rows], np.maximum(valid_at, states.table.ctime[rows]) - 1)
        first = np.searchsorted(live.parent[child], parent[rows])
        count = np.where(last == NO_ROW, 0, last + 1 - first)
        few = np.flatnonzero(count > links[rows] - OWN_LINKS)
        goes_on = np.append(states.instance[1:] == states.instance[:-1], False)
        following = np.where(goes_on, np.append(states.table.ctime[1:], FOREVER), FOREVER)
        at, position = expand(count[few])
        return child[first[few][at] + position], following[rows[few]][at]

    def parent_at(self, directory: int, when: int) -> int:
        """Inode number of the parent of a directory (as in `directory_path`) as of a tid, or 0."""
        above = self._parent_of(directory, when)
        return 0 if above is None else self._inode_of(above[0])

    def last_parent(self, directory: int) -> int:
        """Inode number of the last known parent of a directory (as in `directory_path`), or 0."""
        if directory < 0 or self.history.is_allocated[directory]:
            return self.live.parent_and_name(self._inode_of(directory))[0]
        row = int(self.last_name_rows(np.array([directory]))[0])
        return 0 if row == NO_ROW else self._inode_of(int(self.names.table.directory[row]))

    def _directory_removed(self, directories: Int64s) -> Int64s:
        """Tid at which the last name of each directory was removed; TID_ON_DISK if unknown."""
        rows = self.last_name_rows(np.maximum(directories, 0))
        removed = np.append(self.names.table.removed, TID_ON_DISK)[rows]
        return np.where((directories < 0) | (rows < 0), TID_ON_DISK, removed)

    def tid_before(self, time: int) -> int:
        """Tid as of which the file system was in its state just before a time (ns).

        The result is TID_BEFORE_LOG for a time before the end of the first transaction, and
        whenever the journal restarted its ids. Since Linux 6.13 the times of an inode can be later
        than its commit.
        """
        starts = self.history.transaction_starts
        tids, times = starts.tids, starts.times + CLOCK_RESOLUTION
        place = int(np.searchsorted(times, time))
        if place == 0 or self.history.gaps.restarted_at != NO_RESTART:
            return TID_BEFORE_LOG
        return int(tids[place]) - 1 if place < len(tids) else int(TID_ON_DISK) - 1

    def directory_path(self, instance: int, when: int) -> bytes | None:
        """Path of a directory as of a tid; a negative instance is a negated live inode number."""
        below: list[tuple[int, bytes]] = []
        while (instance, when) not in self._paths and len(below) < MAX_DEPTH:
            self._paths[instance, when] = None  # stops at a loop of names
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

        A directory without a state in the log kept its name throughout the period of the log.
        """
        row, names = -1 if instance < 0 else self._name_row_at(instance, when), self.names.table
        if row >= 0 and names.valid_from[row] <= when < names.removed[row]:
            known = int(names.directory[row]), names.name[row]
            return None if self._is_uncertain(row, when) else known
        if instance >= 0 and not self.history.is_allocated[instance]:
            return None
        if row >= 0 and names.valid_from[self._row_ends[instance] - 1] > when:
            return None  # the present name is newer, and the name before it is unknown
        directory, name = self._live_parents.get(self._inode_of(instance), (0, b""))
        if not directory or not self._not_renamed_since(self._inode_of(instance), directory, when):
            return None
        return self._allocated_instance_of.get(directory, -directory), name

    def _not_renamed_since(self, number: int, directory: int, when: int) -> bool:
        """Whether a live directory has kept its parent and name since a tid.

        Missing transactions may have moved the directory; a move sets its ctime and the ctime of
        its parent (kernel fs/ext4/namei.c, `ext4_rename`). e2fsck moves directories without the
        journal.
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
        """Whether the name in `row` of `names.table` may not have been in force as of a tid.

        It is uncertain if the name was added later, if missing transactions may have moved the
        instance, if the name is a removed entry (which has no time), or if e2fsck gave the name,
        which it does without the journal.
        """
        names, breaks = self.names.table, self.history.gaps
        in_force_by, last_tid = int(names.in_force_by[row]), int(names.last_seen[row])
        lost = breaks.any_lost_between(last_tid, when) or breaks.any_lost_between(when, in_force_by)
        if breaks.restarted_at <= when < TID_PRE_FAST_COMMIT and in_force_by >= 0:
            # a transaction with a lower tid may be newer
            lost |= breaks.any_lost_between(in_force_by, when)
        number = self._inode_of(int(names.instance[row]))
        if names.name[row] == b"#%d" % number and self.live.connected(number):
            above = self._inode_of(int(names.directory[row]))
            lost |= not self._not_renamed_since(number, above, when)
        return bool(names.valid_from[row] > when or last_tid == SLACK_ENTRY or lost)

    def _name_row_at(self, instance: int, when: int) -> int:
        """Row in `names.table` of the name in force as of a tid, else of the nearest; -1 for none.

        A directory has one name at a time. Of several candidates, the name that was removed first
        was therefore in force, and the others started when it was removed. A removed entry that was
        not cleared has no start of its own; the start of the same name in the journal is used, if
        the journal shows that the name was added.
        """
        rows = self.rows_of(instance)
        if not rows:
            return -1
        names, start, end = self.names.table, rows.start, rows.stop
        first, removed_tid = names.valid_from[start:end], names.removed[start:end]
        distance = np.maximum(np.maximum(first - when, when - removed_tid + 1), 0)
        distance[self._were_added_later(start, end, when)] = TID_ON_DISK
        best = np.flatnonzero(distance == distance.min())
        logged = best[names.last_seen[start:end][best] >= 0]
        if distance[best[0]] == 0 and len(logged):
            return start + int(logged[0])
        return start + int(best[-1])

    def rows_of(self, instance: int) -> range:
        """Rows in `names.table` of an instance's names; empty for a negated live inode number."""
        if instance < 0:
            return range(0)
        start = int(np.searchsorted(self.names.table.instance, instance))
        return range(start, int(self._row_ends[instance]))

    def _were_added_later(self, start: int, end: int, when: int) -> Bools:
        """True for rows from `start` to `end` that are removed entries added after a tid.

        The journal must show this for all its intervals of the name, and must have a state of the
        instance from before the name.
        """
        names = self.names.table
        slack = names.last_seen[start:end] == SLACK_ENTRY
        if slack.all() or not slack.any():
            return np.zeros(end - start, bool)
        was_there = int(self.history.linked_tids[0][names.instance[start]])
        keys = list(zip(names.directory[start:end].tolist(), names.name[start:end], strict=True))
        added: dict[tuple[int, bytes], int] = {}
        for at in np.flatnonzero(~slack).tolist():
            tid = int(names.valid_from[start + at])
            is_known = names.last_absent[start + at] != TID_BEFORE_LOG and tid > was_there
            tid = tid if is_known else TID_BEFORE_LOG
            added[keys[at]] = min(tid, added.get(keys[at], tid))
        later: Bools = slack & np.array([added.get(key, TID_BEFORE_LOG) > when for key in keys])
        return later
