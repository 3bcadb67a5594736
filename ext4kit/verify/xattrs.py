"""Extended attributes: in inode bodies, in attribute blocks, and values in separate inodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.grouping import distinct
from ext4kit.arrays.types import Bools, Bytes2D, Int64s, Rows
from ext4kit.parsers.checksums import crc32c_each, crc32c_rows
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.inode import GOOD_OLD_SIZE, InodeFlags, InodeTable
from ext4kit.parsers.xattr import ENCRYPTION, MAGIC, SYSTEM, XATTR_BLOCK_HEADER, XATTR_BODY_HEADER
from ext4kit.verify.attributes import (
    XattrEntries,
    colliding_areas,
    entry_hashes,
    read_attributes,
    values_fit,
)
from ext4kit.verify.scene import METADATA, InodesInUse, VerifyContext

BLOCKS_AT_ONCE = 2048
LEAST_EXTRA = 4  # size of `i_extra_isize` and `i_checksum_hi`
CONTEXT_SIZES = (28, 40)  # version 1 and 2 of fscrypt
_CHECKSUM = XATTR_BLOCK_HEADER.offset_of("h_checksum")


@dataclass(frozen=True, slots=True)
class BodyAttributes:
    """Data from the attributes in inode bodies, one row for each inode.

    Attributes:
        inline_size: bytes of inline data after the first 60; -1 without such an attribute.
        is_encrypted: True where it has an encryption context.
        charges: (n, 2): bytes of values in separate inodes, in whole clusters; number of such
            values.
    """

    inline_size: Int64s
    is_encrypted: Bools
    charges: Int64s


def check_bodies(scene: VerifyContext, table: InodeTable) -> BodyAttributes:
    """Check the size of the extra fields and the attributes after them."""
    count, size = len(table), table.raw.shape[1]
    nothing = np.zeros((count, 2), np.int64)
    result = BodyAttributes(np.full(count, -1), np.zeros(count, bool), nothing)
    if size <= GOOD_OLD_SIZE:
        return result
    extra = table.extra_isize
    wrong = (extra != 0) & (
        (extra < LEAST_EXTRA) | (extra > size - GOOD_OLD_SIZE) | (extra % 4 != 0)
    )
    scene.add_inodes("inode-extra-size", table.number[wrong], extra[wrong])
    start = GOOD_OLD_SIZE + extra
    room = np.flatnonzero(~wrong & (extra != 0) & (start + XATTR_BODY_HEADER.size + 4 <= size))
    words = np.ascontiguousarray(table.raw).view("<u4")
    rows = room[words[room, start[room] // 4] == MAGIC]
    if len(rows):
        _check_bodies(scene, table, rows, start[rows] + XATTR_BODY_HEADER.size, result)
    return result


def _check_bodies(
    scene: VerifyContext, table: InodeTable, rows: Rows, start: Int64s, result: BodyAttributes
) -> None:
    raw = table.raw[rows]
    entries, end, broken = read_attributes(raw, start)
    fits = values_fit(entries, start, raw.shape[1])
    broken[entries.area[~fits]] = True
    entries = entries.take(fits)
    scene.add_inodes(
        "xattr-entry", table.number[rows[broken]], "an entry or value exceeds its area"
    )
    collides = colliding_areas(entries, start, start, end) & ~broken
    scene.add_inodes("xattr-entry", table.number[rows[collides]], "values overlap")
    wrong = _wrong_hashes(raw, entries, start) & (entries.hash != 0)
    scene.add_inodes("xattr-hash", table.number[rows[entries.area[wrong]]], entries.hash[wrong])
    _note_values(scene, table.number[rows], entries)
    data = (entries.index == SYSTEM) & (entries.name_length == 4)
    result.inline_size[rows[entries.area[data]]] = entries.value_size[data]
    result.is_encrypted[rows[entries.area[_are_contexts(entries)]]] = True
    np.add.at(result.charges, rows[entries.area], charges(scene, entries))


def charges(scene: VerifyContext, entries: XattrEntries) -> Int64s:
    """(n, 2) bytes and inodes charged to the owner of an entry: values in separate inodes.

    Source: kernel fs/ext4/xattr.c, `ext4_xattr_inode_alloc_quota`.
    """
    cluster = scene.superblock.block_size * scene.superblock.cluster_ratio
    size = -(-entries.value_size // cluster) * cluster
    return np.where(entries.value_inode != 0, [size, np.ones_like(size)], 0).T


def block_charges(scene: VerifyContext, table: InodeTable) -> Int64s:
    """`charges` for the attribute blocks of a table of inodes, one row for each inode."""
    total = np.zeros((len(table), 2), np.int64)
    rows = np.flatnonzero(table.file_acl != 0)
    if Incompat.EA_INODE not in scene.superblock.features or not len(rows):
        return total
    for at in range(0, len(rows), BLOCKS_AT_ONCE):
        some = rows[at : at + BLOCKS_AT_ONCE]
        data, _ = scene.fs.fetch(table.file_acl[some])
        header = np.full(len(some), XATTR_BLOCK_HEADER.size)
        entries, _, _ = read_attributes(data, header)
        np.add.at(total, some[entries.area], charges(scene, entries))
    return total


def _wrong_hashes(rows: Bytes2D, entries: XattrEntries, base: Int64s) -> Bools:
    """Per entry: True where neither hash matches; False where the value lies elsewhere."""
    own = np.flatnonzero(entries.value_inode == 0)
    plain, signed = entry_hashes(rows, entries.take(own), base)
    stored = entries.hash[own].astype(np.uint32)
    wrong = np.zeros(len(entries), bool)
    wrong[own] = (stored != plain) & (stored != signed)
    return wrong


def _note_values(scene: VerifyContext, numbers: Int64s, entries: XattrEntries) -> None:
    """Record references to inodes that hold values."""
    some = np.flatnonzero(entries.value_inode != 0)
    if len(some):
        scene.value_references.append(
            (numbers[entries.area[some]], entries.value_inode[some], entries.value_size[some])
        )


def check_blocks(scene: VerifyContext) -> None:
    """Check each attribute block once: checksum, header, entries, and number of owners."""
    if not scene.xattr_blocks:
        return
    number, block = (np.concatenate(part) for part in zip(*scene.xattr_blocks, strict=True))
    inside = (block >= max(scene.superblock.first_data_block, 1)) & (
        block < scene.superblock.blocks_count
    )
    scene.add_inodes("xattr-block", number[~inside], block[~inside])
    blocks, first, users = np.unique(block[inside], return_index=True, return_counts=True)
    owner = number[inside][first]
    sealed = [blocks[:0]]
    for at in range(0, len(blocks), BLOCKS_AT_ONCE):
        part = slice(at, at + BLOCKS_AT_ONCE)
        sealed.append(_check_some(scene, blocks[part], owner[part], users[part]))
    scene.claims.add(blocks, 1, METADATA)
    for number, block in scene.contexts:
        scene.add_inodes("encryption-context", number[~np.isin(block, np.concatenate(sealed))])


def _check_some(scene: VerifyContext, blocks: Int64s, owner: Int64s, users: Rows) -> Int64s:
    """Check some blocks; return those that hold an encryption context."""
    rows, readable = scene.fs.fetch(blocks)
    header = XATTR_BLOCK_HEADER.columns(rows)
    name, place = "xattr block", {"inode": owner, "block": blocks}
    sound = (header["h_magic"] == MAGIC) & (header["h_blocks"] == 1)
    bad = np.flatnonzero(~sound | ~readable)
    scene.add_rows("xattr-block", name, bad, **place, read="no attribute block header")
    if scene.superblock.has_metadata_checksums:
        wrong = _checksums(scene, blocks, rows) != header["h_checksum"]
        scene.add_rows("xattr-checksum", name, np.flatnonzero(wrong & readable), **place)
    count = header["h_refcount"].astype(np.int64)
    scene.add_rows(
        "xattr-references", name, np.flatnonzero(sound & (count != users)), **place,
        read=lambda row: f"{count[row]:,}", expected=lambda row: f"{users[row]:,}",
    )  # fmt: skip
    return _check_entries(scene, blocks, owner, rows, np.flatnonzero(sound & readable))


def _check_entries(
    scene: VerifyContext, blocks: Int64s, owner: Int64s, rows: Bytes2D, some: Rows
) -> Int64s:
    rows, place = rows[some], {"inode": owner[some], "block": blocks[some]}
    base = np.zeros(len(some), np.int64)
    start = np.full(len(some), XATTR_BLOCK_HEADER.size)
    entries, end, broken = read_attributes(rows, start)
    fits = values_fit(entries, base, rows.shape[1])
    broken[entries.area[~fits]] = True
    entries = entries.take(fits)
    broken |= colliding_areas(entries, base, start, end)
    scene.add_rows(
        "xattr-entry", "xattr block", np.flatnonzero(broken), **place,
        read="an entry or value exceeds its area or overlaps another",
    )  # fmt: skip
    wrong = distinct(entries.area[_wrong_hashes(rows, entries, base)])[0]
    scene.add_rows("xattr-hash", "xattr block", wrong, **place)
    _note_values(scene, owner[some], entries)
    return place["block"][entries.area[_are_contexts(entries)]]


def _are_contexts(entries: XattrEntries) -> Bools:
    """Per entry: True for an encryption context of a known length."""
    found: Bools = (entries.index == ENCRYPTION) & np.isin(entries.value_size, CONTEXT_SIZES)
    return found


def _checksums(scene: VerifyContext, blocks: Int64s, rows: Bytes2D) -> Int64s:
    """Expected `h_checksum` of each block."""
    body = rows.copy()
    body[:, _CHECKSUM : _CHECKSUM + 4] = 0
    number = blocks.astype("<u8").view(np.uint8).reshape(-1, 8)
    return crc32c_each(crc32c_rows(scene.superblock.seed, number).astype(np.int64), body)


def check_values(scene: VerifyContext, facts: InodesInUse, values: list[InodeTable]) -> None:
    """Check the inodes that hold values against the entries that refer to them."""
    none = np.zeros(0, np.int64)
    parts = zip((none, none, none), *scene.value_references, strict=True)
    owner, value, size = (np.concatenate(part) for part in parts)
    row = facts.rows_of(value)
    good = (row >= 0) & (facts.flags[row] & int(InodeFlags.EA_INODE) != 0)
    scene.add_inodes("xattr-value-inode", owner[~good], value[~good])
    if Incompat.EA_INODE not in scene.superblock.features:  # the kernel refuses these inodes
        scene.add_inodes("xattr-value-inode", owner[good], "a value inode without ea_inode")
    wrong = np.flatnonzero(good)[facts.size[row[good]] != size[good]]
    scene.add_inodes("xattr-value-inode", owner[wrong], size[wrong], facts.size[row[wrong]])
    referred, counts = np.unique(value[good], return_counts=True)
    for table in values:
        _check_references(scene, table, referred, counts)


def _check_references(
    scene: VerifyContext, table: InodeTable, referred: Int64s, counts: Rows
) -> None:
    """Check reference counts, which such an inode holds in its change time and version fields."""
    times = np.ascontiguousarray(table.raw[:, 12:16]).view("<u4")[:, 0].astype(np.int64)
    versions = np.ascontiguousarray(table.raw[:, 36:40]).view("<u4")[:, 0].astype(np.int64)
    stored = times << 32 | versions
    place = np.searchsorted(referred, table.number)
    have = np.zeros(len(table), np.int64)
    inside = place < len(referred)
    hit = np.flatnonzero(inside)[referred[place[inside]] == table.number[inside]]
    have[hit] = counts[place[hit]]
    unreferenced = have == 0
    scene.add_inodes("inode-unattached", table.number[unreferenced])
    wrong = ~unreferenced & (stored != have)
    scene.add_inodes("xattr-references", table.number[wrong], stored[wrong], have[wrong])
