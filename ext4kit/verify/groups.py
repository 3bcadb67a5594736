"""Group descriptors: checksums, locations, flags, backup copies, and the groups' own blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Rows
from ext4kit.filesystem.geometry import descriptor_blocks
from ext4kit.parsers.features import Incompat, RoCompat
from ext4kit.parsers.group import GroupFlags, GroupTable, parse_groups
from ext4kit.verify.places import group_starts, overheads, superblock_groups
from ext4kit.verify.scene import METADATA, VerifyContext

BACKUPS_COMPARED = 64  # copies of the descriptors that are read and compared
UNINIT = int(GroupFlags.INODE_UNINIT | GroupFlags.BLOCK_UNINIT)
PLACES = ("block_bitmap", "inode_bitmap", "inode_table")
PLACE_BYTES = (slice(0, 12), slice(32, 44))  # locations in a descriptor; second part with 64bit


def check_groups(scene: VerifyContext) -> None:
    """Check all descriptors and their copies, then claim the groups' own blocks."""
    count = len(scene.fs.groups)
    if count < scene.superblock.groups_count:
        missing = scene.superblock.groups_count - count
        scene.findings.add(
            "evidence-short", "group descriptors", read=f"{missing:,} groups missing"
        )
    rows, readable = _rows(scene, 0, count)
    table = parse_groups(rows, scene.superblock)
    _check_checksums(scene, table, readable)
    _check_places(scene, table)
    _check_flags(scene, table)
    _compare_copies(scene, rows, table)
    _claim(scene)


def _rows(scene: VerifyContext, copy: int, count: int) -> tuple[Bytes2D, Bools]:
    """((count, descriptor size), readable (count,)) of one copy of the descriptors."""
    superblock = scene.superblock
    size, block_size = superblock.descriptor_size, superblock.block_size
    places = descriptor_blocks(superblock, copy, -(-count * size // block_size))
    data, readable = scene.fs.fetch(places)
    return data.reshape(-1, size)[:count], np.repeat(readable, block_size // size)[:count]


def _locate(scene: VerifyContext, copy: int, group: int) -> dict[str, int]:
    """Block and offset of a group's descriptor, as `VerifyContext.add` takes them."""
    superblock = scene.superblock
    per_block = superblock.block_size // superblock.descriptor_size
    index, slot = divmod(group, per_block)
    places = descriptor_blocks(superblock, copy, index + 1)
    return {
        "group": group,
        "block": int(places[index]),
        "offset": slot * superblock.descriptor_size,
    }


def _each(
    scene: VerifyContext, code: str, groups: Rows, copy: int, read: Any, expected: Any = None
) -> None:
    structure = "backup group descriptor" if copy else "group descriptor"
    shown = groups[: scene.findings.room(code)].tolist()
    for group in shown:
        words = {"read": read(group), "expected": expected(group) if expected else ""}
        scene.add(code, structure, **_locate(scene, copy, group), **words)
    scene.findings.count(code, len(groups) - len(shown))


def _check_checksums(scene: VerifyContext, table: GroupTable, readable: Bools) -> None:
    bad = (table.computed_checksum >= 0) & (table.computed_checksum != table.checksum) & readable
    _each(
        scene, "descriptor-checksum", np.flatnonzero(bad), 0,
        lambda group: f"0x{table.checksum[group]:04x}",
        lambda group: f"0x{table.computed_checksum[group]:04x}",
    )  # fmt: skip
    lost = np.flatnonzero(~readable)
    _each(scene, "metadata-unreadable", lost, 0, lambda _: scene.fs.unreadable)
    scene.trusted = readable & ~bad


def _table_blocks(scene: VerifyContext) -> int:
    superblock = scene.superblock
    return -(-superblock.inodes_per_group * superblock.inode_size // superblock.block_size)


def _check_places(scene: VerifyContext, table: GroupTable) -> None:
    superblock, count = scene.superblock, len(table)
    starts = group_starts(superblock, count)
    ends = np.minimum(starts + superblock.blocks_per_group, scene.blocks_count)
    if Incompat.FLEX_BG in superblock.features:
        starts = np.full(count, superblock.first_data_block)
        ends = np.full(count, scene.blocks_count)
    for name in PLACES:
        place = getattr(table, name)
        length = _table_blocks(scene) if name == "inode_table" else 1
        bad = (place < np.maximum(starts, 1)) | (place + length > ends)
        words = name.replace("_", " ")
        _each(
            scene, "descriptor-place", np.flatnonzero(bad), 0,
            lambda group, at=place, words=words: f"{words} at block {at[group]:,}",
            lambda group, a=starts, b=ends: f"blocks {a[group]:,} to {b[group] - 1:,}",
        )  # fmt: skip


def _check_flags(scene: VerifyContext, table: GroupTable) -> None:
    superblock = scene.superblock
    flagged = (table.flags & UNINIT) != 0
    lazy = superblock.has_metadata_checksums or RoCompat.UNINIT_BG in superblock.features
    if not lazy:
        _each(
            scene, "descriptor-flags-unused", np.flatnonzero(flagged), 0,
            lambda group: f"flags 0x{table.flags[group]:x} without uninit_bg or metadata_csum",
        )  # fmt: skip
        return
    last = len(table) - 1
    if table.flags[last] & int(GroupFlags.BLOCK_UNINIT):
        words = "block bitmap of the last group marked as never written"
        _each(scene, "descriptor-flags", np.array([last]), 0, lambda _: words)
    bad = table.itable_unused > superblock.inodes_per_group
    _each(
        scene, "descriptor-unused-inodes", np.flatnonzero(bad), 0,
        lambda group: f"{table.itable_unused[group]:,}",
        lambda _: f"at most {superblock.inodes_per_group:,}",
    )  # fmt: skip


def _compare_copies(scene: VerifyContext, own: Bytes2D, primary: GroupTable) -> None:
    superblock = scene.superblock
    copies = superblock_groups(superblock, len(primary))
    if Incompat.META_BG in superblock.features and superblock.first_meta_group == 0:
        copies = np.minimum(copies, 1)[:2]  # each meta group has its copy in its second group
    for copy in copies[copies > 0][:BACKUPS_COMPARED].tolist():
        rows, readable = _rows(scene, copy, len(primary))
        different = np.zeros(len(primary), bool)
        for part in PLACE_BYTES:
            different |= (rows[:, part] != own[:, part]).any(axis=1)
        different &= readable
        table = parse_groups(rows, superblock) if different.any() else primary
        _each(
            scene, "backup-descriptors-differ", np.flatnonzero(different), copy,
            lambda group, table=table: _places_of(table, group),
            lambda group: _places_of(primary, group),
        )  # fmt: skip


def _places_of(table: GroupTable, group: int) -> str:
    return ", ".join(f"{int(getattr(table, name)[group]):,}" for name in PLACES)


def _claim(scene: VerifyContext) -> None:
    """Claim the blocks of superblocks, descriptors, bitmaps, inode tables and MMP."""
    superblock, groups = scene.superblock, scene.fs.groups
    ahead = overheads(superblock, len(groups))
    starts = group_starts(superblock, len(groups))
    some = ahead > 0
    scene.claims.add(starts[some], ahead[some], METADATA)
    for name in PLACES:
        place = getattr(groups, name)
        length = _table_blocks(scene) if name == "inode_table" else 1
        inside = (place > 0) & (place + length <= superblock.blocks_count)
        scene.claims.add(place[inside], length, METADATA)
    if Incompat.MMP in superblock.features and 0 < superblock.mmp_block < superblock.blocks_count:
        scene.claims.add(superblock.mmp_block, 1, METADATA)
