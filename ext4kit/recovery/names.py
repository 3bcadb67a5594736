"""Last names and paths of deleted files and directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.filesystem.inodes import ROOT
from ext4kit.history import History
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.inode_states import TID_NONE, TID_ON_DISK
from ext4kit.history.names import commit_times
from ext4kit.history.paths import PathHistory
from ext4kit.history.places import DirectoryPlace, Ground
from ext4kit.history.removed import SAME_DELETION_WINDOW, last_ctimes
from ext4kit.history.wiping import Wiping, find_wipings
from ext4kit.recovery.candidates import Candidates
from ext4kit.recovery.deletion import transaction_times
from ext4kit.recovery.found_entries import (
    FoundEntries,
    assign_entries,
    directory_instances,
    is_former_directory,
)
from ext4kit.recovery.provenance import FREED_BLOCK, OLD_COPY, UNREPLAYED_BLOCK, name_source


@dataclass(frozen=True, slots=True)
class KnownName:
    """The last name of an instance.

    Attributes:
        name: the name.
        path: full path, None if a directory has no known name.
        partial_path: if the path is unknown, the known part of it below `inode-NUMBER-GENERATION`,
            which stands for a directory without a known name.
        source: provenance of the name.
        ground: evidence for the path; None without a path.
    """

    name: bytes
    path: bytes | None
    partial_path: bytes | None
    source: str
    ground: Ground | None = None

    @property
    def known_path(self) -> bytes:
        """The path or the known part of it; empty if no part is known."""
        return self.path or self.partial_path or b""


@dataclass(frozen=True, slots=True)
class CandidateNames:
    """Names of all candidates.

    Attributes:
        names: the last name of each candidate, None if unknown.
        others: other full paths of each candidate, removed together with the last one (hard links).
        former: full paths that each candidate had before the last one, oldest first.
        rows: row of `paths.names.table` (n,) with each name, NO_ROW for names from other sources.
        paths: names and paths over time.
        unattributed: found entries that are not the last name of an instance.
        wiped: the wiping of each candidate that belongs to a wiped file. The last name of such a
            file is the one before those that the wiping program gave it, if that is known.
    """

    names: list[KnownName | None]
    others: dict[int, tuple[bytes, ...]]
    former: dict[int, tuple[bytes, ...]]
    rows: Rows
    paths: PathHistory
    unattributed: FoundEntries
    wiped: Mapping[int, Wiping]


def name_candidates(
    history: History, candidates: Candidates, entries: FoundEntries
) -> CandidateNames:
    """The last name of each candidate, from directories over time, else from found entries.

    An earlier version has the name that the file had then.

    Args:
        history: the states.
        candidates: the candidates.
        entries: entries of unallocated and untagged directory blocks.
    """
    instances = history.states.instance[candidates.state_row]
    earlier = candidates.superseded
    paths = PathHistory(history, instances[earlier])
    found_paths = FoundEntryPaths(history, paths, entries)
    source = cache(partial(name_source, transaction_times(history.log)))
    freed = np.where(candidates.freed_tid == TID_NONE, TID_ON_DISK, candidates.freed_tid)
    rows = paths.last_name_rows(instances)
    rows[earlier] = paths.name_rows_at(instances[earlier], freed[earlier] - 1)
    wiped = _wiped(history, paths, instances)
    for candidate, wiping in wiped.items():
        if wiping.true_row != NO_ROW and not earlier[candidate]:
            rows[candidate] = wiping.true_row
    nameless = np.where((rows < 0) & ~earlier, instances, -1)
    names = [found_paths.name_of(instance) for instance in nameless.tolist()]
    named = np.flatnonzero(rows >= 0)
    name_row = rows[named]
    stood = _places(paths, candidates, named, name_row, freed[named])
    table = paths.names.table
    columns = named.tolist(), name_row.tolist(), table.last_seen[name_row].tolist(), stood
    for candidate, row, seen, place in zip(*columns, strict=True):
        name, source_text = table.name[row], source(seen)
        if place is not None:
            names[candidate] = KnownName(name, place.path, None, source_text, place.ground)
            continue
        instance = int(instances[candidate])
        other = found_paths.name_of(instance)
        if other is None or other.name != name:
            other = found_paths.name_below(int(table.directory[row]), instance, name)
        names[candidate] = replace(other or KnownName(name, None, None, ""), source=source_text)
    _add_names_before_replay(names, rows, wiped, earlier)
    others, former = _further_paths(paths, candidates, named, name_row, freed[named])
    for candidate in wiped.keys() & former.keys():  # without the names of the program
        every, given = former[candidate], wiped[candidate].names
        former[candidate] = tuple(one for one in every if one.rpartition(b"/")[2] not in given)
    return CandidateNames(names, others, former, rows, paths, found_paths.unattributed, wiped)


def _add_names_before_replay(
    names: list[KnownName | None], rows: Rows, wiped: Mapping[int, Wiping], earlier: Bools
) -> None:
    """Give wiped files the names that only the disk as it is has, in their last directories."""
    for candidate, wiping in wiped.items():
        known, name = names[candidate], wiping.true_name
        if known is None or name is None or wiping.true_row != NO_ROW or earlier[candidate]:
            continue
        path, partial_path = (
            None if one is None else one.rpartition(b"/")[0] + b"/" + name
            for one in (known.path, known.partial_path)
        )
        names[candidate] = KnownName(name, path, partial_path, UNREPLAYED_BLOCK, known.ground)
        rows[candidate] = NO_ROW


def _wiped(history: History, paths: PathHistory, instances: Int64s) -> dict[int, Wiping]:
    """Candidate -> wiping, for candidates of wiped instances."""
    wipings = find_wipings(history, paths.names.table)
    candidates = np.flatnonzero(np.isin(instances, list(wipings))).tolist()
    return {candidate: wipings[int(instances[candidate])] for candidate in candidates}


def _places(
    paths: PathHistory, candidates: Candidates, named: Rows, name_row: Rows, freed: Int64s
) -> list[DirectoryPlace | None]:
    """Path of each name: for a deleted file at its removal, for an earlier version at its end."""
    earlier = candidates.superseded[named]
    found: list[DirectoryPlace | None] = [None] * len(named)
    last, then = np.flatnonzero(~earlier), np.flatnonzero(earlier)
    ctime = paths.history.states.table.ctime[candidates.state_row[named[then]]]
    for at, place in zip(last.tolist(), paths.places(name_row[last], freed[last]), strict=True):
        found[at] = place
    places = paths.places_at(name_row[then], freed[then] - 1, ctime)
    for at, place in zip(then.tolist(), places, strict=True):
        found[at] = place
    return found


def _further_paths(
    paths: PathHistory, candidates: Candidates, named: Rows, last: Rows, freed: Int64s
) -> tuple[dict[int, tuple[bytes, ...]], dict[int, tuple[bytes, ...]]]:
    """(other paths at the end, earlier paths), each as candidate -> full paths.

    The names of a renamed file were in force one after the other. A name that was removed long
    before the last one was removed separately.

    Args:
        paths: names and paths over time.
        candidates: the candidates.
        named: rows of the candidates (n,) with a name.
        last: row of the last name of each candidate.
        freed: tid at which each candidate ended.
    """
    table, states = paths.names.table, paths.history.states
    instance = table.instance[last]
    start = np.searchsorted(table.instance, instance)
    owner, position = expand(np.searchsorted(table.instance, instance, side="right") - start)
    row, final = start[owner] + position, last[owner]
    kept = (row != final) & (table.last_seen[row] >= 0)
    owner, row, final = owner[kept], row[kept], final[kept]
    linked = np.zeros(paths.history.instance_count, np.int64)
    np.maximum.at(linked, states.instance, states.table.links_count * ~states.table.is_dir)
    times = [commit_times(paths.history, table.removed[at]) for at in (row, final)]
    together = (times[1] - times[0] < SAME_DELETION_WINDOW) | (times[0] == times[1])
    together &= (table.valid_from[final] < table.removed[row]) & (row < final)
    then = freed[owner] - 1
    in_force = (table.valid_from[row] <= then) & (then < table.removed[row])
    other = np.where(candidates.superseded[named[owner]], in_force, together)
    other &= linked[instance[owner]] > 1
    before = ~other & (table.removed[row] <= np.minimum(table.removed[final], freed[owner]))
    found: list[dict[int, tuple[bytes, ...]]] = []
    for chosen, until in ((other, freed[owner]), (before, table.removed[row])):
        one: dict[int, tuple[bytes, ...]] = {}
        candidate = named[owner[chosen]]
        places = _places(paths, candidates, candidate, row[chosen], until[chosen])
        for at, place in zip(candidate.tolist(), places, strict=True):
            if place is not None and place.path not in one.get(at, ()):
                one[at] = (*one.get(at, ()), place.path)
        found.append(one)
    return found[0], found[1]


class FoundEntryPaths:
    """Names from found entries, for instances without a name in the journal.

    A directory may have been renamed after a file in it was deleted. The name used for it in a path
    is the one that it had when the file was deleted or the copy was written, if the log covers that
    time. For a live directory, its present name is used if its ctime or that of its parent is
    older, because a rename sets both (kernel fs/ext4/namei.c, `ext4_rename`). For a deleted
    directory, its last name is used if it was deleted soon after the file. If the `..` entry in an
    earlier copy of a directory's first block names another directory than its present parent, its
    present place is not used for the entries in that copy.

    Args:
        history: the instances.
        paths: paths from names in the log and in known directories; these take precedence.
        found: entries of directory blocks found elsewhere.
    """

    def __init__(self, history: History, paths: PathHistory, found: FoundEntries) -> None:
        self._history = history
        self._paths = paths
        instance, row = assign_entries(history, found)
        self.unattributed = found.take(np.setdiff1d(np.arange(len(found)), row))
        entries = found.take(row)
        self._row = {one: at for at, one in enumerate(instance.tolist())}
        self._names = entries.name.tolist()
        self._order = entries.tid.tolist()
        self._number = entries.directory.tolist()
        self._top = [
            b"inode-%d-%d" % pair if pair[1] >= 0 else b"inode-%d" % pair[0]
            for pair in zip(self._number, entries.generation.tolist(), strict=True)
        ]
        above = directory_instances(self._history, entries)
        number, directory = self._history.number, entries.directory
        bearers = np.searchsorted(number, directory, side="right")
        bearers -= np.searchsorted(number, directory)
        above[(entries.generation < 0) & (bearers > 1) & (directory != ROOT)] = -1
        now = history.fs.inode_table(entries.directory)
        linked = (now.links_count > 0) & (now.generation == entries.generation)
        linked[above >= 0] = history.is_allocated[above[above >= 0]]
        self._parent = entries.parent.tolist()
        root = (entries.directory == ROOT) & ~is_former_directory(
            entries, np.ones(len(entries), bool)
        )
        self._above, self._linked, self._root = above.tolist(), linked.tolist(), root.tolist()

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, instance: int) -> KnownName | None:
        """The name of an instance, None if unknown."""
        row = self._row.get(instance)
        if row is None:
            return None
        source = OLD_COPY if self._order[row] >= 0 else FREED_BLOCK
        parts: list[bytes] = []
        folder, seen = None, set[int]()
        while row is not None and row not in seen:
            seen.add(row)
            parts.append(self._names[row])
            last = row
            folder = self._known_place(row, instance)
            together = folder is None and self._deleted_together(row, instance)
            instance = self._above[row]
            row = self._row_of_directory(instance) if together else None
        tail = b"/".join(reversed(parts))
        if folder is not None:
            ground = folder.ground if len(parts) == 1 else Ground.PRESENT_PLACE
            return KnownName(parts[0], folder.path + b"/" + tail, None, source, ground)
        return KnownName(parts[0], None, self._top[last] + b"/" + tail, source)

    def name_below(self, directory: int, instance: int, name: bytes) -> KnownName | None:
        """A name in a directory (as in `directory_path`) whose own name is from a found entry."""
        if self._row_of_directory(directory) is None:
            return None
        above = self.name_of(directory)
        if above is None or not self._deleted_soon(directory, int(self._last_ctime[instance])):
            return None
        path, partial_path = (
            None if one is None else one + b"/" + name for one in (above.path, above.partial_path)
        )
        ground = None if path is None else Ground.PRESENT_PLACE
        return KnownName(name, path, partial_path, above.source, ground)

    def _row_of_directory(self, directory: int) -> int | None:
        """Row of the entry with the name of a directory; None if the journal has its last name.

        If the last name known otherwise is from a removed entry or a freed block, it has no time;
        the found entry is then used only if its name is the same.
        """
        row = self._row.get(directory)
        if row is None:
            return None
        last = int(self._paths.last_name_rows(np.array([directory]))[0])
        if last == NO_ROW:
            return row
        names = self._paths.names.table
        return row if names.last_seen[last] < 0 and names.name[last] == self._names[row] else None

    def _deleted_together(self, row: int, instance: int) -> bool:
        """Whether the directory of an entry was deleted soon after the named file."""
        time = self._in_force_at(row, instance)
        return not self._linked[row] and self._deleted_soon(self._above[row], time)

    def _deleted_soon(self, directory: int, time: int) -> bool:
        """Whether a directory was deleted soon after a time (ns)."""
        if directory < 0 or self._history.is_allocated[directory]:
            return False
        return int(self._last_ctime[directory]) - time < SAME_DELETION_WINDOW

    def _in_force_at(self, row: int, instance: int) -> int:
        """Latest time (ns) at which an instance certainly had the name of an entry.

        This is the deletion of the instance. For an entry from a journal copy it is at most the
        commit time of the copy, because the name may have changed afterwards.
        """
        time = int(self._last_ctime[instance])
        if self._order[row] < 0:
            return time
        return min(time, int(self._history.times_of(np.array([self._order[row]]))[0]))

    @cached_property
    def _last_ctime(self) -> Int64s:
        """Per instance: time (ns) of the last change or of the deletion."""
        return last_ctimes(self._history)

    def _known_place(self, row: int, instance: int) -> DirectoryPlace | None:
        """Path of the directory of an entry as of the deletion of the file, or of the copy.

        If the path at that time is not recorded, it is the present or last known path of the
        directory.
        """
        place, above = self._place_then(row, instance), self._above[row]
        if place is None and (self._linked[row] or above >= 0):
            folder = above if above >= 0 else -self._number[row]
            if self._parent[row] not in (0, self._paths.last_parent(folder)):
                return None
            time, tid = self._in_force_at(row, instance), max(self._order[row], TID_BEFORE_LOG)
            return self._paths.directory_place(folder, time, tid)
        return place

    def _place_then(self, row: int, instance: int) -> DirectoryPlace | None:
        number, above, linked = self._number[row], self._above[row], self._linked[row]
        if self._root[row]:
            return DirectoryPlace(b"", Ground.PROVEN)
        if self._order[row] < 0 and linked:
            live = self._paths.live
            at = int(live.rows(np.array([number]))[0])
            if at >= 0 and live.moved[at] <= self._last_ctime[instance]:
                path = live.path(number)
                return None if path is None else DirectoryPlace(path, Ground.PROVEN)
        if above < 0 and not linked:
            return None
        if self._order[row] >= 0:
            when = self._order[row]
        else:
            when = self._paths.tid_before(int(self._last_ctime[instance]))
            if when == TID_BEFORE_LOG and not self._deleted_together(row, instance):
                return None
        folder = above if above >= 0 else -number
        if self._order[row] >= 0 and self._parent[row] not in (
            0,
            self._paths.parent_at(folder, when),
        ):
            return None
        path = self._paths.directory_path(folder, when)
        ground = Ground.PRESENT_PLACE if when == TID_BEFORE_LOG else Ground.JOURNAL
        return None if path is None else DirectoryPlace(path, ground)
