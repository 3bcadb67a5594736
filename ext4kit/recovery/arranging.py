"""Prepares deleted files and contents without an inode as input for `matching.hmm`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Float64s, Int64s, Rows
from ext4kit.matching.hmm import FileStates, Mentions, NeighbourFiles, Observations, Posteriors
from ext4kit.matching.observations import allocation_order, creation_rank, neighbours_of
from ext4kit.matching.transitions import NOTHING, Adjacency
from ext4kit.parsers.inode import InodeFlags
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.carved_contents import CarvedContents
from ext4kit.recovery.matching_input import DirectoryIds, PlacedFiles
from ext4kit.recovery.names import KnownName

MAX_VERSION_UNMOVED = (
    4  # maximum i_version of a file that was written once, and given times and owner or mode
)
MIN_VERSION_MOVED = 8  # i_version from which on a file may have been rewritten
P_ABSENT_REWRITTEN = 0.3  # share of these, and of files with later inodes, that are absent
P_ABSENT_FRAGMENTED = 0.9  # share of files with several extents that are absent
P_ABSENT_MIN, P_ABSENT_MAX = 0.05, 0.8  # limits of the share of other files that are absent
P_UNASSIGNED_MIN = 0.005  # minimum share of contents that belong to no searched file
P_NEIGHBOUR_KNOWN = 0.8  # minimum probability of the neighbours of a content among known files
MAX_PAIRS = 20_000_000  # maximum pairs of file and content in a problem; larger ones are split
MAX_PAIRS_OF_PART = 20_000_000
FILES_PER_PART = 1850  # files that one part decides on, in addition to the files around them
CREATION_WINDOW = 150  # files created before and after a named file that are then included
ENCLOSED_FILES_PER_PART, ENCLOSED_WINDOW = 128, 8  # the same if contents are enclosed
MIN_ENCLOSED_FILES = 448  # fewer files are matched in one part
ENCLOSED_SPAN = 16  # maximum files created between the two known files that enclose a content
MIN_ENCLOSED = 0.98  # minimum share of enclosed contents
_EXTENT_STARTS = [6, 9, 12]  # words of i_block: ee_block of the second, third and fourth extent


def no_later_instance(blocks: BlockAttribution, rows: Int64s) -> Bools:
    """Per state (bool) of a freed inode without a map: True if no later inode is known.

    A later inode was created after the freed inode was freed. It is another instance of the same
    number, or an inode of another state in `rows`. It may have used the blocks of the freed inode,
    and so may further inodes that left no record.
    """
    newest, gone = _instance_times(blocks, rows)
    made = np.maximum(newest, blocks.history.states.table.crtime[rows].max(initial=0))
    none: Bools = made <= gone
    return none


def _instance_times(blocks: BlockAttribution, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Per state: creation time of the newest instance of its number, end of its own instance."""
    table, life = blocks.history.states.table, blocks.history.states.instance
    last = np.searchsorted(life, life[rows], side="right") - 1
    known, number = np.unique(table.number, return_inverse=True)
    newest = np.zeros(len(known), np.int64)
    np.maximum.at(newest, number, table.crtime)
    return newest[number[rows]], table.ctime[last]


class MatchingProblem:
    """A matching problem: searched files in creation order, and contents in disk order.

    Args:
        blocks: block attribution of the candidates.
        contents: contents found without an inode.
        known: files whose blocks are known.
        names: names of the candidates.
        places: candidates whose content is searched for, sorted by creation time and number.
        rows: rows of the contents, in allocation order.
    """

    def __init__(
        self,
        blocks: BlockAttribution,
        contents: CarvedContents,
        known: PlacedFiles,
        names: Sequence[KnownName | None],
        places: Int64s,
        rows: Int64s,
    ) -> None:
        self.blocks, self.contents, self.places, self.rows = blocks, contents, places, rows
        self.table = blocks.history.states.table.take(blocks.candidates.state_row[places])
        self._times = _instance_times(blocks, blocks.candidates.state_row[places])
        self.names = [names[place] for place in places.tolist()]
        folders = DirectoryIds(self.names)
        self.folder = folders.of_files
        runs, placed = known.runs.take(known.regular[known.runs.owner]), known.placed
        owned = placed.take(runs.owner)
        made = creation_rank(self.table.crtime, self.table.number, owned.time, owned.number)
        folder = folders.of_known_files(blocks.history.fs, placed.number, known.candidate, names)
        first, end = runs.physical, runs.physical + runs.length
        self.placed, self.placed_folder, self.runs = placed, folder, (first, end, made, runs.owner)
        observed = contents.first_block[rows], contents.end_block[rows]
        known_runs = first, end, made, folder[runs.owner]
        self.link, self.previous, self.next = neighbours_of(observed, known_runs)

    @cached_property
    def has_name(self) -> Bools:
        """Bool per file: True if the file has a known name."""
        return np.array([name is not None for name in self.names], bool)

    @cached_property
    def enclosed(self) -> Bools:
        """Bool per content: True if few files were created between its known neighbours."""
        before, after = self.previous.rank, self.next.rank
        found: Bools = (before != NOTHING) & (after >= before) & (after - before <= ENCLOSED_SPAN)
        return found

    def absence_probability(self, some: Int64s, unclaimed: float) -> Float64s:
        """Probability that the content of each of some files is no longer on the disk.

        Args:
            some: rows of the files.
            unclaimed: as in `DiskPart`.
        """
        usual = unclaimed / (unclaimed - 1)
        table = self.table.take(some)
        absent = np.full(len(some), min(max(usual, P_ABSENT_MIN), P_ABSENT_MAX))
        again = table.version > MIN_VERSION_MOVED
        newest, gone = self._times[0][some], self._times[1][some]
        again |= np.maximum(newest, table.crtime.max(initial=0)) > gone
        absent[again] = np.maximum(absent[again], P_ABSENT_REWRITTEN)
        words = np.ascontiguousarray(table.i_block).view("<u4")[:, _EXTENT_STARTS]
        mapped = (table.flags & int(InodeFlags.EXTENTS)) != 0
        return np.where(mapped & words.any(axis=1), P_ABSENT_FRAGMENTED, absent)


@dataclass(frozen=True, slots=True)
class DiskPart:
    """Files and contents that are matched to each other.

    Attributes:
        files: rows of the files, in creation order.
        own: bool, True for files that this part decides on; the other files are around these.
        contents: rows of the contents, in disk order.
        unclaimed: share of contents without a file; negative if there are files without content.
    """

    files: Rows
    own: Bools
    contents: Rows
    unclaimed: float


def split_problem(matching: MatchingProblem) -> Iterator[DiskPart]:
    """The parts of a problem: files created one after the other, and the contents among them.

    A small problem is a single part. In a large problem, only files created around named files are
    considered. If known files enclose nearly every content, files created long before or after
    these known files are no evidence for the content. The parts then begin and end at known files
    around named files, so that the work is proportional to the number of named files. The last part
    then has the files without any evidence.
    """
    files, contents = np.arange(len(matching.places)), np.arange(len(matching.rows))
    share, large = 1 - len(files) / len(contents), len(files) * len(contents) > MAX_PAIRS
    if large:
        files = files[near(matching.has_name, CREATION_WINDOW)]
    if len(matching.places) > MIN_ENCLOSED_FILES and matching.enclosed.mean() >= MIN_ENCLOSED:
        yield from _enclosed_parts(matching, files, share)
        return
    if not large:
        yield DiskPart(files, np.ones(len(files), bool), contents, share)
        return
    among = _ContentsAmong(matching, np.zeros(len(contents), bool))
    for start in range(0, len(files), FILES_PER_PART):
        stop = start + FILES_PER_PART
        low, high = max(start - CREATION_WINDOW, 0), min(stop + CREATION_WINDOW, len(files))
        some, every = files[low:high], np.arange(low, high)
        observed = among.find(int(some[0]), int(some[-1]) + 1)
        if len(observed) and len(some) * len(observed) <= MAX_PAIRS_OF_PART:
            own = (every >= start) & (every < stop)
            yield DiskPart(some, own, observed, 1 - len(some) / len(observed))


def _enclosed_parts(matching: MatchingProblem, files: Rows, share: float) -> Iterator[DiskPart]:
    """Parts that begin and end at known files.

    Args:
        matching: known files enclose nearly all of its contents.
        files: the files that the parts decide on.
        share: `DiskPart.unclaimed` of all parts.
    """
    every = np.arange(len(matching.places))
    sides = np.concatenate(
        [matching.previous.rank[matching.enclosed], matching.next.rank[matching.enclosed]]
    )
    piece = np.searchsorted(np.unique(sides), every, side="right")  # interval between known files
    solved = np.isin(piece, piece[near(matching.has_name, ENCLOSED_WINDOW)])
    changes = np.flatnonzero(np.diff(solved)) + 1
    among = _ContentsAmong(matching, matching.enclosed)
    for low, high in itertools.pairwise([0, *changes.tolist(), len(every)]):
        for start in range(low, high if solved[low] else low, ENCLOSED_FILES_PER_PART):
            stop = min(start + ENCLOSED_FILES_PER_PART, high)
            first = piece[max(start - ENCLOSED_WINDOW, low)]
            last = piece[min(stop + ENCLOSED_WINDOW, high) - 1]
            around = slice(*np.searchsorted(piece, [first, last + 1]).tolist())
            some = every[around]
            own = (some >= start) & (some < stop)
            observed = among.find(int(some[0]), int(some[-1]) + 1)
            if len(observed):
                yield DiskPart(some, own, observed, share)
    rest = files[~solved[files]]
    yield DiskPart(rest, np.ones(len(rest), bool), every[:0], share)


class _ContentsAmong:
    """Finds contents by the ranks of the known files before and after them.

    Args:
        matching: all files and contents.
        by_both: bool per content, True where both known files must be in a range and not only one.
    """

    def __init__(self, matching: MatchingProblem, by_both: Bools) -> None:
        self._by_both, self._sides = by_both, (matching.previous.rank, matching.next.rank)
        self._orders = [np.argsort(side, kind="stable") for side in self._sides]

    def find(self, first: int, last: int) -> Rows:
        """Contents whose known neighbours have ranks from `first` to `last`, in disk order."""
        found = []
        for side, order in zip(self._sides, self._orders, strict=True):
            low = np.searchsorted(side, first, side="left", sorter=order)
            high = np.searchsorted(side, last, side="right", sorter=order)
            found.append(order[low:high])
        rows, sides = np.unique(np.concatenate(found), return_counts=True)
        kept: Rows = rows[(sides == len(found)) | ~self._by_both[rows]]
        return kept


def near(marked: Bools, distance: int) -> Bools:
    """Bool: True where a marked element is at most `distance` elements away."""
    sums = np.append(0, np.cumsum(marked))
    every = np.arange(len(marked))
    low, high = np.maximum(every - distance, 0), np.minimum(every + distance + 1, len(marked))
    return sums[high] > sums[low]


def observations_of(matching: MatchingProblem, part: DiskPart, classes: Int64s) -> Observations:
    """The contents of a part as observations, with the known files before and after them."""
    some, contents = part.files, part.contents
    unassigned = np.full(len(contents), max(P_UNASSIGNED_MIN, part.unclaimed))
    before = _neighbour_subset(matching.previous, some, contents)
    after = _neighbour_subset(matching.next, some, contents)
    link = matching.link[contents]
    link[1:][np.diff(contents) != 1] = Adjacency.FAR
    return Observations(classes, link, unassigned, before, after, np.full(len(contents), NOTHING))


class JointProblem:
    """Contents and runs of known files in one sequence, where many contents have no file.

    In this case, a known file is better evidence for the next content than the previous content.
    """

    def __init__(self, matching: MatchingProblem, some: Int64s, contents: Int64s) -> None:
        self._files, self._contents = len(some), len(contents)
        first, end, made, owner = matching.runs
        near = (made >= some[0] - CREATION_WINDOW) & (made <= some[-1] + CREATION_WINDOW)
        owners, self._owner = np.unique(owner[near], return_inverse=True)
        time = np.concatenate([matching.table.crtime[some], matching.placed.time[owners]])
        number = np.concatenate([matching.table.number[some], matching.placed.number[owners]])
        self._made = np.lexsort((number, time))  # searched files first, then known ones
        self._folder = matching.placed_folder[owners]
        rows = matching.rows[contents]
        first = np.concatenate([matching.contents.first_block[rows], first[near]])
        end = np.concatenate([matching.contents.end_block[rows], end[near]])
        self._order = allocation_order(first, end)
        self._lies = first[self._order], end[self._order]

    @property
    def is_small_enough(self) -> bool:
        """Whether the problem is small enough to be solved in one piece."""
        return len(self._made) * len(self._order) <= MAX_PAIRS

    def with_known_runs(
        self, files: FileStates, classes: Int64s, mentioned: Mentions, unassigned: float
    ) -> tuple[Observations, FileStates, Mentions]:
        """(observations, files, mentions) of the whole problem, as input for the matching."""
        others, runs = len(self._made) - self._files, len(self._owner)
        none = np.zeros(others, np.int64)
        every = FileStates(
            np.append(files.name_class, none)[self._made],
            np.append(files.p_absent, none + P_ABSENT_MIN)[self._made],
            np.append(files.directory, self._folder)[self._made],
        )
        state = np.empty(len(self._made), np.int64)
        state[self._made] = np.arange(len(self._made))
        known = np.append(np.full(self._contents, NOTHING), state[self._files + self._owner])
        empty = np.zeros(0, np.int64)
        link, before, after = neighbours_of(self._lies, (empty, empty, empty, empty))
        odd = np.append(np.full(self._contents, unassigned), np.zeros(runs))
        alike = np.append(classes, np.zeros(runs, np.int64))
        observed = Observations(
            alike[self._order], link, odd[self._order], before, after, known[self._order]
        )
        place = np.empty(len(self._order), np.int64)
        place[self._order] = np.arange(len(self._order))
        told = {int(place[at]): (state[who], much) for at, (who, much) in mentioned.items()}
        return observed, every, told

    def has_known_neighbours(self, aligned: Posteriors) -> Bools:
        """Bool per content: True if its neighbours on both sides are known, or nearly certain."""
        likely = np.zeros(len(self._order) + 2)
        np.maximum.at(likely, aligned.observation + 1, aligned.probability)
        likely[[0, -1]] = 1
        return self.of_contents(
            (likely[:-2] > P_NEIGHBOUR_KNOWN) & (likely[2:] > P_NEIGHBOUR_KNOWN)
        )

    def of_contents(self, held: Bools) -> Bools:
        """The values of the contents, from values of contents and runs in disk order."""
        found = np.empty(len(self._order), bool)
        found[self._order] = held
        return found[: self._contents]

    def restrict(self, aligned: Posteriors) -> Posteriors:
        """The posteriors restricted to the contents and the searched files."""
        content, file = self._order[aligned.observation], self._made[aligned.state]
        kept = (content < self._contents) & (file < self._files)
        claimed = np.empty(len(self._made))
        claimed[self._made] = aligned.expected_count
        columns = content[kept], file[kept], aligned.probability[kept]
        return Posteriors(*columns, claimed[: self._files], aligned.backward_share)


def _neighbour_subset(side: NeighbourFiles, some: Int64s, contents: Int64s) -> NeighbourFiles:
    """The known files next to some contents, with ranks counted among some of the files."""
    made = side.rank[contents]
    there = made != NOTHING
    return NeighbourFiles(
        np.where(there, np.searchsorted(some, made), NOTHING),
        side.contents_between[contents],
        side.same_group[contents],
        side.folder[contents],
    )
