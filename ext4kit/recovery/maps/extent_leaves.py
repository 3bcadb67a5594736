"""Extent tree nodes of one inode, joined into its map; also when the inode itself is gone.

Nodes are told apart by their owner's seed. A node in a free block is as it was written last:
what a removal takes out of it is forgotten and never reaches the disk. A copy in the log is
older, so it counts only where no free block has a node of that owner for the same part of the
file. An index node in a free block lists the nodes below it; others that lie in that part are
remains of an earlier map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import ends_group
from ext4kit.arrays.intervals import select_disjoint
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs, merge_adjacent
from ext4kit.filesystem.inodes import ROOT
from ext4kit.parsers import extents
from ext4kit.recovery.maps.ends import sizes_to_last_nonzero
from ext4kit.recovery.maps.extent_nodes import (
    ExtentNodes,
    group_by_file,
    limit_nodes,
    read_extent_nodes,
)
from ext4kit.unallocated.metadata import EXTENTS, NO_SEED, MetadataBlocks
from ext4kit.unallocated.owners import SeedIndex
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.unallocated.untagged import tids_of_untagged

LISTED, UNALLOCATED, JOURNAL = 0, 1, 2  # the lower, the more a node's entries count


@dataclass(frozen=True, slots=True)
class ExtentMaps:
    """Maps put together from what was found in free space and in the log, one row a file.

    Attributes:
        seed: of the file's inode, NO_SEED without metadata_csum.
        inode: its inode number, 0 where no known inode has that seed.
        generation: likewise.
        runs: `owner` is the row here.
        tree_blocks: (row, block) of the tree blocks in free space.
        logged: bool, a part of the map comes from old copies in the log.
        damaged: bool, a node that an index lists was not found, several compete, or without
            checksums the start was not found or more may follow.
        earlier: bool, the inode is on disk and does not list these nodes: they are of a map
            that it had before.
        is_linked: bool, the inode is linked.
        size: bytes up to the last one that is not zero.
    """

    seed: Int64s
    inode: Int64s
    generation: Int64s
    runs: Runs
    tree_blocks: tuple[Int64s, Int64s]
    logged: Bools
    damaged: Bools
    earlier: Bools
    is_linked: Bools
    size: Int64s

    def __len__(self) -> int:
        return len(self.seed)


def rebuild_extent_maps(
    space: UnallocatedSpace, structures: MetadataBlocks, owners: SeedIndex
) -> ExtentMaps:
    """Rebuild maps from extent nodes.

    Args:
        space: the space that was scanned.
        structures: metadata found there.
        owners: known inodes by seed.
    """
    found = limit_nodes(space, structures.of_kind(EXTENTS))
    nodes = read_extent_nodes(space, found)
    file, rooted = group_by_file(space, nodes, found.seed)
    seed = np.full(int(file.max()) + 1 if len(file) else 0, NO_SEED)
    seed[file] = found.seed
    number, generation = owners.inodes_of(seed)
    known = np.flatnonzero(rooted)
    number[file[known]] = rooted[known]
    generation[file[known]] = space.fs.inode_table(rooted[known]).generation
    damaged = np.zeros(len(seed), bool)
    rank = _node_ranks(nodes, file, found.in_journal, damaged)
    order = np.where(found.in_journal, tids_of_untagged(space.log, found.block), 0)
    kept = _select_leaves(nodes, file, rank, order, damaged)
    owner, content = file[nodes.node], kept[nodes.node]
    runs = Runs(owner, nodes.logical, nodes.length, nodes.physical, nodes.unwritten).take(content)
    runs = merge_adjacent(runs.take(np.lexsort((runs.logical, runs.owner))))
    room = extents.capacity(owners.superblock.block_size)
    unknown = (seed == NO_SEED) & (number == 0)
    damaged |= unknown & _is_open_ended(nodes, file, runs, len(seed), room)
    logged = np.zeros(len(seed), bool)
    logged[file[kept & (nodes.block < 0)]] = True
    free = (kept | (nodes.depth > 0)) & (nodes.block >= 0)
    earlier, is_linked = _compare_with_disk_inode(space, number, generation, nodes, file)
    size = sizes_to_last_nonzero(space.fs, runs, len(seed))
    tree = (file[free], nodes.block[free])
    return ExtentMaps(
        seed, number, generation, runs, tree, logged, damaged, earlier, is_linked, size
    )  # fmt: skip


def _is_open_ended(nodes: ExtentNodes, file: Int64s, runs: Runs, files: int, room: int) -> Bools:
    """Per file (bool): its start is missing, or its last leaf is full, so more may follow."""
    unsure: Bools = np.bincount(runs.owner[runs.logical == 0], minlength=files) == 0
    order = np.lexsort((nodes.end, file))
    last = order[ends_group(file[order])]
    held = np.bincount(nodes.node, minlength=len(file))
    unsure[file[last]] |= held[last] == room
    return unsure


def _node_ranks(nodes: ExtentNodes, file: Int64s, in_log: Bools, damaged: Bools) -> Int64s:
    """Per node: LISTED if an unallocated index node lists it, else UNALLOCATED or JOURNAL.

    A listed node that was not found marks the file as damaged.
    """
    listing = (nodes.depth[nodes.node] > 0) & (nodes.block[nodes.node] >= 0)
    above, child = file[nodes.node[listing]], nodes.physical[listing]
    shift = np.int64(1) << 34  # files times blocks stay below 2**63
    have = np.where(nodes.block >= 0, (nodes.block % shift) + file * shift, -1)
    wanted = child % shift + above * shift
    damaged[above[~np.isin(wanted, have)]] = True
    return np.where(np.isin(have, wanted), LISTED, np.where(in_log, JOURNAL, UNALLOCATED))


def _select_leaves(
    nodes: ExtentNodes, file: Int64s, rank: Int64s, order: Int64s, damaged: Bools
) -> Bools:
    """Per node (bool): its entries are part of the map.

    Of leaves that overlap in the file, the one of lower rank wins, then the later journal
    copy, then the one with more entries. Two unallocated ones mark the file as damaged.
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
    damaged[file[one[(rank[one] == UNALLOCATED) & (rank[other] == UNALLOCATED)]]] = True
    damaged[file[leaves[~chosen & (over < 0)]]] = True
    kept = np.zeros(len(file), bool)
    kept[leaves[chosen]] = True
    return kept


def _compare_with_disk_inode(
    space: UnallocatedSpace, number: Int64s, generation: Int64s, nodes: ExtentNodes, file: Int64s
) -> tuple[Bools, Bools]:
    """(earlier, is_linked) of `ExtentMaps`.

    Truncation leaves the index entries in the root, so the inode of a deleted file still lists
    its last nodes.
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
