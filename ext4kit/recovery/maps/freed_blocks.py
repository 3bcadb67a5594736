"""Blocks that a transaction freed, from differences between copies of a block bitmap.

The transaction that frees a block logs both the bitmap and the inode. If a transaction freed only
one inode without a content state, that inode had all blocks that the transaction freed and that no
other known inode had.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import expand, group_sizes, starts_group
from ext4kit.arrays.intervals import overlap_pairs
from ext4kit.arrays.lookup import SortedIndex
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Int64s
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.geometry import first_block
from ext4kit.history import History
from ext4kit.history.inode_states import TID_PRE_FAST_COMMIT
from ext4kit.journal import inode_version_batches
from ext4kit.parsers.inode import InodeTable, parse_inodes
from ext4kit.units import NANOSECONDS

_DTIME_TOLERANCE = 2 * NANOSECONDS  # deletions are stored in whole seconds


@dataclass(frozen=True, slots=True)
class FreedRuns(Table):
    """Runs of freed blocks, as int64 columns by tid and block.

    Attributes:
        start, length: the blocks.
        tid: tid of the first transaction that shows the blocks free.
        last_used_tid: tid of the last earlier transaction that shows the blocks in use.
    """

    start: Int64s
    length: Int64s
    tid: Int64s
    last_used_tid: Int64s


def find_freed_runs(history: History) -> FreedRuns:
    """Freed blocks according to the block bitmaps in the journal."""
    parts, logged = [], history.copies
    if logged is not None:
        rows = np.flatnonzero(np.isin(logged.blocks, history.fs.groups.block_bitmap))
        step = max(logged.log.reader.chunk, 2)
        for at in range(0, len(rows), step - 1):
            parts.append(_bitmap_differences(history, rows[at : at + step]))
    freed = FreedRuns.concat(parts)
    return freed.take(np.lexsort((freed.start, freed.tid)))


def _bitmap_differences(history: History, rows: Int64s) -> FreedRuns:
    """Blocks that are free in one copy of a bitmap and in use in the previous copy."""
    logged, superblock = history.copies, history.fs.superblock
    assert logged is not None
    blocks, orders = logged.blocks[rows], logged.tids[rows]
    copies = logged.log.read_copies(logged.tag_rows[rows])
    pairs = np.flatnonzero(blocks[1:] == blocks[:-1])
    freed_bits = copies[pairs] & ~copies[pairs + 1]
    kept = freed_bits.any(axis=1)
    pairs, freed_bits = pairs[kept], freed_bits[kept]
    bits = np.unpackbits(freed_bits, axis=1, bitorder="little")[:, : superblock.bits_per_group]
    edge = np.diff(bits.astype(np.int8), axis=1, prepend=0, append=0)
    row, start = np.nonzero(edge == 1)
    end = np.nonzero(edge == -1)[1]
    by_home = np.argsort(history.fs.groups.block_bitmap, kind="stable")
    homes = history.fs.groups.block_bitmap[by_home]
    group = by_home[np.searchsorted(homes, blocks[pairs])]
    ratio = superblock.cluster_ratio
    first = first_block(superblock, 0) + group[row] * superblock.blocks_per_group
    return FreedRuns(
        first + start * ratio, (end - start) * ratio, orders[pairs + 1][row], orders[pairs][row]
    )


def runs_of_sole_freed_inode(
    history: History, freed: FreedRuns, metadata: Int64s
) -> tuple[Int64s, Runs]:
    """Deleted instances that are the only possible owners of the blocks freed with them.

    Args:
        history: the instances.
        freed: freed runs from `find_freed_runs`.
        metadata: int64, unallocated metadata blocks, which are omitted.

    Returns:
        (instance (n,), runs). `owner` of a run is a row of the first; file blocks are numbered in
        disk order.
    """
    states = history.states
    if not len(states) or not len(freed):
        return np.zeros(0, np.int64), Runs.empty()
    lost = np.flatnonzero((history.last_content_row < 0) & ~history.is_allocated)
    first = np.searchsorted(states.instance, lost)
    order = states.tid[first]
    window = _windows(history, order)
    died = states.table.dtime[first] * NANOSECONDS
    there = (died >= window - _DTIME_TOLERANCE) & (window > 0)
    there &= states.table.links_count[first] == 0
    # older than the previous commit: it had its blocks already before that
    made = states.table.crtime[first]
    there &= (made > 0) & (made < window)
    lost, order = lost[there], order[there]
    found, count = np.unique(order, return_counts=True)
    single = found[count == 1]
    single = single[~np.isin(single, _ambiguous_tids(history, single))]
    kept = np.isin(order, single)
    lost, order = lost[kept], order[kept]
    sort = np.argsort(order)
    return _unexplained_runs(history, freed, lost[sort], order[sort], metadata)


def _windows(history: History, orders: Int64s) -> Int64s:
    """Commit time of the transaction before each tid, ns; 0 if unknown."""
    times = history.commit_times
    known, place = np.unique(orders, return_inverse=True)
    return np.array([times.get(order - 1, 0) for order in known.tolist()], np.int64)[place]


def _ambiguous_tids(history: History, orders: Int64s) -> Int64s:
    """The tids of transactions in which other files may have lost blocks.

    Such a file is older than the transaction and was changed by it, and the journal does not
    exclude that it was larger before.
    """
    if history.copies is None or not len(orders):
        return orders
    unsure: list[Int64s] = [np.zeros(0, np.int64)]
    for versions in inode_version_batches(history.fs, history.copies):
        table = parse_inodes(versions.rows, versions.number, history.fs.superblock)
        unsure.append(_may_have_lost_blocks(history, table, versions.order, orders))
    return np.unique(np.concatenate(unsure))


def _may_have_lost_blocks(
    history: History, table: InodeTable, order: Int64s, orders: Int64s
) -> Int64s:
    """The tids in which a linked inode of a batch may have lost blocks.

    This includes an inode created in the transaction, which may have the number of one deleted in
    it.
    """
    size_before = np.full(len(table), -1)
    sort = np.lexsort((order, table.number))
    same = table.number[sort[1:]] == table.number[sort[:-1]]
    size_before[sort[1:][same]] = table.size[sort[:-1][same]]
    began = _windows(history, order)
    window = began - _DTIME_TOLERANCE
    changed = np.isin(order, orders) & (table.links_count > 0) & (table.ctime >= window)
    changed &= table.is_regular & (table.crtime < window)
    shorter = changed & ((size_before < 0) | (size_before > table.size))
    made = np.isin(order, orders) & (table.links_count > 0) & (table.crtime >= began)
    return order[shorter | made]


def _unexplained_runs(
    history: History, freed: FreedRuns, instances: Int64s, orders: Int64s, metadata: Int64s
) -> tuple[Int64s, Runs]:
    """Runs that were freed in some transactions, without the blocks of known states.

    An instance with a block that is allocated again is omitted because its map would be incomplete.
    """
    place = SortedIndex(orders).rows(freed.tid)
    row, position = expand(np.where(place != NO_ROW, freed.length, 0))
    owner, block = place[row], freed.start[row] + position
    used = history.fs.bitmaps.blocks_in_use(block)
    known = _had_before(history, block, orders[owner], used)
    kept = ~known & ~np.isin(block, metadata)
    owner, block, used = owner[kept], block[kept], used[kept]
    spoilt = np.unique(owner[used])
    kept = ~np.isin(owner, spoilt)
    owner, block = owner[kept], block[kept]
    has, owner = np.unique(owner, return_inverse=True)
    first = np.searchsorted(owner, np.arange(len(has)))
    cut = starts_group(owner, block - np.arange(len(block)))
    start = np.flatnonzero(cut)
    logical = start - first[owner[start]]
    length = group_sizes(cut)
    written = np.zeros(len(start), bool)
    return instances[has], Runs(owner[start], logical, length, block[start], written)


def _had_before(history: History, block: Int64s, order: Int64s, used: Bools) -> Bools:
    """Per freed block (bool): True if a known state had it before as content or tree block.

    A state first seen after the block was freed (tid `order`) has reused the block. So has a state
    known only from disk if the block is in use, because the block was free in between.
    """
    rows = np.flatnonzero(history.states.describes_content)
    maps = history.map_states(rows)
    start = np.concatenate([maps.runs.physical, maps.tree_blocks[1]])
    length = np.concatenate([maps.runs.length, np.ones(len(maps.tree_blocks[1]), np.int64)])
    seen = history.states.tid[rows][np.concatenate([maps.runs.owner, maps.tree_blocks[0]])]
    sort = np.lexsort((seen, length, start))  # of states with the same run, the first is used
    sort = sort[starts_group(start[sort], length[sort])]
    mine, theirs = overlap_pairs(block, np.ones(len(block), np.int64), start[sort], length[sort])
    since = seen[sort][theirs]
    known = np.zeros(len(block), bool)
    known[mine[(since < order[mine]) | (since >= TID_PRE_FAST_COMMIT) & ~used[mine]]] = True
    return known
