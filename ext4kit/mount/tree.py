"""The tree of a mount: each view of each volume as a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass, field
from itertools import chain
from threading import RLock

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.mount.attributes import Defaults
from ext4kit.mount.documents import documents
from ext4kit.recovery.tree_paths import CARVED
from ext4kit.units import NANOSECONDS, Progress
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace


@dataclass(frozen=True, eq=False)
class TreePart:
    """A part of the tree that is read by one thread at a time.

    Attributes:
        defaults: attributes of nodes without an inode.
        context: the context in which it is read; it has the time zone.
        fs: the file system; None above all volumes.
    """

    defaults: Defaults
    context: Context
    fs: FileSystem | None = None
    lock: RLock = field(default_factory=RLock)


@dataclass(frozen=True)
class Branch:
    """A folder of the tree that has a view or further branches below it.

    Attributes:
        part: the part that it belongs to.
        top: returns its node.
        branches: folders directly below it, by name; the node has no other children then.
    """

    part: TreePart
    top: Callable[[], Node]
    branches: dict[bytes, Branch] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MountedVolume:
    """A volume to mount.

    Attributes:
        number: of the volume.
        live: its file system, for the live tree alone.
        others: the same file system, opened a second time, for all other trees.
        raw: the same without a replayed journal.
        context: the context in which views are read.
    """

    number: int
    live: FileSystem
    others: FileSystem
    raw: FileSystem
    context: Context


def mount_tree(
    volumes: Iterable[MountedVolume], owner: tuple[int, int], progress: Progress
) -> Branch:
    """The root of the tree: the folders of the only volume, or a folder for each volume.

    Args:
        volumes: the volumes.
        owner: user and group of all folders without an inode.
        progress: called with (done, total) during long searches; may raise to end them.
    """
    found = [(volume, _volume_branch(volume, owner, progress)) for volume in volumes]
    if len(found) == 1:
        return found[0][1]
    folders = {b"volume-%d" % volume.number: branch for volume, branch in found}
    return _folder("volumes", found[0][1].part, folders)


def _folder(name: str, part: TreePart, branches: dict[bytes, Branch]) -> Branch:
    return Branch(part, lambda: Folder(NodeId("mount", detail=name), b"/"), branches)


def _volume_branch(volume: MountedVolume, owner: tuple[int, int], progress: Progress) -> Branch:
    """The folders of a volume."""
    superblock = volume.live.superblock
    times = superblock.write_time * NANOSECONDS
    defaults = Defaults(*owner, times, superblock.block_size)
    live = TreePart(defaults, volume.context, volume.live)
    others = TreePart(defaults, volume.context.copy(), volume.others)
    workspace, raw = Workspace(volume.others), Workspace(volume.raw)
    views: dict[str, View] = {}

    def view(name: str) -> View:
        if name not in views:
            views[name] = open_view(workspace, name, progress)
        return views[name]

    def deleted() -> Iterable[Node]:
        return (node for node in view("deleted").root.children() if node.path != CARVED)

    def carved() -> Iterable[Node]:
        return view("deleted").lookup(CARVED).children()

    def unallocated() -> Iterable[Node]:
        folder = Folder(NodeId("unallocated", detail="carved"), b"/carved", fill=carved)
        return chain([folder], view("unallocated").root.children())

    def filled(name: str, fill: Callable[[], Iterable[Node]]) -> Branch:
        return Branch(others, lambda: Folder(NodeId("mount", detail=name), b"/", fill=fill))

    branches = {
        b"live": Branch(live, lambda: open_view(Workspace(volume.live), "live").root),
        b"deleted": filled("deleted", deleted),
        b"as-of": Branch(others, lambda: view("as-of").root),
        b"versions": Branch(others, lambda: view("versions").root),
        b"unattached": Branch(others, lambda: view("unattached").root),
        b"unallocated": filled("unallocated", unallocated),
        b"slack": Branch(others, lambda: view("slack").root),
        b"roots": Branch(others, lambda: view("roots").root),
        b"metadata": filled("metadata", lambda: documents(workspace, raw)),
    }
    return _folder(f"volume-{volume.number}", live, branches)
