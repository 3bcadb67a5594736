"""Older inode states from untagged copies of inode table blocks.

The transaction of an untagged log block follows from the next jbd2 header. A copy in an unallocated
block is older than all other states.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem.inodes import is_user_inode
from ext4kit.parsers.inode import InodeTable, inode_checksums_ok, parse_inodes
from ext4kit.unallocated.metadata import INODES, MetadataBlocks, read_metadata_blocks
from ext4kit.unallocated.owners import inode_slots
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.unallocated.untagged import tids_of_untagged

TID_UNDATED = 0  # a tid before that of every transaction
_AT_ONCE = 2048


def find_older_states(
    space: UnallocatedSpace, structures: MetadataBlocks
) -> list[tuple[InodeTable, Int64s]]:
    """(states, tids) of inode states that the tagged journal does not have.

    Args:
        space: the space that was scanned.
        structures: the metadata blocks found there, with numbers for inode table blocks.
    """
    pieces = structures.of_kind(INODES)
    pieces = pieces.take(pieces.stated_number > 0)
    found = []
    epochs = space.epochs
    for in_log in (True, False):
        some = pieces.take(pieces.in_journal == in_log)
        tids = tids_of_untagged(space.log, some.block) if in_log else np.zeros(len(some), np.int64)
        if not epochs.has_one_size:  # older blocks may have inodes of another size
            kept = tids >= epochs.first_of_layout
            some, tids = some.take(kept), tids[kept]
        order = np.maximum(tids, TID_UNDATED)
        for at in range(0, len(some), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            table, piece = _read_states(space, some.take(part))
            found.append((table, order[part][piece]))
    return [_last_linked_per_instance(table, order) for table, order in found if len(table)]


def _read_states(space: UnallocatedSpace, pieces: MetadataBlocks) -> tuple[InodeTable, Rows]:
    """(valid user inodes in the blocks, the block of each)."""
    superblock = space.fs.superblock
    number, rows = inode_slots(superblock, pieces, read_metadata_blocks(space, pieces))
    piece = np.arange(len(number)) // (superblock.block_size // superblock.inode_size)
    table = parse_inodes(rows, number, superblock)
    kept = np.flatnonzero(is_user_inode(space.fs, table) & (number <= superblock.inodes_count))
    table = table.take(kept)
    if superblock.has_metadata_checksums:
        sound = inode_checksums_ok(table, superblock)
        kept, table = kept[sound], table.take(sound)
    return table, piece[kept]


def _last_linked_per_instance(table: InodeTable, order: Int64s) -> tuple[InodeTable, Int64s]:
    """The last linked state of each (instance, tid); if none is linked, the last state.

    A linked state is preferred because a freed inode has lost its block map.
    """
    linked = table.links_count > 0
    key = np.lexsort((table.ctime, linked, order, table.generation, table.number))
    last = np.ones(len(key), bool)
    last[:-1] = False
    for column in (order, table.generation, table.number):
        last[:-1] |= column[key[1:]] != column[key[:-1]]
    kept = key[last]
    return table.take(kept), order[kept]
