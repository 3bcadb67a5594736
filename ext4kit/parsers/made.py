"""Synthetic directories that replace lost ones in listings; they are never written to the evidence.

Source: kernel Documentation/filesystems/ext4/directory.rst, ifork.rst and inodes.rst.
"""

from __future__ import annotations

import stat
import struct

import numpy as np

from ext4kit.arrays.types import Bytes2D
from ext4kit.parsers.directory import DIRENT
from ext4kit.parsers.extents import EXTENT, HEADER, MAGIC
from ext4kit.parsers.inode import INODE, InodeFlags

_MOST_AN_EXTENT = 32768
_ROOT_ENTRIES = 4


def synthetic_directory(
    row: bytes, first: int, count: int, block_size: int, generation: int
) -> bytes:
    """Bytes of a directory inode whose content is one run of blocks.

    Args:
        row: the known bytes of the inode; zeros if none are known.
        first: first block of the run.
        count: number of blocks, at most 131,072.
        block_size: bytes per block.
        generation: generation to set if the inode is not known.
    """
    inode = bytearray(row)
    fields = INODE.table(inode, 1)  # a view: writing to it changes the bytes
    if not any(inode):
        fields["i_mode"], fields["i_generation"] = stat.S_IFDIR, generation
        fields["i_links_count"] = 2
    fields["i_flags"] &= ~int(InodeFlags.INLINE_DATA | InodeFlags.INDEX) & 0xFFFFFFFF
    fields["i_flags"] |= int(InodeFlags.EXTENTS)
    fields["i_size_lo"] = count * block_size
    starts = range(0, count, _MOST_AN_EXTENT)[:_ROOT_ENTRIES]
    root = struct.pack("<4HI", MAGIC, len(starts), _ROOT_ENTRIES, 0, 0)
    for start in starts:
        length, block = min(count - start, _MOST_AN_EXTENT), first + start
        root += struct.pack("<IHHI", start, length, block >> 32, block & 0xFFFFFFFF)
    inode[INODE.span("i_block")] = root.ljust(HEADER.size + _ROOT_ENTRIES * EXTENT.size, b"\0")
    return bytes(inode)


def packed_entries(entries: list[tuple[bytes, int, int]], block_size: int) -> Bytes2D:
    """Directory blocks, uint8 (n, block size), that contain (name, inode, file type) entries."""
    blocks, block = [], bytearray()
    last = 0
    for name, number, kind in entries:
        size = DIRENT.size + -(-len(name) // 4) * 4
        if len(block) + size > block_size:
            blocks.append(_closed(block, last, block_size))
            block = bytearray()
        last = len(block)
        block += struct.pack("<IHBB", number, size, len(name), kind) + name
        block += bytes(last + size - len(block))
    blocks.append(_closed(block, last, block_size))
    return np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, block_size)


def _closed(block: bytearray, last: int, block_size: int) -> bytes:
    """The block with its last entry extended to the end; one unused entry if it is empty."""
    if not block:
        block += struct.pack("<IHBB", 0, 0, 0, 0)
    reach = block_size - last
    field = DIRENT.offset_of("rec_len")
    struct.pack_into("<H", block, last + field, reach if reach < 65536 else 0)
    return bytes(block).ljust(block_size, b"\0")
