"""The names of each instance: their directories and the times at which each name was in force.

Linux 5.13 and later clear removed entries. Names therefore come from earlier copies of directory
blocks in the log and from freed directory blocks on disk. The copies of a block show when an entry
was added and removed; the inode states show which instance the number referred to at that time.
Earlier kernels leave removed entries in place; such an entry has no time (`history/removed.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s
from ext4kit.history.directory_blocks import TID_BEFORE_LOG, DirectoryBlockHistory
from ext4kit.history.entry_intervals import SLACK_ENTRY, EntryIntervals, find_entry_intervals
from ext4kit.history.history import History
from ext4kit.history.inode_states import TID_PRE_FAST_COMMIT
from ext4kit.history.removed import Bond, Removed, bind_instances, distinct_slack_entries
from ext4kit.parsers.directory import MODES
from ext4kit.units import NANOSECONDS

DIRECTORY = 4  # file type in the upper bits of `i_mode`
DIRECTORY_TYPE = 2  # file type in entries
EXTRA_CTIME = 8  # smallest `i_extra_isize` with nanoseconds in ctime


@dataclass(frozen=True, slots=True)
class NameTable(Table):
    """Names of instances as columns, sorted by instance and then by time, the last name last.

    Attributes:
        instance: the named instance.
        directory: instance of the directory, as in `DirBlockVersions`.
        valid_from: tid of the first copy with the name, TID_BEFORE_LOG if the name is older than
            that copy.
        in_force_by: tid as of which the name was certainly in force, even if transactions are
            missing.
        last_absent: tid of the last copy without the name before the first copy with it,
            TID_BEFORE_LOG if there is none.
        removed: tid of the first copy without the name, TID_ON_DISK if there is none.
        last_seen: tid of the last copy with the name, TID_BEFORE_LOG for a freed block on disk,
            SLACK_ENTRY for a removed entry that was not cleared.
        block: block of the entry, as in `DirBlockVersions`.
        source: last source of the entry, as in `DirBlockVersions`; at: byte offset of the entry in
            it.
        name: the names.
    """

    instance: Int64s
    directory: Int64s
    valid_from: Int64s
    in_force_by: Int64s
    last_absent: Int64s
    removed: Int64s
    last_seen: Int64s
    block: Int64s
    source: Int64s
    at: Int64s
    name: list[bytes]


@dataclass(frozen=True, slots=True)
class InstanceNames:
    """The names of all instances, and the entries whose instance is not certain.

    Attributes:
        table: entries whose instance is known.
        removed: removed entries that were not cleared.
        unattributed: entries of the log whose instance is unknown.
    """

    table: NameTable
    removed: Removed
    unattributed: EntryIntervals


def attribute_names(history: History, living: Int64s) -> InstanceNames:
    """Attribute the entries of all directory blocks to the instances that they named.

    Args:
        history: the states.
        living: allocated instances to name in addition to directories and deleted instances.
    """
    blocks = DirectoryBlockHistory(history)
    directories = history.states.table.number[blocks.directory_states]
    wanted = np.union1d(history.number[~history.is_allocated], directories)
    wanted = np.union1d(wanted, history.number[living])
    found = _split_by_instance(history, find_entry_intervals(blocks, wanted, with_slack=True))
    removed = _bind_removed(history, found)
    logged = found.take(np.flatnonzero(found.last_seen != SLACK_ENTRY))
    instance = _instance_at(history, logged.inode, logged.last_seen, np.ones(len(logged), bool))
    is_uncertain = _journal_gap_behind(history, logged.inode, logged.last_seen)
    is_uncertain &= _journal_gap_behind(history, logged.inode, logged.first_seen) | (
        logged.first_seen < 0
    )
    # A freed block on disk may be newer than the start of the log if transactions are missing.
    is_uncertain |= (logged.last_seen == TID_BEFORE_LOG) & history.gaps.any_lost_between(
        TID_BEFORE_LOG, blocks.freed_tids(logged.directory)
    )
    instance[is_uncertain & ~_are_only_instances(history)[instance]] = -1
    if len(instance):
        instance[(instance >= 0) & ~_type_matches(history, logged.file_type, instance)] = -1
    unattributed = logged.take(np.flatnonzero(instance < 0))
    named = np.flatnonzero(removed.bond == Bond.NAMED)
    names = EntryIntervals.concat([logged, removed.found.take(named)])
    instance = np.append(instance, removed.instance[named])
    return InstanceNames(_to_name_table(history, names, instance), removed, unattributed)


def _split_by_instance(history: History, found: EntryIntervals) -> EntryIntervals:
    """The intervals, divided where the inode number was reused by another instance.

    If a file is removed and created again in one transaction, the new file can get the same inode
    number and the same entry. All copies of the directory block then show this entry.
    """
    states, by_inode = history.states, history.by_inode
    number, instance = states.table.number[by_inode], states.instance[by_inode]
    begins = ~starts_group(number) & starts_group(number, instance) & states.is_linked[by_inode]
    place = np.flatnonzero(begins)
    low, high = SortedIndex(number[place]).bounds(found.inode)
    row, position = expand(np.where(found.last_seen >= 0, high - low, 0))
    begin = states.tid[by_inode[place[low[row] + position]]]
    inside = (found.first_seen[row] < begin) & (begin <= found.last_seen[row])
    row, begin = row[inside], begin[inside]
    if not len(row):
        return found
    cut, uncut = np.unique(row), np.setdiff1d(np.arange(len(found)), row)
    # Each interval is followed by its parts, which start at the cuts; then each is ended at the
    # start of the next.
    source = np.concatenate([cut, row])
    start = np.concatenate([found.first_seen[cut], begin])
    order = np.lexsort((start, source))
    parts, is_part = found.take(source[order]), order >= len(cut)
    seen = np.maximum(_last_copied(history, parts.block, start[order]), parts.first_seen)
    parts.first_seen[is_part] = parts.valid_from[is_part] = start[order][is_part]
    parts.last_absent[is_part] = seen[is_part]
    following = np.flatnonzero(is_part)
    parts.removed[following - 1] = parts.first_seen[following]
    parts.last_seen[following - 1] = seen[following]
    return EntryIntervals.concat([found.take(uncut), parts])


def _last_copied(history: History, blocks: Int64s, before: Int64s) -> Int64s:
    """Tid of the last copy of each directory block before a tid, or the tid - 1 if none."""
    assert history.copies is not None
    rows = history.copies.newest_copies(np.maximum(blocks, 0), before - 1)
    is_copied = (rows >= 0) & (blocks > 0)
    return np.where(is_copied, history.copies.log.tags.order[rows], before - 1)


def _bind_removed(history: History, intervals: EntryIntervals) -> Removed:
    """The removed entries that were not cleared, with their instances."""
    entries = distinct_slack_entries(intervals)
    found, states = entries.found, history.states
    if not len(entries) or not len(states):
        return entries
    instance = _instance_at(history, found.inode, found.removed, np.zeros(len(found), bool))
    uncertain = _journal_gap_behind(history, found.inode, found.removed)
    instance[uncertain & ~_are_only_instances(history)[instance]] = NO_ROW
    logged = intervals.take(np.flatnonzero(intervals.last_seen >= 0))
    instance[_are_names_of_others(history, entries, instance, logged)] = NO_ROW
    # Removed entries of an earlier instance of the number cannot be told from those of this one.
    numbers = states.table.number[history.by_inode]
    first = np.searchsorted(numbers, history.number[instance])
    was_reused = states.instance[history.by_inode[first]] != instance
    was_reused |= _were_gone_before(history, entries, instance)
    fits = _type_matches(history, found.file_type, instance)
    until = commit_times(history, entries.first)
    return bind_instances(history, entries, instance, was_reused, fits, until)


def _were_gone_before(history: History, entries: Removed, instance: Int64s) -> Bools:
    """True where an entry was removed while the instance still had a link, by another name.

    The entry is then an old name of the instance, or a name of an earlier instance of the number.
    """
    linked = np.append(history.linked_tids[1], TID_BEFORE_LOG)[instance]
    gone: Bools = (entries.first != TID_BEFORE_LOG) & (entries.first <= linked)
    return gone


def _are_names_of_others(
    history: History, entries: Removed, instance: Int64s, logged: EntryIntervals
) -> Bools:
    """True where another inode had the name of a removed entry while the instance had a link.

    The removed entry was in the block at that time already. It is then an entry of an earlier
    instance, or an old name: when a directory block is split, old entries stay in it.

    Args:
        history: the states.
        entries: the removed entries.
        instance: instance of the inode number of each entry, NO_ROW if unknown.
        logged: entries in the log.
    """
    order = np.argsort(logged.name_key)
    low, high = SortedIndex(logged.name_key[order]).bounds(entries.found.name_key)
    entry, position = expand(high - low)
    other = order[low[entry] + position]
    first, last = (tids[instance[entry]] for tids in history.linked_tids)
    contradicts = (instance[entry] != NO_ROW) & (logged.inode[other] != entries.found.inode[entry])
    contradicts &= logged.directory[other] == entries.found.directory[entry]
    contradicts &= (logged.first_seen[other] <= last) & (logged.last_seen[other] >= first)
    contradicts &= entries.first[entry] <= np.minimum(logged.last_seen[other], last)
    found = np.zeros(len(entries), bool)
    found[entry[contradicts]] = True
    return found


def _to_name_table(history: History, found: EntryIntervals, instance: Int64s) -> NameTable:
    """Intervals and their instances converted to a `NameTable`."""
    real = np.array([name not in (b".", b"..") for name in found.name], bool)
    kept = np.flatnonzero((instance >= 0) & real & (instance != found.directory))
    # makes the order of equal rows stable
    kept = np.array(sorted(kept.tolist(), key=found.name.__getitem__), np.int64)
    last_tid, removed_tid = found.last_seen[kept], found.removed[kept]
    first, in_force_by = _start_bounds(history, found.take(kept))
    rank = np.lexsort((first, last_tid, removed_tid, np.minimum(last_tid, 0), instance[kept]))
    kept = kept[rank]
    last_tid, removed_tid = last_tid[rank], removed_tid[rank]
    return NameTable(
        instance[kept],
        found.directory[kept],
        _no_overlapping_names(history, instance[kept], first[rank], last_tid, removed_tid),
        in_force_by[rank],
        found.last_absent[kept],
        removed_tid,
        last_tid,
        found.block[kept],
        found.source[kept],
        found.at[kept],
        [found.name[row] for row in kept.tolist()],
    )


def _no_overlapping_names(
    history: History, instance: Int64s, first: Int64s, last_tid: Int64s, removed_tid: Int64s
) -> Int64s:
    """`valid_from`, adjusted for directories, which have one name at a time."""
    states = history.states
    if not len(instance):
        return first
    directory = states.table.mode[np.searchsorted(states.instance, instance)] >> 12 == DIRECTORY
    follows = directory[1:] & (instance[1:] == instance[:-1])
    follows &= (last_tid[:-1] >= 0) & (removed_tid[:-1] <= last_tid[1:])
    bounded = np.maximum(first[1:], removed_tid[:-1])
    return np.append(first[:1], np.where(follows, bounded, first[1:]))


def _start_bounds(history: History, found: EntryIntervals) -> tuple[Int64s, Int64s]:
    """(`valid_from`, `in_force_by`) of `NameTable` for each interval.

    Adding a name sets the ctime of the inode. If the first copy of a block is of the transaction in
    which the ctime changed, that transaction may have added the name. A second change may be hidden
    by a ctime in whole seconds, or by a ctime in the clock tick in which the transaction started.
    Source: kernel fs/ext4/namei.c, `ext4_rename`.
    """
    states = history.states
    at = history.rows_at(found.inode, found.first_seen)
    if not len(states):
        return found.valid_from, found.first_seen
    resolution = np.where(states.table.extra_isize >= EXTRA_CTIME, 0, NANOSECONDS - 1)
    same = ~starts_group(states.instance, states.table.ctime) & (resolution == 0)
    start = np.maximum.accumulate(np.where(same, 0, np.arange(len(same))))[at]
    end = states.table.ctime[start] + resolution[start]
    is_known = (start > 0) & (states.instance[start - 1] == states.instance[start])
    is_known &= resolution[start] == 0
    recent = end >= history.started_after(found.first_seen)
    earlier = np.minimum(states.tid[start], found.first_seen)
    changed = np.where((at >= 0) & ~recent, earlier, found.first_seen)
    was_added = (at >= 0) & (changed == found.first_seen)
    was_added &= found.first_seen < TID_PRE_FAST_COMMIT
    was_added &= (found.valid_from == TID_BEFORE_LOG) & (found.last_seen >= 0)
    was_added &= is_known | recent
    old = (at >= 0) & ~is_known & (end < min(history.commit_times.values(), default=0))
    first = np.where(was_added, found.first_seen, found.valid_from)
    return first, np.where(old, TID_BEFORE_LOG, changed)


def _type_matches(history: History, file_types: Int64s, instance: Int64s) -> Bools:
    """True for each entry that has no file type or the file type of the instance."""
    kind = MODES[np.minimum(file_types, len(MODES) - 1)]
    states = history.states
    first = np.searchsorted(states.instance, np.maximum(instance, 0))
    matches: Bools = (kind == 0) | (kind == states.table.mode[first] >> 12)
    return matches


def _instance_at(history: History, numbers: Int64s, tids: Int64s, linked: Bools) -> Int64s:
    """Instance of each inode number as of a tid; -1 if unknown.

    Args:
        history: the states.
        numbers: inode numbers.
        tids: one per number.
        linked: True where the instance had a name as of that tid, False where the name may just
            have been removed.

    If there is no state at or before the tid, the first known state is used, provided that its
    inode was created before that transaction was committed. An untagged state is used only if the
    number has no other instance, or if the logged state before it is of the same instance.
    """
    history, states = history, history.states
    if not len(states):
        return np.full(len(numbers), NO_ROW)
    row = history.rows_at(numbers, tids)
    by_number = states.table.number[history.by_inode]
    first = SortedIndex(by_number).rows(numbers)
    exists, earliest = first != NO_ROW, history.by_inode[first]
    older = states.table.crtime[earliest] <= commit_times(history, tids, known_by=True)
    row = np.where((row < 0) & exists & older, earliest, row)
    instance = np.where(row >= 0, states.instance[row], NO_ROW)
    unsure = states.untagged & ~_continues_logged_instance(history)
    instance[(row >= 0) & unsure[row] & ~_are_only_instances(history)[instance]] = -1
    freed = (states.table.links_count[row] == 0) & (states.tid[row] < tids + linked)
    return np.where((row >= 0) & freed & (tids != TID_BEFORE_LOG), NO_ROW, instance)


def _continues_logged_instance(history: History) -> Bools:
    """True for each state of the same instance as the last logged state of its number."""
    states, by_inode = history.states, history.by_inode
    places = np.where(states.untagged[by_inode], NO_ROW, np.arange(len(by_inode)))
    last = np.maximum.accumulate(places)
    result = np.zeros(len(states), bool)
    same = states.instance[by_inode[last]] == states.instance[by_inode]
    result[by_inode] = (last != NO_ROW) & same
    return result


def _journal_gap_behind(history: History, numbers: Int64s, tids: Int64s) -> Bools:
    """True where an unknown instance may have used the inode number as of a tid.

    This is so if transactions between the last known state of the number and the tid are missing,
    and the log does not show the same instance after them.
    """
    states, rows = history.states, history.rows_at(numbers, tids)
    if not len(states):
        return np.zeros(len(numbers), bool)
    lost = (rows >= 0) & history.gaps.any_lost_between(states.tid[rows], tids)
    goes_on = np.append(states.instance[1:] == states.instance[:-1], False)
    return lost & ~(goes_on[rows] & (tids < history.gaps.restarted_at))


def _are_only_instances(history: History) -> Bools:
    """True for each instance that is the only known instance of its inode number."""
    number = history.number
    same = np.append(False, number[1:] == number[:-1])
    only: Bools = ~(same | np.append(same[1:], False))
    return only


def commit_times(history: History, tids: Int64s, known_by: bool = False) -> Int64s:
    """Commit time of each tid, ns; the maximum of int64 where unknown.

    With `known_by`, a transaction in the log without a commit block gets a lower bound: the
    time of the previous commit, or just before the latest change in its copies.
    """
    unknown = np.iinfo(np.int64).max
    if history.log is None:
        return np.full(len(tids), unknown)
    known, times = history.transaction_starts.tids, history.transaction_starts.times
    at = np.searchsorted(known, TID_BEFORE_LOG)
    keys = np.insert(known, at, TID_BEFORE_LOG)
    times = np.insert(times, at, times.min(initial=unknown))
    place = np.maximum(np.searchsorted(keys, tids, side="right") - 1, 0)
    exact = keys[place] == tids
    if not known_by:
        return np.where(exact, times[place], unknown)
    bound = np.where(exact | (keys[place] != TID_BEFORE_LOG), times[place], 0)
    later = np.where(exact, 0, history.transaction_starts.latest_changes(tids) - 1)
    return np.where(tids < TID_PRE_FAST_COMMIT, np.maximum(bound, later), unknown)
