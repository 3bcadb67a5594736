"""Sizes of files whose format states where they end."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.carving.area import CarvingArea
from ext4kit.carving.boundaries import MAX_CHANCE_ZEROS, CarvedPieces, FeatureIndex
from ext4kit.carving.result import HAS_LENGTH, EndEvidence
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filetypes.formats import CHECKS, FORMATS, LENGTHS, Budget, ContentReader, Stated
from ext4kit.filetypes.signatures import (
    LONG_SIGNATURES,
    SIGNATURE_NAMES,
    WEAK_SIGNATURES,
    match_signatures,
)
from ext4kit.parsers.superblock import SUPERBLOCK_OFFSET

READ_TIMES = 8  # formats may read or decompress all usable blocks this many times
READ_AT_LEAST = 1 << 28
_AT_ONCE = 2048  # files whose first blocks are read together
_MOST_STARTS_INSIDE = 64
_REACH_AT_LEAST = 16 << 20
_MAGIC_AT = np.array([0, *(one.magic_at for one in FORMATS)])
_OF_MEMBERS = np.array([False, *(one.has_members for one in FORMATS)])
_REPEATED = np.array([False, *(one.repeats for one in FORMATS)])
_PART = 2048  # blocks; the kernel may begin a larger file at a multiple of it
_LONG = np.array([name in LONG_SIGNATURES for name in SIGNATURE_NAMES]) & ~_REPEATED
_SHORT = np.array([name in WEAK_SIGNATURES for name in SIGNATURE_NAMES])


class FormatSizer:
    """Determines the size of files that start with a known signature.

    Args:
        reader: the blocks as they are on disk.
        area: positions of usable blocks.
        index: features by position.
        budget: limit for reads and decompression.
    """

    def __init__(
        self, reader: BlockReader, area: CarvingArea, index: FeatureIndex, budget: Budget
    ) -> None:
        self.reader, self.area, self.index, self.budget = reader, area, index, budget
        self.rows: list[tuple[int, int, int, int, int, bool]] = []
        self.starts: Int64s = np.zeros(0, np.int64)  # where files start, ascending
        self.firm: Int64s = np.zeros(0, np.int64)  # where files may start
        self.aligned: Int64s = np.zeros(0, np.int64)  # long signatures at starts of parts
        self.heads: Int64s = np.zeros(0, np.int64)  # all signatures that may start a file
        self.kinds: Int64s = np.zeros(0, np.int64)  # signatures of the heads

    def sized_files(self, taken: Int64s, taken_count: Int64s) -> CarvedPieces:
        """Files whose format states their end, ascending and without overlaps.

        Args:
            taken: int64, first positions of unavailable runs, ascending.
            taken_count: int64, their lengths.
        """
        index = self.index
        wanted = np.flatnonzero(HAS_LENGTH[index.kind])
        places = index.position[wanted]
        kinds = index.kind[wanted]
        start = places - _MAGIC_AT[kinds] // self.reader.block_size
        inside = (start >= 0) & (self.area.contiguous_end(np.maximum(start, 0)) > places)
        order = np.argsort(start[inside], kind="stable")
        places, kinds = start[inside][order], kinds[inside][order]
        fresh = index.at_boundary(places, self.area)
        firm = index.at_boundary(places, self.area, MAX_CHANCE_ZEROS)
        aligned = np.isin(places, self.part_starts)
        firm |= aligned
        fresh = np.where(_REPEATED[kinds], firm, fresh)
        self.firm = places[fresh | firm]
        self.aligned = places[aligned & _LONG[kinds]]
        strong = ~_SHORT[kinds] & (fresh | _LONG[kinds])
        self.starts = places[fresh & strong]
        strong |= fresh | firm
        self.heads, self.kinds = places[strong], kinds[strong]
        limit = self.area.contiguous_end(places)
        following = np.searchsorted(taken, places, side="right")
        limit = np.minimum(limit, np.append(taken, self.area.size)[following])
        hidden = (taken + taken_count)[following - 1] > places if len(taken) else following > 0
        end = 0
        for at, kind, new, stop, is_taken in zip(
            places.tolist(), kinds.tolist(), (fresh | firm).tolist(), limit.tolist(),
            (hidden & (following > 0)).tolist(), strict=True,
        ):  # fmt: skip
            if at >= end and not is_taken:
                end = self._size_at(at, kind, new or at == end, stop) or end
        table = np.array(self.rows, np.int64).reshape(-1, 6).T
        first, count, size, kind, how, new = table
        text = np.zeros(len(first), bool)
        return CarvedPieces(
            first, count, size, kind.astype(np.uint8), text, how.astype(np.uint8), new > 0
        )

    def size_in_runs(self, runs: list[tuple[int, int]]) -> int:
        """Size of a file whose blocks are known, if its format states a size that fits.

        Args:
            runs: (first position, number of positions) of the runs of the file.

        Returns:
            Bytes; 0 if the format states no size that fits.
        """
        row, is_event = self.index.at_positions(np.array([runs[0][0]]))
        kind = int(self.index.kind[row[0]]) if is_event[0] else 0
        return _size_in_blocks(self.reader, self._blocks_in(runs), kind, self.budget)

    def _blocks_in(self, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """(first block, number of blocks) of the runs of blocks at some runs of positions."""
        return [run for first, count in runs for run in self.area.runs_of(first, count)]

    def _unproven_end(self, at: int, last: int, stated: Stated) -> EndEvidence:
        """Evidence for a stated end with nothing but zeros after it in its last block."""
        index = self.index
        fills_blocks = stated.size % self.reader.block_size == 0
        if not index.is_nonzero(np.array([last]))[0]:
            row = int(np.searchsorted(index.start, last)) - 1
            end = int(index.start[row] + index.length[row])
            low, high = np.searchsorted(self.firm, [at + 1, last + 1])
            goes_on = end in self.part_starts or (stated.open_ended and high > low)
            return EndEvidence.FORMAT_LENGTH_OPEN if goes_on else EndEvidence.FORMAT_LENGTH_VAGUE
        if fills_blocks and stated.open_ended and last + 1 in self.part_starts:
            return EndEvidence.FORMAT_LENGTH_OPEN
        if fills_blocks and (stated.open_ended or not self.is_edge(last + 1)):
            return EndEvidence.FORMAT_LENGTH_VAGUE
        return EndEvidence.FORMAT_LENGTH

    def is_edge(self, at: int) -> bool:
        """Whether zeros, a file or another kind of data begins at a position."""
        both = np.array([at - 1, at])
        if self.area.contiguous_end(both[:1])[0] <= at or not self.index.is_nonzero(both[1:])[0]:
            return True
        (before, row), (_, is_event) = self.index.at_positions(both)
        if not is_event:
            return False
        return bool(self.index.kind[row] > 0 or self.index.text[row] != self.index.text[before])

    @cached_property
    def part_starts(self) -> Int64s:
        """Positions, ascending, at which the kernel may begin a part of a large file."""
        boot = self.reader.block_size == SUPERBLOCK_OFFSET  # block 0 then belongs to no group
        first = -(-(self.area.start - boot) // _PART)
        count = np.maximum(-(-(self.area.start + self.area.length - boot) // _PART) - first, 0)
        row, step = expand(count)
        places = self.area.positions((first[row] + step) * _PART + boot)
        found: Int64s = places[places >= 0]
        return found

    def is_repeated(self, heads: Int64s) -> Bools:
        """Bool (n,): True for heads with a signature that also occurs inside such files."""
        found: Bools = _REPEATED[self.kinds[np.searchsorted(self.heads, heads)]]
        return found

    def is_of_members(self, kind: int) -> bool:
        """Whether files with a signature consist of members that all begin with it."""
        return bool(_OF_MEMBERS[kind])

    def stated_in(
        self, runs: list[tuple[int, int]], budget: Budget
    ) -> tuple[Stated | None, ContentReader]:
        """The end that the format states for a file in some runs; the first run begins at a head.

        Of several runs, only the last is searched for the end: earlier calls found none in the
        others.
        """
        window = window_of(self.reader, self._blocks_in(runs), budget)
        window.searched = sum(count for _, count in runs[:-1]) * window.block_size
        window.reach = min(window.searched + self._reach(runs[-1][0]), window.size)
        return LENGTHS[SIGNATURE_NAMES[self.kind_of(runs[0][0])]](window), window

    def _reach(self, at: int) -> int:
        """Maximum number of bytes, from a position on, that are searched for the end of a file.

        Few blocks inside a file look like the start of another one. Without this limit a file
        whose end is missing would be searched for across the whole disk.
        """
        row = int(np.searchsorted(self.starts, at)) + _MOST_STARTS_INSIDE
        far = int(self.starts[row]) if row < len(self.starts) else self.area.size
        block = self.reader.block_size
        return max(far - at, _REACH_AT_LEAST // block) * block

    def kind_of(self, head: int) -> int:
        """The signature (index in `SIGNATURE_NAMES`) at a position in `heads`."""
        return int(self.kinds[np.searchsorted(self.heads, head)])

    def is_sound(
        self, runs: list[tuple[int, int]], kind: int, size: int, budget: Budget
    ) -> bool | None:
        """Whether the checksums within a file match; None for a format without checksums."""
        check = CHECKS.get(SIGNATURE_NAMES[kind])
        return check(window_of(self.reader, self._blocks_in(runs), budget), size) if check else None

    def _size_at(self, at: int, kind: int, fresh: bool, stop: int) -> int | None:
        """Add the file that starts at a position; return its end position, None without a file."""
        if not fresh and (_SHORT[kind] or _REPEATED[kind]):
            return None
        window = ContentReader(
            self.reader,
            lambda first, count: self.area.runs_of(at + first, count),
            stop - at,
            self.budget,
        )
        window.reach = self._reach(at)
        stated = LENGTHS[SIGNATURE_NAMES[kind]](window)
        if stated is None or not 0 < stated.size <= window.size:
            return None
        size, how = self._confirm_end(window, at, kind, stated)
        if not size or (not fresh and how > EndEvidence.FORMAT_LENGTH):
            return None
        count = -(-size // window.block_size)
        self.rows.append((at, count, size, kind, how, fresh))
        return at + count

    def _starts_inside(self, at: int, last: int) -> bool:
        """Whether another file with a known signature starts after `at`, up to `last`."""
        low, high = np.searchsorted(self.starts, [at + 1, last + 1])
        return bool(high > low)

    def _confirm_end(
        self, window: ContentReader, at: int, kind: int, stated: Stated
    ) -> tuple[int, EndEvidence]:
        """The size of the file and the evidence for it; size 0 if the stated end is not confirmed.

        The stated end is confirmed if its block holds only zeros after it. A little more content
        followed by zeros is accepted as well and counts as part of the file.
        """
        block = window.block_size
        last = at + (stated.size - 1) // block
        low, high = np.searchsorted(self.aligned, [at + 1, last + 1])
        if not stated.proven and (high > low or (last > at and last in self.firm)):
            return 0, EndEvidence.FORMAT_LENGTH  # the rest of the file is elsewhere
        if window.zeros_behind(stated.size):
            if stated.proven:
                runs = [(at, -(-stated.size // block))]
                if self.is_sound(runs, kind, stated.size, self.budget) is False:
                    return 0, EndEvidence.FORMAT_END
                return stated.size, EndEvidence.FORMAT_END
            return stated.size, self._unproven_end(at, last, stated)
        for place in (last, last + 1):
            tail = int(self.index.zero_tails(np.array([place]))[0])
            size = (place - at + 1) * block - tail
            if tail and size <= window.size and not self._starts_inside(at, place):
                return size, EndEvidence.FORMAT_LENGTH_PLUS
        return 0, EndEvidence.FORMAT_LENGTH_PLUS


def format_sizes(reader: BlockReader, runs: Runs, size: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """Sizes of files whose blocks are known, from the lengths that their formats state.

    Args:
        reader: the blocks.
        runs: `owner` is the file, ascending; runs of a file in content order.
        size: int64 (n,), bytes up to the last nonzero one. This value is kept where a file has
            holes or its format states no length that fits.

    Returns:
        (size, kind, whether the size is from the format) of each file.
    """
    first = np.flatnonzero(np.diff(runs.owner, prepend=-1) != 0)
    first = first[runs.logical[first] == 0]
    kind = np.zeros(len(size), np.int64)
    for at in range(0, len(first), _AT_ONCE):
        some = first[at : at + _AT_ONCE]
        with suppress(AccessError):
            kind[runs.owner[some]] = match_signatures(reader.read_many(runs.physical[some]))
    budget = Budget(max(int(runs.length.sum()) * reader.block_size * READ_TIMES, READ_AT_LEAST))
    given = np.zeros(len(size), np.int64)
    for row in np.flatnonzero(HAS_LENGTH[kind]).tolist():
        mine = runs.take(slice(*np.searchsorted(runs.owner, [row, row + 1])))
        follow = np.cumsum(mine.length) - mine.length
        if (mine.logical == follow).all() and not mine.unwritten.any():
            pairs = list(zip(mine.physical.tolist(), mine.length.tolist(), strict=True))
            given[row] = _size_in_blocks(reader, pairs, int(kind[row]), budget)
    return np.where(given > 0, given, size), kind, given > 0


def _size_in_blocks(
    reader: BlockReader, blocks: list[tuple[int, int]], kind: int, budget: Budget
) -> int:
    """The size that the format states for a file in these runs of blocks; 0 if none fits."""
    if not HAS_LENGTH[kind]:
        return 0
    window = window_of(reader, blocks, budget)
    stated = LENGTHS[SIGNATURE_NAMES[kind]](window)
    if stated is None or not window.zeros_behind(stated.size):
        return 0
    if stated.open_ended and stated.size % window.block_size == 0:
        return 0  # nothing shows that the file ends there
    return stated.size if stated.size > window.size - window.block_size else 0


def window_of(reader: BlockReader, blocks: list[tuple[int, int]], budget: Budget) -> ContentReader:
    """A reader of the bytes of some runs of blocks, one after the other."""

    def place(first: int, count: int) -> list[tuple[int, int]]:
        found = []
        for start, length in blocks:
            taken_count = min(max(length - first, 0), count)
            if taken_count:
                found.append((start + first, taken_count))
            first, count = max(first - length, 0), count - taken_count
        return found

    return ContentReader(reader, place, sum(length for _, length in blocks), budget)
