"""Files that are asked for and contents without an inode, as `alignment` takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.contents import Contents
from ext4kit.recovery.folders import Folders
from ext4kit.recovery.sources.alignment import Aligned, Beside, Files, Lying
from ext4kit.recovery.sources.laying import NOTHING, Link
from ext4kit.recovery.sources.paths import FoundName
from ext4kit.recovery.turns import KnownFiles, beside, made_before

FEW_CHANGES = 4  # i_version of what was made, written, and given times and an owner or a mode
MANY_CHANGES = 8  # from which on it may have been written more than once
REWRITTEN = 0.3  # of these, and of those since when others were made, lie elsewhere
IN_PIECES = 0.9  # of those that had more than one extent
ABSENT, MOST_ABSENT = 0.05, 0.8  # of all files, at least and at most
STRANGE = 0.005  # of the contents are nobody's, at least
HELD = 0.8  # what lies beside a content among known files has to be that likely
MOST_PAIRS = 20_000_000  # of a file and a content are thought of at a time
PART = 2000  # files at a time, where that is too many
WITHIN = 150  # files made before one that has a name, and after it, are looked at then
_EXTENT_STARTS = [6, 9, 12]  # words of i_block: ee_block of the second extent and of those behind

Spoken = dict[int, tuple[Any, Any]]


def went_last(columns: Columns, rows: Any) -> Any:
    """Per state (bool) of a freed inode without a map: none of them was made after it went.

    Such a one may have had its blocks since, and so may others between two bearers of its
    number, of which nothing tells.
    """
    past = columns.past
    table, life = past.states.table, past.states.life
    last = np.searchsorted(life, life[rows], side="right") - 1
    known, bearer = np.unique(table.number, return_inverse=True)
    newest = np.zeros(len(known), np.int64)
    np.maximum.at(newest, bearer, table.crtime)
    made = np.maximum(newest[bearer[rows]], table.crtime[rows].max(initial=0))
    return made <= table.ctime[last]


class Scene:
    """Files that are asked for, as they were made, and contents, as they lie.

    Args:
        columns: the candidates.
        contents: found without an inode.
        known: files whose blocks are known.
        names: of the candidates.
        places: candidates that are asked for, by time and number.
        rows: contents, by first block.
    """

    def __init__(
        self,
        columns: Columns,
        contents: Contents,
        known: KnownFiles,
        names: Sequence[FoundName | None],
        places: Any,
        rows: Any,
    ) -> None:
        self.columns, self.contents, self.places, self.rows = columns, contents, places, rows
        self.table = columns.past.states.table.take(columns.found.row[places])
        self.names = [names[place] for place in places.tolist()]
        folders = Folders(self.names)
        self.folder = folders.asked
        runs, placed = known.runs.take(known.regular[known.runs.owner]), known.placed
        owned = placed.take(runs.owner)
        made = made_before(self.table.crtime, self.table.number, owned.time, owned.number)
        folder = folders.of(columns.fs, placed.number, known.candidate, names)
        first, end = runs.physical, runs.physical + runs.length
        self.placed, self.placed_folder, self.runs = placed, folder, (first, end, made, runs.owner)
        lying = contents.first[rows], contents.end[rows]
        known_runs = first, end, made, folder[runs.owner]
        self.link, self.front, self.behind = beside(lying, known_runs)

    def absent(self, some: Any, contents: int) -> Any:
        """How likely the content of each of some files is not there."""
        usual = (len(some) - contents) / len(some)
        table = self.table.take(some)
        absent = np.full(len(some), min(max(usual, ABSENT), MOST_ABSENT))
        again = table.version > MANY_CHANGES
        again |= ~went_last(self.columns, self.columns.found.row[self.places[some]])
        absent[again] = np.maximum(absent[again], REWRITTEN)
        words = np.ascontiguousarray(table.i_block).view("<u4")[:, _EXTENT_STARTS]
        mapped = (table.flags & int(InodeFlags.EXTENTS)) != 0
        return np.where(mapped & words.any(axis=1), IN_PIECES, absent)


def parts(scene: Scene) -> Iterator[tuple[Any, Any]]:
    """(files, contents) rows that are thought of together.

    Where all are too many, only what was made around files that have a name.
    """
    files, contents = np.arange(len(scene.places)), np.arange(len(scene.rows))
    if len(files) * len(contents) <= MOST_PAIRS:
        yield files, contents
        return
    named = np.array([name is not None for name in scene.names])
    files = files[near(named, WITHIN)]
    for start in range(0, len(files), PART):
        some = files[start : start + PART]
        low, high = some[0] - WITHIN, some[-1] + WITHIN
        there = np.zeros(len(contents), bool)
        for side in (scene.front, scene.behind):
            there |= (side.made >= low) & (side.made <= high)
        lying = contents[there]
        if len(lying) and len(some) * len(lying) <= MOST_PAIRS:
            yield some, lying


def near(marked: Any, distance: int) -> Any:
    """Bool: one that is marked is among so many before or after."""
    sums = np.append(0, np.cumsum(marked))
    every = np.arange(len(marked))
    low, high = np.maximum(every - distance, 0), np.minimum(every + distance + 1, len(marked))
    return sums[high] > sums[low]


def lying_of(scene: Scene, some: Any, contents: Any, likes: Any) -> Lying:
    """Contents with the known files beside them."""
    strange = np.full(len(contents), max(STRANGE, 1 - len(some) / len(contents)))
    front = _seen_from(scene.front, some, contents)
    behind = _seen_from(scene.behind, some, contents)
    link = scene.link[contents]
    link[1:][np.diff(contents) != 1] = Link.FAR
    return Lying(likes, link, strange, front, behind, np.full(len(contents), NOTHING))


class Among:
    """Contents and runs of known files in one order, for disks where much is nobody's.

    There a known file tells more of the next content than the last content does.
    """

    def __init__(self, scene: Scene, some: Any, contents: Any) -> None:
        self._files, self._contents = len(some), len(contents)
        first, end, made, owner = scene.runs
        near = (made >= some[0] - WITHIN) & (made <= some[-1] + WITHIN)
        owners, self._owner = np.unique(owner[near], return_inverse=True)
        time = np.concatenate([scene.table.crtime[some], scene.placed.time[owners]])
        number = np.concatenate([scene.table.number[some], scene.placed.number[owners]])
        self._made = np.lexsort((number, time))  # asked for first, then known ones
        self._folder = scene.placed_folder[owners]
        rows = scene.rows[contents]
        first = np.concatenate([scene.contents.first[rows], first[near]])
        end = np.concatenate([scene.contents.end[rows], end[near]])
        self._order = np.argsort(first, kind="stable")  # contents first, then runs
        self._lies = first[self._order], end[self._order]

    @property
    def fits_in(self) -> bool:
        """Whether they are not too many to be thought of together."""
        return len(self._made) * len(self._order) <= MOST_PAIRS

    def placed(
        self, files: Files, likes: Any, spoken: Spoken, strange: float
    ) -> tuple[Lying, Files, Spoken]:
        """All of it as `align` takes it."""
        others, runs = len(self._made) - self._files, len(self._owner)
        none = np.zeros(others, np.int64)
        every = Files(
            np.append(files.called, none)[self._made],
            np.append(files.absent, none + ABSENT)[self._made],
            np.append(files.folder, self._folder)[self._made],
        )
        state = np.empty(len(self._made), np.int64)
        state[self._made] = np.arange(len(self._made))
        known = np.append(np.full(self._contents, NOTHING), state[self._files + self._owner])
        empty = np.zeros(0, np.int64)
        link, front, behind = beside(self._lies, (empty, empty, empty, empty))
        odd = np.append(np.full(self._contents, strange), np.zeros(runs))
        alike = np.append(likes, np.zeros(runs, np.int64))
        lying = Lying(alike[self._order], link, odd[self._order], front, behind, known[self._order])
        place = np.empty(len(self._order), np.int64)
        place[self._order] = np.arange(len(self._order))
        told = {int(place[at]): (state[who], much) for at, (who, much) in spoken.items()}
        return lying, every, told

    def held(self, aligned: Aligned) -> Any:
        """Bool per content: what lies in front and behind is known, or as good as known."""
        likely = np.zeros(len(self._order) + 2)
        np.maximum.at(likely, aligned.content + 1, aligned.chance)
        likely[[0, -1]] = 1
        held = (likely[:-2] > HELD) & (likely[2:] > HELD)
        found = np.empty(len(self._order), bool)
        found[self._order] = held
        return found[: self._contents]

    def asked_of(self, aligned: Aligned) -> Aligned:
        """The answer for contents and the files that are asked for."""
        content, file = self._order[aligned.content], self._made[aligned.file]
        kept = (content < self._contents) & (file < self._files)
        claimed = np.empty(len(self._made))
        claimed[self._made] = aligned.claimed
        columns = content[kept], file[kept], aligned.chance[kept]
        return Aligned(*columns, claimed[: self._files], aligned.disorder)


def _seen_from(side: Beside, some: Any, contents: Any) -> Beside:
    """Known files beside some contents, as some of the files are counted."""
    made = side.made[contents]
    there = made != NOTHING
    return Beside(
        np.where(there, np.searchsorted(some, made), NOTHING),
        side.between[contents],
        side.close[contents],
        side.folder[contents],
    )
