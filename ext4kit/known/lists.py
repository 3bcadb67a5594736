"""What a list of known files is, and one whose digests are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.fields import HashName
from ext4kit.known.table import DigestTable


class KnownList(Protocol):
    """A list of known files.

    Attributes:
        name: file name of the list.
        bad: lines that have no digest; first_bad: number of the first one, from 1.
    """

    name: str
    bad: int
    first_bad: int

    @property
    def count(self) -> int | None:
        """Digests in it; None where they were not counted."""

    @property
    def algorithms(self) -> tuple[HashName, ...]:
        """Algorithms of its digests, the strongest first."""

    def may_have_size(self, size: int) -> bool:
        """Whether a file of this size can be in it."""

    def has(self, algorithm: HashName, digest: bytes) -> bool:
        """Whether it has a digest.

        Raises:
            RequestError: the list cannot be read.
        """


@dataclass(slots=True)
class DigestList:
    """A list whose digests are in memory; see `KnownList`.

    Attributes:
        tables: digests by algorithm.
        sizes: int64, sorted: sizes of the files; None where not each of them has one.
    """

    name: str
    tables: dict[HashName, DigestTable]
    sizes: Int64s | None = None
    bad: int = 0
    first_bad: int = 0

    @property
    def count(self) -> int | None:
        """Digests."""
        return sum(map(len, self.tables.values()))

    @property
    def algorithms(self) -> tuple[HashName, ...]:
        """Algorithms of its digests."""
        return tuple(self.tables)

    def may_have_size(self, size: int) -> bool:
        """Whether a file of this size can be in it."""
        if self.sizes is None:
            return True
        place = int(np.searchsorted(self.sizes, size))
        return place < len(self.sizes) and int(self.sizes[place]) == size

    def has(self, algorithm: HashName, digest: bytes) -> bool:
        """Whether it has a digest."""
        table = self.tables.get(algorithm)
        return table is not None and table.has(digest)
