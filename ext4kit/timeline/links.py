"""Events of names: what came and went in directories, put together with what inodes say.

In one transaction an inode can get names, lose names, begin and end. A name that came and one
that went are a renaming; what is left over is told by the link count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int32s, Int64s
from ext4kit.past import NOW
from ext4kit.past.directories import BEFORE
from ext4kit.past.states import UNREPLAYED
from ext4kit.timeline.clock import Clock
from ext4kit.timeline.events import CODE, Events, Kind, make_events
from ext4kit.timeline.lives import Lives
from ext4kit.timeline.names import Names
from ext4kit.timeline.states import NONE, Stage, Turns


@dataclass(frozen=True, slots=True)
class _Moments(Table):
    """What happened to lives in transactions, as columns, a row a (life, order).

    Attributes:
        came, went, maybe: how many names came, went, or may have come.
        born, died, left: the life began; it ended; it lost its last name and went on.
        delta: change of the link count; 0 where the transaction shows none.
        known: the link count before is known.
        links: link count after, NONE when not known.
        untouched: all times of the inode are one and the same.
        turn: row of the turns, NONE without one.
    """

    life: Int64s
    order: Int64s
    came: Int64s
    went: Int64s
    maybe: Int64s
    born: Bools
    died: Bools
    left: Bools
    delta: Int32s
    known: Bools
    links: Int32s
    untouched: Bools
    turn: Int64s


def name_events(turns: Turns, lives: Lives, names: Names, clock: Clock) -> tuple[Events, Names]:
    """The events, and the names with those settled that may or may not have come."""
    if not len(turns):
        return Events.empty(), names
    return _Linker(turns, lives, names, clock).run()


def _logged(order: Any) -> Any:
    """Per order (bool): it is a transaction, and not what fast commits or the disk show."""
    return (order > BEFORE) & (order < UNREPLAYED)


class _Linker:
    def __init__(self, turns: Turns, lives: Lives, names: Names, clock: Clock) -> None:
        self.turns, self.lives, self.clock = turns, lives, clock
        self.names = names
        orders = (turns.order, names.first, names.gone, names.shown)
        self._orders = np.unique(np.concatenate(orders))
        self._parts: list[Events] = []

    def run(self) -> tuple[Events, Names]:
        names = self.names
        self._came = self._sorted(np.flatnonzero(_logged(names.first)), names.first)
        self._went = self._sorted(np.flatnonzero(_logged(names.gone)), names.gone)
        unsure = (names.first == BEFORE) & _logged(names.shown) & (names.added_tag >= 0)
        self._maybe = self._sorted(np.flatnonzero(unsure), names.shown)
        self.moments = self._moments()
        self._slots()
        self._births()
        self._deaths()
        self._others()
        first = self.names.first.copy()
        settled = np.concatenate([[0], *self._used]).astype(np.int64)[1:]
        first[settled] = self.names.shown[settled]
        return Events.concat(self._parts), replace(self.names, first=first)

    # -- moments --------------------------------------------------------------------------

    def _key(self, life: Any, order: Any) -> Any:
        return life * len(self._orders) + np.searchsorted(self._orders, order)

    def _sorted(self, rows: Any, order: Any) -> Any:
        """Rows of names by (life, order, directory, name)."""
        names = self.names
        sort = np.lexsort((names.text[rows], names.folder[rows], order[rows], names.life[rows]))
        return rows[sort]

    def _moments(self) -> _Moments:
        names, turns, lives = self.names, self.turns, self.lives
        came = self._key(names.life[self._came], names.first[self._came])
        went = self._key(names.life[self._went], names.gone[self._went])
        maybe = self._key(names.life[self._maybe], names.shown[self._maybe])
        turn_rows = np.flatnonzero(lives.turn >= 0)
        turned = self._key(lives.turn[turn_rows], turns.order[turn_rows])
        ended = np.flatnonzero(lives.end < NOW)
        ends = self._key(ended, lives.end[ended])
        keys = np.unique(np.concatenate([came, went, turned, ends]))
        place = np.searchsorted(keys, turned)
        turn = np.full(len(keys), NONE)
        turn[place] = turn_rows
        has = turn >= 0
        at = np.maximum(turn, 0)
        stage = np.where(has, turns.stage[at], NONE)
        before = np.where(has, turns.before[at], NONE)
        links = np.where(has, turns.links[at], NONE)
        born = has & turns.fresh[at]
        ending = np.isin(keys, ends)
        proven = np.where(has & (stage == Stage.FREED), turns.freed[at], ending)
        self._came_at, self._went_at, self._maybe_at = (
            np.searchsorted(keys, each) for each in (came, went, maybe)
        )
        count = len(keys)
        unsure = np.zeros(count, np.int64)
        inside = np.isin(maybe, keys)
        np.add.at(unsure, self._maybe_at[inside], 1)
        self._maybe, self._maybe_at = self._maybe[inside], self._maybe_at[inside]
        gone = np.bincount(self._went_at, minlength=count)
        return _Moments(
            keys // max(len(self._orders), 1),
            self._orders[keys % max(len(self._orders), 1)],
            np.bincount(self._came_at, minlength=count),
            gone,
            unsure,
            born,
            ending & (proven | (gone > 0)),
            has & (stage == Stage.ORPHAN) & ((before > 0) | (gone > 0)),
            np.where(has & (before >= 0), links - before, 0),
            ~has | (before >= 0),
            links,
            has & turns.untouched[at],
            turn,
        )

    def _slots(self) -> None:
        """Where each moment's names begin in the sorted lists."""
        count = np.arange(len(self.moments))
        self._came_from = np.searchsorted(self._came_at, count)
        self._went_from = np.searchsorted(self._went_at, count)
        self._maybe_from = np.searchsorted(self._maybe_at, count)
        self._used: list[Any] = []

    # -- telling --------------------------------------------------------------------------

    def _tell(self, kind: Any, moment: Any, name: Any, old_name: Any, new: Any = NONE) -> None:
        """Events at moments; `name` and `old_name` are rows of the names, NONE for none."""
        if not len(moment):
            return
        moments, lives, names = self.moments, self.lives, self.names
        life, order, turn = moments.life[moment], moments.order[moment], moments.turn[moment]
        baseline = self.clock.baseline(order)
        tag = np.where(turn >= 0, self.turns.tag[turn], NONE)
        exact = self.turns.exact[turn] | (turn < 0)
        if len(names):
            added, gone = np.where(name >= 0, name, 0), np.where(old_name >= 0, old_name, 0)
            came = (name >= 0) & (names.first[added] == order) & (names.added_tag[added] >= 0)
            tag = np.where(came, names.added_tag[added], tag)
            before = np.where(names.before[added] == BEFORE, order - 1, names.before[added])
            exact &= ~came | (before >= baseline)
            left = (old_name >= 0) & (names.gone[gone] == order)
            tag = np.where(left & ~came & (names.gone_tag[gone] >= 0), names.gone_tag[gone], tag)
            exact &= ~left | (names.seen[gone] >= baseline)
        self._parts.append(
            make_events(
                kind,
                len(moment),
                number=lives.number[life],
                generation=lives.generation[life],
                order=order,
                exact=exact,
                tag=tag,
                new=new,
                name=name,
                old_name=old_name,
            )
        )

    def _slot(self, names: Any, starts: Any, moment: Any, step: Any) -> Any:
        """The name that stands `step` places into a moment's names."""
        place = starts[moment] + step
        return names[np.minimum(place, len(names) - 1)] if len(names) else np.full(len(place), NONE)

    def _births(self) -> None:
        moments = self.moments
        born = np.flatnonzero(moments.born)
        name = np.full(len(born), NONE)
        has = moments.came[born] > 0
        name[has] = self._slot(self._came, self._came_from, born[has], 0)
        unsure = ~has & (moments.maybe[born] > 0)
        name[unsure] = self._slot(self._maybe, self._maybe_from, born[unsure], 0)
        self._used.append(name[unsure])
        directory = self.lives.is_directory[moments.life[born]]
        kind = np.where(directory, CODE[Kind.DIRECTORY_MADE], CODE[Kind.CREATED])
        size = self.turns.size[moments.turn[born]]
        self._tell(kind, born, name, np.full(len(born), NONE), np.where(directory, NONE, size))
        self._linked(born, np.maximum(moments.came[born] - 1, 0), 1)

    def _linked(self, moment: Any, count: Any, start: Any) -> None:
        """`count` names that came to each moment's life, from the one at `start` on."""
        row, step = expand(count)
        start = np.broadcast_to(np.asarray(start), len(moment))
        which = moment[row]
        name = self._slot(self._came, self._came_from, which, start[row] + step)
        self._tell(Kind.LINKED, which, name, np.full(len(which), NONE))

    def _deaths(self) -> None:
        """Ends, and lives that lost their last name and went on; further names went before."""
        moments = self.moments
        over = moments.died | (moments.left & ~moments.born)
        ended = np.flatnonzero(over)
        has = moments.went[ended] > 0
        name = np.full(len(ended), NONE)
        last = np.maximum(moments.went[ended] - 1, 0)
        name[has] = self._slot(self._went, self._went_from, ended[has], last[has])
        directory = self.lives.is_directory[moments.life[ended]]
        gone = np.where(directory, CODE[Kind.DIRECTORY_REMOVED], CODE[Kind.DELETED])
        kind = np.where(moments.died[ended], gone, CODE[Kind.ORPHAN_ADDED])
        self._tell(kind, ended, np.full(len(ended), NONE), name)
        row, step = expand(last)
        old = self._slot(self._went, self._went_from, ended[row], step)
        self._tell(Kind.UNLINKED, ended[row], np.full(len(row), NONE), old)

    def _others(self) -> None:
        """Lives that were there before and after: renamed, linked, unlinked."""
        moments = self.moments
        rest = np.flatnonzero(~moments.born & ~moments.died & ~moments.left)
        came, went = moments.came[rest], moments.went[rest]
        pairs = np.minimum(came, went)
        row, step = expand(pairs)
        self._renamed(
            rest[row],
            self._slot(self._came, self._came_from, rest[row], step),
            self._slot(self._went, self._went_from, rest[row], step),
        )
        self._additions(rest, came - pairs, pairs)
        self._removals(rest, went - pairs, pairs)
        self._counts_alone(rest[(came == 0) & (went == 0)])

    def _renamed(self, moment: Any, name: Any, old: Any) -> None:
        """Another name; where only one of the two is known it counts as renamed."""
        folder = self.names.folder
        both = (name >= 0) & (old >= 0)
        moved = both & (folder[name] != folder[old]) if len(folder) else both
        self._tell(np.where(moved, CODE[Kind.MOVED], CODE[Kind.RENAMED]), moment, name, old)

    def _additions(self, rest: Any, count: Any, start: Any) -> None:
        """Names that came and none went for them."""
        moments = self.moments
        directory = self.lives.is_directory[moments.life[rest]]
        delta, known, links = moments.delta[rest], moments.known[rest], moments.links[rest]
        linked = np.where(known, np.clip(delta, 0, count), np.where(links > 1, count, 0))
        linked = np.where(directory, 0, linked)
        self._linked(rest, linked, start)
        left = count - linked
        row, step = expand(left)
        which = rest[row]
        name = self._slot(self._came, self._came_from, which, (start + linked)[row] + step)
        none = np.full(len(which), NONE)
        new = ~known[row] & moments.untouched[which] & (links[row] == 1) & ~directory[row]
        self._tell(Kind.CREATED, which[new], name[new], none[new])
        self._renamed(which[~new], name[~new], none[~new])

    def _removals(self, rest: Any, count: Any, start: Any) -> None:
        """Names that went and none is known to have come for them."""
        moments = self.moments
        directory = self.lives.is_directory[moments.life[rest]]
        delta = np.where(directory, 0, moments.delta[rest])
        maybe = moments.maybe[rest]
        stayed = np.where(moments.known[rest] | directory, np.clip(count + delta, 0, count), maybe)
        found = np.minimum(np.minimum(stayed, maybe), count)
        lost = np.where(moments.known[rest] | directory, stayed - found, 0)
        row, step = expand(found)
        old = self._slot(self._went, self._went_from, rest[row], start[row] + step)
        name = self._slot(self._maybe, self._maybe_from, rest[row], step)
        self._used.append(name)
        self._renamed(rest[row], name, old)
        row, step = expand(lost)
        old = self._slot(self._went, self._went_from, rest[row], (start + found)[row] + step)
        self._renamed(rest[row], np.full(len(row), NONE), old)
        row, step = expand(count - found - lost)
        place = (start + found + lost)[row] + step
        old = self._slot(self._went, self._went_from, rest[row], place)
        self._tell(Kind.UNLINKED, rest[row], np.full(len(row), NONE), old)

    def _counts_alone(self, rest: Any) -> None:
        """Link counts that changed where no directory block shows which name it was."""
        moments = self.moments
        rest = rest[~self.lives.is_directory[moments.life[rest]]]
        delta = moments.delta[rest]
        up = np.maximum(delta, 0)
        found = np.minimum(up, moments.maybe[rest])
        row, step = expand(found)
        name = self._slot(self._maybe, self._maybe_from, rest[row], step)
        self._used.append(name)
        self._tell(Kind.LINKED, rest[row], name, np.full(len(row), NONE))
        for kind, count in ((Kind.LINKED, up - found), (Kind.UNLINKED, np.maximum(-delta, 0))):
            row, _ = expand(count)
            none = np.full(len(row), NONE)
            self._tell(kind, rest[row], none, none)
