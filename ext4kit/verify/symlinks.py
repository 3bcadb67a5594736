"""Symbolic links: the target must have the length that `i_size` gives."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Rows
from ext4kit.parsers.inode import InodeFlags, InodeTable, is_fast_symlink
from ext4kit.verify.extents import Found
from ext4kit.verify.scene import VerifyContext

LINKS_AT_ONCE = 2048
ENCRYPTED_HEADER = 2  # an encrypted target starts with its length


def check_symlinks(scene: VerifyContext, table: InodeTable, found: Found) -> None:
    """Check targets in the inode and targets in a block."""
    link = table.is_symlink
    if not link.any():
        return
    size = scene.superblock.block_size
    inline = (table.flags & int(InodeFlags.INLINE_DATA)) != 0
    wrong = link & ((table.size <= 0) | (table.size >= size))
    fast = is_fast_symlink(table.mode, table.size, table.flags) & ~wrong
    rows = np.flatnonzero(fast)
    wrong[rows] = ~_fits(scene, table, rows, table.i_block[rows])
    wrong |= _check_slow(scene, table, np.flatnonzero(link & ~wrong & ~fast & ~inline), found)
    scene.add_inodes("inode-symlink", table.number, wrong, table.size)
    found.bad |= wrong


def _fits(scene: VerifyContext, table: InodeTable, rows: Rows, data: Bytes2D) -> Bools:
    """Per row of `data`: True where the target ends at `i_size`."""
    size = table.size[rows]
    ends = data == 0
    length = np.where(ends.any(axis=1), ends.argmax(axis=1), data.shape[1])
    fine = (length == size) & (length < data.shape[1])
    encrypted = (table.flags[rows] & int(InodeFlags.ENCRYPT)) != 0
    stored_length = np.ascontiguousarray(data[:, :2]).view("<u2")[:, 0].astype(np.int64)
    sealed = (
        (size > ENCRYPTED_HEADER) & (stored_length > 0) & (stored_length + ENCRYPTED_HEADER <= size)
    )
    fits: Bools = np.where(encrypted, sealed, fine)
    return fits


def _check_slow(scene: VerifyContext, table: InodeTable, rows: Rows, found: Found) -> Bools:
    """Per row of the table: True for a link without exactly one block with a matching target."""
    wrong = np.zeros(len(table), bool)
    if not len(rows):
        return wrong
    runs = found.all_runs()
    block, count = np.full(len(table), -1), np.zeros(len(table), np.int64)
    np.add.at(count, runs.owner, runs.length)
    first = runs.logical == 0
    block[runs.owner[first]] = runs.physical[first]
    wrong[rows] = (count[rows] != 1) | (block[rows] < 0)
    rows = rows[~wrong[rows]]
    for at in range(0, len(rows), LINKS_AT_ONCE):
        some = rows[at : at + LINKS_AT_ONCE]
        data, readable = scene.fs.fetch(block[some])
        wrong[some] = readable & ~_fits(scene, table, some, data)
    return wrong
