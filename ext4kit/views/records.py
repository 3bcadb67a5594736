"""The record of the deleted file that a node of any view shows, and what of its content is lost."""

from __future__ import annotations

from ext4kit.filesystem.live_view import LiveNode
from ext4kit.filesystem.view import Node
from ext4kit.recovery import DeletedFile
from ext4kit.views.deleted import DeletedNode
from ext4kit.views.together import own_node as own_node
from ext4kit.views.versions import VersionNode

LOST_SINCE = "reused since, or no longer known"


def record_of(node: Node) -> DeletedFile | None:
    """The record of the deleted file or earlier version that a node is; None for others."""
    node = own_node(node)
    if isinstance(node, DeletedNode):
        return node.file
    return node.version.file if isinstance(node, VersionNode) else None


def lost_ranges(node: Node) -> list[tuple[int, int, str]]:
    """(offset, length, why) of the bytes of a file that are known to be lost, by offset."""
    own, file = own_node(node), record_of(node)
    if isinstance(own, LiveNode):
        return sorted((offset, length, LOST_SINCE) for offset, length in own.lost)
    lost = () if file is None else file.lost
    return sorted((part.offset, part.length, part.owner) for part in lost if part.length > 0)
