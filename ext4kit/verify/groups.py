"""Group descriptors: checksums, locations, flags, backup copies, and the groups' own blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem.geometry import (
    descriptor_blocks,
    descriptors_per_block,
    group_overhead,
    superblock_groups,
)
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.group import GroupFlags, GroupTable, parse_groups
from ext4kit.parsers.superblock import Superblock
from ext4kit.verify.context import METADATA, VerifyContext
from ext4kit.verify.findings import Words

BACKUPS_COMPARED = 64  # copies of the descriptors that are read and compared
UNINIT = int(GroupFlags.INODE_UNINIT | GroupFlags.BLOCK_UNINIT)
PLACES = ("block_bitmap", "inode_bitmap", "inode_table")
PLACE_BYTES = (slice(0, 12), slice(32, 44))  # locations in a descriptor; the second with 64bit


def check_groups(context: VerifyContext) -> None:
    """Check all descriptors and their copies, then claim the groups' own blocks."""
    count = len(context.fs.groups)
    if count < context.superblock.groups_count:
        missing = context.superblock.groups_count - count
        context.add("evidence-short", "group descriptors", f"{missing:,} groups missing")
    rows, readable = _rows(context, 0, count)
    table = parse_groups(rows, context.superblock)
    _check_checksums(context, table, readable)
    _check_places(context, table)
    _check_flags(context, table)
    _compare_copies(context, rows, table)
    _claim(context)


def _rows(context: VerifyContext, copy: int, count: int) -> tuple[Bytes2D, Bools]:
    """((count, descriptor size), readable (count,)) of one copy of the descriptors."""
    superblock = context.superblock
    size, block_size = superblock.descriptor_size, superblock.block_size
    places = descriptor_blocks(superblock, copy, -(-count * size // block_size))
    data, readable = context.fs.fetch(places)
    return data.reshape(-1, size)[:count], np.repeat(readable, block_size // size)[:count]


def _report(
    context: VerifyContext,
    code: str,
    wrong: Bools,
    read: Words,
    expected: Words = "",
    copy: int = 0,
) -> None:
    """Record a finding for each of some groups, at its descriptor."""
    if not wrong.any():
        return
    superblock, group = context.superblock, np.arange(len(wrong))
    per_block = descriptors_per_block(superblock)
    places = descriptor_blocks(superblock, copy, -(-len(wrong) // per_block))
    context.add_rows(
        code, "backup group descriptor" if copy else "group descriptor", wrong, read, expected,
        group=group, block=places[group // per_block],
        offset=group % per_block * superblock.descriptor_size,
    )  # fmt: skip


def _check_checksums(context: VerifyContext, table: GroupTable, readable: Bools) -> None:
    bad = (table.computed_checksum >= 0) & (table.computed_checksum != table.checksum) & readable
    _report(
        context, "descriptor-checksum", bad,
        lambda group: f"0x{table.checksum[group]:04x}",
        lambda group: f"0x{table.computed_checksum[group]:04x}",
    )  # fmt: skip
    _report(context, "metadata-unreadable", ~readable, context.fs.unreadable)
    context.trusted = readable & ~bad


def _locations(context: VerifyContext, table: GroupTable) -> Iterator[tuple[str, Int64s, int]]:
    """(name, first block by group, number of blocks) of bitmaps and inode tables."""
    superblock = context.superblock
    table_bytes = superblock.inodes_per_group * superblock.inode_size
    for name in PLACES:
        length = -(-table_bytes // superblock.block_size) if name == "inode_table" else 1
        yield name.replace("_", " "), getattr(table, name), length


def _check_places(context: VerifyContext, table: GroupTable) -> None:
    superblock, count = context.superblock, len(table)
    starts = group_starts(superblock, count)
    ends = np.minimum(starts + superblock.blocks_per_group, context.blocks_count)
    if Incompat.FLEX_BG in superblock.features:
        starts = np.full(count, superblock.first_data_block)
        ends = np.full(count, context.blocks_count)
    for words, place, length in _locations(context, table):
        bad = (place < np.maximum(starts, 1)) | (place + length > ends)
        _report(
            context, "descriptor-place", bad,
            partial(_location_text, words, place),
            lambda group: f"blocks {starts[group]:,} to {ends[group] - 1:,}",
        )  # fmt: skip


def _location_text(name: str, place: Int64s, group: int) -> str:
    return f"{name} at block {place[group]:,}"


def _check_flags(context: VerifyContext, table: GroupTable) -> None:
    superblock = context.superblock
    flagged = (table.flags & UNINIT) != 0
    lazy = superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features
    if not lazy:
        _report(
            context, "descriptor-flags-unused", flagged,
            lambda group: f"flags 0x{table.flags[group]:x} without uninit_bg or metadata_csum",
        )  # fmt: skip
        return
    last = (table.flags & int(GroupFlags.BLOCK_UNINIT)) != 0
    last[:-1] = False
    words = "block bitmap of the last group marked as never written"
    _report(context, "descriptor-flags", last, words)
    most = superblock.inodes_per_group
    bad = table.itable_unused > most
    _report(context, "descriptor-unused-inodes", bad, table.itable_unused, f"at most {most:,}")


def _compare_copies(context: VerifyContext, own: Bytes2D, primary: GroupTable) -> None:
    superblock = context.superblock
    copies = superblock_groups(superblock, len(primary))
    if Incompat.META_BG in superblock.features and superblock.first_meta_group == 0:
        copies = np.minimum(copies, 1)[:2]  # a meta group's copy is in its second group
    for copy in copies[copies > 0][:BACKUPS_COMPARED].tolist():
        rows, readable = _rows(context, copy, len(primary))
        different = np.zeros(len(primary), bool)
        for part in PLACE_BYTES:
            different |= (rows[:, part] != own[:, part]).any(axis=1)
        different &= readable
        table = parse_groups(rows, superblock) if different.any() else primary
        read, expected = partial(_places_of, table), partial(_places_of, primary)
        _report(context, "backup-descriptors-differ", different, read, expected, copy)


def _places_of(table: GroupTable, group: int) -> str:
    return ", ".join(f"{int(getattr(table, name)[group]):,}" for name in PLACES)


def _claim(context: VerifyContext) -> None:
    """Claim the blocks of superblocks, descriptors, bitmaps, inode tables and MMP."""
    superblock, groups = context.superblock, context.fs.groups
    ahead = overheads(superblock, len(groups))
    starts = group_starts(superblock, len(groups))
    some = ahead > 0
    context.claim(starts[some], ahead[some], METADATA)
    for _, place, length in _locations(context, groups):
        inside = (place > 0) & (place + length <= superblock.blocks_count)
        context.claim(place[inside], length, METADATA)
    if Incompat.MMP in superblock.features and 0 < superblock.mmp_block < superblock.blocks_count:
        context.claim(np.array([superblock.mmp_block]), 1, METADATA)


def overheads(superblock: Superblock, groups: int) -> Int64s:
    """Per group (int64): blocks at its start for boot block, superblock and descriptors."""
    has_any = np.zeros(groups, np.bool_)
    has_any[superblock_groups(superblock, groups)] = True
    if Incompat.META_BG in superblock.features:
        per_block = descriptors_per_block(superblock)
        inside = np.arange(groups) % per_block
        has_any |= (inside < 2) | (inside == per_block - 1)
    found, some = np.zeros(groups, np.int64), np.flatnonzero(has_any)
    found[some] = [group_overhead(superblock, group) for group in some.tolist()]
    return found


def group_starts(superblock: Superblock, groups: int) -> Int64s:
    """The first block of each group, int64."""
    return superblock.first_data_block + np.arange(groups) * superblock.blocks_per_group
