"""Quota files against the actual usage of the inodes."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import Ext4kitError
from ext4kit.parsers.features import RoCompat
from ext4kit.parsers.quota import parse_quota
from ext4kit.verify.scene import FileUsage, VerifyContext

MOST_BYTES = 1 << 28  # of a quota file


def check_quota(scene: VerifyContext) -> None:
    """Compare the usage by user, group and project."""
    superblock = scene.superblock
    if RoCompat.QUOTA not in superblock.features:
        return
    usage = FileUsage.concat(scene.usage)
    files = [
        (superblock.user_quota_inode, usage.user),
        (superblock.group_quota_inode, usage.group),
        (superblock.project_quota_inode, usage.project),
    ]
    for kind, (number, owner) in enumerate(files):
        if number:
            _check(scene, kind, number, owner, usage)


def _check(scene: VerifyContext, kind: int, number: int, owner: Int64s, usage: FileUsage) -> None:
    """Check one quota file.

    Args:
        scene: receives the findings.
        kind: type of owner: user, group, project.
        number: inode number of the quota file.
        owner: owner of each inode.
        usage: usage of each inode.
    """
    try:
        inode = scene.fs.inode(number)
        held = scene.fs.blocks.blocks_count * scene.superblock.block_size
        data = scene.fs.content(inode).read(0, min(inode.size, held, MOST_BYTES))
        recorded = parse_quota(data, kind)
    except Ext4kitError as error:
        scene.add("quota-file", "quota file", str(error), inode=number)
        return
    ids, place = np.unique(np.concatenate([owner, recorded[0]]), return_inverse=True)
    found, least = np.zeros((2, 2, len(ids)), np.int64)
    for row, values in enumerate((usage.space, usage.inodes)):
        np.add.at(found[row], place[: len(owner)], values)
        np.add.at(least[row], place[: len(owner)], np.where(usage.is_uncounted, 0, values))
    stored = np.zeros_like(found)
    stored[:, place[len(owner) :]] = recorded[1:]
    rows = np.flatnonzero(((stored > found) | (stored < least)).any(axis=0))
    scene.add_rows(
        "quota-usage", "quota file", rows,
        lambda row: f"id {ids[row]}: {stored[0, row]:,} bytes, {stored[1, row]:,} inodes",
        lambda row: f"{found[0, row]:,} bytes, {found[1, row]:,} inodes",
        inode=number,
    )  # fmt: skip
