"""Systems whose packages are checked: the file system itself, a directory, an inner Linux root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node, View
from ext4kit.packages.database import has_packages
from ext4kit.packages.roots import NodeRoot
from ext4kit.roots import LinuxRoot, root_view


@dataclass(frozen=True, slots=True)
class PackagedSystem:
    """A system with its files.

    Attributes:
        fs: the file system.
        node: its root directory; of layers of overlayfs, the merged one.
        root: the Linux root within the image; None for the file system itself or a directory.
    """

    fs: FileSystem
    node: Node
    root: LinuxRoot | None = None

    @property
    def name(self) -> str:
        """Name of the Linux root; "" without one."""
        return "" if self.root is None else self.root.name

    @property
    def files(self) -> NodeRoot:
        """Reads its files."""
        has_upper = self.root is None or self.root.has_upper
        return NodeRoot(self.node, self.fs.problems, has_upper)

    @property
    def is_partial(self) -> bool:
        """Whether the image lacks some of its layers."""
        if self.root is None:
            return False
        is_short = len(self.node.content_inodes) < len(self.root.layers)
        return is_short or bool(self.root.missing)

    def place(self, path: bytes) -> bytes:
        """Path in the image of one of its files: in the layer that has it."""
        if self.root is None:
            return self.node.path.rstrip(b"/") + path
        try:
            node = View(self.node).lookup(path)
        except Ext4kitError:
            return self.root.place.rstrip(b"/") + path
        return node.layer_path or node.path


def system_at(fs: FileSystem, path: bytes = b"/") -> PackagedSystem:
    """The system below a directory.

    Raises:
        NotFoundError: there is no such directory.
    """
    return PackagedSystem(fs, LiveView(fs).lookup(path))


def system_of(fs: FileSystem, root: LinuxRoot) -> PackagedSystem:
    """The system of a Linux root.

    Raises:
        NotFoundError: it is not there any more.
    """
    if root.is_own:
        return system_at(fs)
    return PackagedSystem(fs, root_view(fs, root).root, root)


def packaged_systems(fs: FileSystem, roots: Iterable[LinuxRoot]) -> Iterator[PackagedSystem]:
    """The systems that have a database of packages, the file system itself first.

    Args:
        fs: the file system.
        roots: its Linux roots.
    """
    inner = (system_of(fs, root) for root in roots if not root.is_own)
    for system in (system_at(fs), *inner):
        if has_packages(system.files):
            yield system
