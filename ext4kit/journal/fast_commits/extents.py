"""The extents of a file that fast commits change, and the tree that is written for them.

Source: kernel fs/ext4/extents.c for limits (`ext4_ext_space_block`, `EXT_INIT_MAX_LEN`,
`EXT_UNWRITTEN_MAX_LEN`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.grouping import expand, starts_group
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.extents import (
    EXTENT,
    HEADER,
    INDEX,
    MAGIC,
    MAX_INITIALISED,
    TAIL,
    capacity,
)

Structs: TypeAlias = npt.NDArray[np.void]  # structures of one kind
ROOT_BYTES = 60
ROOT_ENTRIES = capacity(ROOT_BYTES)
MOST_FILE_BLOCKS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class ExtentList(Table):
    """Extents as int64 columns (n,), in the order of file blocks, without overlaps.

    Attributes:
        logical: first file block.
        length: number of blocks; may exceed the limit of the on-disk format.
        physical: first block in the file system.
        unwritten: bool, True where the extent is unwritten.
    """

    logical: Int64s
    length: Int64s
    physical: Int64s
    unwritten: Bools

    @classmethod
    def from_rows(cls, runs: Runs) -> ExtentList:
        """The runs of one inode."""
        return cls(runs.logical, runs.length, runs.physical, runs.unwritten.astype(bool))

    def _cut(self, start: int, end: int) -> ExtentList:
        """The parts of the extents in file blocks `start` to `end` - 1."""
        first = np.maximum(self.logical, start)
        last = np.minimum(self.logical + self.length, end)
        cut = ExtentList(first, last - first, self.physical + first - self.logical, self.unwritten)
        return cut.take(cut.length > 0)

    def up_to(self, end: int) -> ExtentList:
        """The parts of the extents before file block `end`."""
        return self._cut(0, end)

    def without(self, start: int, end: int) -> ExtentList:
        """The extents without file blocks `start` to `end` - 1."""
        return ExtentList.concat([self._cut(0, start), self._cut(end, MOST_FILE_BLOCKS)])

    def with_range(self, logical: int, length: int, physical: int, unwritten: bool) -> ExtentList:
        """The extents with a range added, which replaces the parts that it overlaps."""
        end = logical + length
        new = ExtentList(*(np.array([value]) for value in (logical, length, physical, unwritten)))
        return ExtentList.concat([self._cut(0, logical), new, self._cut(end, MOST_FILE_BLOCKS)])

    def block_in_cluster(self, logical: int, ratio: int) -> int:
        """The block that a file block must get because its cluster is already mapped, else 0."""
        start = logical - logical % ratio
        cluster = self._cut(start, start + ratio)
        return int(cluster.physical[0] + logical - cluster.logical[0]) if len(cluster) else 0

    def blocks(self) -> Int64s:
        """Every block in order of file block, int64."""
        row, step = expand(self.length)
        return self.physical[row] + step

    def merged(self) -> ExtentList:
        """The extents with neighbours merged and extents split that exceed the format's limit."""
        if not len(self):
            return self
        covered = np.cumsum(self.length) - self.length
        keys = (self.logical - covered, self.physical - covered, self.unwritten)
        starts = np.flatnonzero(starts_group(*keys))
        joined = self.take(starts)
        total = np.add.reduceat(self.length, starts)
        most = MAX_INITIALISED - joined.unwritten
        row, step = expand(-(-total // most))
        skip = step * most[row]
        return ExtentList(
            joined.logical[row] + skip,
            np.minimum(total[row] - skip, most[row]),
            joined.physical[row] + skip,
            joined.unwritten[row],
        )


@dataclass(frozen=True, slots=True)
class ExtentTree:
    """An extent tree ready to be written.

    Attributes:
        root: 60 bytes for i_block.
        nodes: block -> its bytes.
    """

    root: bytes
    nodes: dict[int, bytes]


def build_extent_tree(
    extents: ExtentList, block_size: int, take: Callable[[], int], seed: int | None
) -> ExtentTree:
    """The extent tree of least depth for some extents.

    Args:
        extents: the map.
        block_size: bytes per block.
        take: allocates one tree block and returns its number.
        seed: checksum seed of the owner, None where tree blocks have no checksums.
    """
    entries = extents.merged()
    table, first, depth = _leaf_table(entries), entries.logical, 0
    nodes: dict[int, bytes] = {}
    most = capacity(block_size)
    while len(table) > ROOT_ENTRIES:
        starts = list(range(0, len(table), most))
        blocks = [take() for _ in starts]
        for block, start in zip(blocks, starts, strict=True):
            nodes[block] = _tree_block(table[start : start + most], most, depth, block_size, seed)
        first, depth = first[starts], depth + 1
        table, children = np.zeros(len(blocks), INDEX.dtype), np.array(blocks)
        table["ei_block"] = first
        table["ei_leaf_hi"] = children >> 32
        table["ei_leaf_lo"] = children & 0xFFFFFFFF
    return ExtentTree(_tree_block(table, ROOT_ENTRIES, depth, ROOT_BYTES, None), nodes)


def _leaf_table(entries: ExtentList) -> Structs:
    table = np.zeros(len(entries), EXTENT.dtype)
    table["ee_block"] = entries.logical
    table["ee_len"] = entries.length + MAX_INITIALISED * entries.unwritten
    table["ee_start_hi"] = entries.physical >> 32
    table["ee_start_lo"] = entries.physical & 0xFFFFFFFF
    return table


def _tree_block(table: Structs, most: int, depth: int, size: int, seed: int | None) -> bytes:
    header = {
        "eh_magic": MAGIC,
        "eh_entries": len(table),
        "eh_max": most,
        "eh_depth": depth,
        "eh_generation": 0,
    }
    covered = HEADER.size + most * EXTENT.size
    body = (HEADER.build(header) + table.tobytes()).ljust(covered, b"\0")
    if seed is not None and size - covered >= TAIL.size:
        body += crc32c(seed, body).to_bytes(TAIL.size, "little")
    return bytes(body.ljust(size, b"\0"))
