"""Two views joined into one tree, such as the live and the deleted files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ext4kit.fields import FileType
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Node, View, free_name
from ext4kit.reasons import Reason


@dataclass(frozen=True)
class JoinedNode(Node):
    """A node of one of two views, and the directory with the same path in the other view.

    Attributes:
        own: the node.
        other: the directory in the other view; None if there is none.
    """

    own: Node = field(kw_only=True, repr=False, compare=False)
    other: Node | None = field(default=None, kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, path: bytes, own: Node, other: Node | None = None) -> JoinedNode:
        """The node for a path of the joined tree."""
        return cls(own.id, path, own.inode, own=own, other=other)

    @property
    def kind(self) -> FileType:
        """File type."""
        return self.own.kind

    @property
    def size(self) -> int | None:
        """Bytes, None if unknown."""
        return self.own.size

    @property
    def further_paths(self) -> tuple[bytes, ...]:
        """Other full paths that the file had."""
        return (*(() if self.own.path == self.path else (self.own.path,)), *self.own.further_paths)

    @property
    def deletion_time(self) -> int | None:
        """Time of the deletion, ns."""
        return self.own.deletion_time

    @property
    def grade(self) -> str | None:
        """Grade of a deleted file."""
        return self.own.grade

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the content is uncertain or incomplete."""
        return self.own.reasons

    def children(self) -> Iterable[Node]:
        """The nodes in the directory in either view, by name; a second one of a name gets `~2`."""
        above = self.path.rstrip(b"/") + b"/"
        mine = {node.name: node for node in self.own.children()}
        others = {} if self.other is None else {n.name: n for n in self.other.children()}
        found = {}
        for name, node in mine.items():
            other = others.get(name)
            are_folders = other is not None and {node.kind, other.kind} == {"directory"}
            found[name] = JoinedNode.of(
                above + name, node, others.pop(name) if are_folders else None
            )
        for name, node in others.items():
            free = free_name(name, found)
            found[free] = JoinedNode.of(above + free, node)
        return (node for _, node in sorted(found.items()))

    def child(self, name: bytes) -> Node | None:
        """The node with a given name in the directory; None for none."""
        own, other = self.own.child(name), self.other.child(name) if self.other else None
        if own is None:  # may be a name with ~2
            return super().child(name) if other is None or b"~" in name else self._beside(other)
        are_folders = other is not None and {own.kind, other.kind} == {"directory"}
        return replace(self._beside(own), other=other if are_folders else None)

    def _beside(self, node: Node) -> JoinedNode:
        return JoinedNode.of(self.path.rstrip(b"/") + b"/" + node.name, node)

    def content(self) -> Content | None:
        """The bytes of a file."""
        return self.own.content()

    def link_target(self) -> bytes | None:
        """The target of a symlink."""
        return self.own.link_target()

    def xattrs(self) -> Mapping[bytes, bytes]:
        """Extended attributes."""
        return self.own.xattrs()


def own_node(node: Node) -> Node:
    """The node itself; for a node of a joined tree, the node of the view that it came from."""
    while isinstance(node, JoinedNode):
        node = node.own
    return node


def joined(first: View, second: View) -> View:
    """Join two views; a name that is in both stays in the first and gets `~2` in the second."""
    return View(JoinedNode.of(b"/", first.root, second.root))
