"""The format of a volume, detected by its magic numbers.

One table, `MAGICS`, has offsets and magics. The magics of ext2/3/4, FAT and Minix are short;
their fields must be plausible too. Kinds, labels and UUIDs agree with `blkid -p` of util-linux
for the formats that it supports.
"""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ext4kit.evidence.source import Source, peek
from ext4kit.parsers.features import Incompat
from ext4kit.parsers.superblock import MAGIC, SUPERBLOCK, SUPERBLOCK_OFFSET, Superblock

KIB = 1024
UNKNOWN = "unknown"
EXT_KINDS = frozenset({"ext2", "ext3", "ext4"})


@dataclass(frozen=True, slots=True)
class VolumeSignature:
    """The format of a volume.

    Attributes:
        kind: "ext2", "ext3", "ext4", "jbd" (external journal), "xfs", "swap" ... or "unknown".
        label: the volume's name, "" if it has none or it is not in the header.
        uuid: in the notation of the format's own tools, "" if there is none.
        backup: the first superblock of this ext file system is destroyed; a backup was found.
        offset: byte offset of the superblock or magic that shows the kind; -1 when unknown.
    """

    kind: str
    label: str = ""
    uuid: str = ""
    backup: bool = False
    offset: int = -1


# --------------------------------------------------------------------------- text and numbers


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace").rstrip(" ")


def _utf16(raw: bytes) -> str:
    return raw.decode("utf-16-le", "replace").split("\0", 1)[0]


def _dce(raw: bytes) -> str:
    return str(_uuid.UUID(bytes=raw)) if any(raw) else ""


def _serial32(raw: bytes) -> str:
    number = f"{int.from_bytes(raw, 'little'):08X}"
    return f"{number[:4]}-{number[4:]}"


def _serial64(raw: bytes) -> str:
    return f"{int.from_bytes(raw, 'little'):016X}"


def _lvm(raw: bytes) -> str:
    """LVM's UUID of 32 characters, in groups of 6-4-4-4-4-4-6."""
    text = _text(raw)
    cuts = (0, 6, 10, 14, 18, 22, 26, 32)
    return "-".join(text[a:b] for a, b in zip(cuts, cuts[1:], strict=False))


# ------------------------------------------------------------------------------------- table


@dataclass(frozen=True, slots=True)
class SignatureField:
    """A label or UUID: its offset from the start of the volume, and its notation."""

    offset: int
    length: int
    spell: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class Magic:
    """One magic number: the bytes `magic` at byte `offset` of a volume mean `kind`."""

    kind: str
    offset: int
    magic: bytes
    label: SignatureField | None = None
    uuid: SignatureField | None = None


def _name(offset: int, length: int) -> SignatureField:
    return SignatureField(offset, length, _text)


def _id(offset: int) -> SignatureField:
    return SignatureField(offset, 16, _dce)


def _lvm_labels() -> Iterator[Magic]:
    """Magics of an LVM label, which is in one of the first four sectors."""
    for sector in range(0, 2048, 512):
        uuid = SignatureField(sector + 32, 32, _lvm)
        yield Magic("lvm2", sector + 24, b"LVM2 001", uuid=uuid)


def _swaps() -> Iterator[Magic]:
    """Magics of swap at the end of its first page, for each page size of the creating machine."""
    for page in (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB):
        for magic in (b"SWAPSPACE2", b"SWAP-SPACE"):
            yield Magic("swap", page - 10, magic, _name(1052, 16), _id(1036))
        for magic in (b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"):
            yield Magic("swsuspend", page - 10, magic, _name(1052, 16), _id(1036))


def _reiserfs() -> Iterator[Magic]:
    for start in (64 * KIB, 8 * KIB):
        for magic in (b"ReIsErFs", b"ReIsEr2Fs", b"ReIsEr3Fs"):
            yield Magic("reiserfs", start + 52, magic, _name(start + 100, 16), _id(start + 84))


LUKS = b"LUKS\xba\xbe"
RAID = (0xA92B4EFC).to_bytes(4, "little")

# In the first sector: any other format found behind one of these is older than it.
FIRST_SECTOR_MAGICS = (
    Magic("xfs", 0, b"XFSB", _name(108, 12), _id(32)),
    Magic("luks1", 0, LUKS + b"\0\x01", uuid=_name(168, 40)),
    Magic("luks2", 0, LUKS + b"\0\x02", _name(24, 48), _name(168, 40)),
    Magic("bitlocker", 3, b"-FVE-FS-"),
    Magic("ntfs", 3, b"NTFS    ", uuid=SignatureField(72, 8, _serial64)),
    Magic("exfat", 3, b"EXFAT   ", uuid=SignatureField(100, 4, _serial32)),
    Magic("apfs", 32, b"NXSB", uuid=_id(72)),
    Magic("squashfs", 0, b"hsqs"),
    Magic("linux_raid", 0, RAID, _name(32, 32), _id(16)),
    Magic("ewf", 0, b"EVF\x09\x0d\x0a\xff\x00"),
    Magic("ewf", 0, b"LVF\x09\x0d\x0a\xff\x00"),
    Magic("ewf2", 0, b"EVF2\x0d\x0a\x81\x00"),
    Magic("aff", 0, b"AFF10\x0d\x0a\x00"),
    Magic("qcow2", 0, b"QFI\xfb"),
    Magic("vmdk", 0, b"KDMV"),
    Magic("vmdk", 0, b"# Disk DescriptorFile"),
    Magic("vhdx", 0, b"vhdxfile"),
    Magic("vhd", 0, b"conectix"),
    Magic("vdi", 64, b"\x7f\x10\xda\xbe"),
    Magic("gzip", 0, b"\x1f\x8b\x08"),
    Magic("xz", 0, b"\xfd7zXZ\0"),
    Magic("zstd", 0, b"\x28\xb5\x2f\xfd"),
    Magic("bzip2", 0, b"BZh91AY&SY"),
    Magic("zip", 0, b"PK\x03\x04"),
    Magic("7z", 0, b"7z\xbc\xaf\x27\x1c"),
)

# Behind the first sector, long enough to be reliable.
LATER_MAGICS = (
    *_lvm_labels(),
    *_swaps(),
    Magic("btrfs", 64 * KIB + 64, b"_BHRfS_M", _name(64 * KIB + 299, 256), _id(64 * KIB + 32)),
    *_reiserfs(),
    Magic("reiser4", 64 * KIB, b"ReIsEr4"),
    Magic("jfs", 32 * KIB, b"JFS1", _name(32 * KIB + 152, 16), _id(32 * KIB + 136)),
    Magic(
        "f2fs", KIB, b"\x10\x20\xf5\xf2", SignatureField(KIB + 124, 1024, _utf16), _id(KIB + 108)
    ),
    Magic("erofs", KIB, b"\xe2\xe1\xf5\xe0", _name(KIB + 64, 16), _id(KIB + 48)),
    Magic("linux_raid", 4 * KIB, RAID, _name(4 * KIB + 32, 32), _id(4 * KIB + 16)),
    Magic("bcache", 4 * KIB + 24, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")),
    Magic("iso9660", 32 * KIB + 1, b"CD001", _name(32 * KIB + 40, 32)),
    Magic("hfsplus", KIB, b"H+\0\x04"),
    Magic("hfsplus", KIB, b"HX\0\x05"),
    Magic("ufs", 8 * KIB + 1372, b"\x54\x19\x01\x00"),
    Magic("ufs", 64 * KIB + 1372, b"\x19\x01\x54\x19"),
)

# Two bytes: reliable if the fields before them are plausible.
MINIX_MAGICS = (
    Magic("minix", KIB + 16, b"\x7f\x13"),
    Magic("minix", KIB + 16, b"\x8f\x13"),
    Magic("minix", KIB + 16, b"\x68\x24"),
    Magic("minix", KIB + 16, b"\x78\x24"),
    Magic("minix", KIB + 24, b"\x5a\x4d"),
)

# Kinds that own their first sector, which therefore cannot hold a partition table as well.
OWNERS_OF_FIRST_SECTOR = frozenset(
    {magic.kind for magic in FIRST_SECTOR_MAGICS} | {"fat12", "fat16", "fat32"}
)


# ------------------------------------------------------------------------------------ reading


def _spelled(source: Source, field: SignatureField | None) -> str:
    if field is None:
        return ""
    raw = peek(source, field.offset, field.length)
    return field.spell(raw) if len(raw) == field.length else ""


def _match(source: Source, magics: tuple[Magic, ...]) -> VolumeSignature | None:
    for magic in magics:
        if peek(source, magic.offset, len(magic.magic)) == magic.magic:
            label, uuid = _spelled(source, magic.label), _spelled(source, magic.uuid)
            return VolumeSignature(magic.kind, label, uuid, offset=magic.offset)
    return None


def first_sector_kind(source: Source) -> str:
    """Kind of the format that owns the first sector, by its magic; "unknown" without one."""
    found = _match(source, FIRST_SECTOR_MAGICS)
    return UNKNOWN if found is None else found.kind


def identify(source: Source) -> VolumeSignature:
    """The format of a volume.

    A magic in the first sector counts most, because a tool that makes another file system wipes
    it. Then follow ext's superblock, magics at higher offsets, backups of ext's superblock, and
    last an ext magic with implausible fields.
    """
    return (
        _match(source, FIRST_SECTOR_MAGICS)
        or _primary(source)
        or _match(source, LATER_MAGICS)
        or _fat(source)
        or _minix(source)
        or _backup(source)
        or _primary(source, damaged=True)
        or VolumeSignature(UNKNOWN)
    )


# --------------------------------------------------------------------------------------- ext

# Largest block size is 64 KiB: 2 ** (10 + 6).
_LARGEST_LOG = 6
# Groups with a backup under sparse_super, the first few.
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
    kind = "jbd" if Incompat.JOURNAL_DEV in superblock.features else superblock.kind
    return VolumeSignature(kind, superblock.label, _dce(superblock.uuid), backup, offset)


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
        yield KIB + number * groups[0]  # with 1 KiB blocks, block 0 is in no group
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
    """Whether the fields of the copy place it at this offset of its volume."""
    block = superblock.first_data_block + superblock.group_number * superblock.blocks_per_group
    return superblock.group_number > 0 and block * superblock.block_size == offset


# --------------------------------------------------------------------------------- FAT, Minix


def _little(raw: bytes, offset: int, length: int) -> int:
    return int.from_bytes(raw[offset : offset + length], "little")


def _fat(source: Source) -> VolumeSignature | None:
    """The signature of FAT, which has no magic: the fields of its boot sector must agree."""
    raw = peek(source, 0, 512)
    if len(raw) < 512 or raw[510:] != b"\x55\xaa" or not _is_fat_geometry(raw):
        return None
    kind = _fat_kind(raw)
    extended = 64 if kind == "fat32" else 36
    if raw[extended + 2] not in (0x28, 0x29):
        return VolumeSignature(kind, offset=0)
    label = _text(raw[extended + 7 : extended + 18])
    uuid = _serial32(raw[extended + 3 : extended + 7])
    return VolumeSignature(kind, "" if label == "NO NAME" else label, uuid, offset=0)


def _is_fat_geometry(raw: bytes) -> bool:
    """Whether the fields have values that Microsoft's FAT specification allows."""
    return (
        raw[0] in (0xE9, 0xEB)
        and _little(raw, 11, 2) in (512, 1024, 2048, 4096)
        and raw[13] in (1, 2, 4, 8, 16, 32, 64, 128)
        and _little(raw, 14, 2) > 0
        and raw[16] in (1, 2)
        and (raw[21] == 0xF0 or raw[21] >= 0xF8)
        and (_little(raw, 22, 2) or _little(raw, 36, 4)) > 0
    )


def _fat_kind(raw: bytes) -> str:
    """The kind of FAT; the number of clusters alone determines the width of its entries."""
    if _little(raw, 22, 2) == 0:
        return "fat32"
    sector = _little(raw, 11, 2)
    root = -(-_little(raw, 17, 2) * 32 // sector)
    tables = raw[16] * _little(raw, 22, 2)
    total = _little(raw, 19, 2) or _little(raw, 32, 4)
    clusters = (total - _little(raw, 14, 2) - tables - root) // raw[13]
    return "fat12" if clusters < 4085 else "fat16"


def _minix(source: Source) -> VolumeSignature | None:
    found = _match(source, MINIX_MAGICS)
    raw = peek(source, KIB, 32)
    if found is None or len(raw) < 32:
        return None
    third = found.offset == KIB + 24
    inodes = _little(raw, 0, 4) if third else _little(raw, 0, 2)
    maps = (6, 8) if third else (4, 6)
    has_maps = all(_little(raw, each, 2) > 0 for each in maps)
    log_zone_size = _little(raw, 12 if third else 10, 2)
    return found if inodes and has_maps and log_zone_size <= 8 else None
