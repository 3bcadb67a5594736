"""Which Linux roots have a path of the image, in one of their layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from ext4kit.roots.model import LinuxRoot


class LayerRoots:
    """The roots within an image, by the paths of their layers.

    Args:
        find: gives all roots; called when a path is first asked for.
    """

    def __init__(self, find: Callable[[], Iterable[LinuxRoot]]) -> None:
        self._find = find

    @cached_property
    def _by_layer(self) -> dict[bytes, list[str]]:
        found: dict[bytes, list[str]] = {}
        for root in self._find():
            for layer in root.layers if not root.is_own else ():
                found.setdefault(layer.rstrip(b"/"), []).append(root.name)
        return found

    def names(self, path: bytes) -> list[str]:
        """Names of the roots that have a path; those of the innermost layer."""
        while path := path.rpartition(b"/")[0]:
            if path in self._by_layer:
                return self._by_layer[path]
        return []


NO_ROOTS = LayerRoots(tuple)


def paths_in_root(root: LinuxRoot, roots: Iterable[LinuxRoot]) -> Callable[[bytes], bytes | None]:
    """What gives the path in a root of a path of the image, None for one outside of it.

    A root has what lies in its layers. The system of the image itself has what lies in no layer of
    another root.

    Args:
        root: the root.
        roots: all roots of the image.
    """
    if root.is_own:
        others = LayerRoots(lambda: roots)
        return lambda path: None if others.names(path) else path
    layers = tuple(layer.rstrip(b"/") + b"/" for layer in root.layers)

    def inside(path: bytes) -> bytes | None:
        if not path.startswith(layers):
            return None
        return next(path[len(one) - 1 :] for one in layers if path.startswith(one))

    return inside
