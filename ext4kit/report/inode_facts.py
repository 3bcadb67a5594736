"""All facts of an inode, as lines and as a record."""

from __future__ import annotations

import base64
import stat
from collections.abc import Iterator
from typing import Annotated, Literal, NotRequired, TypedDict

from ext4kit import fields
from ext4kit.errors import AccessError, CorruptError
from ext4kit.fields import Nothing, TargetText, json_name
from ext4kit.filesystem import FileSystem
from ext4kit.parsers import acl
from ext4kit.parsers.inode import Inode, InodeFlags
from ext4kit.report.listing import mode_text
from ext4kit.report.overlay_text import overlay_text
from ext4kit.report.safe import printable, printable_text, shown
from ext4kit.report.superblock_facts import Fact, fact_lines
from ext4kit.report.times import exact_time
from ext4kit.times import iso
from ext4kit.units import NANOSECONDS

TIMES = {"Accessed": "atime", "Modified": "mtime", "Changed": "ctime", "Created": "crtime"}
_ACLS = (b"system.posix_acl_access", b"system.posix_acl_default")
Row = tuple[int, int, int, bool]  # file block, block count, file system block, is unwritten


def inode_lines(fs: FileSystem, inode: Inode, path: bytes) -> list[str]:
    """The facts, the block map as a table, the attributes and the access control lists."""
    attributes = fs.xattrs(inode)
    lines, rows = fact_lines(inode_facts(fs, inode, path)), _map_rows(fs, inode)
    if rows:
        lines.append(f"Block map:                {len(rows)} run{'s' * (len(rows) != 1)}")
        lines.append(f"  {'file block':>12}  {'blocks':>10}  {'first':>14}  {'last':>14}")
    for logical, length, physical, unwritten in rows:
        last, note = physical + length - 1, "  unwritten" if unwritten else ""
        lines.append(f"  {logical:>12}  {length:>10}  {physical:>14}  {last:>14}{note}")
    return [*lines, *_attribute_lines(attributes, fs)]


def unknown_lines(path: bytes, reason: str) -> list[str]:
    """Lines for a path whose inode is unknown."""
    state = f"unknown: {printable_text(reason)}"
    return fact_lines(iter((("Path", shown(path)), ("State", state))))


class UnknownInodeRecord(fields.PathText):
    """An inode whose state is unknown (--as-of)."""

    record: Literal["inode"]
    unknown: fields.Unknown


def unknown_record(path: bytes, reason: str) -> UnknownInodeRecord:
    """A record for a path whose inode is unknown."""
    return {"record": "inode", **json_name(path), "unknown": reason}


def inode_facts(fs: FileSystem, inode: Inode, path: bytes) -> Iterator[Fact]:
    """(label, value) of each field; None for a value that is left out."""
    yield "Path", shown(path)
    yield "Inode", str(inode.number)
    yield "Type", inode.kind
    yield "Mode", f"{stat.S_IMODE(inode.mode):04o} ({mode_text(inode.mode)})"
    yield "Owner", f"uid {inode.uid}, gid {inode.gid}"
    yield "Size", str(inode.size)
    yield "Links", str(inode.links_count)
    yield "Space", f"{inode.blocks} sectors of 512 bytes"
    yield "Device", "{}, {}".format(*inode.device) if inode.device else None
    if inode.kind == "symlink":
        target = _target(fs, inode)
        yield "Target", "cannot be read" if target is None else shown(target)
    for label, name in TIMES.items():
        moment = getattr(inode, name)
        yield label, "no room in this inode" if moment is None else exact_time(moment)
    yield "Deleted", _deletion(fs, inode)
    yield "Flags", f"0x{inode.flags:x} ({' '.join(flag_names(inode.flags)) or 'none'})"
    yield "Generation", str(inode.generation)
    yield "Version", str(inode.version)
    yield "Project", str(inode.project_id) if inode.project_id else None
    yield "Attribute block", str(inode.file_acl) if inode.file_acl else None
    yield "Extra size", str(inode.extra_isize) if len(inode.raw) > 128 else None
    is_ok = fs.checksum_ok(inode)
    verdict = f"0x{inode.checksum:08x} ({'ok' if is_ok else 'BAD'})"
    yield "Checksum", "not stored" if is_ok is None else verdict
    yield "Allocated", "yes" if _is_allocated(fs, inode) else "no"


def flag_names(flags: int) -> list[str]:
    """Set flags in lower case; unknown bits as `0x...`."""
    names = [(flag.name or "").lower() for flag in InodeFlags if flags & flag]
    unknown = flags & ~sum(flag.value for flag in InodeFlags)
    return [*names, f"{unknown:#x}"] if unknown else names


def _target(fs: FileSystem, inode: Inode) -> bytes | None:
    try:
        return fs.link_target(inode)
    except (AccessError, CorruptError) as error:
        fs.problems.add(f"inode {inode.number}", f"its target cannot be read: {error}")
        return None


def _deletion(fs: FileSystem, inode: Inode) -> str | None:
    """The deletion time; for an orphan, the number of the next orphan, stored in `dtime`."""
    if not inode.dtime:
        return None
    if inode.number in fs.orphans:
        return f"no: an orphan, the next one is inode {inode.dtime}"
    return exact_time(inode.dtime * NANOSECONDS)


def _is_allocated(fs: FileSystem, inode: Inode) -> bool:
    group, bit = divmod(inode.number - 1, fs.superblock.inodes_per_group)
    return group < len(fs.groups) and bool(fs.bitmaps.inode_bitmap(group)[bit])


def _map_rows(fs: FileSystem, inode: Inode) -> list[Row]:
    runs = fs.block_map(inode)
    columns = (runs.logical, runs.length, runs.physical, runs.unwritten)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _attribute_lines(attributes: dict[bytes, bytes], fs: FileSystem) -> Iterator[str]:
    if attributes:
        yield "Extended attributes:"
    for name, value in attributes.items():
        entries = acl_entries(name, value)
        if entries is None:
            yield f"  {shown(name)} = {shown(value)}"
            if text := overlay_text(name, value, fs):
                yield f"    {text}"
        else:
            yield from (f"  {printable(name)}:", *(f"    {entry}" for entry in entries))


def acl_entries(name: bytes, value: bytes) -> list[str] | None:
    """The entries of an access control list in getxattr format; None for other attributes."""
    if name not in _ACLS or len(value) < 4 or value[0] != acl.XATTR_VERSION or (len(value) - 4) % 8:
        return None
    entries = []
    for start in range(4, len(value), 8):
        raw = acl.ACL_ENTRY.parse(value, start)
        if raw.e_tag not in acl.TAG_NAMES:
            return None
        number = raw.e_id if raw.e_tag in acl.NAMED else None
        entries.append(acl.AclEntry(raw.e_tag, raw.e_perm, number))
    return acl.acl_to_text(entries).splitlines()


class RunRecord(TypedDict):
    """Consecutive blocks of a file."""

    file_block: int
    blocks: int
    block: int
    unwritten: bool


class AclText(TypedDict):
    """Entries of an access control list."""

    acl: list[str]


class OverlayText(TypedDict):
    """What an attribute of overlayfs says."""

    overlay: str


class XattrRecord(fields.Xattr):
    """An extended attribute, with text for an access control list and for one of overlayfs."""

    acl: NotRequired[list[str]]
    overlay: NotRequired[Annotated[str, "What an attribute of overlayfs says."]]


class InodeRecord(fields.PathText, fields.LiveInode):
    """An inode with a known state."""

    record: Literal["inode"]
    links_count: fields.Count
    blocks: Annotated[int, "Sectors of 512 bytes."]
    flags: int
    version: int
    project_id: int
    file_acl: int
    extra_isize: int
    dtime: Annotated[
        int | None, "The raw field, read as seconds and given in nanoseconds; null for 0."
    ]
    dtime_iso: Annotated[
        str | None,
        "The time in ISO 8601; also null for an orphan, because the "
        "field may name the next orphan.",
    ]
    is_orphan: bool
    flag_names: list[str]
    device: fields.Device | None
    target: NotRequired[fields.Target]
    target_bytes: NotRequired[fields.Exact]
    checksum: int
    checksum_ok: bool | None
    allocated: bool
    map: list[RunRecord]
    xattrs: list[XattrRecord]


def inode_record(fs: FileSystem, inode: Inode, path: bytes) -> InodeRecord:
    """An inode as a record; times in nanoseconds."""
    target = _target(fs, inode) if inode.kind == "symlink" else None
    is_orphan = inode.number in fs.orphans
    link: TargetText | Nothing = {} if target is None else json_name(target, "target")
    return {
        "record": "inode",
        **json_name(path),
        "inode": inode.number,
        "type": inode.kind,
        "mode": inode.mode,
        "uid": inode.uid,
        "gid": inode.gid,
        "size": inode.size,
        "links_count": inode.links_count,
        "blocks": inode.blocks,
        "flags": inode.flags,
        "generation": inode.generation,
        "version": inode.version,
        "project_id": inode.project_id,
        "file_acl": inode.file_acl,
        "extra_isize": inode.extra_isize,
        "atime": inode.atime,
        "mtime": inode.mtime,
        "ctime": inode.ctime,
        "crtime": inode.crtime,
        "dtime": inode.dtime * NANOSECONDS if inode.dtime else None,
        "dtime_iso": iso(inode.dtime * NANOSECONDS) if inode.dtime and not is_orphan else None,
        "is_orphan": is_orphan,
        "flag_names": flag_names(inode.flags),
        "device": inode.device,
        **link,
        "checksum": inode.checksum,
        "checksum_ok": fs.checksum_ok(inode),
        "allocated": _is_allocated(fs, inode),
        "map": [
            {"file_block": row[0], "blocks": row[1], "block": row[2], "unwritten": row[3]}
            for row in _map_rows(fs, inode)
        ],
        "xattrs": [_attribute_record(fs, *pair) for pair in fs.xattrs(inode).items()],
    }


def _attribute_record(fs: FileSystem, name: bytes, value: bytes) -> XattrRecord:
    exact, entries = base64.b64encode(value).decode("ascii"), acl_entries(name, value)
    text: AclText | Nothing = {"acl": entries} if entries else {}
    said = overlay_text(name, value, fs)
    overlay: OverlayText | Nothing = {"overlay": said} if said else {}
    return {**json_name(name, "name"), "value_base64": exact, **text, **overlay}
