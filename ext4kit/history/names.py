"""Names over time: which life had which name in which directory, and when.

Since Linux 5.13 a removed entry is wiped, so names come from earlier copies of directory
blocks in the log, and from freed directory blocks on disk. Copies of one block show when an
entry came and when it went; the states of inodes show which life a number meant at that time.
Earlier kernels leave removed entries, which tell no time (`history/removed.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import starts_group
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.history.beginnings import CLOCK_RESOLUTION
from ext4kit.history.directory_blocks import TID_BEFORE_LOG, DirectoryBlockHistory
from ext4kit.history.entry_intervals import SLACK_ENTRY, EntryIntervals, find_entry_intervals
from ext4kit.history.history import TID_ON_DISK, UNREPLAYED, History
from ext4kit.history.journal_gaps import NO_RESTART
from ext4kit.history.places import FOREVER, DirectoryPlace, Ground, LiveFolders
from ext4kit.history.removed import Bond, Removed, bound, changed, distinct, folder_times
from ext4kit.parsers.directory import MODES
from ext4kit.units import NANOSECONDS

DIRECTORY = 4  # upper bits of i_mode
DIRECTORY_TYPE = 2  # as entries say it
EXTRA_CTIME = 8  # i_extra_isize from which on ctime has nanoseconds
MAX_DEPTH = 4096  # directories in each other; hostile names can go on and on


@dataclass(frozen=True, slots=True)
class NameTable(Table):
    """Names that lives had, as columns, by life, the last one of a life at its end.

    Attributes:
        instance: who was named.
        directory: life of the directory.
        valid_from: order of the first copy that shows the name, TID_BEFORE_LOG when it was there
            already.
        in_force_by: order since which the bearer cannot have got it, neither in lost transactions.
        removed: order of the first copy without it, TID_ON_DISK when none shows that it went.
        last_seen: order of the last copy that shows it, TID_BEFORE_LOG for a freed block on disk,
            SLACK_ENTRY for an entry that older kernels left uncleared.
        block: the block that the entry stood in, as in `Versions`.
        source: what it was last read from, as in `Versions`; at: the entry's offset in that.
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
    """Builds `NameTable` and paths from a file system's history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.blocks = DirectoryBlockHistory(history)
        self._paths: dict[tuple[int, int], bytes | None] = {}

    # -- names of lives -------------------------------------------------------------------

    @cached_property
    def _interesting(self) -> Int64s:
        """Inode numbers whose names matter: deleted ones and directories."""
        history, states = self.history, self.history.states
        directories = states.table.number[self.blocks.directory_states]
        return np.union1d(history.number[~history.is_allocated], directories)

    @cached_property
    def _appearances(self) -> EntryIntervals:
        """Entries that name an interesting number, and all removed ones."""
        return find_entry_intervals(self.blocks, self._interesting, remnants=True)

    @cached_property
    def removed(self) -> Removed:
        """All removed entries that were not cleared, and whose they were."""
        history, entries = self.history, distinct(self._appearances)
        found = entries.found
        if not len(entries) or not len(history.states):
            return entries
        life = self._instance_at(found.inode, found.removed, np.zeros(len(found), bool))
        life[self._journal_gap_behind(found.inode, found.removed) & ~self._only_instance[life]] = -1
        reborn, fits = self._number_was_reused(life), self._type_matches(found.file_type, life)
        return bound(history, entries, life, reborn, fits, self._commit_times(entries.first))

    @cached_property
    def _logged(self) -> tuple[EntryIntervals, Int64s]:
        """The entries that were in use in some version, and whose they were, -1 if not known."""
        found = self._appearances
        found = found.take(np.flatnonzero(found.last_seen != SLACK_ENTRY))
        return found, self._lives_of(found)

    @property
    def unattributed(self) -> EntryIntervals:
        """The entries that were in use in some version of which no instance is known."""
        found, life = self._logged
        return found.take(np.flatnonzero(life < 0))

    @cached_property
    def name_table(self) -> NameTable:
        """Every name of an interesting number, told apart by life."""
        (logged, life), removed = self._logged, self.removed
        named = np.flatnonzero(removed.bond == Bond.NAMED)
        parts = [logged, removed.found.take(named)]
        return self._table(EntryIntervals.concat(parts), np.append(life, removed.life[named]))

    def _lives_of(self, found: EntryIntervals) -> Int64s:
        """Which life each number meant when its name was last seen, -1 when none is known."""
        life = self._instance_at(found.inode, found.last_seen, np.ones(len(found), bool))
        unsure = self._journal_gap_behind(found.inode, found.last_seen)
        unsure &= self._journal_gap_behind(found.inode, found.first_seen) | (found.first_seen < 0)
        # With transactions lost, what is on disk need not be from before the log begins.
        ends = self.blocks.freed_tids(found.directory)
        unsure |= (found.last_seen == TID_BEFORE_LOG) & self.history.gaps.any_lost_between(
            TID_BEFORE_LOG, ends
        )
        life[unsure & ~self._only_instance[life]] = -1
        if len(life):
            life[(life >= 0) & ~self._type_matches(found.file_type, life)] = -1
        return life

    def _table(self, found: EntryIntervals, life: Int64s) -> NameTable:
        """Appearances and whose they are as names."""
        real = np.array([name not in (b".", b"..") for name in found.name], bool)
        kept = np.flatnonzero((life >= 0) & real & (life != found.directory))
        kept = np.array(sorted(kept.tolist(), key=found.name.__getitem__), np.int64)  # for ties
        seen, gone = found.last_seen[kept], found.removed[kept]
        first, sure = self._start_bounds(found.take(kept))
        rank = np.lexsort((first, seen, gone, np.minimum(seen, 0), life[kept]))
        kept = kept[rank]
        return NameTable(
            life[kept],
            found.directory[kept],
            self._no_overlapping_names(life[kept], first[rank], seen[rank], gone[rank]),
            sure[rank],
            found.removed[kept],
            found.last_seen[kept],
            found.block[kept],
            found.source[kept],
            found.at[kept],
            [found.name[row] for row in kept.tolist()],
        )

    def _no_overlapping_names(
        self, life: Int64s, first: Int64s, seen: Int64s, gone: Int64s
    ) -> Int64s:
        """`first` of `NameTable`: a directory has one name at a time, none before the last went."""
        states = self.history.states
        if not len(life):
            return first
        folder = states.table.mode[np.searchsorted(states.life, life)] >> 12 == DIRECTORY
        follows = folder[1:] & (life[1:] == life[:-1]) & (seen[:-1] >= 0) & (gone[:-1] <= seen[1:])
        return np.append(first[:1], np.where(follows, np.maximum(first[1:], gone[:-1]), first[1:]))

    def _start_bounds(self, found: EntryIntervals) -> tuple[Int64s, Int64s]:
        """(`first`, `sure`) of `NameTable` for each appearance.

        Whatever names an inode sets its ctime. Where the first copy of a block is of the
        transaction in which the bearer's ctime changed, that one may have brought the name.
        A ctime of whole seconds need not show a second change, nor one of the tick in which
        that transaction began. Source: kernel fs/ext4/namei.c, `ext4_rename`.
        """
        states = self.history.states
        at = self.history.rows_at(found.inode, found.first_seen)
        if not len(states):
            return found.valid_from, found.first_seen
        start = self._first_state_with_ctime[at]
        end = states.table.ctime[start] + self._ctime_resolution[start]
        told = (start > 0) & (states.life[start - 1] == states.life[start])
        told &= self._ctime_resolution[start] == 0
        changed = np.where(
            at >= 0, np.minimum(states.tid[start], found.first_seen), found.first_seen
        )
        recent = end >= self.history.begun(found.first_seen)
        changed = np.where(recent, found.first_seen, changed)
        came = (at >= 0) & (changed == found.first_seen) & (found.first_seen < UNREPLAYED)
        came &= (found.valid_from == TID_BEFORE_LOG) & (found.last_seen >= 0)
        came &= told | recent
        old = (at >= 0) & ~told & (end < min(self.history.commit_times.values(), default=0))
        first = np.where(came, found.first_seen, found.valid_from)
        return first, np.where(old, TID_BEFORE_LOG, changed)

    @cached_property
    def _ctime_resolution(self) -> Int64s:
        """Per state: by how much its ctime may be too early, ns."""
        return np.where(self.history.states.table.extra_isize >= EXTRA_CTIME, 0, NANOSECONDS - 1)

    @cached_property
    def _first_state_with_ctime(self) -> Rows:
        """Per state: row of the first one that shows that life with the same ctime."""
        states, ctime = self.history.states, self.history.states.table.ctime
        new = starts_group(states.life, ctime) | (self._ctime_resolution > 0)
        return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))

    def _number_was_reused(self, life: Int64s) -> Bools:
        """Per life (bool): its number had another life before, whose remnants look the same."""
        history, states = self.history, self.history.states
        numbers = states.table.number[history.by_inode]
        first = states.life[history.by_inode[np.searchsorted(numbers, history.number[life])]]
        return np.asarray(first != life)

    def _type_matches(self, file_types: Int64s, life: Int64s) -> Bools:
        """Per entry (bool): its file type, where it tells one, is that of the life."""
        kind = MODES[np.minimum(file_types, len(MODES) - 1)]
        states = self.history.states
        first = np.searchsorted(states.life, np.maximum(life, 0))
        matches: Bools = (kind == 0) | (kind == states.table.mode[first] >> 12)
        return matches

    def _instance_at(self, numbers: Int64s, orders: Int64s, linked: Bools) -> Int64s:
        """The life that each inode number meant at that time, -1 when none is known.

        Args:
            numbers: inode numbers.
            orders: the times.
            linked: it had a name right then (bool), or else may just have lost it.

        Where the log shows no state that early, the number's first known state decides, if
        its inode was created before that transaction was committed. A state of which the log
        does not tell when it ended decides only where the number has no other life.
        """
        history, states = self.history, self.history.states
        if not len(states):
            return np.full(len(numbers), -1)
        row = history.rows_at(numbers, orders)
        by_number = states.table.number[history.by_inode]
        first = SortedIndex(by_number).rows(numbers)
        exists, earliest = first != NO_ROW, history.by_inode[first]
        older = states.table.crtime[earliest] <= self._commit_times(orders, known_by=True)
        row = np.where((row < 0) & exists & older, earliest, row)
        life = np.where(row >= 0, states.life[row], -1)
        life[(row >= 0) & states.untagged[row] & ~self._only_instance[life]] = -1
        dead = (states.table.links_count[row] == 0) & (states.tid[row] < orders + linked)
        return np.where((row >= 0) & dead & (orders != TID_BEFORE_LOG), -1, life)

    def _journal_gap_behind(self, numbers: Int64s, orders: Int64s) -> Bools:
        """Per inode number (bool): at that time another life may have had it than is known.

        The log lacks transactions since its last state before that, and does not show the same
        life after them.
        """
        states, rows = self.history.states, self.history.rows_at(numbers, orders)
        if not len(states):
            return np.zeros(len(numbers), bool)
        lost = (rows >= 0) & self.history.gaps.any_lost_between(states.tid[rows], orders)
        goes_on = np.append(states.life[1:] == states.life[:-1], False)
        return lost & ~(goes_on[rows] & (orders < self.history.gaps.restarted_at))

    @cached_property
    def _only_instance(self) -> Bools:
        """Per life (bool): no other one of its number is known."""
        number = self.history.number
        same = np.append(False, number[1:] == number[:-1])
        only: Bools = ~(same | np.append(same[1:], False))
        return only

    def _commit_times(self, orders: Int64s, known_by: bool = False) -> Int64s:
        """When the transactions were committed, ns; the far future where that is not known.

        With `known_by` a transaction in the log without a commit block has a lower bound of it: the
        time of the commit before, or just before the latest change that its copies show.
        """
        far = np.iinfo(np.int64).max
        if self.history.log is None:
            return np.full(len(orders), far)
        known, times = self.history.beginnings.known, self.history.beginnings.times
        at = np.searchsorted(known, TID_BEFORE_LOG)
        keys, times = (
            np.insert(known, at, TID_BEFORE_LOG),
            np.insert(times, at, times.min(initial=far)),
        )
        place = np.maximum(np.searchsorted(keys, orders, side="right") - 1, 0)
        exact = keys[place] == orders
        if not known_by:
            return np.where(exact, times[place], far)
        bound = np.where(exact | (keys[place] != TID_BEFORE_LOG), times[place], 0)
        later = np.where(exact, 0, self.history.beginnings.latest_changes(orders) - 1)
        return np.where(orders < UNREPLAYED, np.maximum(bound, later), far)

    # -- paths ----------------------------------------------------------------------------

    @cached_property
    def _live_folders(self) -> dict[int, tuple[int, bytes]]:
        """Inode number of each live directory -> (that of the one it is in, its name)."""
        tree = self.history.fs.tree()
        rows = np.flatnonzero(np.isin(tree.file_type, (0, 2)))
        numbers = tree.inode[rows].tolist()
        by_path = {b"": ROOT} | dict(zip(tree.paths_of(rows), numbers, strict=True))
        folders = [by_path.get(path) for path in tree.folders]
        above = map(folders.__getitem__, tree.folder[rows].tolist())
        places = zip(numbers, above, tree.names.take(rows).tolist(), strict=True)
        return {number: (folder, name) for number, folder, name in places if folder is not None}

    @cached_property
    def _living(self) -> dict[int, int]:
        """Inode number -> life, of those that are alive now."""
        lives = np.flatnonzero(self.history.is_allocated)
        return dict(zip(self.history.number[lives].tolist(), lives.tolist(), strict=True))

    @cached_property
    def _row_ends(self) -> Rows:
        """Per life: one past its last row in `name_table`."""
        return np.searchsorted(
            self.name_table.instance, np.arange(self.history.instance_count), side="right"
        )

    def last_name_rows(self, lives: Int64s) -> Rows:
        """Row in `name_table` of the last name of each life, -1 where none is known."""
        end = self._row_ends[lives]
        if not len(self.name_table.instance):
            return np.full(len(lives), -1)
        return np.where((end > 0) & (self.name_table.instance[end - 1] == lives), end - 1, -1)

    def paths_at_removal(self, rows: Int64s, deaths: Int64s) -> list[bytes | None]:
        """The full paths that rows of `name_table` stood for when their bearers were removed.

        Where the log lacks transactions before a removal, the path is that of the time when
        the name was last seen.

        Args:
            rows: rows of `name_table`.
            deaths: orders of the removals.

        Returns:
            The paths; None where a directory on the way has no known name.
        """
        names = self.name_table
        seen = np.minimum(names.last_seen[rows], TID_ON_DISK - 1)
        when = np.minimum(names.removed[rows], deaths) - 1
        when = np.where(self.history.gaps.any_lost_between(seen, when), seen, when)
        folder = names.directory[rows]
        gone = self._directory_removed(folder)
        empty = (gone <= when) & ~self.history.gaps.any_lost_between(gone - 1, when)
        when = np.where(empty, gone - 1, when)  # nothing was in it after that
        when = np.maximum(when, np.maximum(names.valid_from[rows], seen))
        folders = map(self.directory_path, folder.tolist(), when.tolist())
        return [
            None if folder is None else folder + b"/" + names.name[row]
            for folder, row in zip(folders, rows.tolist(), strict=True)
        ]

    def places(self, rows: Int64s, deaths: Int64s) -> list[DirectoryPlace | None]:
        """As `paths_at_removal`, with what each path rests on.

        A removed entry does not tell when it went: that is taken to be the time (ns) at which its
        inode was freed.
        """
        names = self.name_table
        paths: list[bytes | None] = [None] * len(rows)
        logged = np.flatnonzero(names.last_seen[rows] != SLACK_ENTRY)
        for at, path in zip(
            logged.tolist(), self.paths_at_removal(rows[logged], deaths[logged]), strict=True
        ):
            paths[at] = path
        times = changed(self.history)[names.instance[rows]].tolist()
        found: list[DirectoryPlace | None] = []
        for row, path, time in zip(rows.tolist(), paths, times, strict=True):
            place = None if path is None else DirectoryPlace(path, Ground.JOURNAL)
            folder = int(names.directory[row])
            if (
                path is None
                and (int(names.instance[row]), folder, names.name[row]) in self._standing
            ):
                above = self.folder_place(folder, time)
                place = above and DirectoryPlace(above.path + b"/" + names.name[row], above.ground)
            found.append(place)
        return found

    @cached_property
    def _standing(self) -> set[tuple[int, int, bytes]]:
        """(life, directory, name) of the removed entries that are names of lives."""
        named = np.flatnonzero(self.removed.bond == Bond.NAMED)
        found = self.removed.found.take(named)
        lives = self.removed.life[named].tolist()
        return set(zip(lives, found.directory.tolist(), found.name, strict=True))

    def folder_place(self, folder: int, time: int) -> DirectoryPlace | None:
        """Where a directory (as in `directory_path`) stood at a time (ns), None if that is unknown.

        One that is gone stood where it was when it went itself.
        """
        below, passed = b"", set[int]()
        while folder not in passed:
            passed.add(folder)
            if (place := self._told_place(folder, time)) is not None:
                return DirectoryPlace(place.path + below, Ground.PRESENT_PLACE) if below else place
            row = -1 if folder < 0 else int(self.last_name_rows(np.array([folder]))[0])
            if row < 0 or self.history.is_allocated[folder]:
                return None
            below = b"/" + self.name_table.name[row] + below
            folder = int(self.name_table.directory[row])
        return None

    def _told_place(self, folder: int, time: int) -> DirectoryPlace | None:
        """The same of one that lives, or of which the log tells."""
        when = self.before(time)
        if when != TID_BEFORE_LOG and (path := self.directory_path(folder, when)) is not None:
            return DirectoryPlace(path, Ground.JOURNAL)
        row = -1
        if folder < 0 or self.history.is_allocated[folder]:
            row = int(self.live.rows(np.array([self._inode_of(folder)]))[0])
        if row < 0 or self.live.newest[row] > time:
            return None
        is_proven = self.live.moved[row] < time
        if not is_proven and self._left[row] >= time:
            return None
        path = self.live.path(self._inode_of(folder))
        ground = Ground.PROVEN if is_proven else Ground.PRESENT_PLACE
        return None if path is None else DirectoryPlace(path, ground)

    @cached_property
    def live(self) -> LiveFolders:
        """The directories that live."""
        return LiveFolders(self.history.fs, self._live_folders)

    @cached_property
    def _left(self) -> Int64s:
        """Per live directory: the latest time (ns) at which it, or one above it, left a place.

        Removed entries tell of such a place, and names in the log; it was left by the last change
        of the directory there. A directory that changed without its entries can have been renamed.
        """
        numbers, names = self.history.number, self.name_table
        alive = np.flatnonzero(self.history.is_allocated[names.instance])
        found = self.removed.found
        left = np.flatnonzero(np.isin(found.file_type, (0, DIRECTORY_TYPE)))
        child = np.append(numbers[names.instance[alive]], found.inode[left])
        above = np.append(names.directory[alive], found.directory[left])
        until = np.append(self._commit_times(names.removed[alive]), np.full(len(left), FOREVER))
        touched, _ = folder_times(self.history, above)
        until = np.minimum(until, touched)
        told = [names.name[row] for row in alive.tolist()]
        told += [found.name[row] for row in left.tolist()]
        row = self.live.rows(child)
        result = self.live.renamed.copy()
        here = np.flatnonzero((row >= 0) & (self.live.created[row] <= until + NANOSECONDS))
        for at in here.tolist():
            stands = self.live.stands_at(int(child[at]))
            if stands != (self._inode_of(int(above[at])), told[at]):
                result[row[at]] = max(int(result[row[at]]), int(until[at]))
        return self.live.highest(result)

    def _directory_removed(self, folders: Int64s) -> Int64s:
        """Order at which the last name of each directory went, TID_ON_DISK where none is known."""
        rows = np.where(folders < 0, -1, self.last_name_rows(np.maximum(folders, 0)))
        return np.where(
            rows < 0, TID_ON_DISK, np.append(self.name_table.removed, TID_ON_DISK)[rows]
        )

    def before(self, time: int) -> int:
        """The order as of which all is as it was just before a time (ns).

        TID_BEFORE_LOG for a time before the log's first transaction was over, and where the log
        counts anew. Since Linux 6.13 an inode's times can be later than that of the commit they
        are in.
        """
        orders, times = (
            self.history.beginnings.known,
            self.history.beginnings.times + CLOCK_RESOLUTION,
        )
        place = int(np.searchsorted(times, time))
        if place == 0 or self.history.gaps.restarted_at != NO_RESTART:
            return TID_BEFORE_LOG
        return int(orders[place]) - 1 if place < len(orders) else int(TID_ON_DISK) - 1

    def directory_path(self, life: int, when: int) -> bytes | None:
        """Path of a directory at a time; a life below 0 is minus a live inode's number."""
        below: list[tuple[int, bytes]] = []
        while (life, when) not in self._paths and len(below) < MAX_DEPTH:
            self._paths[life, when] = None  # should the names go round, they end here
            if self._inode_of(life) == ROOT:
                self._paths[life, when] = b""
            elif (above := self._parent_of(life, when)) is not None:
                below.append((life, above[1]))
                life = above[0]
        path = self._paths.get((life, when))
        for one, name in reversed(below):
            path = None if path is None else path + b"/" + name
            self._paths[one, when] = path
        return path

    def _inode_of(self, life: int) -> int:
        return -life if life < 0 else int(self.history.number[life])

    def _parent_of(self, life: int, when: int) -> tuple[int, bytes] | None:
        """(life of the directory it was in, its name) at a time, None when that is not known.

        What the log has no state of had no other name while it was kept.
        """
        row, names = -1 if life < 0 else self._name_row_at(life, when), self.name_table
        if row >= 0 and names.valid_from[row] <= when < names.removed[row]:
            known = int(names.directory[row]), names.name[row]
            return None if self._is_uncertain(row, when) else known
        if life >= 0 and not self.history.is_allocated[life]:
            return None
        if row >= 0 and names.valid_from[self._row_ends[life] - 1] > when:
            return None  # its present name came later, and the one it had is not known
        folder, name = self._live_folders.get(self._inode_of(life), (0, b""))
        if not folder or not self._not_renamed_since(self._inode_of(life), folder, when):
            return None
        return self._living.get(folder, -folder), name

    def _not_renamed_since(self, number: int, folder: int, when: int) -> bool:
        """Whether a live directory has been where it is since a time.

        Transactions that the log lacks may have moved it; that sets its ctime and that of the
        directory above (kernel fs/ext4/namei.c, `ext4_rename`).
        """
        if not self.history.gaps.any_lost_between(when, int(TID_ON_DISK)):
            return True
        orders, times = self.history.beginnings.known, self.history.beginnings.times
        place = int(np.searchsorted(orders, when, side="right")) - 1
        moved = self.history.fs.inode_table(np.array([number, folder])).ctime
        return place >= 0 and int((moved + NANOSECONDS).min()) <= times[place]

    def _is_uncertain(self, row: int, when: int) -> bool:
        """Whether the name in row `row` of `name_table` may not have been in force.

        It came there later, from where the log does not show; or the bearer may have moved in
        transactions that the log has no more. What a removed entry says may be long gone.
        """
        names, breaks = self.name_table, self.history.gaps
        sure, seen = int(names.in_force_by[row]), int(names.last_seen[row])
        lost = breaks.any_lost_between(seen, when) or breaks.any_lost_between(when, sure)
        if breaks.restarted_at <= when < UNREPLAYED and sure >= 0:
            lost |= breaks.any_lost_between(
                sure, when
            )  # what has a lower order may have come later
        return bool(names.valid_from[row] > when or seen == SLACK_ENTRY or lost)

    def _name_row_at(self, life: int, when: int) -> int:
        """Row in `name_table` of the name in force at a time, the nearest one else, -1 for none.

        A directory has one name at a time: of several that may have been in force, all but the
        first to go began when that one went.
        """
        end = int(self._row_ends[life])
        start = int(np.searchsorted(self.name_table.instance, life))
        if start == end:
            return -1
        first, gone = self.name_table.valid_from[start:end], self.name_table.removed[start:end]
        far = np.maximum(np.maximum(first - when, when - gone + 1), 0)
        best = np.flatnonzero(far == far.min())
        logged = best[self.name_table.last_seen[start:end][best] >= 0]
        if far[best[0]] == 0 and len(logged):
            return start + int(logged[0])
        return start + int(best[-1])
