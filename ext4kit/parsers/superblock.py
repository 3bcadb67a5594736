"""The ext4 superblock of 1,024 bytes.

Source: kernel Documentation/filesystems/ext4/super.rst and fs/ext4/ext4.h.
"""

import uuid as _uuid
from dataclasses import dataclass, replace
from typing import Annotated, Self

from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.features import Compat, Features, Incompat, RoCompat
from ext4kit.parsers.layout import Buffer, Layout, Text, stored_values
from ext4kit.parsers.words import Array, Bytes, Int8ul, Int16sl, Int16ul, Int32ul, Int64ul, Struct

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
        "s_log_cluster_size" / Int32ul,  # cluster size is 2 ** (10 + this) (bigalloc)
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
        "s_block_group_nr" / Int16ul,  # group that contains this copy
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # 88 fields, parsed at each start
class Superblock:
    """A superblock with plain names and joined values; times are seconds since 1970.

    The annotation of a field names its stored fields (see `stored_values`).
    """

    inodes_count: Annotated[int, "s_inodes_count"]
    blocks_count: Annotated[int, "s_blocks_count_lo", "s_blocks_count_hi"]
    reserved_blocks_count: Annotated[int, "s_r_blocks_count_lo", "s_r_blocks_count_hi"]
    free_blocks_count: Annotated[int, "s_free_blocks_count_lo", "s_free_blocks_count_hi"]
    free_inodes_count: Annotated[int, "s_free_inodes_count"]
    first_data_block: Annotated[int, "s_first_data_block"]
    log_block_size: Annotated[int, "s_log_block_size"]
    log_cluster_size: Annotated[int, "s_log_cluster_size"]
    blocks_per_group: Annotated[int, "s_blocks_per_group"]
    clusters_per_group: Annotated[int, "s_clusters_per_group"]
    inodes_per_group: Annotated[int, "s_inodes_per_group"]
    mount_time: Annotated[int, "s_mtime", "s_mtime_hi"]
    write_time: Annotated[int, "s_wtime", "s_wtime_hi"]
    mount_count: Annotated[int, "s_mnt_count"]
    max_mount_count: Annotated[int, "s_max_mnt_count"]
    magic: Annotated[int, "s_magic"]
    state: Annotated[int, "s_state"]
    errors: Annotated[int, "s_errors"]
    minor_revision: Annotated[int, "s_minor_rev_level"]
    check_time: Annotated[int, "s_lastcheck", "s_lastcheck_hi"]
    check_interval: Annotated[int, "s_checkinterval"]
    creator_os: Annotated[int, "s_creator_os"]
    revision: Annotated[int, "s_rev_level"]
    reserved_uid: Annotated[int, "s_def_resuid", "s_def_resuid_hi"]
    reserved_gid: Annotated[int, "s_def_resgid", "s_def_resgid_hi"]
    first_inode: Annotated[int, "s_first_ino"]
    raw_inode_size: Annotated[int, "s_inode_size"]
    group_number: Annotated[int, "s_block_group_nr"]
    features: Features
    uuid: Annotated[bytes, "s_uuid"]
    volume_name: Annotated[bytes, Text("s_volume_name")]
    last_mounted: Annotated[bytes, Text("s_last_mounted")]
    reserved_gdt_blocks: Annotated[int, "s_reserved_gdt_blocks"]
    journal_uuid: Annotated[bytes, "s_journal_uuid"]
    journal_inode: Annotated[int, "s_journal_inum"]
    journal_device: Annotated[int, "s_journal_dev"]
    last_orphan: Annotated[int, "s_last_orphan"]
    hash_seed: Annotated[tuple[int, ...], "s_hash_seed"]
    hash_version: Annotated[int, "s_def_hash_version"]
    journal_backup_type: Annotated[int, "s_jnl_backup_type"]
    raw_descriptor_size: Annotated[int, "s_desc_size"]
    default_mount_options: Annotated[int, "s_default_mount_opts"]
    first_meta_group: Annotated[int, "s_first_meta_bg"]
    mkfs_time: Annotated[int, "s_mkfs_time", "s_mkfs_time_hi"]
    journal_backup: Annotated[tuple[int, ...], "s_jnl_blocks"]
    min_extra_isize: Annotated[int, "s_min_extra_isize"]
    want_extra_isize: Annotated[int, "s_want_extra_isize"]
    flags: Annotated[int, "s_flags"]
    raid_stride: Annotated[int, "s_raid_stride"]
    raid_stripe_width: Annotated[int, "s_raid_stripe_width"]
    mmp_interval: Annotated[int, "s_mmp_interval"]
    mmp_block: Annotated[int, "s_mmp_block"]
    log_groups_per_flex: Annotated[int, "s_log_groups_per_flex"]
    checksum_type: Annotated[int, "s_checksum_type"]
    encryption_level: Annotated[int, "s_encryption_level"]
    kbytes_written: Annotated[int, "s_kbytes_written"]
    snapshot_inode: Annotated[int, "s_snapshot_inum"]
    snapshot_id: Annotated[int, "s_snapshot_id"]
    snapshot_reserved_blocks: Annotated[int, "s_snapshot_r_blocks_count"]
    snapshot_list: Annotated[int, "s_snapshot_list"]
    error_count: Annotated[int, "s_error_count"]
    first_error_time: Annotated[int, "s_first_error_time", "s_first_error_time_hi"]
    first_error_inode: Annotated[int, "s_first_error_ino"]
    first_error_block: Annotated[int, "s_first_error_block"]
    first_error_function: Annotated[bytes, Text("s_first_error_func")]
    first_error_line: Annotated[int, "s_first_error_line"]
    first_error_code: Annotated[int, "s_first_error_errcode"]
    last_error_time: Annotated[int, "s_last_error_time", "s_last_error_time_hi"]
    last_error_inode: Annotated[int, "s_last_error_ino"]
    last_error_block: Annotated[int, "s_last_error_block"]
    last_error_function: Annotated[bytes, Text("s_last_error_func")]
    last_error_line: Annotated[int, "s_last_error_line"]
    last_error_code: Annotated[int, "s_last_error_errcode"]
    mount_options: Annotated[bytes, Text("s_mount_opts")]
    user_quota_inode: Annotated[int, "s_usr_quota_inum"]
    group_quota_inode: Annotated[int, "s_grp_quota_inum"]
    project_quota_inode: Annotated[int, "s_prj_quota_inum"]
    overhead_clusters: Annotated[int, "s_overhead_clusters"]
    backup_groups: Annotated[tuple[int, ...], "s_backup_bgs"]
    encryption_algorithms: Annotated[bytes, "s_encrypt_algos"]
    encryption_salt: Annotated[bytes, "s_encrypt_pw_salt"]
    lost_found_inode: Annotated[int, "s_lpf_ino"]
    checksum_seed: Annotated[int, "s_checksum_seed"]
    encoding: Annotated[int, "s_encoding"]
    encoding_flags: Annotated[int, "s_encoding_flags"]
    orphan_file_inode: Annotated[int, "s_orphan_file_inum"]
    checksum: Annotated[int, "s_checksum"]
    computed_checksum: int

    @classmethod
    def parse(cls, data: Buffer, offset: int = 0) -> Self:
        """The superblock in the 1,024 bytes at `offset`, without plausibility checks.

        Raises:
            CorruptError: there are fewer than 1,024 bytes.
        """
        raw = SUPERBLOCK.first(data, offset)
        values = stored_values(cls, SUPERBLOCK, raw)
        compat, incompat = Compat(raw.s_feature_compat), Incompat(raw.s_feature_incompat)
        features = Features(compat, incompat, RoCompat(raw.s_feature_ro_compat))
        if Incompat.BIT64 not in features:  # the upper halves are not valid
            for name in ("blocks_count", "reserved_blocks_count", "free_blocks_count"):
                values[name] &= 0xFFFFFFFF
        body = memoryview(data)[offset : offset + SUPERBLOCK.size - 4]
        return cls(**values, features=features, computed_checksum=crc32c(ONES, body))

    def as_read_at(self, offset: int) -> Self:
        """The superblock with its group number corrected to match byte `offset`.

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
        """Number of clusters in a group, computed from blocks, because the field may be wrong."""
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


def judge(superblock: Superblock) -> str | None:
    """Why these bytes cannot be used as a superblock, or None if they can.

    Only fields that are needed for reading are checked, so that a damaged but usable superblock
    passes.
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
