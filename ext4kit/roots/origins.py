"""The lower files that overlayfs remembers for files of an upper layer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ext4kit.errors import CorruptError, Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.view import Node
from ext4kit.parsers.overlay import PRIVILEGED, UNPRIVILEGED, LayerHandle, parse_handle
from ext4kit.roots.overlay_view import attributes_of


class OriginState(StrEnum):
    """Whether the lower file that overlayfs names still exists."""

    EXISTS = "exists"
    DELETED = "deleted"
    REUSED = "inode reused"
    ELSEWHERE = "on another file system"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LayerOrigin:
    """The lower file of which a file of the upper layer is a copy.

    Attributes:
        handle: what overlayfs recorded.
        state: whether the inode with this generation exists.
    """

    handle: LayerHandle
    state: OriginState


def origin_of(fs: FileSystem, node: Node) -> LayerOrigin | None:
    """The lower file that an `origin` attribute names; None without one."""
    attributes = attributes_of(node)
    value = attributes.get(PRIVILEGED + b"origin") or attributes.get(UNPRIVILEGED + b"origin")
    if not value:
        return None
    try:
        handle = parse_handle(value)
    except CorruptError:
        return None
    return LayerOrigin(handle, state_of(fs, handle))


def state_of(fs: FileSystem, handle: LayerHandle) -> OriginState:
    """Whether the file of a handle still exists."""
    if not handle.is_on(fs.superblock.uuid):
        return OriginState.ELSEWHERE
    try:
        inode = fs.inode(handle.inode or 0)
    except Ext4kitError:
        return OriginState.UNKNOWN
    if inode.generation != handle.generation:
        return OriginState.REUSED
    return OriginState.DELETED if fs.is_free(inode) else OriginState.EXISTS
