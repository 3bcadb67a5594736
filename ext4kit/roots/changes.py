"""What a container changed: its upper layer against the layers below."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node
from ext4kit.recovery import DeletedFile
from ext4kit.recovery.search_sources import WITH_INODES
from ext4kit.roots.finding import root_view
from ext4kit.roots.model import LinuxRoot
from ext4kit.roots.origins import LayerOrigin, OriginState, origin_of
from ext4kit.roots.overlay_view import OverlayNode, OverlayView, is_whiteout
from ext4kit.units import Progress
from ext4kit.workspace import Workspace


class ChangeKind(StrEnum):
    """What happened to a path."""

    ADDED = "added"
    CHANGED = "changed"
    METADATA = "metadata"
    MOVED = "moved"
    REPLACED = "replaced"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RootChange:
    """A change that a container made.

    Attributes:
        kind: what happened.
        path: in the container.
        node: the file in the merged tree; None if it was deleted.
        lower: the file of the image that it was; None for none.
        origin: what overlayfs recorded of that; None for nothing.
        file: a deleted inode of the upper layer; None otherwise.
    """

    kind: ChangeKind
    path: bytes
    node: Node | None = None
    lower: Node | None = None
    origin: LayerOrigin | None = None
    file: DeletedFile | None = None


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How much is in an upper layer.

    Attributes:
        files: everything but directories and whiteouts.
        whiteouts: names of lower layers that are hidden.
    """

    files: int
    whiteouts: int


def change_counts(fs: FileSystem, root: LinuxRoot) -> ChangeCounts | None:
    """The numbers of files and whiteouts in the upper layer; None if a root has none."""
    if not root.has_upper:
        return None
    files = whiteouts = 0
    view = LiveView(fs)
    for some in view.walk(start=view.lookup(root.place)):
        kinds = stat.S_IFMT(0xFFFF) & some.table.mode.astype(np.int64)
        devices = np.flatnonzero(kinds == stat.S_IFCHR).tolist()
        hidden = sum(is_whiteout(some.node(row)) for row in devices)
        files += int(np.count_nonzero(kinds != stat.S_IFDIR)) - hidden
        whiteouts += hidden
    return ChangeCounts(files, whiteouts)


def changes_of(
    workspace: Workspace, root: LinuxRoot, progress: Progress | None = None
) -> Iterator[RootChange]:
    """The changes in the upper layer of a root, by path; then its deleted inodes.

    Args:
        workspace: of the file system.
        root: the root.
        progress: called with (done, total) while deleted files are searched.
    """
    if root.has_upper:
        yield from _Comparison(workspace.fs, root).changes()
        yield from _deleted_inodes(workspace, root, progress)


class _Comparison:
    """Compares the upper layer of a root with the merged tree of the layers below it.

    Args:
        fs: the file system.
        root: the root.
    """

    def __init__(self, fs: FileSystem, root: LinuxRoot) -> None:
        self._fs, self._root = fs, root
        self._live = LiveView(fs)
        self._merged = root_view(fs, root)
        layers = [self._live.lookup(path) for path in root.layers[1:]]
        self._lower = (
            OverlayView(layers, "lower", is_unprivileged=root.is_unprivileged) if layers else None
        )

    def changes(self) -> Iterator[RootChange]:
        """The changes, in the order of the tree."""
        yield from self._below(self._live.lookup(self._root.place), self._merged.root)

    def _below(self, folder: Node, merged: Node) -> Iterator[RootChange]:
        """The changes in a directory of the upper layer."""
        waiting, seen = [(folder, merged)], {folder.id}
        while waiting:
            upper, shown = waiting.pop()
            below = list[tuple[Node, Node]]()
            for node in _children(upper):
                path = shown.path.rstrip(b"/") + b"/" + node.name
                lower = self._lower_at(path)
                now = shown.child(node.name)
                if now is None:
                    yield RootChange(ChangeKind.DELETED, path, lower=lower)
                    continue
                change = self._change(node, now, lower)
                if change is not None:
                    yield change
                if node.kind == "directory" and node.id not in seen:
                    seen.add(node.id)
                    below.append((node, now))
            waiting += reversed(below)

    def _change(self, node: Node, now: Node, lower: Node | None) -> RootChange | None:
        """The change of a file of the upper layer; None for a directory that is only passed."""
        origin = origin_of(self._fs, node)
        source = self._source(now, origin, lower)
        if source is not None and (lower is None or source.path != lower.path):
            return RootChange(ChangeKind.MOVED, now.path, now, source, origin)
        if lower is None:
            return RootChange(ChangeKind.ADDED, now.path, now, None, origin)
        is_new = node.kind != lower.kind or (node.kind == "directory" and not _is_merged(now))
        if is_new:
            return RootChange(ChangeKind.REPLACED, now.path, now, lower, origin)
        kind = _difference(node, lower)
        if kind is None and node.kind == "directory":
            return None
        return RootChange(kind or ChangeKind.METADATA, now.path, now, lower, origin)

    def _source(self, now: Node, origin: LayerOrigin | None, lower: Node | None) -> Node | None:
        """The lower file that a file was, where it is known by more than its path."""
        if now.kind == "directory" and isinstance(now, OverlayNode) and _is_merged(now):
            return self._lower_by_place.get(now.stack[1].node.path)
        if origin is None or origin.state is not OriginState.EXISTS or now.kind == "directory":
            return None
        if lower is not None and lower.id.inode == origin.handle.inode:
            return lower
        return self._lower_by_inode.get(origin.handle.inode or 0)

    def _lower_at(self, path: bytes) -> Node | None:
        try:
            return None if self._lower is None else self._lower.lookup(path)
        except Ext4kitError:
            return None

    @cached_property
    def _lower_by_inode(self) -> dict[int, Node]:
        """The files of the lower layers by inode number."""
        return {node.id.inode: node for node in self._lower_nodes if node.kind != "directory"}

    @cached_property
    def _lower_by_place(self) -> dict[bytes, Node]:
        """The directories of the lower layers by their place on the image."""
        found: dict[bytes, Node] = {}
        for node in self._lower_nodes:
            for part in node.stack if isinstance(node, OverlayNode) else ():
                found.setdefault(part.node.path, node)
        return found

    @cached_property
    def _lower_nodes(self) -> list[Node]:
        walk = () if self._lower is None else self._lower.walk()
        return [node for some in walk for node in some.nodes]


def _is_merged(node: Node) -> bool:
    return isinstance(node, OverlayNode) and len(node.stack) > 1


def _difference(node: Node, lower: Node) -> ChangeKind | None:
    """How a file differs from that of the image, by its inode; None if only its times may."""
    new, old = node.inode, lower.inode
    if new is None or old is None:
        return ChangeKind.CHANGED
    is_folder = node.kind == "directory"
    if not is_folder and (new.size, new.mtime, new.device) != (old.size, old.mtime, old.device):
        return ChangeKind.CHANGED
    is_same = (new.mode, new.uid, new.gid) == (old.mode, old.uid, old.gid)
    return None if is_same else ChangeKind.METADATA


def _children(node: Node) -> Iterable[Node]:
    try:
        return list(node.children())
    except Ext4kitError:
        return ()


def _deleted_inodes(
    workspace: Workspace, root: LinuxRoot, progress: Progress | None
) -> Iterator[RootChange]:
    """The deleted files of the upper layer: made or copied there, then deleted."""
    above = root.place.rstrip(b"/") + b"/"
    found = [
        file
        for file in workspace.deleted(sources=WITH_INODES, progress=progress).files
        if file.path is not None and file.path.startswith(above) and file.kind != "chardev"
    ]
    for file in sorted(found, key=lambda one: one.path or b""):
        path = b"/" + (file.path or b"").removeprefix(above)
        yield RootChange(ChangeKind.DELETED, path, file=file)
