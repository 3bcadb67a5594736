"""A superblock as text in the labels, order and wording of `dumpe2fs -h`, and as a record."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import fields as parts_of
from typing import Any, Literal, NotRequired, TypedDict, get_type_hints

from ext4kit import fields
from ext4kit.fields import Record, json_name
from ext4kit.parsers import features as known
from ext4kit.parsers.features import Compat, Features, Incompat, RoCompat
from ext4kit.parsers.superblock import Superblock
from ext4kit.report.safe import printable
from ext4kit.report.tables import fold_row
from ext4kit.report.times import ctime_text, span
from ext4kit.times import iso
from ext4kit.units import NANOSECONDS

Fact = tuple[str, str | None]  # label, value; a fact whose value is None is not printed

LABEL_WIDTH = 26
_TABBED = {"Inode size": "Inode size:\t          ", "Journal device": "Journal device:\t          "}
_REVISIONS = {0: "original", 1: "dynamic"}
# Source: kernel fs/ext4/ext4.h, EXT4_ERR_*.
_ERROR_CODES = (
    "", "UNKNOWN", "EIO", "ENOMEM", "EFSBADCRC", "EFSCORRUPTED", "ENOSPC", "ENOKEY", "EROFS",
    "EFBIG", "EEXIST", "ERANGE", "EOVERFLOW", "EBUSY", "ENOTDIR", "ENOTEMPTY", "ESHUTDOWN",
    "EFAULT",
)  # fmt: skip


def fact_lines(facts: Iterator[Fact]) -> list[str]:
    """Each fact as `Label:   value`, the values in one column."""
    return [
        fold_row(_TABBED.get(label, f"{label}:".ljust(LABEL_WIDTH)), value)
        for label, value in facts
        if value is not None
    ]


def superblock_facts(superblock: Superblock) -> Iterator[Fact]:
    """The lines of `dumpe2fs -h` for a superblock, in its order."""
    yield from _identity(superblock)
    yield from _sizes(superblock)
    yield from _life(superblock)
    yield from _inodes_and_journal(superblock)
    yield from _snapshots_and_errors(superblock)
    yield from _extras(superblock)


def _nonzero(value: int) -> str | None:
    return str(value) if value else None


def _identity(superblock: Superblock) -> Iterator[Fact]:
    revision = superblock.revision
    yield "Filesystem volume name", printable(superblock.volume_name) or "<none>"
    yield "Last mounted on", printable(superblock.last_mounted) or "<not available>"
    yield "Filesystem UUID", uuid_text(superblock.uuid) or "<none>"
    yield "Filesystem magic number", f"0x{superblock.magic:04X}"
    yield "Filesystem revision #", f"{revision} ({_REVISIONS.get(revision, 'unknown')})"
    yield "Filesystem features", " ".join(superblock.features.names) or "(none)"
    flags = [name for bit, name in known.SUPER_FLAGS.items() if superblock.flags & bit]
    names = "".join(f"{name} " for name in flags) or "(none)"
    yield "Filesystem flags", names if superblock.flags else None
    yield "Default mount options", _mount_options(superblock.default_mount_options)
    yield "Mount options", printable(superblock.mount_options) or None
    state = "clean" if superblock.state & 1 else "not clean"
    yield "Filesystem state", state + (" with errors" if superblock.state & 2 else "")
    yield "Errors behavior", known.ERROR_BEHAVIOURS.get(superblock.errors, "Unknown (continue)")
    yield "Filesystem OS type", known.CREATOR_OS.get(superblock.creator_os, "(unknown os)")


def uuid_text(raw: bytes) -> str | None:
    """A UUID as text, None if it is all zeros."""
    return str(uuid.UUID(bytes=raw)) if any(raw) else None


def _mount_options(bits: int) -> str:
    journal = known.DEFAULT_MOUNT_OPTIONS.get(bits & 0x60)
    names = [journal] if journal else []
    for bit in (1 << place for place in range(32) if place not in (5, 6)):
        if bits & bit:
            names.append(known.DEFAULT_MOUNT_OPTIONS.get(bit) or f"MNTOPT_{bit.bit_length() - 1}")
    return " ".join(names) or "(none)"


def _sizes(superblock: Superblock) -> Iterator[Fact]:
    size, bigalloc = superblock.block_size, RoCompat.BIGALLOC in superblock.features
    unit, plural = ("Cluster", "Clusters") if bigalloc else ("Fragment", "Fragments")
    table = superblock.inodes_per_group * superblock.inode_size
    yield "Inode count", str(superblock.inodes_count)
    yield "Block count", str(superblock.blocks_count)
    yield "Reserved block count", str(superblock.reserved_blocks_count)
    yield "Overhead clusters", _nonzero(superblock.overhead_clusters)
    yield "Free blocks", str(superblock.free_blocks_count)
    yield "Free inodes", str(superblock.free_inodes_count)
    yield "First block", str(superblock.first_data_block)
    yield "Block size", str(size)
    yield f"{unit} size", str(1024 << min(superblock.log_cluster_size, 22))
    if Incompat.BIT64 in superblock.features:
        yield "Group descriptor size", str(superblock.raw_descriptor_size)
    yield "Reserved GDT blocks", _nonzero(superblock.reserved_gdt_blocks)
    yield "Blocks per group", str(superblock.blocks_per_group)
    yield f"{plural} per group", str(superblock.clusters_per_group)
    yield "Inodes per group", str(superblock.inodes_per_group)
    yield "Inode blocks per group", str(-(-table // size))
    yield "RAID stride", _nonzero(superblock.raid_stride)
    yield "RAID stripe width", _nonzero(superblock.raid_stripe_width)
    yield "First meta block group", _nonzero(superblock.first_meta_group)
    if superblock.log_groups_per_flex:
        yield "Flex block group size", str(1 << min(superblock.log_groups_per_flex, 31))


def _life(superblock: Superblock) -> Iterator[Fact]:
    if superblock.mkfs_time:
        yield "Filesystem created", ctime_text(superblock.mkfs_time)
    mounted = ctime_text(superblock.mount_time) if superblock.mount_time else "n/a"
    yield "Last mount time", mounted
    yield "Last write time", ctime_text(superblock.write_time)
    yield "Mount count", str(superblock.mount_count)
    yield "Maximum mount count", str(superblock.max_mount_count)
    yield "Last checked", ctime_text(superblock.check_time)
    yield "Check interval", f"{superblock.check_interval} ({span(superblock.check_interval)})"
    if superblock.check_interval:
        yield "Next check after", ctime_text(superblock.check_time + superblock.check_interval)
    if superblock.kbytes_written:
        yield "Lifetime writes", _written(superblock.kbytes_written)
    uid, gid = superblock.reserved_uid, superblock.reserved_gid
    yield "Reserved blocks uid", f"{uid} (user {_local_name('user', uid)})"
    yield "Reserved blocks gid", f"{gid} (group {_local_name('group', gid)})"


def _written(kilobytes: int) -> str:
    """A size, given in KiB, in the smallest unit that needs at most four digits."""
    for power, unit in enumerate(("kB", "MB", "GB", "TB")):
        rounded = (kilobytes + (1 << 10 * power >> 1)) >> 10 * power
        if kilobytes < 1 << 13 + 10 * power:
            return f"{rounded} {unit}"
    return f"{(kilobytes + (1 << 39)) >> 40} PB"


def _local_name(kind: Literal["user", "group"], number: int) -> str:
    """Local name of a uid or gid, as in dumpe2fs; "unknown" without one and on Windows."""
    try:
        import grp
        import pwd

        return pwd.getpwuid(number).pw_name if kind == "user" else grp.getgrgid(number).gr_name
    except (ImportError, KeyError, OverflowError):
        return "unknown"


def _inodes_and_journal(superblock: Superblock) -> Iterator[Fact]:
    if superblock.revision:
        yield "First inode", str(superblock.first_inode)
        yield "Inode size", str(superblock.inode_size)
    yield "Required extra isize", _nonzero(superblock.min_extra_isize)
    yield "Desired extra isize", _nonzero(superblock.want_extra_isize)
    device = superblock.journal_device
    yield "Journal UUID", uuid_text(superblock.journal_uuid)
    yield "Journal inode", _nonzero(superblock.journal_inode)
    yield "Journal device", f"0x{device:04x}" if device else None
    yield "First orphan inode", _nonzero(superblock.last_orphan)
    if Compat.DIR_INDEX in superblock.features or superblock.hash_version:
        name = known.HASH_NAMES.get(
            superblock.hash_version, f"CIRHASHALG_{superblock.hash_version}"
        )
        yield "Default directory hash", name
    seed = b"".join(word.to_bytes(4, "little") for word in superblock.hash_seed)
    yield "Directory Hash Seed", uuid_text(seed)
    kind = superblock.journal_backup_type
    if kind:
        yield "Journal backup", "inode blocks" if kind == 1 else f"type {kind}"


def _snapshots_and_errors(superblock: Superblock) -> Iterator[Fact]:
    if Compat.SPARSE_SUPER2 in superblock.features:
        groups = [f"{group} " for group in superblock.backup_groups if group]
        yield "Backup block groups", "".join(groups) or "(none)"
    if superblock.snapshot_inode:
        yield "Snapshot inode", str(superblock.snapshot_inode)
        yield "Snapshot ID", str(superblock.snapshot_id)
        yield "Snapshot reserved blocks", str(superblock.snapshot_reserved_blocks)
    yield "Snapshot list head", _nonzero(superblock.snapshot_list)
    yield "FS Error count", _nonzero(superblock.error_count)
    for word in ("first", "last"):
        moment = getattr(superblock, f"{word}_error_time")
        if not moment:
            continue
        code = getattr(superblock, f"{word}_error_code")
        label = word.capitalize()
        yield f"{label} error time", ctime_text(moment)
        yield f"{label} error function", printable(getattr(superblock, f"{word}_error_function"))
        yield f"{label} error line #", str(getattr(superblock, f"{word}_error_line"))
        yield f"{label} error inode #", _nonzero(getattr(superblock, f"{word}_error_inode"))
        yield f"{label} error block #", _nonzero(getattr(superblock, f"{word}_error_block"))
        name = _ERROR_CODES[code] if code < len(_ERROR_CODES) else f"UNKNOWN_ERRCODE_{code}"
        yield f"{label} error err", name if code else None


def _extras(superblock: Superblock) -> Iterator[Fact]:
    features = superblock.features
    if Incompat.MMP in features:
        yield "MMP block number", str(superblock.mmp_block)
        yield "MMP update interval", str(superblock.mmp_interval)
    for word in ("user", "group", "project"):
        number = getattr(superblock, f"{word}_quota_inode")
        yield f"{word.capitalize()} quota inode", _nonzero(number)
    if superblock.has_metadata_checksums:
        kind = superblock.checksum_type
        yield "Checksum type", known.CHECKSUM_TYPES.get(kind, "INVALID")
        yield "Checksum", f"0x{superblock.checksum:08x}"
    yield "Encryption PW Salt", uuid_text(superblock.encryption_salt)
    if Incompat.METADATA_CSUM_SEED in features:
        yield "Checksum seed", f"0x{superblock.checksum_seed:08x}"
    if Incompat.CASEFOLD in features:
        encoding = superblock.encoding
        yield "Character encoding", known.ENCODINGS.get(encoding, f"UNKNOWN_ENCODING_{encoding}")
    yield "Orphan file inode", _nonzero(superblock.orphan_file_inode)


_TIMES = ("mount_time", "write_time", "check_time", "mkfs_time", "first_error_time",
          "last_error_time")  # fmt: skip
_UUIDS = ("uuid", "journal_uuid", "encryption_salt")
_SIZES = ("block_size", "inode_size", "descriptor_size", "groups_count")  # properties


class FeatureWords(TypedDict):
    """The three words of feature bits."""

    compat: int
    incompat: int
    ro_compat: int


def superblock_types() -> dict[str, Any]:
    """Fields of the record that `superblock_record` makes."""
    types: dict[str, Any] = {"record": Literal["superblock"], "kind": fields.Kind}
    for name, hint in get_type_hints(Superblock).items():
        types |= _plain_types(name, hint)
    return types | dict.fromkeys(_SIZES, int) | {"checksum_ok": bool | None}


def _plain_types(name: str, hint: object) -> dict[str, Any]:
    """Fields of the record that `_plain` creates from a field."""
    if name in _TIMES:
        return {name: int, f"{name}_iso": str | None}
    if name in _UUIDS:
        return {name: fields.Uuid | None}
    if hint is Features:
        return {name: list[str], "feature_words": FeatureWords}
    if name == "encryption_algorithms":
        return {name: list[int]}
    if hint is bytes:
        return {name: str, f"{name}_bytes": NotRequired[fields.Exact]}
    return {name: hint}


def superblock_record(superblock: Superblock) -> Record:
    """All fields of a superblock as a record; times in seconds, and in ISO 8601 as `..._iso`."""
    record: dict[str, object] = {"record": "superblock", "kind": superblock.kind}
    for part in parts_of(superblock):
        record |= _plain(part.name, getattr(superblock, part.name))
    return record | {name: getattr(superblock, name) for name in (*_SIZES, "checksum_ok")}


def _plain(name: str, value: object) -> Record:
    if isinstance(value, int) and name in _TIMES:
        return {name: value, f"{name}_iso": iso(value * NANOSECONDS) if value else None}
    if isinstance(value, Features):
        words = {key: int(getattr(value, key)) for key in FeatureWords.__annotations__}
        return {name: value.names, "feature_words": words}
    if name != "encryption_algorithms" and isinstance(value, bytes):
        return {name: uuid_text(value)} if name in _UUIDS else json_name(value, name)
    return {name: list(value) if isinstance(value, tuple | bytes) else value}
