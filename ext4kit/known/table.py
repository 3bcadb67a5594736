"""Many digests of one algorithm as arrays, found by their first eight bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Bytes2D, Int64s, UInt64s
from ext4kit.fields import HashName

DIGITS: dict[int, HashName] = {64: "sha256", 40: "sha1", 32: "md5"}  # hexadecimal; strongest first
WIDTHS: dict[HashName, int] = {name: digits // 2 for digits, name in DIGITS.items()}  # bytes


@dataclass(frozen=True, slots=True)
class DigestTable:
    """The digests of one algorithm.

    Attributes:
        rows: uint8 (digests, bytes of one), in the order of the list.
        starts: uint64 (digests,), the first eight bytes of each as a number, sorted.
        order: int64 (digests,), the row of each of `starts`.
    """

    rows: Bytes2D
    starts: UInt64s
    order: Int64s

    @classmethod
    def of(cls, rows: Bytes2D) -> DigestTable:
        """The table of digests in any order."""
        starts = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
        order = np.argsort(starts)
        return cls(rows, starts[order], order)

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, digest: bytes) -> bool:
        """Whether a digest is one of them."""
        start = np.uint64(int.from_bytes(digest[:8], "big"))
        first = np.searchsorted(self.starts, start)
        last = np.searchsorted(self.starts, start, "right")
        rows = self.rows[self.order[first:last]]
        return bool((rows == np.frombuffer(digest, np.uint8)).all(axis=1).any())
