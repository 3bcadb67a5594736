"""The format of a volume, detected by its magic numbers.

Magics are declared in `magics.py`. Formats that need more than a magic are read in
`other_formats.py`; ext2/3/4 is read here, because backups of its superblock count too. Kinds,
versions, labels and UUIDs agree with `blkid -p` of util-linux for the formats that it supports.
"""

from __future__ import annotations

from collections.abc import Iterator

from ext4kit.evidence import other_formats
from ext4kit.evidence.magics import (
    FIRST_SECTOR_MAGICS,
    KIB,
    LATER_MAGICS,
    VolumeSignature,
    dce,
    match_magic,
)
from ext4kit.evidence.source import Source, peek
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock

UNKNOWN = "unknown"
EXT_KINDS = frozenset({"ext2", "ext3", "ext4"})
LUKS = "crypto_LUKS"
LVM = "LVM2_member"
JOURNAL_DEVICE = "jbd"  # an external journal
RAID = "linux_raid_member"

_FIRST_SECTOR_KINDS = frozenset(magic.kind for magic in FIRST_SECTOR_MAGICS)
# Kinds whose tools leave other structures in the first KiB as they are.
LEAVE_OTHERS = frozenset({RAID, "DM_verity_hash", "DM_integrity", "DM_snapshot_cow"})
# Kinds whose first sector is their own; a partition table in it as well is hardly accidental.
OWNERS_OF_FIRST_SECTOR = _FIRST_SECTOR_KINDS | {"vfat"}


class _Pages:
    """A volume whose pages are cached, so that each is read once for all magics."""

    _SIZE = 4 * KIB
    _MOST = 512

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pages: dict[int, bytes] = {}
        self.name, self.size = source.name, source.size

    def read(self, offset: int, length: int) -> memoryview:
        """Bytes of one cached page, or else directly of the volume.

        Raises:
            AccessError: the range is outside the volume, or cannot be read.
        """
        number, at = divmod(offset, self._SIZE)
        if offset < 0 or length < 0 or at + length > self._SIZE or offset + length > self.size:
            return self._source.read(offset, length)
        page = self._pages.get(number)
        if page is None:
            page = peek(self._source, number * self._SIZE, self._SIZE)
            if len(self._pages) < self._MOST:
                self._pages[number] = page
        if at + length > len(page):  # a part of the page is unreadable
            return self._source.read(offset, length)
        return memoryview(page)[at : at + length]

    def close(self) -> None:
        """Leave the volume open; its owner closes it."""


# ------------------------------------------------------------------------------------ reading


def first_sector_kind(source: Source) -> str:
    """Kind of the format that owns the first sector, by its magic; "unknown" without one."""
    found = match_magic(_Pages(source), FIRST_SECTOR_MAGICS)
    return UNKNOWN if found is None else found.kind


def identify(source: Source) -> VolumeSignature:
    """The format of a volume.

    A magic in the first sector has priority, because a tool that creates another file system wipes
    it. The order of the other tests is: the ext superblock, magics at higher offsets, formats
    without a long magic, backups of the ext superblock, the last sectors (late, because the file
    system of a RAID mirror comes before these and can be read), and an ext magic with implausible
    fields.
    """
    pages = _Pages(source)
    return (
        _in_first_sector(pages)
        or _primary(pages)
        or match_magic(pages, LATER_MAGICS)
        or other_formats.optical(pages)
        or other_formats.fat(pages)
        or other_formats.hfs(pages)
        or other_formats.minix(pages)
        or other_formats.nilfs2(pages)
        or other_formats.zfs(pages)
        or _backup(pages)
        or other_formats.at_the_end(pages)
        or _primary(pages, damaged=True)
        or VolumeSignature(UNKNOWN)
    )


def behind_first_sector(source: Source, kind: str) -> VolumeSignature | None:
    """A second format of a volume whose first sector has the magic of `kind`; None without one.

    Only ext superblocks and LVM labels count, which tools wipe when they create another file
    system.
    """
    if kind not in _FIRST_SECTOR_KINDS:
        return None
    pages = _Pages(source)
    labels = tuple(each for each in FIRST_SECTOR_MAGICS if each.kind == LVM != kind)
    return _primary(pages) or match_magic(pages, labels)


def _in_first_sector(source: Source) -> VolumeSignature | None:
    found = match_magic(source, FIRST_SECTOR_MAGICS)
    return found and other_formats.with_details(source, found)


# --------------------------------------------------------------------------------------- ext

# Largest block size is 64 KiB: 2 ** (10 + 6).
_LARGEST_LOG = 6
# The first groups that have a backup with sparse_super.
_BACKUP_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49)
_MOST_PER_GROUP = (1 << 16) - 8
# Blocks per cluster with bigalloc, as powers of two.
_CLUSTER_LOGS = range(1, 17)


def _superblock_at(source: Source, offset: int) -> Superblock | None:
    """The superblock at a byte offset if it has the magic."""
    magic_at = SUPERBLOCK.offset_of("s_magic")
    raw = peek(source, offset, SUPERBLOCK.size)
    if len(raw) < SUPERBLOCK.size or raw[magic_at : magic_at + 2] != MAGIC.to_bytes(2, "little"):
        return None
    return Superblock.parse(raw).as_read_at(offset)


def _makes_sense(superblock: Superblock) -> bool:
    if Incompat.JOURNAL_DEV in superblock.features:
        return superblock.log_block_size <= _LARGEST_LOG
    return (
        superblock.log_block_size <= _LARGEST_LOG
        and superblock.revision <= 1
        and superblock.blocks_count > superblock.first_data_block <= 1
        and superblock.blocks_per_group > 0
        and 0 < superblock.inodes_per_group <= superblock.inodes_count
    )


def _as_signature(superblock: Superblock, offset: int, backup: bool = False) -> VolumeSignature:
    kind = JOURNAL_DEVICE if Incompat.JOURNAL_DEV in superblock.features else superblock.kind
    version = f"{superblock.revision}.{superblock.minor_revision}"
    return VolumeSignature(kind, superblock.label, dce(superblock.uuid), backup, offset, version)


def _primary(source: Source, damaged: bool = False) -> VolumeSignature | None:
    """The signature of the first superblock; its fields must be plausible unless `damaged`."""
    found = _superblock_at(source, SUPERBLOCK_OFFSET)
    if found is None or not (damaged or _makes_sense(found)):
        return None
    return _as_signature(found, SUPERBLOCK_OFFSET)


def _backup_offsets() -> Iterator[int]:
    """Byte offsets of backups with mke2fs's default group sizes, first groups first.

    A group has as many blocks (with bigalloc, clusters) as one bitmap block has bits. The count
    must fit into 16 bits, and mke2fs keeps it a multiple of 8.
    """
    sizes = [KIB << log for log in range(_LARGEST_LOG + 1)]
    groups = [min(8 * size, _MOST_PER_GROUP) * size for size in sizes]
    for number in _BACKUP_GROUPS:
        yield KIB + number * groups[0]  # with blocks of 1 KiB, groups start at block 1
        yield from (number * group for group in groups[1:])
    for ratio in _CLUSTER_LOGS:
        yield from (group << ratio for group in groups)


def _backup(source: Source) -> VolumeSignature | None:
    for offset in _backup_offsets():
        found = _superblock_at(source, offset)
        if found is not None and _makes_sense(found) and _belongs_at(found, offset):
            return _as_signature(found, offset, backup=True)
    return None


def _belongs_at(superblock: Superblock, offset: int) -> bool:
    """Whether the fields of the copy match its offset in the volume."""
    block = superblock.first_data_block + superblock.group_number * superblock.blocks_per_group
    return superblock.group_number > 0 and block * superblock.block_size == offset
