"""Detection of structures in any data by their bytes alone.

Source: kernel Documentation/filesystems/ext4/inodes.rst, directory.rst and ifork.rst.
"""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers.checksums import crc32c_back, crc32c_each, crc32c_seeds
from ext4kit.parsers.directory import DIRENT_TAIL, TAIL_FILE_TYPE, record_length
from ext4kit.parsers.extents import (
    EXTENT,
    HEADER,
    MAGIC,
    MAX_DEPTH,
    TAIL,
    parse_extents,
    parse_headers,
)
from ext4kit.parsers.inode import (
    CHECKSUM_HIGH,
    CHECKSUM_LOW,
    GOOD_OLD_SIZE,
    INODE,
    INODE_EXTRA,
    KINDS,
    InodeFlags,
)
from ext4kit.parsers.layout import Buffer
from ext4kit.units import join, widen

EARLIEST = 315_532_800  # 1980; `ctime` comes from the system clock, which is always later
_KNOWN_FLAGS = sum(int(flag) for flag in InodeFlags) | 0x700 | 0x1C000000 | 0x400000
_I_BLOCK = INODE.offset_of("i_block")
_DOT = (b"\x0c\x00\x01\x02.\0\0\0", b"\x0c\x00\x01\x00.\0\0\0")  # rec_len 12, `.`; typed or not
_TAIL = bytes((0, 0, 0, 0, DIRENT_TAIL.size, 0, 0, TAIL_FILE_TYPE))


def plausible_inodes(slots: Bytes2D) -> Rows:
    """Rows (int64) that are plausible as inodes in use.

    Args:
        slots: uint8 (n, 128) or wider: the first 128 bytes at every possible offset of an inode.
    """
    raw = INODE.columns(slots)
    kinds = np.zeros(16, bool)
    kinds[[kind >> 12 for kind in KINDS]] = True
    row = np.flatnonzero((raw["i_dtime"] == 0) & (raw["i_mode"] > 0))
    row = row[kinds[raw["i_mode"][row] >> 12]]
    some = raw[row]
    flags = widen(some["i_flags"])
    fits = (some["i_links_count"] > 0) & (some["i_obso_faddr"] == 0) & (some["i_reserved"] == 0)
    fits &= (widen(some["i_ctime"]) & 0xFFFFFFFF) >= EARLIEST
    fits &= flags & ~_KNOWN_FLAGS == 0
    row, some, flags = row[fits], some[fits], flags[fits]
    roots = HEADER.columns(np.ascontiguousarray(some["i_block"]))
    is_root = (roots["eh_magic"] == MAGIC) & (roots["eh_max"] == 4) & (roots["eh_entries"] <= 4)
    is_root &= roots["eh_depth"] <= MAX_DEPTH
    found: Rows = row[is_root | (flags & int(InodeFlags.EXTENTS) == 0)]
    return found


def first_blocks(
    slots: Bytes2D, rows: Rows, kind: int, least: int = 0
) -> tuple[Rows, Int64s, Int64s]:
    """(row, first block, generation) of inodes of one type whose first block is in `i_block`.

    Args:
        slots: uint8 (n, 128) or wider.
        rows: rows of plausible inodes.
        kind: S_IFDIR or S_IFREG.
        least: smallest size in bytes, compared with the low 32 bits of the size.
    """
    raw = INODE.columns(slots)[rows]
    maps = np.ascontiguousarray(raw["i_block"])
    flags = widen(raw["i_flags"])
    by_extents = flags & int(InodeFlags.EXTENTS) != 0
    roots, first = HEADER.columns(maps), EXTENT.columns(maps, HEADER.size)
    leaf = (roots["eh_depth"] == 0) & (roots["eh_entries"] > 0) & (first["ee_block"] == 0)
    block = join(first["ee_start_hi"], first["ee_start_lo"], 32) * leaf
    block = np.where(by_extents, block, widen(maps[:, :4].copy().view("<u4")[:, 0]))
    fits = (raw["i_mode"] & 0xF000 == kind) & (block > 0) & (raw["i_size_lo"] >= least)
    fits &= flags & int(InodeFlags.INLINE_DATA) == 0
    return rows[fits], block[fits], widen(raw["i_generation"])[fits]


def inline_extents(inode: Buffer) -> list[tuple[int, int]]:
    """(first block, number of blocks) of the extents in the inode; empty for a deeper tree."""
    raw = INODE.table(inode, 1)
    root = np.ascontiguousarray(raw["i_block"]).reshape(1, -1)
    sound, entries, _, depth = parse_headers(root)
    if not sound[0] or depth[0] or not widen(raw["i_flags"])[0] & int(InodeFlags.EXTENTS):
        return []
    slots = np.arange(int(entries[0]))
    _, length, physical, _ = parse_extents(root, np.zeros_like(slots), slots)
    return list(zip(physical.tolist(), length.tolist(), strict=True))


def find_dot_entries(units: Bytes2D) -> tuple[Rows, Int64s, Int64s, bool]:
    """The first blocks of directories, detected by their entries `.` and `..`.

    Args:
        units: uint8 (n, at least 24), the bytes at every possible offset of a block.

    Returns:
        (row, inode number of the directory, inode number of its parent, all int64; whether an entry
        has the type of a directory, which shows the filetype feature).
    """
    heads = np.ascontiguousarray(units[:, 4:12]).view("<u8")[:, 0]
    typed, plain = (heads == int.from_bytes(dot, "little") for dot in _DOT)
    row = np.flatnonzero(typed | plain)
    words = np.ascontiguousarray(units[row, :24]).view("<u4").astype(np.int64)
    fits = (words[:, 0] > 0) & (words[:, 3] > 0) & (words[:, 4] >> 16 & 0xFF == 2)
    fits &= (words[:, 5] == int.from_bytes(b"..\0\0", "little")) & (words[:, 4] & 3 == 0)
    row, words = row[fits], words[fits]
    return row, words[:, 0], words[:, 3], bool(typed[row].any())


def find_dirblock_tails(units: Bytes2D) -> Rows:
    """Rows of the units that end in the tail of a directory block."""
    ends = np.ascontiguousarray(units[:, -DIRENT_TAIL.size : -4]).view("<u8")[:, 0]
    return np.flatnonzero(ends == int.from_bytes(_TAIL, "little"))


def inode_marks(rows: Bytes2D) -> tuple[Int64s, Bools]:
    """(Inode number ^ file system seed) of each inode, from its checksum.

    A register is linear in its start. Therefore the checksum gives only the combination of inode
    number and seed.

    Args:
        rows: uint8 (n, inode size).

    Returns:
        (int64 (n,); bool (n,), True where the inode has a complete checksum of 32 bits).
    """
    count, size = rows.shape
    if size <= GOOD_OLD_SIZE:
        return np.zeros(count, np.int64), np.zeros(count, bool)
    extra = INODE_EXTRA.columns(rows, GOOD_OLD_SIZE)
    base = INODE.columns(rows)
    whole = (widen(extra["i_extra_isize"]) >= 4) & (extra["i_extra_isize"] <= size - GOOD_OLD_SIZE)
    stored = join(extra["i_checksum_hi"], base["i_checksum_lo"], 16)
    blank = rows.copy()
    blank[:, CHECKSUM_LOW] = blank[:, CHECKSUM_HIGH] = 0
    return checksum_residues(crc32c_seeds(stored, blank, size), widen(base["i_generation"])), whole


def directory_inode_seeds(blocks: Bytes2D) -> Int64s:
    """The owners' checksum seeds (which depend on number and generation), from block tails.

    Args:
        blocks: uint8 (n, block size), each with a tail.
    """
    stored = widen(np.ascontiguousarray(blocks[:, -4:]).view("<u4")[:, 0])
    body = np.ascontiguousarray(blocks[:, : -DIRENT_TAIL.size])
    return crc32c_seeds(stored, body, body.shape[1])


def checksum_residues(registers: Int64s, generations: Int64s) -> Int64s:
    """(Inode number ^ file system seed), from each inode's checksum seed and generation."""
    bodies = np.ascontiguousarray(generations.astype("<u4")).view(np.uint8).reshape(-1, 4)
    alone = crc32c_each(np.zeros(len(registers), np.int64), bodies)
    return crc32c_back(registers ^ alone, 8)


def is_index_block(blocks: Bytes2D) -> Bools:
    """True for an htree root or node, which lists no entries except `.` and `..`."""
    size = blocks.shape[1]
    words = np.ascontiguousarray(blocks[:, :20]).view("<u2").astype(np.int64)
    found: Bools = (words[:, 0] | words[:, 1]) == 0
    found &= record_length(words[:, 2], size) == size
    found |= record_length(words[:, 8], size) == size - words[:, 2]
    return found


def node_checksums_ok(blocks: Bytes2D, seeds: Int64s) -> Bools:
    """True where the checksum of an extent tree block matches the seed of its owner.

    Args:
        blocks: uint8 (n, block size).
        seeds: int64 (n,), checksum seeds of the owners.
    """
    sound, _, most, _ = parse_headers(blocks)
    end = HEADER.size + most * EXTENT.size
    fits = np.zeros(len(blocks), bool)
    for length in np.unique(end[sound & (end + TAIL.size <= blocks.shape[1])]).tolist():
        some = np.flatnonzero(sound & (end == length))
        stored = np.ascontiguousarray(blocks[some, length : length + TAIL.size]).view("<u4")[:, 0]
        body = np.ascontiguousarray(blocks[some, :length])
        fits[some] = crc32c_each(seeds[some], body) == stored
    return fits
