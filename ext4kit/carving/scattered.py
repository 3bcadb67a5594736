"""Files of known formats whose blocks are not consecutive: a head and further pieces elsewhere.

The kernel writes a large file in parts of 2,048 blocks. Each part starts at the block after the
previous part if that block is free; the rest of a file is often written to a smaller gap that
another file left (kernel fs/ext4/mballoc.c, `ext4_mb_normalize_request`). A head therefore ends
where another file starts, at the end of the unused blocks, or after such a part; a piece begins
where a file has ended. The format shows which pieces belong together.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import zip_longest
from operator import itemgetter

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import NO_ROW, Int64s
from ext4kit.carving.boundaries import final_blocks
from ext4kit.carving.direct_blocks import AssembledFile
from ext4kit.carving.format_sizes import READ_AT_LEAST, FormatSizer
from ext4kit.carving.indirect_bodies import PositionRuns
from ext4kit.carving.result import EndEvidence
from ext4kit.filetypes.formats import Budget

_MOST_STOPS, _MOST_PARTS = 3, 2  # places that are tried as the end of a piece
_NEAREST = 24  # places that are tried as the start of the last piece
_NEAREST_BETWEEN = 12  # the same for a piece that is not the last
_MOST_PIECES = 4
_MOST_TRIES = 4000  # arrangements of pieces that are tried for each head
_READ_TIMES = 4  # formats may read all remaining blocks this many times
# limit of reads for one head: this many times its first piece, or these bytes if they are more
_EACH_TIMES, _EACH_AT_LEAST = 128, 64 << 20
_CHANCE_ZEROS, _OWN_ZEROS = 2, 16  # zero bytes at the end of a file: by chance; as part of a format


def join_scattered(measuring: FormatSizer, taken: Int64s) -> list[AssembledFile]:
    """Files in several pieces, each confirmed by its format.

    Args:
        measuring: the area, its features, and the starts of files.
        taken: int64 (n, 2), first position and length of the runs of other files, ascending.
    """
    edges = np.unique(measuring.area.limit)
    whole = Intervals(np.append(0, edges[:-1])[: len(edges)], np.diff(edges, prepend=0))
    left = whole.subtract(Intervals(*taken.T))
    heads = measuring.heads[left.rows_at(measuring.heads) != NO_ROW]
    if not len(heads):
        return []
    space, found = _Space(measuring, left, heads), list[AssembledFile]()
    passed = dict[int, int]()  # signature -> how far the last file without an end was followed
    block = measuring.reader.block_size
    total = max(int(left.length.sum()) * block * _READ_TIMES, READ_AT_LEAST)
    for at in heads.tolist():
        kind = measuring.kind_of(at)
        if measuring.is_of_members(kind) and at < passed.get(kind, 0):
            continue
        if total > 0 and space.is_free(at):
            most = min(total, max((space.end_of(at) - at) * block * _EACH_TIMES, _EACH_AT_LEAST))
            budget = Budget(most)
            search = _Search(measuring, space, budget, at)
            file = search.file()
            total -= most - budget.left
            passed[kind] = search.followed
            if file is not None:
                found.append(file)
                space.take(file.runs)
    return found


class _Space:
    """The positions that no file has taken yet, and where pieces may begin and end.

    Args:
        measuring: the area and its features.
        left: runs of free positions, each without a break.
        heads: int64, starts of files, ascending.
    """

    def __init__(self, measuring: FormatSizer, left: Intervals, heads: Int64s) -> None:
        self.index = index = measuring.index
        self.left = left
        ends = final_blocks(index, left.start, left.length) + 1
        begins = np.unique(np.concatenate([left.start, index.start, ends]))
        begins = begins[(left.rows_at(begins) != NO_ROW) & index.is_nonzero(begins)]
        others = heads[~measuring.is_repeated(heads)]
        self.begins: Int64s = begins[~np.isin(begins, others)]
        self.after_others: Int64s = self.begins[np.isin(self.begins, left.start)]
        self.stops: Int64s = np.union1d(heads, index.start + index.length)
        parts = measuring.part_starts
        parts = parts[index.is_nonzero(parts) & (left.rows_at(parts) != NO_ROW)]
        self.certain: Int64s = np.intersect1d(others, parts)  # a file starts there
        self.parts: Int64s = np.setdiff1d(parts, self.certain)
        self.taken: list[tuple[int, int]] = []

    def is_free(self, at: int) -> bool:
        """Whether the position is in none of the joined files."""
        row = bisect_right(self.taken, at, key=itemgetter(0)) - 1
        return row < 0 or self.taken[row][1] <= at

    def end_of(self, at: int) -> int:
        """End of the free positions after a position: the end of its run or the start of a file."""
        end = int(self.left.end[self.left.rows_at(np.array([at]))[0]])
        low = int(np.searchsorted(self.certain, at, side="right"))
        end = min(end, int(self.certain[low])) if low < len(self.certain) else end
        row = bisect_right(self.taken, at, key=itemgetter(0))
        return min(end, self.taken[row][0]) if row < len(self.taken) else end

    def stops_after(self, at: int) -> list[int]:
        """Where a piece that begins at a position may end while its file continues elsewhere.

        These are the end of its run, the ends of parts of 2,048 blocks, and positions where data
        ends or another file may start.
        """
        end = self.end_of(at)
        found = [end]
        for places, most in ((self.parts, _MOST_PARTS), (self.stops, _MOST_STOPS)):
            low = int(np.searchsorted(places, at, side="right"))
            found += [one for one in places[low : low + most].tolist() if one < end]
        places = np.array(list(dict.fromkeys(found)), np.int64)
        return [int(one) for one in places[self.index.is_nonzero(places - 1)]]

    def is_full(self, stop: int) -> bool:
        """Whether the last block before a position has no zeros at its end: its file continues."""
        places = np.array([stop - 1])
        return bool(self.index.is_nonzero(places)[0]) and not self.index.zero_tails(places)[0]

    def nearest(self, at: int) -> list[int]:
        """Where the next piece may begin, nearest first, alternating between three kinds of places.

        The three kinds are ends of other files, all starts of pieces, and starts of parts.
        """
        tables = (self.after_others, self.begins, self.parts)
        both = zip_longest(*(_nearest(one, at) for one in tables))
        places = dict.fromkeys(one for pair in both for one in pair if one is not None)
        return [one for one in places if self.is_free(one)]

    def take(self, runs: PositionRuns) -> None:
        """Mark the runs of a file as taken."""
        for first, count in runs:
            insort(self.taken, (first, first + count))
            if self.left.rows_at(np.array([first + count]))[0] != NO_ROW:
                self.begins = np.union1d(self.begins, first + count)
                self.after_others = np.union1d(self.after_others, first + count)


def _nearest(places: Int64s, at: int) -> list[int]:
    row = int(np.searchsorted(places, at))
    near = places[max(row - _NEAREST, 0) : row + _NEAREST]
    found: list[int] = near[np.argsort(np.abs(near - at), kind="stable")][:_NEAREST].tolist()
    return found


class _Search:
    """The search for the pieces of one file.

    Args:
        measuring, space: sizes by format, and the free positions.
        budget: limit for reads.
        at: position of its head.
    """

    def __init__(self, measuring: FormatSizer, space: _Space, budget: Budget, at: int) -> None:
        self.measuring, self.space, self.budget, self.at = measuring, space, budget, at
        self.tries = _MOST_TRIES
        self.found: list[tuple[int, int, AssembledFile]] = []  # (scores, file); higher is better
        self.is_certain = False
        self.followed = at  # end of the first piece as far as the format was followed

    def file(self) -> AssembledFile | None:
        """The best arrangement of the pieces, None if no format confirms one.

        Arrangements of fewer pieces are tried first. Of several with equally few pieces, a longer
        one is preferred; the search stops at an arrangement that checksums confirm.
        """
        for pieces in range(1, _MOST_PIECES):
            for stop in self.space.stops_after(self.at):
                self._go_on([(self.at, stop - self.at)], pieces)
                if self.found:
                    return max(self.found, key=itemgetter(0, 1))[2]
        return None

    def _go_on(self, runs: PositionRuns, pieces: int) -> None:
        """Try to complete the file with some further pieces, if its format needs more data."""
        if not self._is_open(runs):
            return
        places = self.space.nearest(sum(runs[-1]))
        for begin in places if pieces == 1 else places[:_NEAREST_BETWEEN]:
            if self._is_over:
                return
            if any(first <= begin < first + count for first, count in runs):
                continue
            if pieces > 1:
                stops = filter(self.space.is_full, self.space.stops_after(begin))
                if stop := next(stops, 0):
                    self._go_on([*runs, (begin, stop - begin)], pieces - 1)
            else:
                self._confirm([*runs, (begin, self.space.end_of(begin) - begin)])

    @property
    def _is_over(self) -> bool:
        """Whether the search ends: a file is certain, or the tries or the budget are used up."""
        return self.is_certain or self.tries <= 0 or self.budget.left <= 0

    def _is_open(self, runs: PositionRuns) -> bool:
        """Whether the file continues after these runs according to its format."""
        if self._is_over:
            return False
        self.tries -= 1
        stated, window = self.measuring.stated_in(runs, self.budget)
        if stated is not None and stated.size > window.size:
            if len(runs) == 1:
                self.followed = max(self.followed, sum(runs[0]))
            return True
        within = stated is not None and stated.size <= window.size - window.block_size
        return window.fell_short and not within

    def _confirm(self, runs: PositionRuns) -> None:
        """Keep the file, cut at its end, if its format finds the end in the last run."""
        self.tries -= 1
        measuring, block = self.measuring, self.measuring.reader.block_size
        stated, window = measuring.stated_in(runs, self.budget)
        before = sum(count for _, count in runs[:-1])
        if stated is None or not before * block < stated.size <= window.size:
            return
        count = -(-stated.size // block) - before
        first = runs[-1][0]
        last = np.array([first + count - 1])
        tail = int(measuring.index.zero_tails(last)[0])
        if not measuring.index.is_nonzero(last)[0]:
            tail = block
        more = tail - -stated.size % block
        most = _CHANCE_ZEROS if stated.open_ended else _OWN_ZEROS
        if more < 0 or (more > most and not stated.proven):
            return
        if not tail and not measuring.is_edge(first + count):
            return
        whole = [*runs[:-1], (first, count)]
        sound = None
        if stated.proven:
            kind = measuring.kind_of(self.at)
            sound = measuring.is_sound(whole, kind, stated.size, self.budget)
        if sound is not False:
            end = EndEvidence.FORMAT_END if sound else EndEvidence.FORMAT_LENGTH_JOINED
            length = stated.size if stated.open_ended else 0
            self.found.append((length, -more, AssembledFile(whole, end, stated.size)))
            self.is_certain = sound is True
