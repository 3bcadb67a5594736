"""Files of ext2 and ext3 whose block lists exist but whose first blocks are unknown.

The first twelve blocks of a file are listed in its inode. On disk, these twelve usually lie
directly before the first block that an indirect block lists. `recovery.maps.indirect_maps` finds
the block lists and joins them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.carving.area import CarvingArea
from ext4kit.filesystem.block_maps import Runs as Mapped

DIRECT_BLOCKS = 12


PositionRuns = list[tuple[int, int]]  # (first position, number of positions), in content order


@dataclass(frozen=True, slots=True)
class HeadlessBodies:
    """Blocks of files as listed by their indirect blocks, one row for each file, without holes.

    Attributes:
        runs: `owner` is the row in this table; sorted by owner, then in content order.
        nodes: (row, block) of the indirect blocks themselves.
        lacks_direct_blocks: True where exactly the first twelve blocks of the file are missing at
            its start.
    """

    runs: Mapped
    nodes: tuple[Rows, Int64s]
    lacks_direct_blocks: Bools

    def __len__(self) -> int:
        return len(self.lacks_direct_blocks)

    @classmethod
    def empty(cls) -> Self:
        """No bodies."""
        none = np.zeros(0, np.int64)
        flags = none.astype(bool)
        return cls(Mapped.empty(), (none, none), flags)

    def within(self, usable: Intervals) -> Self:
        """The bodies whose blocks all lie within some intervals."""
        kept = np.ones(len(self), bool)
        owner, block = self.nodes
        kept[owner[~usable.contains(block, np.ones_like(block))]] = False
        kept[self.runs.owner[~usable.contains(self.runs.physical, self.runs.length)]] = False
        row = np.cumsum(kept) - 1
        runs = self.runs.take(kept[self.runs.owner])
        owner, block = owner[kept[owner]], block[kept[owner]]
        return type(self)(
            replace(runs, owner=row[runs.owner]),
            (row[owner], block),
            self.lacks_direct_blocks[kept],
        )

    def position_runs(self, area: CarvingArea) -> list[PositionRuns]:
        """The runs of positions of each file; all blocks must be in the carving area."""
        places = area.positions(self.runs.physical).tolist()
        found: list[PositionRuns] = [[] for _ in range(len(self))]
        columns = self.runs.owner.tolist(), places, self.runs.length.tolist()
        for owner, first, count in zip(*columns, strict=True):
            runs = found[owner]
            if runs and sum(runs[-1]) == first:
                runs[-1] = (runs[-1][0], runs[-1][1] + count)
            else:
                runs.append((first, count))
        return found
