"""The scan of unallocated space for all sources, as a whole or in parts.

The results of all batches are joined in the order of the batches. A part is a range of batches: its
results are joined by the same function, and so are those of all parts. A scan in parts therefore
gives the same results as one scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.carving import BlockFeatures, feature_scanner
from ext4kit.history import History
from ext4kit.problems import Problems
from ext4kit.recovery.mapped_blocks import count_mapped_as_used
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.recovery.untagged_content import DataEnds, data_end_scanner
from ext4kit.scan import BlockBatch, Scanner, scan
from ext4kit.unallocated.indirect import indirect_scanner
from ext4kit.unallocated.metadata import MetadataBlocks, metadata_scanner
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.units import Progress


@dataclass(frozen=True, slots=True)
class ScanResults:
    """What the scanners found in some batches, in the order of the batches.

    Attributes:
        metadata: metadata blocks.
        pointers: blocks (n,) that may be indirect blocks.
        data_ends: data ends of journal blocks.
        block_features: block features for carving.
    """

    metadata: MetadataBlocks
    pointers: Int64s
    data_ends: DataEnds
    block_features: BlockFeatures

    @classmethod
    def joined(
        cls,
        metadata: Sequence[MetadataBlocks],
        pointers: Sequence[Int64s],
        data_ends: Sequence[DataEnds],
        block_features: Sequence[BlockFeatures],
    ) -> Self:
        """The results of batches or of ranges of batches, in their order."""
        return cls(
            MetadataBlocks.concat(metadata),
            np.concatenate([np.zeros(0, np.int64), *pointers]),
            DataEnds.concat(data_ends),
            BlockFeatures.concat(block_features),
        )

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The results of ranges of batches, in their order."""
        return cls.joined(
            [part.metadata for part in parts],
            [part.pointers for part in parts],
            [part.data_ends for part in parts],
            [part.block_features for part in parts],
        )


@dataclass(slots=True)
class ScanRange:
    """A range of the batches of a space, to be scanned.

    Attributes:
        space: the unallocated space.
        numbers: numbers of the batches.
        watched: problems that reading may add to.
        troubled: numbers of the batches whose reading met problems; complete after the scan.
    """

    space: UnallocatedSpace
    numbers: range
    watched: Sequence[Problems] = ()
    troubled: list[int] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Number of bytes to read."""
        return self.space.bytes_of(self.numbers)

    def batches(self) -> Iterator[BlockBatch]:
        """The batches in order."""
        for number in self.numbers:
            before = sum(map(len, self.watched))
            batch = self.space.batch(number)
            if sum(map(len, self.watched)) != before:
                self.troubled.append(number)
            yield batch


def whole_space(history: History) -> UnallocatedSpace:
    """The space of a scan: blocks that linked inodes map are none of it, whatever bitmaps say."""
    count_mapped_as_used(history.fs)
    return UnallocatedSpace(history)


def scan_range(
    part: ScanRange, sources: Set[SearchSource], progress: Progress | None = None
) -> ScanResults:
    """Scan a range of batches once for all `sources`.

    Args:
        part: the range.
        sources: sources to search; with JOURNAL alone, nothing is read.
        progress: called with (bytes done, total bytes).
    """
    fs = part.space.fs
    metadata, pointers = metadata_scanner(fs.superblock), indirect_scanner(fs.superblock)
    ends = data_end_scanner(fs)
    scanners: list[Scanner[object]] = []
    if SearchSource.BLOCKS in sources:
        scanners += [metadata, pointers, ends]
    if SearchSource.RUNS in sources:
        scanners.append(feature_scanner)
    found = scan(part, scanners, progress)
    return ScanResults.joined(
        found.of(metadata),
        found.of(pointers),
        [one for one in found.of(ends) if one is not None],
        [one for one in found.of(feature_scanner) if one is not None],
    )
