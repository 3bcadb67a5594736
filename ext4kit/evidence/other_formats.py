"""Volume formats that need more than a magic number, or whose label has no fixed offset.

Each function takes a volume and returns its signature, or None. All lengths and pointers come from
the evidence. Therefore reads are bounded, and a pointer out of the volume gives no label.
"""

from __future__ import annotations

import uuid as _uuid
import zlib
from collections.abc import Iterator
from dataclasses import replace
from hashlib import md5

from ext4kit.evidence.magics import (
    KIB,
    MIB,
    RAID,
    VolumeSignature,
    big,
    dce,
    little,
    serial32,
    text,
    utf16,
)
from ext4kit.evidence.source import Source, peek
from ext4kit.units import SECTOR

# ------------------------------------------------------------- Microsoft: FAT, exFAT, NTFS

# Texts that formatting tools write into a boot sector: at 54 of FAT12 and FAT16, at 82 of FAT32.
_FAT_TEXTS = ((82, b"MSWIN"), (82, b"FAT32   "), (54, b"MSDOS"), (54, b"FAT16   "),
              (54, b"FAT12   "), (54, b"FAT     "))  # fmt: skip
_NOT_FAT = (b"JFS     ", b"HPFS    ")  # their volumes begin with a boot sector like that of FAT
_LONGEST_ROOT = 64  # most clusters of a root directory searched for the label
_ENTRY = 32


def fat(source: Source) -> VolumeSignature | None:
    """FAT: a consistent boot sector with a text that names it, or with a jump and 55 AA.

    Source: Microsoft, FAT32 File System Specification.
    """
    raw = peek(source, 0, SECTOR)
    has_text = any(raw[at : at + len(each)] == each for at, each in _FAT_TEXTS)
    starts_as_boot = raw[:1] in (b"\xe9", b"\xeb") and raw[510:] == b"\x55\xaa"
    if len(raw) < SECTOR or not (has_text or starts_as_boot) or not _is_fat_geometry(raw):
        return None
    if raw[54:62] in _NOT_FAT:
        return None
    version = _fat_version(raw)
    extended = 64 if version == "FAT32" else 36
    serial = raw[extended + 3 : extended + 7]
    uuid = serial32(serial) if raw[extended + 2] in (0x28, 0x29) and any(serial) else ""
    return VolumeSignature("vfat", _fat_label(source, raw), uuid, offset=0, version=version)


def _is_fat_geometry(raw: bytes) -> bool:
    """Whether the fields have values that Microsoft's FAT specification allows."""
    return (
        little(raw, 11, 2) in (512, 1024, 2048, 4096)
        and raw[13] in (1, 2, 4, 8, 16, 32, 64, 128)
        and little(raw, 14, 2) > 0
        and raw[16] > 0
        and (raw[21] == 0xF0 or raw[21] >= 0xF8)
        and (little(raw, 22, 2) or little(raw, 36, 4)) > 0
    )


def _fat_version(raw: bytes) -> str:
    """The kind of FAT, which only the number of clusters determines."""
    if little(raw, 22, 2) == 0:
        return "FAT32"
    tables = raw[16] * little(raw, 22, 2)
    total = little(raw, 19, 2) or little(raw, 32, 4)
    clusters = (total - little(raw, 14, 2) - tables - _fat_root_sectors(raw)) // raw[13]
    return "FAT12" if clusters < 4085 else "FAT16"


def _fat_root_sectors(raw: bytes) -> int:
    return -(-little(raw, 17, 2) * _ENTRY // little(raw, 11, 2))


def _fat_label(source: Source, raw: bytes) -> str:
    """The label in the root directory; the one in the boot sector may be outdated."""
    for entries in _fat_root(source, raw):
        for at in range(0, len(entries), _ENTRY):
            entry = entries[at : at + _ENTRY]
            if len(entry) < _ENTRY or entry[0] == 0:
                return ""
            is_label = entry[11] & 0x18 == 0x08 and entry[11] & 0x3F != 0x0F  # not a long name
            if is_label and entry[0] != 0xE5 and not little(entry, 20, 2) | little(entry, 26, 2):
                return text(b"\xe5"[: entry[0] == 0x05] + entry[entry[0] == 0x05 : 11])
    return ""


def _fat_root(source: Source, raw: bytes) -> Iterator[bytes]:
    """The root directory in pieces; on FAT32, its chain of clusters up to a limit."""
    sector, reserved = little(raw, 11, 2), little(raw, 14, 2)
    if little(raw, 22, 2):
        start = (reserved + raw[16] * little(raw, 22, 2)) * sector
        yield peek(source, start, little(raw, 17, 2) * _ENTRY)
        return
    size = sector * raw[13]
    data = (reserved + raw[16] * little(raw, 36, 4)) * sector
    cluster, seen = little(raw, 44, 4), set[int]()
    while 2 <= cluster < 0x0FFFFFF7 and cluster not in seen and len(seen) < _LONGEST_ROOT:
        seen.add(cluster)
        yield peek(source, data + (cluster - 2) * size, size)
        cluster = little(peek(source, reserved * sector + 4 * cluster, 4), 0, 4) & 0x0FFFFFFF


def exfat_label(source: Source) -> str:
    """The label entry (0x83) of exFAT's root directory."""
    raw = peek(source, 0, SECTOR)
    if len(raw) < SECTOR or raw[108] > 12 or raw[108] < 9 or raw[109] > 25 - raw[108]:
        return ""
    sector, size = 1 << raw[108], 1 << raw[108] + raw[109]
    heap, table = little(raw, 88, 4) * sector, little(raw, 80, 4) * sector
    cluster, seen = little(raw, 96, 4), set[int]()
    while 2 <= cluster < 0xFFFFFFF7 and cluster not in seen and len(seen) < _LONGEST_ROOT:
        seen.add(cluster)
        entries = peek(source, heap + (cluster - 2) * size, min(size, 64 * KIB))
        for at in range(0, len(entries) - _ENTRY + 1, _ENTRY):
            if entries[at] == 0:
                return ""
            if entries[at] == 0x83:
                return utf16(entries[at + 2 : at + 2 + 2 * min(entries[at + 1], 11)])
        cluster = little(peek(source, table + 4 * cluster, 4), 0, 4)
    return ""


def ntfs_label(source: Source) -> str:
    """The attribute $VOLUME_NAME of NTFS's file record 3 ($Volume)."""
    raw = peek(source, 0, SECTOR)
    if len(raw) < SECTOR:
        return ""
    sector, per_cluster, log = little(raw, 11, 2), raw[13], raw[64]
    cluster = sector * (per_cluster if per_cluster <= 128 else 1 << min(256 - per_cluster, 31))
    size = log * cluster if log < 128 else 1 << min(256 - log, 31)
    if not SECTOR <= size <= 64 * KIB:
        return ""
    record = peek(source, little(raw, 48, 8) * cluster + 3 * size, size)
    if record[:4] != b"FILE":
        return ""
    at = little(record, 20, 2)
    while at + 24 <= len(record) and little(record, at, 4) != 0xFFFFFFFF:
        length = little(record, at + 4, 4)
        if little(record, at, 4) == 0x60 and not record[at + 8]:
            start = at + little(record, at + 20, 2)
            return utf16(record[start : start + min(little(record, at + 16, 4), 256)])
        if length < 24:
            break
        at += length
    return ""


# ------------------------------------------------------------------- optical discs: UDF, ISO 9660

_RECOGNITION = 32 * KIB  # both have descriptors of 2 KiB from here on
_DESCRIPTOR = 2 * KIB
_MOST_DESCRIPTORS = 64
_RECOGNISED = (b"BEA01", b"BOOT2", b"CDW02", b"TEA01")
_JOLIET = (b"%/@", b"%/C", b"%/E")


def optical(source: Source) -> VolumeSignature | None:
    """UDF or ISO 9660 (ECMA-167, ECMA-119); as in blkid, a disc that is both counts as UDF."""
    found: list[tuple[int, bytes]] = []
    for number in range(_MOST_DESCRIPTORS):
        at = _RECOGNITION + number * _DESCRIPTOR
        head = peek(source, at, 16)
        if head[1:6] in (b"NSR02", b"NSR03"):
            return _udf(source, at)
        if head[9:14] == b"CDROM":
            return VolumeSignature("iso9660", text(peek(source, at + 48, 32)), offset=at + 9,
                                   version="High Sierra")  # fmt: skip
        if head[1:6] == b"CD001":
            found.append((at, head))
        elif head[1:6] not in _RECOGNISED and (any(head) or not number):
            break
    return _iso9660(source, found)


def _iso9660(source: Source, found: list[tuple[int, bytes]]) -> VolumeSignature | None:
    primary = next((at for at, head in found if head[0] == 1), -1)
    if primary < 0:
        return VolumeSignature("iso9660", offset=found[0][0] + 1) if found else None
    raw = peek(source, primary, _DESCRIPTOR)
    label, version = text(raw[40:72]), ""
    for at, head in found:
        joliet = peek(source, at, 96)
        if head[0] == 2 and joliet[88:91] in _JOLIET:
            wide = joliet[40:72].decode("utf-16-be", "replace").split("\0", 1)[0].rstrip(" ")
            label, version = wide or label, "Joliet Extension"
            break
    uuid = _iso_time(raw[830:847]) or _iso_time(raw[813:830])
    return VolumeSignature("iso9660", label, uuid, offset=primary + 1, version=version)


def _iso_time(raw: bytes) -> str:
    """A time of 16 digits, which serves as the UUID in blkid."""
    digits = raw[:16].decode("ascii", "replace")
    if len(digits) < 16 or not digits.isdigit() or not digits.strip("0"):
        return ""
    return "-".join((digits[:4], *(digits[at : at + 2] for at in range(4, 16, 2))))


def _udf(source: Source, at: int) -> VolumeSignature:
    plain = VolumeSignature("udf", offset=at + 1)
    for size in (2 * KIB, SECTOR, KIB, 4 * KIB):
        anchor = peek(source, 256 * size, 24)
        if little(anchor, 0, 2) == 2 and little(anchor, 12, 4) == 256:
            return _udf_details(source, plain, size, little(anchor, 20, 4))
    return plain


def _udf_details(source: Source, found: VolumeSignature, size: int, start: int) -> VolumeSignature:
    """The label, UUID and revision in the main volume descriptor sequence at a block."""
    for block in range(start, start + _MOST_DESCRIPTORS):
        raw = peek(source, block * size, SECTOR)
        tag = little(raw, 0, 2)
        if len(raw) < SECTOR or little(raw, 12, 4) != block or tag == 8:
            break
        if tag == 1:
            found = replace(found, uuid=_udf_uuid(_dstring(raw[72:200])))
        elif tag == 6:
            revision = little(raw, 216 + 24, 2)
            integrity = peek(source, little(raw, 436, 4) * size, size)
            at = 80 + 8 * little(integrity, 72, 4)
            if little(integrity, 0, 2) == 9 and little(integrity, at + 40, 2):
                revision = little(integrity, at + 40, 2)
            version = f"{revision >> 8:x}.{revision & 0xFF:02x}" if revision else ""
            found = replace(found, label=_dstring(raw[84:212]).rstrip(" "), version=version)
    return found


def _dstring(raw: bytes) -> str:
    """A text in OSTA compressed Unicode, whose last byte is the length."""
    content = raw[1 : max(1, min(raw[-1], len(raw) - 1))]
    return content.decode("utf-16-be" if raw[0] == 16 else "latin-1", "replace").rstrip("\0")


def _udf_uuid(name: str) -> str:
    """The UUID that blkid and udftools derive from the volume set identifier: 16 digits."""
    raw = name.encode("utf-8", "replace")[:16]
    digits = next((at for at, one in enumerate(raw) if chr(one) not in _HEX), len(raw))
    if len(raw) < 8:
        return ""
    if digits < 8:
        return raw[:8].hex()
    if digits < 16:
        return raw[:8].decode("ascii").lower() + raw[8:12].hex()
    return raw.decode("ascii").lower()


_HEX = "0123456789abcdefABCDEF"

# -------------------------------------------------------------------------------- Apple: HFS, HFS+

_HFS_SPACE = _uuid.UUID("b3e20f39-f292-11d6-97a4-00306543ecac")  # namespace of derived UUIDs


def hfs(source: Source) -> VolumeSignature | None:
    """HFS, HFS+, and HFS+ within HFS (Apple, Inside Macintosh: Files; TN1150)."""
    raw = peek(source, KIB, SECTOR)
    if len(raw) < SECTOR:
        return None
    if raw[:4] in (b"H+\0\4", b"HX\0\5"):
        return _hfs_plus(source, 0)
    block, name = big(raw, 20, 4), raw[36]
    if raw[:2] != b"BD" or not block or block % SECTOR or name > 27:
        return None
    if raw[124:126] in (b"H+", b"HX"):
        inner = big(raw, 28, 2) * SECTOR + big(raw, 126, 2) * block
        if peek(source, inner + KIB, 4) in (b"H+\0\4", b"HX\0\5"):
            return _hfs_plus(source, inner)
    label = raw[37 : 37 + name].decode("mac_roman").rstrip(" ")
    return VolumeSignature("hfs", label, _finder_uuid(raw[116:124]), offset=KIB)


def _finder_uuid(raw: bytes) -> str:
    if not any(raw):
        return ""
    digest = md5(_HFS_SPACE.bytes + raw, usedforsecurity=False).digest()
    return str(_uuid.UUID(bytes=digest, version=3))


def _hfs_plus(source: Source, start: int) -> VolumeSignature:
    """HFS+; the label is in the first record of the catalog, a B-tree of up to eight extents."""
    raw = peek(source, start + KIB, SECTOR)
    uuid = _finder_uuid(raw[104:112])
    return VolumeSignature("hfsplus", _hfs_plus_label(source, start, raw), uuid, offset=start + KIB)


def _hfs_plus_label(source: Source, start: int, raw: bytes) -> str:
    block = big(raw, 40, 4)
    extents = [(big(raw, at, 4) * block, big(raw, at + 4, 4) * block) for at in range(288, 352, 8)]
    head = peek(source, start + extents[0][0], 256)
    if len(head) < 256 or head[8] != 1:  # not a header node
        return ""
    size, place = big(head, 32, 2), big(head, 24, 4)
    place *= size
    for first, length in extents:
        if place < length:
            leaf = peek(source, start + first + place, min(size, 32 * KIB))
            if len(leaf) < 24 or leaf[8] != 0xFF or big(leaf, 16, 4) != 1:  # not the root's leaf
                return ""
            name = leaf[22 : 22 + 2 * min(big(leaf, 20, 2), 255)]
            return name.decode("utf-16-be", "replace").rstrip(" ")
        place -= length
    return ""


# ------------------------------------------------------------------------------ Minix, NILFS2

_MINIX = (  # include/uapi/linux/minix_fs.h: offset of the magic, the magic, the version
    (16, 0x137F, "1"),
    (16, 0x138F, "1"),
    (16, 0x2468, "2"),
    (16, 0x2478, "2"),
    (24, 0x4D5A, "3"),
)


def minix(source: Source) -> VolumeSignature | None:
    """Minix: a magic of two bytes, and fields that must be plausible."""
    raw = peek(source, KIB, 32)
    if len(raw) < 32:
        return None
    for at, magic, version in _MINIX:
        if little(raw, at, 2) != magic:
            continue
        third = version == "3"
        inodes = little(raw, 0, 4) if third else little(raw, 0, 2)
        maps = (6, 8) if third else (4, 6)
        has_maps = all(little(raw, each, 2) > 0 for each in maps)
        log_zone_size = little(raw, 12 if third else 10, 2)
        if inodes and has_maps and log_zone_size <= 8:
            return VolumeSignature("minix", offset=KIB + at, version=version)
    return None


def nilfs2(source: Source) -> VolumeSignature | None:
    """NILFS2 (include/uapi/linux/nilfs2_ondisk.h): the first superblock, or its copy at the end."""
    for start in (KIB, (source.size // (4 * KIB) - 1) * 4 * KIB):
        raw = peek(source, start, KIB)
        length = little(raw, 8, 2)
        if len(raw) < KIB or little(raw, 6, 2) != 0x3434 or not 248 <= length <= KIB:
            continue
        summed = raw[:16] + bytes(4) + raw[20:length]
        seed = little(raw, 12, 4) ^ 0xFFFFFFFF  # the kernel's crc32_le does not invert
        if zlib.crc32(summed, seed) ^ 0xFFFFFFFF == little(raw, 16, 4):
            label, uuid = text(raw[168:248]), dce(raw[152:168])
            return VolumeSignature("nilfs2", label, uuid, offset=start + 6,
                                   version=str(little(raw, 0, 4)))  # fmt: skip
    return None


# -------------------------------------------------------------------------------------- ZFS

_LABEL = 256 * KIB
_PAIRS, _PAIRS_END, _UBERBLOCKS = 16 * KIB, 128 * KIB, 128 * KIB
_UBERBLOCK = (0x00BAB10C).to_bytes(8, "little")
_FEWEST_UBERBLOCKS = 4  # as blkid requires
_MOST_PAIRS = 256
_UINT64, _STRING = 8, 9


def zfs(source: Source) -> VolumeSignature | None:
    """A disk of a ZFS pool (OpenZFS, ZFS On-Disk Specification): two labels at either end."""
    end = source.size // _LABEL * _LABEL
    for start in dict.fromkeys((0, _LABEL, end - 2 * _LABEL, end - _LABEL)):
        ring = peek(source, start + _UBERBLOCKS, _LABEL - _UBERBLOCKS)
        heads = [ring[at : at + 16] for at in range(0, len(ring), KIB)]
        found = [head for head in heads if head[:8] in (_UBERBLOCK, _UBERBLOCK[::-1])]
        if len(found) < _FEWEST_UBERBLOCKS:
            continue
        is_little = found[0][:8] == _UBERBLOCK
        version = int.from_bytes(found[0][8:], "little" if is_little else "big")
        pairs = _name_value_pairs(peek(source, start + _PAIRS, _PAIRS_END - _PAIRS))
        return VolumeSignature("zfs_member", pairs.get(b"name", ""), pairs.get(b"pool_guid", ""),
                               offset=start + _UBERBLOCKS, version=str(version))  # fmt: skip
    return None


def _name_value_pairs(raw: bytes) -> dict[bytes, str]:
    """The texts and numbers of an XDR name-value list."""
    found: dict[bytes, str] = {}
    at = 12
    for _ in range(_MOST_PAIRS):
        size, length = big(raw, at, 4), big(raw, at + 8, 4)
        if size < 20 or at + size > len(raw) or length > size - 20:
            break
        name = raw[at + 12 : at + 12 + length]
        value = at + 12 + -(-length // 4) * 4
        kind = big(raw, value, 4)
        if kind == _UINT64:
            found[name] = str(big(raw, value + 8, 8))
        elif kind == _STRING:
            found[name] = text(raw[value + 12 : value + 12 + min(big(raw, value + 8, 4), 255)])
        at += size
    return found


# ---------------------------------------------- members of arrays, detected by their last sectors

_PROMISE = (63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087)  # sectors from the end


def at_the_end(source: Source) -> VolumeSignature | None:
    """The signature of a member of an array, detected by its last sectors."""
    return _raid_old(source) or _raid_at_end(source) or _firmware_raid(source) or _drbd(source)


def _raid_old(source: Source) -> VolumeSignature | None:
    """MD superblock 0.90, in the byte order of its machine (include/uapi/linux/raid/md_p.h)."""
    start = source.size // (64 * KIB) * 64 * KIB - 64 * KIB
    raw = peek(source, start, 128)
    for get, magic in ((little, RAID), (big, RAID[::-1])):
        if len(raw) == 128 and raw[:4] == magic and get(raw, 4, 4) == 0:
            words = b"".join(get(raw, at, 4).to_bytes(4, "big") for at in (20, 52, 56, 60))
            version = f"{get(raw, 4, 4)}.{get(raw, 8, 4)}.{get(raw, 12, 4)}"
            return VolumeSignature("linux_raid_member", "", dce(words), offset=start,
                                   version=version)  # fmt: skip
    return None


def _raid_at_end(source: Source) -> VolumeSignature | None:
    """MD superblock 1.0, which stores its own location."""
    start = (source.size // SECTOR - 16) // 8 * 8 * SECTOR
    raw = peek(source, start, 256)
    if raw[:4] != RAID or little(raw, 4, 4) != 1 or little(raw, 144, 8) != start // SECTOR:
        return None
    label, uuid = text(raw[32:64]), dce(raw[16:32])
    return VolumeSignature("linux_raid_member", label, uuid, offset=start, version="1.0")


def _firmware_raid(source: Source) -> VolumeSignature | None:
    """RAID of a controller or a mainboard, in the formats that dmraid and mdadm know."""
    end = source.size // SECTOR
    last, before = (peek(source, (end - back) * SECTOR, SECTOR) for back in (1, 2))
    intel = b"Intel Raid ISM Cfg Sig. "
    if before.startswith(intel):
        return VolumeSignature("isw_raid_member", offset=(end - 2) * SECTOR,
                               version=text(before[len(intel) : len(intel) + 6]))  # fmt: skip
    for back in (1, 257):  # SNIA, Disk Data Format
        anchor = peek(source, (end - back) * SECTOR, 40)
        if anchor[:4] in (b"\xde\x11\xde\x11", b"\x11\xde\x11\xde"):
            return VolumeSignature("ddf_raid_member", "", text(anchor[8:32]),
                                   offset=(end - back) * SECTOR,
                                   version=text(anchor[32:40]))  # fmt: skip
    if last.startswith(b"$XIDE$"):
        return VolumeSignature("lsi_mega_raid_member", offset=(end - 1) * SECTOR)
    if before.startswith(b"NVIDIA"):
        return VolumeSignature("nvidia_raid_member", offset=(end - 2) * SECTOR,
                               version=str(little(before, 16, 2)))  # fmt: skip
    for back in _PROMISE:
        if peek(source, (end - back) * SECTOR, 24) == b"Promise Technology, Inc.":
            return VolumeSignature("promise_fasttrack_raid_member", offset=(end - back) * SECTOR)
    return None


def _drbd(source: Source) -> VolumeSignature | None:
    """DRBD 8's metadata in the last 4 KiB (drbd-utils: drbdmeta)."""
    start = source.size // (4 * KIB) * 4 * KIB - 4 * KIB
    raw = peek(source, start, 512)
    if source.size < 2 * MIB or big(raw, 60, 4) not in (0x8374026B, 0x8374026C):
        return None
    uuid = f"{big(raw, 40, 8):016x}"
    return VolumeSignature("drbd", "", uuid, offset=start + 60, version="v08")


# ---------------------------------------------------------------------------- further details


def bitlocker_version(source: Source) -> str:
    """The version in the first metadata block, which the boot sector points to."""
    at = 440 if peek(source, 3, 8) == b"MSWIN4.1" else 176
    head = peek(source, little(peek(source, at, 8), 0, 8), 12)
    return str(little(head, 10, 2)) if head.startswith(b"-FVE-FS-") else ""


def with_details(source: Source, found: VolumeSignature) -> VolumeSignature:
    """A signature, completed with the values that are not at a fixed offset in its format."""
    if found.kind == "ntfs":
        return replace(found, label=ntfs_label(source))
    if found.kind == "exfat":
        return replace(found, label=exfat_label(source))
    if found.kind == "BitLocker":
        return replace(found, version=bitlocker_version(source))
    return found
