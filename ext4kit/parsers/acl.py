"""POSIX access control lists: on disk, as `getxattr` returns them, and as text.

On disk ext4 omits the id of entries that have none (version 1, entries of 4 or 8
bytes); `getxattr` returns entries of 8 bytes (version 2). Sources: kernel fs/ext4/acl.h,
include/uapi/linux/posix_acl_xattr.h, acl(5).
"""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Int16ul, Int32ul, Struct

ACL_HEADER = Layout("acl header", Struct("a_version" / Int32ul))

_SHORT = (
    "e_tag" / Int16ul,  # TAG_NAMES
    "e_perm" / Int16ul,  # read 4, write 2, execute 1
)
ACL_ENTRY_SHORT = Layout("short acl entry", Struct(*_SHORT))
ACL_ENTRY = Layout("acl entry", Struct(*_SHORT, "e_id" / Int32ul))  # of a named user or group

DISK_VERSION = 1
XATTR_VERSION = 2
UNDEFINED_ID = 0xFFFFFFFF

USER_OWNER, USER, GROUP_OWNER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
TAG_NAMES = {
    USER_OWNER: "user",
    USER: "user",
    GROUP_OWNER: "group",
    GROUP: "group",
    MASK: "mask",
    OTHER: "other",
}
NAMED = (USER, GROUP)


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One entry: a tag of TAG_NAMES, permission bits, the id of a named user or group."""

    tag: int
    permissions: int
    id: int | None = None


def parse_acl(value: Buffer) -> list[AclEntry]:
    """The entries of an attribute value in ext4's on-disk form.

    Raises:
        CorruptError: the version or a tag is unknown, or the value ends within an entry.
    """
    version = ACL_HEADER.parse(value).a_version
    if version != DISK_VERSION:
        raise CorruptError(ACL_HEADER.name, 0, f"version {version}")
    entries = []
    offset, size = ACL_HEADER.size, memoryview(value).nbytes
    while offset < size:
        raw = ACL_ENTRY_SHORT.parse(value, offset)
        if raw.e_tag not in TAG_NAMES:
            raise CorruptError(ACL_ENTRY_SHORT.name, offset, f"unknown tag {raw.e_tag:#06x}")
        is_named = raw.e_tag in NAMED
        number = ACL_ENTRY.parse(value, offset).e_id if is_named else None
        entries.append(AclEntry(raw.e_tag, raw.e_perm, number))
        offset += ACL_ENTRY.size if is_named else ACL_ENTRY_SHORT.size
    return entries


def acl_to_xattr(entries: list[AclEntry]) -> bytes:
    """The bytes that `getxattr("system.posix_acl_access")` returns for these entries."""
    value = ACL_HEADER.build({"a_version": XATTR_VERSION})
    for entry in entries:
        number = UNDEFINED_ID if entry.id is None else entry.id
        fields = {"e_tag": entry.tag, "e_perm": entry.permissions, "e_id": number}
        value += ACL_ENTRY.build(fields)
    return value


def acl_to_text(entries: list[AclEntry]) -> str:
    """The entries in the form of `getfacl --numeric --omit-header`, one `user:1000:rw-` per line.

    The `#effective:` remarks of getfacl are omitted, because they follow from the mask.
    """
    text = ""
    for entry in entries:
        bits = (("r", 4), ("w", 2), ("x", 1))
        letters = "".join(letter if entry.permissions & bit else "-" for letter, bit in bits)
        text += f"{TAG_NAMES[entry.tag]}:{'' if entry.id is None else entry.id}:{letters}\n"
    return text
