"""The magic numbers of volume formats, and the locations of their labels, UUIDs and versions.

Each magic has one declaration. Kinds have the names of `blkid` (util-linux) if it knows the format.
The comment above a declaration names the header file that defines the format, in the Linux kernel
unless it says otherwise. Offsets are in bytes from the start of the volume. Short magics are
verified by a further check.
"""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ext4kit.evidence.source import Source, peek

KIB = 1024
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class VolumeSignature:
    """The format of a volume.

    Attributes:
        kind: name of the format in blkid ("ext4", "jbd" (external journal), "xfs", "swap" ...), the
            name of a container format, or "unknown".
        label: the volume's name, "" if it has none or it is not in the header.
        uuid: the UUID in the notation of the format's own tools, "" if there is none.
        backup: the first superblock of this ext file system is destroyed; a backup was found.
        offset: byte offset of the superblock or magic that shows the kind; -1 when unknown.
        version: version of the format as blkid names it ("FAT32", "2" for LUKS); "" if there is
            none.
    """

    kind: str
    label: str = ""
    uuid: str = ""
    backup: bool = False
    offset: int = -1
    version: str = ""


# --------------------------------------------------------------------------- text and numbers


def little(raw: bytes, offset: int, length: int) -> int:
    """An unsigned little-endian number; missing bytes count as 0."""
    return int.from_bytes(raw[offset : offset + length], "little")


def big(raw: bytes, offset: int, length: int) -> int:
    """An unsigned big-endian number; missing bytes are left out."""
    return int.from_bytes(raw[offset : offset + length], "big")


def text(raw: bytes) -> str:
    """UTF-8 up to a zero byte, without blanks at the end."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace").rstrip(" ")


def utf16(raw: bytes) -> str:
    """UTF-16-LE up to a zero character."""
    return raw.decode("utf-16-le", "replace").split("\0", 1)[0]


def dce(raw: bytes) -> str:
    """A UUID of 16 bytes as text; "" if all bytes are zero."""
    return str(_uuid.UUID(bytes=raw)) if any(raw) else ""


def serial32(raw: bytes) -> str:
    """A volume serial number of Microsoft's 32 bits."""
    number = f"{int.from_bytes(raw, 'little'):08X}"
    return f"{number[:4]}-{number[4:]}"


def serial64(raw: bytes) -> str:
    """A volume serial number of NTFS."""
    return f"{int.from_bytes(raw, 'little'):016X}"


def _lvm(raw: bytes) -> str:
    """LVM's UUID of 32 characters, in groups of 6-4-4-4-4-4-6."""
    letters = text(raw)
    cuts = (0, 6, 10, 14, 18, 22, 26, 32)
    return "-".join(letters[a:b] for a, b in zip(cuts, cuts[1:], strict=False))


def _plain_uuid(raw: bytes) -> str:
    """A UUID that is stored as 32 hexadecimal digits."""
    digits = text(raw)
    try:
        return str(_uuid.UUID(hex=digits)) if digits else ""
    except ValueError:
        return digits


def _number(raw: bytes) -> str:
    return str(int.from_bytes(raw, "little"))


def _dotted(raw: bytes) -> str:
    """Two numbers of equal length: major and minor version."""
    half = len(raw) // 2
    return f"{little(raw, 0, half)}.{little(raw, half, half)}"


def _dotted_big(raw: bytes) -> str:
    return f"{big(raw, 0, 2)}.{big(raw, 2, 2)}"


def _ubifs_version(raw: bytes) -> str:
    """UBIFS's version for writing and its version for reading."""
    return f"w{little(raw, 0, 4)}r{little(raw, 44, 4)}"


def _dotted_2(raw: bytes) -> str:
    """Two numbers of 16 bits, the second with two digits."""
    return f"{little(raw, 0, 2)}.{little(raw, 2, 2):02}"


def _exfat_version(raw: bytes) -> str:
    return f"{raw[1]}.{raw[0]}"


# ------------------------------------------------------------------------------------- checks

Check = Callable[[Source], bool]


def _holds(offset: int, *expected: bytes) -> Check:
    """A check that one of some byte strings is also at `offset`."""
    return lambda source: any(peek(source, offset, len(one)) == one for one in expected)


def _between(offset: int, length: int, lowest: int, highest: int, order: str = "little") -> Check:
    """A check that a field exists and has a plausible value."""

    def check(source: Source) -> bool:
        raw = peek(source, offset, length)
        value = big(raw, 0, length) if order == "big" else little(raw, 0, length)
        return len(raw) == length and lowest <= value <= highest

    return check


# -------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class SignatureField:
    """A label, UUID or version: its offset from the start of the volume, and its notation."""

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
    version: SignatureField | str = ""
    check: Check | None = None


def _name(offset: int, length: int) -> SignatureField:
    return SignatureField(offset, length, text)


def _id(offset: int) -> SignatureField:
    return SignatureField(offset, 16, dce)


# drivers/md/dm-verity, dm-integrity and dm-snap-persistent of the kernel; cryptsetup's docs.
_DEVICE_MAPPER = (
    Magic("DM_verity_hash", 0, b"verity\0\0", None, _id(16), SignatureField(8, 4, _number)),
    Magic("DM_integrity", 0, b"integrt\0", version=SignatureField(8, 1, _number)),
    Magic("DM_snapshot_cow", 0, b"SnAp"),
)

LUKS = b"LUKS\xba\xbe"
RAID = (0xA92B4EFC).to_bytes(4, "little")
# BitLocker's identifier of a drive that Windows XP sees as FAT32.
_TO_GO = _uuid.UUID("4967d63b-2e29-4ad8-8399-f6a339e3d001").bytes_le
_SQUASHFS = SignatureField(28, 4, _dotted)


def _raid1(start: int, version: str) -> Magic:
    """MD superblock 1.x: include/uapi/linux/raid/md_p.h."""
    check = _between(start + 4, 4, 1, 1)
    return Magic("linux_raid_member", start, RAID, _name(start + 32, 32), _id(start + 16), version,
                 check)  # fmt: skip


# Magics in the first sector; another format found at a higher offset is older than these.
FIRST_SECTOR_MAGICS = (
    # fs/xfs/libxfs/xfs_format.h
    Magic("xfs", 0, b"XFSB", _name(108, 12), _id(32)),
    Magic("xfs_external_log", 0, b"\xfe\xed\xba\xbe", check=_between(300, 4, 1, 3, "big")),
    # cryptsetup: LUKS1 and LUKS2 On-Disk Format Specification
    Magic("crypto_LUKS", 0, LUKS + b"\0\x01", None, _name(168, 40), "1"),
    Magic("crypto_LUKS", 0, LUKS + b"\0\x02", _name(24, 48), _name(168, 40), "2"),
    # libyal: BitLocker Drive Encryption (BDE) format
    Magic("BitLocker", 3, b"-FVE-FS-"),
    Magic("BitLocker", 3, b"MSWIN4.1", check=_holds(424, _TO_GO)),
    # fs/ntfs3/ntfs.h; Microsoft: exFAT file system specification; libyal: ReFS format
    Magic("ntfs", 3, b"NTFS    ", uuid=SignatureField(72, 8, serial64)),
    Magic("exfat", 3, b"EXFAT   ", None, SignatureField(100, 4, serial32),
          SignatureField(104, 2, _exfat_version)),
    Magic("ReFS", 0, b"\0\0\0ReFS\0"),
    # Apple File System Reference, nx_superblock_t
    Magic("apfs", 32, b"NXSB", uuid=_id(72)),
    # fs/squashfs/squashfs_fs.h; version 3 and older had both byte orders
    Magic("squashfs", 0, b"hsqs", version=_SQUASHFS, check=_between(28, 2, 4, 9)),
    Magic("squashfs3", 0, b"hsqs", version=_SQUASHFS, check=_between(28, 2, 1, 3)),
    Magic("squashfs3", 0, b"sqsh", None, None, SignatureField(28, 4, _dotted_big),
          _between(28, 2, 1, 3, "big")),
    # include/uapi/linux/cramfs_fs.h
    Magic("cramfs", 0, b"\x45\x3d\xcd\x28", _name(48, 16), check=_holds(16, b"Compressed ROMFS")),
    Magic("cramfs", 0, b"\x28\xcd\x3d\x45", _name(48, 16), check=_holds(16, b"Compressed ROMFS")),
    # include/uapi/linux/romfs_fs.h
    Magic("romfs", 0, b"-rom1fs-", _name(16, 16)),
    # fs/zonefs/zonefs.h
    Magic("zonefs", 0, b"SFOZ", _name(8, 64), _id(72)),
    # include/uapi/linux/bfs_fs.h
    Magic("bfs", 0, b"\xce\xfa\xad\x1b", check=_between(4, 4, 512, (1 << 32) - 1)),
    # drivers/mtd/ubi/ubi-media.h; fs/ubifs/ubifs-media.h
    Magic("ubi", 0, b"UBI#", version=SignatureField(4, 1, _number)),
    Magic("ubifs", 0, b"\x31\x18\x10\x06", None, _id(108), SignatureField(80, 48, _ubifs_version),
          _between(20, 1, 6, 6)),
    *_DEVICE_MAPPER,
    _raid1(0, "1.1"),
    # drivers/md/lvm.h of Linux 2.4
    Magic("LVM1_member", 0, b"HM\x01\0", uuid=SignatureField(44, 32, _lvm)),
    Magic("LVM1_member", 0, b"HM\x02\0", uuid=SignatureField(44, 32, _lvm)),
    # drivers/md/dm-vdo/encodings.c; Ceph: BlueStore label; Oracle ASMLib
    Magic("vdo", 0, b"dmvdo001"),
    Magic("ceph_bluestore", 0, b"bluestore block device"),
    Magic("oracleasm", 32, b"ORCLDISK", _name(40, 24)),
    # containers and archives, which blkid does not name
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
)  # fmt: skip


def _lvm_labels() -> Iterator[Magic]:
    """LVM2's lib/format_text/layout.h: the label is in one of the first four sectors."""
    for sector in range(0, 2048, 512):
        uuid = SignatureField(sector + 32, 32, _lvm)
        yield Magic("LVM2_member", sector + 24, b"LVM2 001", uuid=uuid, version="LVM2 001")


def _swaps() -> Iterator[Magic]:
    """include/linux/swap.h: the end of the first page, for each possible page size.

    The magics of a suspended machine are from kernel/power/swap.c and TuxOnIce.
    """
    for page in (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB):
        at, name, uuid = page - 10, _name(1052, 16), _id(1036)
        yield Magic("swap", at, b"SWAPSPACE2", name, uuid, "1")
        yield Magic("swap", at, b"SWAP-SPACE", version="0")
        for magic in (b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"):
            yield Magic("swsuspend", at, magic, name, uuid, magic.decode().lower())


def _reiserfs() -> Iterator[Magic]:
    """fs/reiserfs/reiserfs.h; the magic determines the version."""
    versions = ((b"ReIsErFs", "3.5"), (b"ReIsEr2Fs", "3.6"), (b"ReIsEr3Fs", "JR"))
    for start in (64 * KIB, 8 * KIB):
        for magic, version in versions:
            name, uuid = _name(start + 100, 16), _id(start + 84)
            if version == "3.5":  # has neither label nor UUID
                yield Magic("reiserfs", start + 52, magic, version=version)
            else:
                yield Magic("reiserfs", start + 52, magic, name, uuid, version)


def _ocfs2() -> Iterator[Magic]:
    """fs/ocfs2/ocfs2_fs.h: the inode of the superblock is block 2."""
    for start in (2 * size for size in (512, KIB, 2 * KIB, 4 * KIB)):
        fields = start + 192
        version = SignatureField(fields, 4, _dotted_2)
        yield Magic("ocfs2", start, b"OCFSV2", _name(fields + 80, 64), _id(fields + 144), version)


def _ufs() -> Iterator[Magic]:
    """fs/ufs/ufs_fs.h: UFS1 and UFS2, of either byte order."""
    for start in (0, 8 * KIB, 64 * KIB, 256 * KIB):
        label, at = _name(start + 680, 32), start + 1372
        for number, version in ((0x00011954, "1"), (0x19540119, "2")):
            raw = number.to_bytes(4, "little")
            little_id = SignatureField(start + 144, 8, _ufs_id)
            big_id = SignatureField(start + 144, 8, lambda raw: raw.hex() if any(raw) else "")
            yield Magic("ufs", at, raw, label if version == "2" else None, little_id, version)
            yield Magic("ufs", at, raw[::-1], label if version == "2" else None, big_id, version)


def _ufs_id(raw: bytes) -> str:
    return f"{little(raw, 0, 4):08x}{little(raw, 4, 4):08x}" if any(raw) else ""


def _befs() -> Iterator[Magic]:
    """fs/befs/befs_fs_types.h: at byte 0 on PowerPC, at 512 on x86."""
    for start in (0, 512):
        for order in ("little", "big"):
            first, second, third = (
                number.to_bytes(4, "little" if order == "little" else "big")
                for number in (0x42465331, 0xDD121031, 0x15B6830E)
            )
            yield Magic("befs", start + 68, second, _name(start, 32), None, f"{order}-endian",
                        _both(_holds(start + 32, first), _holds(start + 112, third)))  # fmt: skip


def _both(one: Check, other: Check) -> Check:
    return lambda source: one(source) and other(source)


def _system_v() -> Iterator[Magic]:
    """fs/sysv/super.c: System V, of either byte order."""
    for block in (0, 9, 15, 18):
        for magic in (b"\x20\x7e\x18\xfd", b"\xfd\x18\x7e\x20"):
            start = block * KIB + 512
            yield Magic("sysv", start + 504, magic, _name(start + 440, 6))


_GFS = (64 * KIB, b"\x01\x16\x19\x70")
_BCACHE = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
_BCACHEFS = bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")
_STRATIS = b"!Stra0tis\x86\xff\x02^Arh"

# Magics after the first sector that are long enough to be reliable or have a check.
LATER_MAGICS = (
    *_lvm_labels(),
    *_swaps(),
    # include/uapi/linux/btrfs_tree.h
    Magic("btrfs", 64 * KIB + 64, b"_BHRfS_M", _name(64 * KIB + 299, 256), _id(64 * KIB + 32)),
    *_reiserfs(),
    # reiser4progs: the master superblock
    Magic("reiser4", 64 * KIB, b"ReIsEr4", _name(64 * KIB + 36, 16), _id(64 * KIB + 20), "4"),
    # fs/jfs/jfs_superblock.h
    Magic("jfs", 32 * KIB, b"JFS1", _name(32 * KIB + 152, 16), _id(32 * KIB + 136)),
    # include/linux/f2fs_fs.h
    Magic("f2fs", KIB, b"\x10\x20\xf5\xf2", SignatureField(KIB + 124, 1024, utf16), _id(KIB + 108),
          SignatureField(KIB + 4, 4, _dotted)),
    # fs/erofs/erofs_fs.h
    Magic("erofs", KIB, b"\xe2\xe1\xf5\xe0", _name(KIB + 64, 16), _id(KIB + 48)),
    *_ocfs2(),
    # include/uapi/linux/gfs2_ondisk.h; GFS's numbers are older
    Magic("gfs2", *_GFS, _name(64 * KIB + 160, 64), _id(64 * KIB + 256), "1",
          _between(64 * KIB + 24, 4, 1801, 1899, "big")),
    Magic("gfs", *_GFS, _name(64 * KIB + 160, 64),
          check=_between(64 * KIB + 24, 4, 1309, 1309, "big")),
    _raid1(4 * KIB, "1.2"),
    # include/uapi/linux/bcache.h; fs/bcachefs/bcachefs_format.h
    Magic("bcache", 4 * KIB + 24, _BCACHE, uuid=_id(4 * KIB + 40)),
    Magic("bcachefs", 4 * KIB + 24, _BCACHEFS, _name(4 * KIB + 72, 32), _id(4 * KIB + 56)),
    *_ufs(),
    *_befs(),
    # fs/freevxfs/vxfs.h
    Magic("vxfs", KIB, b"\xf5\xfc\x01\xa5", version=SignatureField(KIB + 4, 4, _number)),
    Magic("vxfs", 8 * KIB, b"\xa5\x01\xfc\xf5",
          version=SignatureField(8 * KIB + 4, 4, lambda raw: str(big(raw, 0, 4)))),
    # fs/hpfs/hpfs.h
    Magic("hpfs", 8 * KIB, b"\x49\xe8\x95\xf9", SignatureField(43, 11, text),
          SignatureField(39, 4, serial32), SignatureField(8 * KIB + 8, 1, _number),
          _holds(8 * KIB + 4, b"\xc5\xe9\x53\xfa")),
    *_system_v(),
    # Stratis: the static header, twice
    Magic("stratis", 516, _STRATIS, uuid=SignatureField(512 + 32, 32, _plain_uuid)),
    Magic("stratis", 4608 + 4, _STRATIS, uuid=SignatureField(4608 + 32, 32, _plain_uuid)),
    # Novell Storage Services; VMware VMFS: a physical volume, and a file system
    Magic("nss", 4 * KIB, b"SPB5", None, _id(4 * KIB + 16),
          SignatureField(4 * KIB + 8, 4, _dotted_2)),
    Magic("VMFS_volume_member", MIB, b"\x0d\xd0\x01\xc0", None, _id(MIB + 130),
          SignatureField(MIB + 4, 4, _number)),
    Magic("VMFS", 2 * MIB, b"\x5e\xf1\xab\x2f", _name(2 * MIB + 29, 128), _id(2 * MIB + 9),
          SignatureField(2 * MIB + 8, 1, _number)),
)  # fmt: skip


# ------------------------------------------------------------------------------------ reading


def _spelled(source: Source, field: SignatureField | str | None) -> str:
    if field is None or isinstance(field, str):
        return field or ""
    raw = peek(source, field.offset, field.length)
    return field.spell(raw) if len(raw) == field.length else ""


def match_magic(source: Source, magics: tuple[Magic, ...]) -> VolumeSignature | None:
    """The signature of the first magic in a table that matches and passes its check."""
    for magic in magics:
        if peek(source, magic.offset, len(magic.magic)) != magic.magic:
            continue
        if magic.check is None or magic.check(source):
            label, uuid, version = (
                _spelled(source, each) for each in (magic.label, magic.uuid, magic.version)
            )
            return VolumeSignature(magic.kind, label, uuid, offset=magic.offset, version=version)
    return None
