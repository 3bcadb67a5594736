"""Attribute entries of many inode bodies or blocks, read in step, and their hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.table import Table
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows, UInt32s
from ext4kit.parsers.inode import GOOD_OLD_SIZE
from ext4kit.parsers.xattr import MAGIC, XATTR_BODY_HEADER, XATTR_ENTRY
from ext4kit.units import widen

LEAST_EXTRA = 4  # size of `i_extra_isize` and `i_checksum_hi`
VALUE_STEPS = 1 << 14  # words of a value that a hash covers


@dataclass(frozen=True, slots=True)
class XattrEntries(Table):
    """Entries as columns (n,), sorted by their index within an area, then by area.

    Attributes:
        area: row of the area.
        offset: byte offset of the entry in it.
    """

    area: Int64s
    offset: Int64s
    name_length: Int64s
    index: Int64s
    value_offset: Int64s
    value_inode: Int64s
    value_size: Int64s
    hash: Int64s


def body_areas(words: UInt32s, extra: Int64s) -> tuple[Bools, Rows]:
    """Find the attributes in inode bodies.

    Args:
        words: 32-bit words of the inodes, (n, words of each).
        extra: `i_extra_isize` of each.

    Returns:
        Bool per inode, True where `i_extra_isize` is wrong; rows of the inodes with attributes.
    """
    size = words.shape[1] * 4
    wrong = (extra < LEAST_EXTRA) | (extra > size - GOOD_OLD_SIZE) | (extra % 4 != 0)
    wrong &= extra != 0
    start = GOOD_OLD_SIZE + extra
    fits = start + XATTR_BODY_HEADER.size + 4 <= size
    room = np.flatnonzero(~wrong & (extra != 0) & fits)
    return wrong, room[words[room, start[room] // 4] == MAGIC]


def read_attributes(
    rows: Bytes2D, start: Int64s, base: Int64s
) -> tuple[XattrEntries, Int64s, Bools]:
    """Read the entries of all areas.

    Args:
        rows: uint8 (areas, size), size a multiple of 4.
        start: int64 (areas,), byte offset of each first entry, a multiple of 4.
        base: int64 (areas,), origin of value offsets.

    Returns:
        The entries without those whose value exceeds the area; int64 (areas,), end of each list;
        bool (areas,), True where an entry or a value exceeds the area.
    """
    size = rows.shape[1]
    flat = np.ascontiguousarray(rows).reshape(-1)
    words = flat.view("<u4")
    place, end = start.copy(), start.copy()
    broken = np.zeros(len(rows), bool)
    area = np.arange(len(rows))
    found = []
    while len(area):
        short = place[area] + 4 > size
        broken[area[short]] = True
        area = area[~short]
        first = words[(area * size + place[area]) // 4]
        end[area] = place[area]
        area = area[first != 0]
        at = area * size + place[area]
        length = widen(flat[at])
        following = place[area] + (XATTR_ENTRY.size + length + 3 & ~3)
        fits = following + 4 <= size
        broken[area[~fits]] = True
        area, at, length, following = area[fits], at[fits], length[fits], following[fits]
        word = at // 4
        found.append(XattrEntries(
            area, place[area], length, widen(flat[at + 1]), widen(words[word]) >> 16,
            *(widen(words[word + step]) for step in (1, 2, 3)),
        ))  # fmt: skip
        place[area] = following
    entries = XattrEntries.concat(found)
    stop = base[entries.area] + entries.value_offset + entries.value_size
    fits = (entries.value_inode != 0) | (entries.value_size == 0) | (stop <= size)
    broken[entries.area[~fits]] = True
    return entries.take(fits), end, broken


def colliding_areas(entries: XattrEntries, base: Int64s, start: Int64s, end: Int64s) -> Bools:
    """Per area: True where a value overlaps another or the entries. The entries must be valid."""
    own = (entries.value_inode == 0) & (entries.value_size > 0)
    area = np.concatenate([np.arange(len(start)), entries.area[own]])
    first = np.concatenate([start, base[entries.area[own]] + entries.value_offset[own]])
    length = np.concatenate([end + 4 - start, entries.value_size[own] + 3 & ~3])
    order = np.lexsort((first, area))
    area, first, stop = area[order], first[order], (first + length)[order]
    bad = np.zeros(len(start), bool)
    over = (area[1:] == area[:-1]) & (first[1:] < stop[:-1])
    bad[area[1:][over]] = True
    return bad


def entry_hashes(rows: Bytes2D, entries: XattrEntries, base: Int64s) -> UInt32s:
    """Expected `e_hash` (2, n), by unsigned and by signed characters of the name.

    For entries whose value is in the area.
    """
    size, flat = rows.shape[1], np.ascontiguousarray(rows).reshape(-1)
    name = entries.area * size + entries.offset + XATTR_ENTRY.size
    register = np.zeros((2, len(entries)), np.uint32)
    for step in range(int(entries.name_length.max(initial=0))):
        some = np.flatnonzero(entries.name_length > step)
        byte = flat[name[some] + step]
        both = np.stack([byte.astype(np.uint32), byte.astype(np.int8).astype(np.uint32)])
        register[:, some] = _rotated(register[:, some], 5) ^ both
    value = entries.area * size + base[entries.area] + entries.value_offset
    some = np.flatnonzero(entries.value_size > 0)
    for step in range(VALUE_STEPS):
        some = some[entries.value_size[some] > 4 * step]
        if not len(some):
            break
        word = np.zeros(len(some), np.uint32)
        for byte in range(4):
            inside = entries.value_size[some] > 4 * step + byte
            place = np.where(inside, value[some] + 4 * step + byte, 0)
            word |= (flat[place] * inside).astype(np.uint32) << np.uint32(8 * byte)
        register[:, some] = _rotated(register[:, some], 16) ^ word
    return register


def _rotated(register: UInt32s, shift: int) -> UInt32s:
    return (register << np.uint32(shift)) | (register >> np.uint32(32 - shift))
