"""Name events: names added to and removed from directories, combined with inode transitions.

One transaction can create an inode, add names to it, remove names from it and free it. An added
name and a removed name together form a rename. The link count shows what happened to the remaining
names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int32s, Int64s, Rows
from ext4kit.history import TID_ON_DISK
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.inode_states import TID_PRE_FAST_COMMIT
from ext4kit.timeline.commits import CommitClock
from ext4kit.timeline.events import BLOCK_ROWS, CODE, EventKind, EventPool, event_table
from ext4kit.timeline.names import TimelineNames
from ext4kit.timeline.transitions import InodeStatus, StatusTransitions, TimelineInstances


@dataclass(frozen=True, slots=True)
class _TransactionSummary(Table):
    """Changes of instances in transactions, one row for each (instance, tid).

    Attributes:
        names_added, names_removed: number of names.
        names_possibly_added: number of names that this transaction may have added.
        created, freed: True where the instance was created; where it was freed.
        orphaned: True where the instance lost its last name and was not freed.
        link_delta: change of the link count; 0 where the transaction shows none.
        link_delta_known: True where the previous link count is known.
        links: link count after the transaction, NO_ROW if unknown.
        times_equal: True where all times of the inode are equal.
        transition: row of the transition, NO_ROW without one.
    """

    instance: Int64s
    tid: Int64s
    names_added: Int64s
    names_removed: Int64s
    names_possibly_added: Int64s
    created: Bools
    freed: Bools
    orphaned: Bools
    link_delta: Int32s
    link_delta_known: Bools
    links: Int32s
    times_equal: Bools
    transition: Int64s


def name_events(
    transitions: StatusTransitions,
    instances: TimelineInstances,
    names: TimelineNames,
    clock: CommitClock,
    events: EventPool,
) -> TimelineNames:
    """Add the events to the pool; `valid_from` of the names is set where they show the addition."""
    if not len(transitions):
        return names
    return _NameEventBuilder(transitions, instances, names, clock, events).build()


def _is_transaction(order: Int64s) -> Bools:
    """Per tid (bool): True for a transaction; False for fast commits and the disk."""
    return (order > TID_BEFORE_LOG) & (order < TID_PRE_FAST_COMMIT)


class _SortedNames:
    """Rows of names, grouped by the summary row that each name belongs to."""

    def __init__(self, rows: Rows, moment: Rows, moments: int) -> None:
        self._rows = rows
        self._starts = np.searchsorted(moment, np.arange(moments))

    def at(self, moment: Rows, step: Int64s | int) -> Rows:
        """The name at index `step` among the names of each summary row."""
        place: Rows = self._starts[moment] + step
        if not len(self._rows):
            return np.full(len(place), NO_ROW)
        found: Rows = self._rows[np.minimum(place, len(self._rows) - 1)]
        return found


class _NameEventBuilder:
    def __init__(
        self,
        transitions: StatusTransitions,
        instances: TimelineInstances,
        names: TimelineNames,
        clock: CommitClock,
        events: EventPool,
    ) -> None:
        self.transitions, self.instances, self.clock = transitions, instances, clock
        self.names = names
        orders = (transitions.tid, names.valid_from, names.removed, names.first_seen)
        self._orders = np.unique(np.concatenate(orders))
        self._events = events
        self._used: list[Int64s] = []  # names whose addition is shown by an event

    def build(self) -> TimelineNames:
        self.moments = self._summarize()
        self._creation_events()
        self._removal_events()
        self._change_events()
        first = self.names.valid_from.copy()
        settled = np.concatenate([[0], *self._used]).astype(np.int64)[1:]
        first[settled] = self.names.first_seen[settled]
        return replace(self.names, valid_from=first)

    # -- summary of transactions ----------------------------------------------------------

    def _key(self, instance: Int64s, order: Int64s) -> Int64s:
        return instance * len(self._orders) + np.searchsorted(self._orders, order)

    def _sorted_keys(self, chosen: Bools, tid: Int64s) -> tuple[Rows, Int64s]:
        """(rows of the chosen names, sorted by instance, tid, directory and name; their keys)."""
        rows, names = np.flatnonzero(chosen), self.names
        keys = names.name_row[rows], names.directory[rows], tid[rows], names.instance[rows]
        rows = rows[np.lexsort(keys)]
        return rows, self._key(names.instance[rows], tid[rows])

    def _summarize(self) -> _TransactionSummary:
        names, transitions, instances = self.names, self.transitions, self.instances
        came, added = self._sorted_keys(_is_transaction(names.valid_from), names.valid_from)
        went, removed = self._sorted_keys(_is_transaction(names.removed), names.removed)
        uncertain = (names.valid_from == TID_BEFORE_LOG) & _is_transaction(names.first_seen)
        maybe, possible = self._sorted_keys(uncertain & (names.added_tag >= 0), names.first_seen)
        turn_rows = np.flatnonzero(instances.of_transition >= 0)
        turned = self._key(instances.of_transition[turn_rows], transitions.tid[turn_rows])
        ended = np.flatnonzero(instances.freed < TID_ON_DISK)
        ends = self._key(ended, instances.freed[ended])
        keys = np.unique(np.concatenate([added, removed, turned, ends]))
        place = np.searchsorted(keys, turned)
        transition = np.full(len(keys), NO_ROW)
        transition[place] = turn_rows
        has = transition >= 0
        at = np.maximum(transition, 0)
        stage = np.where(has, transitions.status[at], NO_ROW)
        before = np.where(has, transitions.links_before[at], NO_ROW)
        links = np.where(has, transitions.links_count[at], NO_ROW)
        created = has & transitions.created_here[at]
        ending = np.isin(keys, ends)
        proven = np.where(has & (stage == InodeStatus.FREED), transitions.freed_here[at], ending)
        count = len(keys)
        inside = np.isin(possible, keys)
        maybe, possible = maybe[inside], possible[inside]
        added, removed, possible = (np.searchsorted(keys, at) for at in (added, removed, possible))
        self._added = _SortedNames(came, added, count)
        self._removed = _SortedNames(went, removed, count)
        self._possibly_added = _SortedNames(maybe, possible, count)
        removed_count = np.bincount(removed, minlength=count)
        return _TransactionSummary(
            keys // max(len(self._orders), 1),
            self._orders[keys % max(len(self._orders), 1)],
            np.bincount(added, minlength=count),
            removed_count,
            np.bincount(possible, minlength=count),
            created,
            ending & (proven | (removed_count > 0)),
            has & (stage == InodeStatus.ORPHAN) & ((before > 0) | (removed_count > 0)),
            np.where(has & (before >= 0), links - before, 0),
            ~has | (before >= 0),
            links,
            has & transitions.times_equal[at],
            transition,
        )

    # -- events ---------------------------------------------------------------------------

    def _emit(
        self,
        kind: EventKind | Int64s,
        moment: Rows,
        name: Int64s | None = None,
        old_name: Int64s | None = None,
        new: Int64s | int = NO_ROW,
    ) -> None:
        """Add events; `name` and `old_name` are rows of the names, NO_ROW for none."""
        for start in range(0, len(moment), BLOCK_ROWS):
            some = slice(start, start + BLOCK_ROWS)
            none = np.full(len(moment[some]), NO_ROW)
            self._emit_piece(
                kind if isinstance(kind, EventKind) else kind[some],
                moment[some],
                none if name is None else name[some],
                none if old_name is None else old_name[some],
                new[some] if isinstance(new, np.ndarray) else new,
            )

    def _emit_piece(
        self,
        kind: EventKind | Int64s,
        moment: Rows,
        name: Int64s,
        old_name: Int64s,
        new: Int64s | int,
    ) -> None:
        moments, instances, names = self.moments, self.instances, self.names
        instance, order = moments.instance[moment], moments.tid[moment]
        transition = moments.transition[moment]
        baseline = self.clock.complete_since(order)
        tag = np.where(transition >= 0, self.transitions.tag_row[transition], NO_ROW)
        exact = self.transitions.exact[transition] | (transition < 0)
        if len(names):
            added, removed = np.where(name >= 0, name, 0), np.where(old_name >= 0, old_name, 0)
            was_added = (name >= 0) & (names.valid_from[added] == order)
            was_added &= names.added_tag[added] >= 0
            tag = np.where(was_added, names.added_tag[added], tag)
            absent = names.last_absent[added]
            before = np.where(absent == TID_BEFORE_LOG, order - 1, absent)
            exact &= ~was_added | (before >= baseline)
            was_removed = (old_name >= 0) & (names.removed[removed] == order)
            removed_tag = names.removed_tag[removed]
            tag = np.where(was_removed & ~was_added & (removed_tag >= 0), removed_tag, tag)
            exact &= ~was_removed | (names.last_seen[removed] >= baseline)
        self._events.add(
            event_table(
                kind,
                len(moment),
                number=instances.inode[instance],
                generation=instances.generation[instance],
                order=order,
                exact=exact,
                tag_row=tag,
                new=new,
                name_row=name,
                old_name_row=old_name,
            )
        )

    def _creation_events(self) -> None:
        moments = self.moments
        created = np.flatnonzero(moments.created)
        name = np.full(len(created), NO_ROW)
        has = moments.names_added[created] > 0
        name[has] = self._added.at(created[has], 0)
        uncertain = ~has & (moments.names_possibly_added[created] > 0)
        name[uncertain] = self._possibly_added.at(created[uncertain], 0)
        self._used.append(name[uncertain])
        directory = self.instances.is_directory[moments.instance[created]]
        kind = np.where(directory, CODE[EventKind.DIRECTORY_MADE], CODE[EventKind.CREATED])
        size = self.transitions.size[moments.transition[created]]
        self._emit(kind, created, name, new=np.where(directory, NO_ROW, size))
        self._link_events(created, np.maximum(moments.names_added[created] - 1, 0), 1)

    def _link_events(self, moment: Rows, count: Int64s, start: Int64s | int) -> None:
        """Add link events for `count` added names of each instance, from index `start` on."""
        row, step = expand(count)
        start = np.broadcast_to(np.asarray(start), len(moment))
        which = moment[row]
        name = self._added.at(which, start[row] + step)
        self._emit(EventKind.LINKED, which, name)

    def _removal_events(self) -> None:
        """Add deletion and orphan events, each with the last name; the other names are unlinked."""
        moments = self.moments
        is_over = moments.freed | (moments.orphaned & ~moments.created)
        ended = np.flatnonzero(is_over)
        has = moments.names_removed[ended] > 0
        name = np.full(len(ended), NO_ROW)
        last = np.maximum(moments.names_removed[ended] - 1, 0)
        name[has] = self._removed.at(ended[has], last[has])
        directory = self.instances.is_directory[moments.instance[ended]]
        removal = np.where(directory, CODE[EventKind.DIRECTORY_REMOVED], CODE[EventKind.DELETED])
        kind = np.where(moments.freed[ended], removal, CODE[EventKind.ORPHAN_ADDED])
        self._emit(kind, ended, old_name=name)
        row, step = expand(last)
        old = self._removed.at(ended[row], step)
        self._emit(EventKind.UNLINKED, ended[row], old_name=old)

    def _change_events(self) -> None:
        """Add renames, links and unlinks of instances that existed before and afterwards."""
        moments = self.moments
        rest = np.flatnonzero(~moments.created & ~moments.freed & ~moments.orphaned)
        added, removed = moments.names_added[rest], moments.names_removed[rest]
        pairs = np.minimum(added, removed)
        row, step = expand(pairs)
        self._rename_events(
            rest[row], self._added.at(rest[row], step), self._removed.at(rest[row], step)
        )
        self._unpaired_additions(rest, added - pairs, pairs)
        self._unpaired_removals(rest, removed - pairs, pairs)
        self._link_count_only_events(rest[(added == 0) & (removed == 0)])

    def _rename_events(self, moment: Rows, name: Int64s, old: Int64s) -> None:
        """Add renames and moves; an event of which only one name is known counts as a rename."""
        directory = self.names.directory
        both = (name >= 0) & (old >= 0)
        moved = both & (directory[name] != directory[old]) if len(directory) else both
        self._emit(
            np.where(moved, CODE[EventKind.MOVED], CODE[EventKind.RENAMED]), moment, name, old
        )

    def _unpaired_additions(self, rest: Rows, count: Int64s, start: Int64s) -> None:
        """Add events for added names that cannot be paired with a removed name."""
        moments = self.moments
        directory = self.instances.is_directory[moments.instance[rest]]
        delta, links = moments.link_delta[rest], moments.links[rest]
        known = moments.link_delta_known[rest]
        linked = np.where(known, np.clip(delta, 0, count), np.where(links > 1, count, 0))
        linked = np.where(directory, 0, linked)
        self._link_events(rest, linked, start)
        left = count - linked
        row, step = expand(left)
        which = rest[row]
        name = self._added.at(which, (start + linked)[row] + step)
        none = np.full(len(which), NO_ROW)
        new = ~known[row] & moments.times_equal[which] & (links[row] == 1) & ~directory[row]
        self._emit(EventKind.CREATED, which[new], name[new])
        self._rename_events(which[~new], name[~new], none[~new])

    def _unpaired_removals(self, rest: Rows, count: Int64s, start: Int64s) -> None:
        """Add events for removed names that cannot be paired with a certainly added name."""
        moments = self.moments
        directory = self.instances.is_directory[moments.instance[rest]]
        delta = np.where(directory, 0, moments.link_delta[rest])
        maybe = moments.names_possibly_added[rest]
        known = moments.link_delta_known[rest] | directory
        renamed = np.where(known, np.clip(count + delta, 0, count), maybe)
        found = np.minimum(np.minimum(renamed, maybe), count)
        lost = np.where(known, renamed - found, 0)
        row, step = expand(found)
        old = self._removed.at(rest[row], start[row] + step)
        name = self._possibly_added.at(rest[row], step)
        self._used.append(name)
        self._rename_events(rest[row], name, old)
        row, step = expand(lost)
        old = self._removed.at(rest[row], (start + found)[row] + step)
        self._rename_events(rest[row], np.full(len(row), NO_ROW), old)
        row, step = expand(count - found - lost)
        place = (start + found + lost)[row] + step
        old = self._removed.at(rest[row], place)
        self._emit(EventKind.UNLINKED, rest[row], old_name=old)

    def _link_count_only_events(self, rest: Rows) -> None:
        """Add events for changed link counts where no directory block shows the name."""
        moments = self.moments
        rest = rest[~self.instances.is_directory[moments.instance[rest]]]
        delta = moments.link_delta[rest]
        up = np.maximum(delta, 0)
        found = np.minimum(up, moments.names_possibly_added[rest])
        row, step = expand(found)
        name = self._possibly_added.at(rest[row], step)
        self._used.append(name)
        self._emit(EventKind.LINKED, rest[row], name)
        self._emit(EventKind.LINKED, np.repeat(rest, up - found))
        self._emit(EventKind.UNLINKED, np.repeat(rest, np.maximum(-delta, 0)))
