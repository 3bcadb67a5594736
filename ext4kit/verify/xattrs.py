"""Check of extended attributes in inode bodies and blocks, and of values in separate inodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import distinct
from ext4kit.arrays.lookup import SortedIndex, values_at
from ext4kit.arrays.table import Table
from ext4kit.arrays.types import NO_ROW, Bools, Bytes2D, Int64s, Rows, UInt32s
from ext4kit.parsers.checksums import crc32c_each, crc32c_rows
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import GOOD_OLD_SIZE, INODE, InodeFlags, InodeTable
from ext4kit.parsers.xattr import (
    ENCRYPTION,
    MAGIC,
    SYSTEM,
    XATTR_BLOCK_HEADER,
    XATTR_BODY_HEADER,
    XATTR_ENTRY,
)
from ext4kit.units import join, widen
from ext4kit.verify.context import (
    METADATA,
    InodesInUse,
    OwnedBlocks,
    ValueReferences,
    VerifyContext,
)

BLOCKS_AT_ONCE = 2048
CONTEXT_SIZES = (28, 40)  # of versions 1 and 2 of fscrypt
_CHECKSUM = XATTR_BLOCK_HEADER.offset_of("h_checksum")
LEAST_EXTRA = 4  # size of `i_extra_isize` and `i_checksum_hi`
VALUE_STEPS = 1 << 14  # words of a value that a hash covers


@dataclass(frozen=True, slots=True)
class BodyAttributes:
    """Facts from the attributes in inode bodies, one row for each inode.

    Attributes:
        inline_size: bytes of inline data after the first 60; -1 without such an attribute.
        is_encrypted: True where the inode has an encryption context.
        charges: (n, 2): bytes (in whole clusters) and number of the values in separate inodes.
    """

    inline_size: Int64s
    is_encrypted: Bools
    charges: Int64s


def check_bodies(context: VerifyContext, table: InodeTable) -> BodyAttributes:
    """Check the size of the extra fields and the attributes after them."""
    count, size = len(table), table.raw.shape[1]
    nothing = np.zeros((count, 2), np.int64)
    result = BodyAttributes(np.full(count, -1), np.zeros(count, bool), nothing)
    if size <= GOOD_OLD_SIZE:
        return result
    extra = table.extra_isize
    wrong, rows = body_areas(np.ascontiguousarray(table.raw).view("<u4"), extra)
    context.add_inodes("inode-extra-size", table.number, wrong, extra)
    raw, numbers = table.raw[rows], table.number[rows]
    start = GOOD_OLD_SIZE + extra[rows] + XATTR_BODY_HEADER.size
    entries, end, broken = read_attributes(raw, start, start)
    context.add_inodes("xattr-entry", numbers, broken, "an entry or value exceeds its area")
    collides = colliding_areas(entries, start, start, end) & ~broken
    context.add_inodes("xattr-entry", numbers, collides, "values overlap")
    wrong = _wrong_hashes(raw, entries, start) & (entries.hash != 0)
    context.add_inodes("xattr-hash", numbers[entries.area], wrong, entries.hash)
    _note_values(context, numbers, entries)
    data = (entries.index == SYSTEM) & (entries.name_length == 4)
    result.inline_size[rows[entries.area[data]]] = entries.value_size[data]
    result.is_encrypted[rows[entries.area[_are_contexts(entries)]]] = True
    np.add.at(result.charges, rows[entries.area], charges(context, entries))
    return result


def charges(context: VerifyContext, entries: XattrEntries) -> Int64s:
    """(n, 2): bytes and inodes charged to an entry's owner for a value in a separate inode.

    Source: kernel fs/ext4/xattr.c, `ext4_xattr_inode_alloc_quota`.
    """
    cluster = context.superblock.block_size * context.superblock.cluster_ratio
    size = -(-entries.value_size // cluster) * cluster
    return np.where(entries.value_inode != 0, [size, np.ones_like(size)], 0).T


def block_charges(context: VerifyContext, table: InodeTable) -> Int64s:
    """`charges` for the attribute blocks of a table of inodes, one row for each inode."""
    total = np.zeros((len(table), 2), np.int64)
    rows = np.flatnonzero(table.file_acl != 0)
    if Incompat.EA_INODE not in context.superblock.features or not len(rows):
        return total
    for at in range(0, len(rows), BLOCKS_AT_ONCE):
        some = rows[at : at + BLOCKS_AT_ONCE]
        data, _ = context.fs.fetch(table.file_acl[some])
        base = np.zeros(len(some), np.int64)
        entries, _, _ = read_attributes(data, base + XATTR_BLOCK_HEADER.size, base)
        np.add.at(total, some[entries.area], charges(context, entries))
    return total


def _wrong_hashes(rows: Bytes2D, entries: XattrEntries, base: Int64s) -> Bools:
    """Per entry: True where neither hash matches; always False for values in separate inodes."""
    own = np.flatnonzero(entries.value_inode == 0)
    hashes = entry_hashes(rows, entries.take(own), base)
    wrong = np.zeros(len(entries), bool)
    wrong[own] = (entries.hash[own].astype(np.uint32) != hashes).all(axis=0)
    return wrong


def _note_values(context: VerifyContext, numbers: Int64s, entries: XattrEntries) -> None:
    """Record references to inodes that hold values."""
    some = entries.take(entries.value_inode != 0)
    references = ValueReferences(numbers[some.area], some.value_inode, some.value_size)
    context.value_references.append(references)


def check_blocks(context: VerifyContext) -> None:
    """Check each attribute block once: checksum, header, entries, and number of owners."""
    owned = OwnedBlocks.concat(context.xattr_blocks)
    lowest = max(context.superblock.first_data_block, 1)
    inside = (owned.block >= lowest) & (owned.block < context.superblock.blocks_count)
    context.add_inodes("xattr-block", owned.owner, ~inside, owned.block)
    owned = owned.take(inside)
    blocks, first, users = np.unique(owned.block, return_index=True, return_counts=True)
    owner = owned.owner[first]
    parts = [slice(at, at + BLOCKS_AT_ONCE) for at in range(0, len(blocks), BLOCKS_AT_ONCE)]
    sealed = [_check_some(context, blocks[part], owner[part], users[part]) for part in parts]
    context.claim(blocks, 1, METADATA)
    encrypted = OwnedBlocks.concat(context.contexts)
    lacking = ~np.isin(encrypted.block, np.concatenate([blocks[:0], *sealed]))
    context.add_inodes("encryption-context", encrypted.owner, lacking)


def _check_some(context: VerifyContext, blocks: Int64s, owner: Int64s, users: Rows) -> Int64s:
    """Check some blocks; return those that hold an encryption context."""
    rows, readable = context.fs.fetch(blocks)
    header = XATTR_BLOCK_HEADER.columns(rows)
    name, where = "xattr block", {"inode": owner, "block": blocks}
    sound = (header["h_magic"] == MAGIC) & (header["h_blocks"] == 1)
    context.add_rows("xattr-block", name, ~sound | ~readable, "no attribute block header", **where)
    if context.superblock.has_metadata_checksums:
        wrong = (_checksums(context, blocks, rows) != header["h_checksum"]) & readable
        context.add_rows("xattr-checksum", name, wrong, **where)
    count = header["h_refcount"]
    context.add_rows("xattr-references", name, sound & (count != users), count, users, **where)
    kept = sound & readable
    blocks, owner, rows = blocks[kept], owner[kept], rows[kept]
    where = {"inode": owner, "block": blocks}
    base = np.zeros(len(rows), np.int64)
    entries, end, broken = read_attributes(rows, base + XATTR_BLOCK_HEADER.size, base)
    broken |= colliding_areas(entries, base, base + XATTR_BLOCK_HEADER.size, end)
    read = "an entry or value exceeds its area or overlaps another"
    context.add_rows("xattr-entry", name, broken, read, **where)
    wrong = distinct(entries.area[_wrong_hashes(rows, entries, base)])[0]
    context.add_rows("xattr-hash", name, wrong, **where)
    _note_values(context, owner, entries)
    return blocks[entries.area[_are_contexts(entries)]]


def _are_contexts(entries: XattrEntries) -> Bools:
    """Per entry: True for an encryption context of a known length."""
    found: Bools = (entries.index == ENCRYPTION) & np.isin(entries.value_size, CONTEXT_SIZES)
    return found


def _checksums(context: VerifyContext, blocks: Int64s, rows: Bytes2D) -> Int64s:
    """Expected `h_checksum` of each block."""
    body = rows.copy()
    body[:, _CHECKSUM : _CHECKSUM + 4] = 0
    number = blocks.astype("<u8").view(np.uint8).reshape(-1, 8)
    return crc32c_each(crc32c_rows(context.superblock.seed, number).astype(np.int64), body)


def check_values(context: VerifyContext, facts: InodesInUse, values: list[InodeTable]) -> None:
    """Check the inodes that hold values against the entries that refer to them."""
    references = ValueReferences.concat(context.value_references)
    owner, value, size = references.owner, references.value_inode, references.size
    row = facts.rows_of(value)
    good = (row >= 0) & (facts.flags[row] & int(InodeFlags.EA_INODE) != 0)
    context.add_inodes("xattr-value-inode", owner, ~good, value)
    if Incompat.EA_INODE not in context.superblock.features:  # else the kernel refuses them
        context.add_inodes("xattr-value-inode", owner, good, "a value inode without ea_inode")
    stored = facts.size[row]
    context.add_inodes("xattr-value-inode", owner, good & (stored != size), size, stored)
    referred, counts = np.unique(value[good], return_counts=True)
    for table in values:
        _check_references(context, table, referred, counts)


def _check_references(
    context: VerifyContext, table: InodeTable, referred: Int64s, counts: Rows
) -> None:
    """Check the reference counts, which value inodes hold in the change time and version fields."""
    raw = INODE.columns(table.raw)
    stored = join(raw["i_ctime"].view("<u4"), raw["i_version"], 32)
    have = values_at(counts, SortedIndex(referred).rows(table.number))
    context.add_inodes("inode-unattached", table.number, have == NO_ROW)
    wrong = (have != NO_ROW) & (stored != have)
    context.add_inodes("xattr-references", table.number, wrong, stored, have)


@dataclass(frozen=True, slots=True)
class XattrEntries(Table):
    """Entries as columns (n,), sorted by their index within an area, then by area.

    Attributes:
        area: row of the area.
        offset: byte offset of the entry in its area.
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
        (Bool per inode: True where `i_extra_isize` is wrong; rows of the inodes with attributes).
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
        (The entries except those whose value exceeds the area; int64 (areas,): end of each list of
        entries; bool (areas,): True where an entry or a value exceeds the area).
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

    The values of the entries must be in their area.
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
