"""Check of the superblock, of its backups, and of the consistency of its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.geometry import descriptor_blocks_count, first_block, superblock_groups
from ext4kit.parsers.features import Compat, Incompat, RoCompat
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock, judge
from ext4kit.verify.context import VerifyContext

STATE_ERRORS = 2
FIRST_INODE = 11  # smaller inode numbers have fixed meanings
SAME = (
    "blocks_count", "inodes_count", "first_data_block", "log_block_size", "log_cluster_size",
    "blocks_per_group", "clusters_per_group", "inodes_per_group", "revision", "first_inode",
    "raw_inode_size", "uuid", "hash_seed", "raw_descriptor_size", "first_meta_group",
    "journal_inode", "journal_uuid", "reserved_gdt_blocks", "checksum_seed", "backup_groups",
)  # fmt: skip
ORIGINAL_REVISION = 0
PASSING = int(Incompat.NEEDS_RECOVERY)  # set while mounted, only in the primary superblock


def check_superblocks(context: VerifyContext) -> None:
    """Check the primary superblock, then all copies."""
    superblock = context.superblock
    _check_primary(context)
    group = superblock.group_number
    byte = first_block(superblock, group) * superblock.block_size if group else SUPERBLOCK_OFFSET
    for reason in _contradictions(superblock):
        context.add("superblock-invalid", "superblock", reason, byte=byte)
    if superblock.state & STATE_ERRORS:
        context.add("superblock-errors", "superblock", f"{superblock.error_count:,}", byte=byte)
    groups = superblock_groups(superblock, len(context.fs.groups))
    for group in groups[groups > 0].tolist():
        _check_backup(context, group)


def _check_primary(context: VerifyContext) -> None:
    block, offset = divmod(SUPERBLOCK_OFFSET, context.superblock.block_size)
    byte = SUPERBLOCK_OFFSET
    try:
        data = context.fs.blocks.read(block)[offset : offset + SUPERBLOCK.size]
        found = Superblock.parse(data)
    except (AccessError, CorruptError) as error:
        context.add("superblock-unusable", "superblock", str(error), byte=byte)
        return
    reason = judge(found)
    if reason:
        context.add("superblock-unusable", "superblock", reason, byte=byte)
    if context.superblock.has_metadata_checksums and found.checksum != found.computed_checksum:
        sums = found.checksum, found.computed_checksum
        context.add_checksum("superblock-checksum", "superblock", *sums, byte=byte)


def _contradictions(superblock: Superblock) -> Iterator[str]:
    """Texts for contradictions that e2fsck rejects as well."""
    size, groups = superblock.block_size, superblock.groups_count
    features = superblock.features
    pointers = size // 4
    small = size == 1024 and superblock.cluster_ratio == 1
    checks = [
        (superblock.inodes_count == groups * superblock.inodes_per_group,
         f"{superblock.inodes_count:,} inodes in {groups:,} groups of "
         f"{superblock.inodes_per_group:,}"),
        (superblock.first_data_block == small or superblock.cluster_ratio > 1,
         f"first data block {superblock.first_data_block} with blocks of {size:,} bytes"),
        (superblock.reserved_blocks_count <= superblock.blocks_count // 2,
         f"{superblock.reserved_blocks_count:,} reserved blocks"),
        (superblock.free_blocks_count <= superblock.blocks_count,
         f"{superblock.free_blocks_count:,} free blocks of {superblock.blocks_count:,}"),
        (superblock.free_inodes_count <= superblock.inodes_count,
         f"{superblock.free_inodes_count:,} free inodes of {superblock.inodes_count:,}"),
        (superblock.reserved_gdt_blocks <= pointers,
         f"{superblock.reserved_gdt_blocks:,} reserved descriptor blocks"),
        (superblock.first_usable_inode >= FIRST_INODE
         and superblock.first_usable_inode < superblock.inodes_count,
         f"first inode {superblock.first_usable_inode}"),
        (superblock.log_cluster_size >= superblock.log_block_size
         or RoCompat.BIGALLOC not in features, "clusters smaller than blocks"),
        (Incompat.META_BG not in features
         or superblock.first_meta_group <= descriptor_blocks_count(superblock),
         f"first meta group {superblock.first_meta_group}"),
        (not (Incompat.BIT64 in features and superblock.raw_descriptor_size < 64),
         f"descriptors of {superblock.raw_descriptor_size} bytes with 64bit"),
        (superblock.checksum_type == 1 or not superblock.has_metadata_checksums,
         f"checksum type {superblock.checksum_type}"),
        (Compat.RESIZE_INODE in features or not superblock.reserved_gdt_blocks,
         "reserved descriptor blocks without resize_inode"),
    ]  # fmt: skip
    return (words for fine, words in checks if not fine)


def _check_backup(context: VerifyContext, group: int) -> None:
    block, name = first_block(context.superblock, group), "backup superblock"
    where = {"group": group, "block": block}
    try:
        data = context.fs.blocks.read(block)
        found = Superblock.parse(data).as_read_at(block * context.superblock.block_size)
    except (AccessError, CorruptError) as error:
        context.add("metadata-unreadable", name, str(error), **where)
        return
    sums = found.checksum, found.computed_checksum
    if context.superblock.has_metadata_checksums and sums[0] != sums[1]:
        context.add_checksum("backup-superblock-checksum", name, *sums, **where)
    elif found.magic != MAGIC:
        read, expected = f"magic 0x{found.magic:04X}", f"0x{MAGIC:04X}"
        context.add("backup-superblock-missing", name, read, expected, **where)
    elif different := _differences(context.superblock, found, group):
        context.add("backup-superblock-differs", name, ", ".join(different), **where)


def _differences(primary: Superblock, copy: Superblock, group: int) -> list[str]:
    """Names of the fields that differ in a copy from the primary, but must not."""
    may_differ = set()
    if Compat.RESIZE_INODE not in primary.features:  # tune2fs clears both only in the primary
        may_differ.add("reserved_gdt_blocks")
    if copy.revision == ORIGINAL_REVISION:  # the kernel raises the revision only in the primary
        may_differ.add("revision")
    same = (name for name in SAME if name not in may_differ)
    names = [name for name in same if getattr(primary, name) != getattr(copy, name)]
    if primary.features.incompat & ~PASSING != copy.features.incompat & ~PASSING:
        names.append("features")
    if copy.group_number not in (group, group & 0xFFFF, min(group, 0xFFFF)):
        names.append("group_number")
    return names
