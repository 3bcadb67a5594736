"""What carving gives: pieces of the disk that are taken for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Self

import numpy as np

from ext4kit.arrays.types import Bools, Int64s, Rows, UInt8s


class EndEvidence(IntEnum):
    """How the end of a carved file is known, the best first."""

    FORMAT_END = 0  # its format's own end was met, and only zeros are behind it in its last block
    FORMAT_LENGTH = (
        1  # its format states the length, and only zeros are behind it in its last block
    )
    BLOCK_LIST = 2  # its list of blocks ends
    TEXT = 3  # text up to the first zero
    DENSE = 4  # compressed or random data up to a block that ends in zeros
    FORMAT_LENGTH_PLUS = 5  # its format states the length, and a little more content is behind it
    BLOCK_LIST_GUESSED_HEAD = (
        6  # its list of blocks ends; that its first twelve blocks are its own is a guess
    )
    ZERO_PADDING = 7  # a block that ends in zeros
    NEXT_START = 8  # something else starts, or the free blocks end


@dataclass(frozen=True, slots=True)
class CarvedFiles:
    """Carved files, ascending by first block.

    Attributes:
        first: int64 (n,), first block.
        count: int64 (n,), blocks.
        size: int64 (n,), bytes, what is behind the end left out.
        kind: uint8 (n,), number in `SIGNATURE_NAMES` of what it starts like, 0 for nothing known.
        text: bool (n,), it starts like text.
        end: uint8 (n,), an `EndEvidence`.
        at_boundary: bool (n,), what is in front of it has ended too: this looks like a start.
        run_file: int64 (r,), row of the file that a run of blocks belongs to, ascending.
        run_first: int64 (r,), first block of the run; in the order of the content.
        run_count: int64 (r,), its blocks.
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
        """Bool (n,): its format tells where it ends."""
        return np.isin(self.end, [EndEvidence.FORMAT_END, EndEvidence.FORMAT_LENGTH])

    @property
    def is_fragment(self) -> Bools:
        """Bool (n,): likely a piece of a file: others begin before it ends."""
        found: Bools = self.end == EndEvidence.NEXT_START
        return found

    @property
    def is_reliable(self) -> Bools:
        """Bool (n,): good odds that this is exactly one whole file."""
        known: Bools = self.end_proven | (self.end == EndEvidence.BLOCK_LIST)
        known |= np.isin(self.end, [EndEvidence.TEXT, EndEvidence.DENSE]) & self.at_boundary
        return known

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Several as one, ascending; empty for none."""
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
        """No content."""
        number, small, flag = np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, bool)
        return cls(number, number, number, small, flag, small, flag, number, number, number)

    def take(self, rows: Rows) -> Self:
        """These files, in this order."""
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
        """All but these files."""
        return self.take(np.delete(np.arange(len(self)), rows))

    def runs(self, row: int) -> list[tuple[int, int]]:
        """(first block, number of blocks) pairs of one file, in the order of the content."""
        low, high = np.searchsorted(self.run_file, [row, row + 1])
        pairs = zip(self.run_first[low:high], self.run_count[low:high], strict=True)
        return [(int(first), int(count)) for first, count in pairs]


_PER_FILE = ("first", "count", "size", "kind", "text", "end", "at_boundary")
