"""A usable superblock and valid group descriptors, from the primary or from backups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D
from ext4kit.errors import AccessError, CorruptError, RequestError, UnsupportedError
from ext4kit.evidence.source import Source
from ext4kit.filesystem.blocks import BlockReader, read_blocks_or_zeros
from ext4kit.filesystem.geometry import descriptor_blocks, first_block, superblock_groups
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.group import DESCRIPTOR, GroupTable, parse_groups
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock, judge
from ext4kit.problems import Problems, Severity

BLOCK_SIZES = tuple(1024 << power for power in range(7))
BACKUP_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49, 81, 125)


def read_superblock(source: Source, number: int | None, problems: Problems) -> Superblock:
    """The superblock: the primary, the requested one, or a backup if the primary is bad.

    Args:
        source: the volume.
        number: block number of the copy to use, as for `e2fsck -b`.
        problems: records the use of a backup.

    Raises:
        UnsupportedError: no superblock was found, or the volume is a journal device.
        RequestError: no usable superblock at the requested block.
    """
    if number is not None:
        for offset in (size * number for size in BLOCK_SIZES):
            found = valid_superblock(source, offset or SUPERBLOCK_OFFSET)
            if found and (number == 0 or found.block_size * number == offset):
                return found
        raise RequestError(f"{source.name}: no ext2/3/4 superblock at block {number}")
    primary = valid_superblock(source, SUPERBLOCK_OFFSET)
    if primary and Incompat.JOURNAL_DEV in primary.features:
        raise UnsupportedError(f"{source.name}: an external journal device, not a file system")
    if primary and primary.checksum_ok is not False:
        return primary
    backup = next(backup_superblocks(source), None)
    if backup is None and primary is None:
        raise UnsupportedError(f"{source.name}: not ext2, ext3 or ext4 (no superblock found)")
    if backup is None or (primary and primary.uuid != backup.uuid):
        problems.add("superblock", "checksum mismatch; used nevertheless", Severity.WARNING)
        assert primary is not None
        return primary
    where = f"the backup in group {backup.group_number} is used"
    problems.add("superblock", f"the primary is damaged; {where}", Severity.WARNING)
    return backup


def valid_superblock(source: Source, offset: int) -> Superblock | None:
    """The usable superblock at a byte offset, None if there is none."""
    if offset + SUPERBLOCK.size > source.size:
        return None
    try:
        found = Superblock.parse(source.read(offset, SUPERBLOCK.size)).as_read_at(offset)
    except (AccessError, CorruptError):
        return None
    return None if found.magic != MAGIC or judge(found) else found


def backup_superblocks(source: Source) -> Iterator[Superblock]:
    """Usable backup superblocks at the locations that mke2fs uses."""
    for group in BACKUP_GROUPS:
        for size in BLOCK_SIZES:
            start = (size == 1024) + group * 8 * size
            found = valid_superblock(source, start * size)
            if found and found.block_size == size and found.checksum_ok is not False:
                yield found


def read_groups(blocks: BlockReader, superblock: Superblock, problems: Problems) -> GroupTable:
    """The group descriptors; an invalid one is replaced by a valid backup copy.

    Raises:
        AccessError: no descriptor is readable, and no descriptor has a valid copy.
    """
    span = max(blocks.blocks_count - superblock.first_data_block, 1)
    size = min(superblock.groups_count, -(-span // superblock.blocks_per_group))
    if size < superblock.groups_count:
        missing = superblock.groups_count - size
        problems.add("group descriptors", f"{missing:,} groups lie beyond the end of the evidence")
    rows, readable = _descriptor_rows(blocks, superblock, 0, size)
    groups = parse_groups(rows, superblock)
    bad = ~(_is_valid(groups, superblock) & readable)
    if not bad.any():
        return groups
    rows = rows.copy()
    copies = [
        group
        for group in superblock_groups(superblock, min(superblock.groups_count, 1 << 16)).tolist()
        if group and first_block(superblock, group) < superblock.blocks_count
    ]
    for copy in copies[:4]:
        spare, is_read = _descriptor_rows(blocks, superblock, copy, size)
        better = bad & is_read & _is_valid(parse_groups(spare, superblock), superblock)
        rows[better] = spare[better]
        for stale in ("bg_flags", "bg_itable_unused_lo"):
            rows[better, DESCRIPTOR.span(stale)] = 0
        bad &= ~better
    if bad.all() and not readable.any():
        raise AccessError("the group descriptors cannot be read, and no copy of them is sound")
    count, lost = int((~_is_valid(groups, superblock)).sum()), int(bad.sum())
    what = f"{count} of {size} are damaged; {count - lost} taken from backup copies"
    problems.add("group descriptors", what, Severity.ERROR if lost else Severity.WARNING)
    return parse_groups(rows, superblock)


def _descriptor_rows(
    blocks: BlockReader, superblock: Superblock, copy: int, count: int
) -> tuple[Bytes2D, Bools]:
    """(uint8 (count, descriptor size), True where readable (count,)) of one descriptor copy."""
    size, block_size = superblock.descriptor_size, superblock.block_size
    places = descriptor_blocks(superblock, copy, -(-count * size // block_size))
    data, readable = read_blocks_or_zeros(blocks, places)
    per_block = block_size // size
    return data.reshape(-1, size)[:count], np.repeat(readable, per_block)[:count]


def _is_valid(groups: GroupTable, superblock: Superblock) -> Bools:
    """True where all locations are in the file system and any stored checksum matches."""
    fine: Bools = (groups.computed_checksum < 0) | (groups.computed_checksum == groups.checksum)
    for place in (groups.block_bitmap, groups.inode_bitmap, groups.inode_table):
        fine &= (place > 0) & (place < superblock.blocks_count)
    return fine
