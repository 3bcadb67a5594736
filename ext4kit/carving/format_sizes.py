"""Sizes of files whose format gives their end."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.carving.area import CarvingArea
from ext4kit.carving.boundaries import CarvedPieces, FeatureIndex
from ext4kit.carving.result import EndEvidence
from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filetypes.lengths import LENGTHS, Budget, ContentReader, Stated
from ext4kit.filetypes.signatures import SIGNATURE_NAMES, WEAK_SIGNATURES, match_signatures

_MEASURED = np.array([name in LENGTHS for name in SIGNATURE_NAMES])
READ_TIMES = 8  # formats may read or decompress all usable blocks this many times
READ_AT_LEAST = 1 << 28
_AT_ONCE = 2048  # files whose first blocks are read together
_MOST_STARTS_INSIDE = 64
_REACH_AT_LEAST = 16 << 20
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
        self.starts: Int64s = np.zeros(0, np.int64)  # of files with a signature, ascending

    def sized_files(self, taken: Int64s, taken_count: Int64s) -> CarvedPieces:
        """Files whose format gives their end, ascending and without overlaps.

        Args:
            taken: int64, first positions of unavailable runs, ascending.
            taken_count: int64, their lengths.
        """
        index = self.index
        wanted = np.flatnonzero(_MEASURED[index.kind])
        places = index.position[wanted]
        fresh = index.at_boundary(places, self.area)
        self.starts = places[fresh & ~_SHORT[index.kind[wanted]]]
        limit = self.area.contiguous_end(places)
        following = np.searchsorted(taken, places, side="right")
        limit = np.minimum(limit, np.append(taken, self.area.size)[following])
        hidden = (taken + taken_count)[following - 1] > places if len(taken) else following > 0
        wanted_kinds = index.kind[wanted]
        end = 0
        for at, kind, new, stop, is_taken in zip(
            places.tolist(), wanted_kinds.tolist(), fresh.tolist(), limit.tolist(),
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
        """Size of a file whose blocks are known, if its format gives one that fits.

        Args:
            runs: its (first position, number of positions) pairs.

        Returns:
            Bytes; 0 if the format gives no size or one that does not fit.
        """
        row, is_event = self.index.at_positions(np.array([runs[0][0]]))
        kind = int(self.index.kind[row[0]]) if is_event[0] else 0
        blocks = [run for first, count in runs for run in self.area.runs_of(first, count)]
        return _size_in_blocks(self.reader, blocks, kind, self.budget)

    def _size_at(self, at: int, kind: int, fresh: bool, stop: int) -> int | None:
        """Add the file that starts at a position and return its end position, None for no file."""
        if not fresh and _SHORT[kind]:
            return None
        window = ContentReader(
            self.reader,
            lambda first, count: self.area.runs_of(at + first, count),
            stop - at,
            self.budget,
        )
        # Few blocks inside a file look like the start of another one. Without this limit a file
        # whose end is missing would be searched for across the whole disk.
        row = int(np.searchsorted(self.starts, at)) + _MOST_STARTS_INSIDE
        far = int(self.starts[row]) if row < len(self.starts) else self.area.size
        window.reach = max(far - at, _REACH_AT_LEAST // self.reader.block_size) * window.block_size
        stated = LENGTHS[SIGNATURE_NAMES[kind]](window)
        if stated is None or not 0 < stated.size <= window.size:
            return None
        size, how = self._confirm_end(window, at, stated)
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
        self, window: ContentReader, at: int, stated: Stated
    ) -> tuple[int, EndEvidence]:
        """The size and its evidence: only zeros after it, or a little more content and zeros."""
        block = window.block_size
        last = at + (stated.size - 1) // block
        if window.zeros_behind(stated.size):
            return (
                stated.size,
                EndEvidence.FORMAT_END if stated.proven else EndEvidence.FORMAT_LENGTH,
            )
        for place in (last, last + 1):
            tail = int(self.index.zero_tails(np.array([place]))[0])
            size = (place - at + 1) * block - tail
            if tail and size <= window.size and not self._starts_inside(at, place):
                return size, EndEvidence.FORMAT_LENGTH_PLUS
        return 0, EndEvidence.FORMAT_LENGTH_PLUS


def format_sizes(reader: BlockReader, runs: Runs, size: Int64s) -> tuple[Int64s, Int64s]:
    """(size, kind) of files whose blocks are known, where their formats give their lengths.

    Args:
        reader: the blocks.
        runs: `owner` is the file, ascending; runs of a file in content order.
        size: int64 (n,), bytes up to the last one that is not zero. It is kept where a file has
            holes or its format gives no length that fits.
    """
    first = np.flatnonzero(np.diff(runs.owner, prepend=-1) != 0)
    first = first[runs.logical[first] == 0]
    kind = np.zeros(len(size), np.int64)
    for at in range(0, len(first), _AT_ONCE):
        some = first[at : at + _AT_ONCE]
        with suppress(AccessError):
            kind[runs.owner[some]] = match_signatures(reader.read_many(runs.physical[some]))
    budget = Budget(max(int(runs.length.sum()) * reader.block_size * READ_TIMES, READ_AT_LEAST))
    found = size.copy()
    for row in np.flatnonzero(_MEASURED[kind]).tolist():
        mine = runs.take(slice(*np.searchsorted(runs.owner, [row, row + 1])))
        follow = np.cumsum(mine.length) - mine.length
        if (mine.logical == follow).all() and not mine.unwritten.any():
            pairs = list(zip(mine.physical.tolist(), mine.length.tolist(), strict=True))
            found[row] = _size_in_blocks(reader, pairs, int(kind[row]), budget) or size[row]
    return found, kind


def _size_in_blocks(
    reader: BlockReader, blocks: list[tuple[int, int]], kind: int, budget: Budget
) -> int:
    """The size that the format of a file in these runs of blocks gives, 0 if none fits."""
    if not _MEASURED[kind]:
        return 0

    def place(first: int, count: int) -> list[tuple[int, int]]:
        found = []
        for start, length in blocks:
            taken_count = min(max(length - first, 0), count)
            if taken_count:
                found.append((start + first, taken_count))
            first, count = max(first - length, 0), count - taken_count
        return found

    window = ContentReader(reader, place, sum(length for _, length in blocks), budget)
    stated = LENGTHS[SIGNATURE_NAMES[kind]](window)
    if stated is None or not window.zeros_behind(stated.size):
        return 0
    return stated.size if stated.size > window.size - window.block_size else 0
