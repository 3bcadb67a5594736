"""The ext4 superblock of 1,024 bytes.

Source: kernel Documentation/filesystems/ext4/super.rst and fs/ext4/ext4.h.
"""

from __future__ import annotations

import uuid as _uuid
from dataclasses import dataclass, replace
from typing import Any

from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import Compat, Features, Incompat, RoCompat
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Array, Bytes, Int8ul, Int16sl, Int16ul, Int32ul, Int64ul, Struct
from ext4kit.units import join

MAGIC = 0xEF53
SUPERBLOCK_OFFSET = 1024

SUPERBLOCK = Layout(
    "superblock",
    Struct(
        "s_inodes_count" / Int32ul,  # inodes in all groups
        "s_blocks_count_lo" / Int32ul,  # blocks in the file system
        "s_r_blocks_count_lo" / Int32ul,  # blocks that only root may allocate
        "s_free_blocks_count_lo" / Int32ul,
        "s_free_inodes_count" / Int32ul,
        "s_first_data_block" / Int32ul,  # 1 with 1 KiB blocks, else 0
        "s_log_block_size" / Int32ul,  # block size is 2 ** (10 + this)
        "s_log_cluster_size" / Int32ul,  # the same for clusters (bigalloc)
        "s_blocks_per_group" / Int32ul,
        "s_clusters_per_group" / Int32ul,
        "s_inodes_per_group" / Int32ul,
        "s_mtime" / Int32ul,  # last mount
        "s_wtime" / Int32ul,  # last write
        "s_mnt_count" / Int16ul,  # mounts since the last check
        "s_max_mnt_count" / Int16sl,
        "s_magic" / Int16ul,  # 0xEF53
        "s_state" / Int16ul,  # 1 clean, 2 errors, 4 orphans being recovered
        "s_errors" / Int16ul,  # what the kernel does on errors
        "s_minor_rev_level" / Int16ul,
        "s_lastcheck" / Int32ul,
        "s_checkinterval" / Int32ul,  # seconds
        "s_creator_os" / Int32ul,
        "s_rev_level" / Int32ul,  # 0 original, 1 dynamic inode sizes and features
        "s_def_resuid" / Int16ul,
        "s_def_resgid" / Int16ul,
        "s_first_ino" / Int32ul,  # first inode that is not reserved
        "s_inode_size" / Int16ul,
        "s_block_group_nr" / Int16ul,  # group of this very copy
        "s_feature_compat" / Int32ul,
        "s_feature_incompat" / Int32ul,
        "s_feature_ro_compat" / Int32ul,
        "s_uuid" / Bytes(16),
        "s_volume_name" / Bytes(16),
        "s_last_mounted" / Bytes(64),
        "s_algorithm_usage_bitmap" / Int32ul,
        "s_prealloc_blocks" / Int8ul,
        "s_prealloc_dir_blocks" / Int8ul,
        "s_reserved_gdt_blocks" / Int16ul,  # descriptor blocks kept for growth
        "s_journal_uuid" / Bytes(16),  # of an external journal
        "s_journal_inum" / Int32ul,
        "s_journal_dev" / Int32ul,
        "s_last_orphan" / Int32ul,  # head of the orphan list
        "s_hash_seed" / Array(4, Int32ul),
        "s_def_hash_version" / Int8ul,
        "s_jnl_backup_type" / Int8ul,  # 1: s_jnl_blocks holds the journal inode's map
        "s_desc_size" / Int16ul,  # group descriptor bytes with 64bit
        "s_default_mount_opts" / Int32ul,
        "s_first_meta_bg" / Int32ul,
        "s_mkfs_time" / Int32ul,
        "s_jnl_blocks" / Array(17, Int32ul),  # i_block[15], size high, size low
        "s_blocks_count_hi" / Int32ul,
        "s_r_blocks_count_hi" / Int32ul,
        "s_free_blocks_count_hi" / Int32ul,
        "s_min_extra_isize" / Int16ul,
        "s_want_extra_isize" / Int16ul,
        "s_flags" / Int32ul,
        "s_raid_stride" / Int16ul,
        "s_mmp_interval" / Int16ul,  # seconds
        "s_mmp_block" / Int64ul,
        "s_raid_stripe_width" / Int32ul,
        "s_log_groups_per_flex" / Int8ul,
        "s_checksum_type" / Int8ul,  # 1 is crc32c
        "s_encryption_level" / Int8ul,
        "s_reserved_pad" / Int8ul,
        "s_kbytes_written" / Int64ul,
        "s_snapshot_inum" / Int32ul,
        "s_snapshot_id" / Int32ul,
        "s_snapshot_r_blocks_count" / Int64ul,
        "s_snapshot_list" / Int32ul,
        "s_error_count" / Int32ul,
        "s_first_error_time" / Int32ul,
        "s_first_error_ino" / Int32ul,
        "s_first_error_block" / Int64ul,
        "s_first_error_func" / Bytes(32),
        "s_first_error_line" / Int32ul,
        "s_last_error_time" / Int32ul,
        "s_last_error_ino" / Int32ul,
        "s_last_error_line" / Int32ul,
        "s_last_error_block" / Int64ul,
        "s_last_error_func" / Bytes(32),
        "s_mount_opts" / Bytes(64),
        "s_usr_quota_inum" / Int32ul,
        "s_grp_quota_inum" / Int32ul,
        "s_overhead_clusters" / Int32ul,
        "s_backup_bgs" / Array(2, Int32ul),  # sparse_super2: the groups with backups
        "s_encrypt_algos" / Bytes(4),
        "s_encrypt_pw_salt" / Bytes(16),
        "s_lpf_ino" / Int32ul,  # lost+found
        "s_prj_quota_inum" / Int32ul,
        "s_checksum_seed" / Int32ul,  # crc32c(~0, the uuid at mkfs time)
        "s_wtime_hi" / Int8ul,
        "s_mtime_hi" / Int8ul,
        "s_mkfs_time_hi" / Int8ul,
        "s_lastcheck_hi" / Int8ul,
        "s_first_error_time_hi" / Int8ul,
        "s_last_error_time_hi" / Int8ul,
        "s_first_error_errcode" / Int8ul,
        "s_last_error_errcode" / Int8ul,
        "s_encoding" / Int16ul,  # casefold
        "s_encoding_flags" / Int16ul,
        "s_orphan_file_inum" / Int32ul,
        "s_def_resuid_hi" / Int16ul,
        "s_def_resgid_hi" / Int16ul,
        "s_reserved" / Array(93, Int32ul),
        "s_checksum" / Int32ul,  # crc32c(~0, the 1,020 bytes before)
    ),
)


def _text(raw: bytes) -> bytes:
    return raw.split(b"\0", 1)[0]


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # 88 fields, parsed at each start
class Superblock:
    """A superblock with plain names and joined values; times are seconds since 1970."""

    inodes_count: int
    blocks_count: int
    reserved_blocks_count: int
    free_blocks_count: int
    free_inodes_count: int
    first_data_block: int
    log_block_size: int
    log_cluster_size: int
    blocks_per_group: int
    clusters_per_group: int
    inodes_per_group: int
    mount_time: int
    write_time: int
    mount_count: int
    max_mount_count: int
    magic: int
    state: int
    errors: int
    minor_revision: int
    check_time: int
    check_interval: int
    creator_os: int
    revision: int
    reserved_uid: int
    reserved_gid: int
    first_inode: int
    raw_inode_size: int
    group_number: int
    features: Features
    uuid: bytes
    volume_name: bytes
    last_mounted: bytes
    reserved_gdt_blocks: int
    journal_uuid: bytes
    journal_inode: int
    journal_device: int
    last_orphan: int
    hash_seed: tuple[int, ...]
    hash_version: int
    journal_backup_type: int
    raw_descriptor_size: int
    default_mount_options: int
    first_meta_group: int
    mkfs_time: int
    journal_backup: tuple[int, ...]
    min_extra_isize: int
    want_extra_isize: int
    flags: int
    raid_stride: int
    raid_stripe_width: int
    mmp_interval: int
    mmp_block: int
    log_groups_per_flex: int
    checksum_type: int
    encryption_level: int
    kbytes_written: int
    snapshot_inode: int
    snapshot_id: int
    snapshot_reserved_blocks: int
    snapshot_list: int
    error_count: int
    first_error_time: int
    first_error_inode: int
    first_error_block: int
    first_error_function: bytes
    first_error_line: int
    first_error_code: int
    last_error_time: int
    last_error_inode: int
    last_error_block: int
    last_error_function: bytes
    last_error_line: int
    last_error_code: int
    mount_options: bytes
    user_quota_inode: int
    group_quota_inode: int
    project_quota_inode: int
    overhead_clusters: int
    backup_groups: tuple[int, ...]
    encryption_algorithms: bytes
    encryption_salt: bytes
    lost_found_inode: int
    checksum_seed: int
    encoding: int
    encoding_flags: int
    orphan_file_inode: int
    checksum: int
    computed_checksum: int

    @classmethod
    def parse(cls, data: Buffer, offset: int = 0) -> Superblock:
        """The superblock in the 1,024 bytes at `offset`, without plausibility checks.

        Raises:
            CorruptError: there are fewer than 1,024 bytes.
        """
        raw = SUPERBLOCK.first(data, offset)
        body = memoryview(data)[offset : offset + SUPERBLOCK.size - 4]
        return cls(**_plain(raw), computed_checksum=crc32c(ONES, body))

    def as_read_at(self, offset: int) -> Superblock:
        """The superblock, with the group number that follows from byte `offset`.

        Tools that write revision 0 leave `s_block_group_nr` at 0 in every copy.
        """
        if self.revision or offset == SUPERBLOCK_OFFSET:
            return self
        block = offset // self.block_size - self.first_data_block
        return replace(self, group_number=block // max(self.blocks_per_group, 1))

    @property
    def block_size(self) -> int:
        """Bytes per block."""
        return 1024 << min(self.log_block_size, 22)

    @property
    def cluster_ratio(self) -> int:
        """Blocks per cluster (1 without bigalloc)."""
        if RoCompat.BIGALLOC not in self.features:
            return 1
        return 1 << min(max(self.log_cluster_size - self.log_block_size, 0), 22)

    @property
    def bits_per_group(self) -> int:
        """Clusters in the block bitmap of a group, computed because the field may be wrong."""
        return -(-self.blocks_per_group // self.cluster_ratio)

    @property
    def inode_size(self) -> int:
        """Bytes per inode; revision 0 has no field for it."""
        return self.raw_inode_size if self.revision else 128

    @property
    def first_usable_inode(self) -> int:
        """The first inode number that is not reserved."""
        return min(self.first_inode, self.inodes_count + 1) if self.revision else 11

    @property
    def descriptor_size(self) -> int:
        """Bytes per group descriptor."""
        if Incompat.BIT64 not in self.features:
            return 32
        return max(self.raw_descriptor_size, 32)

    @property
    def groups_count(self) -> int:
        """Number of block groups; the last one may be short."""
        span = max(self.blocks_count - self.first_data_block, 0)
        return -(-span // max(self.blocks_per_group, 1))

    @property
    def has_metadata_checksums(self) -> bool:
        """Whether the file system has metadata_csum."""
        return RoCompat.METADATA_CSUM in self.features

    @property
    def seed(self) -> int:
        """Checksum seed of the file system: the crc32c start register of its metadata."""
        if Incompat.METADATA_CSUM_SEED in self.features:
            return self.checksum_seed
        return crc32c(ONES, self.uuid)

    @property
    def checksum_ok(self) -> bool | None:
        """Whether the stored checksum matches; None if the format has none."""
        if not self.has_metadata_checksums:
            return None
        return self.checksum == self.computed_checksum

    @property
    def needs_recovery(self) -> bool:
        """Whether the journal holds transactions that are not checkpointed."""
        return Incompat.NEEDS_RECOVERY in self.features

    @property
    def uuid_text(self) -> str:
        """The UUID in the usual notation."""
        return str(_uuid.UUID(bytes=self.uuid))

    @property
    def label(self) -> str:
        """The volume name as text."""
        return self.volume_name.decode("utf-8", "backslashreplace")

    @property
    def kind(self) -> str:
        """One of "ext2", "ext3" and "ext4" by the features, with the rules of blkid."""
        later = (
            Incompat.EXTENT | Incompat.BIT64 | Incompat.FLEX_BG | Incompat.MMP
            | Incompat.INLINE_DATA | Incompat.EA_INODE | Incompat.ENCRYPT | Incompat.CASEFOLD
            | Incompat.METADATA_CSUM_SEED | Incompat.LARGE_DIR
        )  # fmt: skip
        first = RoCompat.SPARSE_SUPER | RoCompat.LARGE_FILE | RoCompat.BTREE_DIR
        if self.features.incompat & later or self.features.ro_compat & ~first:
            return "ext4"
        return "ext3" if Compat.HAS_JOURNAL in self.features else "ext2"


def _plain(raw: Any) -> dict[str, Any]:
    return _plain_layout(raw) | _plain_records(raw)


def _plain_layout(raw: Any) -> dict[str, Any]:
    """Plain values of sizes, locations and features."""
    wide = bool(raw.s_feature_incompat & Incompat.BIT64)
    return {
        "inodes_count": raw.s_inodes_count,
        "blocks_count": join(raw.s_blocks_count_hi * wide, raw.s_blocks_count_lo, 32),
        "reserved_blocks_count": join(raw.s_r_blocks_count_hi * wide, raw.s_r_blocks_count_lo, 32),
        "free_blocks_count": join(
            raw.s_free_blocks_count_hi * wide, raw.s_free_blocks_count_lo, 32
        ),
        "free_inodes_count": raw.s_free_inodes_count,
        "first_data_block": raw.s_first_data_block,
        "log_block_size": raw.s_log_block_size,
        "log_cluster_size": raw.s_log_cluster_size,
        "blocks_per_group": raw.s_blocks_per_group,
        "clusters_per_group": raw.s_clusters_per_group,
        "inodes_per_group": raw.s_inodes_per_group,
        "magic": raw.s_magic,
        "minor_revision": raw.s_minor_rev_level,
        "creator_os": raw.s_creator_os,
        "revision": raw.s_rev_level,
        "first_inode": raw.s_first_ino,
        "raw_inode_size": raw.s_inode_size,
        "group_number": raw.s_block_group_nr,
        "features": Features(
            Compat(raw.s_feature_compat),
            Incompat(raw.s_feature_incompat),
            RoCompat(raw.s_feature_ro_compat),
        ),
        "uuid": raw.s_uuid,
        "volume_name": _text(raw.s_volume_name),
        "reserved_gdt_blocks": raw.s_reserved_gdt_blocks,
        "journal_uuid": raw.s_journal_uuid,
        "journal_inode": raw.s_journal_inum,
        "journal_device": raw.s_journal_dev,
        "last_orphan": raw.s_last_orphan,
        "hash_seed": tuple(raw.s_hash_seed),
        "hash_version": raw.s_def_hash_version,
        "journal_backup_type": raw.s_jnl_backup_type,
        "journal_backup": tuple(raw.s_jnl_blocks),
        "raw_descriptor_size": raw.s_desc_size,
        "first_meta_group": raw.s_first_meta_bg,
        "min_extra_isize": raw.s_min_extra_isize,
        "want_extra_isize": raw.s_want_extra_isize,
        "flags": raw.s_flags,
        "raid_stride": raw.s_raid_stride,
        "raid_stripe_width": raw.s_raid_stripe_width,
        "mmp_interval": raw.s_mmp_interval,
        "mmp_block": raw.s_mmp_block,
        "log_groups_per_flex": raw.s_log_groups_per_flex,
        "checksum_type": raw.s_checksum_type,
        "encryption_level": raw.s_encryption_level,
        "overhead_clusters": raw.s_overhead_clusters,
        "backup_groups": tuple(raw.s_backup_bgs),
        "encryption_algorithms": raw.s_encrypt_algos,
        "encryption_salt": raw.s_encrypt_pw_salt,
        "checksum_seed": raw.s_checksum_seed,
        "encoding": raw.s_encoding,
        "encoding_flags": raw.s_encoding_flags,
        "orphan_file_inode": raw.s_orphan_file_inum,
        "checksum": raw.s_checksum,
    }


def _plain_records(raw: Any) -> dict[str, Any]:
    """Plain values of the file system's records: times, counts, errors, settings."""
    return {
        "mount_time": join(raw.s_mtime_hi, raw.s_mtime, 32),
        "write_time": join(raw.s_wtime_hi, raw.s_wtime, 32),
        "mount_count": raw.s_mnt_count,
        "max_mount_count": raw.s_max_mnt_count,
        "state": raw.s_state,
        "errors": raw.s_errors,
        "check_time": join(raw.s_lastcheck_hi, raw.s_lastcheck, 32),
        "check_interval": raw.s_checkinterval,
        "reserved_uid": join(raw.s_def_resuid_hi, raw.s_def_resuid, 16),
        "reserved_gid": join(raw.s_def_resgid_hi, raw.s_def_resgid, 16),
        "last_mounted": _text(raw.s_last_mounted),
        "default_mount_options": raw.s_default_mount_opts,
        "mkfs_time": join(raw.s_mkfs_time_hi, raw.s_mkfs_time, 32),
        "kbytes_written": raw.s_kbytes_written,
        "snapshot_inode": raw.s_snapshot_inum,
        "snapshot_id": raw.s_snapshot_id,
        "snapshot_reserved_blocks": raw.s_snapshot_r_blocks_count,
        "snapshot_list": raw.s_snapshot_list,
        "error_count": raw.s_error_count,
        "first_error_time": join(raw.s_first_error_time_hi, raw.s_first_error_time, 32),
        "first_error_inode": raw.s_first_error_ino,
        "first_error_block": raw.s_first_error_block,
        "first_error_function": _text(raw.s_first_error_func),
        "first_error_line": raw.s_first_error_line,
        "first_error_code": raw.s_first_error_errcode,
        "last_error_time": join(raw.s_last_error_time_hi, raw.s_last_error_time, 32),
        "last_error_inode": raw.s_last_error_ino,
        "last_error_block": raw.s_last_error_block,
        "last_error_function": _text(raw.s_last_error_func),
        "last_error_line": raw.s_last_error_line,
        "last_error_code": raw.s_last_error_errcode,
        "mount_options": _text(raw.s_mount_opts),
        "user_quota_inode": raw.s_usr_quota_inum,
        "group_quota_inode": raw.s_grp_quota_inum,
        "project_quota_inode": raw.s_prj_quota_inum,
        "lost_found_inode": raw.s_lpf_ino,
    }


def judge(superblock: Superblock) -> str | None:
    """Why these bytes cannot be used as a superblock, or None if they can.

    Only fields that reading needs are checked. Therefore a damaged but usable superblock passes.
    """
    size = superblock.block_size
    per_group = superblock.inodes_per_group
    checks = [
        (superblock.magic == MAGIC, f"magic 0x{superblock.magic:04X}, 0xEF53 expected"),
        (superblock.log_block_size <= 6, f"block size 2**{10 + superblock.log_block_size}"),
        (superblock.blocks_count > superblock.first_data_block, "no blocks"),
        (0 < superblock.blocks_per_group <= 8 * size * superblock.cluster_ratio,
         f"{superblock.blocks_per_group} blocks per group"),
        (0 < per_group <= 8 * size, f"{per_group} inodes per group"),
        (128 <= superblock.inode_size <= size
         and superblock.inode_size & (superblock.inode_size - 1) == 0,
         f"inode size {superblock.inode_size}"),
        (superblock.descriptor_size <= size
         and superblock.descriptor_size & (superblock.descriptor_size - 1) == 0,
         f"group descriptor size {superblock.descriptor_size}"),
        (superblock.first_data_block <= 1, f"first data block {superblock.first_data_block}"),
    ]  # fmt: skip
    return next((reason for fine, reason in checks if not fine), None)
