"""The first file blocks of former extents, which remain in the root of a freed extent tree.

A removal drops the extents from the last to the first and clears the length and the physical block
of each. The first file block of each extent remains, and all these entries follow `eh_entries = 0`.
Source: kernel fs/ext4/extents.c, `ext4_ext_rm_leaf`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ext4kit.arrays.grouping import rank_within, starts_group
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.filesystem.block_maps import Runs
from ext4kit.parsers import extents
from ext4kit.parsers.inode import InodeFlags, InodeTable

SLOTS = 4


def stale_extent_starts(table: InodeTable) -> tuple[Int64s, Int64s]:
    """The first file blocks of the extents that freed inodes had.

    Args:
        table: the inodes.

    Returns:
        (int64 (n, SLOTS): first file blocks, int64 (n,): number of valid ones; 0 if none is left, 1
        if there was one extent or none at all).
    """
    every, slot = np.arange(len(table))[:, None], np.arange(SLOTS)[None, :]
    sound, entries, most, depth = extents.parse_headers(table.i_block)
    valid = sound & (entries == 0) & (most == SLOTS) & (depth == 0) & (table.links_count == 0)
    valid &= (table.flags & int(InodeFlags.EXTENTS)) != 0
    start, length, physical, unwritten = extents.parse_extents(table.i_block, every, slot)
    cleared = (length == 0) & (physical == 0) & ~unwritten
    cleared[:, 1:] &= start[:, 1:] > start[:, :-1]
    valid &= cleared[:, 0]
    return start, np.where(valid, np.cumprod(cleared, axis=1).sum(axis=1), 0)


def order_by_extent_starts(runs: Runs, starts: Int64s, count: Int64s) -> tuple[Runs, Bools, Bools]:
    """Order the runs of each file by the first file blocks of its extents.

    An extent ends where the next one begins, so the lengths of all extents but the last are known.

    Args:
        runs: runs sorted by owner, in disk order.
        starts: first file blocks of each owner, from `stale_extent_starts`.
        count: number of valid ones of each owner, from `stale_extent_starts`.

    Returns:
        (runs of the files that match, bool (n,): True where a file matches, bool (n,): True where
        runs of equal length could be in another order).
    """
    files = len(count)
    step = np.diff(starts, axis=1)
    file, slot = np.nonzero(np.arange(SLOTS - 1)[None, :] < count[:, None] - 1)
    length = step[file, slot]
    mine, known = (_with_rank(*part) for part in ((runs.owner, runs.length), (file, length)))
    both, back = np.unique(np.concatenate([mine, known]), axis=0, return_inverse=True)
    place = np.full(len(both), -1)
    back = back.reshape(-1)
    place[back[: len(mine)]] = np.arange(len(mine))
    place = place[back[len(mine) :]]
    taken = place >= 0
    logical = np.full(len(runs), -1)
    logical[place[taken]] = starts[file[taken], slot[taken]]
    fits = (np.bincount(runs.owner, minlength=files) == count) & (count > 1)
    fits[file[~taken]] = False
    last = np.flatnonzero(logical < 0)
    logical[last] = starts[runs.owner[last], np.maximum(count[runs.owner[last]] - 1, 0)]
    alike = np.zeros(files, bool)
    alike[runs.owner[mine[:, 2] > 0]] = True
    kept = np.flatnonzero(fits[runs.owner])
    kept = kept[np.lexsort((logical[kept], runs.owner[kept]))]
    return replace(runs, logical=logical).take(kept), fits, alike


def _with_rank(owner: Int64s, length: Int64s) -> Int64s:
    """int64 (n, 3): owner, length, and rank among rows with the same owner and length."""
    order = np.lexsort((length, owner))
    rank = np.empty(len(order), np.int64)
    rank[order] = rank_within(starts_group(owner[order], length[order]))
    return np.stack([owner, length, rank], axis=1)
