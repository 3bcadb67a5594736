"""Joins the extent tree nodes of an inode into its map, even if the inode itself is lost.

Nodes are distinguished by the checksum seeds of their owners. A node in a free block is as it was
last written, because the changes that a removal makes to it are dropped and never written to disk.
A copy in the log is older, so it is used only if no free block has a node of that owner for the
same part of the file. An index node in a free block lists the nodes below it; other nodes for that
part of the file are remains of an earlier map.
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

LISTED, UNALLOCATED, JOURNAL = 0, 1, 2  # ranks of nodes; a lower rank takes precedence


@dataclass(frozen=True, slots=True)
class ExtentMaps:
    """Maps built from nodes in free space and in the log, one row per file.

    Attributes:
        seed: checksum seed of the inode of the file, NO_SEED without metadata_csum.
        inode: its inode number, 0 if no known inode has that seed.
        generation: its generation, 0 if no known inode has that seed.
        runs: blocks of the files; `owner` is the row in this table.
        tree_blocks: (row, block) of the tree blocks in free space.
        logged: bool, True if a part of the map is from old copies in the log.
        damaged: bool, True if a node that an index lists was not found, if several nodes compete,
            or if, without checksums, the start was not found or more extents may follow.
        earlier: bool, True if the inode on disk does not list these nodes, so that they are of an
            earlier map.
        is_linked: bool, True if the inode is linked.
        size: bytes up to the last nonzero one.
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
        structures: metadata blocks found there.
        owners: the known inodes by seed.
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
    """Per file (bool): True if the start is missing, or if more may follow a full last leaf."""
    unsure: Bools = np.bincount(runs.owner[runs.logical == 0], minlength=files) == 0
    order = np.lexsort((nodes.end, file))
    last = order[ends_group(file[order])]
    held = np.bincount(nodes.node, minlength=len(file))
    unsure[file[last]] |= held[last] == room
    return unsure


def _node_ranks(nodes: ExtentNodes, file: Int64s, in_log: Bools, damaged: Bools) -> Int64s:
    """The rank of each node: LISTED if a free index node lists it, else UNALLOCATED or JOURNAL.

    If a listed node was not found, the file is marked as damaged.
    """
    listing = (nodes.depth[nodes.node] > 0) & (nodes.block[nodes.node] >= 0)
    above, child = file[nodes.node[listing]], nodes.physical[listing]
    shift = np.int64(1) << 34  # file number and block together stay below 2**63
    have = np.where(nodes.block >= 0, (nodes.block % shift) + file * shift, -1)
    wanted = child % shift + above * shift
    damaged[above[~np.isin(wanted, have)]] = True
    return np.where(np.isin(have, wanted), LISTED, np.where(in_log, JOURNAL, UNALLOCATED))


def _select_leaves(
    nodes: ExtentNodes, file: Int64s, rank: Int64s, order: Int64s, damaged: Bools
) -> Bools:
    """Per node (bool): True if its entries are part of the map.

    Of leaves that overlap in the file, the one with the lowest rank is used, then the latest
    journal copy, then the one with most entries. If two leaves of rank UNALLOCATED overlap, the
    file is marked as damaged.
    """
    leaves = np.flatnonzero(nodes.depth == 0)
    held = np.bincount(nodes.node, minlength=len(file))[leaves]
    better = np.empty(len(leaves), np.int64)
    better[np.lexsort((-held, -order[leaves], rank[leaves]))] = np.arange(len(leaves))
    shift = file[leaves] << 34  # file blocks are below 2**33
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
    """The columns (earlier, is_linked) of `ExtentMaps`.

    A truncation leaves the index entries in the root, so the inode of a deleted file still lists
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
