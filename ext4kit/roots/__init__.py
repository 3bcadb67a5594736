"""Linux roots within an image: containers, their images, chroots, snapshots."""

from ext4kit.roots.finding import find_roots, root_named, root_view
from ext4kit.roots.model import Distribution, LinuxRoot, RootKind

__all__ = ["Distribution", "LinuxRoot", "RootKind", "find_roots", "root_named", "root_view"]
