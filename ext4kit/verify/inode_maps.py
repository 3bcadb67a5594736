"""Check of block maps against sizes, block counts and clusters, and of symlink targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ext4kit.arrays.grouping import distinct
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.filesystem.block_maps import Runs, has_map, map_inodes
from ext4kit.filesystem.inodes import BAD_BLOCKS, RESIZE, ROOT
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.inode import InodeFlags, InodeTable, is_fast_symlink
from ext4kit.parsers.superblock import Superblock
from ext4kit.units import SECTOR
from ext4kit.verify.context import FileUsage, OwnedBlocks, VerifyContext
from ext4kit.verify.extents import END, Found, TreeCheck
from ext4kit.verify.xattrs import BodyAttributes, block_charges

INLINE_ROOM = 60
DIRECTORY_BLOCKS_BITS = 21  # without large_dir a directory ends at 2 GiB
LINKS_AT_ONCE = 2048
ENCRYPTED_HEADER = 2  # an encrypted target starts with its length


def check_maps(context: VerifyContext, table: InodeTable, bodies: BodyAttributes) -> Found:
    """Read and check the maps of inodes in use."""
    found = Found(np.zeros(len(table), bool))
    mapped = has_map(table.mode, table.size, table.flags) | (table.number == BAD_BLOCKS)
    by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
    TreeCheck(context, table, found).walk(np.flatnonzero(mapped & by_extents))
    _follow_pointers(context, table, np.flatnonzero(mapped & ~by_extents), found)
    runs, nodes = found.all_runs(), OwnedBlocks.concat(found.nodes)
    ends = _Ends(table, runs)
    _check_sizes(context, table, ends)
    _check_directories(context, table, runs, ends)
    _check_clusters(context, table, runs)
    _check_block_counts(context, table, runs, nodes, bodies, found.bad)
    _check_contexts(context, table, bodies)
    _check_inline(context, table, bodies)
    _claim(context, table, runs, nodes)
    found.bad |= _check_symlinks(context, table, runs, ends)
    return found


def _follow_pointers(context: VerifyContext, table: InodeTable, rows: Rows, found: Found) -> None:
    if not len(rows):
        return
    superblock = context.superblock

    def fetch(blocks: Int64s, _: Rows) -> tuple[Bytes2D, Bools]:
        fresh = context.nodes.visit(blocks)
        data, readable = context.fs.fetch(np.where(fresh, blocks, -1))
        return data, readable & fresh

    maps = map_inodes(
        table.i_block[rows], np.zeros(len(rows), np.int64), np.ones(len(rows), bool),
        superblock.blocks_count, superblock.block_size, fetch,
    )  # fmt: skip
    damaged = rows[maps.damaged]
    found.bad[damaged] = True
    context.add_inodes("inode-map", table.number, damaged)
    found.runs.append(replace(maps.runs, owner=rows[maps.runs.owner]))
    owner, block = maps.tree_blocks
    found.nodes.append(OwnedBlocks(rows[owner], block))


class _Ends:
    """End of each inode's map, one row for each inode.

    Attributes:
        all: one past the last file block; written: one past the last file block of written extents.
        mapped: number of mapped file blocks.
    """

    def __init__(self, table: InodeTable, runs: Runs) -> None:
        self.all = np.zeros(len(table), np.int64)
        self.written = np.zeros(len(table), np.int64)
        self.mapped = np.zeros(len(table), np.int64)
        end = runs.logical + runs.length
        np.maximum.at(self.all, runs.owner, end)
        np.maximum.at(self.written, runs.owner[~runs.unwritten], end[~runs.unwritten])
        np.add.at(self.mapped, runs.owner, runs.length)


def _largest_by_pointers(superblock: Superblock) -> int:
    pointers = superblock.block_size // 4
    blocks = 12 + pointers + pointers**2 + pointers**3
    if RoCompat.HUGE_FILE not in superblock.features:
        blocks = min(blocks, END * SECTOR // superblock.block_size)
    return min(blocks, END - 1) * superblock.block_size


def _check_sizes(context: VerifyContext, table: InodeTable, ends: _Ends) -> None:
    size = context.superblock.block_size
    file = (table.is_regular | table.is_symlink) & (table.number != RESIZE)
    verity = (table.flags & int(InodeFlags.VERITY)) != 0
    short = file & ~verity & (ends.written > 0) & (table.size < (ends.written - 1) * size)
    by_extents = (table.flags & int(InodeFlags.EXTENTS)) != 0
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    most = np.where(by_extents, END * size - size, _largest_by_pointers(context.superblock))
    long = file & ~inline & ((table.size > most) | (table.size < 0))
    context.add_inodes(
        "inode-size", table.number, short | long, table.size,
        lambda row: f"blocks up to {ends.written[row]:,}",
    )  # fmt: skip


def _check_directories(context: VerifyContext, table: InodeTable, runs: Runs, ends: _Ends) -> None:
    size = context.superblock.block_size
    mapped = has_map(table.mode, table.size, table.flags)
    directory = table.is_dir & mapped
    blocks = table.size // size
    wrong = directory & ((table.size % size != 0) | (blocks != ends.all))
    context.add_inodes("inode-size", table.number, wrong, table.size, ends.all * size)
    hole = directory & ((ends.mapped < ends.all) | (ends.all == 0))
    least = np.maximum(ends.all, 1)
    context.add_inodes("directory-hole", table.number, hole, ends.mapped, least)
    unwritten = distinct(runs.owner[runs.unwritten & directory[runs.owner]])[0]
    context.add_inodes("extent-unwritten-directory", table.number, unwritten)
    if Incompat.LARGE_DIR not in context.superblock.features:
        most = 1 << (DIRECTORY_BLOCKS_BITS - context.superblock.log_block_size)
        long = directory & (ends.all > most)
        context.add_inodes("inode-size", table.number, long, ends.all, f"{most:,} blocks")


def _check_clusters(context: VerifyContext, table: InodeTable, runs: Runs) -> None:
    ratio = context.superblock.cluster_ratio
    off = (runs.logical - runs.physical) % ratio != 0
    off &= ~np.isin(table.number[runs.owner], (BAD_BLOCKS, RESIZE))  # these only list blocks
    context.add_inodes("cluster-misaligned", table.number, distinct(runs.owner[off])[0])


def _check_block_counts(
    context: VerifyContext, table: InodeTable, runs: Runs, nodes: OwnedBlocks,
    bodies: BodyAttributes, bad: Bools,
) -> None:  # fmt: skip
    superblock = context.superblock
    ratio = superblock.cluster_ratio
    if ratio == 1:
        clusters = np.bincount(nodes.owner, minlength=len(table))
        np.add.at(clusters, runs.owner, runs.length)
    else:
        clusters = _clusters(table, runs, nodes, ratio)
    clusters = clusters + (table.file_acl != 0)
    sectors = clusters * ratio * (superblock.block_size // SECTOR)
    values = bodies.charges + block_charges(context, table)
    sectors += values[:, 0] // SECTOR
    _note_usage(context, table, sectors * SECTOR, 1 + values[:, 1])
    odd = (table.number == BAD_BLOCKS) | ((table.number == RESIZE) & (ratio > 1))
    wrong = (sectors != table.blocks) & ~bad & ~odd
    context.add_inodes("inode-blocks", table.number, wrong, table.blocks, sectors)


def _note_usage(context: VerifyContext, table: InodeTable, space: Int64s, inodes: Int64s) -> None:
    """Record the usage that quotas count, including the attribute values of each file."""
    if RoCompat.QUOTA not in context.superblock.features:
        return
    counts = (table.number >= context.superblock.first_usable_inode) | (table.number == ROOT)
    own = np.array([context.superblock.project_quota_inode, context.superblock.orphan_file_inode])
    counts &= ~np.isin(table.number, own[own > 0])
    counts &= (table.flags & int(InodeFlags.EA_INODE)) == 0
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    uncounted = inline & table.is_symlink
    usage = FileUsage(table.uid, table.gid, table.project_id, space, inodes, uncounted)
    context.usage.append(usage.take(counts))


def _clusters(table: InodeTable, runs: Runs, nodes: OwnedBlocks, ratio: int) -> Int64s:
    """Number of different clusters that each inode uses."""
    owner = np.concatenate([runs.owner, nodes.owner])
    first = np.concatenate([runs.physical, nodes.block])
    last = np.concatenate([runs.physical + runs.length - 1, nodes.block])
    start, end = first // ratio, last // ratio + 1
    order = np.lexsort((start, owner))
    owner, start, end = owner[order], start[order], end[order]
    total = np.zeros(len(table), np.int64)
    np.add.at(total, owner, end - start)
    shared = (owner[1:] == owner[:-1]) & (start[1:] == end[:-1] - 1)
    np.subtract.at(total, owner[1:][shared], 1)
    return total


def _check_contexts(context: VerifyContext, table: InodeTable, bodies: BodyAttributes) -> None:
    encrypted = (table.flags & int(InodeFlags.ENCRYPT)) != 0
    kind = table.is_dir | table.is_regular | table.is_symlink
    lacking = encrypted & kind & ~bodies.is_encrypted
    without_block = lacking & (table.file_acl == 0)
    context.add_inodes("encryption-context", table.number, without_block)
    rows = lacking & ~without_block
    context.contexts.append(OwnedBlocks(table.number[rows], table.file_acl[rows]))


def _check_inline(context: VerifyContext, table: InodeTable, bodies: BodyAttributes) -> None:
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    directory = table.is_dir
    lacking = inline & (bodies.inline_size < 0)
    context.add_inodes("inode-inline", table.number, lacking, "no system.data attribute")
    expected = INLINE_ROOM + np.maximum(bodies.inline_size, 0)
    link = table.is_symlink  # a file may be larger, as it may end in a hole
    wrong = (
        inline & ~lacking & (directory & (table.size != expected) | link & (table.size > expected))
    )
    context.add_inodes("inode-size", table.number, wrong, table.size, expected)


def _claim(context: VerifyContext, table: InodeTable, runs: Runs, nodes: OwnedBlocks) -> None:
    """Claim the blocks of all maps; for the resize inode, only its double-indirect block.

    The other blocks of the resize inode are descriptor blocks, which have been claimed already.
    """
    runs = runs.take(table.number[runs.owner] != RESIZE)
    context.claim(runs.physical, runs.length, table.number[runs.owner])
    nodes = nodes.take(table.number[nodes.owner] != RESIZE)
    context.claim(nodes.block, 1, table.number[nodes.owner])
    resize = table.i_block[table.number == RESIZE]
    tree = np.ascontiguousarray(resize).view("<u4").astype(np.int64)[:, 13]
    context.claim(tree[(tree > 0) & (tree < context.superblock.blocks_count)], 1, RESIZE)


def _check_symlinks(context: VerifyContext, table: InodeTable, runs: Runs, ends: _Ends) -> Bools:
    """Check link targets in inodes and in blocks; per row: True where the target is wrong."""
    link, size = table.is_symlink, context.superblock.block_size
    if not link.any():
        return link
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    wrong = link & ((table.size <= 0) | (table.size >= size))
    fast = is_fast_symlink(table.mode, table.size, table.flags) & ~wrong
    rows = np.flatnonzero(fast)
    wrong[rows] = ~_fits(table, rows, table.i_block[rows])
    block = np.full(len(table), -1)
    first = runs.logical == 0
    block[runs.owner[first]] = runs.physical[first]
    slow = link & ~wrong & ~fast & ~inline
    wrong |= slow & ((ends.mapped != 1) | (block < 0))
    rows = np.flatnonzero(slow & ~wrong)
    for at in range(0, len(rows), LINKS_AT_ONCE):
        some = rows[at : at + LINKS_AT_ONCE]
        data, readable = context.fs.fetch(block[some])
        wrong[some] = readable & ~_fits(table, some, data)
    context.add_inodes("inode-symlink", table.number, wrong, table.size)
    return wrong


def _fits(table: InodeTable, rows: Rows, data: Bytes2D) -> Bools:
    """Per row of `data`: True where the link target in it ends at `i_size`."""
    size = table.size[rows]
    ends = data == 0
    length = np.where(ends.any(axis=1), ends.argmax(axis=1), data.shape[1])
    fine = (length == size) & (length < data.shape[1])
    encrypted = (table.flags[rows] & int(InodeFlags.ENCRYPT)) != 0
    stored_length = np.ascontiguousarray(data[:, :2]).view("<u2")[:, 0].astype(np.int64)
    sealed = (stored_length > 0) & (stored_length + ENCRYPTED_HEADER <= size)
    fits: Bools = np.where(encrypted, sealed, fine)
    return fits
