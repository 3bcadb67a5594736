"""Layers of overlayfs as one tree, as the system in them saw it.

The rules are those by which the kernel looks up a name (fs/overlayfs/namei.c, `ovl_lookup`): a name
is looked for in each layer from the top down, until a whiteout, an opaque directory or something
other than a directory ends the search. A redirect changes the name below its layer; a metacopy has
its content in a lower layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ext4kit.errors import AccessError, CorruptError, Ext4kitError
from ext4kit.fields import FileType
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node, NodeId, View
from ext4kit.parsers.overlay import PRIVILEGED, UNPRIVILEGED, parse_handle
from ext4kit.parsers.xattr import has_body
from ext4kit.reasons import OVERLAY_CONTENT_MISSING, Reason

_MOST_NAMES = 4096  # in a redirect
_MOST_KEPT = 2048  # listings of directories
_HIDDEN, _OPAQUE_MARK = b".wh.", b".wh..wh..opq"  # of fuse-overlayfs
_FUSE_OPAQUE = b"user.fuseoverlayfs.opaque"
_Handle = tuple[int, int]  # inode and generation


class LayerNode(NamedTuple):
    """A file in one of the layers.

    Attributes:
        layer: number of the layer, 0 the top one.
        node: the file.
    """

    layer: int
    node: Node


def is_whiteout(node: Node) -> bool:
    """Whether a node is a character device 0/0, by which overlayfs hides a name of lower layers."""
    return node.kind == "chardev" and node.inode is not None and node.inode.device == (0, 0)


def attributes_of(node: Node) -> Mapping[bytes, bytes]:
    """Extended attributes of a node; none where they cannot be read."""
    inode = node.inode
    if inode is None or not (inode.file_acl or has_body(inode.raw, inode.extra_isize)):
        return {}
    try:
        return node.xattrs()
    except Ext4kitError:
        return {}


@dataclass(frozen=True)
class OverlayNode(Node):
    """A file of the merged tree.

    Attributes:
        stack: the file in each layer that has a part in it, the top one first; a directory has
            several, and a file that overlayfs has not copied whole also has its content.
    """

    stack: tuple[LayerNode, ...] = field(kw_only=True, repr=False, compare=False)
    below: OverlayView = field(kw_only=True, repr=False, compare=False)

    @property
    def top(self) -> Node:
        """The file in the top one of its layers."""
        return self.stack[0].node

    @property
    def kind(self) -> FileType:
        """File type."""
        return self.top.kind

    @property
    def layer_path(self) -> bytes:
        """Path in the image of the file in its layer."""
        return self.top.path

    @property
    def content_inodes(self) -> tuple[int, ...]:
        """Inodes of a directory in all its layers; of a file, in the layer with its content."""
        if self._lacks_content:
            return ()
        parts = self.stack if self.kind == "directory" else self.stack[-1:]
        return tuple(part.node.id.inode for part in parts)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why its content is not whole."""
        found = self.stack[-1].node.reasons if self.kind == "file" else ()
        return (OVERLAY_CONTENT_MISSING.filled(), *found) if self._lacks_content else found

    @property
    def _lacks_content(self) -> bool:
        return self.kind == "file" and self.below.is_metacopy(self.stack[-1].node)

    def children(self) -> Iterable[Node]:
        """The files of the directory, by name; none where it is seen at a second path (a loop)."""
        if self.kind != "directory" or not self.below.is_only_place(self):
            return
        names = set[bytes]()
        for part in self.stack:
            names |= self.below.listing(part.node).keys()
        for name in sorted(names):
            if (node := self.child(name)) is not None:
                yield node

    def child(self, name: bytes) -> Node | None:
        """The file of the directory with a name; None if there is none."""
        if self.kind != "directory":
            return None
        found = self.below.look_up(self, name)
        return self.below.node(self.path.rstrip(b"/") + b"/" + name, found) if found else None

    def content(self) -> Content | None:
        """The bytes of a file, from the layer that has them; None if none has."""
        return None if self._lacks_content else self.stack[-1].node.content()

    def link_target(self) -> bytes | None:
        """The target of a symlink."""
        return self.top.link_target()

    def xattrs(self) -> Mapping[bytes, bytes]:
        """Extended attributes without those of overlayfs, as a mount shows them."""
        prefix = self.below.prefix
        if not prefix:
            return self.top.xattrs()
        inner = prefix + b"overlay."  # of an overlayfs that is mounted on this one
        found = {}
        for name, value in self.top.xattrs().items():
            if name.startswith(inner):
                found[prefix + name.removeprefix(inner)] = value
            elif not name.startswith(prefix):
                found[name] = value
        return found


@dataclass
class _Lookup:
    """What is known while one name is looked up in layer after layer (`struct ovl_lookup_data`).

    Attributes:
        name: the name, or a path from the root of the layers after an absolute redirect.
        is_stopped: no lower layer has a part in it.
        is_directory, is_metacopy: what the layers so far have.
        is_redirected: the last layer had a redirect.
    """

    name: bytes
    is_stopped: bool = False
    is_directory: bool = False
    is_metacopy: bool = False
    is_redirected: bool = False


class OverlayView(View):
    """Layers as one tree, read when they are looked at.

    Args:
        layers: root directory of each layer, the top one first.
        state: identifies the tree in the identities of its nodes.
        above: path of its root, without a slash at the end.
        is_unprivileged: whether it was mounted without privileges (`userxattr`, fuse-overlayfs).
        is_merged: whether the rules of overlayfs apply; a directory alone is shown as it is.
        index: the directory of the index, which has the upper files of hard links.
    """

    def __init__(
        self,
        layers: Sequence[Node],
        state: str = "overlay",
        above: bytes = b"",
        is_unprivileged: bool = False,
        is_merged: bool = True,
        index: Node | None = None,
    ) -> None:
        self._state, self._index_folder = state, index
        self._is_unprivileged, self.is_merged = is_unprivileged, is_merged
        self.prefix = b"" if not is_merged else UNPRIVILEGED if is_unprivileged else PRIVILEGED
        self._places: dict[tuple[int, int], bytes] = {}
        self._listings: dict[tuple[int, bytes], dict[bytes, Node]] = {}
        stack = tuple(LayerNode(number, node) for number, node in enumerate(layers))
        self._top = stack
        super().__init__(self.node(above or b"/", stack))

    def node(self, path: bytes, stack: tuple[LayerNode, ...]) -> OverlayNode:
        """The node of a path with its parts."""
        layer, top = stack[0]
        identity = NodeId(self._state, top.id.inode, top.id.generation, f"layer-{layer}")
        return OverlayNode(identity, path, top.inode, stack=stack, below=self)

    def is_only_place(self, node: OverlayNode) -> bool:
        """Whether a directory was not listed at another path before: it has only one."""
        layer, top = node.stack[0]
        return self._places.setdefault((layer, top.id.inode), node.path) == node.path

    def listing(self, node: Node) -> dict[bytes, Node]:
        """The files of a directory of a layer by name; some are kept."""
        key = node.id.inode, node.path
        found = self._listings.get(key)
        if found is None:
            if len(self._listings) >= _MOST_KEPT:
                self._listings.clear()
            found = self._listings[key] = {one.name: one for one in _children(node)}
        return found

    def is_metacopy(self, node: Node) -> bool:
        """Whether a file of a layer has its content in a lower layer."""
        if self._is_unprivileged or not self.prefix:
            return False
        return node.kind == "file" and self._key(b"metacopy") in attributes_of(node)

    def look_up(self, folder: OverlayNode, name: bytes) -> tuple[LayerNode, ...]:
        """The parts of a name in a directory; empty if it does not exist."""
        if not self.prefix:
            node = self.listing(folder.top).get(name)
            return () if node is None else (LayerNode(0, node),)
        if self._is_unprivileged and name.startswith(_HIDDEN):
            return ()
        data, parts = _Lookup(name), list[LayerNode]()
        stack, place = folder.stack, 0
        while place < len(stack) and not data.is_stopped:
            layer, base = stack[place]
            place += 1
            data.is_redirected = False
            node = self._in_layer(base, data, layer)
            if node is None:
                continue
            if not (data.is_metacopy and parts):
                parts.append(LayerNode(layer, node))
            if data.is_redirected and data.name.startswith(b"/"):  # goes on from the root
                stack, place = self._top, layer + 1
        return self._indexed(tuple(parts))

    def _in_layer(self, base: Node, data: _Lookup, layer: int) -> Node | None:
        """What a layer has of a name, or of a path from its root (`ovl_lookup_layer`)."""
        if not data.name.startswith(b"/"):
            return self._single(base, data, data.name, b"", b"", layer)
        node, rest = self._top[layer].node, data.name.lstrip(b"/")
        for _ in range(_MOST_NAMES):
            before = data.name[: len(data.name) - len(rest)]
            name, slash, rest = rest.partition(b"/")
            found = self._single(node, data, name, before, slash + rest, layer)
            if found is None or not slash or found.kind != "directory":
                return found
            node = found
        return None

    def _single(
        self, base: Node, data: _Lookup, name: bytes, before: bytes, after: bytes, layer: int
    ) -> Node | None:
        """One name in a directory of a layer (`ovl_lookup_single`).

        Args:
            base: the directory.
            data: what is known so far.
            name: the name.
            before: what is in front of it in a path.
            after: what is after it.
            layer: number of the layer.
        """
        listed = self.listing(base)
        node = listed.get(name)
        if node is None:
            data.is_stopped |= self._is_hidden(listed, name)
            return None
        if self._is_whiteout(node, layer):
            data.is_stopped = True
            return None
        is_last = not after
        if is_last and data.is_metacopy and node.kind != "file":
            data.is_stopped = True
            return None
        if node.kind != "directory":
            if data.is_directory or not is_last:
                data.is_stopped = True
                return None
            data.is_metacopy = self.is_metacopy(node)
            data.is_stopped = not data.is_metacopy
            if data.is_stopped:
                return node
        else:
            data.is_directory |= is_last
            if self._is_opaque(node):
                data.is_stopped = True
                return node
        self._follow_redirect(node, data, before, after)
        return node

    def _follow_redirect(self, node: Node, data: _Lookup, before: bytes, after: bytes) -> None:
        """Take the name that a file has in lower layers (`ovl_check_redirect`)."""
        redirect = b"" if self._is_unprivileged else self._value(node, b"redirect")
        if not redirect or b"\0" in redirect:
            return
        if redirect.startswith(b"/"):
            data.is_stopped = False
            data.name = redirect + after
        elif b"/" in redirect:
            data.is_stopped = True
            return
        else:
            data.name = before + redirect + after
        data.is_redirected = True

    def _key(self, name: bytes) -> bytes:
        return self.prefix + name

    def _value(self, node: Node, name: bytes) -> bytes:
        return attributes_of(node).get(self._key(name), b"")

    def _is_whiteout(self, node: Node, layer: int) -> bool:
        if is_whiteout(node):
            return True
        is_empty = node.kind == "file" and not node.size and layer > 0
        return is_empty and self._key(b"whiteout") in attributes_of(node)

    def _is_hidden(self, listed: dict[bytes, Node], name: bytes) -> bool:
        return self._is_unprivileged and (_HIDDEN + name in listed or _OPAQUE_MARK in listed)

    def _is_opaque(self, node: Node) -> bool:
        if self._value(node, b"opaque")[:1] == b"y":
            return True
        if not self._is_unprivileged:
            return False
        return attributes_of(node).get(_FUSE_OPAQUE, b"") == b"y"

    def _indexed(self, parts: tuple[LayerNode, ...]) -> tuple[LayerNode, ...]:
        """The upper file of a lower hard link that was copied up under another name."""
        if not parts or not parts[0].layer or parts[0].node.kind == "directory" or not self._index:
            return parts
        identity = parts[0].node.id
        upper = self._index.get((identity.inode, identity.generation))
        if upper is None or upper.kind != parts[0].node.kind:
            return parts
        lower = parts if self.is_metacopy(upper) else ()
        return (LayerNode(0, upper), *lower)

    @cached_property
    def _index(self) -> dict[_Handle, Node]:
        """The files of the index by the inode and generation of the lower file."""
        found: dict[_Handle, Node] = {}
        for node in () if self._index_folder is None else _children(self._index_folder):
            try:
                handle = parse_handle(bytes.fromhex(node.name.decode("ascii", "replace")))
            except (CorruptError, ValueError):
                continue
            if handle.inode is not None and handle.generation is not None and not is_whiteout(node):
                found[handle.inode, handle.generation] = node
        return found


def _children(node: Node) -> list[Node]:
    """The files of a directory; none where it cannot be read."""
    try:
        return list(node.children())
    except (AccessError, CorruptError):
        return []
