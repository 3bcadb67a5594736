"""Result of carving: runs of blocks that are taken as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Self

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, UInt8s
from ext4kit.filetypes.formats import LENGTHS
from ext4kit.filetypes.signatures import SIGNATURE_NAMES

HAS_LENGTH = np.array([name in LENGTHS for name in SIGNATURE_NAMES])


class EndEvidence(IntEnum):
    """Evidence for the end of a carved file, the best first."""

    FORMAT_END = 0  # the end mark of its format, with only zeros after it in its last block
    FORMAT_LENGTH = 1  # the length that its format states, with only zeros in the rest of the block
    BLOCK_LIST = 2  # the end of its block list
    TEXT = 3  # text up to the first zero
    DENSE = 4  # compressed or random data up to a block that ends in zeros
    FORMAT_LENGTH_JOINED = 5  # the length that its format states for several pieces together
    FORMAT_LENGTH_VAGUE = 6  # the length that its format states, where nothing else shows an end
    FORMAT_LENGTH_OPEN = 7  # the same where the file probably goes on elsewhere
    FORMAT_LENGTH_PLUS = 8  # the length that its format states, with a little more content after it
    TEXT_JOINED = 9  # the end of a second piece of text with lines similar to those of the first
    BLOCK_LIST_GUESSED_HEAD = 10  # the end of its block list; its first twelve blocks are a guess
    ZERO_PADDING = 11  # a block that ends in zeros
    NEXT_START = 12  # the next file starts, or the unallocated blocks end


@dataclass(frozen=True, slots=True)
class CarvedFiles:
    """Carved files, ascending by first block.

    Attributes:
        first: int64 (n,), first block.
        count: int64 (n,), number of blocks.
        size: int64 (n,), bytes, without the slack after the end.
        kind: uint8 (n,), index in `SIGNATURE_NAMES` of the signature at its start, 0 for none.
        text: bool (n,), True where it starts like text.
        end: uint8 (n,), an `EndEvidence`.
        at_boundary: bool (n,), True where the content before it has ended: probably a file start.
        run_file: int64 (r,), row of the file that a run of blocks belongs to, ascending.
        run_first: int64 (r,), first block of the run; in content order.
        run_count: int64 (r,), number of blocks of the run.
    """

    first: Int64s
    count: Int64s
    size: Int64s
    kind: UInt8s
    text: Bools
    end: UInt8s
    at_boundary: Bools
    run_file: Int64s
    run_first: Int64s
    run_count: Int64s

    def __len__(self) -> int:
        return len(self.first)

    @property
    def end_proven(self) -> Bools:
        """Bool (n,): True where the file's format states its end and nothing contradicts it."""
        return np.isin(self.end, [EndEvidence.FORMAT_END, EndEvidence.FORMAT_LENGTH])

    @property
    def is_fragment(self) -> Bools:
        """Bool (n,): True for probable fragments: another file starts before the end."""
        found: Bools = self.end == EndEvidence.NEXT_START
        return found

    @property
    def is_reliable(self) -> Bools:
        """Bool (n,): True where the carved file is probably exactly one whole file."""
        known: Bools = self.end_proven | (self.end == EndEvidence.BLOCK_LIST)
        guessed: Bools = np.isin(self.end, [EndEvidence.TEXT, EndEvidence.DENSE])
        known |= guessed & self.at_boundary & ~HAS_LENGTH[self.kind]  # a format would state it
        return known

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """One table from several, ascending; empty for none."""
        parts = parts or [cls.empty()]
        counts = np.cumsum([0, *(len(part) for part in parts)])
        columns = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)
        }
        moved = [part.run_file + at for part, at in zip(parts, counts, strict=False)]
        columns["run_file"] = np.concatenate(moved)
        return cls(**columns).take(np.argsort(columns["first"], kind="stable"))

    @classmethod
    def empty(cls) -> Self:
        """No files."""
        number, small, flag = np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, bool)
        return cls(number, number, number, small, flag, small, flag, number, number, number)

    def take(self, rows: Rows) -> Self:
        """The files at `rows`, in the order of `rows`."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        file = place[self.run_file]
        order = np.argsort(file, kind="stable")
        order = order[file[order] >= 0]
        columns = {name: getattr(self, name)[rows] for name in _PER_FILE}
        return type(self)(
            **columns,
            run_file=file[order],
            run_first=self.run_first[order],
            run_count=self.run_count[order],
        )

    def drop(self, rows: Rows) -> Self:
        """All files except those at `rows`."""
        return self.take(np.delete(np.arange(len(self)), rows))

    def runs(self, row: int) -> list[tuple[int, int]]:
        """(first block, number of blocks) pairs of one file, in content order."""
        low, high = np.searchsorted(self.run_file, [row, row + 1])
        pairs = zip(self.run_first[low:high], self.run_count[low:high], strict=True)
        return [(int(first), int(count)) for first, count in pairs]


_PER_FILE = ("first", "count", "size", "kind", "text", "end", "at_boundary")
