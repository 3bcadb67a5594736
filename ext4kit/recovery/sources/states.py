"""Earlier states of inodes from pieces of inode tables that the log does not describe.

A piece in a log block without a descriptor is of the transaction that the next block of the
log's own tells. One in a free block is older than everything else that is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.parsers.inode import InodeTable, inode_checksums_ok, parse_inodes
from ext4kit.past.states import are_ordinary
from ext4kit.recovery.sources.owners import slots_of
from ext4kit.recovery.sources.space import Space
from ext4kit.recovery.sources.structures import INODES, Structures, read_structures
from ext4kit.recovery.sources.undescribed import orders_of

OLDEST = 0  # an order before that of every transaction
_AT_ONCE = 2048


def old_states(space: Space, structures: Structures) -> list[tuple[InodeTable, Any]]:
    """(states, orders of the transactions that show them) that the described log lacks.

    Args:
        space: where the structures were found.
        structures: what was found there, pieces of inode tables with their numbers.
    """
    pieces = structures.of(INODES)
    pieces = pieces.take(pieces.number > 0)
    found = []
    epochs = space.past.epochs
    for in_log in (True, False):
        some = pieces.take(pieces.in_log == in_log)
        told = orders_of(space.log, some.block) if in_log else np.zeros(len(some), np.int64)
        if not epochs.has_one_size:  # what is older may be cut at other places
            kept = told >= epochs.first_of_layout
            some, told = some.take(kept), told[kept]
        order = np.maximum(told, OLDEST)
        for at in range(0, len(some), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            table, piece = _read(space, some.take(part))
            found.append((table, order[part][piece]))
    return [_newest(table, order) for table, order in found if len(table)]


def _read(space: Space, pieces: Structures) -> tuple[InodeTable, Any]:
    """(sound inodes of users in the pieces, the piece that each is from)."""
    superblock = space.fs.superblock
    number, rows = slots_of(superblock, pieces, read_structures(space, pieces))
    piece = np.arange(len(number)) // (superblock.block_size // superblock.inode_size)
    table = parse_inodes(rows, number, superblock)
    kept = np.flatnonzero(are_ordinary(space.fs, table) & (number <= superblock.inodes_count))
    table = table.take(kept)
    if superblock.has_metadata_checksums:
        sound = inode_checksums_ok(table, superblock)
        kept, table = kept[sound], table.take(sound)
    return table, piece[kept]


def _newest(table: InodeTable, order: Any) -> tuple[InodeTable, Any]:
    """Of several states of one life at one time the last one that shows it linked.

    Only where none does, the last one: a freed inode tells of nothing that it had.
    """
    linked = table.links_count > 0
    key = np.lexsort((table.ctime, linked, order, table.generation, table.number))
    last = np.ones(len(key), bool)
    last[:-1] = False
    for column in (order, table.generation, table.number):
        last[:-1] |= column[key[1:]] != column[key[:-1]]
    kept = key[last]
    return table.take(kept), order[kept]
