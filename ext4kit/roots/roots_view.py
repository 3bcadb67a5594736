"""All Linux roots of an image as one tree: `/web/etc/passwd`, `/box/etc/passwd`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from ext4kit.fields import FileType
from ext4kit.filesystem.view import Node, NodeId, View
from ext4kit.roots.finding import find_roots, root_view
from ext4kit.roots.model import LinuxRoot
from ext4kit.workspace import Workspace


@dataclass(frozen=True)
class _AllRoots(Node):
    """The directory of all roots, found when it is first read."""

    workspace: Workspace = field(kw_only=True, repr=False, compare=False)

    @property
    def kind(self) -> FileType:
        """A directory."""
        return "directory"

    @cached_property
    def _by_name(self) -> dict[bytes, LinuxRoot]:
        roots = find_roots(self.workspace)
        inner = (root for root in roots if not root.is_own)
        return {root.name.encode("utf-8", "surrogateescape"): root for root in inner}

    def children(self) -> Iterable[Node]:
        """The root directories, by name."""
        return (node for name in sorted(self._by_name) if (node := self.child(name)) is not None)

    def child(self, name: bytes) -> Node | None:
        """The root directory of a root."""
        root = self._by_name.get(name)
        return None if root is None else root_view(self.workspace.fs, root, b"/" + name).root


class RootsView(View):
    """The roots below the root directory, each as a directory with its name.

    Args:
        workspace: of the file system.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_AllRoots(NodeId("roots"), b"/", workspace=workspace))
