"""Extent tree nodes of one inode, joined into its map; also when the inode itself is gone.

Nodes are told apart by their owner's seed. A node in a free block is as it was written last:
what a removal takes out of it is forgotten and never reaches the disk. A copy in the log is
older, so it counts only where no free block has a node of that owner for the same part of the
file. An index node in a free block lists the nodes below it; others that lie in that part are
remains of an earlier map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.intervals import select_disjoint
from ext4kit.filesystem.filesystem import ROOT
from ext4kit.filesystem.maps import Runs, joined
from ext4kit.parsers import extents
from ext4kit.recovery.sources.ends import last_bytes
from ext4kit.recovery.sources.nodes import Nodes, bounded, grouped, read_nodes
from ext4kit.recovery.sources.owners import Owners
from ext4kit.recovery.sources.space import Space
from ext4kit.recovery.sources.structures import EXTENTS, NO_SEED, Structures
from ext4kit.recovery.sources.undescribed import orders_of

_LISTED, _FREE, _LOGGED = 0, 1, 2  # the lower, the more a node's entries count


@dataclass(frozen=True, slots=True)
class FoundMaps:
    """Maps put together from what was found in free space and in the log, one row a file.

    Attributes:
        seed: of the file's inode, NO_SEED without metadata_csum.
        number: its inode number, 0 where no known inode has that seed.
        generation: likewise.
        runs: `owner` is the row here.
        nodes: (row, block) of the tree blocks in free space.
        logged: bool, a part of the map comes from old copies in the log.
        damaged: bool, a node that an index lists was not found, several compete, or without
            checksums the start was not found or more may follow.
        earlier: bool, the inode is on disk and does not list these nodes: they are of a map
            that it had before.
        alive: bool, the inode lives.
        size: bytes up to the last one that is not zero.
    """

    seed: Any
    number: Any
    generation: Any
    runs: Runs
    nodes: tuple[Any, Any]
    logged: Any
    damaged: Any
    earlier: Any
    alive: Any
    size: Any

    def __len__(self) -> int:
        return len(self.seed)


def find_leaf_maps(space: Space, structures: Structures, owners: Owners) -> FoundMaps:
    """The maps that extent nodes give.

    Args:
        space: where the structures were found.
        structures: what was found there.
        owners: the known inodes.
    """
    found = bounded(space, structures.of(EXTENTS))
    nodes = read_nodes(space, found)
    file, rooted = grouped(space, nodes, found.seed)
    seed = np.full(int(file.max()) + 1 if len(file) else 0, NO_SEED)
    seed[file] = found.seed
    number, generation = _named(space, owners, seed, file, rooted)
    damaged = np.zeros(len(seed), bool)
    rank = _ranked(nodes, file, found.in_log, damaged)
    order = np.where(found.in_log, orders_of(space.log, found.block), 0)
    kept = _kept(nodes, file, rank, order, damaged)
    runs = _runs_of(nodes, file, kept)
    room = extents.capacity(owners.superblock.block_size)
    damaged |= (seed == NO_SEED) & (number == 0) & _are_open(nodes, file, runs, len(seed), room)
    logged = np.zeros(len(seed), bool)
    logged[file[kept & (nodes.block < 0)]] = True
    free = (kept | (nodes.depth > 0)) & (nodes.block >= 0)
    earlier, alive = _on_disk(space, number, generation, nodes, file)
    size = last_bytes(space.fs, runs, len(seed))
    tree = (file[free], nodes.block[free])
    return FoundMaps(
        seed, number, generation, runs, tree, logged, damaged, earlier, alive, size
    )  # fmt: skip


def _named(space: Space, owners: Owners, seed: Any, file: Any, rooted: Any) -> tuple[Any, Any]:
    """(number, generation) of each file's inode, by its seed or by the root that is left."""
    number, generation = owners.names(seed)
    told = np.flatnonzero(rooted)
    number[file[told]] = rooted[told]
    generation[file[told]] = space.fs.inode_table(rooted[told]).generation
    return number, generation


def _are_open(nodes: Nodes, file: Any, runs: Runs, files: int, room: int) -> Any:
    """Per file (bool): its start is not there, or its last leaf is full, so more may follow."""
    unsure = np.bincount(runs.owner[runs.logical == 0], minlength=files) == 0
    order = np.lexsort((nodes.end, file))
    last = order[ends_group(file[order])]
    held = np.bincount(nodes.node, minlength=len(file))
    unsure[file[last]] |= held[last] == room
    return unsure


def _runs_of(nodes: Nodes, file: Any, kept: Any) -> Runs:
    """The content that the kept leaves map."""
    used = np.flatnonzero(kept[nodes.node])
    owner = file[nodes.node[used]]
    used = used[np.lexsort((nodes.logical[used], owner))]
    return joined(
        Runs(
            file[nodes.node[used]],
            nodes.logical[used],
            nodes.length[used],
            nodes.physical[used],
            nodes.unwritten[used],
        )
    )


def _ranked(nodes: Nodes, file: Any, in_log: Any, damaged: Any) -> Any:
    """Per node: _LISTED when an index in a free block lists it, else _FREE or _LOGGED.

    An index that lists a node which was not found marks the file.
    """
    listing = (nodes.depth[nodes.node] > 0) & (nodes.block[nodes.node] >= 0)
    above, child = file[nodes.node[listing]], nodes.physical[listing]
    shift = np.int64(1) << 34  # files times blocks stay below 2**63
    have = np.where(nodes.block >= 0, (nodes.block % shift) + file * shift, -1)
    wanted = child % shift + above * shift
    damaged[above[~np.isin(wanted, have)]] = True
    return np.where(np.isin(have, wanted), _LISTED, np.where(in_log, _LOGGED, _FREE))


def _kept(nodes: Nodes, file: Any, rank: Any, order: Any, damaged: Any) -> Any:
    """Per node (bool): its entries are part of the map.

    A leaf gives way to a better one whose part of the file overlaps its own: of a lower rank,
    a later one of the log, one with more entries. Two in free blocks mark the file.
    """
    leaves = np.flatnonzero(nodes.depth == 0)
    held = np.bincount(nodes.node, minlength=len(file))[leaves]
    better = np.empty(len(leaves), np.int64)
    better[np.lexsort((-held, -order[leaves], rank[leaves]))] = np.arange(len(leaves))
    shift = file[leaves] << 34  # a part of a file ends below 2**33
    start, end = nodes.start[leaves] + shift, nodes.end[leaves] + shift
    chosen, over = select_disjoint(start, end, better)
    lost = np.flatnonzero(over >= 0)
    one, other = leaves[lost], leaves[over[lost]]
    damaged[file[one[(rank[one] == _FREE) & (rank[other] == _FREE)]]] = True
    damaged[file[leaves[~chosen & (over < 0)]]] = True
    kept = np.zeros(len(file), bool)
    kept[leaves[chosen]] = True
    return kept


def _on_disk(
    space: Space, number: Any, generation: Any, nodes: Nodes, file: Any
) -> tuple[Any, Any]:
    """(earlier, alive) of `FoundMaps`.

    A removal leaves the index entries of the root where they were, so the inode of a deleted
    file still lists the nodes that it had last.
    """
    table = space.fs.inode_table(np.where(number > 0, number, ROOT))
    same = (number > 0) & (table.generation == generation) & (table.mode != 0)
    every = np.arange(len(number))[:, None]
    _, child = extents.parse_children(table.i_block, every, np.arange(4)[None, :])
    listed = (nodes.block[:, None] == child[file]).any(axis=1)
    rooted, in_place = np.zeros((2, len(number)), bool)
    rooted[file[listed]] = True
    in_place[file[nodes.block >= 0]] = True
    return same & in_place & ~rooted, same & (table.links_count > 0)
