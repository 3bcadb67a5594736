"""Check of the journal superblock, orphans, orphan file, MMP block and resize inode."""

from __future__ import annotations

import numpy as np

from ext4kit.arrays.grouping import expand
from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, Ext4kitError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.geometry import (
    descriptor_blocks_count,
    first_block,
    has_boot_block,
    superblock_groups,
)
from ext4kit.filesystem.inodes import RESIZE
from ext4kit.filesystem.orphans import read_orphans
from ext4kit.parsers import mmp
from ext4kit.parsers.features import Compat, Incompat, RoCompat
from ext4kit.parsers.inode import Inode, inode_seed
from ext4kit.parsers.journal import JournalSuperblock, judge
from ext4kit.parsers.orphan import orphan_checksum, parse_orphan_block
from ext4kit.verify.context import VerifyContext

SMALLEST_LOG = 1024  # blocks
MOST_ORPHAN_BLOCKS = 1 << 16
BLOCKS_AT_ONCE = 256
LEAST_NAMED = 4  # reserved blocks; with fewer, the resize inode may be empty


def find_orphans(context: VerifyContext) -> None:
    """Find the orphans, which wait to be freed; check the orphan list and the orphan file."""
    superblock = context.superblock
    if superblock.last_orphan > superblock.inodes_count:
        context.add("orphan-list", "superblock", f"{superblock.last_orphan:,}", byte=1024)
    try:
        context.orphans = np.array(sorted(read_orphans(context.fs)), np.int64)
    except Ext4kitError as error:
        context.add("orphan-file", "orphan file", str(error), inode=superblock.orphan_file_inode)


def check_others(context: VerifyContext) -> None:
    """Check all structures that belong to no other module."""
    _check_mmp(context)
    _check_journal(context)
    _check_orphan_file(context)
    _check_resize_inode(context)


def _check_mmp(context: VerifyContext) -> None:
    superblock = context.superblock
    if Incompat.MMP not in superblock.features:
        return
    block = superblock.mmp_block
    name = "mmp block"
    if not superblock.first_data_block < block < superblock.blocks_count:
        context.add("mmp-block", name, f"block {block:,}")
        return
    try:
        data = bytes(context.fs.blocks.read(block))
        found = mmp.parse_mmp(data)
    except (AccessError, CorruptError) as error:
        context.add("mmp-block", name, str(error), block=block)
        return
    right = mmp.mmp_checksum(superblock.seed, data)
    if superblock.has_metadata_checksums and found.checksum != right:
        context.add_checksum("mmp-checksum", name, found.checksum, right, block=block)
    if found.sequence == mmp.FSCK:
        context.add("mmp-in-use", name, found.state, block=block)


def _check_journal(context: VerifyContext) -> None:
    superblock = context.superblock
    number = superblock.journal_inode
    if Compat.HAS_JOURNAL not in superblock.features:
        if number or any(superblock.journal_uuid):
            context.add("journal-unexpected", "superblock", f"inode {number}", byte=1024)
        return
    if not number:
        _check_journal_device(context)
        return
    try:
        inode = context.fs.inode(number)
        runs = context.fs.block_map(inode)
    except Ext4kitError as error:
        context.add("journal-inode", "inode", str(error), inode=number)
        return
    reason = _journal_inode_reason(context, inode, runs)
    if reason:
        context.add("journal-inode", "inode", reason, **context.inode_place(number))
        return
    _check_journal_superblock(context, int(runs.physical[0]), int(runs.length.sum()))


def _check_journal_device(context: VerifyContext) -> None:
    """Check an external journal; why it is unreadable becomes a problem of the file system."""
    device = context.fs.journal_device
    if device is None:
        context.add("journal-device", "superblock", byte=1024)
        return
    from ext4kit.journal.location import locate_journal

    before = context.fs.problems.errors
    place = locate_journal(context.fs, device)
    if context.fs.problems.errors > before or place is None:
        context.add("journal-superblock", "journal device")
        return
    block = int(place.log_blocks[place.superblock_at])
    found = JournalSuperblock.parse(place.blocks.read(block))
    reason = judge(found, context.superblock.block_size)
    if reason or found.checksum_ok is False:
        read = reason or "bad checksum"
        context.findings.add("journal-superblock", "journal device", read, block=block)


def _journal_inode_reason(context: VerifyContext, inode: Inode, runs: Runs) -> str:
    size = context.superblock.block_size
    if inode.kind != "file" or not inode.links_count:
        return f"a {inode.kind} with {inode.links_count} links"
    if inode.is_encrypted or inode.is_inline:
        return "encryption or inline data"
    if inode.size // size < SMALLEST_LOG:
        return f"{inode.size:,} bytes, too small for a journal"
    if not len(runs) or runs.logical[0] != 0 or runs.length.sum() * size < inode.size:
        return "the block map has holes"
    return ""


def _check_journal_superblock(context: VerifyContext, block: int, length: int) -> None:
    name = "journal superblock"
    try:
        found = JournalSuperblock.parse(context.fs.blocks.read(block))
    except (AccessError, CorruptError) as error:
        context.add("journal-superblock", name, str(error), block=block)
        return
    reason = judge(found, context.superblock.block_size) or ""
    if not reason and found.length > length:
        reason = f"{found.length:,} blocks in a journal inode of {length:,}"
    if not reason and not 0 < found.first < found.length:
        reason = f"first block {found.first:,}"
    if not reason and (found.features.unknown_incompat or found.features.ro_compat):
        reason = f"unknown features {', '.join(found.features.names)}"
    if not reason and found.users_count > 1:
        reason = f"{found.users_count:,} users of an internal journal"
    if reason:
        context.add("journal-superblock", name, reason, block=block)
    if found.checksum_ok is False:
        sums = found.checksum, found.computed_checksum
        context.add_checksum("journal-superblock-checksum", name, *sums, block=block)


def _check_orphan_file(context: VerifyContext) -> None:
    superblock = context.superblock
    if Compat.ORPHAN_FILE not in superblock.features:
        return
    try:
        inode = context.fs.inode(superblock.orphan_file_inode)
        runs = context.fs.block_map(inode)
    except Ext4kitError as error:
        context.add("orphan-file", "orphan file", str(error), inode=superblock.orphan_file_inode)
        return
    count = inode.size // superblock.block_size
    row, step = expand(np.minimum(runs.length, MOST_ORPHAN_BLOCKS))
    blocks = (runs.physical[row] + step)[:MOST_ORPHAN_BLOCKS]
    if inode.kind != "file" or len(blocks) < min(count, MOST_ORPHAN_BLOCKS):
        context.add("orphan-file", "inode", inode.kind, **context.inode_place(inode.number))
    for block in blocks[:count].tolist():
        _check_orphan_block(context, inode, block)


def _check_orphan_block(context: VerifyContext, inode: Inode, block: int) -> None:
    superblock, name = context.superblock, "orphan file block"
    where = {"inode": inode.number, "block": block}
    try:
        data = bytes(context.fs.blocks.read(block))
        found = parse_orphan_block(data)
    except (AccessError, CorruptError) as error:
        context.add("orphan-file", name, str(error), **where)
        return
    if superblock.has_metadata_checksums:
        seed = inode_seed(superblock, inode.number, inode.generation)
        right = orphan_checksum(seed, block, data)
        if right != found.checksum:
            context.add_checksum("orphan-file-checksum", name, found.checksum, right, **where)
    if len(found.inodes) and RoCompat.ORPHAN_PRESENT not in superblock.features:
        read = ", ".join(map(str, found.inodes[:8].tolist()))
        context.add("orphan-file", name, f"inodes {read}", **where)


def _check_resize_inode(context: VerifyContext) -> None:
    """Check that the resize inode maps group 0's reserved descriptor blocks with their backups."""
    superblock = context.superblock
    try:
        inode = context.fs.inode(RESIZE)
    except Ext4kitError as error:
        context.add("metadata-unreadable", "inode", str(error), inode=RESIZE)
        return
    pointers = np.frombuffer(inode.i_block, "<u4").astype(np.int64)
    if Compat.RESIZE_INODE in superblock.features:
        reason = _resize_reason(context, inode, pointers)
    else:
        in_use = inode.links_count or pointers.any()
        reason = "in use without the feature" if in_use else ""
    if reason:
        context.add("resize-inode", "inode", reason, **context.inode_place(RESIZE))


def _resize_reason(context: VerifyContext, inode: Inode, pointers: Int64s) -> str:
    superblock = context.superblock
    reserved = superblock.reserved_gdt_blocks
    if inode.links_count != 1 or inode.kind != "file":
        return f"a {inode.kind} with {inode.links_count} links"
    if pointers[:13].any() or pointers[14]:
        return "pointers other than the one to its double indirect block"
    if not reserved and not pointers[13]:
        return ""
    try:
        tree = np.frombuffer(context.fs.blocks.read(int(pointers[13])), "<u4").astype(np.int64)
    except AccessError as error:
        return str(error)
    per_block = superblock.block_size // 4
    descriptors = descriptor_blocks_count(superblock)
    step = np.arange(min(reserved, per_block))
    wanted = first_block(superblock, 0) + has_boot_block(superblock) + 1 + descriptors + step
    expected = np.zeros(per_block, np.int64)
    expected[(descriptors + step) % per_block] = wanted
    if (tree != expected).any():
        unnamed = "its double indirect block does not name the reserved descriptor blocks"
        return unnamed if tree.any() or reserved >= LEAST_NAMED else ""
    copies = superblock_groups(superblock, len(context.fs.groups))
    copies = copies[copies > 0][:per_block]
    for at in range(0, len(wanted), BLOCKS_AT_ONCE):
        some = wanted[at : at + BLOCKS_AT_ONCE]
        rows, readable = context.fs.fetch(some)
        found = np.ascontiguousarray(rows).view("<u4").astype(np.int64)
        right = np.zeros_like(found)
        right[:, : len(copies)] = some[:, None] + copies * superblock.blocks_per_group
        if not readable.all() or (found != right).any():
            return "a reserved descriptor block does not name its backups"
    return ""
