"""Extended attributes of an inode, from its body, its attribute block and value inodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ext4kit.errors import CorruptError, Ext4kitError
from ext4kit.parsers import acl, xattr
from ext4kit.parsers.inode import GOOD_OLD_SIZE, Inode
from ext4kit.parsers.xattr import XattrEntry
from ext4kit.problems import Problems, Severity
from ext4kit.units import InodeNumber

FetchValue = Callable[[InodeNumber, int], bytes]
"""Reads a value from the inode that holds it: (inode number, size in bytes) -> value."""

ACL_INDEXES = (xattr.POSIX_ACL_ACCESS, xattr.POSIX_ACL_DEFAULT)
INLINE_DATA_NAME = b"data"


@dataclass(frozen=True, slots=True)
class _XattrArea:
    """An area of bytes with attribute entries at its start and values at its end."""

    label: str
    data: bytes
    entries_offset: int
    values_base: int

    def entry_at(self, offset: int) -> XattrEntry:
        return xattr.entry_at(self.data, offset, self.values_base, len(self.data))


def _body(inode_raw: bytes, extra_isize: int) -> _XattrArea | None:
    if not xattr.has_body(inode_raw, extra_isize):
        return None
    first = xattr.body_offset(extra_isize) + xattr.XATTR_BODY_HEADER.size
    return _XattrArea("inode body", inode_raw, first, first)


def _block(acl_block: bytes) -> _XattrArea:
    """The attribute block as an area.

    Raises:
        CorruptError: the block is not an attribute block.
    """
    xattr.parse_block_header(acl_block)
    return _XattrArea("attribute block", acl_block, xattr.XATTR_BLOCK_HEADER.size, 0)


def _entries(
    inode_raw: bytes, extra_isize: int, acl_block: bytes | None, problems: Problems, where: str
) -> Iterator[XattrEntry]:
    """The readable entries of both areas; unreadable ones become problems."""
    areas = [_body(inode_raw, extra_isize)]
    try:
        areas.append(None if acl_block is None else _block(acl_block))
    except CorruptError as error:
        problems.add(where, f"attribute block: {error}; its attributes are missing")
    for area in filter(None, areas):
        try:
            for offset in xattr.entry_offsets(area.data, area.entries_offset, len(area.data)):
                try:
                    yield area.entry_at(offset)
                except CorruptError as error:
                    problems.add(where, f"{area.label}: {error}; the attribute is missing")
        except CorruptError as error:
            problems.add(where, f"{area.label}: {error}; attributes from there on are missing")


def _value(
    entry: XattrEntry, fetch_value_inode: FetchValue, problems: Problems, where: str
) -> bytes | None:
    """The value as `getxattr` returns it, or None (and a problem) if it cannot be read."""
    name = entry.name.decode("utf-8", "backslashreplace")
    value = entry.value
    if value is None:
        try:
            value = fetch_value_inode(entry.value_inode, entry.value_size)
        except Ext4kitError as error:
            problems.add(where, f"attribute {name}: inode {entry.value_inode}: {error}")
            return None
        if len(value) != entry.value_size:
            what = f"{len(value):,} of its {entry.value_size:,} bytes could be read"
            problems.add(where, f"attribute {name}: {what}")
    try:
        return acl.acl_to_xattr(acl.parse_acl(value)) if entry.index in ACL_INDEXES else value
    except CorruptError as error:
        problems.add(where, f"attribute {name}: {error}; shown as it is on disk")
        return value


def read_xattrs(
    inode_raw: bytes,
    extra_isize: int,
    acl_block: bytes | None,
    fetch_value_inode: FetchValue,
    problems: Problems,
    where: str = "extended attributes",
) -> dict[bytes, bytes]:
    """The extended attributes of an inode.

    The values are those that `getxattr` returns: access control lists are converted. Inline
    data (`inline_data_tail`) and the encryption context (`encryption_context`) are left out.
    Attributes with name indexes that kernels do not list are included.

    Args:
        inode_raw: the whole inode as it is on disk.
        extra_isize: bytes of the inode's extra fields (`i_extra_isize`); a value larger than
            the inode means no attributes in the body.
        acl_block: the block that `i_file_acl` names, or None if it names none.
        fetch_value_inode: reads a value that is in a separate inode.
        problems: collects unreadable attributes; the rest is returned.
        where: text that names the inode, for the problems.

    Returns:
        Values by full name, in the order of the entries, the body first. If body and block have the
        same name, the value in the body counts, as in the kernel.
    """
    found: dict[bytes, bytes] = {}
    for entry in _entries(inode_raw, extra_isize, acl_block, problems, where):
        inline = (entry.index, entry.suffix) == (xattr.SYSTEM, INLINE_DATA_NAME)
        if inline or entry.index == xattr.ENCRYPTION:  # never visible to users
            continue
        value = _value(entry, fetch_value_inode, problems, where)
        if value is None:
            continue
        what = f"attribute {entry.name.decode('utf-8', 'backslashreplace')}"
        if entry.name in found:
            problems.add(where, f"{what} exists twice; the first one is used", Severity.WARNING)
        if entry.index not in xattr.PREFIXES:
            what = f"{what} has a name index that no kernel lists"
            problems.add(where, what, Severity.WARNING)
        found.setdefault(entry.name, value)
    return found


def _find(area: _XattrArea, index: int, suffix: bytes | None) -> XattrEntry | None:
    """The first entry with this index and name; damage up to its value is an error.

    Raises:
        CorruptError: the entry's value, or the chain of entries before it, is damaged.
    """
    for offset in xattr.entry_offsets(area.data, area.entries_offset, len(area.data)):
        raw = xattr.XATTR_ENTRY.parse(area.data, offset)
        start = offset + xattr.XATTR_ENTRY.size
        name = area.data[start : start + raw.e_name_len]
        if raw.e_name_index == index and suffix in (None, name):
            return area.entry_at(offset)
    return None


def inline_data_tail(inode_raw: bytes, extra_isize: int) -> bytes:
    """The part of inline file content (or of an inline directory) after its first 60 bytes.

    Returns:
        The value of `system.data` in the inode's body, empty if there is none.

    Raises:
        CorruptError: the attributes in the body are damaged.
    """
    return _inline_value(inode_raw, extra_isize) or b""


def _inline_value(inode_raw: bytes, extra_isize: int) -> bytes | None:
    """The value of `system.data` in the inode's body; None if there is none."""
    area = _body(inode_raw, extra_isize)
    entry = None if area is None else _find(area, xattr.SYSTEM, INLINE_DATA_NAME)
    return None if entry is None else entry.value


def lacks_inline_data(inode: Inode) -> bool:
    """Whether inline content is missing from an inode, as opposed to a hole at its end.

    The kernel leaves a hole when such a file is extended. If the size exceeds the room in the
    inode, the content may also be in transition to blocks.
    """
    room = len(inode.raw) - GOOD_OLD_SIZE - inode.extra_isize
    size = inode.size - len(inode.i_block)
    if size <= 0:
        return False
    try:
        value = _inline_value(inode.raw, inode.extra_isize)
    except CorruptError:
        return True
    return value is None or (len(value) < size and size > room)


def encryption_context(inode_raw: bytes, extra_isize: int, acl_block: bytes | None) -> bytes | None:
    """The fscrypt context of an encrypted inode, or None if it has none.

    Raises:
        CorruptError: the attributes before the context are damaged.
    """
    areas = [_body(inode_raw, extra_isize), None if acl_block is None else _block(acl_block)]
    for area in areas:
        entry = None if area is None else _find(area, xattr.ENCRYPTION, None)
        if entry is not None and entry.value is not None:
            return entry.value
    return None
