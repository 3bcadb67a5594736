"""Extent tree nodes with their entries, grouped by file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.types import NO_ROW, Bools, Int64s, Rows
from ext4kit.parsers import extents
from ext4kit.parsers.inode import InodeFlags
from ext4kit.unallocated.metadata import NO_SEED, MetadataBlocks, read_metadata_blocks
from ext4kit.unallocated.space import UnallocatedSpace

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class ExtentNodes:
    """Extent tree nodes as columns, and their entries as columns.

    Attributes:
        block: file system block, -1 for a copy in the log.
        depth: 0 for a leaf.
        start, end: first file block that the node maps, and one past the last one.
        node: the node of each entry.
        logical: first file block of each entry; length: number of blocks, 1 for an index entry.
        physical: first block of the content, or block of the node below; unwritten: True for
            unwritten extents, which read as zeros.
    """

    block: Int64s
    depth: Int64s
    start: Int64s
    end: Int64s
    node: Int64s
    logical: Int64s
    length: Int64s
    physical: Int64s
    unwritten: Bools


def limit_nodes(space: UnallocatedSpace, found: MetadataBlocks) -> MetadataBlocks:
    """Limit the nodes to `space.max_mappings` entries, and report how many are left out."""
    room = space.max_mappings
    if len(found) * extents.capacity(space.fs.superblock.block_size) <= room:
        return found
    for at in range(0, len(found), _AT_ONCE):
        rows = read_metadata_blocks(space, found.take(slice(at, at + _AT_ONCE)))
        sound, held, *_ = extents.parse_headers(rows)
        room -= int(held[sound].sum())
        if room < 0:
            what = f"name more blocks than there are; {len(found) - at:,} of them are left out"
            space.fs.problems.add("extent nodes in free space", what)
            return found.take(slice(0, at))
    return found


def read_extent_nodes(space: UnallocatedSpace, found: MetadataBlocks) -> ExtentNodes:
    """Read the nodes again, in batches of bounded size."""
    none = np.zeros(0, np.int64)
    parts, depths = [(none, none, none, none, none.astype(bool))], [none]
    for at in range(0, len(found), _AT_ONCE):
        rows = read_metadata_blocks(space, found.take(slice(at, at + _AT_ONCE)))
        sound, held, _, depth = extents.parse_headers(rows)
        row, slot = expand(np.where(sound, held, 0))
        logical, length, physical, unwritten = extents.parse_extents(rows, row, slot)
        first, child = extents.parse_children(rows, row, slot)
        inner = depth[row] > 0
        logical, length = np.where(inner, first, logical), np.where(inner, 1, length)
        physical = np.where(inner, child, physical)
        parts.append((row + at, logical, length, physical, unwritten & ~inner))
        depths.append(depth)
    node, logical, length, physical, unwritten = map(np.concatenate, zip(*parts, strict=True))
    start, end = np.full(len(found), np.iinfo(np.int64).max), np.zeros(len(found), np.int64)
    np.minimum.at(start, node, logical)
    np.maximum.at(end, node, logical + length)
    block = np.where(found.in_journal, NO_ROW, found.block)
    depth = np.concatenate(depths)
    return ExtentNodes(block, depth, start, end, node, logical, length, physical, unwritten)


def group_by_file(space: UnallocatedSpace, nodes: ExtentNodes, seed: Int64s) -> tuple[Rows, Int64s]:
    """Group the nodes by file.

    With metadata_csum, nodes with the same seed are of one file. Without it, nodes are of the file
    of the index node, or of the root of a deleted inode, that lists them. Any other leaf is of the
    file of the only leaf that ends where it begins.

    Returns:
        (file number of each node, equal for all nodes of one file; inode number of each node with a
        known root, else 0).
    """
    rooted = np.zeros(len(seed), np.int64)
    if (seed != NO_SEED).any() or not len(seed):
        return np.unique(seed, return_inverse=True)[1], rooted
    rooted = _nodes_listed_by_roots(space, nodes)
    above = _parent_nodes(nodes)
    without = (above == NO_ROW) & (rooted == 0)
    above = np.where(without, _preceding_leaf(nodes, above, rooted), above)
    jump = np.where(above == NO_ROW, np.arange(len(above)), above)
    for _ in range(len(above).bit_length()):
        jump = jump[jump]
    rooted = rooted[jump]
    return np.unique(np.where(rooted > 0, -rooted, jump), return_inverse=True)[1], rooted


def _nodes_listed_by_roots(space: UnallocatedSpace, nodes: ExtentNodes) -> Int64s:
    """Per node: the only deleted inode on disk whose root still lists the node, else 0."""
    order = np.argsort(nodes.block, kind="stable")
    blocks = nodes.block[order]
    root_inode, count = np.zeros((2, len(blocks)), np.int64)
    for table in space.fs.inode_batches():
        deleted = (table.links_count == 0) & (table.mode != 0)
        table = table.take(deleted & ((table.flags & int(InodeFlags.EXTENTS)) != 0))
        every = np.arange(len(table))[:, None]
        first, child = extents.parse_children(table.i_block, every, np.arange(4)[None, :])
        node = values_at(order, SortedIndex(blocks).rows(child))
        fits = (child > 0) & (node != NO_ROW) & (nodes.start[node] == first)
        owner, slot = np.nonzero(fits)
        root_inode[node[owner, slot]] = table.number[owner]
        np.add.at(count, node[owner, slot], 1)
    return np.where(count == 1, root_inode, 0)


def _parent_nodes(nodes: ExtentNodes) -> Rows:
    """Per node: the only unallocated index node one level up that lists the node, else NO_ROW."""
    parent = np.full(len(nodes.block), NO_ROW)
    order = np.argsort(nodes.block, kind="stable")
    blocks = nodes.block[order]
    entry = np.flatnonzero((nodes.depth[nodes.node] > 0) & (nodes.block[nodes.node] >= 0))
    child = values_at(order, SortedIndex(blocks).rows(nodes.physical[entry]))
    fits = child != NO_ROW
    fits &= nodes.depth[child] + 1 == nodes.depth[nodes.node[entry]]
    fits &= nodes.start[child] >= nodes.logical[entry]
    child, above = child[fits], nodes.node[entry[fits]]
    single = np.bincount(child, minlength=len(parent)) == 1
    parent[child] = np.where(single[child], above, NO_ROW)
    return parent


def _preceding_leaf(nodes: ExtentNodes, above: Int64s, rooted: Int64s) -> Rows:
    """Per leaf without parent: the only leaf that ends where it alone begins, else NO_ROW."""
    listed = (above != NO_ROW) | (rooted > 0)
    unlisted = np.flatnonzero(~listed & (nodes.depth == 0) & (nodes.block >= 0))
    found = np.full(len(above), NO_ROW)
    starts, ends = nodes.start[unlisted], nodes.end[unlisted]
    edge = np.unique(starts[starts > 0])
    by_start, by_end = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    begin = np.searchsorted(starts[by_start], edge)
    stop = np.searchsorted(ends[by_end], edge)
    sole = np.searchsorted(starts[by_start], edge, side="right") - begin == 1
    sole &= np.searchsorted(ends[by_end], edge, side="right") - stop == 1
    found[unlisted[by_start[begin[sole]]]] = unlisted[by_end[stop[sole]]]
    return found
