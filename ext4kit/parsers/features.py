"""Feature bits, states and hashes, with the names that e2fsprogs prints for their numbers.

Source: kernel Documentation/filesystems/ext4/super.rst; e2fsprogs lib/e2p/feature.c for names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from functools import cache


class Compat(IntFlag):
    """Bits of `s_feature_compat`; an unknown bit does not prevent a mount."""

    DIR_PREALLOC = 0x1
    IMAGIC_INODES = 0x2
    HAS_JOURNAL = 0x4
    EXT_ATTR = 0x8
    RESIZE_INODE = 0x10
    DIR_INDEX = 0x20
    LAZY_BG = 0x40
    SNAPSHOT_BITMAP = 0x100
    SPARSE_SUPER2 = 0x200
    FAST_COMMIT = 0x400
    STABLE_INODES = 0x800
    ORPHAN_FILE = 0x1000


class Incompat(IntFlag):
    """Bits of `s_feature_incompat`; an unknown bit means that the layout may differ."""

    COMPRESSION = 0x1
    FILETYPE = 0x2
    NEEDS_RECOVERY = 0x4
    JOURNAL_DEV = 0x8
    META_BG = 0x10
    EXTENT = 0x40
    BIT64 = 0x80
    MMP = 0x100
    FLEX_BG = 0x200
    EA_INODE = 0x400
    DIRDATA = 0x1000
    METADATA_CSUM_SEED = 0x2000
    LARGE_DIR = 0x4000
    INLINE_DATA = 0x8000
    ENCRYPT = 0x10000
    CASEFOLD = 0x20000


class RoCompat(IntFlag):
    """Bits of `s_feature_ro_compat`; an unknown bit allows reading, not writing."""

    SPARSE_SUPER = 0x1
    LARGE_FILE = 0x2
    BTREE_DIR = 0x4
    HUGE_FILE = 0x8
    UNINIT_BG = 0x10
    DIR_NLINK = 0x20
    EXTRA_ISIZE = 0x40
    HAS_SNAPSHOT = 0x80
    QUOTA = 0x100
    BIGALLOC = 0x200
    METADATA_CSUM = 0x400
    REPLICA = 0x800
    READ_ONLY = 0x1000
    PROJECT = 0x2000
    SHARED_BLOCKS = 0x4000
    VERITY = 0x8000
    ORPHAN_PRESENT = 0x10000


_SPELLED = {
    "BIT64": "64bit",
    "DIRDATA": "dirdata",
    "IMAGIC_INODES": "imagic_inodes",
    "REPLICA": "replica",
    "READ_ONLY": "read-only",
    "ORPHAN_PRESENT": "orphan_present",
    "METADATA_CSUM": "metadata_csum",
}


@cache
def _names(bits: IntFlag, letter: str) -> tuple[str, ...]:
    known = [_SPELLED.get(flag.name or "", (flag.name or "").lower()) for flag in type(bits)]
    names = [name for name, flag in zip(known, type(bits), strict=True) if bits.value & flag.value]
    unknown = bits.value & ~sum(flag.value for flag in type(bits))
    return (*names, *(f"FEATURE_{letter}{bit}" for bit in range(32) if unknown >> bit & 1))


READ_FULLY = "read fully"
NOT_KNOWN = "unknown to ext4kit: the data that it changes is not read"
READ_IN_PART = {
    "encrypt": "shown as ciphertext, not decrypted",
    "casefold": "read; paths are looked up by their exact bytes",
    "verity": "content is read, but not checked against its hash tree",
    "quota": "read as files; usage and limits are not shown",
    "dirdata": "names are read, the data after them is not",
}
NOT_READ = {
    "compression": "not read: content is given as stored, compressed",
    "imagic_inodes": "not read",
    "lazy_bg": "not read",
    "snapshot_bitmap": "not read: snapshots are ignored",
    "has_snapshot": "not read: snapshots are ignored",
    "replica": "not read",
}


@dataclass(frozen=True, slots=True)
class Features:
    """The three feature words of a superblock."""

    compat: Compat
    incompat: Incompat
    ro_compat: RoCompat

    def __contains__(self, flag: object) -> bool:
        # This uses integers, because it is a frequent operation and the operators of flags are
        # slow.
        if isinstance(flag, Compat):
            return int.__and__(self.compat, flag) != 0
        if isinstance(flag, Incompat):
            return int.__and__(self.incompat, flag) != 0
        return isinstance(flag, RoCompat) and int.__and__(self.ro_compat, flag) != 0

    @property
    def names(self) -> list[str]:
        """All set features by their names in e2fsprogs; unknown bits as FEATURE_C/I/R<bit>."""
        words = (self.compat, "C"), (self.incompat, "I"), (self.ro_compat, "R")
        return [name for bits, letter in words for name in _names(bits, letter)]

    @property
    def unknown(self) -> list[str]:
        """The set bits for which this program has no name."""
        return [name for name in self.names if name.startswith("FEATURE_")]

    @property
    def readings(self) -> dict[str, str]:
        """How far this program supports each set feature, by the name of the feature."""
        known = READ_IN_PART | NOT_READ | dict.fromkeys(self.unknown, NOT_KNOWN)
        return {name: known.get(name, READ_FULLY) for name in self.names}

    @property
    def gaps(self) -> dict[str, str]:
        """The set features for which results lack a part of the data."""
        missing = {NOT_KNOWN, *NOT_READ.values()}
        return {name: how for name, how in self.readings.items() if how in missing}


SUPER_FLAGS = {0x1: "signed_directory_hash", 0x2: "unsigned_directory_hash", 0x4: "test_filesystem"}
CREATOR_OS = {0: "Linux", 1: "Hurd", 2: "Masix", 3: "FreeBSD", 4: "Lites"}
ERROR_BEHAVIOURS = {1: "Continue", 2: "Remount read-only", 3: "Panic"}
HASH_NAMES = {0: "legacy", 1: "half_md4", 2: "tea", 6: "siphash"}
CHECKSUM_TYPES = {1: "crc32c"}
ENCODINGS = {1: "utf8-12.1"}
DEFAULT_MOUNT_OPTIONS = {
    0x1: "debug",
    0x2: "bsdgroups",
    0x4: "user_xattr",
    0x8: "acl",
    0x10: "uid16",
    0x20: "journal_data",
    0x40: "journal_data_ordered",
    0x60: "journal_data_writeback",
    0x100: "nobarrier",
    0x200: "block_validity",
    0x400: "discard",
    0x800: "nodelalloc",
}
